"""Measured times for the operators of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from piper.costs.measurement import BACKWARD, Measured
from piper.errors import InputError
from piper.formats.source import one_line
from piper.model import Model, Operator
from piper.profiles.profile import Profile, Sample

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Measurements:
    """Times by position of the operator, for a microbatch of `batch` samples."""

    times: Mapping[int, Measured]
    batch: int
    warnings: tuple[str, ...] = ()
    """What was not matched."""

    def at(self, batch: int) -> dict[int, Measured]:
        """The times in proportion to a microbatch of another size."""
        scale = batch / self.batch
        return {
            position: Measured(times.forward * scale, None if times.backward is None else times.backward * scale)
            for position, times in self.times.items()
        }


def match(model: Model, profile: Profile) -> Measurements:
    """Find the operators and layers that a profile has times for.

    They are matched by name and, where the profile has one, by type. The time of a layer is shared out over its
    operators by their arithmetic. Operators without a time stay modelled.

    Raises:
        InputError: nothing of the profile is in the model.
    """
    named: dict[str, list[int]] = {}
    for position, operator in enumerate(model.operators):
        named.setdefault(operator.name, []).append(position)
    layers = {layer.name: layer.operators for layer in model.layers}
    times: dict[int, Measured] = {}
    strange: list[str] = []
    for name, sample in profile.samples.items():
        found = named.get(name, [])
        if len(found) == 1 and _same_type(model.operators[found[0]], sample):
            times[found[0]] = Measured(sample.forward, sample.backward)
        elif not found and name in layers:
            times |= _shared(model, layers[name], sample)
        else:
            strange.append(name)
    if not times:
        raise InputError(
            f"{profile.where}: none of its {len(profile.samples)} names is an operator or layer of "
            f"{one_line(model.name, 60)}; `piper inspect --operators` lists them"
        )
    return Measurements(times, profile.batch or model.batch, _warnings(model, profile, times, strange))


def _same_type(operator: Operator, sample: Sample) -> bool:
    return sample.op_type is None or sample.op_type == operator.op_type


def _shared(model: Model, positions: Sequence[int], sample: Sample) -> dict[int, Measured]:
    operators = [model.operators[position] for position in positions]
    parts = [operator.flops for operator in operators]
    if not any(parts):
        parts = [operator.bytes_moved for operator in operators]
    total = sum(parts)
    backward = BACKWARD * sample.forward if sample.backward is None else sample.backward
    return {
        position: Measured(sample.forward * part / total, backward * part / total) if total else Measured(0.0, 0.0)
        for position, part in zip(positions, parts, strict=True)
    }


def _warnings(
    model: Model, profile: Profile, times: Mapping[int, Measured], strange: Sequence[str]
) -> tuple[str, ...]:
    missing = [
        operator.name
        for position, operator in enumerate(model.operators)
        if position not in times and operator.rule not in ("constant", "view")
    ]
    warnings = []
    if missing:
        warnings.append(f"{profile.where}: no time for {_listed(missing)}; modelled times are used")
    if strange:
        warnings.append(f"{profile.where}: no operator of that name and type for {_listed(strange)}")
    return tuple(warnings)


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} operators: {text}" if len(names) > 1 else text
