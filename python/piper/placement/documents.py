"""Placements as JSON documents: the keys of the published format, and Piper's own beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from piper.encode import finite

if TYPE_CHECKING:
    from piper.placement.result import (
        PassLoad,
        PlacedNode,
        PlacedPart,
        Placement,
        PlacementBaseline,
        PlacementSetup,
        SplitEvaluation,
    )


def placement_document(placement: Placement) -> dict[str, Any]:
    """The result of ``piper place``. Numbers of nodes are those in ``nodes``."""
    document: dict[str, Any] = {
        "feasible": True,
        "maxLoad": placement.max_load,
        "lowerBound": placement.lower_bound,
        "gap": finite(placement.gap),
        "optimal": placement.optimal,
        "status": placement.status,
        "algorithm": placement.algorithm,
        "contiguous": placement.contiguous,
        "solveSeconds": placement.solve_seconds,
        **_devices(placement.parts),
        "nodes": _nodes(placement.nodes),
        "name": placement.name,
        "setup": _setup(placement.setup),
    }
    if placement.baselines:
        document["baselines"] = [_baseline(baseline) for baseline in placement.baselines]
    if placement.warnings:
        document["warnings"] = list(placement.warnings)
    return document


def split_evaluation_document(evaluation: SplitEvaluation) -> dict[str, Any]:
    """The result of ``piper evaluate`` for a split."""
    return {
        "feasible": evaluation.feasible,
        "maxLoad": finite(evaluation.max_load),
        "violations": [
            {"rule": v.rule, "where": v.where, "nodes": list(v.nodes), "by": finite(v.by)}
            for v in evaluation.violations
        ],
        **_devices(evaluation.parts),
        "nodes": _nodes(evaluation.nodes),
        "name": evaluation.name,
        "setup": _setup(evaluation.setup),
    }


def _devices(parts: tuple[PlacedPart, ...]) -> dict[str, Any]:
    """Accelerators and CPUs; ``position`` is the place in the order of all of them."""
    devices: dict[str, list[dict[str, Any]]] = {"fpgas": [], "cpus": []}
    for position, part in enumerate(parts):
        row: dict[str, Any] = {"load": finite(part.load), "nodes": list(part.ids), "position": position}
        if not part.on_cpu:
            row |= {"class": part.device, "replicas": part.replicas, "memory": finite(part.memory)}
        row["forward"] = _pass(part.forward)
        if part.backward.load or part.backward.compute:
            row["backward"] = _pass(part.backward)
        devices["cpus" if part.on_cpu else "fpgas"].append(row)
    return devices


def _pass(load: PassLoad) -> dict[str, Any]:
    return {
        "load": finite(load.load),
        "compute": finite(load.compute),
        "read": finite(load.read),
        "write": finite(load.write),
        "sync": finite(load.sync),
    }


def _nodes(nodes: tuple[PlacedNode, ...]) -> list[dict[str, Any]]:
    return [{"id": node.id, "name": node.name} for node in nodes]


def _setup(setup: PlacementSetup) -> dict[str, Any]:
    return {
        "accelerators": [
            {"name": row.name, "count": row.count, "maxSize": row.memory_bytes} for row in setup.classes
        ],
        "cpus": setup.cpus,
        "loadRule": setup.rules.load,
        "trainingObjective": setup.rules.training_objective,
        "maxReplicas": setup.rules.max_replicas,
        "timeUnit": setup.time_unit,
    }


def _baseline(baseline: PlacementBaseline) -> dict[str, Any]:
    row: dict[str, Any] = {"name": baseline.name, "maxLoad": baseline.max_load, "ratio": baseline.ratio}
    if baseline.broken_rules:
        row["brokenRules"] = list(baseline.broken_rules)
    return row
