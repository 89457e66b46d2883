"""The same problem with its layers numbered differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from piper.errors import InputError
from piper.workload import Edge, Limits, Tie, Workload


def permuted(workload: Workload, order: Sequence[int]) -> Workload:
    """Return the workload with its layers in another order; everything that refers to them follows.

    Edges keep their order, so the synchronisation lists of the layers stay as they are.

    Args:
        workload: any workload.
        order: for each position of the result, the position that its layer has in `workload`.

    Raises:
        InputError: `order` is no permutation of the layers' positions.
    """
    new = _positions(order, len(workload.layers))
    return replace(
        workload,
        layers=tuple(workload.layers[old] for old in order),
        edges=tuple(Edge(new[edge.source], new[edge.target], edge.bytes) for edge in workload.edges),
        ties=tuple(Tie(tuple(new[layer] for layer in tie.layers), tie.costs) for tie in workload.ties),
    )


def permuted_limits(limits: Limits, order: Sequence[int]) -> Limits:
    """Return the limits that go with ``permuted(workload, order)``.

    Raises:
        InputError: `order` is no permutation.
    """
    new = _positions(order, len(order))
    return replace(
        limits,
        pins=tuple((new[layer], stage) for layer, stage in limits.pins),
        together=tuple(tuple(new[layer] for layer in group) for group in limits.together),
        apart=tuple(tuple(new[layer] for layer in group) for group in limits.apart),
    )


def _positions(order: Sequence[int], count: int) -> list[int]:
    """Return the inverse of a permutation."""
    if sorted(order) != list(range(count)):
        raise InputError(f"the order of the layers is {list(order)}; expected each of 0 to {count - 1} once")
    new = [0] * count
    for position, old in enumerate(order):
        new[old] = position
    return new
