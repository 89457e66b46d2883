"""Profiles of ONNX Runtime: a list of events, those of category ``Node`` with their durations in microseconds.

The format is that of Chrome's trace viewer; ONNX Runtime writes one with ``SessionOptions.enable_profiling``. The
kernel of a node is the event ``NAME_kernel_time`` with its provider in ``args``; it is there once for each run.
"""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

from msgspec import Struct

from piper.errors import InputError
from piper.formats.json_document import Amount, convert, parse
from piper.formats.source import decode_text, one_line, read_bytes, shown

CPU_PROVIDER = "CPUExecutionProvider"
MAX_BYTES = 512 * 2**20
"""Largest profile that is read."""
_SUFFIX = "_kernel_time"


class _Event(Struct):
    """An event of a node as the file has it."""

    name: str
    dur: Amount
    args: dict[str, Any] = {}


def load_profile(path: str | PathLike[str]) -> dict[str, dict[str, float]]:
    """Mean seconds of each node's kernel, by node name and provider.

    The first run of several is left out: it allocates, and compiles kernels.

    Raises:
        InputError: the file cannot be read, is no profile, or has no node in it.
    """
    where = shown(path)
    document = parse(decode_text(read_bytes(path, MAX_BYTES), where), where)
    if not isinstance(document, list):
        raise InputError(f"{where}: $: expected the list of events that ONNX Runtime writes")
    found: dict[str, dict[str, list[float]]] = {}
    for number, row in enumerate(document):
        if not isinstance(row, dict) or row.get("cat") != "Node" or not str(row.get("name")).endswith(_SUFFIX):
            continue
        event = convert(row, _Event, where, f"$[{number}]")
        provider = event.args.get("provider")
        name = one_line(event.name.removesuffix(_SUFFIX), 200)
        of_node = found.setdefault(name, {})
        of_node.setdefault(provider if isinstance(provider, str) else CPU_PROVIDER, []).append(event.dur / 1e6)
    if not found:
        raise InputError(f"{where}: no event is the kernel of a node; expected a profile of ONNX Runtime")
    return {
        name: {provider: _mean(seconds) for provider, seconds in by_provider.items()}
        for name, by_provider in found.items()
    }


def _mean(seconds: list[float]) -> float:
    kept = seconds[1:] or seconds
    return math.fsum(kept) / len(kept)
