"""What a value is made from: parameters, constants, or the input of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from piper.model import Tensor
from piper.onnx.fold import DATA_SIZED
from piper.onnx.graph import FLOATS, Kind, Node, Value, count

if TYPE_CHECKING:
    import numpy as np

VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
"""Operators whose output is their first input's bytes."""
LAYOUTS = VIEWS | {"Transpose", "Cast", "CastLike", "DequantizeLinear", "Slice", "Split", "Expand"}
"""Operators that make no new parameter from a parameter."""
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
LOOKUPS = frozenset({"Gather", "GatherND", "GatherElements"})


def measured(node: Node, value: Value | None) -> Value:
    """``Shape`` or ``Size`` of a value whose shape is known."""
    import numpy as np

    if value is None:
        raise ValueError("input 0 is missing")
    if node.op_type == "Size":
        array = np.asarray(count(value.shape), dtype=np.int64)
    else:
        rank = len(value.shape)
        start, end = node.integer("start"), node.integer("end", rank)
        array = np.asarray(value.shape[slice(start, end)], dtype=np.int64)
    return Value(node.outputs[0], 7, tuple(array.shape), constant=True, data=array)


def constant_value(node: Node, name: str, array: np.ndarray[Any, Any], inputs: list[Value | None]) -> Value:
    """A constant whose elements are known, with the parameters that it was made from."""
    from onnx import helper

    value = Value(name, helper.np_dtype_to_tensor_dtype(array.dtype), tuple(array.shape), constant=True, data=array)
    inherit(node, value, inputs)
    if node.op_type in ("Constant", "ConstantOfShape"):
        _as_parameter(node, value, inputs)
    return value


def inherit(node: Node, value: Value, inputs: list[Value | None]) -> None:
    """Give a constant the parameters that it was made from."""
    value.constant = True
    present = [source for source in inputs if source is not None]
    if node.op_type in LAYOUTS:
        sources = present[:2] if node.op_type == "DequantizeLinear" else present[:1]
        value.stored = sources[0].stored if sources else None
        value.weights = tuple(dict.fromkeys(weight for source in sources for weight in source.weights))
        if node.op_type == "DequantizeLinear" and value.stored is not None:
            value.weights = tuple(dict.fromkeys((value.stored, *value.weights)))
    elif node.op_type == "ConstantOfShape":
        _as_parameter(node, value, inputs)
    else:
        kept = (weight for source in present if source.proto or source.stored for weight in source.weights)
        value.weights = tuple(dict.fromkeys(kept))


def _as_parameter(node: Node, value: Value, inputs: list[Value | None]) -> None:
    """Take a float tensor of a fixed size for a parameter: some writers keep them so. A mask's size is computed."""
    fixed = all(source is None or source.stored is not None for source in inputs)
    if value.dtype in FLOATS and count(value.shape) > 1 and fixed:
        value.stored = Tensor(node.outputs[0], value.dtype, value.shape)
        value.weights = (value.stored,)


def is_lookup(node: Node, inputs: list[Value | None]) -> bool:
    """Whether `node` reads rows of a parameter: an embedding, which runs even where its indices are constant."""
    table = inputs[0] if inputs else None
    return node.op_type in LOOKUPS and table is not None and bool(table.weights) and len(table.shape) > 1


def kind_of(node: Node, inputs: list[Value | None], outputs: tuple[Value, ...]) -> Kind:
    """Whether a node runs, only looks at its input differently, or was done once and for all."""
    if node.domain == "" and node.op_type in RANDOM:
        return Kind.LIVE
    if all(value is None or value.constant for value in inputs) and node.inputs:
        return (
            Kind.LIVE
            if is_lookup(node, inputs) or node.domain not in ("", "ai.onnx.ml", "com.microsoft")
            else Kind.CONSTANT
        )
    first = inputs[0] if inputs else None
    if node.domain != "" or first is None:
        return Kind.LIVE
    if node.op_type in VIEWS or (node.op_type == "Cast" and outputs[0].elem_type == first.elem_type):
        return Kind.VIEW
    if node.op_type == "Expand" and count(outputs[0].shape) == count(first.shape):
        return Kind.VIEW
    return Kind.LIVE


def spread_rarity(node: Node, inputs: list[Value | None], outputs: tuple[Value, ...]) -> None:
    """Follow one-hot values, which tell how many elements of a mask are set: a mixture's choice of experts."""
    first = inputs[0] if inputs else None
    if node.op_type == "OneHot" and len(inputs) > 1 and inputs[1] is not None and inputs[1].data is not None:
        outputs[0].rarity = max(1, int(inputs[1].data.reshape(-1)[0]))
    elif first is not None and node.op_type in LAYOUTS | LOOKUPS:
        for value in outputs:
            value.rarity = first.rarity


def default_size(node: Node, axis: int, inputs: list[Value | None]) -> int:
    """What an open size is supposed to be: as large as it can get where that is known, else as in the first input."""
    first = next((value for value in inputs if value is not None), None)
    if first is None:
        return 1
    if node.op_type in DATA_SIZED:
        return -(-count(first.shape) // first.rarity)
    if node.op_type == "NonMaxSuppression" and len(inputs) > 1 and inputs[1] is not None:
        limit = inputs[2].data if len(inputs) > 2 and inputs[2] is not None else None
        boxes = first.shape[1]
        each = min(boxes, int(limit.reshape(-1)[0])) if limit is not None and limit.size else boxes
        return inputs[1].shape[0] * inputs[1].shape[1] * each
    return first.shape[axis] if axis < len(first.shape) else 1
