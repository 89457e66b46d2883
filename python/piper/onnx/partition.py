"""Tensor parallelism found in the operators of a layer (Shoeybi et al., Megatron-LM, 2019, section 3).

A product with a weight may be split by output columns; what is made of its result is then divided along an axis, and
the division is followed through the layer: reshaped into heads, transposed, through the products of attention,
elementwise, until a second product with a weight consumes it by rows and its sum over devices is whole again. A
product whose result cannot be followed that far stays replicated. No name and no pattern of a particular model is
looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from piper.model import Partition
from piper.onnx.graph import Kind, Shape, Step, Value, count
from piper.onnx.rules import rule_of, weights

MAX_DEGREE = 64
VOCABULARY_MULTIPLE = 128
"""Vocabularies are padded to a multiple of this before they are split, as Megatron-LM does."""
MAX_FOLLOWED = 400_000
"""Operators looked at for one layer, all attempts together; what is not settled by then stays whole."""
MIN_VOCABULARY = 1024
"""Fewer rows or columns than this are no vocabulary."""


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


@dataclass(frozen=True, slots=True)
class Placement:
    """What tensor parallelism does to one step."""

    partition: Partition = Partition.REPLICATED
    divides: int = 1


class _ConflictError(Exception):
    """The division of `origins` cannot be followed."""

    def __init__(self, origins: frozenset[int]) -> None:
        super().__init__()
        self.origins = origins


Shards = dict[Value, Shard]


def partition_layer(
    steps: Sequence[Step], places: Sequence[int], leaving: set[Value], outputs: set[Value]
) -> dict[int, Placement]:
    """Placements of the steps of one layer by position; those that are missing are replicated.

    Args:
        steps: all steps.
        places: those of the layer, in order.
        leaving: values that other layers read.
        outputs: results of the network.
    """
    follower = _Follower(steps, places, leaving, outputs)
    outer: dict[int, int] = {}
    for _ in range(min(4 * len(places) + 4, MAX_FOLLOWED // max(1, len(places)) + 8)):
        try:
            return follower.follow(outer)
        except _ConflictError as conflict:
            for origin in conflict.origins:
                outer[origin] = follower.next_try(origin, outer.get(origin, 1))
    return {}


def degrees(placements: Sequence[Placement]) -> tuple[int, ...]:
    """Powers of two that divide whatever the operators of a layer divide."""
    common = 0
    for placement in placements:
        if placement.partition is not Partition.REPLICATED:
            common = gcd(common, placement.divides)
    result = []
    degree = 1
    while degree <= MAX_DEGREE and common % degree == 0:
        result.append(degree)
        degree *= 2
    return tuple(result)


class _Follower:
    def __init__(
        self, steps: Sequence[Step], places: Sequence[int], leaving: set[Value], outputs: set[Value]
    ) -> None:
        self._steps = steps
        self._places = places
        self._leaving = leaving
        self._outputs = outputs
        self._experts = {steps[place].outputs[0]: place for place in places if _is_expert_lookup(steps[place])}
        self._scores = self._vocabulary_scores()

    def _vocabulary_scores(self) -> set[Value]:
        """Values that become results of the network by elementwise operators only."""
        scores = set(self._outputs)
        for place in reversed(self._places):
            step = self._steps[place]
            rule = rule_of(step)
            if rule is not None and rule.name in ("elementwise", "view") and scores.intersection(step.outputs):
                scores.update(step.live_inputs)
        return scores

    def next_try(self, origin: int, outer: int) -> int:
        """Another reading of a column-parallel product, 0 for none."""
        columns = self._steps[origin].outputs[0].shape[-1] if self._steps[origin].outputs[0].shape else 1
        choices = [1, *(parts for parts in (3, 2) if columns % parts == 0), 0]
        return choices[choices.index(outer) + 1] if outer in choices[:-1] else 0

    def follow(self, outer: Mapping[int, int]) -> dict[int, Placement]:
        """Follow all divisions once; `outer` is how each product is read, 0 where it stays whole."""
        shards: Shards = {}
        result: dict[int, Placement] = {}
        for place in self._places:
            step = self._steps[place]
            if step.kind is Kind.CONSTANT:
                continue
            placement = self._step(place, step, shards, outer, result)
            if placement.partition is not Partition.REPLICATED:
                result[place] = placement
        for value, shard in shards.items():
            if value in self._leaving or (value in self._outputs and not self._may_leave(value, shard)):
                raise _ConflictError(shard.origins)
        return result

    def _may_leave(self, value: Value, shard: Shard) -> bool:
        """Whether a result of the network may stay divided: scores of a vocabulary, or a key-value cache."""
        last = shard.axis == len(value.shape) - 1
        return (last and value.shape[-1] >= MIN_VOCABULARY) or (not last and len(value.shape) == 4)

    def _step(
        self, place: int, step: Step, shards: Shards, outer: Mapping[int, int], result: dict[int, Placement]
    ) -> Placement:
        if _is_embedding(step):
            rows = step.inputs[0].shape[0] if step.inputs[0] is not None else 1
            return Placement(Partition.VOCABULARY, _padded(rows))
        if step.kind is Kind.LIVE and _is_projection(step):
            return self._projection(place, step, shards, outer)
        expert = self._expert(step)
        if expert is not None:
            return self._expert_product(place, step, shards, outer, result, expert)
        return _followed(step, shards)

    def _projection(self, place: int, step: Step, shards: Shards, outer: Mapping[int, int]) -> Placement:
        """A product with a weight: column-parallel on whole inputs, row-parallel on divided ones."""
        source, out = step.inputs[0], step.outputs[0]
        shard = shards.get(source) if source is not None else None
        if shard is not None and source is not None:
            if shard.axis != len(source.shape) - 1 or step.node.op_type == "Attention":
                raise _ConflictError(shard.origins)
            return Placement(Partition.ROW, shard.divides)
        parts = outer.get(place, 1)
        if parts == 0 or not out.shape:
            return Placement()
        columns = out.shape[-1] // parts
        if step.node.op_type == "Attention":
            columns = max(1, step.node.integer("num_heads", 1))
        elif out in self._scores and columns >= MIN_VOCABULARY:
            columns = _padded(columns)
        shards[out] = Shard(len(out.shape) - 1, columns, frozenset({place}), parts)
        return Placement(Partition.COLUMN, columns)

    def _expert(self, step: Step) -> tuple[Value, Value] | None:
        """The weights of chosen experts and what they are applied to."""
        if step.kind is not Kind.LIVE or step.node.op_type != "MatMul" or len(step.live_inputs) != 2:
            return None
        left, right = step.live_inputs
        return (left, right) if left in self._experts and len(right.shape) == len(left.shape) else None

    def _expert_product(
        self,
        place: int,
        step: Step,
        shards: Shards,
        outer: Mapping[int, int],
        result: dict[int, Placement],
        operands: tuple[Value, Value],
    ) -> Placement:
        """As a projection, the weights being looked up for each token: ``[tokens, out, in] x [tokens, in, 1]``."""
        weight, source = operands
        axis = len(weight.shape) - 2
        shard = shards.get(source)
        if shard is not None:
            if shard.axis != axis:
                raise _ConflictError(shard.origins)
            result[self._experts[weight]] = Placement(Partition.EXPERT, shard.divides)
            return Placement(Partition.ROW, shard.divides)
        if outer.get(place, 1) == 0:
            return Placement()
        rows = weight.shape[axis]
        shards[step.outputs[0]] = Shard(axis, rows, frozenset({place}))
        result[self._experts[weight]] = Placement(Partition.EXPERT, rows)
        return Placement(Partition.COLUMN, rows)


def _padded(rows: int) -> int:
    return -(-rows // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


def _is_embedding(step: Step) -> bool:
    table, indices = step.input(0), step.input(1)
    if step.node.op_type != "Gather" or step.kind is not Kind.LIVE or table is None or indices is None:
        return False
    rows = table.weights and len(table.shape) == 2 and table.shape[0] >= MIN_VOCABULARY
    return bool(rows) and not indices.constant and step.node.integer("axis") == 0


def _is_expert_lookup(step: Step) -> bool:
    """Whether `step` picks matrices of experts for each token."""
    table, indices = step.input(0), step.input(1)
    lookup = step.kind is Kind.LIVE and step.node.op_type in ("Gather", "GatherND") and table is not None
    return bool(
        lookup and table is not None and table.weights and len(table.shape) == 3 and indices and not indices.constant
    )


def _is_projection(step: Step) -> bool:
    """Whether `step` multiplies an activation by a matrix of parameters."""
    source, weight = step.input(0), step.input(3 if step.node.op_type == "QLinearMatMul" else 1)
    if source is None or weight is None or source.constant or not weight.constant or not weights(step):
        return False
    match step.node.op_type:
        case "MatMul" | "QLinearMatMul" | "MatMulInteger" | "DynamicQuantizeMatMul" | "MatMulIntegerToFloat":
            return len(weight.shape) == 2 and len(source.shape) > 1
        case "FusedMatMul":
            return len(weight.shape) == 2 and not step.node.integer("transA") and not step.node.integer("transBatchA")
        case "Gemm" | "FusedGemm":
            return not step.node.integer("transA")
        case "MatMulNBits" | "MatMulBnb4" | "MatMulFpQ4":
            return True
        case "Attention":
            return step.node.domain == "com.microsoft"
    return False


def _followed(step: Step, shards: Shards) -> Placement:
    """Pass divisions of inputs on to outputs by the rule of the operator."""
    divided = [value for value in step.live_inputs if value in shards]
    if not divided:
        return Placement()
    origins = frozenset().union(*(shards[value].origins for value in divided))
    rule = _FOLLOW.get(step.node.op_type)
    known = rule_of(step)
    if rule is None and known is not None and known.name in ("elementwise", "view"):
        rule = _elementwise
    if rule is None or step.body:
        raise _ConflictError(origins)
    try:
        outputs = rule(step, shards)
    except (IndexError, ValueError, ZeroDivisionError, TypeError):
        outputs = None
    if outputs is None:
        raise _ConflictError(origins)
    divides = 0
    for value, shard in zip(step.outputs, outputs, strict=False):
        if shard is not None:
            shards[value] = replace(shard, origins=origins)
            divides = gcd(divides, shard.divides)
    return Placement(Partition.SHARDED, divides)


Follow = Callable[[Step, Shards], "list[Shard | None] | None"]


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
