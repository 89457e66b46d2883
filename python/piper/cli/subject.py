"""From options to a model and the arguments that the Python functions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from piper.costs.cluster import Cluster
from piper.model import Model
from piper.placement.problem import PlacementSetting, posed
from piper.placement.workload import PlacementWorkload
from piper.planning.problem import Setting
from piper.planning.subject import subject_of
from piper.workload import Workload

_READING = ("dims", "shapes", "assumptions", "dtype", "sequence", "vocabulary")
_SETTING = ("cluster", "devices", "memory", "bandwidth", "microbatches", "transfer")


def read(model: str, options: dict[str, Any]) -> tuple[Model | Workload, dict[str, Any]]:
    """The model, and the options that are left as arguments of `piper.plan` and its like.

    Raises:
        InputError: the model cannot be read.
        click.UsageError: options contradict each other.
    """
    arguments = dict(options)
    reading = reading_arguments(arguments) | {"granularity": arguments.pop("granularity")}
    arguments["cluster"] = cluster_argument(arguments.pop("cluster"), arguments.pop("device"), arguments["devices"])
    setting = Setting(**{name: arguments[name] for name in _SETTING})
    return subject_of(model, setting, reading), arguments


def placement_arguments(options: dict[str, Any]) -> tuple[PlacementSetting, dict[str, Any]]:
    """Take out what a placement is made for, and what `piper.load` wants to know; drop what was not given."""
    if options["granularity"] == "auto":
        options["granularity"] = None
    names = ("cpus", "memory", "bandwidth", "device", "granularity", "unsupported", "profile")
    setting = PlacementSetting(
        accelerators=_accelerators(options.pop("accelerators")), **{name: options.pop(name) for name in names}
    )
    reading = reading_arguments(options)
    for name in ("load", "training_objective", "max_replicas"):
        if options[name] is None:
            options.pop(name)
    return setting, reading


def read_placement(model: str, setting: PlacementSetting, reading: dict[str, Any]) -> PlacementWorkload:
    """The workload that is placed.

    Raises:
        InputError: the model cannot be read or placed.
    """
    return posed(model, setting, reading)


def _accelerators(given: Sequence[tuple[str | None, int]]) -> int | dict[str, int] | None:
    """``--accelerators K``, or ``--accelerators CLASS=K`` for several classes.

    Raises:
        click.UsageError: the two forms are mixed, or one is repeated.
    """
    if not given:
        return None
    if len(given) == 1 and given[0][0] is None:
        return given[0][1]
    counts = {name: count for name, count in given if name is not None}
    if len(counts) < len(given):
        raise click.UsageError("--accelerators: give one number, or one CLASS=K for each class")
    return counts


def reading_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Take out what `piper.load` wants to know."""
    reading = {name: options.pop(name) for name in _READING}
    return reading | {name: dict(reading[name]) for name in ("dims", "shapes", "assumptions")}


def cluster_argument(cluster: str | None, device: str | None, devices: int | None) -> Cluster | str | None:
    """The cluster of ``--cluster``, or of ``--device`` with ``--devices``.

    Raises:
        InputError: there is no such device.
        click.UsageError: both are given.
    """
    if device is None:
        return cluster
    if cluster is not None:
        raise click.UsageError("--device does not go with --cluster, which names the device itself")
    return Cluster.of(device, devices or 1)
