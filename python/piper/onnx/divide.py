"""How the division of a tensor over devices passes through an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd

from piper.onnx.graph import Shape, Step, Value, count
from piper.onnx.rules import rule_of


@dataclass(frozen=True, slots=True)
class Shard:
    """How a value is divided.

    Attributes:
        axis: the divided axis, counted from 0.
        divides: what a degree must divide.
        origins: positions of the column-parallel products that it comes from.
        outer: the axis is ``[outer, divided, rest]``: parts that lie side by side, such as query, key and value of
        one
            product, each divided by itself.
    """

    axis: int
    divides: int
    origins: frozenset[int]
    outer: int = 1


Shards = dict[Value, Shard]
Follow = Callable[[Step, Shards], "list[Shard | None] | None"]
"""Takes a step and the divided values, returns how each output is divided, or None where it cannot be said."""


def follow_rule(step: Step) -> Follow | None:
    """The rule of an operator, or None for one that no division passes."""
    rule = _FOLLOW.get(step.node.op_type)
    known = rule_of(step)
    if rule is None and known is not None and known.name in ("elementwise", "view"):
        return _elementwise
    return rule


def _only(step: Step, shards: Shards) -> tuple[Value, Shard]:
    value = step.inputs[0]
    if value is None or value not in shards:
        raise ValueError("the first input is not the divided one")
    return value, shards[value]


def _elementwise(step: Step, shards: Shards) -> list[Shard | None] | None:
    """All operands divided alike, or too small along the axis to be divided."""
    rank = len(step.outputs[0].shape)
    found: Shard | None = None
    for value in step.live_inputs:
        if value in shards:
            shard = shards[value]
            axis = shard.axis + rank - len(value.shape)
            if found is not None and (found.axis, found.outer) != (axis, shard.outer):
                return None
            found = replace(shard, axis=axis, divides=gcd(shard.divides, found.divides if found else 0))
    if found is None:
        return None
    for value in step.live_inputs:
        place = found.axis - rank + len(value.shape)
        if value not in shards and place >= 0 and value.shape[place] != 1 and not _by_heads(value.shape, place):
            return None
    shape = step.outputs[0].shape
    return [found if out.shape == shape else None for out in step.outputs]


def _by_heads(shape: Shape, axis: int) -> bool:
    """Whether `axis` counts attention heads: of a score bias or a key-value cache, a device uses its part."""
    return len(shape) == 4 and axis == 1


def _along(axis_default: int, *, to_end: bool) -> Follow:
    """Operators that work along an axis, which must not be the divided one."""

    def rule(step: Step, shards: Shards) -> list[Shard | None] | None:
        value, shard = _only(step, shards)
        axis = step.node.integer("axis", axis_default) % len(value.shape)
        if shard.axis == axis or (to_end and shard.axis > axis):
            return None
        return _elementwise(step, shards)

    return rule


def _reduce(step: Step, shards: Shards) -> list[Shard | None] | None:
    value, shard = _only(step, shards)
    axes_value = step.input(1)
    given = step.node.integers("axes")
    if axes_value is not None:
        given = None if axes_value.data is None else [int(axis) for axis in axes_value.data.reshape(-1)]
    if not given:
        return None
    axes = {axis % len(value.shape) for axis in given}
    if shard.axis in axes:
        return None
    keep = step.node.integer("keepdims", 1)
    return [shard if keep else replace(shard, axis=shard.axis - sum(axis < shard.axis for axis in axes))]


def _transpose(step: Step, shards: Shards) -> list[Shard | None] | None:
    value, shard = _only(step, shards)
    permutation = step.node.integers("perm") or list(range(len(value.shape)))[::-1]
    return [replace(shard, axis=permutation.index(shard.axis))]


def _matmul(step: Step, shards: Shards) -> list[Shard | None] | None:
    """A product of activations: divided by batch, rows or columns."""
    left, right, out = step.inputs[0], step.inputs[1], step.outputs[0]
    if left is None or right is None or left.constant or right.constant:
        return None
    rank = len(out.shape)
    first = _from_end(shards.get(left), left)
    second = _from_end(shards.get(right), right)
    if step.node.integer("transB") and second is not None:
        second = {-1: -2, -2: -1}.get(second, second)
    if first == -1 or second == -2 or step.node.integer("transA") or step.node.integer("transBatchB"):
        return None
    axis = first if first is not None else second
    if axis is None:
        return None
    if first is not None and second is not None and (first != second or first > -3):
        return None
    if axis <= -3 and (first is None or second is None):
        whole = right if second is None else left
        if len(whole.shape) >= -axis and whole.shape[axis] != 1:
            return None
    present = [shards[value] for value in (left, right) if value in shards]
    if len({shard.outer for shard in present}) > 1:
        return None
    return [replace(present[0], axis=rank + axis, divides=gcd(*(shard.divides for shard in present)))]


def _from_end(shard: Shard | None, value: Value) -> int | None:
    return None if shard is None else shard.axis - len(value.shape)


def _expand(step: Step, shards: Shards) -> list[Shard | None] | None:
    value, shard = _only(step, shards)
    axis = shard.axis + len(step.outputs[0].shape) - len(value.shape)
    return [replace(shard, axis=axis)] if step.outputs[0].shape[axis] == value.shape[shard.axis] else None


def _pieces(step: Step, shards: Shards) -> list[Shard | None] | None:
    """``Split`` and ``Slice``: along another axis, or into parts that were laid out to be divided each by itself."""
    value, shard = _only(step, shards)
    result: list[Shard | None] = []
    for out in step.outputs:
        size = out.shape[shard.axis]
        if size == value.shape[shard.axis]:
            result.append(shard)
        else:
            result.append(replace(shard, divides=gcd(shard.divides, size), outer=1))
    return result


def _concat(step: Step, shards: Shards) -> list[Shard | None] | None:
    """Parts divided alike, along another axis; a cache that comes in as an input is divided the same way."""
    axis = step.node.integer("axis") % len(step.outputs[0].shape)
    found: Shard | None = None
    for value in step.live_inputs:
        shard = shards.get(value)
        if shard is None and axis != 1 and len(value.shape) == 4:
            continue
        if shard is None or shard.axis == axis or (found and (found.axis, found.outer) != (shard.axis, shard.outer)):
            return None
        found = replace(shard, divides=gcd(shard.divides, found.divides if found else 0))
    whole = any(value not in shards for value in step.live_inputs)
    return None if whole and found is not None and not _by_heads(step.outputs[0].shape, found.axis) else [found]


def _gather(step: Step, shards: Shards) -> list[Shard | None] | None:
    """One part of several, along another axis."""
    _, shard = _only(step, shards)
    value, indices = step.inputs[0], step.inputs[1]
    if value is None or indices is None or not indices.constant:
        return None
    axis = step.node.integer("axis") % len(value.shape)
    if axis == shard.axis:
        return None
    return [shard if axis > shard.axis else replace(shard, axis=shard.axis - 1 + len(indices.shape))]


def _reshape(step: Step, shards: Shards) -> list[Shard | None] | None:
    value = step.live_inputs[0]
    shard = _reshaped(shards[value], value.shape, step.outputs[0].shape)
    return None if shard is None else [shard]


def _reshaped(shard: Shard, before: Shape, after: Shape) -> Shard | None:
    """Where the divided axis is under another shape."""
    low, high = _group(before, after, shard.axis)
    if low is None or high is None:
        return None
    start, end = high
    outer = shard.outer * count(before[low[0] : shard.axis])
    passed = 1
    for axis in range(start, end):
        inner = outer // passed
        if inner == 1 and after[axis] != 1:
            return replace(shard, axis=axis, divides=gcd(shard.divides, after[axis]), outer=1)
        if 1 < inner < after[axis]:
            if outer % passed or after[axis] % inner:
                return None
            return replace(shard, axis=axis, divides=gcd(shard.divides, after[axis] // inner), outer=inner)
        passed *= after[axis]
    return None


def _group(before: Shape, after: Shape, axis: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The smallest ranges of axes of both shapes with the same elements, the first of which contains `axis`."""
    i = j = 0
    while i < len(before) or j < len(after):
        start_i, start_j = i, j
        left = before[i] if i < len(before) else 1
        right = after[j] if j < len(after) else 1
        i, j = i + 1, j + 1
        while left != right:
            if left < right and i < len(before):
                left *= before[i]
                i += 1
            elif right < left and j < len(after):
                right *= after[j]
                j += 1
            else:
                return None, None
        if start_i <= axis < i:
            return (start_i, min(i, len(before))), (start_j, min(j, len(after)))
    return None, None


def _attention(step: Step, shards: Shards) -> list[Shard | None] | None:
    """A fused attention operator on projections that are all divided by heads."""
    operands = [value for value in step.inputs[:3] if value is not None and not value.constant]
    if not all(value in shards for value in operands):
        return None
    shard = shards[operands[0]]
    heads = step.node.integer("num_heads", step.node.integer("q_num_heads", 0)) or operands[0].shape[1]
    kv_heads = step.node.integer("kv_num_heads", heads) or heads
    divides = gcd(heads, kv_heads, *(shards[value].divides for value in operands))
    if any(shards[value].axis not in (1, len(value.shape) - 1) for value in operands):
        return None
    first: Shard | None = replace(shard, divides=divides)
    rest = [replace(shard, axis=1, divides=divides) if len(out.shape) == 4 else None for out in step.outputs[1:]]
    return [first, *rest]


_FOLLOW: dict[str, Follow] = {
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _reshape,
    "FusedMatMul": _matmul,
    "Gather": _gather,
    "GroupQueryAttention": _attention,
    "LayerNormalization": _along(-1, to_end=True),
    "LogSoftmax": _along(-1, to_end=False),
    "MatMul": _matmul,
    "MultiHeadAttention": _attention,
    "Attention": _attention,
    "RMSNormalization": _along(-1, to_end=True),
    "ReduceMax": _reduce,
    "ReduceMean": _reduce,
    "ReduceMin": _reduce,
    "ReduceSum": _reduce,
    "Reshape": _reshape,
    "SimplifiedLayerNormalization": _along(-1, to_end=True),
    "Slice": _pieces,
    "Softmax": _along(-1, to_end=False),
    "Split": _pieces,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
"""Operator type to how a division passes through it; elementwise operators need no entry."""
