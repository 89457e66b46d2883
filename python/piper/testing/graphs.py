"""Shapes of random layer graphs. Every edge runs from a lower to a higher number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from piper.testing.source import Source

Edges: TypeAlias = list[tuple[int, int]]


def chain(_: Source, nodes: int) -> Edges:
    """Make a path."""
    return [(node, node + 1) for node in range(nodes - 1)]


def residual(source: Source, nodes: int) -> Edges:
    """Make a path with a few edges that skip nodes."""
    edges = chain(source, nodes)
    for _ in range(source.integer(1, 1 + nodes // 4) if nodes > 2 else 0):
        start = source.integer(0, nodes - 3)
        edges.append((start, source.integer(start + 2, min(nodes - 1, start + 4))))
    return edges


def diamonds(_: Source, nodes: int) -> Edges:
    """Diamonds of four nodes in a row, each closing where the next one opens; what is left over is a path."""
    edges: Edges = []
    first = 0
    while first + 3 < nodes:
        edges += [(first, first + 1), (first, first + 2), (first + 1, first + 3), (first + 2, first + 3)]
        first += 3
    return edges + [(node, node + 1) for node in range(first, nodes - 1)]


def layered(source: Source, nodes: int) -> Edges:
    """Rows of one to three nodes; each node has one or two predecessors in the row before."""
    edges: Edges = []
    above = [0]
    first = 1
    while first < nodes:
        row = list(range(first, min(nodes, first + source.integer(1, 3))))
        for node in row:
            edges += [
                (parent, node) for parent in sorted(source.sample(above, source.integer(1, min(2, len(above)))))
            ]
        above, first = row, row[-1] + 1
    return edges


def series_parallel(source: Source, nodes: int) -> Edges:
    """Make a two-terminal series-parallel graph: repeatedly, a node is put into an edge or beside it."""
    links: Edges = [(0, 1)] if nodes > 1 else []
    for new in range(2, nodes):
        start, end = source.choose(links)
        if not source.chance(50):
            links.remove((start, end))
        links += [(start, new), (new, end)]
    return _renumbered(links, nodes)


def separate(source: Source, nodes: int) -> Edges:
    """Two or three parts without an edge between them, each a path or a single node."""
    cuts = {source.integer(1, nodes - 1) for _ in range(source.integer(1, 2))} if nodes > 1 else set()
    return [(node, node + 1) for node in range(nodes - 1) if node + 1 not in cuts]


def sparse(source: Source, nodes: int) -> Edges:
    """Each pair of nodes at most four apart is joined in about 40 of 100 cases."""
    near = [(u, v) for u in range(nodes) for v in range(u + 1, min(nodes, u + 5))]
    return source.subset(near, 40)


SHAPES: Mapping[str, Callable[[Source, int], Edges]] = {
    "chain": chain,
    "residual": residual,
    "diamonds": diamonds,
    "layered": layered,
    "series_parallel": series_parallel,
    "separate": separate,
    "sparse": sparse,
}
"""The shapes by name."""


def random_edges(source: Source, nodes: int, *, shape: str | None = None) -> Edges:
    """Draw the edges of an acyclic graph of `nodes` nodes; now and then an edge is doubled.

    Args:
        source: makes the choices.
        nodes: number of nodes, at least 1.
        shape: a key of `SHAPES`; None leaves it to `source`.
    """
    edges = SHAPES[shape or source.choose(tuple(SHAPES))](source, nodes)
    if edges and source.chance(10):
        edges.append(source.choose(edges))
    return edges


def _renumbered(edges: Edges, nodes: int) -> Edges:
    """Return the same graph with the nodes numbered along a topological order."""
    successors: list[list[int]] = [[] for _ in range(nodes)]
    missing = [0] * nodes
    for u, v in edges:
        successors[u].append(v)
        missing[v] += 1
    free = [node for node in range(nodes) if missing[node] == 0]
    order: list[int] = []
    while free:
        order.append(free.pop())
        for v in successors[order[-1]]:
            missing[v] -= 1
            if missing[v] == 0:
                free.append(v)
    place = {node: position for position, node in enumerate(order)}
    return sorted((place[u], place[v]) for u, v in edges)
