"""`piper.evaluate`: the judge's view of a plan made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from piper import _core
from piper.errors import InputError
from piper.model import Model
from piper.planning.judge import mfu, planned_stages, tokens_per_second
from piper.planning.limits import Restrictions
from piper.planning.microbatch import cuts, recut
from piper.planning.problem import Problem, Setting, problem
from piper.planning.result import Plan, PlannedLayer, PlannedStage
from piper.planning.subject import subject_of
from piper.workload import Schedule, Stage, Transfer, Workload

if TYPE_CHECKING:
    from rich.console import Group

    from piper.costs.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a plan breaks."""

    rule: str
    where: str
    """The stage, layer or edge."""
    by: float
    """How far the limit is passed, in the unit of the rule (bytes, devices, ...)."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A plan's score. The fields are those of `piper.planning.Plan`, without a proof."""

    name: str
    feasible: bool
    time_per_sample: float
    """Time per microbatch, as for `Plan`; what it would be if the violated rules did not hold."""
    devices_used: int
    violations: tuple[Violation, ...]
    stages: tuple[PlannedStage, ...]
    layers: tuple[PlannedLayer, ...]
    devices: int
    memory_bytes: float
    microbatches: int
    schedule: Schedule
    time_unit: Literal["s"] | None = None
    microbatch_size: int | None = None
    iteration_time: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The evaluation in the keys of plans, and ``violations``."""
        from piper.encode import evaluation_document

        return evaluation_document(self)

    def __rich__(self) -> Group:
        from piper.report.evaluation import evaluation_table

        return evaluation_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)


def evaluate(
    model: Model | Workload | str | PathLike[str],
    result: Plan | str | PathLike[str],
    cluster: Cluster | str | None = None,
    *,
    devices: int | None = None,
    memory: float | str | None = None,
    bandwidth: float | str | None = None,
    microbatches: int | None = None,
    microbatch_size: int | None = None,
    global_batch: int | None = None,
    schedule: Schedule = "async",
    reserve: float | str | None = None,
    transfer: Transfer | None = None,
) -> Evaluation:
    """Score a plan by the formulas of the problem and name every rule that it breaks.

    Args:
        model: what `piper.load` returns, or what it takes.
        result: a plan, or the JSON file of one, made by Piper or by the published program.
        cluster: as for `piper.plan`, like all that follow.
        devices: most devices to use.
        memory: bytes of one device.
        bandwidth: bytes per unit of the workload's time from each device to other stages.
        microbatches: microbatches in a batch.
        microbatch_size: samples in a microbatch. Models only.
        global_batch: samples in a batch; with `microbatch_size` or `microbatches`, of which it gives the other.
        schedule: ``"async"``, ``"gpipe"`` or ``"1f1b"``.
        reserve: bytes of each device that no plan may use.
        transfer: whether a tensor with several consumers is paid for on each ``"edge"`` or once as a ``"tensor"``.

    Returns:
        The score, whether the plan is feasible or not.

    Raises:
        InputError: an argument cannot be used, or the plan names layers or configurations that do not exist.
    """
    options = cuts(microbatch_size, global_batch, microbatches)
    if len(options) > 1:
        raise InputError("global_batch alone does not say how the batch is cut; add microbatch_size or microbatches")
    setting = Setting(
        cluster=cluster,
        devices=devices,
        memory=memory,
        bandwidth=bandwidth,
        microbatches=options[0].count,
        reserve=reserve,
        transfer=transfer,
        schedule=schedule,
    )
    posed = problem(recut(subject_of(model, setting), options[0]), setting, Restrictions())
    return _evaluation(posed, stages_of(result, posed.workload))


def stages_of(result: Plan | str | PathLike[str], workload: Workload) -> tuple[Stage, ...]:
    """The stages of a plan or of its file, by positions in the workload.

    Raises:
        InputError: it cannot be read, or does not belong to the workload.
    """
    if not isinstance(result, Plan):
        from piper.formats.plan_json import load_plan

        return load_plan(result, workload)
    positions = {layer.id: position for position, layer in enumerate(workload.layers)}
    try:
        return tuple(_stage(stage, positions, workload) for stage in result.stages)
    except (KeyError, ValueError):
        text = f"the plan of {result.name} has layers or configurations that {workload.name} lacks"
        raise InputError(text) from None


def _stage(stage: PlannedStage, positions: dict[int, int], workload: Workload) -> Stage:
    chosen = sorted((positions[layer], tmpc) for layer, tmpc in stage.tmpc_ids.items())
    degree = stage.tensor_parallel_degree
    choices = tuple([t.id for t in workload.layers[position].tmpcs[degree]].index(tmpc) for position, tmpc in chosen)
    return Stage(tuple(position for position, _ in chosen), stage.data_parallel_degree, degree, choices)


def _evaluation(posed: Problem, stages: tuple[Stage, ...]) -> Evaluation:
    verdict = _core.score(posed.workload, posed.limits, posed.schedule, list(stages))
    workload = posed.workload
    return Evaluation(
        name=workload.name,
        feasible=not verdict.violations,
        time_per_sample=verdict.value,
        devices_used=verdict.devices,
        violations=tuple(Violation(v.rule, v.where, v.by) for v in verdict.violations),
        stages=planned_stages(posed, stages, verdict),
        layers=posed.layers,
        devices=workload.devices,
        memory_bytes=posed.usable_memory,
        microbatches=workload.microbatches,
        schedule=posed.schedule,
        time_unit=workload.time_unit,
        microbatch_size=workload.samples_per_microbatch,
        iteration_time=verdict.value * workload.microbatches if workload.time_unit == "s" else None,
        tokens_per_second=tokens_per_second(posed, verdict.value),
        mfu=mfu(posed, verdict.value, verdict.devices),
    )
