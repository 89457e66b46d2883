"""Measured times of operators, which go before modelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from piper.costs.sharding import Share

BACKWARD = 2.0
"""Backward time by forward time where only the latter was measured: a product's backward pass is two products, an
elementwise operator's reads the gradient and the input."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of an operator on one device, for the microbatch that its model has."""

    forward: float
    backward: float | None = None
    """None where it was not measured: twice the forward time."""


def measured_seconds(shares: Sequence[Share], measured: Sequence[Measured | None]) -> tuple[float, float]:
    """Forward and backward seconds of the measured operators of a layer on one device of a group.

    A device that has a share of an operator takes that share of its time.
    """
    forward = backward = 0.0
    for item, times in zip(shares, measured, strict=True):
        if times is not None:
            part = _part(item)
            forward += times.forward * part
            backward += (BACKWARD * times.forward if times.backward is None else times.backward) * part
    return forward, backward


def _part(item: Share) -> float:
    operator = item.operator
    if operator.flops:
        return item.flops / operator.flops
    whole = operator.input_bytes + operator.output_bytes
    return (item.input_bytes + item.output_bytes) / whole if whole else item.part
