"""`piper.frontier`: the best plan's time for every number of devices."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from piper import _core
from piper.costs.training import Attention, GradientType, Training
from piper.errors import InputError, LimitError, PiperError
from piper.planning.effort import Effort, ProgressCallback, RunningEffort
from piper.planning.explain import infeasible
from piper.planning.limits import LayerRef, Restrictions
from piper.planning.measured import with_profile
from piper.planning.microbatch import cuts, recut
from piper.planning.problem import Problem, Setting, problem
from piper.planning.result import PROOF_GAP, Status
from piper.planning.search import Interrupted
from piper.planning.subject import Subject, subject_of
from piper.workload import Recompute, Schedule, Transfer

if TYPE_CHECKING:
    from rich.console import Group

    from piper.costs.cluster import Cluster


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A number of devices at which the best time improves, and that time."""

    devices: int
    time_per_sample: float
    """Time per microbatch, as for `Plan`."""
    lower_bound: float
    """Proven: no plan on so many devices has a smaller `time_per_sample`."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """The best time for every number of devices up to that of the problem."""

    name: str
    points: tuple[FrontierPoint, ...]
    """Increasing in devices, decreasing in time. Between two points the first one's time is the best."""
    solve_seconds: float
    time_unit: Literal["s"] | None = None
    status: Status = "done"
    """Why the search ended; ``done``: it went through. Else the smallest numbers of devices may be missing."""

    @property
    def optimal(self) -> bool:
        """Whether every point is proven optimal, to a gap of 1e-9."""
        return all(p.time_per_sample <= p.lower_bound * (1 + PROOF_GAP) for p in self.points)

    def to_json(self) -> dict[str, Any]:
        """The key ``frontier`` with ``devices`` and ``timePerSample`` of each point."""
        from piper.encode import frontier_document

        return frontier_document(self)

    def __rich__(self) -> Group:
        from piper.report.frontier import frontier_table

        return frontier_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)


def frontier(
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
    progress: ProgressCallback | None = None,
) -> Frontier:
    """The best time per sample for every number of devices up to that of the cluster, from one search.

    Args:
        model: what `piper.load` returns, or what it takes.
        cluster: as for `piper.plan`, like all that follow.
        devices: the largest number of devices.
        memory: bytes of one device.
        bandwidth: bytes per unit of the workload's time from each device to other stages.
        microbatches: microbatches in a batch, the same for every number of devices.
        microbatch_size: samples in a microbatch. Models only.
        global_batch: samples in a batch; with `microbatch_size` or `microbatches`, of which it gives the other.
        schedule: ``"async"``, ``"gpipe"`` or ``"1f1b"``.
        recompute: ``"auto"``, ``"never"`` or ``"always"``.
        no_data_parallel: every stage has one replica.
        no_tensor_parallel: every replica has one device.
        max_data_parallel: most replicas of a stage.
        max_tensor_parallel: most devices of a replica.
        data_parallel: replicas of every stage.
        tensor_parallel: devices of every replica.
        stages: number of stages.
        max_stages: most stages.
        pins: layer to the stage that it must be in, counted from 0.
        together: groups of layers; those of a group share a stage.
        apart: groups of layers; no two of a group share a stage.
        reserve: bytes of each device that no plan may use.
        transfer: ``"edge"`` or ``"tensor"``.
        attention: ``"fused"`` (the default) keeps no score matrices, ``"unfused"`` does. For models
            only, like all that follow up to `profile`.
        sequence_parallel: share the tokens of norms, dropouts and additions out over tensor-parallel groups.
        optimizer_sharding: share the optimizer's state out over data-parallel replicas (ZeRO stage 1).
        gradient_dtype: type in which gradients are kept and exchanged. Default: that of the weights.
        profile: file of measured times of operators: ONNX Runtime's, PyTorch's Chrome trace, or a CSV table.
        threads: threads of the search.
        time_limit: seconds after which the search ends.
        memory_limit: bytes that the search may take. Default: half of what is free.
        progress: called about ten times a second with the best value and the bound.

    Returns:
        The points at which the best time improves. The search goes down from the largest number of devices: when a
        limit or Ctrl-C ends it, the points found so far are returned; see `Frontier.status`.

    Raises:
        InputError: an argument cannot be used.
        InfeasibleError: there is no plan for any number of devices.
        LimitError: a limit was reached before there was any plan.
        KeyboardInterrupt: Ctrl-C came before there was any plan.
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
    effort = Effort(threads=threads, time_limit=time_limit, memory_limit=memory_limit, progress=progress)
    running = effort.started()
    subject = subject_of(model, setting)
    setting = with_profile(setting, subject, profile)
    posed = problem(recut(subject, options[0]), setting, restrictions)
    return _search(posed, running)


def _search(posed: Problem, running: RunningEffort) -> Frontier:
    started = time.perf_counter()
    points, stopped = _core.frontier(
        posed.workload,
        posed.limits,
        posed.schedule,
        threads=running.effort.threads,
        time_limit=running.seconds_left(),
        memory_limit=running.effort.memory_limit,
        progress=running.effort.progress,
    )
    seconds = time.perf_counter() - started
    if not points:
        raise _without_points(posed, running, stopped)
    found = tuple(FrontierPoint(devices, value, min(bound, value)) for devices, value, bound in points)
    whole = Frontier(posed.workload.name, found, seconds, posed.workload.time_unit, stopped or "done")
    # A search that went through without a proof was one over what fits into the memory.
    return whole if stopped or whole.optimal else replace(whole, status="memory limit")


def _without_points(posed: Problem, running: RunningEffort, stopped: str | None) -> PiperError | Interrupted:
    if stopped == "interrupted":
        return Interrupted("interrupted before any plan was found")
    if stopped is not None:
        return LimitError(f"the {stopped} was reached before any plan was found")
    return infeasible(posed, running)
