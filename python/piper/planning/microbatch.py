"""How a batch is cut into microbatches: what the user says, or the best of every power of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from piper.errors import InfeasibleError, InputError, LimitError
from piper.model import Model
from piper.planning.judge import final_status
from piper.planning.limits import check_count
from piper.planning.problem import Problem
from piper.planning.resize import resized
from piper.planning.result import Plan
from piper.planning.search import Interrupted
from piper.workload import Workload


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to cut a batch; None leaves the default."""

    size: int | None
    """Samples in a microbatch."""
    count: int | None
    """Microbatches in a batch."""


def cuts(size: int | None, batch: int | None, count: int | None) -> list[Cut]:
    """Every cut to try, small microbatches first.

    Args:
        size: samples in a microbatch.
        batch: samples in a batch; without `size` and `count` every power of two that divides it is a size to try.
        count: microbatches in a batch.

    Raises:
        InputError: a number is not positive, or they do not multiply.
    """
    for name, value in (("microbatch_size", size), ("global_batch", batch), ("microbatches", count)):
        check_count(name, value)
    if batch is None:
        return [Cut(size, count)]
    if size is not None or count is not None:
        return [_exact(size, batch, count)]
    powers = (batch & -batch).bit_length()
    return [Cut(1 << power, batch >> power) for power in range(powers)]


def recut(subject: Model | Workload, cut: Cut) -> Model | Workload:
    """The model for microbatches of another size.

    Raises:
        InputError: the subject is a workload file, whose numbers hold for one size only.
    """
    if cut.size is None:
        return subject
    if isinstance(subject, Workload):
        raise InputError(
            f"{subject.name}: a workload file holds the times of one microbatch size; "
            "microbatch_size and global_batch are for models"
        )
    return resized(subject, cut.size)


@dataclass(frozen=True, slots=True)
class Solved:
    """A plan, the problem that it solves, and the samples in one of its microbatches."""

    plan: Plan
    problem: Problem
    samples: int

    @property
    def value(self) -> float:
        """Time per sample, not per microbatch."""
        return self.plan.time_per_sample / self.samples

    @property
    def bound(self) -> float:
        """The same for the bound."""
        return self.plan.lower_bound / self.samples


def best_cut(options: Sequence[Cut], solve: Callable[[Cut], tuple[Plan, Problem]]) -> tuple[Plan, Problem]:
    """The plan with the least time per sample; of equal ones that with the smallest microbatches.

    Its bound and status speak for all cuts: a cut that was not searched through leaves the plan unproven. Cuts
    without a plan are passed over.

    Raises:
        InfeasibleError: no cut has a plan; with the reasons of the smallest microbatches.
        LimitError: a limit was reached before there was any plan.
        Interrupted: Ctrl-C came before there was any plan.
    """
    found: list[Solved] = []
    failures: list[InfeasibleError | LimitError | Interrupted] = []
    for cut in options:
        try:
            plan, problem = solve(cut)
        except (InfeasibleError, LimitError, Interrupted) as failure:
            failures.append(failure)
        else:
            found.append(Solved(plan, problem, cut.size or 1))
        if _interrupted(found, failures):
            break
    if not found:
        raise next((x for x in failures if not isinstance(x, InfeasibleError)), failures[0])
    return _winner(found, failures, complete=len(found) + len(failures) == len(options))


def _interrupted(found: list[Solved], failures: list[InfeasibleError | LimitError | Interrupted]) -> bool:
    return (
        any(isinstance(x, Interrupted) for x in failures)
        or any(isinstance(x, InfeasibleError) and x.stopped == "interrupted" for x in failures)
        or any(s.plan.status == "interrupted" for s in found)
    )


def _winner(
    found: list[Solved], failures: list[InfeasibleError | LimitError | Interrupted], *, complete: bool
) -> tuple[Plan, Problem]:
    best = min(found, key=lambda solved: solved.value)
    unknown = [failure for failure in failures if not isinstance(failure, InfeasibleError)]
    bound = min(solved.bound for solved in found) if complete and not unknown else 0.0
    status = final_status([solved.plan.status for solved in found])
    if any(isinstance(failure, Interrupted) for failure in unknown):
        status = "interrupted"
    elif unknown and status in ("done", "gap"):
        status = "time limit"
    plan = replace(
        best.plan,
        lower_bound=min(bound * best.samples, best.plan.lower_bound),
        status=status,
        solve_seconds=sum(solved.plan.solve_seconds for solved in found),
    )
    return plan, best.problem


def _exact(size: int | None, batch: int, count: int | None) -> Cut:
    known = (size or 1) * (count or 1)
    if batch % known or (size and count and known != batch):
        text = " x ".join(str(value) for value in (size, count) if value)
        expected = f"{text}" if size and count else f"a multiple of {text}"
        raise InputError(f"global_batch is {batch}; expected {expected}")
    return Cut(size or batch // known, count or batch // known)
