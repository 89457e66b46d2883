"""`piper.plan`: the best way to cut a model into pipeline stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

from piper.costs.training import Attention, GradientType, Training
from piper.errors import LimitError
from piper.planning.effort import Effort, ProgressCallback, RunningEffort
from piper.planning.judge import baselines
from piper.planning.limits import LayerRef, Restrictions
from piper.planning.measured import with_profile
from piper.planning.microbatch import Cut, best_cut, cuts, recut
from piper.planning.problem import Problem, Setting, problem
from piper.planning.result import Plan
from piper.planning.search import search
from piper.planning.subject import Subject, subject_of
from piper.workload import Recompute, Schedule, Transfer

if TYPE_CHECKING:
    from piper.costs.cluster import Cluster


def plan(
    model: Subject,
    cluster: Cluster | str | None = None,
    *,
    devices: int | None = None,
    memory: float | str | None = None,
    bandwidth: float | str | None = None,
    microbatches: int | None = None,
    microbatch_size: int | None = None,
    global_batch: int | None = None,
    schedule: Schedule = "async",
    recompute: Recompute = "auto",
    no_data_parallel: bool = False,
    no_tensor_parallel: bool = False,
    max_data_parallel: int | None = None,
    max_tensor_parallel: int | None = None,
    data_parallel: int | None = None,
    tensor_parallel: int | None = None,
    stages: int | None = None,
    max_stages: int | None = None,
    pins: Mapping[LayerRef, int] | Sequence[tuple[LayerRef, int]] = (),
    together: Sequence[Sequence[LayerRef]] = (),
    apart: Sequence[Sequence[LayerRef]] = (),
    reserve: float | str | None = None,
    transfer: Transfer | None = None,
    attention: Attention | None = None,
    sequence_parallel: bool = False,
    optimizer_sharding: bool = False,
    gradient_dtype: GradientType | None = None,
    profile: str | PathLike[str] | None = None,
    threads: int | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    gap: float = 0.0,
    progress: ProgressCallback | None = None,
    compare: bool = False,
) -> Plan:
    """Find a pipeline plan and prove that no other is faster.

    The problem and its objective are those of Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner
    for DNN Parallelization", NeurIPS 2021, section 3; the choice of recomputation is exact. Before a plan is returned
    a judge, which shares no code with the solver, confirms it. Sizes are bytes, as numbers or as text like ``"8GiB"``
    or ``"80GB"``.

    Args:
        model: what `piper.load` returns, or what it takes.
        cluster: the devices and their links, as a `Cluster` or as ``"16x8:h100-80gb"``. Models need one; on a
            workload file it sets devices, memory and bandwidth (between nodes).
        devices: most devices to use.
        memory: bytes of one device.
        bandwidth: bytes per unit of the workload's time (seconds for models) from each device to other stages.
        microbatches: microbatches in a batch; for a model 8 per device unless told otherwise.
        microbatch_size: samples in a microbatch. Models only.
        global_batch: samples in a batch. Given alone, every power of two that divides it is tried as microbatch size,
            and the plan with the least time per sample wins. Models only.
        schedule: ``"async"`` (1F1B without a flush), ``"gpipe"`` or ``"1f1b"`` (with a flush after every batch).
        recompute: whether activations may, must not or must be recomputed wherever a layer has the choice.
        no_data_parallel: every stage has one replica.
        no_tensor_parallel: every replica has one device.
        max_data_parallel: most replicas of a stage.
        max_tensor_parallel: most devices of a replica.
        data_parallel: replicas of every stage.
        tensor_parallel: devices of every replica.
        stages: number of stages.
        max_stages: most stages.
        pins: layer to the stage that it must be in, stages counted from 0 at the input. A layer is given by its name
            or its number in results.
        together: groups of layers; those of a group share a stage.
        apart: groups of layers; no two of a group share a stage.
        reserve: bytes of each device that no plan may use. Default: 6 % for models, none for workload files.
        transfer: whether a tensor with several consumers is paid for on each ``"edge"`` or once as a ``"tensor"``.
        attention: ``"fused"`` (the default) keeps no score matrices, ``"unfused"`` does. For models
            only, like all that follow up to `profile`.
        sequence_parallel: share the tokens of norms, dropouts and additions out over tensor-parallel groups.
        optimizer_sharding: share the optimizer's state out over data-parallel replicas (ZeRO stage 1).
        gradient_dtype: type in which gradients are kept and exchanged. Default: that of the weights.
        profile: file of measured times of operators: ONNX Runtime's, PyTorch's Chrome trace, or a CSV table.
        threads: threads of the search; the result does not depend on it. Default: one for each processor.
        time_limit: seconds after which the best plan so far is returned.
        memory_limit: bytes that the search may take. Default: half of what is free.
        gap: the search may stop at a plan this close to the proven bound, relative.
        progress: called about ten times a second with the best value and the bound.
        compare: fill `Plan.baselines` with the plans of simpler planners.

    Returns:
        The fastest plan; of equally fast ones that with the fewest devices, then the fewest stages, then the earliest
        cut. When a limit or Ctrl-C ended the search it is the best so far: see `Plan.status` and `Plan.gap`.

    Raises:
        InputError: an argument cannot be used.
        InfeasibleError: there is provably no plan; it says which layer or limit is in the way, and what would do.
        LimitError: a limit was reached before there was any plan.
        KeyboardInterrupt: Ctrl-C came before there was any plan.
    """
    setting = Setting(
        cluster=cluster,
        devices=devices,
        memory=memory,
        bandwidth=bandwidth,
        microbatches=microbatches,
        reserve=reserve,
        transfer=transfer,
        schedule=schedule,
        training=Training(
            attention=attention or "fused",
            sequence_parallel=sequence_parallel,
            optimizer_sharding=optimizer_sharding,
            gradient_dtype=gradient_dtype,
        ),
    )
    restrictions = Restrictions(
        recompute=recompute,
        no_data_parallel=no_data_parallel,
        no_tensor_parallel=no_tensor_parallel,
        max_data_parallel=max_data_parallel,
        max_tensor_parallel=max_tensor_parallel,
        data_parallel=data_parallel,
        tensor_parallel=tensor_parallel,
        stages=stages,
        max_stages=max_stages,
        pins=pins,
        together=together,
        apart=apart,
    )
    effort = Effort(threads=threads, time_limit=time_limit, memory_limit=memory_limit, gap=gap, progress=progress)
    options = cuts(microbatch_size, global_batch, microbatches)
    running = effort.started()
    subject = subject_of(model, setting)
    setting = with_profile(setting, subject, profile)

    def solve(cut: Cut) -> tuple[Plan, Problem]:
        posed = problem(recut(subject, cut), replace(setting, microbatches=cut.count), restrictions)
        return search(posed, running), posed

    found, chosen = best_cut(options, solve)
    return compared(found, chosen, running) if compare else found


def compared(found: Plan, problem: Problem, running: RunningEffort) -> Plan:
    """The plan with its baselines; without them where a limit or Ctrl-C comes first."""
    if found.status == "interrupted":
        return found
    try:
        return replace(found, baselines=baselines(problem, found.time_per_sample, running))
    except LimitError:
        text = "the time limit was reached before simpler planners were through, so there is no comparison"
        return replace(found, warnings=(*found.warnings, text))
    except KeyboardInterrupt:
        return replace(found, status="interrupted")
