"""From a model, a cluster and options to what the solver and the judge take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from piper.costs.training import Training
from piper.costs.units import format_bytes
from piper.errors import InputError
from piper.model import Model
from piper.planning.hardware import amount, cluster_of, flat, on_cluster, within
from piper.planning.limits import Restrictions, check_count
from piper.planning.result import PlannedLayer
from piper.workload import Limits, Schedule, Transfer, Workload

if TYPE_CHECKING:
    from piper.costs.cluster import Cluster
    from piper.profiles.match import Measurements


_USUAL = Training()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a model runs and how its batch is cut; None leaves what the workload or the defaults say."""

    cluster: Cluster | str | None = None
    devices: int | None = None
    memory: float | str | None = None
    """Bytes of one device, or text such as ``8GiB``."""
    bandwidth: float | str | None = None
    """Bytes per unit of time between stages, or text such as ``25GiB``."""
    microbatches: int | None = None
    reserve: float | str | None = None
    """Bytes of each device that no plan may use."""
    transfer: Transfer | None = None
    schedule: Schedule = "async"
    training: Training = _USUAL
    """Attention, sequence parallelism, gradients and optimizer of a model."""
    measured: Measurements | None = None
    """Times of a model's operators."""

    def check(self) -> None:
        """Refuse numbers that cannot be.

        Raises:
            InputError: naming the option and the value.
        """
        check_count("devices", self.devices)
        check_count("microbatches", self.microbatches)
        check_choice("schedule", self.schedule, ("async", "gpipe", "1f1b"))
        if self.transfer is not None:
            check_choice("transfer", self.transfer, ("edge", "tensor"))


@dataclass(frozen=True, slots=True)
class Problem:
    """A workload with everything that the user wants of its plan."""

    workload: Workload
    limits: Limits
    schedule: Schedule
    layers: tuple[PlannedLayer, ...]
    proportional_reserve: bool = False
    """Whether the reserve is a share of the memory, not an amount."""

    @property
    def usable_memory(self) -> float:
        """Bytes of a device that plans may use."""
        return self.workload.memory_bytes - self.workload.reserve_bytes

    def with_reserve(self, usable: float) -> float:
        """Bytes that a device must have for `usable` bytes to be left."""
        if not self.proportional_reserve or self.usable_memory <= 0:
            return usable + self.workload.reserve_bytes
        # One byte more, since the share is taken off again in floating point.
        return float(math.ceil(usable * self.workload.memory_bytes / self.usable_memory) + 1)


def problem(subject: Model | Workload, setting: Setting, restrictions: Restrictions) -> Problem:
    """The numbers of a model on a cluster, or a workload with its own numbers overridden.

    Raises:
        InputError: a number or name cannot be used, or a model has no cluster.
    """
    setting.check()
    check_choice("recompute", restrictions.recompute, ("auto", "never", "always"))
    own = isinstance(subject, Model)
    workload = costed(subject, setting) if isinstance(subject, Model) else overridden(subject, setting)
    if setting.reserve is not None:
        workload = replace(workload, reserve_bytes=_reserve(setting.reserve, workload))
    if setting.transfer is not None:
        workload = replace(workload, transfer=setting.transfer)
    limits = restrictions.resolve(workload.layers)
    return Problem(
        workload=workload,
        limits=limits,
        schedule=setting.schedule,
        layers=planned_layers(subject, workload),
        proportional_reserve=own and setting.reserve is None,
    )


def costed(model: Model, setting: Setting) -> Workload:
    """The workload of a model: its layers' costs on the devices of the cluster."""
    if not model.layers:
        raise InputError(f"{model.name}: has no operators that take time, so there is nothing to plan")
    from piper.costs.workload import MICROBATCHES_PER_DEVICE, workload_from_model

    cluster = cluster_of(setting.cluster, setting.memory, setting.bandwidth)
    if cluster is None:
        raise InputError(
            f"{model.name}: a model has no measured times, so it needs a cluster (or device), as in 4x8:h100-80gb"
        )
    devices = within(setting.devices, cluster)
    microbatches = setting.microbatches or MICROBATCHES_PER_DEVICE * devices
    training, measured = setting.training, setting.measured
    workload = workload_from_model(
        model,
        cluster,
        microbatches=microbatches,
        optimizer_sharding=training.optimizer_sharding,
        attention=training.attention,
        sequence_parallel=training.sequence_parallel,
        gradient_dtype=training.gradient_dtype,
        measured=None if measured is None else measured.at(model.batch),
    )
    warnings = (*workload.warnings, *(measured.warnings if measured else ()))
    return replace(workload, devices=devices, warnings=warnings)


def overridden(workload: Workload, setting: Setting) -> Workload:
    """A workload file with the numbers of a cluster or of single options in place of its own."""
    if setting.training != _USUAL:
        raise InputError(
            f"{workload.name}: the costs of a workload file are measured; attention, sequence_parallel, "
            "optimizer_sharding and gradient_dtype are for models"
        )
    cluster = cluster_of(setting.cluster, setting.memory, setting.bandwidth)
    if cluster is not None:
        workload = replace(on_cluster(workload, cluster), devices=within(setting.devices, cluster))
    elif setting.devices is not None:
        workload = replace(workload, devices=setting.devices)
    if setting.memory is not None:
        workload = replace(workload, memory_bytes=amount("memory", setting.memory))
    if setting.bandwidth is not None:
        workload = replace(workload, network=flat(workload.network, amount("bandwidth", setting.bandwidth)))
    return replace(workload, microbatches=setting.microbatches or workload.microbatches)


def _reserve(reserve: float | str, workload: Workload) -> float:
    size = amount("reserve", reserve)
    if size > workload.memory_bytes:
        memory = format_bytes(workload.memory_bytes)
        raise InputError(f"reserve is {format_bytes(size)}, more than the {memory} that a device has")
    return size


def planned_layers(subject: Model | Workload, workload: Workload) -> tuple[PlannedLayer, ...]:
    """The layers as results list them; those of a workload file form a block when they have the same name."""
    blocks = (
        [layer.block for layer in subject.layers] if isinstance(subject, Model) else [None] * len(workload.layers)
    )
    return tuple(
        PlannedLayer(layer.id, layer.name, block or layer.name)
        for layer, block in zip(workload.layers, blocks, strict=True)
    )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse what is none of the choices.

    Raises:
        InputError: naming the option, the value and the choices.
    """
    if value not in choices:
        raise InputError(f"{name} is {value!r}; expected {', '.join(choices[:-1])} or {choices[-1]}")
