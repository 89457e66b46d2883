"""A neural network as Piper understands it: operators with exact counts, grouped into layers.

A model is what every reader makes (`piper.onnx`, `piper.formats.huggingface`) and all that the cost rules see. Counts
are for one forward pass of one microbatch with every dimension fixed; nothing in a model depends on a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

Granularity = Literal["operator", "layer", "auto"]
"""What a layer is: an operator, a block of the network, or as much as can be planned in seconds."""

DTYPE_BITS: Mapping[str, int] = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8": 8,
    "int64": 64, "int32": 32, "int16": 16, "int8": 8, "int4": 4,
    "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "uint4": 4,
    "bool": 8, "complex64": 64, "complex128": 128, "string": 64,
}  # fmt: skip
"""Bits of one element, by type name."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value with its type and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def bytes(self) -> int:
        """Size as stored, rounded up to whole bytes."""
        return -(-self.elements * DTYPE_BITS[self.dtype] // 8)


class Partition(Enum):
    """What tensor parallelism of degree ``t`` does to an operator (Shoeybi et al., Megatron-LM, 2019, section 3)."""

    REPLICATED = "replicated"
    """Every device does all of it; weights, time and activations stay whole."""
    COLUMN = "column"
    """The weight is split by output: FLOPs, weight and output are divided by ``t``, the input stays whole. The
    gradient of the input is a sum over devices (one all-reduce of `input_bytes` in the backward pass)."""
    ROW = "row"
    """The weight is split by input: FLOPs, weight and input are divided by ``t``, the output is a sum over devices
    (one all-reduce of `output_bytes` in the forward pass) and whole afterwards."""
    SHARDED = "sharded"
    """Works on tensors that are already divided: everything is divided by ``t``, nothing is exchanged."""
    EXPERT = "expert"
    """As SHARDED, for the experts of a mixture; routing exchanges are the neighbours' business."""
    VOCABULARY = "vocabulary"
    """An embedding table split by row: the weight is divided by ``t``, the output is a sum over devices."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator with its counts for one forward pass of one microbatch."""

    name: str
    op_type: str
    rule: str
    """Name of the rule that produced the counts."""
    flops: int
    """2 per multiply-add; matrix multiplications, convolutions and recurrent cells only, everything else has 0."""
    input_bytes: int
    """Activations read (weights not counted)."""
    output_bytes: int
    """Activations written."""
    weights: tuple[Tensor, ...] = ()
    """Parameters it reads. Two operators that name the same weight share it."""
    saved_bytes: int = 0
    """Activations that training keeps for the backward pass because of this operator, each tensor counted by one
    operator only; without any recomputation and with fused attention."""
    saved_bytes_unfused: int = 0
    """What unfused attention keeps on top (score matrices)."""
    partition: Partition = Partition.REPLICATED
    divides: int = 1
    """A tensor-parallel degree above 1 must divide this, unless the operator is replicated."""
    outputs: tuple[Tensor, ...] = ()
    selective: bool = False
    """Whether selective recomputation drops what it saves (the core of attention)."""
    dtype: str = "bfloat16"
    """Type that it computes in."""
    trainable: bool = True

    @property
    def weight_bytes(self) -> int:
        """Bytes of the parameters it reads, as stored."""
        return sum(weight.bytes for weight in self.weights)

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written, weights included."""
        return self.input_bytes + self.output_bytes + self.weight_bytes


@dataclass(frozen=True, slots=True)
class ModelLayer:
    """Operators that are planned as one."""

    name: str
    operators: tuple[int, ...]
    """Positions in `Model.operators`."""
    block: str | None = None
    """Name of the repeated block that the layer is an instance of, such as ``DecoderLayer``."""
    degrees: tuple[int, ...] = (1,)
    """Tensor-parallel degrees that its operators allow, increasing; always contains 1."""
    input_bytes: int = 0
    """Activations that enter the layer; all that full recomputation keeps."""


@dataclass(frozen=True, slots=True)
class ModelEdge:
    """Bytes of one microbatch that one layer sends to another; positions in `Model.layers` (or operators)."""

    source: int
    target: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Model:
    """A network with all dimensions fixed."""

    name: str
    operators: tuple[Operator, ...]
    layers: tuple[ModelLayer, ...]
    edges: tuple[ModelEdge, ...]
    operator_edges: tuple[ModelEdge, ...] = ()
    """The graph of operators, positions in `operators`; every edge out of one operator carries the bytes of all its
    outputs that are read. Empty where the reader knows layers only."""
    inputs: tuple[Tensor, ...] = ()
    dtype: str = "bfloat16"
    """Type of weights and activations."""
    batch: int = 1
    """Samples in the microbatch that the counts are for."""
    tokens: int | None = None
    """Tokens in the microbatch, where the model has a sequence."""
    initializer_bytes: int | None = None
    """Every initializer of the file once, by its stored type; None for a model that is no file."""
    assumptions: tuple[str, ...] = ()
    """What the reader had to suppose, one sentence each."""
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In a few words; `piper.inspect` tells all."""
        return f"{self.name}: {len(self.layers)} layers, {len(self.operators)} operators, {self.dtype}"

    @property
    def flops(self) -> int:
        """FLOPs of one forward pass of one microbatch."""
        return sum(operator.flops for operator in self.operators)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """All parameters, shared ones once, in order of first use."""
        seen = {weight.name: weight for operator in self.operators for weight in operator.weights}
        return tuple(seen.values())

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters as stored, shared ones once."""
        return sum(weight.bytes for weight in self.weights)

    @property
    def parameters(self) -> int:
        """Number of parameter elements, shared ones once."""
        return sum(weight.elements for weight in self.weights)
