"""One search for a split, by any algorithm, confirmed by the judge."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from piper import _core
from piper.errors import InfeasibleError, InputError, LimitError
from piper.placement import partition
from piper.placement.bounds import work_bound
from piper.placement.explain import infeasible
from piper.placement.judge import as_parts, placed_nodes, placed_parts, setup_of, violations
from piper.placement.result import Algorithm, Placement, PlacementBaseline
from piper.placement.workload import Part, PlacementWorkload, Rules
from piper.planning.effort import Effort, RunningEffort
from piper.planning.judge import InternalError
from piper.planning.result import PROOF_GAP, Status
from piper.planning.search import Interrupted

_EXACT: tuple[Algorithm, ...] = ("auto", "dp", "dpl", "pipedream")
_FREE: tuple[Algorithm, ...] = ("local-search", "partition")
"""Algorithms whose splits need not be contiguous."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an algorithm found."""

    parts: list[Part] | None
    lower_bound: float
    status: Status


def search(
    workload: PlacementWorkload, rules: Rules, algorithm: Algorithm, running: RunningEffort, seed: int, restarts: int
) -> Placement:
    """The best split that an algorithm finds.

    Raises:
        InfeasibleError: there is provably no contiguous split, or the algorithm's split breaks a rule.
        InputError: the algorithm needs a package that is missing.
        LimitError: a limit was reached before one was found, or a simple algorithm finds none.
        Interrupted: Ctrl-C came before one was found.
    """
    started = time.perf_counter()
    found = _found(workload, rules, algorithm, running, seed, restarts)
    seconds = time.perf_counter() - started
    if found.parts is None:
        raise _without_split(workload, rules, algorithm, found)
    contiguous = _core.place_score(workload, rules, found.parts)
    free = replace(rules, contiguous=False)
    verdict = _core.place_score(workload, free, found.parts) if algorithm in _FREE else contiguous
    if verdict.violations:
        return _refuse(workload, found.parts, verdict, algorithm)
    _confirm(verdict, found)
    return Placement(
        name=workload.name,
        max_load=verdict.value,
        lower_bound=min(found.lower_bound, verdict.value),
        status=_status(found, verdict.value, running.effort.gap, algorithm),
        algorithm=algorithm,
        contiguous=not contiguous.violations,
        solve_seconds=seconds,
        parts=placed_parts(workload, found.parts, verdict),
        nodes=placed_nodes(workload),
        setup=setup_of(workload, rules),
        warnings=workload.warnings,
    )


def compared(
    placement: Placement, workload: PlacementWorkload, rules: Rules, effort: Effort, seed: int, restarts: int
) -> Placement:
    """The placement with what simpler placers reach, best first; Ctrl-C ends the comparison.

    Each placer has the time and memory of the search; none of them reports its progress.
    """
    if placement.status == "interrupted":
        return placement
    rows: list[PlacementBaseline] = []
    names: tuple[Algorithm, ...] = ("dpl", "pipedream", "local-search", "partition", "single")
    for name in names:
        if name == "partition" and not partition.available():
            continue
        running = replace(effort, gap=0.0, progress=None).started()
        found = _found(workload, rules, name, running, seed, restarts)
        if found.status == "interrupted":
            placement = replace(placement, status="interrupted")
            break
        rows.append(_baseline(workload, rules, name, found.parts, placement.max_load))
    rows.sort(key=lambda row: math.inf if row.max_load is None else row.max_load)
    return replace(placement, baselines=tuple(rows))


def _baseline(
    workload: PlacementWorkload, rules: Rules, name: str, parts: Sequence[Part] | None, value: float
) -> PlacementBaseline:
    if parts is None:
        return PlacementBaseline(name, None, None)
    verdict = _core.place_score(workload, rules, list(parts))
    broken = tuple(dict.fromkeys(violation.rule for violation in verdict.violations))
    return PlacementBaseline(name, verdict.value, verdict.value / value if value > 0 else None, broken)


def _found(
    workload: PlacementWorkload, rules: Rules, algorithm: Algorithm, running: RunningEffort, seed: int, restarts: int
) -> Found:
    effort = running.effort
    match algorithm:
        case "auto" | "dp" | "dpl" | "pipedream":
            solution = _core.place(
                workload,
                rules,
                algorithm="dp" if algorithm == "auto" else algorithm,
                threads=effort.threads,
                time_limit=running.seconds_left(),
                memory_limit=effort.memory_limit,
                gap=effort.gap,
                progress=effort.progress,
            )
            parts = None if solution.parts is None else as_parts(solution.parts)
            bound = work_bound(workload, rules) if algorithm == "pipedream" and parts else solution.lower_bound
            return Found(parts, bound, solution.status)
        case "local-search":
            raw, status = _core.place_local_search(
                workload,
                rules,
                restarts=restarts,
                seed=seed,
                time_limit=running.seconds_left(),
                progress=effort.progress,
            )
            return Found(None if raw is None else as_parts(raw), work_bound(workload, rules), status)
        case "partition":
            return Found(partition.partition(workload), work_bound(workload, rules), "done")
        case "single":
            alone = _core.place_single(workload, rules)
            return Found(None if alone is None else as_parts(alone), work_bound(workload, rules), "done")


def _without_split(
    workload: PlacementWorkload, rules: Rules, algorithm: Algorithm, found: Found
) -> InfeasibleError | InputError | LimitError | Interrupted:
    bound = f"no split can have a load below {found.lower_bound:g}"
    if algorithm in ("auto", "dp", "dpl") and math.isinf(found.lower_bound):
        return infeasible(workload, rules)
    if found.status == "interrupted":
        return Interrupted(f"interrupted before any split was found; {bound}")
    if found.status in ("time limit", "memory limit"):
        return LimitError(f"the {found.status} was reached before any split was found; {bound}")
    return LimitError(
        f"the algorithm {algorithm} finds no split, which proves nothing; auto searches them all; {bound}"
    )


def _refuse(
    workload: PlacementWorkload, parts: Sequence[Part], verdict: _core.PlacementScore, algorithm: Algorithm
) -> Placement:
    """Report the rules that a split breaks: an error of ours where the algorithm promises to keep them."""
    broken = violations(workload, parts, verdict)
    if algorithm in _EXACT:
        raise InternalError(f"the solver's split breaks a rule: {broken[0].where}: {broken[0].rule}")
    reasons = [f"{v.where}: {v.rule} (by {v.by:g})" for v in broken[:4]]
    raise InfeasibleError([f"the split of the algorithm {algorithm} breaks a rule: {reasons[0]}", *reasons[1:]], {})


def _confirm(verdict: _core.PlacementScore, found: Found) -> None:
    slack = PROOF_GAP * max(abs(verdict.value), abs(found.lower_bound))
    if found.lower_bound > verdict.value + slack:
        raise InternalError(f"the split has load {verdict.value!r}, below the proven bound {found.lower_bound!r}")


def _status(found: Found, value: float, gap: float, algorithm: Algorithm) -> Status:
    """Why the search ended; a search that went through without the proof it is for ran out of memory."""
    if algorithm not in ("auto", "dp"):
        return "done" if found.status == "gap" else found.status
    proven = found.lower_bound > 0 and value <= found.lower_bound * (1 + max(gap, PROOF_GAP) * (1 + 1e-6))
    return "memory limit" if found.status == "gap" and not (proven or value == found.lower_bound) else found.status
