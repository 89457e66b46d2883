"""Hypothesis strategies for instances of the planning problems (MacIver et al., "Hypothesis", JOSS, 2019).

Needs the ``test`` extra: ``pip install 'piper-dnn[test]'``.
"""

from __future__ import annotations

from typing import Any

from piper.placement.workload import PlacementWorkload, Rules
from piper.testing.generate import random_limits, random_workload
from piper.testing.placement import random_placement_workload, random_rules
from piper.testing.source import Source
from piper.workload import Limits, Schedule, Transfer, Workload

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError("piper.testing.strategies needs Hypothesis; pip install 'piper-dnn[test]'") from error


class _Drawn(Source):
    """Choices of Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def real(self, low: float, high: float) -> float:
        return self._draw(st.floats(low, high))


def workloads(
    *,
    max_layers: int = 8,
    max_devices: int = 8,
    max_microbatches: int = 12,
    max_tmpcs: int = 4,
    transfer: Transfer | None = None,
    shape: str | None = None,
) -> st.SearchStrategy[Workload]:
    """Make small workloads; the arguments are those of `piper.testing.random_workload`."""
    options: dict[str, Any] = {
        "max_layers": max_layers,
        "max_devices": max_devices,
        "max_microbatches": max_microbatches,
        "max_tmpcs": max_tmpcs,
        "transfer": transfer,
        "shape": shape,
    }

    @st.composite
    def drawn(draw: st.DrawFn) -> Workload:
        return random_workload(_Drawn(draw), **options)

    return drawn()


def limits(workload: Workload) -> st.SearchStrategy[Limits]:
    """Make restrictions for one workload."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Limits:
        return random_limits(_Drawn(draw), workload)

    return drawn()


@st.composite
def problems(draw: st.DrawFn, *, max_layers: int = 8) -> tuple[Workload, Limits, Schedule]:
    """Draw all that a solver is given: a workload, restrictions (often none) and a schedule."""
    source = _Drawn(draw)
    workload = random_workload(source, max_layers=max_layers)
    restrictions = random_limits(source, workload) if source.chance(50) else Limits()
    return workload, restrictions, draw(schedules())


@st.composite
def placements(draw: st.DrawFn, *, max_nodes: int = 9) -> tuple[PlacementWorkload, Rules]:
    """Draw all that a placer is given: a workload and the variant of the problem."""
    source = _Drawn(draw)
    return random_placement_workload(source, max_nodes=max_nodes), random_rules(source)


def schedules() -> st.SearchStrategy[Schedule]:
    """Draw any schedule."""
    every: tuple[Schedule, ...] = ("async", "gpipe", "1f1b")
    return st.sampled_from(every)


@st.composite
def orders(draw: st.DrawFn, workload: Workload) -> list[int]:
    """Draw permutations of the layers of a workload, for `piper.testing.permuted`."""
    return draw(st.permutations(range(len(workload.layers))))
