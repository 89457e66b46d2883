"""From the solver's stages to a plan that the judge has confirmed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from piper import _core
from piper.planning.effort import RunningEffort
from piper.planning.problem import Problem
from piper.planning.result import PROOF_GAP, Baseline, Plan, PlannedStage, Status
from piper.workload import Stage

RawStages = Sequence[tuple[Sequence[int], int, int, Sequence[int]]]
"""Stages as the solver returns them: layers, data-parallel degree, tensor-parallel degree, choices."""


class InternalError(RuntimeError):
    """Piper contradicts itself: the solver claims what the judge refutes. Never the user's fault."""


def judged_plan(problem: Problem, solution: _core.Solution, solve_seconds: float) -> Plan:
    """The solver's plan with the judge's numbers.

    Raises:
        InternalError: the judge finds a violation, or another value than the solver proved.
    """
    if solution.stages is None:
        raise InternalError("the solver returned no plan where one was expected")
    stages = as_stages(solution.stages)
    verdict = _core.score(problem.workload, problem.limits, problem.schedule, stages)
    _confirm(verdict, solution)
    workload = problem.workload
    return Plan(
        name=workload.name,
        time_per_sample=verdict.value,
        lower_bound=min(solution.lower_bound, verdict.value),
        status=solution.status,
        devices_used=verdict.devices,
        solve_seconds=solve_seconds,
        stages=planned_stages(problem, stages, verdict),
        layers=problem.layers,
        devices=workload.devices,
        memory_bytes=workload.memory_bytes - workload.reserve_bytes,
        microbatches=workload.microbatches,
        schedule=problem.schedule,
        time_unit=workload.time_unit,
        microbatch_size=workload.samples_per_microbatch,
        iteration_time=verdict.value * workload.microbatches if workload.time_unit == "s" else None,
        tokens_per_second=tokens_per_second(problem, verdict.value),
        mfu=mfu(problem, verdict.value, verdict.devices),
        warnings=workload.warnings,
    )


def planned_stages(problem: Problem, stages: Sequence[Stage], verdict: _core.Score) -> tuple[PlannedStage, ...]:
    """Stages with names, numbers and the judge's values."""
    return tuple(_planned(problem, stage, score) for stage, score in zip(stages, verdict.stages, strict=True))


def baselines(problem: Problem, value: float, running: RunningEffort) -> tuple[Baseline, ...]:
    """What simpler planners reach, best first; `value` is the time that theirs are divided by.

    Raises:
        LimitError: the time limit was reached.
        KeyboardInterrupt: Ctrl-C.
    """
    found = []
    simpler = _core.baselines(
        problem.workload,
        problem.limits,
        problem.schedule,
        threads=running.effort.threads,
        time_limit=running.seconds_left(),
    )
    for name, stages in simpler:
        if stages is None:
            found.append(Baseline(name, None, None))
            continue
        verdict = _core.score(problem.workload, problem.limits, problem.schedule, as_stages(stages))
        if verdict.violations:
            raise InternalError(f"the plan of baseline {name!r} breaks a rule: {describe(verdict.violations[0])}")
        found.append(Baseline(name, verdict.value, verdict.value / value if value > 0 else None))
    return tuple(sorted(found, key=lambda b: math.inf if b.time_per_sample is None else b.time_per_sample))


def as_stages(raw: RawStages) -> list[Stage]:
    """The solver's tuples as `Stage` objects."""
    return [Stage(tuple(layers), data, tensor, tuple(choices)) for layers, data, tensor, choices in raw]


def describe(violation: _core.Violation) -> str:
    """A violation in one line."""
    by = f" by {violation.by:g}" if violation.by else ""
    return f"{violation.where}: {violation.rule}{by}"


def tokens_per_second(problem: Problem, value: float) -> float | None:
    """Tokens trained on in a second when a microbatch takes `value` seconds."""
    tokens = problem.workload.tokens_per_microbatch
    return tokens / value if tokens is not None and problem.workload.time_unit == "s" and value > 0 else None


def mfu(problem: Problem, value: float, devices: int) -> float | None:
    """Share of the peak rate of `devices` devices that goes into the model's FLOPs."""
    flops, peak = problem.workload.flops_per_microbatch, problem.workload.peak_flops_per_device
    if flops is None or peak is None or problem.workload.time_unit != "s" or value <= 0:
        return None
    return flops / (value * devices * peak)


def _planned(problem: Problem, stage: Stage, score: _core.StageScore) -> PlannedStage:
    layers = [problem.workload.layers[position] for position in stage.layers]
    chosen = {
        layer.id: layer.tmpcs[stage.tensor_parallel][choice].id
        for layer, choice in zip(layers, stage.choices, strict=True)
    }
    return PlannedStage(
        layers=tuple(layer.name for layer in layers),
        ids=tuple(layer.id for layer in layers),
        data_parallel_degree=stage.data_parallel,
        tensor_parallel_degree=stage.tensor_parallel,
        tmpc_ids=chosen,
        load=score.load,
        compute=score.compute,
        transfer=score.transfer,
        resync=score.resync,
        memory=score.memory,
        in_flight=score.in_flight,
    )


def _confirm(verdict: _core.Score, solution: _core.Solution) -> None:
    if verdict.violations:
        raise InternalError(f"the solver's plan breaks a rule: {describe(verdict.violations[0])}")
    slack = PROOF_GAP * max(abs(verdict.value), abs(solution.lower_bound))
    if solution.lower_bound > verdict.value + slack:
        raise InternalError(f"the plan takes {verdict.value!r}, below the proven bound {solution.lower_bound!r}")
    if solution.status == "done" and verdict.value > solution.lower_bound + slack:
        raise InternalError(f"the plan takes {verdict.value!r}; the solver proved {solution.lower_bound!r}")


def final_status(statuses: Sequence[Status]) -> Status:
    """One status for several searches: the first that did not go through, limits before a reached gap."""
    for status in statuses:
        if status not in ("done", "gap"):
            return status
    return "gap" if "gap" in statuses else "done"
