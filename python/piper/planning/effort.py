"""How hard a search may try."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from piper.errors import InputError
from piper.planning.limits import check_count

ProgressCallback = Callable[[float, float], None]
"""Takes the best value and the proven bound, about ten times a second; infinite and 0 while there is none."""

FALLBACK_MEMORY = 2 * 2**30
"""Bytes that the planner allows itself where the system does not say what is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Limits of the planner itself."""

    threads: int | None = None
    """None: one for each processor."""
    time_limit: float | None = None
    """Seconds."""
    memory_limit: int | None = None
    """Bytes; None: half of what is free now."""
    gap: float = 0.0
    """The search may stop at a plan that is this close to the bound, relative."""
    progress: ProgressCallback | None = None

    def check(self) -> None:
        """Refuse numbers that cannot be.

        Raises:
            InputError: naming the option and the value.
        """
        check_count("threads", self.threads, largest=1024)
        check_amount("time_limit", self.time_limit)
        check_amount("memory_limit", self.memory_limit)
        check_amount("gap", self.gap)

    def started(self) -> RunningEffort:
        """The same with the clock running."""
        self.check()
        memory = half_of_free_memory() if self.memory_limit is None else int(self.memory_limit)
        deadline = None if self.time_limit is None else time.monotonic() + self.time_limit
        return RunningEffort(replace(self, memory_limit=memory), deadline)


@dataclass(frozen=True, slots=True)
class RunningEffort:
    """An effort whose time is running, for one search after another."""

    effort: Effort
    deadline: float | None

    def seconds_left(self) -> float | None:
        """Seconds until the time limit, never below 0; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


def check_amount(name: str, value: float | None) -> None:
    """Refuse what is no number or is negative.

    Raises:
        InputError: naming the option and the value.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e30 or math.isnan(value):
        raise InputError(f"{name} is {value!r}; expected a finite number that is not negative and below 1e30")


def half_of_free_memory() -> int:
    """Half of the bytes that a new program could use without swapping."""
    free = _available_linux() or _available_posix() or 2 * FALLBACK_MEMORY
    return free // 2


def _available_linux() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except (OSError, UnicodeError):
        return None
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _available_posix() -> int | None:
    """Free pages where the system counts them, else a quarter of all of them."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        for name, share in (("SC_AVPHYS_PAGES", 1), ("SC_PHYS_PAGES", 4)):
            if name in os.sysconf_names and (pages := os.sysconf(name)) > 0:
                return pages * page // share
    except (AttributeError, ValueError, OSError):
        pass
    return None
