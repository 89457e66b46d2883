"""What one device has of an operator at a tensor-parallel degree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from piper.model import ModelLayer, Operator, Partition

_SPLIT_INPUT = frozenset({Partition.ROW, Partition.SHARDED, Partition.EXPERT})
_SPLIT_OUTPUT = frozenset({Partition.COLUMN, Partition.SHARDED, Partition.EXPERT})


@dataclass(frozen=True, slots=True)
class Share:
    """The counts of an operator for one of ``t`` devices; see `piper.model.Operator` for their meaning."""

    operator: Operator
    partition: Partition
    """What holds at this degree: an operator that the degree does not divide is replicated."""
    part: float
    """Share of the weights, ``1 / t`` or 1."""
    flops: float
    input_bytes: float
    output_bytes: float
    weight_bytes: float
    saved_bytes: float
    saved_bytes_unfused: float


def divided(operator: Operator, degree: int) -> bool:
    """Whether the devices of a group share the operator's work."""
    return degree > 1 and operator.partition is not Partition.REPLICATED and operator.divides % degree == 0


def share(operator: Operator, degree: int) -> Share:
    """The counts for one device.

    What an operator saves for its backward pass is its input, as a rule, and is divided where the input is.
    """
    partition = operator.partition if divided(operator, degree) else Partition.REPLICATED
    whole = partition is Partition.REPLICATED
    inputs = degree if partition in _SPLIT_INPUT else 1
    outputs = degree if partition in _SPLIT_OUTPUT else 1
    work = 1 if whole else degree
    return Share(
        operator=operator,
        partition=partition,
        part=1 / work,
        flops=operator.flops / work,
        input_bytes=operator.input_bytes / inputs,
        output_bytes=operator.output_bytes / outputs,
        weight_bytes=operator.weight_bytes / work,
        saved_bytes=operator.saved_bytes / inputs,
        saved_bytes_unfused=operator.saved_bytes_unfused / inputs,
    )


def layer_shares(operators: Sequence[Operator], degree: int, *, sequence_parallel: bool = False) -> list[Share]:
    """The counts of a layer's operators for one device.

    With sequence parallelism (Korthikanti et al., 2022, section 4.2.2) devices also share the tokens of what the
    degree does not divide, and keep only their part of what column-parallel products read: reduce-scatters and
    all-gathers take the place of the all-reduces, which they add up to.
    """
    shares = [share(operator, degree) for operator in operators]
    if not sequence_parallel or degree == 1 or all(item.partition is Partition.REPLICATED for item in shares):
        return shares
    return [_of_tokens(item, degree) for item in shares]


def _of_tokens(item: Share, degree: int) -> Share:
    if item.partition is Partition.REPLICATED and item.operator.partition is Partition.REPLICATED:
        return replace(
            item,
            flops=item.flops / degree,
            input_bytes=item.input_bytes / degree,
            output_bytes=item.output_bytes / degree,
            saved_bytes=item.saved_bytes / degree,
            saved_bytes_unfused=item.saved_bytes_unfused / degree,
        )
    if item.partition is Partition.COLUMN:
        return replace(item, saved_bytes=item.saved_bytes / degree)
    return item


def allows(layer: ModelLayer, operators: list[Operator], degree: int) -> bool:
    """Whether a layer can be in a stage of that degree.

    It can where the reader of the model says so, and where the degree divides none of its operators: then every
    device of the group does all of it. What is left are layers that the degree would divide in part.
    """
    return degree in layer.degrees or not any(divided(operator, degree) for operator in operators)
