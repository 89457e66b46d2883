"""`piper.load`: whatever holds a model or a workload, told apart by content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TypedDict

from piper.costs.units import parse_bytes
from piper.errors import InputError
from piper.formats.source import one_line, shown
from piper.model import Granularity, Model
from piper.placement.workload import PlacementWorkload
from piper.workload import Transfer, Workload

_FILE_NAME = re.compile(r"[/\\]|\.(onnx|json|txt|pb|bin)$", re.IGNORECASE)
"""What is in a name only if it is meant to be a file's."""


def load(
    path: str | PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    assumptions: Mapping[str, int] | None = None,
    dtype: str | None = None,
    granularity: Granularity | None = None,
    sequence: int | None = None,
    vocabulary: int | None = None,
    microbatch_size: int | None = None,
    devices: int | None = None,
    memory: float | str | None = None,
    bandwidth: float | str | None = None,
    microbatches: int | None = None,
    transfer: Transfer | None = None,
) -> Model | Workload | PlacementWorkload:
    """Read a model or a workload.

    Args:
        path: an ONNX model, a Hugging Face ``config.json``, a Piper or placement workload (JSON), a PipeDream profile
            (text), or the name of a built-in model, such as ``llama3-70b``.
        dims: sizes of the symbolic dimensions of an ONNX model, by symbol.
        shapes: whole shapes of inputs of an ONNX model, by input.
        assumptions: numbers that an ONNX graph leaves open, such as trip counts of loops, by name.
        dtype: type of weights and activations, such as ``"bfloat16"``. Default: the file's own, bfloat16 for
            transformers given by their configuration.
        granularity: what is a layer of an ONNX model: ``"operator"`` every kernel, ``"layer"`` every block,
            ``"auto"`` (the default) blocks, joined where there are too many to be planned in seconds.
        sequence: tokens in a sample, for transformers given by their configuration. Default: the smaller of the
            model's maximum and 4096.
        vocabulary: size of the vocabulary in place of the configuration's.
        microbatch_size: samples in a microbatch, for transformers given by their configuration. Default: 1.
        devices: number of devices, for a PipeDream profile, which does not say.
        memory: bytes of one device, for a PipeDream profile; or text, as ``"16GB"``.
        bandwidth: bytes per second between devices, for a PipeDream profile; or text.
        microbatches: microbatches in a batch, for a PipeDream profile.
        transfer: how a PipeDream profile's activations with several consumers are paid for.

    Returns:
        A `Model` where costs are yet to be computed, a `Workload` or (for `piper.place`) a `PlacementWorkload` where
        they were measured.

    Raises:
        InputError: there is no such file or built-in model, the file cannot be used, or an option does not go with
            it.
    """
    wanted = _Wanted(dims, shapes, assumptions, dtype, granularity, sequence, vocabulary, microbatch_size)
    cluster = _Cluster(devices, _bytes(memory), _bytes(bandwidth), microbatches, transfer)
    if is_built_in(path):
        return _built_in(fspath(path), wanted)
    return _from_file(path, wanted, cluster)


def _bytes(size: float | str | None) -> float | None:
    return float(parse_bytes(size)) if isinstance(size, str) else size


def is_profile(path: str | PathLike[str]) -> bool:
    """Whether a file is a PipeDream profile, which knows no cluster.

    Raises:
        InputError: the file cannot be read.
    """
    from piper.formats.detect import kind_of

    return not is_built_in(path) and kind_of(path) == "pipedream"


def is_built_in(path: str | PathLike[str]) -> bool:
    """Whether it can only be meant as the name of a built-in model; a file of that name goes first."""
    name = fspath(path)
    return isinstance(path, str) and not _FILE_NAME.search(name) and not _exists(name)


def _exists(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # Too long for a file, or with a null character.
        return False


class _Sizes(TypedDict):
    """Arguments of the readers of transformers."""

    sequence: int | None
    microbatch_size: int | None
    dtype: str | None
    vocabulary: int | None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How a model is to be read."""

    dims: Mapping[str, int] | None
    shapes: Mapping[str, Sequence[int]] | None
    assumptions: Mapping[str, int] | None
    dtype: str | None
    granularity: Granularity | None
    sequence: int | None
    vocabulary: int | None
    microbatch_size: int | None

    def of_transformer(self) -> _Sizes:
        """What a transformer's configuration leaves open."""
        return {
            "sequence": self.sequence,
            "microbatch_size": self.microbatch_size,
            "dtype": self.dtype,
            "vocabulary": self.vocabulary,
        }

    def refuse(self, what: str, names: Sequence[str]) -> None:
        """Refuse options that do not go with what is read, rather than ignore them.

        Raises:
            InputError: naming the first that was given.
        """
        for name in names:
            if getattr(self, name):
                option = _OPTIONS.get(name, name)
                raise InputError(f"{what}: {option} does not apply to it")


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What a profile does not say."""

    devices: int | None
    memory: float | None
    bandwidth: float | None
    microbatches: int | None
    transfer: Transfer | None


_OPTIONS = {"dims": "dims (--dim)", "shapes": "shapes (--shape)", "assumptions": "assumptions (--assume)"}
_ONNX_ONLY = ("dims", "shapes", "assumptions", "granularity")
_TRANSFORMER_ONLY = ("sequence", "vocabulary", "microbatch_size")


def _from_file(path: str | PathLike[str], wanted: _Wanted, cluster: _Cluster) -> Model | Workload | PlacementWorkload:
    from piper.formats.detect import kind_of

    where, kind = shown(path), kind_of(path)
    match kind:
        case "onnx":
            wanted.refuse(f"{where}: is an ONNX model", _TRANSFORMER_ONLY)
            return _onnx(path, wanted)
        case "huggingface":
            wanted.refuse(f"{where}: is a Hugging Face configuration", _ONNX_ONLY)
            return _huggingface(path, wanted)
        case "piper":
            from piper.formats.piper_json import load_piper

            wanted.refuse(f"{where}: is a workload", (*_ONNX_ONLY, *_TRANSFORMER_ONLY, "dtype"))
            return load_piper(path)
        case "pipedream":
            wanted.refuse(f"{where}: is a profile", (*_ONNX_ONLY, *_TRANSFORMER_ONLY, "dtype"))
            return _pipedream(path, cluster)
        case "placement":
            from piper.formats.placement_json import load_placement

            wanted.refuse(f"{where}: is a workload", (*_ONNX_ONLY, *_TRANSFORMER_ONLY, "dtype"))
            return load_placement(path)
    raise InputError(f"{where}: is a {kind}, a result; expected a model or a workload")


def _built_in(name: str, wanted: _Wanted) -> Model:
    from piper.formats import builtin

    wanted.refuse(f"{one_line(name, 60)}: is a built-in model", _ONNX_ONLY)
    try:
        return builtin.load(name, **wanted.of_transformer())
    except InputError as error:
        if name.strip().lower() in builtin.names():
            raise
        raise InputError(f"{error}, and there is no file of that name") from None


def _huggingface(path: str | PathLike[str], wanted: _Wanted) -> Model:
    from piper.formats.huggingface import load_huggingface

    return load_huggingface(path, **wanted.of_transformer())


def _onnx(path: str | PathLike[str], wanted: _Wanted) -> Model:
    from piper.onnx import load_onnx

    return load_onnx(
        path,
        dims=wanted.dims or {},
        shapes=wanted.shapes or {},
        assumptions=wanted.assumptions or {},
        dtype=wanted.dtype,
        granularity=wanted.granularity or "auto",
    )


def _pipedream(path: str | PathLike[str], cluster: _Cluster) -> Workload:
    from piper.formats.pipedream import load_pipedream

    return load_pipedream(
        path,
        devices=cluster.devices,
        memory=cluster.memory,
        bandwidth=cluster.bandwidth,
        microbatches=cluster.microbatches,
        transfer=cluster.transfer or "edge",
    )
