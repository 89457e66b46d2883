"""Splits as files: the published result format of device placement, which Piper's own results extend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Annotated

from msgspec import Meta, Struct

from piper.errors import InputError
from piper.formats.json_document import Id, read_json
from piper.formats.placement_json import MAX_DEVICES
from piper.formats.source import quoted, shown
from piper.placement.workload import Part, PlacementWorkload

_Replicas = Annotated[int, Meta(ge=1, le=MAX_DEVICES)]


class AcceleratorJson(Struct, rename={"class_name": "class"}):
    """An accelerator, or replicas of one, as the file has it. Loads are computed anew."""

    nodes: list[Id]
    class_name: str | None = None
    replicas: _Replicas = 1


class CpuJson(Struct):
    """A CPU as the file has it."""

    nodes: list[Id]


class SplitJson(Struct):
    """The file."""

    fpgas: list[AcceleratorJson] = []
    cpus: list[CpuJson] = []
    feasible: bool = True


def load_split(path: str | PathLike[str], workload: PlacementWorkload) -> tuple[Part, ...]:
    """Read a split of a workload, made by Piper, by another program or by hand.

    Backward nodes that it does not list follow their colour class. That the split obeys the rules of the problem is
    for the judge to say; only what no split could mean is refused. Devices without nodes are left out.

    Args:
        path: the JSON file.
        workload: what the numbers of nodes refer to.

    Returns:
        The parts, accelerators first, as the file orders them.

    Raises:
        InputError: the file cannot be read, is not JSON, a key is missing or has the wrong type, it holds no split,
            or a node or a class of accelerators does not exist in the workload.
    """
    where = shown(path)
    document = read_json(path, SplitJson)
    if not document.feasible:
        raise InputError(f"{where}: $.feasible: is false, so the file holds no split")
    if not document.fpgas and not document.cpus:
        raise InputError(f"{where}: $: expected devices in fpgas or cpus")
    positions = {node.id: position for position, node in enumerate(workload.nodes)}
    parts = []
    for number, device in enumerate(document.fpgas):
        path_ = f"{where}: $.fpgas[{number}]"
        found = _positions(device.nodes, positions, path_)
        parts.append(Part(_class(device.class_name, workload, path_), device.replicas, found))
    for number, cpu in enumerate(document.cpus):
        parts.append(Part(None, 1, _positions(cpu.nodes, positions, f"{where}: $.cpus[{number}]")))
    return completed([part for part in parts if part.nodes], workload)


def completed(parts: Sequence[Part], workload: PlacementWorkload) -> tuple[Part, ...]:
    """The same with backward nodes that no part lists where the rest of their colour class is, if it is one part."""
    listed = {node for part in parts for node in part.nodes}
    homes: dict[int, set[int]] = {}
    for number, part in enumerate(parts):
        for node in part.nodes:
            color = workload.nodes[node].color
            if color is not None:
                homes.setdefault(color, set()).add(number)
    followers: dict[int, list[int]] = {}
    for position, row in enumerate(workload.nodes):
        home = homes.get(row.color, set()) if row.color is not None else set()
        if row.backward and position not in listed and len(home) == 1:
            followers.setdefault(min(home), []).append(position)
    return tuple(
        Part(part.accelerator_class, part.replicas, tuple(sorted((*part.nodes, *followers.get(number, ())))))
        for number, part in enumerate(parts)
    )


def _positions(nodes: Sequence[int], positions: Mapping[int, int], where: str) -> tuple[int, ...]:
    for number, node in enumerate(nodes):
        if node not in positions:
            raise InputError(f"{where}.nodes[{number}]: the workload has no node with id {node}")
    return tuple(positions[node] for node in nodes)


def _class(name: str | None, workload: PlacementWorkload, where: str) -> int:
    """Position of a class of accelerators; one without a name is of the first."""
    names = [row.name for row in workload.classes]
    if name is None:
        if len(names) > 1:
            raise InputError(f'{where}: the key "class" is missing; the workload has classes {", ".join(names)}')
        return 0
    if name not in names:
        raise InputError(f"{where}.class: the workload has no class {quoted(name, 40)}; it has {', '.join(names)}")
    return names.index(name)
