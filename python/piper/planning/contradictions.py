"""Limits that no plan can obey, whatever the memory and the devices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from piper.planning.problem import Problem
from piper.workload import Limits, Workload


def contradictions(problem: Problem) -> Iterator[str]:
    """One sentence for each contradiction that can be named."""
    yield from _counts(problem.workload, problem.limits)
    yield from _pins(problem.workload, problem.limits)
    yield from _apart(problem.workload, problem.limits)


def restricts_layers(limits: Limits) -> bool:
    """Whether the user said where layers go or how many stages there are."""
    return bool(limits.pins or limits.together or limits.apart or limits.stages or limits.max_stages)


def _counts(workload: Workload, limits: Limits) -> Iterator[str]:
    data, tensor = limits.data_parallel or 1, limits.tensor_parallel or 1
    stages = limits.stages or 1
    if stages > len(workload.layers):
        yield f"{stages} stages are more than the {len(workload.layers)} layers"
    if limits.max_stages is not None and stages > limits.max_stages:
        yield f"{stages} stages are more than the largest number of stages, {limits.max_stages}"
    for name, degree, largest in (
        ("data", data, limits.max_data_parallel),
        ("tensor", tensor, limits.max_tensor_parallel),
    ):
        if largest is not None and degree > largest:
            yield f"the {name}-parallel degree {degree} is more than the largest one, {largest}"
    if workload.microbatches % data:
        yield f"the data-parallel degree {data} does not divide the {workload.microbatches} microbatches"
    if data * stages > workload.microbatches:
        yield f"{stages} stages of {data} replicas need more than the {workload.microbatches} microbatches of a batch"
    if data * tensor * stages > workload.devices:
        yield f"{stages} stages of {data} x {tensor} devices are more than the {workload.devices} devices"


def _pins(workload: Workload, limits: Limits) -> Iterator[str]:
    """Layers pinned twice, to a stage that does not exist, or against the direction of an edge."""
    stage_of: dict[int, int] = {}
    for layer, stage in limits.pins:
        if stage_of.setdefault(layer, stage) != stage:
            yield f"{_named(workload, layer)} is pinned to stages {stage_of[layer]} and {stage}"
        most = min(n for n in (limits.stages, limits.max_stages, len(workload.layers)) if n is not None)
        if stage >= most:
            yield f"{_named(workload, layer)} is pinned to stage {stage}, but stages go from 0 to {most - 1}"
    for edge in workload.edges:
        if edge.source in stage_of and edge.target in stage_of and stage_of[edge.source] > stage_of[edge.target]:
            source, target = _named(workload, edge.source), _named(workload, edge.target)
            yield f"{source} is pinned to a later stage than {target}, which needs its output"


def _apart(workload: Workload, limits: Limits) -> Iterator[str]:
    """Layers that must be in one stage and must not."""
    together = _stages_shared(limits)
    for group in limits.apart:
        for first, second in combinations(group, 2):
            if first == second:
                yield f"{_named(workload, first)} is to be apart from itself"
            elif together.get(first, first) == together.get(second, second):
                yield f"{_named(workload, first)} and {_named(workload, second)} are to be both together and apart"


def _stages_shared(limits: Limits) -> dict[int, int]:
    """For each layer that shares a stage with others one layer that stands for all of them."""
    groups = [list(group) for group in limits.together]
    by_stage: dict[int, list[int]] = {}
    for layer, stage in limits.pins:
        by_stage.setdefault(stage, []).append(layer)
    stands_for: dict[int, int] = {}
    for group in [*groups, *by_stage.values()]:
        old = {stands_for.get(layer, layer) for layer in group}
        new = min(old)
        stands_for |= dict.fromkeys(group, new)
        stands_for |= {layer: new for layer, known in stands_for.items() if known in old}
    return stands_for


def _named(workload: Workload, position: int) -> str:
    layer = workload.layers[position]
    return f"layer {layer.id} ({layer.name})"
