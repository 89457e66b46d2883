"""Files as bytes and text, with everything refused that is no file of a sensible size."""

from __future__ import annotations

import stat
from os import PathLike, fsdecode
from pathlib import Path

from piper.errors import InputError
from piper.text import one_line as one_line

MAX_TEXT_BYTES = 64 * 2**20
"""Largest JSON or text file that is read: hundreds of times a published workload, yet easily held when parsed."""

_UTF8_MARK = b"\xef\xbb\xbf"
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""Byte order marks of text that is not UTF-8."""


def shown(path: str | PathLike[str]) -> str:
    """A path as messages show it: on one line, whatever its characters."""
    return one_line(fsdecode(path))


def quoted(text: str, limit: int = 60) -> str:
    """Text from a file as messages show it: on one line, short, between quotation marks."""
    return f"'{one_line(text, limit)}'"


def read_bytes(path: str | PathLike[str], limit: int = MAX_TEXT_BYTES) -> bytes:
    """The content of a regular file.

    Raises:
        InputError: there is no such file, it cannot be read, it is a folder, a pipe or a device, it is empty, or it
            has more than `limit` bytes.
    """
    data = read_head(path, limit + 1)
    if len(data) > limit:
        raise InputError(f"{shown(path)}: is larger than {limit // 2**20} MiB, which no workload is")
    return data


def read_head(path: str | PathLike[str], limit: int) -> bytes:
    """The first bytes of a regular file, at most `limit`.

    Raises:
        InputError: as `read_bytes`, but for the size.
    """
    try:
        mode = Path(path).stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{shown(path)}: is a folder; expected a file")
        if not stat.S_ISREG(mode):
            raise InputError(f"{shown(path)}: is a pipe or a device; expected a file")
        with Path(path).open("rb") as file:
            data = file.read(limit)
    except FileNotFoundError:
        raise InputError(f"{shown(path)}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be read: {error.strerror or error}") from None
    except ValueError:  # A null character in the name.
        raise InputError(f"{shown(path)}: is no name that a file can have") from None
    if not data:
        raise InputError(f"{shown(path)}: is empty; expected a model, a workload or a configuration")
    return data


def decode_text(data: bytes, where: str) -> str:
    """UTF-8 text, a byte order mark dropped; `where` names the file in messages.

    Raises:
        InputError: the bytes are not UTF-8.
    """
    if data.startswith(WIDE_MARKS):
        raise InputError(f"{where}: is UTF-16 or UTF-32 text; expected UTF-8")
    try:
        return data.removeprefix(_UTF8_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{where}: line {line}: byte {error.start} is not UTF-8 text") from None
