"""Pipeline workloads as the Piper paper publishes them.

Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS 2021;
repository msr-fiddle/piper. Bandwidth is in bytes per unit of time, and the unit of time is whatever the makers of a
file measured in: the published ones use both seconds and milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from piper.errors import InputError
from piper.formats.dag import check_acyclic
from piper.formats.json_document import Amount, Id, count, member, read_json
from piper.formats.source import one_line, quoted, shown
from piper.workload import Edge, Layer, Network, Tmpc, Workload

MAX_DEVICES = 2**20
"""Largest number of devices, and of devices in a tensor-parallel group."""
MAX_MICROBATCHES = 2**30
"""Largest number of microbatches in a batch."""

_Degree = Annotated[int, Meta(ge=1, le=MAX_DEVICES)]


class TmpcJson(Struct):
    """A configuration as the file has it."""

    id: str
    timePerSample: Amount
    parameterSize: Amount
    memoryUsageA: Amount
    memoryUsageB: Amount
    syncTimeFw: dict[Id, Amount]
    syncTimeBw: dict[Id, Amount]


class NodeJson(Struct):
    """A layer as the file has it."""

    id: Id
    TMPCs: dict[_Degree, list[TmpcJson]]
    name: str | None = None


class EdgeJson(Struct):
    """An edge as the file has it."""

    sourceId: Id
    destId: Id
    communicationCost: Amount


class WorkloadJson(Struct):
    """The file."""

    maxDevices: Amount
    maxMemoryPerDevice: Amount
    bandwidth: Amount
    nodes: list[NodeJson]
    edges: list[EdgeJson]
    mbsInBatch: Amount | None = None
    maxBatchSize: Amount | None = None


def load_piper(path: str | PathLike[str]) -> Workload:
    """Read a Piper workload.

    Args:
        path: the JSON file.

    Returns:
        The workload, named like the file, with one bandwidth for everything and transfers paid for by edge.

    Raises:
        InputError: the file cannot be read, is not JSON, a key is missing or has the wrong type, a number is
            negative, not finite or too large, ids are repeated, an edge names a layer that does not exist or has no
            entry in a synchronisation map, or the edges close a cycle.
    """
    return _workload(read_json(path, WorkloadJson), Path(path).stem, shown(path))


def _workload(document: WorkloadJson, name: str, where: str) -> Workload:
    devices = count(document.maxDevices, MAX_DEVICES, f"{where}: $.maxDevices")
    microbatches = _microbatches(document, where)
    if document.bandwidth == 0:
        raise InputError(f"{where}: $.bandwidth: expected a number above 0, got 0")
    positions = _positions(document.nodes, where)
    edges = _edges(document.edges, positions, where)
    ids = [node.id for node in document.nodes]
    check_acyclic([str(layer) for layer in ids], ((edge.source, edge.target) for edge in edges), where)
    sources: list[list[int]] = [[] for _ in ids]
    targets: list[list[int]] = [[] for _ in ids]
    for edge in edges:
        sources[edge.target].append(ids[edge.source])
        targets[edge.source].append(ids[edge.target])
    layers = tuple(
        _layer(node, sources[position], targets[position], f"{where}: $.nodes[{position}]")
        for position, node in enumerate(document.nodes)
    )
    network = Network(document.bandwidth, document.bandwidth, document.bandwidth)
    return Workload(name, layers, edges, devices, document.maxMemoryPerDevice, microbatches, network)


def _microbatches(document: WorkloadJson, where: str) -> int:
    """The number of microbatches, which has two names."""
    first, second = document.mbsInBatch, document.maxBatchSize
    if first is None and second is None:
        raise InputError(f'{where}: $: the key "mbsInBatch" (or "maxBatchSize") is missing')
    if first is not None and second is not None and first != second:
        raise InputError(f"{where}: $: mbsInBatch is {first:g} but maxBatchSize is {second:g}; expected one of them")
    if first is not None:
        return count(first, MAX_MICROBATCHES, f"{where}: $.mbsInBatch")
    return count(second or 0, MAX_MICROBATCHES, f"{where}: $.maxBatchSize")


def _positions(nodes: Sequence[NodeJson], where: str) -> dict[int, int]:
    """Layer id to position."""
    if not nodes:
        raise InputError(f"{where}: $.nodes: expected at least one layer")
    positions: dict[int, int] = {}
    for position, node in enumerate(nodes):
        first = positions.setdefault(node.id, position)
        if first != position:
            raise InputError(f"{where}: $.nodes[{position}].id: {node.id} is already the id of $.nodes[{first}]")
    return positions


def _edges(edges: Sequence[EdgeJson], positions: dict[int, int], where: str) -> tuple[Edge, ...]:
    found: dict[tuple[int, int], int] = {}
    for position, edge in enumerate(edges):
        for key, layer in (("sourceId", edge.sourceId), ("destId", edge.destId)):
            if layer not in positions:
                raise InputError(f"{where}: $.edges[{position}].{key}: there is no layer with id {layer}")
        # The synchronisation maps have one entry a neighbour: two edges to it could not be told apart.
        first = found.setdefault((edge.sourceId, edge.destId), position)
        if first != position:
            pair = f"{edge.sourceId} -> {edge.destId}"
            raise InputError(f"{where}: $.edges[{position}]: the edge {pair} is already $.edges[{first}]")
    return tuple(Edge(positions[e.sourceId], positions[e.destId], e.communicationCost) for e in edges)


def _layer(node: NodeJson, sources: Sequence[int], targets: Sequence[int], where: str) -> Layer:
    tmpcs = {
        degree: _alternatives(alternatives, sources, targets, member(f"{where}.TMPCs", str(degree)))
        for degree, alternatives in sorted(node.TMPCs.items())
        if alternatives
    }
    return Layer(node.id, one_line(node.name or str(node.id), 200), tmpcs)


def _alternatives(
    alternatives: Sequence[TmpcJson], sources: Sequence[int], targets: Sequence[int], where: str
) -> tuple[Tmpc, ...]:
    seen: dict[str, int] = {}
    for position, tmpc in enumerate(alternatives):
        if not tmpc.id.isprintable():
            raise InputError(f"{where}[{position}].id: expected printable text, got {quoted(tmpc.id)}")
        first = seen.setdefault(tmpc.id, position)
        if first != position:
            raise InputError(f"{where}[{position}].id: is also that of [{first}]; plans could not tell them apart")
    return tuple(_tmpc(tmpc, sources, targets, f"{where}[{position}]") for position, tmpc in enumerate(alternatives))


def _tmpc(tmpc: TmpcJson, sources: Sequence[int], targets: Sequence[int], where: str) -> Tmpc:
    return Tmpc(
        id=tmpc.id,
        time=tmpc.timePerSample,
        weight_bytes=tmpc.parameterSize,
        memory_per_microbatch=tmpc.memoryUsageA,
        memory_fixed=tmpc.memoryUsageB,
        memory_sharded=0.0,
        sync_forward=_sync(tmpc.syncTimeFw, sources, f"{where}.syncTimeFw"),
        sync_backward=_sync(tmpc.syncTimeBw, targets, f"{where}.syncTimeBw"),
    )


def _sync(entries: dict[int, float], neighbours: Sequence[int], where: str) -> tuple[float, ...]:
    """The entries of a layer's neighbours, in the order of its edges."""
    try:
        return tuple([entries[neighbour] for neighbour in neighbours])
    except KeyError as missing:
        raise InputError(f"{where}: has no entry for layer {missing}, though an edge joins the two") from None
