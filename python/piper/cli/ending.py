"""How commands that search end: the exit status, and what would have to give where there is no result."""

from __future__ import annotations

from typing import Protocol

from piper.cli.output import Output
from piper.costs.units import format_bytes
from piper.errors import InfeasibleError

INTERRUPTED = 130
LIMIT_REACHED = 3


class Searched(Protocol):
    """A result with its proof."""

    @property
    def status(self) -> str:
        """Why the search ended."""

    @property
    def optimal(self) -> bool:
        """Whether the result is proven optimal."""


def exit_status(result: Searched, output: Output, what: str) -> int:
    """Exit status of a result (`what`: plan, split), with a word on a search that was ended before it was through."""
    if result.status in ("done", "gap") or (result.optimal and result.status != "interrupted"):
        return 0
    proof = "proven optimal" if result.optimal else "not proven optimal"
    output.message(f"stopped early ({result.status}); this is the best {what} so far, {proof}")
    return INTERRUPTED if result.status == "interrupted" else LIMIT_REACHED


def with_needs(error: InfeasibleError) -> InfeasibleError:
    """The same error, with what would have to give as its last reason."""
    return InfeasibleError([*error.reasons, _needs_text(error.needs, error.stopped)], error.needs, error.stopped)


def _needs_text(needs: dict[str, float], stopped: str | None) -> str:
    ways = []
    if "memory_bytes" in needs:
        size = needs["memory_bytes"]
        ways.append(f"{format_bytes(size)} of memory ({size:.0f} bytes) on each device")
    ways += [f"{needs[name]:.0f} {name}" for name in ("devices", "accelerators") if name in needs]
    if stopped is not None:
        found = f"{' or '.join(ways)} would do, maybe less" if ways else "what would do was not found"
        return f"{found} ({stopped})"
    return f"{' or '.join(ways)} would do" if ways else "neither more memory nor more devices would do"
