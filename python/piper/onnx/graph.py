"""The reader's own view of a graph: nodes, values, and the steps that remain once every shape is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from piper.errors import InputError
from piper.model import Tensor

if TYPE_CHECKING:
    import numpy as np
    from onnx import AttributeProto, NodeProto, TensorProto

MAX_DIMENSION = 2**31 - 1
"""Largest size of one axis that is believed."""
MAX_ELEMENTS = 2**42
"""Largest number of elements of one value that is believed (16 TiB in float32)."""
MAX_DATA = 4096
"""Tensors up to this many elements are kept with their values, for shape arithmetic."""

Shape = tuple[int, ...]

_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8", 18: "float8", 19: "float8", 20: "float8", 21: "uint4", 22: "int4", 23: "uint4", 24: "float8",
    25: "uint4", 26: "int4",
}  # fmt: skip
FLOATS = frozenset({"float64", "float32", "float16", "bfloat16", "float8"})


def dtype_name(elem_type: int, where: str) -> str:
    """Name of ``TensorProto.DataType`` `elem_type`; the 2-bit and float4 types take the name of a 4-bit one."""
    if elem_type not in _DTYPES:
        raise InputError(f"{where}: element type {elem_type} is not one of ONNX's")
    return _DTYPES[elem_type]


def count(shape: Shape) -> int:
    """Number of elements."""
    result = 1
    for size in shape:
        result *= size
    return result


def checked_shape(shape: Shape, where: str) -> Shape:
    """`shape`, unless it is larger than any tensor there is."""
    if any(size > MAX_DIMENSION or size < 0 for size in shape) or count(shape) > MAX_ELEMENTS:
        text = "x".join(map(str, shape))
        raise InputError(f"{where}: shape {text} is out of range (a dimension up to {MAX_DIMENSION} was expected)")
    return shape


@dataclass(eq=False, slots=True)
class Value:
    """A tensor with all that is known about it without running the network."""

    name: str
    elem_type: int
    """``TensorProto.DataType``."""
    shape: Shape
    constant: bool = False
    """Whether it is the same for every input of these shapes."""
    data: np.ndarray[Any, Any] | None = None
    """Its elements, where they are constant and few."""
    stored: Tensor | None = None
    """The tensor of the file that this is, or is a view of."""
    weights: tuple[Tensor, ...] = ()
    """Parameters that it was made from, for a constant."""
    proto: TensorProto | None = None
    """Where `data` can still be read from."""
    is_input: bool = False
    items: tuple[Value, ...] | None = None
    """Values of a sequence, where it is one and they are known."""
    rarity: int = 1
    """About one in so many elements is not zero."""

    @property
    def dtype(self) -> str:
        """Name of the element type."""
        return _DTYPES[self.elem_type]

    @property
    def tensor(self) -> Tensor:
        """Name, type and shape."""
        return Tensor(self.name, self.dtype, self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes, of a sequence all items together."""
        return self.tensor.bytes if self.items is None else sum(item.bytes for item in self.items)


@dataclass(eq=False)
class Node:
    """A node of the file, with its attributes as Python values."""

    name: str
    op_type: str
    domain: str
    version: int
    """Operator set version of its domain."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    proto: NodeProto = field(repr=False)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Attribute values by name; strings are decoded."""
        return {attribute.name: _attribute_value(attribute) for attribute in self.proto.attribute}

    @property
    def where(self) -> str:
        """How messages name the node."""
        return f"node {self.name!r} ({self.op_type})"

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        return int(self.attributes.get(name, default))

    def integers(self, name: str) -> list[int] | None:
        """A list of integers, or None where the attribute is missing."""
        values = self.attributes.get(name)
        return None if values is None else [int(value) for value in values]


class Kind(Enum):
    """What is left to do of a node when everything that does not depend on the input's data is known."""

    CONSTANT = "constant"
    """Nothing: shape arithmetic, constants, weights in another layout."""
    VIEW = "view"
    """Nothing: the same bytes under another shape or name."""
    LIVE = "live"
    """An operator that runs."""


@dataclass(eq=False, slots=True)
class Step:
    """A node in execution order with its values."""

    node: Node
    kind: Kind
    inputs: tuple[Value | None, ...]
    """None for an optional input that is left out."""
    outputs: tuple[Value, ...]
    body: tuple[Step, ...] = ()
    """What a ``Loop`` or ``Scan`` runs each time."""
    trips: int = 1
    idle_weights: tuple[Tensor, ...] = ()
    """Parameters of a branch that is not the one supposed to be taken: they are stored all the same."""

    def input(self, index: int) -> Value | None:
        """The value at `index`, or None."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def live_inputs(self) -> tuple[Value, ...]:
        """Distinct inputs that depend on the network's input."""
        return tuple(dict.fromkeys(value for value in self.inputs if value is not None and not value.constant))


def _attribute_value(attribute: AttributeProto) -> Any:
    """The one field of `attribute` that its type names."""
    from onnx import helper

    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value
