"""`piper.evaluate`: the judge's view of a plan or split made elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from piper import _core
from piper.costs.training import Attention, GradientType, Training
from piper.errors import InputError
from piper.loading import is_built_in
from piper.placement.evaluate import evaluate_split
from piper.placement.place import rules_of
from piper.placement.problem import PlacementSetting, posed
from piper.placement.result import Placement, SplitEvaluation
from piper.placement.workload import LoadRule, PlacementWorkload, TrainingObjective
from piper.planning.judge import mfu, planned_stages, tokens_per_second
from piper.planning.limits import Restrictions
from piper.planning.measured import with_profile
from piper.planning.microbatch import cuts, recut
from piper.planning.problem import Problem, Setting, problem
from piper.planning.result import Plan, PlannedLayer, PlannedStage
from piper.planning.subject import Subject, subject_of
from piper.prediction.configuration import Configuration
from piper.prediction.evaluate import evaluate_configuration
from piper.prediction.result import Prediction
from piper.workload import Schedule, Stage, Transfer, Workload

if TYPE_CHECKING:
    from rich.console import Group

    from piper.costs.cluster import Cluster
    from piper.model import Granularity


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
    model: Subject,
    result: Configuration | Plan | Placement | str | PathLike[str],
    cluster: Cluster | str | None = None,
    *,
    devices: int | None = None,
    memory: float | str | None = None,
    bandwidth: float | str | None = None,
    microbatches: int | None = None,
    microbatch_size: int | None = None,
    global_batch: int | None = None,
    schedule: Schedule | None = None,
    reserve: float | str | None = None,
    transfer: Transfer | None = None,
    attention: Attention | None = None,
    sequence_parallel: bool | None = None,
    optimizer_sharding: bool | None = None,
    gradient_dtype: GradientType | None = None,
    accelerators: int | Mapping[str, int] | None = None,
    cpus: int | None = None,
    device: str | None = None,
    granularity: Granularity | None = None,
    unsupported: Collection[str] | None = None,
    profile: str | PathLike[str] | None = None,
    load: LoadRule | None = None,
    training_objective: TrainingObjective | None = None,
    max_replicas: int | None = None,
) -> Prediction | Evaluation | SplitEvaluation:
    """Score a plan or a split by the formulas of its problem and name every rule that it breaks.

    For a `Configuration` in place of a result: predict its iteration time and memory.

    Args:
        model: what `piper.load` returns, or what it takes.
        result: a plan or a split, or the JSON file of one, made by Piper or by the published programs. Backward nodes
            that a split does not list follow their colour class. Or a configuration, to which only `cluster`,
            `memory`, `bandwidth`, `reserve` and `profile` apply.
        cluster: for plans; as for `piper.plan`, like all that follow up to `transfer`.
        devices: most devices to use.
        memory: bytes of one device, or for splits of one accelerator.
        bandwidth: bytes per unit of the workload's time from each device to other stages, or for splits between an
            accelerator and host memory.
        microbatches: microbatches in a batch.
        microbatch_size: samples in a microbatch. Models only.
        global_batch: samples in a batch; with `microbatch_size` or `microbatches`, of which it gives the other.
        schedule: ``"async"`` (the default), ``"gpipe"`` or ``"1f1b"``.
        reserve: bytes of each device that no plan may use.
        transfer: whether a tensor with several consumers is paid for on each ``"edge"`` or once as a ``"tensor"``.
        attention: ``"fused"`` (the default) or ``"unfused"``. Models only, like all that follow up to
            `gradient_dtype`.
        sequence_parallel: share the tokens of norms, dropouts and additions out over tensor-parallel groups.
        optimizer_sharding: share the optimizer's state out over data-parallel replicas.
        gradient_dtype: type in which gradients are kept and exchanged.
        accelerators: for splits; as for `piper.place`, like all that follow.
        cpus: number of CPUs.
        device: what the accelerators are.
        granularity: for splits, whether operators or layers of a model are placed; for plans of ONNX files, the
            layers that the plan was made of.
        unsupported: types of operators that accelerators cannot run.
        profile: measured times of a model's operators; for plans, too.
        load: ``"sequential"`` (the default), ``"overlap"`` or ``"duplex"``.
        training_objective: ``"sum"`` (the default) or ``"split"``.
        max_replicas: most accelerators that may hold the same part. Default: 1.

    Returns:
        The score, whether the plan or split is feasible or not.

    Raises:
        InputError: an argument cannot be used or does not apply, or the result names layers, configurations, nodes or
            accelerators that do not exist.
    """
    if isinstance(result, Configuration):
        return _predicted(
            model, result, cluster, memory, bandwidth, reserve, profile, {
                "devices": devices, "microbatches": microbatches, "microbatch_size": microbatch_size,
                "global_batch": global_batch, "schedule": schedule, "transfer": transfer, "attention": attention,
                "sequence_parallel": sequence_parallel, "optimizer_sharding": optimizer_sharding,
                "gradient_dtype": gradient_dtype, "accelerators": accelerators, "cpus": cpus, "device": device,
                "granularity": granularity, "unsupported": unsupported, "load": load,
                "training_objective": training_objective, "max_replicas": max_replicas,
            },
        )  # fmt: skip
    of_plans = {
        "cluster": cluster,
        "devices": devices,
        "microbatches": microbatches,
        "microbatch_size": microbatch_size,
        "global_batch": global_batch,
        "schedule": schedule,
        "reserve": reserve,
        "transfer": transfer,
        "attention": attention,
        "sequence_parallel": sequence_parallel,
        "optimizer_sharding": optimizer_sharding,
        "gradient_dtype": gradient_dtype,
    }
    of_splits = {
        "accelerators": accelerators,
        "cpus": cpus,
        "device": device,
        "unsupported": unsupported,
        "load": load,
        "training_objective": training_objective,
        "max_replicas": max_replicas,
    }
    if is_placement(model, result):
        _refuse("split", of_plans)
        placing = PlacementSetting(
            accelerators=accelerators,
            cpus=cpus,
            memory=memory,
            bandwidth=bandwidth,
            device=device,
            granularity=None if granularity == "auto" else granularity,
            unsupported=unsupported,
            profile=profile,
        )
        rules = rules_of(load or "sequential", training_objective or "sum", max_replicas or 1)
        return evaluate_split(posed(model, placing), _split(result), rules)
    _refuse("plan", of_splits)
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
        schedule=schedule or "async",
        training=Training(
            attention=attention or "fused",
            sequence_parallel=bool(sequence_parallel),
            optimizer_sharding=bool(optimizer_sharding),
            gradient_dtype=gradient_dtype,
        ),
    )
    if granularity is not None and not isinstance(model, str | PathLike):
        raise InputError(f"granularity: {model.name} is read already; give it to piper.load")
    subject = subject_of(model, setting, {"granularity": granularity})
    setting = with_profile(setting, subject, profile)
    posed_plan = problem(recut(subject, options[0]), setting, Restrictions())
    return _evaluation(posed_plan, stages_of(_plan(result), posed_plan.workload))


def _predicted(
    model: Subject,
    configuration: Configuration,
    cluster: Cluster | str | None,
    memory: float | str | None,
    bandwidth: float | str | None,
    reserve: float | str | None,
    profile: str | PathLike[str] | None,
    others: Mapping[str, object],
) -> Prediction:
    _refuse("configuration", others)
    return evaluate_configuration(
        model, configuration, cluster, memory=memory, bandwidth=bandwidth, reserve=reserve, profile=profile
    )


def is_placement(model: Subject, result: Plan | Placement | str | PathLike[str]) -> bool:
    """Whether a result is to be judged as a split.

    Raises:
        InputError: a file cannot be read.
    """
    from piper.formats.detect import kind_of

    if isinstance(result, Plan | Placement):
        return isinstance(result, Placement)
    if isinstance(model, PlacementWorkload):
        return True
    if isinstance(model, str | PathLike) and not is_built_in(model) and kind_of(model) == "placement":
        return True
    return not isinstance(model, Workload) and kind_of(result) == "split"


def _refuse(what: str, options: Mapping[str, object]) -> None:
    """Refuse options that do not apply, rather than ignore them.

    Raises:
        InputError: naming the first that was given.
    """
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name}: the option does not apply to a {what}")


def _split(result: Plan | Placement | str | PathLike[str]) -> Placement | str | PathLike[str]:
    if isinstance(result, Plan):
        raise InputError(f"the plan of {result.name} is no split")
    return result


def _plan(result: Plan | Placement | str | PathLike[str]) -> Plan | str | PathLike[str]:
    if isinstance(result, Placement):
        raise InputError(f"the split of {result.name} is no plan")
    return result


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
