"""Sizes and times as people write and read them."""

from __future__ import annotations

import re
from fractions import Fraction

from piper.errors import InputError

_FACTORS = {
    "": 1,
    "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15, "e": 10**18,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40, "pi": 2**50, "ei": 2**60,
}  # fmt: skip
_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*(?:([kmgtpe]i?)?b)?", re.ASCII | re.IGNORECASE)
_LONGEST = 64
MAX_BYTES = 2**63 - 1
"""Largest size that is understood, 8 EiB."""


def parse_bytes(text: str) -> int:
    """A size such as ``8GiB`` (binary), ``80GB`` (decimal) or ``123`` (bytes), rounded to whole bytes.

    Raises:
        InputError: the text is no such size, or it is larger than `MAX_BYTES`.
    """
    match = _SIZE.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        raise InputError(f"{_shown(text)} is no size; expected bytes or a unit, such as 8GiB, 80GB or 123")
    size = round(Fraction(match[1]) * _FACTORS[(match[2] or "").lower()])
    if size > MAX_BYTES:
        raise InputError(f"{_shown(text)} is too large; expected a size below 8 EiB")
    return size


def format_bytes(size: float) -> str:
    """A size in binary units with three significant digits, such as ``1.5 GiB``."""
    return _scaled(size, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def format_count(count: float) -> str:
    """A number with a decimal prefix and three significant digits, such as ``175 G``."""
    return _scaled(count, 1000.0, ("", "k", "M", "G", "T", "P", "E")).rstrip()


def format_seconds(seconds: float) -> str:
    """A time with three significant digits, such as ``12.3 ms``."""
    if seconds >= 1 or seconds == 0:
        return f"{_digits(seconds)} s"
    for factor, unit in ((1e3, "ms"), (1e6, "µs")):
        # What rounds to 1000 of one unit is shown as 1 of the next.
        if seconds * factor >= 0.9995:
            return f"{_digits(seconds * factor)} {unit}" if seconds * factor < 999.5 else _over(unit)
    return f"{_digits(seconds * 1e9)} ns"


def _over(unit: str) -> str:
    return {"ms": "1 s", "µs": "1 ms"}[unit]


def _scaled(value: float, base: float, units: tuple[str, ...]) -> str:
    position = 0
    # 999.5 would be shown as 1000, or in scientific notation, with three digits.
    while abs(value) >= min(base, 999.5) and position < len(units) - 1:
        value /= base
        position += 1
    return f"{_digits(value)} {units[position]}"


def _digits(value: float) -> str:
    """Three significant digits, none of them after the point for larger numbers, without trailing zeros."""
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    places = 1 if abs(value) >= 9.995 else 2
    return f"{value:.{places}f}".rstrip("0").rstrip(".")


def _shown(text: str) -> str:
    """Hostile text, short and on one line."""
    return repr(text) if len(text) <= _LONGEST else repr(text[:_LONGEST] + "...")
