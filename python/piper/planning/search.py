"""One search, and what its end means."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from piper import _core
from piper.costs.units import format_seconds
from piper.errors import LimitError, PiperError
from piper.planning.effort import RunningEffort
from piper.planning.explain import infeasible
from piper.planning.judge import judged_plan
from piper.planning.problem import Problem
from piper.planning.result import PROOF_GAP, Plan


class Interrupted(KeyboardInterrupt):
    """Ctrl-C before there was any plan."""


def search(problem: Problem, running: RunningEffort) -> Plan:
    """The best plan of one problem.

    Raises:
        InfeasibleError: there is provably none.
        LimitError: a limit was reached before one was found.
        Interrupted: Ctrl-C came before one was found.
    """
    effort = running.effort
    started = time.perf_counter()
    solution = _core.solve(
        problem.workload,
        problem.limits,
        problem.schedule,
        threads=effort.threads,
        time_limit=running.seconds_left(),
        memory_limit=effort.memory_limit,
        gap=effort.gap,
        progress=effort.progress,
    )
    seconds = time.perf_counter() - started
    if solution.stages is None:
        raise _without_plan(problem, solution, running)
    try:
        plan = judged_plan(problem, solution, seconds)
    except KeyboardInterrupt:  # It takes a moment; a plan is not given up for that.
        plan = replace(judged_plan(problem, solution, seconds), status="interrupted")
    if plan.status == "gap" and plan.gap > max(effort.gap, PROOF_GAP) * (1 + 1e-6):
        # All that fits into the memory was searched, and neither the proof nor the gap was reached.
        return replace(plan, status="memory limit")
    return plan


def _without_plan(problem: Problem, solution: _core.Solution, running: RunningEffort) -> PiperError | Interrupted:
    if math.isinf(solution.lower_bound):
        return infeasible(problem, running)
    if solution.status == "interrupted":
        return Interrupted(f"interrupted before any plan was found; {_bound(problem, solution)}")
    if solution.status in ("time limit", "memory limit"):
        return LimitError(f"the {solution.status} was reached before any plan was found; {_bound(problem, solution)}")
    return LimitError(f"the search that fits into the memory limit found no plan; {_bound(problem, solution)}")


def _bound(problem: Problem, solution: _core.Solution) -> str:
    seconds = problem.workload.time_unit == "s"
    bound = format_seconds(solution.lower_bound) if seconds else f"{solution.lower_bound:.6g}"
    return f"no plan can take less than {bound} per microbatch"
