"""The command line: `main` is the program ``piper``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]

INTERRUPTED = 130
"""As a shell reports a program that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run ``piper`` and exit.

    Exit status: 0 solved; 1 proven infeasible; 2 bad input or usage; 3 stopped by a limit with a result that is not
    proven optimal; 130 interrupted; 141 the reader of the output went away; 70 an error of Piper's own.
    """
    try:
        # Takes a moment, in which Ctrl-C must end the program as at any other time.
        from piper.cli.run import run

        status = run(sys.argv[1:] if arguments is None else arguments)
        _end_interrupts()
    except KeyboardInterrupt:
        _end_interrupts()
        status = INTERRUPTED
        if sys.stderr is not None:
            print("piper: interrupted", file=sys.stderr)  # noqa: T201
    sys.exit(status)


def _end_interrupts() -> None:
    """Everything is said: a late Ctrl-C must not change how the program ends."""
    while True:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            continue
        return
