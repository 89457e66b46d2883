"""A lower bound that needs no search, for splits that no search has bounded."""

from __future__ import annotations

from piper.placement.workload import Node, PlacementWorkload, Rules


def work_bound(workload: PlacementWorkload, rules: Rules) -> float:
    """No split, contiguous or not, has a smaller largest load.

    Every node takes its least time on some device, and all of them together share those devices; no device takes less
    than any of its nodes, or with ``r`` replicas less than an ``r``-th of that.
    """
    devices = workload.accelerators + workload.cpus
    times = [_least(node, workload) for node in workload.nodes]
    if devices == 0 or not times:
        return 0.0
    return max(sum(times) / devices, max(times) / max(1, rules.max_replicas)) * (1 - 1e-9)


def _least(node: Node, workload: PlacementWorkload) -> float:
    times = [
        time for time, row in zip(node.accelerators, workload.classes, strict=True) if row.count and time is not None
    ]
    if workload.cpus:
        times.append(node.cpu)
    return min(times, default=0.0)
