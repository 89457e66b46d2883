"""From a model to a device-placement workload: what each operator takes on an accelerator and on a CPU.

Times are those of `piper.costs.operators`: one forward pass, each operator a kernel of its own. An accelerator holds
the weights of its operators; outputs move over its link to the host.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from piper.costs.devices import Device, device
from piper.costs.operators import operator_seconds
from piper.errors import InputError
from piper.model import Model, ModelEdge
from piper.placement.workload import AcceleratorClass, Node, PlacementWorkload

Granularity = Literal["operator", "layer"]

CPU = "cpu"
"""Row of the catalogue that stands for one CPU."""


def placement_from_model(
    model: Model,
    accelerator: Device,
    *,
    accelerators: int,
    cpus: int,
    granularity: Granularity | None = None,
    host_bandwidth: float | None = None,
    unsupported: Collection[str] | None = None,
    measured: Measured | None = None,
) -> PlacementWorkload:
    """The placement workload of a model, in seconds.

    Args:
        model: with all dimensions fixed.
        accelerator: what the accelerators are.
        accelerators: how many there are.
        cpus: number of CPUs, each the catalogue's ``cpu``.
        granularity: whether operators or layers are placed. Default: operators, where their graph is known.
        host_bandwidth: bytes per second between an accelerator and host memory. Default: the device's own.
        unsupported: types of operators that must stay on a CPU. Default: the device's own list.
        measured: times of operators in place of modelled ones.

    Returns:
        The workload. Numbers of nodes are positions in `Model.operators`, or in `Model.layers`. Operators that cost
        nothing since their results are known beforehand are left out.

    Raises:
        InputError: the graph of the operators is not known, or there is nothing to place.
    """
    chosen = granularity or ("operator" if model.operator_edges else "layer")
    if chosen == "operator" and not model.operator_edges and len(model.operators) > 1:
        raise InputError(f"{model.name}: the graph of its operators is not known; use the granularity layer")
    costs = _Costs(
        model,
        accelerator,
        accelerator.unsupported if unsupported is None else unsupported,
        measured or Measured(),
    )
    groups = _operators(model) if chosen == "operator" else _layers(model)
    if not groups:
        raise InputError(f"{model.name}: there is nothing to place in it")
    edges = model.operator_edges if chosen == "operator" else model.edges
    rate = host_bandwidth or accelerator.host_bandwidth * accelerator.family.link_efficiency
    sent = _sent(edges)
    seconds = {source: size / rate + accelerator.family.launch for source, size in sent.items() if size}
    nodes = tuple(costs.node(id_, *groups[id_], transfer=seconds.get(id_, 0.0)) for id_ in groups)
    positions = {id_: position for position, id_ in enumerate(groups)}
    return PlacementWorkload(
        name=model.name,
        nodes=nodes,
        edges=tuple((positions[edge.source], positions[edge.target]) for edge in edges),
        classes=(AcceleratorClass(accelerator.name, accelerators, accelerator.memory_bytes),),
        cpus=cpus,
        time_unit="s",
        warnings=model.warnings,
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured seconds by position of the operator."""

    accelerator: Mapping[int, float] = field(default_factory=dict)
    cpu: Mapping[int, float] = field(default_factory=dict)


def _replaced(modelled: Sequence[float], measured: Mapping[int, float]) -> list[float]:
    return [measured.get(place, seconds) for place, seconds in enumerate(modelled)]


class _Costs:
    """Costs of groups of operators."""

    def __init__(self, model: Model, accelerator: Device, unsupported: Collection[str], measured: Measured) -> None:
        self._model = model
        self._unsupported = frozenset(unsupported)
        self._accelerator_seconds = _replaced(operator_seconds(model, accelerator), measured.accelerator)
        self._cpu_seconds = _replaced(operator_seconds(model, device(CPU)), measured.cpu)

    def node(self, id_: int, name: str, places: tuple[int, ...], *, transfer: float) -> Node:
        """One node; weights that several of its operators read are held once."""
        operators = [self._model.operators[place] for place in places]
        weights = {weight.name: weight.bytes for operator in operators for weight in operator.weights}
        supported = not any(operator.op_type in self._unsupported for operator in operators)
        return Node(
            id=id_,
            name=name,
            cpu=sum(self._cpu_seconds[place] for place in places),
            accelerators=(sum(self._accelerator_seconds[place] for place in places) if supported else None,),
            size=float(sum(weights.values())),
            transfer=transfer,
        )


def _operators(model: Model) -> Mapping[int, tuple[str, tuple[int, ...]]]:
    """Name and operators of each node, where operators are nodes."""
    return {
        place: (operator.name, (place,))
        for place, operator in enumerate(model.operators)
        if operator.rule != "constant"
    }


def _layers(model: Model) -> Mapping[int, tuple[str, tuple[int, ...]]]:
    """The same where layers are nodes."""
    return {place: (layer.name, layer.operators) for place, layer in enumerate(model.layers)}


def _sent(edges: tuple[ModelEdge, ...]) -> dict[int, int]:
    """Bytes that leave each node; of layers whose edges carry different tensors the largest edge."""
    sent: dict[int, int] = {}
    for edge in edges:
        sent[edge.source] = max(sent.get(edge.source, 0), edge.bytes)
    return sent
