"""Keys of a JSON configuration, each checked where it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from piper.errors import InputError
from piper.formats.source import one_line


class Keys:
    """The keys of one object. `where` names its file in messages; a key that is null counts as missing."""

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self._document = document
        self.where = where

    def whole(self, name: str, largest: int, default: int | None = None, *, least: int = 1) -> int:
        """A whole number from `least` to `largest`.

        Raises:
            InputError: the value is none, or is missing and has no default.
        """
        expected = f"a whole number from {least} to {largest}"
        value = self._value(name, default, expected)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= largest:
            raise self.wrong(name, value, expected)
        return value

    def share(self, name: str, default: float) -> float:
        """A number from 0 to 1.

        Raises:
            InputError: the value is none.
        """
        value = self._value(name, default, "a number from 0 to 1")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise self.wrong(name, value, "a number from 0 to 1")
        return float(value)

    def truth(self, name: str, default: bool) -> bool:
        """True or false.

        Raises:
            InputError: the value is neither.
        """
        value = self._value(name, default, "true or false")
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string.

        Raises:
            InputError: the value is none, or is missing and has no default.
        """
        value = self._value(name, default, "a string")
        if not isinstance(value, str):
            raise self.wrong(name, value, "a string")
        return value

    def size_of(self, name: str) -> int | None:
        """Number of entries of an object; None where the key is missing.

        Raises:
            InputError: the value is no object, or is empty.
        """
        value = self._document.get(name)
        if value is None:
            return None
        if not isinstance(value, dict) or not value:
            raise self.wrong(name, value, "an object with an entry")
        return len(value)

    def wrong(self, name: str, value: object, expected: str) -> InputError:
        """The error for a value that is not what was expected."""
        return InputError(f"{self.where}: $.{name}: expected {expected}, got {_shown(value)}")

    def _value(self, name: str, default: object, expected: str) -> object:
        value = self._document.get(name)
        if value is not None:
            return value
        if default is None:
            raise InputError(f'{self.where}: $: the key "{name}" is missing; expected {expected}')
        return default


def _shown(value: object) -> str:
    """A value as JSON writes it, short and on one line."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    try:
        return one_line(json.dumps(value, ensure_ascii=False), 60)
    except ValueError:
        return "a number of thousands of digits"
