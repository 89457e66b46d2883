"""What is going on, for anything that takes longer than a second."""

from __future__ import annotations

import math
import threading
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from piper.report.numbers import percent_text

PATIENCE = 1.0
"""Seconds before anything is shown."""


class ProgressBar:
    """A bar with the best value, the bound and the gap between them; full when they meet.

    Nothing appears before `PATIENCE` is over, nor on what is no terminal. The bar goes when the context ends.
    """

    def __init__(self, console: Console, doing: str) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._doing = doing
        self._closed = False
        self._numbers: tuple[float, float] | None = None
        self._shown: tuple[Progress, TaskID] | None = None
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True

    def __enter__(self) -> ProgressBar:
        if self._console.is_terminal:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            if self._shown is not None:
                self._shown[0].stop()
                self._shown = None
            self._closed = True

    def doing(self, what: str) -> None:
        """Say what comes now."""
        with self._lock:
            self._doing, self._numbers = what, None
            self._update()

    def __call__(self, best: float, bound: float) -> None:
        """Take the best value so far and the proven bound."""
        with self._lock:
            self._numbers = (best, bound)
            self._update()

    def _show(self) -> None:
        with self._lock:
            if self._closed:
                return
            progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[numbers]}"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            task = progress.add_task(self._doing, total=None, numbers="")
            progress.start()
            self._shown = (progress, task)
            self._update()

    def _update(self) -> None:
        if self._shown is None:
            return
        progress, task = self._shown
        total, completed = _fraction(self._numbers)
        progress.update(
            task, description=self._doing, total=total, completed=completed, numbers=_numbers_text(self._numbers)
        )


def _fraction(numbers: tuple[float, float] | None) -> tuple[float | None, float]:
    """Total and part of the bar; no total while there is no plan to measure the bound by."""
    if numbers is None or not math.isfinite(numbers[0]) or numbers[0] <= 0:
        return None, 0.0
    return 1.0, min(1.0, numbers[1] / numbers[0])


def _numbers_text(numbers: tuple[float, float] | None) -> str:
    if numbers is None:
        return ""
    best, bound = numbers
    if not math.isfinite(best):
        return f"no plan yet, bound {bound:.5g}"
    gap = percent_text(max(0.0, best / bound - 1)) if bound > 0 else "open"
    return f"best {best:.5g}, bound {bound:.5g}, gap {gap}"
