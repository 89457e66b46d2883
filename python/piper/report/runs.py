"""Long lists of layers in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

MOST_BLOCKS = 4
"""Blocks that are named before a list is cut in the middle."""
MOST_DEGREES = 5
"""Degrees of tensor parallelism that are named."""


def numbers_text(numbers: Iterable[int]) -> str:
    """Ranges of consecutive numbers: ``0-3, 7``."""
    parts = []
    for _, group in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    if len(parts) > MOST_BLOCKS:
        parts = [*parts[: MOST_BLOCKS - 1], "...", parts[-1]]
    return ", ".join(parts)


def degrees_text(degrees: Sequence[int]) -> str:
    """All degrees, or of many the first and the last: ``1, 2, 3, 4, ..., 64``."""
    parts = [str(degree) for degree in degrees]
    if len(parts) > MOST_DEGREES:
        parts = [*parts[: MOST_DEGREES - 1], "...", parts[-1]]
    return ", ".join(parts)


def blocks_text(blocks: Sequence[str]) -> str:
    """Runs of equal blocks: ``Embedding, 10 x DecoderLayer``."""
    runs = [(name, sum(1 for _ in group)) for name, group in groupby(blocks)]
    parts = [name if length == 1 else f"{length} x {name}" for name, length in runs]
    if len(parts) > MOST_BLOCKS:
        parts = [*parts[: MOST_BLOCKS - 2], "...", parts[-1]]
    return ", ".join(parts)
