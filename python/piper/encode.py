"""Results as JSON documents: the keys of the published formats, and Piper's own beside them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from piper.errors import InfeasibleError
from piper.planning.result import Baseline, Plan, PlannedLayer, PlannedStage

if TYPE_CHECKING:
    from piper.evaluation import Evaluation
    from piper.planning.frontier import Frontier


def plan_document(plan: Plan) -> dict[str, Any]:
    """The result of ``piper plan``. Numbers of layers are those in ``layers``."""
    document: dict[str, Any] = {
        "feasible": True,
        "timePerSample": plan.time_per_sample,
        "lowerBound": plan.lower_bound,
        "gap": finite(plan.gap),
        "optimal": plan.optimal,
        "status": plan.status,
        "devicesUsed": plan.devices_used,
        "solveSeconds": plan.solve_seconds,
        "stages": [stage_document(stage) for stage in plan.stages],
        "layers": layers_document(plan.layers),
        "name": plan.name,
        "devices": plan.devices,
        "memoryPerDevice": plan.memory_bytes,
        "microbatches": plan.microbatches,
        "schedule": plan.schedule,
        "timeUnit": plan.time_unit,
    }
    document |= _known(plan)
    if plan.baselines:
        document["baselines"] = [_baseline_document(baseline) for baseline in plan.baselines]
    if plan.warnings:
        document["warnings"] = list(plan.warnings)
    return document


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """The result of ``piper evaluate``."""
    document: dict[str, Any] = {
        "feasible": evaluation.feasible,
        "timePerSample": finite(evaluation.time_per_sample),
        "devicesUsed": evaluation.devices_used,
        "violations": [{"rule": v.rule, "where": v.where, "by": finite(v.by)} for v in evaluation.violations],
        "stages": [stage_document(stage) for stage in evaluation.stages],
        "layers": layers_document(evaluation.layers),
        "name": evaluation.name,
        "devices": evaluation.devices,
        "memoryPerDevice": evaluation.memory_bytes,
        "microbatches": evaluation.microbatches,
        "schedule": evaluation.schedule,
        "timeUnit": evaluation.time_unit,
    }
    return document | _known(evaluation)


def frontier_document(frontier: Frontier) -> dict[str, Any]:
    """The result of ``piper plan --frontier``."""
    points = [
        {"devices": p.devices, "timePerSample": p.time_per_sample, "lowerBound": p.lower_bound}
        for p in frontier.points
    ]
    return {
        "optimal": frontier.optimal,
        "status": frontier.status,
        "frontier": points,
        "solveSeconds": frontier.solve_seconds,
        "name": frontier.name,
        "timeUnit": frontier.time_unit,
    }


def infeasible_document(error: InfeasibleError) -> dict[str, Any]:
    """What stands for a plan where there is none. ``needs``: bytes of memory per device, number of devices."""
    keys = {"memory_bytes": "memory", "devices": "devices"}
    needs = {keys.get(name, name): value for name, value in error.needs.items()}
    document = {"feasible": False, "reasons": error.reasons, "needs": needs}
    return document if error.stopped is None else document | {"status": error.stopped}


def stage_document(stage: PlannedStage) -> dict[str, Any]:
    """One stage; memory in bytes per device."""
    return {
        "nodes": list(stage.ids),
        "dataParallelDegree": stage.data_parallel_degree,
        "tensorParallelDegree": stage.tensor_parallel_degree,
        "TMPCids": {str(layer): tmpc for layer, tmpc in stage.tmpc_ids.items()},
        "load": finite(stage.load),
        "compute": finite(stage.compute),
        "transfer": finite(stage.transfer),
        "resync": finite(stage.resync),
        "memory": finite(stage.memory),
        "inFlight": stage.in_flight,
    }


def layers_document(layers: tuple[PlannedLayer, ...]) -> list[dict[str, Any]]:
    """The list that numbers of layers refer to."""
    return [{"id": layer.id, "name": layer.name} for layer in layers]


def finite(value: float) -> float | None:
    """JSON has no infinity: null stands for it. Nor is -0, which an empty sum may be, of use to anyone."""
    return value + 0.0 if math.isfinite(value) else None


def _known(result: Plan | Evaluation) -> dict[str, Any]:
    """What is there only for costs of our own."""
    values = {
        "microbatchSize": result.microbatch_size,
        "iterationTime": result.iteration_time,
        "tokensPerSecond": result.tokens_per_second,
        "mfu": result.mfu,
    }
    return {key: value for key, value in values.items() if value is not None}


def _baseline_document(baseline: Baseline) -> dict[str, Any]:
    return {"name": baseline.name, "timePerSample": baseline.time_per_sample, "ratio": baseline.ratio}
