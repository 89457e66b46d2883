"""From a model, devices and options to the workload that is placed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fsdecode
from typing import Any

from piper.costs.placement import Granularity, placement_from_model
from piper.errors import InputError
from piper.formats.placement_json import MAX_DEVICES
from piper.formats.source import one_line
from piper.loading import is_built_in, load
from piper.model import Model
from piper.placement.workload import AcceleratorClass, PlacementWorkload
from piper.planning.hardware import amount
from piper.planning.limits import check_count
from piper.planning.problem import check_choice
from piper.workload import Workload

Subject = Model | Workload | PlacementWorkload | str | PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSetting:
    """Where a model is placed; None leaves what the workload says."""

    accelerators: int | Mapping[str, int] | None = None
    """Number of accelerators, or by class."""
    cpus: int | None = None
    memory: float | str | None = None
    """Bytes of one accelerator, or text such as ``16GiB``."""
    bandwidth: float | str | None = None
    """Bytes per second between an accelerator and host memory; where a workload counts bytes."""
    device: str | None = None
    """What the accelerators are; models only."""
    granularity: Granularity | None = None
    """Models only."""
    unsupported: Collection[str] | None = None
    """Types of operators that accelerators cannot run; models only."""
    profile: str | PathLike[str] | None = None
    """Measured times of the operators; models only."""

    def check(self) -> None:
        """Refuse numbers and words that cannot be.

        Raises:
            InputError: naming the option and the value.
        """
        counts = self.accelerators if isinstance(self.accelerators, Mapping) else {"": self.accelerators}
        for name, count in counts.items():
            _check_devices(f"accelerators[{name!r}]" if name else "accelerators", count)
        _check_devices("cpus", self.cpus)
        if self.granularity is not None:
            check_choice("granularity", self.granularity, ("operator", "layer"))

    def refuse(self, what: str, names: Collection[str]) -> None:
        """Refuse options that do not go with what is placed, rather than ignore them.

        Raises:
            InputError: naming the first that was given.
        """
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(f"{what}: the option {name} does not apply to it")


def posed(subject: Subject, setting: PlacementSetting, reading: Mapping[str, Any] | None = None) -> PlacementWorkload:
    """The workload that is placed.

    Args:
        subject: a model or a placement workload, or the file or name that holds one.
        setting: the devices.
        reading: further arguments of `piper.load`.

    Raises:
        InputError: the subject cannot be read or has no use for an option, or a number or name cannot be used.
    """
    setting.check()
    if isinstance(subject, str | PathLike):
        subject = _read(subject, setting, reading or {})
    if isinstance(subject, Workload):
        raise InputError(
            f"{subject.name}: is a pipeline workload; use `piper plan`, `piper place` takes placement workloads"
        )
    if not isinstance(subject, Model | PlacementWorkload):
        raise InputError(
            f"model is {type(subject).__name__}; expected a model, a placement workload, a path or a name"
        )
    workload = _costed(subject, setting) if isinstance(subject, Model) else _measured(subject, setting)
    if setting.cpus is not None:
        workload = replace(workload, cpus=setting.cpus)
    if setting.memory is not None:
        workload = workload.with_memory(amount("memory", setting.memory))
    return workload


_MODEL_ONLY = ("device", "granularity", "unsupported", "profile")


def _read(
    path: str | PathLike[str], setting: PlacementSetting, reading: Mapping[str, Any]
) -> Model | Workload | PlacementWorkload:
    from piper.formats.detect import kind_of

    kind = None if is_built_in(path) else kind_of(path)
    where = one_line(fsdecode(path))
    if kind == "piper":
        raise InputError(
            f"{where}: is a pipeline workload; use `piper plan`, `piper place` takes placement workloads"
        )
    if kind == "pipedream":
        setting.refuse(f"{where}: is a profile", _MODEL_ONLY)
        return _profile(path, setting)
    return load(path, **reading)


def _profile(path: str | PathLike[str], setting: PlacementSetting) -> PlacementWorkload:
    from piper.formats.pipedream import load_pipedream_placement

    if isinstance(setting.accelerators, Mapping):
        raise InputError("accelerators: a profile has one class of them; expected a number")
    return load_pipedream_placement(
        path,
        accelerators=setting.accelerators,
        bandwidth=None if setting.bandwidth is None else amount("bandwidth", setting.bandwidth),
        cpus=setting.cpus or 0,
    )


def _measured(workload: PlacementWorkload, setting: PlacementSetting) -> PlacementWorkload:
    """A workload with the numbers of options in place of its own."""
    setting.refuse(f"{workload.name}: its times are measured", _MODEL_ONLY)
    if workload.time_unit is None:
        setting.refuse(f"{workload.name}: it counts transfers in time, not in bytes", ("bandwidth",))
    if setting.accelerators is None:
        return workload
    return replace(workload, classes=_counted(workload.classes, setting.accelerators))


def _counted(classes: tuple[AcceleratorClass, ...], counts: int | Mapping[str, int]) -> tuple[AcceleratorClass, ...]:
    names = [row.name for row in classes]
    if not isinstance(counts, Mapping):
        if len(classes) != 1:
            known = ", ".join(f"{name}=N" for name in names) or "none"
            raise InputError(f"accelerators: there are {len(classes)} classes; say how many of which: {known}")
        counts = {names[0]: counts}
    for name in counts:
        if name not in names:
            raise InputError(f"accelerators: there is no class {one_line(name, 60)!r}; expected {', '.join(names)}")
    return tuple(replace(row, count=counts.get(row.name, row.count)) for row in classes)


def _costed(model: Model, setting: PlacementSetting) -> PlacementWorkload:
    """The workload of a model: its operators' costs on the devices."""
    from piper.costs.devices import device
    from piper.placement.profile import measured

    if setting.device is None or setting.accelerators is None:
        raise InputError(
            f"{model.name}: a model has no measured times, so it needs accelerators and their device, as in "
            "--accelerators 4 --device t4"
        )
    if isinstance(setting.accelerators, Mapping):
        raise InputError("accelerators: a model is placed on one class of them; expected a number")
    times, warnings = (None, ()) if setting.profile is None else measured(model, setting.profile)
    workload = placement_from_model(
        model,
        device(setting.device),
        accelerators=setting.accelerators,
        cpus=setting.cpus or 0,
        granularity=setting.granularity,
        host_bandwidth=None if setting.bandwidth is None else amount("bandwidth", setting.bandwidth),
        unsupported=setting.unsupported,
        measured=times,
    )
    return replace(workload, warnings=(*workload.warnings, *warnings))


def _check_devices(name: str, value: int | None) -> None:
    if value != 0 or isinstance(value, bool):
        check_count(name, value, MAX_DEVICES)
