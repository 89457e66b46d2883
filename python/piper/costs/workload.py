"""From a model and a cluster to the numbers that the planner needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from piper.costs.cluster import Cluster
from piper.costs.kernels import Attention
from piper.costs.parameters import ParameterBytes, parameter_bytes
from piper.costs.sharding import allows, share
from piper.costs.tmpcs import Machine, tmpcs
from piper.errors import InputError
from piper.model import Model, ModelLayer, Operator, Partition, Tensor
from piper.workload import Edge, Layer, Tie, TieCost, Tmpc, Workload

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

    Returns:
        The workload. Layers of equal structure have equal numbers.

    Raises:
        InputError: the number of microbatches or `attention` is none.
    """
    if attention not in ("fused", "unfused"):
        raise InputError(f"attention is {attention!r}; expected 'fused' or 'unfused'")
    count = MICROBATCHES_PER_DEVICE * cluster.devices if microbatches is None else microbatches
    if not 1 <= count <= MAX_MICROBATCHES:
        raise InputError(f"the number of microbatches is {count}; expected 1 to {MAX_MICROBATCHES}")
    machine = Machine(cluster.spec, attention, optimizer_sharding)
    costing = _Costing(model, machine, _degrees(model, cluster.devices_per_node, max_tensor_parallel))
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
        peak_flops_per_device=machine.device.peak(_matmul_dtype(model)),
        warnings=(*model.warnings, *_rate_warnings(model, cluster)),
    )


@dataclass(frozen=True, slots=True)
class _Use:
    """A weight as its owner, the first layer that reads it, uses it."""

    weight: Tensor
    operator: Operator

    def bytes_at(self, degree: int) -> ParameterBytes:
        """On one device of a tensor-parallel group."""
        part = share(self.operator, degree).part
        return parameter_bytes(self.weight, part, trainable=self.operator.trainable)


class _Costing:
    """Costs of the layers of a model, computed once for layers of equal structure."""

    def __init__(self, model: Model, machine: Machine, degrees: Sequence[int]) -> None:
        self._model = model
        self._machine = machine
        self._degrees = degrees
        self._owned, self._users = _weights(model)
        self._known: dict[object, dict[int, tuple[Tmpc, ...]]] = {}

    def layers(self, edges: Sequence[Edge]) -> tuple[Layer, ...]:
        incoming = [0] * len(self._model.layers)
        outgoing = [0] * len(self._model.layers)
        for edge in edges:
            outgoing[edge.source] += 1
            incoming[edge.target] += 1
        return tuple(
            Layer(number, layer.name, self._on_edges(number, incoming[number], outgoing[number]))
            for number, layer in enumerate(self._model.layers)
        )

    def ties(self) -> tuple[Tie, ...]:
        """Weights of several layers, those of the same layers together."""
        shared: dict[tuple[int, ...], list[_Use]] = {}
        for owned in self._owned:
            for use in owned:
                users = self._users[use.weight.name]
                if len(users) > 1:
                    shared.setdefault(users, []).append(use)
        return tuple(
            Tie(users, {degree: self._copy(uses, degree) for degree in self._degrees})
            for users, uses in shared.items()
        )

    def _copy(self, uses: Sequence[_Use], degree: int) -> TieCost:
        size = _total(use.bytes_at(degree) for use in uses)
        sharded = self._machine.optimizer_sharding
        fixed = size.weight + size.gradient
        return TieCost(
            weight_bytes=size.gradient,
            memory_fixed=fixed if sharded else fixed + size.optimizer,
            memory_sharded=size.optimizer if sharded else 0.0,
        )

    def _on_edges(self, number: int, incoming: int, outgoing: int) -> dict[int, tuple[Tmpc, ...]]:
        """The alternatives of a layer with entries for its edges."""
        forward, backward = (0.0,) * incoming, (0.0,) * outgoing
        return {
            degree: tuple(replace(tmpc, sync_forward=forward, sync_backward=backward) for tmpc in alternatives)
            for degree, alternatives in self._alternatives(number).items()
        }

    def _alternatives(self, number: int) -> dict[int, tuple[Tmpc, ...]]:
        layer = self._model.layers[number]
        operators = [self._model.operators[position] for position in layer.operators]
        owned = self._owned[number]
        key = (layer.degrees, layer.input_bytes, tuple(map(_structure, operators)), tuple(map(_use_structure, owned)))
        if key not in self._known:
            self._known[key] = {
                degree: self._at(layer, operators, owned, degree)
                for degree in self._degrees
                if allows(layer, operators, degree)
            }
        return self._known[key]

    def _at(
        self, layer: ModelLayer, operators: Sequence[Operator], owned: Sequence[_Use], degree: int
    ) -> tuple[Tmpc, ...]:
        shares = [share(operator, degree) for operator in operators]
        parameters = _total(use.bytes_at(degree) for use in owned)
        return tmpcs(shares, degree, parameters, float(layer.input_bytes), self._machine)


def _weights(model: Model) -> tuple[list[list[_Use]], dict[str, tuple[int, ...]]]:
    """The weights that each layer owns, and the layers that use each weight."""
    owned: list[list[_Use]] = [[] for _ in model.layers]
    users: dict[str, tuple[int, ...]] = {}
    for number, layer in enumerate(model.layers):
        for position in layer.operators:
            operator = model.operators[position]
            for weight in operator.weights:
                before = users.get(weight.name, ())
                if not before:
                    owned[number].append(_Use(weight, operator))
                if number not in before:
                    users[weight.name] = (*before, number)
    return owned, users


def _structure(operator: Operator) -> object:
    """All of an operator that its costs depend on."""
    return (
        operator.flops,
        operator.input_bytes,
        operator.output_bytes,
        operator.weight_bytes,
        operator.saved_bytes,
        operator.saved_bytes_unfused,
        operator.partition,
        operator.divides,
        operator.selective,
        operator.dtype,
        operator.trainable,
    )


def _use_structure(use: _Use) -> object:
    operator = use.operator
    return use.weight.dtype, use.weight.elements, operator.partition, operator.divides, operator.trainable


def _degrees(model: Model, node: int, largest: int | None) -> tuple[int, ...]:
    """1, and the degrees at which some layer divides its work; a group must lie in one node."""
    layers = {(layer.degrees, _divides(model, layer)) for layer in model.layers}
    return tuple(
        degree
        for degree in sorted({1}.union(*(offered for offered, _ in layers)))
        if node % degree == 0
        and degree <= (largest or node)
        and (degree == 1 or any(degree in offered and _any_multiple(sizes, degree) for offered, sizes in layers))
    )


def _divides(model: Model, layer: ModelLayer) -> frozenset[int]:
    """The sizes that a degree may divide in a layer."""
    operators = (model.operators[position] for position in layer.operators)
    return frozenset(x.divides for x in operators if x.partition is not Partition.REPLICATED)


def _any_multiple(sizes: Iterable[int], degree: int) -> bool:
    return any(size % degree == 0 for size in sizes)


def _total(sizes: Iterable[ParameterBytes]) -> ParameterBytes:
    return sum(sizes, ParameterBytes())


def _matmul_dtype(model: Model) -> str:
    """The type in which most of the arithmetic is done."""
    flops: dict[str, int] = {}
    for operator in model.operators:
        flops[operator.dtype] = flops.get(operator.dtype, 0) + operator.flops
    return max(flops, key=lambda dtype: flops[dtype]) if any(flops.values()) else model.dtype


def _rate_warnings(model: Model, cluster: Cluster) -> list[str]:
    """Types of matrix products for which another type's rate was taken."""
    used = dict.fromkeys(operator.dtype for operator in model.operators if operator.flops)
    return [
        f"{cluster.device} has no {dtype} arithmetic: its products are costed at the rate of a wider type"
        for dtype in used
        if not cluster.spec.has_rate(dtype)
    ]
