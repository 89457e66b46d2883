"""Models that Piper knows by name: rows of `models.toml`, each the keys of a Hugging Face configuration."""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from piper.errors import InputError
from piper.formats.huggingface import Wanted, model_from_config
from piper.formats.source import one_line
from piper.model import Model


def names() -> tuple[str, ...]:
    """All names, in the order of the file."""
    return tuple(_configurations())


def load(
    name: str,
    *,
    sequence: int | None = None,
    microbatch_size: int | None = None,
    dtype: str | None = None,
    vocabulary: int | None = None,
) -> Model:
    """The model of that name.

    Args:
        name: one of `names`, in any case.
        sequence: tokens in a sample; by default the smaller of the model's maximum and 4096.
        microbatch_size: samples in a microbatch; 1 by default.
        dtype: type of weights and activations; bfloat16 by default.
        vocabulary: in place of the model's.

    Raises:
        InputError: there is no such model, or an argument is out of range.
    """
    key = name.strip().lower()
    if key not in _configurations():
        raise InputError(f"{one_line(name, 60)!r} is no built-in model; {_suggestion(key)}")
    wanted = Wanted(sequence=sequence, microbatch_size=microbatch_size, dtype=dtype, vocabulary=vocabulary)
    return model_from_config(_configurations()[key], key, key, wanted)


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name[:60], names(), n=3, cutoff=0.5)
    return f"similar names: {', '.join(near)}" if near else f"expected one of {', '.join(names())}"


@cache
def _configurations() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("piper.formats").joinpath("models.toml").read_text(encoding="utf-8"))
