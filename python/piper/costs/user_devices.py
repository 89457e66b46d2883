"""Devices of the user's own, from a TOML file of the form of `devices.toml`."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from os import PathLike
from typing import Any

from piper.errors import InputError
from piper.formats.source import decode_text, one_line, quoted, read_bytes, shown

MAX_BYTES = 2**20
"""Largest file of devices that is read."""
_TABLES = ("family", "device", "alias")


def extended(catalogue: Mapping[str, Any], path: str | PathLike[str]) -> dict[str, Any]:
    """The tables of the catalogue with those of a file.

    A row that says ``like = "a100-80gb"`` takes from that device what it does not say itself; one of a name that the
    catalogue has replaces that. Families may be added the same way.

    Raises:
        InputError: the file cannot be read or is no such table: file, place and what was expected.
    """
    where = shown(path)
    try:
        document = tomllib.loads(decode_text(read_bytes(path, MAX_BYTES), where))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where}: is no TOML: {one_line(str(error), 120)}") from None
    tables: dict[str, Any] = {name: dict(rows) for name, rows in catalogue.items()}
    for table, rows in document.items():
        if table not in _TABLES or not isinstance(rows, dict):
            raise InputError(f"{where}: {quoted(table)}: expected tables named device.NAME, family.NAME, or alias")
        if table == "alias":
            tables[table] |= _lowered(_aliases(rows, where))
            continue
        for name, row in rows.items():
            tables[table][name.strip().lower() if table == "device" else name] = _row(
                row, tables[table], f"{where}: {table}.{one_line(name, 60)}"
            )
    return tables


def _lowered(rows: Mapping[str, str]) -> dict[str, str]:
    return {name.strip().lower(): target.strip().lower() for name, target in rows.items()}


def _aliases(rows: Mapping[str, Any], where: str) -> dict[str, str]:
    for name, target in rows.items():
        if not isinstance(target, str):
            raise InputError(f"{where}: alias.{one_line(name, 60)}: expected the name of a device")
    return dict(rows)


def _row(row: object, rows: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected a table")
    own = dict(row)
    model = own.pop("like", None)
    if model is None:
        return _checked({"source": "user"} | own if "memory" in own else own, where)
    if not isinstance(model, str) or model.lower() not in rows:
        raise InputError(f"{where}: like: {one_line(repr(model), 60)} is not in the catalogue")
    return _checked(dict(rows[model.lower()]) | own, where)


def _checked(row: dict[str, Any], where: str) -> dict[str, Any]:
    """The row, with numbers that can be."""
    numbers = dict(row) | (row["flops"] if isinstance(row.get("flops"), dict) else {})
    for key, value in numbers.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not (math.isfinite(value) and 0 < value < 1e30):
            raise InputError(f"{where}: {one_line(key, 60)} is {value!r}; expected a positive number")
        if key.endswith("_efficiency") and number and value > 1:
            raise InputError(f"{where}: {one_line(key, 60)} is {value!r}; expected a share of 1")
    return row
