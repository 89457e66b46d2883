"""What is to be planned: a model or workload, or the file or name that holds one."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fsdecode
from typing import Any

from piper.errors import InputError
from piper.formats.source import one_line
from piper.loading import load
from piper.model import Model
from piper.placement.workload import PlacementWorkload
from piper.planning.hardware import amount, cluster_of
from piper.planning.problem import Setting
from piper.workload import Workload

Subject = Model | Workload | PlacementWorkload | str | PathLike[str]
"""What users name to be planned; a placement workload is refused with a word on the command that takes it."""


def subject_of(
    model: Subject,
    setting: Setting,
    reading: Mapping[str, Any] | None = None,
) -> Model | Workload:
    """The model itself, or what `piper.load` makes of its file or name.

    Args:
        model: a model, a workload, a path or the name of a built-in model.
        setting: its cluster's numbers go to readers of files that lack them.
        reading: further arguments of `piper.load`.

    Raises:
        InputError: as `piper.load`, or it is a placement workload.
    """
    if isinstance(model, Model | Workload):
        return model
    if isinstance(model, PlacementWorkload):
        raise _placement(model.name)
    found = load(
        model,
        **(reading or {}),
        **_cluster_numbers(setting),
        microbatches=setting.microbatches,
        transfer=setting.transfer,
    )
    if isinstance(found, PlacementWorkload):
        raise _placement(one_line(fsdecode(model)))
    return found


def _placement(name: str) -> InputError:
    return InputError(f"{name}: is a placement workload; use `piper place`, `piper plan` takes pipeline workloads")


def _cluster_numbers(setting: Setting) -> dict[str, Any]:
    """What readers of profiles want to know."""
    cluster = cluster_of(setting.cluster, setting.memory, setting.bandwidth)
    if cluster is not None:
        bandwidth = cluster.network.stage_bandwidth
        return {"devices": cluster.devices, "memory": cluster.memory_bytes, "bandwidth": bandwidth}
    return {
        "devices": setting.devices,
        "memory": None if setting.memory is None else amount("memory", setting.memory),
        "bandwidth": None if setting.bandwidth is None else amount("bandwidth", setting.bandwidth),
    }
