"""The alternatives of one layer at one tensor-parallel degree: no, selective and full recomputation."""

from __future__ import annotations

from collections.abc import Mapping

from piper.costs.layer import LayerCost, Variant
from piper.workload import Tmpc

VANILLA = "vanilla"
SELECTIVE = "selective recomp"
FULL = "full recomp"
_NAMES: Mapping[Variant, str] = {"none": VANILLA, "selective": SELECTIVE, "full": FULL}


def tmpcs(cost: LayerCost, *, optimizer_sharding: bool) -> tuple[Tmpc, ...]:
    """All alternatives, without synchronisation entries; recomputation only where it saves memory."""
    return tuple(_tmpc(cost, variant, sharded=optimizer_sharding) for variant in cost.variants())


def _tmpc(cost: LayerCost, variant: Variant, *, sharded: bool) -> Tmpc:
    """One alternative.

    Recomputed activations are there for one microbatch at a time, so that they count once, as in the workloads of the
    Piper paper.
    """
    parameters = cost.parameters
    fixed = parameters.weight + parameters.gradient + cost.transient(variant)
    return Tmpc(
        id=_NAMES[variant],
        time=cost.forward + cost.backward + cost.recomputation(variant),
        weight_bytes=parameters.gradient,
        memory_per_microbatch=cost.in_flight(variant),
        memory_fixed=fixed if sharded else fixed + parameters.optimizer,
        memory_sharded=parameters.optimizer if sharded else 0.0,
        sync_forward=(),
        sync_backward=(),
    )
