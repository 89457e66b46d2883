"""Shape arithmetic with real values: what each operator does to a few numbers.

Half of the nodes that exporters write compute shapes. The operators that do so are here; the ONNX reference evaluator
does the rest. Nothing is folded whose result has more than `MAX_DATA` elements.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from piper.onnx.graph import MAX_DATA, Node

Array = np.ndarray[Any, Any]
Folder = Callable[[Node, list[Array | None]], list[Array]]

DATA_SIZED = frozenset({"NonZero", "Unique", "Compress"})
"""Operators whose output shape follows from the values of their input; it is never larger than the input."""

EXPENSIVE = frozenset(
    {"Einsum", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "ImageDecoder", "LSTM", "GRU", "RNN"}
)
"""Operators whose work is not bounded by the size of what they read and write."""


class TooLargeError(Exception):
    """The result has more elements than are worth keeping."""


def fold(node: Node, inputs: list[Array | None]) -> list[Array] | None:
    """Outputs of `node` for constant `inputs`, or None where it has no folder here or they would be large."""
    folder = FOLDERS.get(node.op_type) if node.domain == "" else None
    if folder is None:
        return None
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = folder(node, inputs)
    except (TooLargeError, ArithmeticError):
        return None
    return results if all(result.size <= MAX_DATA for result in results) else None


def reference(node: Node, inputs: list[Array | None]) -> list[Array] | None:
    """The same by the ONNX reference evaluator, for operators without a folder; None where it has no answer."""
    from onnx.reference import ReferenceEvaluator

    if node.op_type in EXPENSIVE:
        return None
    feeds = {name: value for name, value in zip(node.inputs, inputs, strict=False) if value is not None}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(node.proto).run(None, feeds)
    except Exception:  # The evaluator raises whatever numpy or a missing implementation happens to raise.
        return None
    if not all(isinstance(result, np.ndarray | np.generic) for result in results):
        return None
    return [np.asarray(result) for result in results]


def _limit(size: int) -> None:
    if size > MAX_DATA:
        raise TooLargeError


def _arrays(inputs: list[Array | None]) -> list[Array]:
    return [value for value in inputs if value is not None]


def _elementwise(function: Callable[..., Any]) -> Folder:
    def folder(_: Node, inputs: list[Array | None]) -> list[Array]:
        arrays = _arrays(inputs)
        _limit(int(np.prod(np.broadcast_shapes(*(value.shape for value in arrays)))))
        return [np.asarray(function(*arrays))]

    return folder


def _divide(left: Array, right: Array) -> Array:
    """Division; of integers it truncates towards zero, as ONNX says."""
    if not np.issubdtype(left.dtype, np.integer):
        return np.asarray(np.true_divide(left, right), dtype=left.dtype)
    if np.any(right == 0):
        raise ArithmeticError("division by zero")
    quotient = np.abs(left) // np.abs(right)
    return np.asarray(np.where((left < 0) != (right < 0), -quotient, quotient), dtype=left.dtype)


def _mod(node: Node, inputs: list[Array | None]) -> list[Array]:
    left, right = _arrays(inputs)
    if np.any(right == 0):
        raise ArithmeticError("division by zero")
    return [np.asarray(np.fmod(left, right) if node.integer("fmod") else np.mod(left, right))]


def _pow(_: Node, inputs: list[Array | None]) -> list[Array]:
    base, exponent = _arrays(inputs)
    return [np.asarray(np.power(base.astype(np.float64), exponent.astype(np.float64))).astype(base.dtype)]


def _cast(node: Node, inputs: list[Array | None]) -> list[Array]:
    from onnx import helper

    return [np.asarray(_arrays(inputs)[0]).astype(helper.tensor_dtype_to_np_dtype(node.integer("to")))]


def _axes(node: Node, inputs: list[Array | None], position: int = 1) -> list[int] | None:
    """Axes as an attribute (older operator sets) or as an input."""
    if len(inputs) > position and (value := inputs[position]) is not None:
        return [int(axis) for axis in value.reshape(-1)]
    return node.integers("axes")


def _gather(node: Node, inputs: list[Array | None]) -> list[Array]:
    data, indices = _arrays(inputs)
    axis = node.integer("axis")
    _limit(indices.size * (data.size // max(1, data.shape[axis])))
    return [np.asarray(np.take(data, indices, axis=axis))]


def _slice(node: Node, inputs: list[Array | None]) -> list[Array]:
    data = _arrays(inputs[:1])[0]
    if len(inputs) > 1:
        parts = [None if value is None else [int(x) for x in value.reshape(-1)] for value in inputs[1:]]
        starts, ends, axes, steps = (parts + [None] * 4)[:4]
    else:
        starts, ends, axes, steps = (*map(node.integers, ("starts", "ends", "axes")), None)
    if starts is None or ends is None:
        raise ValueError("Slice without starts or ends")
    index: list[slice] = [slice(None)] * data.ndim
    for place, axis in enumerate(axes if axes is not None else range(len(starts))):
        step = 1 if steps is None else steps[place]
        index[axis] = _slice_of(starts[place], ends[place], step, data.shape[axis])
    return [np.asarray(data[tuple(index)])]


def _slice_of(start: int, end: int, step: int, size: int) -> slice:
    """A Python slice with ONNX's clamping: an end before the first element is written as None."""
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return slice(max(0, min(start, size)), max(0, min(end, size)), step)
    start = max(0, min(start, size - 1))
    return slice(start, None if end < 0 else min(end, size - 1), step)


def _concat(node: Node, inputs: list[Array | None]) -> list[Array]:
    arrays = _arrays(inputs)
    _limit(sum(value.size for value in arrays))
    return [np.concatenate(arrays, axis=node.integer("axis"))]


def _unsqueeze(node: Node, inputs: list[Array | None]) -> list[Array]:
    data = _arrays(inputs[:1])[0]
    axes = _axes(node, inputs) or []
    return [np.expand_dims(data, tuple(axes))]


def _squeeze(node: Node, inputs: list[Array | None]) -> list[Array]:
    data = _arrays(inputs[:1])[0]
    axes = _axes(node, inputs)
    return [np.squeeze(data) if axes is None else np.squeeze(data, axis=tuple(axes))]


def _reshape(node: Node, inputs: list[Array | None]) -> list[Array]:
    data = _arrays(inputs[:1])[0]
    target = _axes(node, inputs)
    shape = list(node.integers("shape") or []) if target is None else target
    if not node.integer("allowzero"):
        shape = [data.shape[place] if size == 0 else size for place, size in enumerate(shape)]
    return [data.reshape(shape)]


def _expand(_: Node, inputs: list[Array | None]) -> list[Array]:
    data, target = _arrays(inputs)
    shape = np.broadcast_shapes(data.shape, tuple(int(size) for size in target))
    _limit(int(np.prod(shape, dtype=object)))
    return [np.broadcast_to(data, shape)]


def _tile(_: Node, inputs: list[Array | None]) -> list[Array]:
    data, repeats = _arrays(inputs)
    _limit(data.size * int(np.prod(repeats, dtype=object)))
    return [np.tile(data, repeats)]


def _range(_: Node, inputs: list[Array | None]) -> list[Array]:
    start, limit, delta = (value.reshape(-1)[0] for value in _arrays(inputs))
    _limit(max(0, int(np.ceil((float(limit) - float(start)) / float(delta)))))
    return [np.arange(start, limit, delta, dtype=start.dtype)]


def _constant_of_shape(node: Node, inputs: list[Array | None]) -> list[Array]:
    from onnx import numpy_helper

    shape = [int(size) for size in _arrays(inputs)[0]]
    _limit(int(np.prod(shape, dtype=object)))
    value = node.attributes.get("value")
    fill = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    return [np.full(shape, fill.reshape(-1)[0], dtype=fill.dtype)]


def _reduce(function: Callable[..., Any]) -> Folder:
    def folder(node: Node, inputs: list[Array | None]) -> list[Array]:
        data = _arrays(inputs[:1])[0]
        axes = _axes(node, inputs)
        if not axes and node.integer("noop_with_empty_axes"):
            return [data]
        keep = bool(node.integer("keepdims", 1))
        result = function(data, axis=tuple(axes) if axes else None, keepdims=keep)
        return [np.asarray(result).astype(data.dtype)]

    return folder


def _transpose(node: Node, inputs: list[Array | None]) -> list[Array]:
    return [np.transpose(_arrays(inputs)[0], node.integers("perm"))]


def _split(node: Node, inputs: list[Array | None]) -> list[Array]:
    data = _arrays(inputs[:1])[0]
    axis, parts = node.integer("axis"), len(node.outputs)
    sizes = [int(x) for x in inputs[1]] if len(inputs) > 1 and inputs[1] is not None else node.integers("split")
    if sizes is None:
        each = -(-data.shape[axis] // parts)
        sizes = [each] * (parts - 1) + [data.shape[axis] - each * (parts - 1)]
    return list(np.split(data, np.cumsum(sizes)[:-1], axis=axis))


def _identity(_: Node, inputs: list[Array | None]) -> list[Array]:
    return _arrays(inputs[:1])


def _where(condition: Array, yes: Array, no: Array) -> Array:
    return np.where(condition, yes, no).astype(yes.dtype)


def _min(*values: Array) -> Array:
    result = values[0]
    for value in values[1:]:
        result = np.minimum(result, value)
    return result


def _max(*values: Array) -> Array:
    result = values[0]
    for value in values[1:]:
        result = np.maximum(result, value)
    return result


def _sum(*values: Array) -> Array:
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


FOLDERS: dict[str, Folder] = {
    "Abs": _elementwise(np.abs),
    "Add": _elementwise(np.add),
    "And": _elementwise(np.logical_and),
    "Cast": _cast,
    "Ceil": _elementwise(np.ceil),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _elementwise(_divide),
    "Equal": _elementwise(np.equal),
    "Expand": _expand,
    "Floor": _elementwise(np.floor),
    "Gather": _gather,
    "Greater": _elementwise(np.greater),
    "GreaterOrEqual": _elementwise(np.greater_equal),
    "Identity": _identity,
    "Less": _elementwise(np.less),
    "LessOrEqual": _elementwise(np.less_equal),
    "Max": _elementwise(_max),
    "Min": _elementwise(_min),
    "Mod": _mod,
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "Not": _elementwise(np.logical_not),
    "Or": _elementwise(np.logical_or),
    "Pow": _pow,
    "Range": _range,
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Sqrt": _elementwise(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract),
    "Sum": _elementwise(_sum),
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _elementwise(_where),
    "Xor": _elementwise(np.logical_xor),
}
"""Operator type to its folder. Each takes the node and its inputs (None where left out) and returns the outputs."""
