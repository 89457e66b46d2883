"""The judge's view of a split made elsewhere."""

from __future__ import annotations

from os import PathLike

from piper import _core
from piper.errors import InputError
from piper.placement.judge import placed_nodes, placed_parts, setup_of, violations
from piper.placement.result import Placement, SplitEvaluation
from piper.placement.workload import Part, PlacementWorkload, Rules


def evaluate_split(
    workload: PlacementWorkload, result: Placement | str | PathLike[str], rules: Rules
) -> SplitEvaluation:
    """Score a split by the definition of the problem and name every rule that it breaks.

    Raises:
        InputError: the split cannot be read, or does not belong to the workload.
    """
    parts = _parts_of(result, workload)
    verdict = _core.place_score(workload, rules, list(parts))
    return SplitEvaluation(
        name=workload.name,
        feasible=not verdict.violations,
        max_load=verdict.value,
        violations=violations(workload, parts, verdict),
        parts=placed_parts(workload, parts, verdict),
        nodes=placed_nodes(workload),
        setup=setup_of(workload, rules),
    )


def _parts_of(result: Placement | str | PathLike[str], workload: PlacementWorkload) -> tuple[Part, ...]:
    if not isinstance(result, Placement):
        from piper.formats.split_json import load_split

        return load_split(result, workload)
    positions = {node.id: position for position, node in enumerate(workload.nodes)}
    classes = {row.name: position for position, row in enumerate(workload.classes)}
    try:
        return tuple(
            Part(
                None if part.on_cpu else classes[part.device],
                part.replicas,
                tuple(sorted(positions[node] for node in part.ids)),
            )
            for part in result.parts
        )
    except KeyError:
        text = f"the split of {result.name} has nodes or accelerators that {workload.name} lacks"
        raise InputError(text) from None
