"""Tables of measured times: CSV with the columns ``name``, ``forward_ms``, ``backward_ms``, ``type``, ``batch``."""

from __future__ import annotations

import csv
import math
from io import StringIO

from piper.errors import InputError
from piper.formats.source import one_line
from piper.profiles.profile import Profile, Sample

_NEEDED = ("name", "forward_ms")
LONGEST = 1e12
MAX_BATCH = 2**20


def parse(text: str, where: str) -> Profile:
    """Read a table; further columns are left aside.

    Raises:
        InputError: a column is missing, a number is none, or a name is there twice: the line and what was expected.
    """
    reader = csv.DictReader(StringIO(text))
    try:
        columns = [column.strip() for column in reader.fieldnames or []]
        reader.fieldnames = columns
        for name in _NEEDED:
            if name not in columns:
                raise InputError(f"{where}: line 1: the column {name} is missing; expected name,forward_ms,...")
        samples: dict[str, Sample] = {}
        batches: set[int] = set()
        for row in reader:
            _add(row, f"{where}: line {reader.line_num}", samples, batches)
    except csv.Error as error:
        raise InputError(f"{where}: line {reader.line_num}: {one_line(str(error), 80)}; expected CSV") from None
    if not samples:
        raise InputError(f"{where}: has no rows; expected one for each operator or layer")
    if len(batches) > 1:
        raise InputError(f"{where}: batch differs between rows; expected one microbatch size")
    return Profile(where, samples, batches.pop() if batches else None)


def _add(row: dict[str, str | None], place: str, samples: dict[str, Sample], batches: set[int]) -> None:
    name = (row.get("name") or "").strip()
    if not name:
        raise InputError(f"{place}: name is empty")
    if name in samples:
        raise InputError(f"{place}: {one_line(name, 60)!r} is there twice")
    forward = _milliseconds(row, "forward_ms", place)
    if forward is None:
        raise InputError(f"{place}: forward_ms is empty; expected milliseconds")
    samples[name] = Sample(forward, _milliseconds(row, "backward_ms", place), (row.get("type") or "").strip() or None)
    batch = (row.get("batch") or "").strip()
    if batch:
        if not (batch.isascii() and batch.isdigit() and len(batch) < 8 and 1 <= int(batch) <= MAX_BATCH):
            raise InputError(f"{place}: batch is {one_line(batch, 40)!r}; expected a whole number from 1 on")
        batches.add(int(batch))


def _milliseconds(row: dict[str, str | None], column: str, place: str) -> float | None:
    """Seconds of a cell, None for an empty one."""
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < LONGEST:
        raise InputError(f"{place}: {column} is {one_line(text, 40)!r}; expected milliseconds")
    return value / 1e3
