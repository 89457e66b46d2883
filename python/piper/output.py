"""Writing results to files without destroying anything."""

from __future__ import annotations

import json
import os
import re
import shutil
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from piper.errors import InputError

_NUMBERS = re.compile(r"\[\n([-+.,\deE\s]+)\n *\]")
"""A list of numbers over several lines; strings hold no raw line breaks, so none can match."""


def json_text(document: dict[str, Any]) -> str:
    """Indented ASCII with a newline at the end, lists of numbers on one line."""
    text = json.dumps(document, indent=2, allow_nan=False)
    return _NUMBERS.sub(lambda match: f"[{' '.join(match[1].split())}]", text) + "\n"


def check_writable(path: str | PathLike[str], *, force: bool) -> None:
    """Fail now rather than after a long solve.

    Raises:
        InputError: the file exists and `force` is not set, its folder does not exist, or no file can have that name.
    """
    target = Path(path)
    try:
        target.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InputError(f"{fspath(path)}: cannot be written: {error.strerror}") from None
    except ValueError:  # A null character in the name.
        raise InputError(f"{fspath(path)!r}: is no name that a file can have") from None
    if target.is_dir():
        raise InputError(f"{fspath(path)}: is a folder; expected the name of a file to write")
    if target.is_file() and not force:
        raise InputError(f"{fspath(path)}: exists already; use --force (force=True) to overwrite it")
    if not target.parent.is_dir():
        raise InputError(f"{fspath(path)}: the folder {target.parent} does not exist")


def write_json(document: dict[str, Any], path: str | PathLike[str], *, force: bool = False) -> None:
    """Write a result as JSON, all of it or nothing.

    Raises:
        InputError: as `check_writable`, or the system refuses to write.
    """
    check_writable(path, force=force)
    text = json_text(document)
    try:
        _write(Path(path), text)
    except OSError as error:
        raise InputError(f"{fspath(path)}: cannot be written: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():  # A pipe or a device, which cannot be replaced.
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()
    beside = target.with_name(f".{target.name[:200]}.{os.getpid()}")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
