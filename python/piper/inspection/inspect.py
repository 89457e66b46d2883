"""`piper.inspect`: what a model or a workload is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

from piper.costs.cluster import Cluster
from piper.errors import InputError
from piper.formats.source import shown
from piper.inspection.model import ModelInspection
from piper.inspection.placement import PlacementInspection
from piper.inspection.workload import WorkloadInspection
from piper.loading import is_profile, load
from piper.model import Granularity, Model
from piper.placement.workload import PlacementWorkload
from piper.workload import Workload


def inspect(
    model: Model | Workload | PlacementWorkload | str | PathLike[str],
    cluster: Cluster | str | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    assumptions: Mapping[str, int] | None = None,
    dtype: str | None = None,
    granularity: Granularity | None = None,
    sequence: int | None = None,
    vocabulary: int | None = None,
    microbatch_size: int | None = None,
    profile: str | PathLike[str] | None = None,
) -> ModelInspection | WorkloadInspection | PlacementInspection:
    """Show what a model is made of, and where each number comes from.

    FLOPs are those of one forward pass of one microbatch, 2 for each multiply-add; matrix multiplications,
    convolutions and recurrent cells only. Sizes are bytes, shared weights counted once.

    Args:
        model: what `piper.load` returns, or what it takes.
        cluster: the device (``"h100-80gb"``) or cluster on which operators are timed; models only.
        dims: as for `piper.load`, like all that follow.
        shapes: whole shapes of inputs of an ONNX model, by input.
        assumptions: numbers that an ONNX graph leaves open, by name.
        dtype: type of weights and activations.
        granularity: what is a layer of an ONNX model.
        sequence: tokens in a sample.
        vocabulary: size of the vocabulary.
        microbatch_size: samples in a microbatch.
        profile: file of measured times of operators, which go before modelled ones; needs `cluster` for the rest.

    Returns:
        Something that prints as a table and has `to_json`.

    Raises:
        InputError: the model cannot be read, there is no such device, or a workload was to be timed.
    """
    if isinstance(model, Model | Workload | PlacementWorkload):
        return _inspection(model, cluster, profile)
    # A profile is shown as it is, whatever cluster it will run on.
    number = 1 if is_profile(model) else None
    found = load(
        model,
        dims=dims,
        shapes=shapes,
        assumptions=assumptions,
        dtype=dtype,
        granularity=granularity,
        sequence=sequence,
        vocabulary=vocabulary,
        microbatch_size=microbatch_size,
        devices=number,
        memory=number,
        bandwidth=number,
        microbatches=number,
    )
    return _inspection(found, cluster, profile, cluster_known=number is None)


def _inspection(
    model: Model | Workload | PlacementWorkload,
    cluster: Cluster | str | None,
    profile: str | PathLike[str] | None,
    *,
    cluster_known: bool = True,
) -> ModelInspection | WorkloadInspection | PlacementInspection:
    if isinstance(model, Model):
        return _timed(model, cluster, profile)
    if profile is not None:
        raise InputError(f"{model.name}: its times are measured; a profile is for models")
    if cluster is not None:
        raise InputError(f"{model.name}: its times are measured; a device does not change them")
    if isinstance(model, PlacementWorkload):
        return PlacementInspection(model)
    return WorkloadInspection(model, cluster_known=cluster_known)


def _timed(model: Model, cluster: Cluster | str | None, profile: str | PathLike[str] | None) -> ModelInspection:
    if cluster is None:
        if profile is not None:
            raise InputError(f"{shown(profile)}: operators that it lacks are modelled; name a cluster or device, too")
        return ModelInspection(model)
    from piper.costs.operators import operator_seconds

    device = (Cluster.parse(cluster) if isinstance(cluster, str) else cluster).spec
    seconds = operator_seconds(model, device)
    if profile is None:
        return ModelInspection(model, seconds, device.name)
    from piper.profiles import match, read_profile

    found = match(model, read_profile(profile))
    times = found.at(model.batch)
    known = tuple(times[i].forward if i in times else modelled for i, modelled in enumerate(seconds))
    return ModelInspection(model, known, device.name, frozenset(times), found.warnings)
