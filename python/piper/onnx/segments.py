"""Where a graph can be cut into layers.

Operators are taken in execution order. A place between two of them is a boundary when a single value, the one just
made, crosses it: the residual stream after a block, an activation between two convolutions. Values that live long by
design (the output of an encoder, a skip connection of a U-Net, a time embedding) would forbid all boundaries; where a
segment stays too large, the longest-lived values are let through one after the other until it falls apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_WEIGHTED = 12
"""A segment with more operators that multiply by weights is too large if it also has a good part of all the work."""
MAX_WEIGHTED_EVER = 40
"""A segment with more is too large in any case."""
LARGE_SHARE = 0.05
MAX_BACKGROUND = 64


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
    """Ranges ``[start, end)`` of operators, in order, that a planner should not look inside."""
    last_use: dict[int, int] = {}
    first: dict[int, int] = {}
    for place, item in enumerate(work):
        for value in (*item.makes, *item.reads):
            first.setdefault(value, place)
        for value in item.reads:
            last_use[value] = place
    total = sum(item.flops for item in work)
    return _split(work, 0, len(work), frozenset(), first, last_use, total)


def _split(
    work: Sequence[Work],
    start: int,
    end: int,
    background: frozenset[int],
    first: dict[int, int],
    last_use: dict[int, int],
    total: int,
) -> list[tuple[int, int]]:
    cuts = _boundaries(work, start, end, background, last_use)
    known = background
    if not cuts and _too_large(work, start, end, total):
        for value in _longest_lived(start, end, background, first, last_use)[:MAX_BACKGROUND]:
            known |= {value}
            cuts = _boundaries(work, start, end, known, last_use)
            if cuts:
                break
    if not cuts:
        return [(start, end)]
    result: list[tuple[int, int]] = []
    for low, high in zip([start, *cuts], [*cuts, end], strict=True):
        if (low, high) != (start, end) and _too_large(work, low, high, total):
            result += _split(work, low, high, known, first, last_use, total)
        else:
            result.append((low, high))
    return result


def _boundaries(
    work: Sequence[Work], start: int, end: int, background: frozenset[int], last_use: dict[int, int]
) -> list[int]:
    """Places in the open range where nothing but the value just made, and background, crosses."""
    alive = {
        value
        for place in range(start)
        for value in (*work[place].makes, *work[place].reads)
        if last_use.get(value, -1) >= start and value not in background
    }
    cuts = []
    for place in range(start, end - 1):
        item = work[place]
        alive |= {value for value in item.reads if value not in background}
        alive -= {value for value in item.reads if last_use[value] <= place}
        made = {value for value in item.makes if last_use.get(value, -1) > place and value not in background}
        alive |= made
        if alive <= made and len(made) <= 1:
            cuts.append(place + 1)
    return cuts


def _too_large(work: Sequence[Work], start: int, end: int, total: int) -> bool:
    weighted = sum(item.weighted for item in work[start:end])
    share = sum(item.flops for item in work[start:end]) / max(1, total)
    return weighted > MAX_WEIGHTED_EVER or (weighted > MAX_WEIGHTED and share > LARGE_SHARE)


def _longest_lived(
    start: int, end: int, background: frozenset[int], first: dict[int, int], last_use: dict[int, int]
) -> list[int]:
    """Values alive in the range, those that stay longest inside it first."""
    spans = []
    for value, made in first.items():
        last = last_use.get(value, -1)
        span = min(last, end) - max(made, start)
        if value not in background and made < end and last > start and span > 1:
            spans.append((-span, made, value))
    return [value for _, _, value in sorted(spans)]
