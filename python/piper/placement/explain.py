"""Why there is no split, and what would have to give."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from piper import _core
from piper.costs.units import format_bytes
from piper.errors import InfeasibleError
from piper.formats.placement_json import MAX_DEVICES
from piper.placement.workload import PlacementWorkload, Rules

_SECONDS = 10.0
"""Time for finding out what would do."""
_CLOSE = 1e-9
"""Relative precision of the least memory."""


def infeasible(workload: PlacementWorkload, rules: Rules) -> InfeasibleError:
    """The error for a problem that has no contiguous split, with every reason that can be named."""
    reasons = [*_no_devices(workload), *_homeless(workload), *_oversized(workload)]
    return InfeasibleError(reasons or [_too_small(workload)], needs(workload, rules))


def needs(workload: PlacementWorkload, rules: Rules) -> dict[str, float]:
    """The least memory of an accelerator, and the least accelerators, that would do.

    A missing key: no amount does, or it takes too long to tell.
    """
    deadline = time.monotonic() + _SECONDS
    found: dict[str, float] = {}
    memory = _least_memory(workload, rules, deadline)
    if memory is not None:
        found["memory_bytes"] = memory
    count = _least_accelerators(workload, rules, deadline)
    if count is not None:
        found["accelerators"] = count
    return found


@dataclass(frozen=True, slots=True)
class _Unit:
    """Nodes that are on one device: a colour class, or a node without a colour."""

    nodes: tuple[int, ...]
    size: float
    supported: bool
    """Whether a class of accelerators with a device supports all of them."""


def _units(workload: PlacementWorkload) -> list[_Unit]:
    members: dict[tuple[bool, int], list[int]] = {}
    for position, node in enumerate(workload.nodes):
        key = (True, position) if node.color is None else (False, node.color)
        members.setdefault(key, []).append(position)
    kinds = [place for place, row in enumerate(workload.classes) if row.count]

    def unit(nodes: list[int]) -> _Unit:
        rows = [workload.nodes[position] for position in nodes]
        supported = any(all(row.accelerators[kind] is not None for row in rows) for kind in kinds)
        return _Unit(tuple(nodes), sum(row.size for row in rows), supported)

    return [unit(nodes) for nodes in members.values()]


def _no_devices(workload: PlacementWorkload) -> Iterator[str]:
    if workload.accelerators + workload.cpus == 0:
        yield "there is no device at all"


def _homeless(workload: PlacementWorkload) -> Iterator[str]:
    """Units that no accelerator supports, where there is no CPU."""
    if workload.cpus or not workload.accelerators:
        return
    homeless = [unit for unit in _units(workload) if not unit.supported]
    if homeless:
        yield f"{_named(workload, homeless)} can run on a CPU only, and there is none"


def _oversized(workload: PlacementWorkload) -> Iterator[str]:
    """Units that fit on no accelerator even when they are alone, where there is no CPU."""
    largest = max((row.memory_bytes for row in workload.classes if row.count), default=0.0)
    if workload.cpus or not workload.accelerators:
        return
    big = sorted((unit for unit in _units(workload) if unit.size > largest), key=lambda unit: -unit.size)
    if big:
        more = format_bytes(big[0].size - largest)
        yield (
            f"{_named(workload, big)} needs {format_bytes(big[0].size)}, {more} more than the "
            f"{format_bytes(largest)} of an accelerator"
        )


def _too_small(workload: PlacementWorkload) -> str:
    devices = f"{_counted(workload.accelerators, 'accelerator')} and {_counted(workload.cpus, 'CPU')}"
    total = format_bytes(sum(node.size for node in workload.nodes))
    return f"no contiguous split of {total} fits on {devices}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _named(workload: PlacementWorkload, units: list[_Unit]) -> str:
    first = workload.nodes[units[0].nodes[0]]
    text = f"node {first.id}" if first.name == str(first.id) else f"node {first.id} ({first.name})"
    others = len(units[0].nodes) - 1
    if others:
        text += f" with the {others} {'other' if others == 1 else 'others'} of its colour class"
    return f"{text}, like {len(units) - 1} more," if len(units) > 1 else text


def _least_memory(workload: PlacementWorkload, rules: Rules, deadline: float) -> float | None:
    """By bisection, each split that is found lowering the upper end to what it takes."""
    high = _used(workload.with_memory(sum(node.size for node in workload.nodes) + 1), rules, deadline)
    if high is None or not workload.accelerators:
        return None
    low = max((row.memory_bytes for row in workload.classes if row.count), default=0.0)
    while high - low > _CLOSE * high and time.monotonic() < deadline:
        middle = (low + high) / 2
        used = _used(workload.with_memory(middle), rules, deadline)
        if used is None:
            low = middle
        else:
            high = min(used, middle)
    return high if time.monotonic() < deadline else None


def _least_accelerators(workload: PlacementWorkload, rules: Rules, deadline: float) -> int | None:
    """By bisection over the number of the first class; more than there are nodes are of no use."""
    if len(workload.classes) != 1:
        return None

    def fits(count: int) -> bool:
        classes = (replace(workload.classes[0], count=count),)
        return _used(replace(workload, classes=classes), rules, deadline) is not None

    low, high = workload.accelerators, min(len(workload.nodes) + workload.accelerators, MAX_DEVICES)
    if low >= high or not fits(high):
        return None
    while high - low > 1 and time.monotonic() < deadline:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high if time.monotonic() < deadline else None


def _used(workload: PlacementWorkload, rules: Rules, deadline: float) -> float | None:
    """The largest memory of an accelerator in some split; None where there is none."""
    left = max(0.0, deadline - time.monotonic())
    solution = _core.place(workload, rules, gap=1e30, time_limit=left)
    if solution.parts is None:
        return None
    sizes = [
        sum(workload.nodes[node].size for node in nodes) for kind, _, nodes in solution.parts if kind is not None
    ]
    return max(sizes, default=0.0)
