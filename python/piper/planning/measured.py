"""Measured times for the operators of what is planned."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

from piper.errors import InputError
from piper.model import Model
from piper.planning.problem import Setting
from piper.workload import Workload


def with_profile(setting: Setting, subject: Model | Workload, profile: str | PathLike[str] | None) -> Setting:
    """The setting with the times of a profile; they hold for the microbatch that the subject has now.

    Raises:
        InputError: the profile cannot be read or has nothing of the model, or the subject is a workload file.
    """
    if profile is None:
        return setting
    if isinstance(subject, Workload):
        raise InputError(f"{subject.name}: the times of a workload file are measured; a profile is for models")
    from piper.profiles import match, read_profile

    return replace(setting, measured=match(subject, read_profile(profile)))
