"""Numbers as people read them."""

from __future__ import annotations

from typing import Literal

from piper.costs.units import format_seconds


def time_text(value: float, unit: Literal["s"] | None) -> str:
    """A time; without a unit where a workload file does not say one."""
    return f"{value:.6g}" if unit is None else format_seconds(value)


def percent_text(share: float) -> str:
    """A share of one as a percentage; small ones keep two digits."""
    if share == 0 or share >= 0.1:
        return f"{100 * share:.1f} %"
    return f"{100 * share:.2g} %"


def bar(share: float, width: int = 10) -> str:
    """A bar that is full at 1."""
    filled = round(max(0.0, min(1.0, share)) * width)
    return "█" * filled + "░" * (width - filled)
