"""Repeated blocks in a sequence of segments, such as the layers of a transformer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

MAX_PERIOD = 96
"""Segments of one block, at most."""

MAX_RUNS = 200


@dataclass(frozen=True, slots=True)
class Run:
    """`repeats` times the `period` segments from `start` on."""

    start: int
    period: int
    repeats: int

    @property
    def end(self) -> int:
        """First segment after the run."""
        return self.start + self.period * self.repeats


def repeated_runs(kinds: Sequence[Hashable], work: Sequence[int], heads: Sequence[int]) -> list[Run]:
    """Disjoint runs of equal blocks in order, those that cover most work first, then those with the shortest block.

    Args:
        kinds: structure of each segment; equal ones are equal work.
        work: floating-point operations of each segment.
        heads: how well a block begins at each segment; where a run can be shifted, it begins at the highest.

    Complexity: ``O(n * MAX_PERIOD)`` for each run found.
    """
    sums = [0]
    for amount in work:
        sums.append(sums[-1] + amount)
    runs: list[Run] = []
    todo = [(0, len(kinds))]
    while todo and len(runs) < MAX_RUNS:
        low, high = todo.pop()
        best = _best(kinds, heads, sums, low, high)
        if best is not None:
            runs.append(best)
            todo += [(low, best.start), (best.end, high)]
    return sorted(runs, key=lambda run: run.start)


def _best(kinds: Sequence[Hashable], heads: Sequence[int], sums: list[int], low: int, high: int) -> Run | None:
    best: Run | None = None
    best_score = 0
    for period in range(1, min(MAX_PERIOD, (high - low) // 2) + 1):
        place = low
        while place + period < high:
            if kinds[place] != kinds[place + period]:
                place += 1
                continue
            begin = place
            while place + period < high and kinds[place] == kinds[place + period]:
                place += 1
            repeats = (place - begin) // period + 1
            if repeats > 1:
                run = Run(_start(heads, begin, (place - begin) % period), period, repeats)
                score = sums[run.end] - sums[run.start]
                if score > best_score:
                    best, best_score = run, score
    return best


def _start(heads: Sequence[int], begin: int, slack: int) -> int:
    """Where a run begins if it can be shifted by up to `slack`: at the best head, the first of equals."""
    return max(range(begin, begin + slack + 1), key=lambda place: (heads[place], -place))
