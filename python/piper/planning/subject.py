"""What is to be planned: a model or workload, or the file or name that holds one."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from piper.loading import load
from piper.model import Model
from piper.planning.hardware import amount, cluster_of
from piper.planning.problem import Setting
from piper.workload import Workload


def subject_of(
    model: Model | Workload | str | PathLike[str], setting: Setting, reading: Mapping[str, Any] | None = None
) -> Model | Workload:
    """The model itself, or what `piper.load` makes of its file or name.

    Args:
        model: a model, a workload, a path or the name of a built-in model.
        setting: its cluster's numbers go to readers of files that lack them.
        reading: further arguments of `piper.load`.

    Raises:
        InputError: as `piper.load`.
    """
    if isinstance(model, Model | Workload):
        return model
    return load(
        model,
        **(reading or {}),
        **_cluster_numbers(setting),
        microbatches=setting.microbatches,
        transfer=setting.transfer,
    )


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
