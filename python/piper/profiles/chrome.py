"""Chrome traces of PyTorch's profiler (``torch.profiler.profile``, ``export_chrome_trace``).

Work is named by annotations (``torch.profiler.record_function``, or the ranges of modules): a range on the device's
own time line (``gpu_user_annotation``) goes before the range on the host that launched it (``user_annotation``), and
both before operators (``cpu_op``) of the same name. A name that ends in ``.backward`` or ``_backward`` is the
backward pass of what comes before. Operators of PyTorch itself (``aten::mm``) name no part of a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from piper.errors import InputError
from piper.profiles.events import complete, seconds
from piper.profiles.profile import Profile, Sample, mean

_CATEGORIES = ("gpu_user_annotation", "user_annotation", "python_function", "cpu_op")
"""Best first."""
_BACKWARD = (".backward", "_backward", "/backward")
_MODULE = "nn.Module: "
_OWN = "::"
"""In the names of PyTorch's own operators."""


def parse(rows: Sequence[Any], where: str) -> Profile:
    """Mean times by name.

    Raises:
        InputError: no event has a name and a duration.
    """
    times: dict[tuple[str, bool], dict[str, list[float]]] = {}
    for place, row in complete(rows, where):
        category = row.get("cat")
        if row.get("ph") == "X" and category in _CATEGORIES and _OWN not in row["name"]:
            found = times.setdefault(_key(row["name"]), {})
            found.setdefault(category, []).append(seconds(row, place))
    if not times:
        raise InputError(f"{where}: no annotation, module or operator among the events; expected a trace of PyTorch")
    best = {key: mean(_best(found)) for key, found in times.items()}
    samples = {name: Sample(time, best.get((name, True))) for (name, backward), time in best.items() if not backward}
    if not samples:
        raise InputError(f"{where}: all names are of backward passes; expected forward passes, too")
    return Profile(where, samples)


def _key(name: str) -> tuple[str, bool]:
    name = name.removeprefix(_MODULE)
    for suffix in _BACKWARD:
        if name.endswith(suffix) and len(name) > len(suffix):
            return name.removesuffix(suffix), True
    return name, False


def _best(found: dict[str, list[float]]) -> list[float]:
    return next(found[category] for category in _CATEGORIES if category in found)
