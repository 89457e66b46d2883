"""What a profiler measured, whatever its format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """Mean times of an operator or layer."""

    forward: float
    """Seconds."""
    backward: float | None = None
    """Seconds; None where it was not measured."""
    op_type: str | None = None
    """Type of the operator, where the profiler says it."""
    on_cpu: bool = False
    """Whether it ran on a CPU beside accelerators, or without any."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples by name."""

    where: str
    """The file, as messages show it."""
    samples: dict[str, Sample]
    batch: int | None = None
    """Samples in the microbatch that was measured; None: as many as in the model's."""


def mean(seconds: Sequence[float]) -> float:
    """Mean over runs; the first of several is left out, since it allocates and compiles."""
    kept = seconds[1:] or seconds
    return math.fsum(kept) / len(kept)
