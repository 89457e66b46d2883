"""Profiles of ONNX Runtime, as ``SessionOptions.enable_profiling`` writes them.

The kernel of a node is the event ``NAME_kernel_time`` of category ``Node``, once for each run, with the type of the
operator and the execution provider in its arguments. ONNX Runtime runs forward passes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from piper.errors import InputError
from piper.profiles.events import argument, complete, seconds
from piper.profiles.profile import Profile, Sample, mean

_SUFFIX = "_kernel_time"
_CPU = "CPUExecutionProvider"


def parse(rows: Sequence[Any], where: str) -> Profile:
    """Mean time of the kernel of each node; where a node ran on several providers, that of the accelerator.

    Raises:
        InputError: there is no kernel of a node among the events.
    """
    times: dict[tuple[str, bool], list[float]] = {}
    types: dict[str, str | None] = {}
    for place, row in complete(rows, where):
        name: str = row["name"]
        if row.get("cat") != "Node" or not name.endswith(_SUFFIX):
            continue
        name = name.removesuffix(_SUFFIX)
        accelerated = argument(row, "provider") not in (None, _CPU)
        times.setdefault((name, accelerated), []).append(seconds(row, place))
        op_type = argument(row, "op_name")
        types[name] = op_type if isinstance(op_type, str) else None
    if not times:
        raise InputError(f"{where}: no event is the kernel of a node; expected a profile of ONNX Runtime")
    samples = {
        name: Sample(
            mean(times.get((name, True)) or times[name, False]), op_type=op_type, on_cpu=(name, True) not in times
        )
        for name, op_type in types.items()
    }
    return Profile(where, samples)
