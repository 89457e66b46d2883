"""JSON files checked against msgspec structs, with messages that name the exact place.

msgspec alone reports a place inside a dictionary as ``[...]``, and takes the last of several equal keys. The first
pass here therefore makes plain objects and refuses repeated keys; the second converts them, and on failure walks down
to the value that is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from os import PathLike
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from piper.errors import InputError
from piper.formats.source import decode_text, one_line, quoted, read_bytes, shown

T = TypeVar("T")

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")

Amount = Annotated[float, Meta(ge=0, lt=1e30)]
"""A number of bytes or an amount of time. The upper limit keeps sums finite."""
Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A number that names something."""


def read_json(path: str | PathLike[str], kind: type[T]) -> T:
    """The content of a JSON file as `kind`; unknown keys are left aside.

    Raises:
        InputError: the file cannot be read, is not JSON, repeats a key, or has a value that does not fit `kind`.
    """
    where = shown(path)
    return convert(parse(decode_text(read_bytes(path), where), where), kind, where)


def parse(text: str, where: str) -> Any:
    """Plain objects from JSON text; `where` names the file in messages.

    ``NaN``, ``Infinity`` and overflowing numbers, which other programs write, are kept as floats: the check that
    follows refuses them with their place.

    Raises:
        InputError: the text is not JSON or repeats a key in an object.
    """
    repeated: list[_Repeated] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Repeated:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        repeated.append(_Repeated(pairs))
        return repeated[-1]

    try:
        document = json.loads(text, object_pairs_hook=collect)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{where}: {place}: is not JSON: {_syntax(error)}") from None
    except RecursionError:
        raise InputError(f"{where}: is nested too deeply") from None
    except ValueError:  # More digits than Python converts.
        raise InputError(f"{where}: contains a number of thousands of digits") from None
    if repeated:
        place, key = _first_repeated(document)
        raise InputError(f"{where}: {place}: the key {_as_json(key)} appears more than once")
    if _HALF_CHARACTER.search(text) is not None and not _is_unicode(document):
        raise InputError(f"{where}: contains an escaped half of a character (\\ud800 to \\udfff)")
    return document


def _is_unicode(document: Any) -> bool:
    """Whether every string can be written again."""
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def convert(document: Any, kind: type[T], where: str, path: str = "$") -> T:
    """A parsed document, or the part of one at `path`, as `kind`.

    Raises:
        InputError: with the JSON path of the first value that does not fit.
    """
    try:
        return msgspec.convert(document, kind, str_keys=True)
    except msgspec.ValidationError:
        raise InputError(f"{where}: {_explain(document, kind, path)}") from None


def count(value: float, largest: int, where: str) -> int:
    """A whole number from 1 to `largest`, written with or without a decimal point.

    Raises:
        InputError: it is none; `where` names file and path.
    """
    if not 1 <= value <= largest or value != int(value):
        raise InputError(f"{where}: expected a whole number from 1 to {largest}, got {value!r}")
    return int(value)


def member(path: str, key: object) -> str:
    """The JSON path of a dictionary's entry."""
    return f"{path}[{_as_json(str(key))}]"


class _Repeated:
    """Stands for an object that has a key twice, until its place is known."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs

    def key(self) -> str:
        """The first key that came before."""
        seen: set[str] = set()
        for key, _ in self.pairs:
            if key in seen:
                break
            seen.add(key)
        return key


def _first_repeated(document: Any) -> tuple[str, str]:
    """Path of the first object with a repeated key, outermost first, and the key."""
    pending: list[tuple[str, Any]] = [("$", document)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, _Repeated):
            return path, value.key()
        parts = [(_step(path, key), part) for key, part in _members(value)]
        pending.extend(reversed(parts))
    return "$", ""


def _members(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _step(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if re.fullmatch(r"[A-Za-z_]\w{0,63}", key, re.ASCII) else member(path, key)


def _explain(value: Any, kind: Any, path: str) -> str:
    """Path and message of the innermost value that does not fit `kind`."""
    for part_path, part, part_kind in _parts(value, kind, path):
        if _misfit(part, part_kind) is not None:
            return _explain(part, part_kind, part_path)
    message = _misfit(value, kind) or "does not fit"
    return f"{path}: {_in_words(message, value)}"


def _parts(value: Any, kind: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The typed parts of a value, each with its path."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if value is not None and get_origin(kind) is UnionType and len(others := _without_none(kind)) == 1:
        kind = others[0]
    if isinstance(value, list) and get_origin(kind) is list:
        (item,) = get_args(kind)
        yield from ((f"{path}[{position}]", part, item) for position, part in enumerate(value))
    elif isinstance(value, dict) and get_origin(kind) is dict:
        key_kind, item = get_args(kind)
        for key, part in value.items():
            yield member(path, key), _Key(key), key_kind
            yield member(path, key), part, item
    elif isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            if field.encode_name in value:
                yield f"{path}.{field.encode_name}", value[field.encode_name], field.type


def _without_none(kind: Any) -> list[Any]:
    """The types of a union that are not None's."""
    return [part for part in get_args(kind) if part is not NoneType]


class _Key(str):
    """A dictionary's key, which is checked in the way of keys: text that may stand for a number."""

    __slots__ = ()


def _misfit(value: Any, kind: Any) -> str | None:
    """Msgspec's message on a value that does not fit."""
    try:
        if isinstance(value, _Key):
            msgspec.convert({str(value): None}, dict[kind, Any], str_keys=True)
        else:
            msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        return str(error).partition(" - at `")[0]
    return None


_WORDS = {
    "`float`": "a number",
    "`int`": "an integer",
    "`str`": "a string",
    "`str | null`": "a string",
    "`bool`": "a truth value",
    "`array`": "a list",
    "`null`": "null",
    "`object`": "an object",
}


def _in_words(message: str, value: Any) -> str:
    """Msgspec's message in the words of JSON, with the value where that is short."""
    missing = re.fullmatch(r"Object missing required field `(.*)`", message)
    if missing is not None:
        return f'the key "{missing[1]}" is missing'
    text = "expected a number below 1e+30" if message == "Number out of range" else message[:1].lower() + message[1:]
    if isinstance(value, str | int | float):
        text = f"{text.partition(', got ')[0]}, got {_as_json(value)}"
    for word, plain in _WORDS.items():
        text = text.replace(word, plain)
    return text


def _as_json(value: object) -> str:
    """A value as JSON writes it, cut to a readable length."""
    try:
        return one_line(json.dumps(str(value) if isinstance(value, str) else value, ensure_ascii=False), 60)
    except ValueError:
        return "a number of thousands of digits"


def _syntax(error: json.JSONDecodeError) -> str:
    """What is wrong with the text, in one line."""
    if error.pos >= len(error.doc.rstrip()):
        return "the text ends too early"
    if error.msg.startswith("Unterminated string"):
        return "a string that begins there does not end"
    found = error.doc[error.pos : error.pos + 12]
    return f"{error.msg[:1].lower()}{error.msg[1:]}, found {quoted(found)}"
