"""Everything that Piper raises on purpose, with the exit status of the command line."""

from __future__ import annotations

from typing import ClassVar

from piper.text import one_line


class PiperError(Exception):
    """Base of all errors of Piper. Its text is one line that says what is wrong, where, and what to do."""

    exit_status: ClassVar[int] = 2

    def __init__(self, text: str) -> None:
        """Keep the text; what is not printable in names that came from a file is escaped."""
        super().__init__(one_line(text))


class InputError(PiperError):
    """A file, an option or a number that cannot be used. The text names file, place and what was expected."""


class InfeasibleError(PiperError):
    """There is provably no plan.

    Attributes:
        reasons: what rules every plan out, one sentence each.
        needs: the least limit that would do, by name: ``memory_bytes`` (per device) or ``devices``.
        stopped: why the search for `needs` ended early (``interrupted``, ``time limit``, ``memory limit``), if it
            did: less may do then, and what is missing may only not have been found.
    """

    exit_status = 1

    def __init__(self, reasons: list[str], needs: dict[str, float], stopped: str | None = None) -> None:
        """Keep the parts; the text joins the reasons."""
        super().__init__("; ".join(reasons))
        self.reasons = reasons
        self.needs = needs
        self.stopped = stopped


class LimitError(PiperError):
    """A limit ended the search before it had any plan, or a simple algorithm found none: nothing is proven."""

    exit_status = 3
