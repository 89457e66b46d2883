"""From the solvers' parts to devices with the judge's numbers."""

from __future__ import annotations

from collections.abc import Sequence

from piper import _core
from piper.placement.result import (
    PassLoad,
    PlacedNode,
    PlacedPart,
    PlacementSetup,
    SplitViolation,
)
from piper.placement.workload import Part, PlacementWorkload, Rules

_SHOWN = 12
"""Nodes that a message lists."""

RawParts = Sequence[tuple[int | None, int, Sequence[int]]]
"""Parts as the solvers return them: class of accelerators (None: CPU), replicas, nodes."""


def as_parts(raw: RawParts) -> list[Part]:
    """The solvers' tuples as `Part` objects."""
    return [Part(accelerator_class, replicas, tuple(nodes)) for accelerator_class, replicas, nodes in raw]


def placed_parts(
    workload: PlacementWorkload, parts: Sequence[Part], verdict: _core.PlacementScore
) -> tuple[PlacedPart, ...]:
    """Parts with names, numbers and the judge's values."""
    return tuple(_placed(workload, part, score) for part, score in zip(parts, verdict.parts, strict=True))


def placed_nodes(workload: PlacementWorkload) -> tuple[PlacedNode, ...]:
    """The nodes as results list them."""
    return tuple(PlacedNode(node.id, node.name) for node in workload.nodes)


def setup_of(workload: PlacementWorkload, rules: Rules) -> PlacementSetup:
    """What a split of the workload is made for."""
    return PlacementSetup(workload.classes, workload.cpus, rules, workload.time_unit)


def violations(
    workload: PlacementWorkload, parts: Sequence[Part], verdict: _core.PlacementScore
) -> tuple[SplitViolation, ...]:
    """The broken rules in the words of the user's file."""
    return tuple(_violation(workload, parts, violation) for violation in verdict.violations)


def device_name(workload: PlacementWorkload, parts: Sequence[Part], number: int) -> str:
    """Kind of device and position among those of its kind in the split: ``accelerator 2``, ``cpu 0``."""
    kind = parts[number].accelerator_class
    place = sum(part.accelerator_class == kind for part in parts[:number])
    if kind is None:
        return f"cpu {place}"
    name = workload.classes[kind].name if kind < len(workload.classes) else f"class {kind}"
    return f"{name} {place}"


def _placed(workload: PlacementWorkload, part: Part, score: _core.PartScore) -> PlacedPart:
    rows = [workload.nodes[position] for position in part.nodes]
    kind = part.accelerator_class
    return PlacedPart(
        device="cpu" if kind is None else workload.classes[kind].name,
        on_cpu=kind is None,
        replicas=part.replicas,
        ids=tuple(row.id for row in rows),
        names=tuple(row.name for row in rows),
        load=score.load,
        forward=_pass(score.forward),
        backward=_pass(score.backward),
        memory=score.memory,
    )


def _pass(score: _core.PassScore) -> PassLoad:
    return PassLoad(score.compute, score.read, score.write, score.sync, score.load)


def _violation(
    workload: PlacementWorkload, parts: Sequence[Part], violation: _core.PlacementViolation
) -> SplitViolation:
    nodes = violation.nodes
    where = []
    if violation.part is not None:
        where.append(device_name(workload, parts, violation.part))
        nodes = nodes or list(parts[violation.part].nodes)
    ids = [workload.nodes[position].id for position in nodes]
    if ids:
        shown = ", ".join(map(str, ids[:_SHOWN])) + (", ..." if len(ids) > _SHOWN else "")
        where.append(f"{'node' if len(ids) == 1 else 'nodes'} {shown}")
    return SplitViolation(violation.rule, ", ".join(where) or "split", tuple(ids), violation.by)
