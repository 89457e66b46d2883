"""Where a graph can be cut into layers.

Operators are taken in execution order. A place between two of them is a boundary when a single value, the one just
made, crosses it: the residual stream after a block, an activation between two convolutions. Values that live long by
design (the output of an encoder, a skip connection of a U-Net, a time embedding) would forbid all boundaries; where a
segment stays too large, the longest-lived values are let through one after the other until it falls apart. What never
does is cut where it is narrowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MAX_WEIGHTED = 12
"""A segment with more operators that multiply by weights is too large if it also has a good part of all the work."""
MAX_WEIGHTED_EVER = 40
"""A segment with more is too large in any case."""
LARGE_SHARE = 0.05
MAX_BACKGROUND = 64
"""Values let through at one level, at most."""
MAX_LEVELS = 64
"""How often a segment is taken apart again, at most."""


@dataclass(frozen=True, slots=True)
class Work:
    """What segmenting needs to know about one operator.

    Attributes:
        reads: values of other operators that it reads, and inputs of the network.
        makes: values it makes that others read.
        flops: its floating-point operations.
        weighted: whether it multiplies by weights.
    """

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    flops: int
    weighted: bool


def segments(work: Sequence[Work]) -> list[tuple[int, int]]:
    """Ranges ``[start, end)`` of operators, in order, that a planner should not look inside.

    Complexity: ``O(n log MAX_BACKGROUND)`` time for each of at most `MAX_LEVELS` levels.
    """
    return _Cutter(work).cut()


class _Cutter:
    def __init__(self, work: Sequence[Work]) -> None:
        self._work = work
        self._total = sum(item.flops for item in work)
        self._last_use = {value: place for place, item in enumerate(work) for value in item.reads}

    def cut(self) -> list[tuple[int, int]]:
        done: list[tuple[int, int]] = []
        todo: list[tuple[int, int, frozenset[int], int]] = [(0, len(self._work), frozenset(), 0)]
        while todo:
            start, end, background, level = todo.pop()
            cuts = self._boundaries(start, end, background) if level == 0 else []
            if not cuts and level < MAX_LEVELS and self._too_large(start, end):
                background = self._widened(start, end, background)
                cuts = self._boundaries(start, end, background)
            if not cuts and self._too_large(start, end):
                done += pairwise((start, *self._narrowest(start, end), end))
                continue
            if not cuts:
                done.append((start, end))
                continue
            todo += [(low, high, background, level + 1) for low, high in pairwise((start, *cuts, end))]
        return sorted(done)

    def _boundaries(self, start: int, end: int, background: frozenset[int]) -> list[int]:
        """Places inside the range where nothing but the value just made, and background, crosses."""
        before = self._work[start - 1].makes if start else ()
        alive = {value for value in before if self._last_use.get(value, -1) >= start and value not in background}
        cuts = []
        for place in range(start, end - 1):
            item = self._work[place]
            alive |= {value for value in item.reads if value not in background}
            alive -= {value for value in item.reads if self._last_use[value] <= place}
            made = {v for v in item.makes if self._last_use.get(v, -1) > place and v not in background}
            alive |= made
            if alive <= made and len(made) <= 1:
                cuts.append(place + 1)
        return cuts

    def _narrowest(self, start: int, end: int) -> list[int]:
        """Where the fewest values cross, one cut for each `MAX_WEIGHTED` products with weights.

        For graphs that have no boundaries whatever is let through. Any cut of the execution order is a valid one.
        """
        cuts = []
        weighted, best, fewest = 0, 0, 0
        alive: set[int] = set()
        for place in range(start, end - 1):
            item = self._work[place]
            alive |= {value for value in (*item.reads, *item.makes) if self._last_use.get(value, -1) > place}
            alive -= {value for value in item.reads if self._last_use[value] <= place}
            weighted += item.weighted
            if weighted * 2 >= MAX_WEIGHTED and (not best or len(alive) <= fewest):
                best, fewest = place + 1, len(alive)
            if weighted >= MAX_WEIGHTED:
                cuts.append(best)
                weighted, best = sum(item.weighted for item in self._work[best : place + 1]), 0
        return cuts

    def _too_large(self, start: int, end: int) -> bool:
        weighted = sum(item.weighted for item in self._work[start:end])
        share = sum(item.flops for item in self._work[start:end]) / max(1, self._total)
        return weighted > MAX_WEIGHTED_EVER or (weighted > MAX_WEIGHTED and share > LARGE_SHARE)

    def _widened(self, start: int, end: int, background: frozenset[int]) -> frozenset[int]:
        """`background` with as few of the longest-lived values as make a boundary; more of them never unmake one."""
        values = self._longest_lived(start, end, background)[:MAX_BACKGROUND]
        few, many = 0, len(values)
        while few < many:
            half = (few + many) // 2
            if self._boundaries(start, end, background.union(values[:half])):
                many = half
            else:
                few = half + 1
        return background.union(values[:many])

    def _longest_lived(self, start: int, end: int, background: frozenset[int]) -> list[int]:
        """Values alive in the range, those that stay longest inside it first."""
        first: dict[int, int] = {}
        for place in range(max(0, start - 1), end):
            for value in (*self._work[place].makes, *self._work[place].reads):
                first.setdefault(value, place)
        spans = []
        for value, made in first.items():
            last = self._last_use.get(value, -1)
            span = min(last, end) - max(made, start)
            if value not in background and last > start and span > 1:
                spans.append((-span, made, value))
        return [value for _, _, value in sorted(spans)]
