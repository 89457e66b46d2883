"""`piper.evaluate` for a configuration: the model from its file or name, the cluster from text."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from piper.costs.cluster import Cluster
from piper.errors import InputError
from piper.loading import load
from piper.model import Model
from piper.planning.hardware import amount, cluster_of
from piper.prediction.configuration import Configuration
from piper.prediction.predict import predict
from piper.prediction.result import Prediction
from piper.profiles import match, read_profile


def evaluate_configuration(
    model: object,
    configuration: Configuration,
    cluster: Cluster | str | None,
    *,
    memory: float | str | None = None,
    bandwidth: float | str | None = None,
    reserve: float | str | None = None,
    profile: str | PathLike[str] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Prediction:
    """Predict iteration time and memory of a configuration.

    Args:
        model: a `Model`, or what `piper.load` takes; a workload file has times for no configuration but its own.
        configuration: degrees, batch, schedule and memory options.
        cluster: the devices and their links.
        memory: bytes of one device.
        bandwidth: bytes per second of one device to other nodes.
        reserve: bytes of each device to keep free; 6 % by default.
        profile: file of measured times of operators, which go before modelled ones.
        reading: further arguments of `piper.load`.

    Raises:
        InputError: an argument cannot be used, or the configuration goes with neither model nor cluster.
    """
    found = load(model, **(reading or {})) if isinstance(model, str | PathLike) else model
    if not isinstance(found, Model):
        name = getattr(found, "name", "this")
        raise InputError(f"{name}: configurations are for models; a workload file needs a RESULT to score")
    place = cluster_of(cluster, memory, bandwidth)
    if place is None:
        raise InputError(
            f"{found.name}: a model has no measured times, so it needs a cluster (or device), as in 4x8:h100-80gb"
        )
    free = None if reserve is None else amount("reserve", reserve)
    measured = None if profile is None else match(found, read_profile(profile))
    return predict(found, configuration, place, reserve=free, measured=measured)
