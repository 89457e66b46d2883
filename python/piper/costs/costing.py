"""Costs of all layers of a model, computed once for layers of equal structure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from piper.costs.fusion import Fusion
from piper.costs.layer import LayerCost, Machine, layer_cost
from piper.costs.measurement import Measured
from piper.costs.parameters import ParameterBytes, parameter_bytes
from piper.costs.sharding import allows, layer_shares, share
from piper.costs.tmpcs import tmpcs
from piper.model import Model, ModelLayer, Operator, Partition, Tensor
from piper.workload import Edge, Layer, Tie, TieCost, Tmpc


@dataclass(frozen=True, slots=True)
class _Use:
    """A weight as its owner, the first layer that reads it, uses it."""

    weight: Tensor
    operator: Operator

    def bytes_at(self, degree: int, machine: Machine) -> ParameterBytes:
        """On one device of a tensor-parallel group."""
        part = share(self.operator, degree).part
        gradient = machine.training.gradient_dtype
        return parameter_bytes(self.weight, part, trainable=self.operator.trainable, gradient_dtype=gradient)


class ModelCosts:
    """Costs of the layers of a model at the degrees that a node allows.

    Args:
        model: what is trained, with the size of one microbatch fixed.
        machine: the device and how training is done.
        node: devices of a node, in which a tensor-parallel group must lie.
        largest: the largest degree to cost; None: the devices of a node.
        measured: times of operators by position, which replace modelled ones.
    """

    def __init__(
        self,
        model: Model,
        machine: Machine,
        node: int,
        largest: int | None = None,
        measured: Mapping[int, Measured] | None = None,
    ) -> None:
        self._model = model
        self._machine = machine
        self.degrees = _degrees(model, node, largest)
        self._measured = measured or {}
        self._fusion = Fusion(model, self._measured)
        self._owned, self._users = _weights(model)
        self._known: dict[object, dict[int, LayerCost]] = {}
        self._alternatives: dict[tuple[int, int, int], dict[int, tuple[Tmpc, ...]]] = {}

    def at(self, number: int) -> Mapping[int, LayerCost]:
        """Costs of a layer by degree; a degree that is missing is not possible."""
        layer = self._model.layers[number]
        kernels = self._fusion.operators(layer)
        operators = [operator for _, operator in kernels]
        owned = self._owned[number]
        times = tuple(self._measured.get(position) for position, _ in kernels) if self._measured else None
        structure = tuple(map(_structure, operators)), tuple(map(_use_structure, owned))
        key = (layer.degrees, layer.input_bytes, times, structure)
        if key not in self._known:
            self._known[key] = {
                degree: self._cost(layer, operators, owned, degree, times)
                for degree in self.degrees
                if allows(layer, operators, degree)
            }
        return self._known[key]

    def layers(self, edges: Sequence[Edge]) -> tuple[Layer, ...]:
        """The layers as the planner takes them."""
        incoming = [0] * len(self._model.layers)
        outgoing = [0] * len(self._model.layers)
        for edge in edges:
            outgoing[edge.source] += 1
            incoming[edge.target] += 1
        return tuple(
            Layer(number, layer.name, self._on_edges(number, incoming[number], outgoing[number]))
            for number, layer in enumerate(self._model.layers)
        )

    def tied(self) -> dict[tuple[int, ...], dict[int, ParameterBytes]]:
        """By the layers that share weights, bytes of one copy of these at each degree."""
        shared: dict[tuple[int, ...], list[_Use]] = {}
        for owned in self._owned:
            for use in owned:
                users = self._users[use.weight.name]
                if len(users) > 1:
                    shared.setdefault(users, []).append(use)
        return {
            users: {degree: _total(use.bytes_at(degree, self._machine) for use in uses) for degree in self.degrees}
            for users, uses in shared.items()
        }

    def ties(self) -> tuple[Tie, ...]:
        """Weights of several layers, those of the same layers together."""
        return tuple(
            Tie(users, {degree: self._copy(size) for degree, size in sizes.items()})
            for users, sizes in self.tied().items()
        )

    def _copy(self, size: ParameterBytes) -> TieCost:
        sharded = self._machine.training.optimizer_sharding
        fixed = size.weight + size.gradient
        return TieCost(
            weight_bytes=size.gradient,
            memory_fixed=fixed if sharded else fixed + size.optimizer,
            memory_sharded=size.optimizer if sharded else 0.0,
        )

    def _on_edges(self, number: int, incoming: int, outgoing: int) -> dict[int, tuple[Tmpc, ...]]:
        """The alternatives of a layer with entries for its edges."""
        costs = self.at(number)
        key = (id(costs), incoming, outgoing)
        if key not in self._alternatives:
            forward, backward = (0.0,) * incoming, (0.0,) * outgoing
            sharded = self._machine.training.optimizer_sharding
            self._alternatives[key] = {
                degree: tuple(
                    replace(tmpc, sync_forward=forward, sync_backward=backward)
                    for tmpc in tmpcs(cost, optimizer_sharding=sharded)
                )
                for degree, cost in costs.items()
            }
        return self._alternatives[key]

    def _cost(
        self,
        layer: ModelLayer,
        operators: Sequence[Operator],
        owned: Sequence[_Use],
        degree: int,
        times: Sequence[Measured | None] | None,
    ) -> LayerCost:
        machine = self._machine
        shares = layer_shares(operators, degree, sequence_parallel=machine.training.sequence_parallel)
        parameters = _total(use.bytes_at(degree, machine) for use in owned)
        return layer_cost(shares, degree, parameters, float(layer.input_bytes), machine, times)


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
        operator.rule,
        any(len(weight.shape) == 1 for weight in operator.weights),
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
