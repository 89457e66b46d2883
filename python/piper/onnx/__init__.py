"""ONNX files, read without their weights: shapes, counts, layers.

The package `onnx` takes a second to import; it is imported when a file is read, not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper.model import Granularity, Model

__all__ = ["load_onnx"]

_NOTHING: Mapping[str, int] = MappingProxyType({})
_NO_SHAPES: Mapping[str, Sequence[int]] = MappingProxyType({})


def load_onnx(
    path: str | PathLike[str],
    *,
    dims: Mapping[str, int] = _NOTHING,
    shapes: Mapping[str, Sequence[int]] = _NO_SHAPES,
    assumptions: Mapping[str, int] = _NOTHING,
    dtype: str | None = None,
    granularity: Granularity = "auto",
) -> Model:
    """Read an ONNX model; its weights need not be there.

    Args:
        path: the ``.onnx`` file.
        dims: sizes of open dimensions of the inputs, by symbol (``batch``) or place (``input_ids.0``).
        shapes: whole shapes of inputs, by name.
        assumptions: values for what cannot be known without running the network, by the names that
            `Model.assumptions` reports.
        dtype: floating-point type to use instead of the file's own.
        granularity: ``"operator"`` makes every kernel a layer, ``"layer"`` every block, ``"auto"`` also joins
            neighbours where there are too many blocks to be planned in seconds.

    Returns:
        The model with exact counts for these shapes. `Model.operators` lists every node that is left after functions
        and branches are inlined; those whose rule is ``constant`` cost nothing and belong to no layer.

    Raises:
        piper.InputError: the file is no valid model, or dimensions stay open (all of them are named).
    """
    from piper.onnx.load import load_model

    return load_model(Path(path), dims, shapes, assumptions, dtype, granularity)
