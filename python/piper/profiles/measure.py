"""Measuring a model with ONNX Runtime, which writes the profile.

Optimisations are off, so that the nodes that run are those of the file, by the same names. Needs the ``profile``
extra.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from piper.errors import InputError
from piper.formats.source import one_line, shown
from piper.loading import load
from piper.model import Model, Tensor
from piper.output import check_writable

if TYPE_CHECKING:
    import numpy as np

CPU_PROVIDER = "CPUExecutionProvider"
RUNS = 10
"""Runs after the first, which readers leave out."""
_SEED = 0


def profile(
    model: str | PathLike[str],
    path: str | PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    runs: int = RUNS,
    provider: str = CPU_PROVIDER,
    force: bool = False,
) -> None:
    """Run an ONNX model on random inputs and write the times of its nodes.

    Args:
        model: the ONNX file, with its weights.
        path: the profile to write, which ``--profile`` (``profile=``) reads.
        dims: sizes of its symbolic dimensions.
        shapes: whole shapes of its inputs.
        runs: how often it is run, after a first time that does not count.
        provider: ONNX Runtime's execution provider.
        force: whether an existing file may be overwritten.

    Raises:
        InputError: onnxruntime is not there, the model cannot be read or run, or the file cannot be written.
    """
    check_writable(path, force=force)
    runtime = _runtime()
    if provider not in runtime.get_available_providers():
        known = ", ".join(runtime.get_available_providers())
        raise InputError(f"there is no provider {one_line(provider, 60)!r} in this onnxruntime; it has {known}")
    read = load(model, dims=dims, shapes=shapes)
    if not isinstance(read, Model) or read.initializer_bytes is None:
        raise InputError(f"{shown(model)}: is no ONNX model; only those can be run")
    with tempfile.TemporaryDirectory() as folder:
        written = _run(runtime, model, read, runs, provider, Path(folder, "profile"))
        try:
            shutil.copyfile(written, path)
        except OSError as error:
            raise InputError(f"{shown(path)}: cannot be written: {error.strerror}") from error


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise InputError(
            "measuring needs the package onnxruntime; install it with `pip install 'piper-dnn[profile]'`"
        ) from None
    return onnxruntime


def _run(runtime: Any, path: str | PathLike[str], model: Model, runs: int, provider: str, prefix: Path) -> Path:
    """Run the model; the file that the runtime has written."""
    options = runtime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # Errors are raised; nothing else belongs on the standard error.
    try:
        session = runtime.InferenceSession(os.fspath(path), options, providers=[provider])
        inputs = {tensor.name: _random(tensor) for tensor in model.inputs}
        for _ in range(runs + 1):
            session.run(None, inputs)
        return Path(session.end_profiling())
    except InputError:
        raise
    except Exception as error:  # The runtime has a class for each of its errors and no common one.
        raise InputError(f"{shown(path)}: onnxruntime cannot run it: {one_line(str(error), 300)}") from None


def _random(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Values that every operator takes: zeros for whole numbers, which may be positions in a table."""
    import numpy as np

    if tensor.dtype in ("float16", "float32", "float64"):
        generator = np.random.default_rng(_SEED)
        return generator.standard_normal(tensor.shape).astype(tensor.dtype)
    if tensor.dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        return np.zeros(tensor.shape, tensor.dtype)
    raise InputError(f"input {one_line(tensor.name, 60)!r}: values of type {tensor.dtype} cannot be made up")
