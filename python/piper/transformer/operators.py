"""Counts of single operators.

Each operator saves for its backward pass what Korthikanti et al. ("Reducing Activation Recomputation in Large
Transformer Models", 2022, section 4.1) say: matrix products, normalisations and activations their input, dropout a
mask of one byte an element. Biases, dropout and the addition to the stream run as one kernel, as in Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Mapping

from piper.model import Operator, Partition, Tensor
from piper.transformer.architecture import Activations, Norm


def product(
    name: str,
    stream: Activations,
    features: int,
    columns: Mapping[str, int],
    *,
    partition: Partition = Partition.REPLICATED,
    divides: int = 1,
    bias: bool = False,
    saves: bool = True,
) -> Operator:
    """Product of the stream with one matrix or several side by side.

    Args:
        name: name of the operator.
        stream: the tokens.
        features: columns of the input, which are rows of the matrices.
        columns: columns of each matrix, by the name of its weight.
        partition: what tensor parallelism does to it.
        divides: what a tensor-parallel degree must divide.
        bias: whether each matrix has one.
        saves: whether the input is kept because of this operator; False where another keeps the same tensor.
    """
    total = sum(columns.values())
    matrices = tuple(Tensor(f"{key}.weight", stream.dtype, (size, features)) for key, size in columns.items())
    biases = tuple(Tensor(f"{key}.bias", stream.dtype, (size,)) for key, size in columns.items()) if bias else ()
    return Operator(
        name=name,
        op_type="MatMul",
        rule="matrix product",
        flops=2 * stream.tokens * features * total,
        input_bytes=stream.bytes(features),
        output_bytes=stream.bytes(total),
        weights=matrices + biases,
        saved_bytes=stream.bytes(features) if saves else 0,
        partition=partition,
        divides=divides,
        outputs=(Tensor(name, stream.dtype, stream.shape(total)),),
        dtype=stream.dtype,
    )


def norm(name: str, stream: Activations, features: int, kind: Norm) -> Operator:
    """Layer norm, or root-mean-square norm, which has no bias."""
    weights = [Tensor(f"{name}.weight", stream.dtype, (features,))]
    if kind == "layer":
        weights.append(Tensor(f"{name}.bias", stream.dtype, (features,)))
    return Operator(
        name=name,
        op_type="LayerNorm" if kind == "layer" else "RMSNorm",
        rule="normalisation",
        flops=0,
        input_bytes=stream.bytes(features),
        output_bytes=stream.bytes(features),
        weights=tuple(weights),
        saved_bytes=stream.bytes(features),
        outputs=(Tensor(name, stream.dtype, stream.shape(features)),),
        dtype=stream.dtype,
    )


def addition(name: str, stream: Activations, features: int, *, bias: str | None, dropout: bool) -> Operator:
    """Bias, dropout and addition to the stream, in one kernel."""
    return Operator(
        name=name,
        op_type="Add",
        rule="bias, dropout and addition",
        flops=0,
        input_bytes=2 * stream.bytes(features),
        output_bytes=stream.bytes(features),
        weights=(Tensor(f"{bias}.bias", stream.dtype, (features,)),) if bias else (),
        saved_bytes=stream.tokens * features if dropout else 0,
        outputs=(Tensor(name, stream.dtype, stream.shape(features)),),
        dtype=stream.dtype,
    )


def activation(
    name: str,
    stream: Activations,
    features: int,
    *,
    gated: bool,
    partition: Partition = Partition.SHARDED,
    divides: int = 1,
) -> Operator:
    """Activation function; a gated one reads two tensors and multiplies them."""
    inputs = stream.bytes(features) * (2 if gated else 1)
    return Operator(
        name=name,
        op_type="GatedActivation" if gated else "Activation",
        rule="elementwise",
        flops=0,
        input_bytes=inputs,
        output_bytes=stream.bytes(features),
        saved_bytes=inputs,
        partition=partition,
        divides=divides,
        outputs=(Tensor(name, stream.dtype, stream.shape(features)),),
        dtype=stream.dtype,
    )


def lookup(name: str, weight: str, stream: Activations, rows: int, features: int, *, divides: int) -> Operator:
    """Embedding of tokens, divided by rows of the table."""
    ids = 8 * stream.tokens
    return Operator(
        name=name,
        op_type="Embedding",
        rule="look-up",
        flops=0,
        input_bytes=ids,
        output_bytes=stream.bytes(features),
        weights=(Tensor(weight, stream.dtype, (rows, features)),),
        saved_bytes=ids,
        partition=Partition.VOCABULARY,
        divides=divides,
        outputs=(Tensor(name, stream.dtype, stream.shape(features)),),
        dtype=stream.dtype,
    )


def added_table(name: str, weight: str, stream: Activations, rows: int, features: int) -> Operator:
    """Addition of rows of a small table, such as positions; every device has all of it."""
    return Operator(
        name=name,
        op_type="Add",
        rule="look-up and addition",
        flops=0,
        input_bytes=stream.bytes(features),
        output_bytes=stream.bytes(features),
        weights=(Tensor(weight, stream.dtype, (rows, features)),),
        outputs=(Tensor(name, stream.dtype, stream.shape(features)),),
        dtype=stream.dtype,
    )


def dropout(name: str, stream: Activations, features: int) -> Operator:
    """Dropout by itself."""
    return Operator(
        name=name,
        op_type="Dropout",
        rule="dropout",
        flops=0,
        input_bytes=stream.bytes(features),
        output_bytes=stream.bytes(features),
        saved_bytes=stream.tokens * features,
        outputs=(Tensor(name, stream.dtype, stream.shape(features)),),
        dtype=stream.dtype,
    )


def cross_entropy(name: str, stream: Activations, classes: int, *, partition: Partition, divides: int) -> Operator:
    """Softmax and cross entropy in 32 bit, which keeps the probabilities."""
    kept = 4 * stream.tokens * classes
    return Operator(
        name=name,
        op_type="CrossEntropy",
        rule="softmax and cross entropy",
        flops=0,
        input_bytes=stream.bytes(classes),
        output_bytes=kept,
        saved_bytes=kept,
        partition=partition,
        divides=divides,
        outputs=(Tensor(name, "float32", ()),),
        dtype="float32",
    )
