"""From a model and a cluster to the numbers that the planner needs."""

from __future__ import annotations

from collections.abc import Mapping

from piper.costs.cluster import Cluster
from piper.costs.costing import ModelCosts
from piper.costs.layer import Machine
from piper.costs.measurement import Measured
from piper.costs.training import Attention, GradientType, Training
from piper.errors import InputError
from piper.model import Model
from piper.workload import Edge, Workload

RESERVE = 0.06
"""Share of the memory that no plan uses: for the runtime, fragmentation, and buffers that no rule counts."""
MICROBATCHES_PER_DEVICE = 8
MAX_MICROBATCHES = 2**30


def workload_from_model(
    model: Model,
    cluster: Cluster,
    *,
    microbatches: int | None = None,
    max_tensor_parallel: int | None = None,
    optimizer_sharding: bool = False,
    attention: Attention = "fused",
    sequence_parallel: bool = False,
    gradient_dtype: GradientType | None = None,
    measured: Mapping[int, Measured] | None = None,
) -> Workload:
    """Cost every layer at every tensor-parallel degree. Times are seconds.

    A tensor that enters a stage is whole on every device of a tensor-parallel group, and each sends it to its
    counterpart over its own link; nothing else is exchanged there, so that synchronisation entries are 0.

    Args:
        model: what is trained, with the size of one microbatch fixed.
        cluster: the devices and their links.
        microbatches: in a batch; 8 for each device by default.
        max_tensor_parallel: the largest degree to cost; the devices of a node by default.
        optimizer_sharding: share the optimizer's state out over data-parallel replicas (ZeRO stage 1).
        attention: ``"fused"`` keeps no score matrices and moves them nowhere, ``"unfused"`` does both.
        sequence_parallel: share the tokens of norms, dropouts and additions out over tensor-parallel groups.
        gradient_dtype: type in which gradients are kept and exchanged; that of the weights by default.
        measured: times of operators by position, for the model's microbatch; they replace modelled ones.

    Returns:
        The workload. Layers of equal structure have equal numbers.

    Raises:
        InputError: the number of microbatches, `attention` or `gradient_dtype` is none.
    """
    training = Training(
        attention=attention,
        sequence_parallel=sequence_parallel,
        optimizer_sharding=optimizer_sharding,
        gradient_dtype=gradient_dtype,
    )
    count = MICROBATCHES_PER_DEVICE * cluster.devices if microbatches is None else microbatches
    if not 1 <= count <= MAX_MICROBATCHES:
        raise InputError(f"the number of microbatches is {count}; expected 1 to {MAX_MICROBATCHES}")
    machine = Machine(cluster.spec, training)
    costing = ModelCosts(model, machine, cluster.devices_per_node, max_tensor_parallel, measured)
    edges = tuple(Edge(edge.source, edge.target, float(edge.bytes)) for edge in model.edges)
    return Workload(
        name=model.name,
        layers=costing.layers(edges),
        edges=edges,
        devices=cluster.devices,
        memory_bytes=cluster.memory_bytes,
        microbatches=count,
        network=cluster.network,
        reserve_bytes=RESERVE * cluster.memory_bytes,
        transfer="tensor",
        ties=costing.ties(),
        time_unit="s",
        samples_per_microbatch=model.batch,
        tokens_per_microbatch=model.tokens,
        flops_per_microbatch=3.0 * model.flops,
        peak_flops_per_device=machine.device.peak(matmul_dtype(model)),
        warnings=(*model.warnings, *rate_warnings(model, cluster)),
    )


def matmul_dtype(model: Model) -> str:
    """The type in which most of the arithmetic is done."""
    flops: dict[str, int] = {}
    for operator in model.operators:
        flops[operator.dtype] = flops.get(operator.dtype, 0) + operator.flops
    return max(flops, key=lambda dtype: flops[dtype]) if any(flops.values()) else model.dtype


def rate_warnings(model: Model, cluster: Cluster) -> list[str]:
    """Types of matrix products for which another type's rate was taken."""
    used = dict.fromkeys(operator.dtype for operator in model.operators if operator.flops)
    return [
        f"{cluster.device} has no {dtype} arithmetic: its products are costed at the rate of a wider type"
        for dtype in used
        if not cluster.spec.has_rate(dtype)
    ]
