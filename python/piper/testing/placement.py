"""Random small instances of the device-placement problem, made to be hard for a solver rather than realistic."""

from __future__ import annotations

from dataclasses import replace

from piper.placement.workload import (
    AcceleratorClass,
    LoadRule,
    Node,
    Part,
    PlacementWorkload,
    Rules,
    TrainingObjective,
)
from piper.testing.graphs import Edges, random_edges
from piper.testing.source import Source

LOADS: tuple[LoadRule, ...] = ("sequential", "overlap", "duplex")
OBJECTIVES: tuple[TrainingObjective, ...] = ("sum", "split")


def random_placement_workload(
    source: Source,
    *,
    max_nodes: int = 9,
    max_accelerators: int = 3,
    max_classes: int = 2,
    max_cpus: int = 2,
    training: bool | None = None,
    shape: str | None = None,
) -> PlacementWorkload:
    """Draw a small placement workload with nodes numbered in any order.

    Colour classes join forward nodes, backward nodes with forward nodes, and backward nodes only; some nodes have
    none, some are not supported by some accelerators, and the memory is from far too little to plenty.

    Args:
        source: makes the choices.
        max_nodes: largest number of nodes.
        max_accelerators: largest number of accelerators of a class.
        max_classes: largest number of classes of accelerators.
        max_cpus: largest number of CPUs.
        training: whether there is a backward pass; None leaves it to `source`.
        shape: a key of `piper.testing.SHAPES` for the forward graph; None leaves it to `source`.
    """
    count = source.integer(1, max_nodes)
    trains = source.chance(50) if training is None else training
    forward = source.integer(1, count) if trains and count > 1 else count
    edges = [*random_edges(source, forward, shape=shape), *_backward_edges(source, forward, count)]
    colors = _colors(source, forward, count)
    whole = source.chance(50)
    classes = source.integer(1, max_classes)
    nodes = tuple(_node(source, v, classes, colors[v], backward=v >= forward, whole=whole) for v in range(count))
    total = sum(node.size for node in nodes) + 1
    workload = PlacementWorkload(
        name="random",
        nodes=nodes,
        edges=tuple(edges),
        classes=tuple(
            AcceleratorClass(
                f"class {place}", source.integer(0, max_accelerators), total * source.integer(2, 12) / 12
            )
            for place in range(classes)
        ),
        cpus=source.integer(0, max_cpus),
    )
    return renumbered(workload, source.shuffled(range(count))) if source.chance(60) else workload


def random_rules(source: Source) -> Rules:
    """Draw a variant of the problem; the published one in about a third of all cases."""
    if source.chance(33):
        return Rules()
    replicas = source.integer(1, 3) if source.chance(40) else 1
    return Rules(source.choose(LOADS), source.choose(OBJECTIVES), contiguous=True, max_replicas=replicas)


def random_parts(source: Source, workload: PlacementWorkload) -> list[Part]:
    """Draw a split of a workload; every node is on some device, and any other rule may well be broken."""
    devices = source.integer(1, 4)
    homes = [source.integer(0, devices - 1) for _ in workload.nodes]
    parts = []
    for device in range(devices):
        nodes = tuple(node for node, home in enumerate(homes) if home == device)
        kind = None if source.chance(25) or not workload.classes else source.integer(0, len(workload.classes) - 1)
        parts.append(Part(kind, 1 if kind is None else source.integer(1, 2), nodes))
    return parts


def renumbered(workload: PlacementWorkload, order: list[int]) -> PlacementWorkload:
    """The same workload with its nodes in another order, a permutation of their positions."""
    place = {old: new for new, old in enumerate(order)}
    return replace(
        workload,
        nodes=tuple(workload.nodes[old] for old in order),
        edges=tuple((place[source], place[target]) for source, target in workload.edges),
    )


def _backward_edges(source: Source, forward: int, count: int) -> Edges:
    """Among backward nodes, and from forward nodes into them."""
    backward = count - forward
    if backward == 0:
        return []
    inner = [(forward + u, forward + v) for u, v in random_edges(source, backward)]
    return inner + [(u, v) for u in range(forward) for v in range(forward, count) if source.chance(15)]


def _colors(source: Source, forward: int, count: int) -> list[int | None]:
    """Colour classes, numbered from 0 as they first appear; few nodes share one by chance alone."""
    drawn: list[int | None] = []
    for node in range(count):
        if node >= forward and source.chance(65):
            mate = source.integer(0, forward - 1)
            if drawn[mate] is None:
                drawn[mate] = mate
            drawn.append(drawn[mate])
        elif node and source.chance(20):
            drawn.append(drawn[source.integer(0, node - 1)])
        else:
            drawn.append(node if source.chance(60) else None)
    numbers: dict[int, int] = {}
    return [None if color is None else numbers.setdefault(color, len(numbers)) for color in drawn]


def _node(source: Source, number: int, classes: int, color: int | None, *, backward: bool, whole: bool) -> Node:
    def amount(high: int) -> float:
        if whole:
            return float(source.integer(0, high))
        return 0.0 if source.chance(10) else source.real(0.01, high)

    return Node(
        id=number,
        name=f"node {number}",
        cpu=amount(20),
        accelerators=tuple(None if source.chance(10) else amount(9) for _ in range(classes)),
        size=amount(6),
        transfer=amount(4),
        sync=amount(3),
        backward=backward,
        color=color,
    )
