"""Results on standard output or in a file, messages and progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from piper.formats.source import one_line
from piper.output import check_writable, json_text, write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from piper.report.progress import ProgressBar


class Result(Protocol):
    """What commands show: a table on a terminal, JSON anywhere else."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document."""

    def __rich__(self) -> RenderableType: ...


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command's result goes."""

    as_json: bool
    path: str | None
    force: bool
    quiet: bool

    def check(self) -> None:
        """Fail before a long solve rather than after it.

        Raises:
            InputError: the result's file cannot be written.
        """
        if self.path is not None:
            check_writable(self.path, force=self.force)

    def show(self, result: Result, table: RenderableType | None = None) -> None:
        """Write the file, if one was asked for, and show the result; `table` in place of its own table."""
        document = result.to_json()
        if self._deliver(document):
            return
        from rich.console import Console

        Console().print(result if table is None else table)

    def show_document(self, document: dict[str, Any]) -> None:
        """The same for a result that has no table."""
        self._deliver(document)

    def message(self, text: str) -> None:
        """One line on standard error, unless the user wants quiet."""
        if not self.quiet:
            print(f"piper: {one_line(text)}", file=sys.stderr)  # noqa: T201

    @contextmanager
    def progress(self, doing: str) -> Iterator[ProgressBar]:
        """A bar on standard error, if that is a terminal and the user does not want quiet."""
        from rich.console import Console

        from piper.report.progress import ProgressBar

        with ProgressBar(Console(stderr=True, quiet=self.quiet), doing) as bar:
            yield bar

    def _deliver(self, document: dict[str, Any]) -> bool:
        """Write the document where one is wanted; whether nothing is left to show."""
        if self.path is not None:
            write_json(document, self.path, force=self.force)
        terminal = sys.stdout.isatty()
        if self.as_json or (self.path is None and not terminal):
            sys.stdout.write(json_text(document))
            return True
        return not terminal
