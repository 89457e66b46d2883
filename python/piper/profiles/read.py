"""Which format a profile has, told by its content."""

from __future__ import annotations

from os import PathLike
from typing import Any

import msgspec

from piper.errors import InputError
from piper.formats.source import decode_text, one_line, read_bytes, shown
from piper.profiles import chrome, onnxruntime, table
from piper.profiles.profile import Profile

MAX_BYTES = 2**29
"""Largest profile that is read."""


def read_profile(path: str | PathLike[str]) -> Profile:
    """Read a profile.

    Args:
        path: a profile of ONNX Runtime (JSON), a Chrome trace of PyTorch's profiler (JSON), or a table with the
            columns ``name``, ``forward_ms`` and, where known, ``backward_ms``, ``type``, ``batch`` (CSV).

    Raises:
        InputError: the file cannot be read or is none of these: file, place and what was expected.
    """
    where = shown(path)
    content = read_bytes(path, MAX_BYTES)
    if content.lstrip()[:1] not in (b"[", b"{"):
        return table.parse(decode_text(content, where), where)
    document = _json(content, where)
    if isinstance(document, list):
        return onnxruntime.parse(document, where)
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(events, list):
        raise InputError(f"{where}: $: expected a list of events, a Chrome trace with traceEvents, or a CSV table")
    return chrome.parse(events, where)


def _json(content: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: is no JSON: {one_line(str(error), 120)}") from None
