"""Fields of trace events, as profilers write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from piper.errors import InputError
from piper.formats.source import one_line

LONGEST = 1e12
"""Microseconds; nothing that is measured takes longer."""


def complete(rows: Sequence[Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Events with a name and a duration, each with its place in the file.

    Raises:
        InputError: a row is no event.
    """
    for number, row in enumerate(rows):
        place = f"{where}: $[{number}]"
        if not isinstance(row, dict):
            raise InputError(f"{place}: is no object; expected an event of a trace")
        if isinstance(row.get("name"), str) and "dur" in row:
            yield place, row


def seconds(row: dict[str, Any], place: str, key: str = "dur") -> float:
    """A time of an event in seconds.

    Raises:
        InputError: it is no number of microseconds.
    """
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LONGEST * 1e6:
        raise InputError(f"{place}: {key} is {one_line(repr(value), 40)}; expected microseconds")
    return value / 1e6


def argument(row: dict[str, Any], name: str) -> Any:
    """An argument of an event; None where it has none of that name."""
    arguments = row.get("args")
    return arguments.get(name) if isinstance(arguments, dict) else None
