"""Why there is no plan, and what would have to give."""

from __future__ import annotations

from collections.abc import Iterator

from piper import _core
from piper.costs.units import format_bytes
from piper.errors import InfeasibleError
from piper.planning.contradictions import contradictions, restricts_layers
from piper.planning.effort import RunningEffort
from piper.planning.problem import Problem
from piper.workload import Layer, Tmpc

MOST_REASONS = 8
"""Reasons that are given at most."""


def infeasible(problem: Problem, running: RunningEffort) -> InfeasibleError:
    """The error for a problem that has no plan, with every reason that can be named.

    What would do is sought within the limits that are left; Ctrl-C ends that search, not the error.
    """
    reasons = [*_impossible_layers(problem), *_oversized_layers(problem), *contradictions(problem)]
    amounts, stopped = needs(problem, running)
    reasons = reasons[:MOST_REASONS] or [_too_small(problem, possible=bool(amounts) or stopped is not None)]
    return InfeasibleError(reasons, amounts, stopped)


def needs(problem: Problem, running: RunningEffort) -> tuple[dict[str, float], str | None]:
    """The least memory per device, and the least number of devices, that would do; a missing key: no amount does.

    And why the search for them ended early, if it did.
    """
    memory, devices, stopped = _core.needs(
        problem.workload,
        problem.limits,
        problem.schedule,
        threads=running.effort.threads,
        time_limit=running.seconds_left(),
        memory_limit=running.effort.memory_limit,
    )
    found: dict[str, float] = {}
    if memory is not None:
        found["memory_bytes"] = problem.with_reserve(memory)
    if devices is not None:
        found["devices"] = devices
    return found, stopped


def permitted_degrees(problem: Problem, layer: Layer) -> list[int]:
    """Tensor-parallel degrees in which a layer may run."""
    limits, workload = problem.limits, problem.workload
    largest = min(workload.devices, limits.max_tensor_parallel or workload.devices)
    node = workload.network.devices_per_node
    return [
        t
        for t, tmpcs in sorted(layer.tmpcs.items())
        if tmpcs and t <= largest and limits.tensor_parallel in (None, t) and (node is None or node % t == 0)
    ]


def permitted_tmpcs(problem: Problem, layer: Layer, degree: int) -> list[Tmpc]:
    """Configurations that the choice of recomputation leaves."""
    tmpcs = list(layer.tmpcs[degree])
    recomputing = [tmpc for tmpc in tmpcs if "recomp" in tmpc.id]
    match problem.limits.recompute:
        case "never":
            return [tmpc for tmpc in tmpcs if "recomp" not in tmpc.id]
        case "always":
            return recomputing or tmpcs
        case _:
            return tmpcs


def least_memory(problem: Problem, layer: Layer) -> float | None:
    """Bytes that a layer takes at least on each device, alone in a stage; None where it cannot run at all."""
    limits, workload = problem.limits, problem.workload
    amounts = []
    for t in permitted_degrees(problem, layer):
        largest = min(workload.devices // t, workload.microbatches, limits.max_data_parallel or workload.microbatches)
        replicas = max(1, limits.data_parallel or largest)
        amounts += [
            tmpc.memory_per_microbatch + tmpc.memory_fixed + tmpc.memory_sharded / replicas
            for tmpc in permitted_tmpcs(problem, layer, t)
        ]
    return min(amounts, default=None)


def _impossible_layers(problem: Problem) -> Iterator[str]:
    """Layers without any degree or configuration that the limits allow."""
    positions = [p for p, layer in enumerate(problem.workload.layers) if least_memory(problem, layer) is None]
    if positions:
        layer = problem.workload.layers[positions[0]]
        degrees = ", ".join(str(t) for t, tmpcs in sorted(layer.tmpcs.items()) if tmpcs) or "none"
        yield (
            f"{_named(problem, positions)} cannot run on any permitted number of devices or recomputation "
            f"(tensor-parallel degrees that the layer has: {degrees})"
        )


def _oversized_layers(problem: Problem) -> Iterator[str]:
    """Layers that fit on no device even when they are alone, equal ones in one sentence."""
    usable = problem.usable_memory
    groups: dict[float, list[int]] = {}
    for position, layer in enumerate(problem.workload.layers):
        least = least_memory(problem, layer)
        if least is not None and least > usable:
            groups.setdefault(least, []).append(position)
    for least, positions in sorted(groups.items(), reverse=True)[:4]:
        yield (
            f"{_named(problem, positions)} needs at least {format_bytes(least)} on each device, "
            f"{format_bytes(least - usable)} more than the {format_bytes(usable)} that a device offers"
        )


def _too_small(problem: Problem, *, possible: bool) -> str:
    """`possible`: whether more memory or devices may do."""
    if not possible and restricts_layers(problem.limits):
        return "no stages obey the limits on layers and stages together with the order of the layers"
    workload = problem.workload
    devices = "1 device" if workload.devices == 1 else f"{workload.devices} devices"
    text = f"every layer fits alone, but not all of them on {devices} with {format_bytes(problem.usable_memory)} each"
    return text + (", given the limits on stages and layers" if restricts_layers(problem.limits) else "")


def _named(problem: Problem, positions: list[int]) -> str:
    first = problem.workload.layers[positions[0]]
    name = f"layer {first.id} ({first.name})"
    more = len(positions) - 1
    return f"{name}, like {more} more," if more else name
