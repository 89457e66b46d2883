"""Measured times of a model's operators, as a placement takes them."""

from __future__ import annotations

from os import PathLike

from piper.costs.placement import Measured
from piper.model import Model
from piper.profiles import match, read_profile


def measured(model: Model, path: str | PathLike[str]) -> tuple[Measured, tuple[str, ...]]:
    """Forward times of the operators that a profile has, and warnings on what was not matched.

    Times that ONNX Runtime's CPU provider took are those of a CPU, all others those of an accelerator.

    Raises:
        InputError: the profile cannot be read, or nothing of it is in the model.
    """
    profile = read_profile(path)
    found = match(model, profile)
    times: dict[bool, dict[int, float]] = {False: {}, True: {}}
    for position, time in found.at(model.batch).items():
        sample = profile.samples.get(model.operators[position].name)
        times[sample is not None and sample.on_cpu][position] = time.forward
    return Measured(accelerator=times[False], cpu=times[True]), found.warnings
