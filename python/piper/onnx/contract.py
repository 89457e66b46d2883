"""Parts of an acyclic graph as one node each, without making it cyclic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush


def contracted(count: int, edges: Iterable[tuple[int, int]], together: Iterable[Sequence[int]]) -> list[list[int]]:
    """Groups of the nodes ``0..count-1``, those of `together` in one, in a topological order.

    What lies on a way from a group back into it joins it, and so do groups on ways between each other: these are the
    strongly connected components of the graph in which the nodes of a group are in a cycle. Of the topological orders
    it is the one that takes the group with the least node first.

    Args:
        count: number of nodes.
        edges: of a graph in which every edge goes from a smaller to a larger node.
        together: nodes that must be in one group.

    Complexity: ``O(V log V + E)``.
    """
    pairs = list(edges)
    targets: list[list[int]] = [[] for _ in range(count)]
    for source, target in pairs:
        targets[source].append(target)
    for members in together:
        for node, after in zip(members, (*members[1:], *members[:1]), strict=True):
            targets[node].append(after)
    return _ordered(_components(targets), pairs)


def _components(targets: Sequence[Sequence[int]]) -> list[int]:
    """The component of each node, numbered by its least one (Tarjan, 1972; without recursion)."""
    found = [-1] * len(targets)
    low = [0] * len(targets)
    component = [-1] * len(targets)
    clock = 0
    stack: list[int] = []
    for root in range(len(targets)):
        if found[root] >= 0:
            continue
        walk = [(root, iter(targets[root]))]
        while walk:
            node, rest = walk[-1]
            if found[node] < 0:
                found[node] = low[node] = clock
                clock += 1
                stack.append(node)
            for target in rest:
                if found[target] < 0:
                    walk.append((target, iter(targets[target])))
                    break
                if component[target] < 0:
                    low[node] = min(low[node], low[target])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == found[node]:
                    members = [stack.pop()]
                    while members[-1] != node:
                        members.append(stack.pop())
                    least = min(members)
                    for member in members:
                        component[member] = least
    return component


def _ordered(component: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    members: dict[int, list[int]] = {}
    for node, name in enumerate(component):
        members.setdefault(name, []).append(node)
    after: dict[int, set[int]] = {name: set() for name in members}
    for source, target in edges:
        if component[source] != component[target]:
            after[component[source]].add(component[target])
    waits = dict.fromkeys(members, 0)
    for names in after.values():
        for name in names:
            waits[name] += 1
    ready = [name for name, number in waits.items() if not number]
    heapify(ready)
    order = []
    while ready:
        name = heappop(ready)
        order.append(members[name])
        for follower in after[name]:
            waits[follower] -= 1
            if not waits[follower]:
                heappush(ready, follower)
    return order
