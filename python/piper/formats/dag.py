"""Checks that several readers share: the edges of a workload close no cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from piper.errors import InputError

_SHOWN = 8


def check_acyclic(names: Sequence[str], edges: Iterable[tuple[int, int]], where: str) -> None:
    """Refuse a cyclic graph. Edges are positions in `names`; time and space are linear.

    Raises:
        InputError: naming the nodes of a cycle.
    """
    predecessors: list[list[int]] = [[] for _ in names]
    for source, target in edges:
        predecessors[target].append(source)
    try:
        TopologicalSorter(dict(enumerate(predecessors))).prepare()
    except CycleError as error:
        cycle = [names[node] for node in error.args[1]]
        text = " -> ".join(cycle[:_SHOWN]) + (" -> ..." if len(cycle) > _SHOWN else "")
        raise InputError(f"{where}: the edges close a cycle: {text}; expected a graph without cycles") from None
