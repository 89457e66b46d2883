"""Balanced partitioning of the undirected graph, which knows nothing of pipelines: METIS, by the package `pymetis`.

Karypis and Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs", SIAM Journal on
Scientific Computing 1998. Tarnawski et al., NeurIPS 2020, section 5, compare with Scotch in the same way.
"""

from __future__ import annotations

from collections import Counter

from piper.errors import InputError
from piper.placement.workload import Part, PlacementWorkload

_STEPS = 10_000
"""Weights are whole numbers; the largest is this."""


def available() -> bool:
    """Whether the package is there."""
    from importlib.util import find_spec

    return find_spec("pymetis") is not None


def partition(workload: PlacementWorkload) -> list[Part] | None:
    """Colour classes on the accelerators, their times balanced and few transfers cut.

    What no accelerator supports goes on a CPU. Contiguity and memory are left aside. With several classes of
    accelerators only the first that has any is used.

    Returns:
        The parts, or None where there is no accelerator, or no CPU for what needs one.

    Raises:
        InputError: the package is missing.
    """
    kind = next((place for place, row in enumerate(workload.classes) if row.count), None)
    if kind is None:
        return None
    units = _units(workload)

    def supported(unit: list[int]) -> bool:
        return all(workload.nodes[v].accelerators[kind] is not None for v in unit)

    fit = [unit for unit in units if supported(unit)]
    rest = sorted(v for unit in units if not supported(unit) for v in unit)
    if rest and not workload.cpus:
        return None
    numbers = _membership(workload, fit, kind, min(workload.classes[kind].count, len(fit)))
    members: dict[int, list[int]] = {}
    for unit, number in zip(fit, numbers, strict=True):
        members.setdefault(number, []).extend(unit)
    parts = [Part(kind, 1, tuple(sorted(nodes))) for _, nodes in sorted(members.items())]
    return [*parts, Part(None, 1, tuple(rest))] if rest else parts


def _units(workload: PlacementWorkload) -> list[list[int]]:
    """Nodes of each colour class, and each node without one."""
    units: dict[tuple[bool, int], list[int]] = {}
    for position, node in enumerate(workload.nodes):
        key = (True, position) if node.color is None else (False, node.color)
        units.setdefault(key, []).append(position)
    return list(units.values())


def _membership(workload: PlacementWorkload, units: list[list[int]], kind: int, count: int) -> list[int]:
    """The number of the part of each unit."""
    if count <= 1:
        return [0] * len(units)
    try:
        import pymetis
    except ImportError:
        raise InputError(
            "the algorithm partition needs the package pymetis; install it with `pip install piper-dnn[partition]`"
        ) from None
    weights = _edge_weights(workload, units)
    starts, targets, edge_weights = [0], [], []
    for number in range(len(units)):
        for other, weight in sorted(weights[number].items()):
            targets.append(other)
            edge_weights.append(weight)
        starts.append(len(targets))
    times = _whole([sum(workload.nodes[v].accelerators[kind] or 0.0 for v in unit) for unit in units])
    adjacency = pymetis.CSRAdjacency(starts, targets)
    _, membership = pymetis.part_graph(count, adjacency, vweights=times, eweights=edge_weights, recursive=False)
    return list(membership)


def _edge_weights(workload: PlacementWorkload, units: list[list[int]]) -> list[dict[int, int]]:
    """Transfers between units that share an edge, both ways together, as whole numbers from 1 on."""
    unit_of = {v: number for number, unit in enumerate(units) for v in unit}
    costs: Counter[tuple[int, int]] = Counter()
    pairs: dict[tuple[int, int], float] = {}
    for source, target in workload.edges:
        if source in unit_of and target in unit_of and unit_of[source] != unit_of[target]:
            a, b = sorted((unit_of[source], unit_of[target]))
            pairs[a, b] = pairs.get((a, b), 0.0) + workload.nodes[source].transfer
    for pair, weight in zip(pairs, _whole(list(pairs.values())), strict=True):
        costs[pair] = weight + 1
    rows: list[dict[int, int]] = [{} for _ in units]
    for (a, b), weight in costs.items():
        rows[a][b] = rows[b][a] = weight
    return rows


def _whole(values: list[float]) -> list[int]:
    """In proportion, the largest `_STEPS`."""
    largest = max(values, default=0.0)
    return [round(value / largest * _STEPS) if largest > 0 else 0 for value in values]
