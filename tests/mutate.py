"""Small damage to files, of the kinds that editors, disks and other programs do."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

NUMBERS = (
    *(
        b"0 -0 -1 1 2 0.5 -0.5 1e-400 1e400 -1e400 1e29 1e30 1e308 NaN -Infinity Infinity nan inf 1_0 0x10 1. .5 01"
    ).split(),
    *(str(2**power + offset).encode() for power in (31, 32, 53, 63, 64, 70) for offset in (-1, 0, 1)),
    b"9" * 400,
    b"9" * 5000,
)
FRAGMENTS = (
    *rb'{ } [ ] , : " "" {} [] [[]] {"a":1} null true false \ \u0000 \ud800 -- = ; /'.split(),
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xf0\x9f\x98\x80",
    b"\t",
    b"\n",
    b"\r\n",
    b" -- ",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"\x00",
    b"\x80" * 12,
    b"\xff" * 12,
)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|\w+|[^\w\s]')

Mutation = Callable[[random.Random, bytes], bytes]


def mutated(rng: random.Random, seeds: Sequence[bytes], *, binary: bool) -> bytes:
    """One of the seeds with one to three pieces of damage."""
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.05:
            data = _splice(rng, data, rng.choice(seeds))
        else:
            data = rng.choice(_BINARY if binary else _TEXT)(rng, data)
    return data


def _slice(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + int(rng.expovariate(1 / 40)) + 1)


def _flip_bits(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8)) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _replace_bytes(rng: random.Random, data: bytes) -> bytes:
    start, end = _slice(rng, data)
    return data[:start] + rng.randbytes(end - start) + data[end:]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _delete(rng: random.Random, data: bytes) -> bytes:
    start, end = _slice(rng, data)
    return data[:start] + data[end:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start, end = _slice(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 50)) + data[end:]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(FRAGMENTS + NUMBERS) + data[at:]


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _change_number(rng: random.Random, data: bytes) -> bytes:
    span = _near(rng, _NUMBER, data)
    return data if span is None else data[: span[0]] + rng.choice(NUMBERS) + data[span[1] :]


def _change_token(rng: random.Random, data: bytes) -> bytes:
    span = _near(rng, _TOKEN, data)
    return data if span is None else data[: span[0]] + rng.choice(FRAGMENTS + NUMBERS + (b"",)) + data[span[1] :]


def _swap_tokens(rng: random.Random, data: bytes) -> bytes:
    spans = sorted({span for span in (_near(rng, _TOKEN, data), _near(rng, _TOKEN, data)) if span is not None})
    if len(spans) < 2 or spans[0][1] > spans[1][0]:
        return data
    (a, b), (c, d) = spans
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _delete_line(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def _near(rng: random.Random, pattern: re.Pattern[bytes], data: bytes) -> tuple[int, int] | None:
    """The first match after a random place."""
    match = pattern.search(data, rng.randrange(len(data) + 1))
    return None if match is None else match.span()


_BINARY: tuple[Mutation, ...] = (_flip_bits, _flip_bits, _replace_bytes, _truncate, _delete, _repeat, _insert)
_TEXT: tuple[Mutation, ...] = (
    _change_number,
    _change_number,
    _change_number,
    _change_token,
    _change_token,
    _swap_tokens,
    _swap_tokens,
    _delete_line,
    *_BINARY,
)
