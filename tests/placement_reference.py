"""Every split of a small placement workload, written from the definition of the problem and from nothing else.

Sets of nodes are bit masks. A part is judged by itself: all that its load depends on is which nodes are in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

from piper.placement.workload import Part, PlacementWorkload, Rules

TOLERANCE = 1e-9
"""Relative, for memory."""

Loads = tuple[float, float]
"""Forward and backward."""


class Reference:
    """The definition, for one workload under one set of rules."""

    def __init__(self, workload: PlacementWorkload, rules: Rules) -> None:
        self.workload = workload
        self.rules = rules
        self.count = len(workload.nodes)
        self.constraints = ordering(workload)
        self.loads = cache(self._loads)

    # --- One part ---------------------------------------------------------------------------------------------------

    def _loads(self, nodes: int, kind: int | None, replicas: int) -> Loads:
        """Loads of a set of nodes on a CPU (None) or on replicas of a class of accelerators."""
        forward, backward = (self._pass(nodes, kind, replicas, backward=b) for b in (False, True))
        return forward, backward

    def _pass(self, nodes: int, kind: int | None, replicas: int, *, backward: bool) -> float:
        rows = self.workload.nodes
        mine = [v for v in range(self.count) if rows[v].backward == backward]
        inside = [v for v in mine if nodes >> v & 1]
        if kind is None:
            return sum(rows[v].cpu for v in inside)
        compute = sum(rows[v].accelerators[kind] or 0.0 for v in inside)
        edges = self.workload.edges
        read = {u for u, v in edges if u in mine and not nodes >> u & 1 and nodes >> v & 1}
        written = {u for u, v in edges if u in inside and not nodes >> v & 1}
        into, out = (sum(rows[u].transfer for u in sorted(moved)) for moved in (read, written))
        load = {
            "sequential": compute + into + out,
            "overlap": max(compute, into + out),
            "duplex": max(compute, into, out),
        }[self.rules.load]
        sync = sum(rows[v].sync for v in inside)
        return load / replicas + (replicas - 1) / replicas * sync

    def memory(self, nodes: int) -> float:
        """Bytes of a set of nodes."""
        return sum(row.size for v, row in enumerate(self.workload.nodes) if nodes >> v & 1)

    def fits(self, nodes: int, kind: int | None) -> bool:
        """Whether a kind of device can hold a set of nodes at all."""
        if kind is None:
            return True
        rows = [row for v, row in enumerate(self.workload.nodes) if nodes >> v & 1]
        limit = self.workload.classes[kind].memory_bytes * (1 + TOLERANCE)
        return self.memory(nodes) <= limit and all(row.accelerators[kind] is not None for row in rows)

    # --- One split --------------------------------------------------------------------------------------------------

    def value(self, loads: Sequence[Loads]) -> float:
        """The objective, of the loads of all parts."""
        if self.rules.training_objective == "sum":
            return max((sum(load) for load in loads), default=0.0)
        return max((load[0] for load in loads), default=0.0) + max((load[1] for load in loads), default=0.0)

    def contiguous(self, parts: Sequence[int]) -> bool:
        """Whether the parts have an order in which no constraint runs back.

        Some part must come first: one into which nothing leads from the others. Which one does not matter.
        """
        rest = list(parts)
        while rest:
            first = next((part for part in rest if not self._entered(part, rest)), None)
            if first is None:
                return False
            rest.remove(first)
        return True

    def _entered(self, part: int, parts: Sequence[int]) -> bool:
        others = sum(other for other in parts if other != part)
        return any(others >> first & 1 and part >> then & 1 for first, then in self.constraints)

    def score(self, parts: Sequence[Part]) -> tuple[float, set[str]]:
        """Value and broken rules of a split that lists every node once and has classes that exist."""
        workload, broken = self.workload, set()
        masks = [sum(1 << v for v in part.nodes) for part in parts]
        kinds = [part.accelerator_class for part in parts]
        used = [(kind, part.replicas) for kind, part in zip(kinds, parts, strict=True) if part.nodes]
        if sum(kind is None for kind, _ in used) > workload.cpus:
            broken.add("cpus")
        for number, row in enumerate(workload.classes):
            if sum(replicas for kind, replicas in used if kind == number) > row.count:
                broken.add("accelerators")
        for mask, kind, part in zip(masks, kinds, parts, strict=True):
            if kind is None or not mask:
                continue
            if part.replicas > self.rules.max_replicas:
                broken.add("replicas")
            if self.memory(mask) > workload.classes[kind].memory_bytes * (1 + TOLERANCE):
                broken.add("memory")
            if any(workload.nodes[v].accelerators[kind] is None for v in part.nodes):
                broken.add("unsupported")
        if any(mask & unit not in (0, unit) for unit in self.units() for mask in masks):
            broken.add("color-class")
        if self.rules.contiguous and not self.contiguous([mask for mask in masks if mask]):
            broken.add("contiguous")
        loads = [self._loads(m, k, part.replicas) for m, k, part in zip(masks, kinds, parts, strict=True)]
        return self.value(loads), broken

    # --- All splits -------------------------------------------------------------------------------------------------

    def units(self) -> list[int]:
        """Colour classes, and nodes without a colour."""
        masks: dict[object, int] = {}
        for v, row in enumerate(self.workload.nodes):
            key = ("node", v) if row.color is None else ("color", row.color)
            masks[key] = masks.get(key, 0) | 1 << v
        return list(masks.values())

    def partitions(self) -> Iterator[list[int]]:
        """All ways to put units into at most as many parts as there are devices."""
        most = self.workload.cpus + self.workload.accelerators

        def extend(units: list[int], parts: list[int]) -> Iterator[list[int]]:
            if not units:
                yield parts
                return
            for number in range(len(parts)):
                yield from extend(units[1:], [*parts[:number], parts[number] | units[0], *parts[number + 1 :]])
            if len(parts) < most:
                yield from extend(units[1:], [*parts, units[0]])

        yield from extend(self.units(), [])

    def best(self) -> float:
        """The least value of a split that keeps all rules; infinite without one."""
        free = [self.workload.cpus, *(row.count for row in self.workload.classes)]
        best = math.inf
        for parts in self.partitions():
            if not self.rules.contiguous or self.contiguous(parts):
                best = min(best, self._assigned(parts, free, [], best))
        return best

    def _assigned(self, parts: list[int], free: list[int], loads: list[Loads], best: float) -> float:
        """The least value with each part on some device; those that cannot beat `best` need not be right."""
        if self.value(loads) >= best:
            return best
        if not parts:
            return self.value(loads)
        for place, left in enumerate(free):
            kind = None if place == 0 else place - 1
            if left == 0 or not self.fits(parts[0], kind):
                continue
            for replicas in range(1, min(left, 1 if kind is None else self.rules.max_replicas) + 1):
                rest = [*free[:place], left - replicas, *free[place + 1 :]]
                taken = [*loads, self.loads(parts[0], kind, replicas)]
                best = min(best, self._assigned(parts[1:], rest, taken, best))
        return best


def ordering(workload: PlacementWorkload) -> list[tuple[int, int]]:
    """Pairs of nodes of which the first must not be on a later device than the second.

    Edges of the forward graph; and mirror edges, between forward mates of backward nodes. A class without forward
    nodes has an artificial mate, for which a node of the class stands here: both are on one device.
    """
    rows = workload.nodes

    def mate(v: int) -> tuple[int, bool]:
        """A forward node of the colour class of `v`, and whether it is artificial."""
        if rows[v].color is not None:
            for u, row in enumerate(rows):
                if row.color == rows[v].color and not row.backward:
                    return u, False
        return v, True

    pairs = []
    for u, v in workload.edges:
        if not rows[u].backward and not rows[v].backward:
            pairs.append((u, v))
        elif rows[u].backward and rows[v].backward:
            (first, made), (second, made_too) = mate(u), mate(v)
            if made or made_too:
                pairs.append((second, first))
    return pairs
