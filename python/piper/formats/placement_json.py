"""Device-placement workloads as their authors publish them, with extensions.

Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", NeurIPS 2020; repository
msr-fiddle/dnn-partitioning. There every accelerator is an "FPGA", and all are alike. Extensions: several classes of
accelerators (``accelerators`` with ``name``, ``count`` and ``maxSize``; node key ``latencies`` by class name) and the
time that replicas take to synchronise a node's weights (node key ``syncTime``).
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from piper.errors import InputError
from piper.formats.dag import check_acyclic
from piper.formats.json_document import Amount, Id, member, read_json
from piper.formats.source import one_line, quoted, shown
from piper.placement.workload import AcceleratorClass, Node, PlacementWorkload

KEYS = frozenset({"maxFPGAs", "maxCPUs", "maxSizePerFPGA"})
"""Keys that only a placement workload has."""
MAX_DEVICES = 2**20
"""Largest number of CPUs, and of accelerators of all classes together."""
MAX_CLASSES = 64
"""Largest number of classes of accelerators."""
DEFAULT_CLASS = "accelerator"
"""Name of the only class of a workload that names none."""

_Truth = bool | Literal[0, 1]
_Count = Annotated[float, Meta(ge=0, le=MAX_DEVICES)]


class NodeJson(Struct):
    """A node as the file has it."""

    id: Id
    cpuLatency: Amount
    isBackwardNode: _Truth
    supportedOnFpga: _Truth | None = None
    fpgaLatency: Amount | None = None
    latencies: dict[str, Amount] | None = None
    colorClass: Id | None = None
    size: Amount = 0.0
    syncTime: Amount = 0.0
    name: str | None = None


class EdgeJson(Struct):
    """An edge as the file has it."""

    sourceId: Id
    destId: Id
    cost: Amount


class ClassJson(Struct):
    """A class of accelerators as the file has it."""

    name: str
    count: _Count
    maxSize: Amount


class WorkloadJson(Struct):
    """The file."""

    maxCPUs: _Count
    nodes: list[NodeJson]
    edges: list[EdgeJson]
    maxFPGAs: _Count | None = None
    maxSizePerFPGA: Amount | None = None
    accelerators: list[ClassJson] | None = None


def load_placement(path: str | PathLike[str]) -> PlacementWorkload:
    """Read a device-placement workload.

    Args:
        path: the JSON file.

    Returns:
        The workload, named like the file.

    Raises:
        InputError: the file cannot be read, is not JSON, a key is missing or has the wrong type, a number is
            negative, not finite or too large, ids are repeated, an edge names a node that does not exist or costs
            something else than another edge of its source, a latency is of an unknown class, an edge runs from the
            backward into the forward pass, or the edges close a cycle.
    """
    return _workload(read_json(path, WorkloadJson), Path(path).stem, shown(path))


def _workload(document: WorkloadJson, name: str, where: str) -> PlacementWorkload:
    classes = _classes(document, where)
    positions = _positions(document.nodes, where)
    edges = tuple(dict.fromkeys(_edges(document, positions, where)))
    check_acyclic([str(node.id) for node in document.nodes], edges, where)
    transfers = _transfers(document.edges, positions, where)
    colors = _colors(document.nodes)
    published = document.accelerators is None
    nodes = tuple(
        Node(
            id=node.id,
            name=one_line(node.name or str(node.id), 200),
            cpu=node.cpuLatency,
            accelerators=_times(node, classes, f"{where}: $.nodes[{position}]", published=published),
            size=node.size,
            transfer=transfers.get(position, 0.0),
            sync=node.syncTime,
            backward=bool(node.isBackwardNode),
            color=None if node.colorClass is None else colors[node.colorClass],
        )
        for position, node in enumerate(document.nodes)
    )
    return PlacementWorkload(name, nodes, edges, classes, _whole(document.maxCPUs, f"{where}: $.maxCPUs"))


def _classes(document: WorkloadJson, where: str) -> tuple[AcceleratorClass, ...]:
    if document.accelerators is None:
        if document.maxFPGAs is None or document.maxSizePerFPGA is None:
            missing = "maxFPGAs" if document.maxFPGAs is None else "maxSizePerFPGA"
            raise InputError(f'{where}: $: the key "{missing}" is missing')
        count = _whole(document.maxFPGAs, f"{where}: $.maxFPGAs")
        return (AcceleratorClass(DEFAULT_CLASS, count, document.maxSizePerFPGA),)
    if len(document.accelerators) > MAX_CLASSES:
        raise InputError(f"{where}: $.accelerators: has {len(document.accelerators)} classes; expected {MAX_CLASSES}")
    classes: dict[str, AcceleratorClass] = {}
    for position, row in enumerate(document.accelerators):
        path = f"{where}: $.accelerators[{position}]"
        if row.name in classes:
            raise InputError(f"{path}.name: {quoted(row.name, 40)} is already the name of another class")
        classes[row.name] = AcceleratorClass(row.name, _whole(row.count, f"{path}.count"), row.maxSize)
    total = sum(row.count for row in classes.values())
    if total > MAX_DEVICES:
        raise InputError(f"{where}: $.accelerators: are {total} devices; expected at most {MAX_DEVICES}")
    return tuple(classes.values())


def _whole(value: float, where: str) -> int:
    if value != int(value):
        raise InputError(f"{where}: expected a whole number from 0 to {MAX_DEVICES}, got {value!r}")
    return int(value)


def _positions(nodes: Sequence[NodeJson], where: str) -> dict[int, int]:
    """Node id to position."""
    if not nodes:
        raise InputError(f"{where}: $.nodes: expected at least one node")
    positions: dict[int, int] = {}
    for position, node in enumerate(nodes):
        first = positions.setdefault(node.id, position)
        if first != position:
            raise InputError(f"{where}: $.nodes[{position}].id: {node.id} is already the id of $.nodes[{first}]")
    return positions


def _edges(document: WorkloadJson, positions: dict[int, int], where: str) -> list[tuple[int, int]]:
    edges = []
    for number, edge in enumerate(document.edges):
        path = f"{where}: $.edges[{number}]"
        for key, node in (("sourceId", edge.sourceId), ("destId", edge.destId)):
            if node not in positions:
                raise InputError(f"{path}.{key}: there is no node with id {node}")
        source, target = positions[edge.sourceId], positions[edge.destId]
        if document.nodes[source].isBackwardNode and not document.nodes[target].isBackwardNode:
            pair = f"{edge.sourceId} -> {edge.destId}"
            raise InputError(f"{path}: {pair} runs from the backward pass into the forward pass")
        edges.append((source, target))
    return edges


def _transfers(edges: Sequence[EdgeJson], positions: dict[int, int], where: str) -> dict[int, float]:
    """Cost of moving each node's output, which is the same on all of its edges."""
    first: dict[int, int] = {}
    for number, edge in enumerate(edges):
        known = edges[first.setdefault(edge.sourceId, number)].cost
        if edge.cost != known:
            raise InputError(
                f"{where}: $.edges[{number}].cost: {edge.cost:g} differs from the {known:g} of "
                f"$.edges[{first[edge.sourceId]}], which moves the same output of node {edge.sourceId}"
            )
    return {positions[source]: edges[number].cost for source, number in first.items()}


def _colors(nodes: Sequence[NodeJson]) -> dict[int, int]:
    """Colour classes, whose numbers can be anything, numbered from 0 in the order of the file."""
    return {color: number for number, color in enumerate(dict.fromkeys(_given_colors(nodes)))}


def _given_colors(nodes: Sequence[NodeJson]) -> list[int]:
    return [node.colorClass for node in nodes if node.colorClass is not None]


def _times(
    node: NodeJson, classes: Sequence[AcceleratorClass], where: str, *, published: bool
) -> tuple[float | None, ...]:
    """Time on each class of accelerators."""
    supported = node.supportedOnFpga is None or bool(node.supportedOnFpga)
    if published or node.latencies is None:
        if node.fpgaLatency is None:
            key = "fpgaLatency" if published else "latencies"
            raise InputError(f'{where}: the key "{key}" is missing')
        if published and node.supportedOnFpga is None:
            raise InputError(f'{where}: the key "supportedOnFpga" is missing')
        return tuple(node.fpgaLatency if supported else None for _ in classes)
    names = {row.name for row in classes}
    for name in node.latencies:
        if name not in names:
            raise InputError(f"{where}: {member('latencies', name)}: there is no class of accelerators of that name")
    return tuple(node.latencies.get(row.name) if supported else None for row in classes)
