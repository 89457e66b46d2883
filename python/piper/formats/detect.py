"""Which format a file has, told by its content: names and extensions mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Literal

import msgspec

from piper.errors import InputError
from piper.formats import placement_json
from piper.formats.json_document import parse
from piper.formats.source import WIDE_MARKS, decode_text, read_bytes, read_head, shown

Kind = Literal["onnx", "piper", "placement", "pipedream", "huggingface", "plan", "split"]

_HEAD_BYTES = 2**16
_TEXT_BYTES = frozenset(b"\t\n\f\r") | frozenset(range(0x20, 0x100))
_FOREIGN = {
    b"PK\x03\x04": "a zip archive, such as a PyTorch checkpoint",
    b"\x1f\x8b": "compressed with gzip",
    b"\x89HDF": "an HDF5 file",
    b"\x80\x02": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF document",
}
_KEYS: Mapping[Kind, frozenset[str]] = {
    "placement": placement_json.KEYS,
    "piper": frozenset({"mbsInBatch", "maxBatchSize", "maxMemoryPerDevice", "maxDevices", "nodes", "edges"}),
    "huggingface": frozenset(
        {
            "model_type",
            "architectures",
            "hidden_size",
            "num_hidden_layers",
            "n_embd",
            "n_layer",
            "d_model",
            "num_layers",
        }
    ),
    "plan": frozenset({"stages", "feasible"}),
    "split": frozenset({"fpgas", "cpus"}),
}
"""Keys by which a JSON object is recognised, the most telling first."""
_EXPECTED = "expected an ONNX model, a Piper workload, a PipeDream profile or a Hugging Face configuration"


def kind_of(path: str | PathLike[str]) -> Kind:
    """The format of a file. Nothing is checked beyond what tells formats apart.

    Args:
        path: a regular file.

    Returns:
        ``onnx`` for anything binary that is not known to be something else; ``plan`` and ``split`` are results.

    Raises:
        InputError: the file cannot be read, or it is text or JSON of no known format.
    """
    where = shown(path)
    head = read_head(path, _HEAD_BYTES)
    for magic, name in _FOREIGN.items():
        if head.startswith(magic):
            raise InputError(f"{where}: is {name}; {_EXPECTED}")
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return _kind_of_json(read_bytes(path), where)
    if head.startswith(WIDE_MARKS):
        decode_text(head, where)
    if not set(head) - _TEXT_BYTES:
        if b" -- " in head:
            return "pipedream"
        raise InputError(f"{where}: is text of no known format; {_EXPECTED}")
    return "onnx"


def _kind_of_json(data: bytes, where: str) -> Kind:
    """The format that an object's keys belong to."""
    try:
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys()
    except (msgspec.DecodeError, RecursionError):
        # Slower, but with a place in the message, and open to the NaN of other programs.
        document = parse(decode_text(data, where), where)
        if not isinstance(document, dict):
            raise InputError(f"{where}: $: is no JSON object; {_EXPECTED}") from None
        keys = document.keys()
    for kind, known in _KEYS.items():
        if keys & known:
            return kind
    raise InputError(f"{where}: $: has no key of a known format; {_EXPECTED}")
