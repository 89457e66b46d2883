"""A pipeline plan as a user sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from piper.workload import Schedule

if TYPE_CHECKING:
    from rich.console import Group

Status = Literal["done", "gap", "interrupted", "time limit", "memory limit"]

PROOF_GAP = 1e-9
"""A plan counts as optimal up to this relative gap."""


def relative_gap(value: float, bound: float) -> float:
    """``value / bound - 1``, never below 0; infinite while there is no bound."""
    if value <= bound:
        return 0.0
    return value / bound - 1 if bound > 0 else math.inf


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """A layer that plans place: its number in results, its name, and the repeated block that it is an instance of."""

    id: int
    name: str
    block: str


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """One stage, as the judge scores it. Times are per microbatch in the unit of the plan, memory is per device."""

    layers: tuple[str, ...]
    """Names of the layers."""
    ids: tuple[int, ...]
    """Numbers of the layers, in the same order."""
    data_parallel_degree: int
    """Replicas of the stage."""
    tensor_parallel_degree: int
    """Devices of one replica."""
    tmpc_ids: Mapping[int, str]
    """Layer number to the name of the configuration that it runs in, such as ``vanilla`` or ``activation recomp``."""
    load: float
    """Time that the stage spends on a microbatch: `compute` + `transfer` + `resync`."""
    compute: float
    transfer: float
    """Activations and gradients exchanged with other stages."""
    resync: float
    """Gradients exchanged among replicas, shared out over the microbatches of a batch."""
    memory: float
    """Bytes used on each device."""
    in_flight: int
    """Microbatches whose activations are held at once."""

    @property
    def devices(self) -> int:
        """Devices that the stage occupies."""
        return self.data_parallel_degree * self.tensor_parallel_degree


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a simpler planner makes of the same problem."""

    name: str
    time_per_sample: float | None
    """None where it finds no plan."""
    ratio: float | None
    """Its time divided by the plan's; above 1 the plan is better."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline plan with its proof.

    A *sample* is a microbatch, as in the paper (Tarnawski, Narayanan and Phanishayee, "Piper", NeurIPS 2021, section
    3). Times are seconds where `time_unit` is ``"s"``, else in whatever unit the workload file has.
    """

    name: str
    """Name of the model or workload."""
    time_per_sample: float
    """Time per microbatch in the steady state: the load of the slowest stage; with a flush, the time of a batch
    divided by its microbatches."""
    lower_bound: float
    """Proven: no plan has a smaller `time_per_sample`."""
    status: Status
    """Why the search ended; ``done``: it went through."""
    devices_used: int
    solve_seconds: float
    """Wall-clock seconds of the search."""
    stages: tuple[PlannedStage, ...]
    """In pipeline order, the input's first."""
    layers: tuple[PlannedLayer, ...]
    """All layers of the problem."""
    devices: int
    """Devices that the plan could have used."""
    memory_bytes: float
    """Usable bytes of one device, any reserve taken off."""
    microbatches: int
    """Microbatches in a batch."""
    schedule: Schedule
    time_unit: Literal["s"] | None = None
    microbatch_size: int | None = None
    """Sequences or images in a microbatch, where known."""
    iteration_time: float | None = None
    """Seconds of one batch; None where the unit of time is not known."""
    tokens_per_second: float | None = None
    mfu: float | None = None
    """Model FLOPs utilisation of the devices used: FLOPs of the model (recomputation not counted) per second, divided
    by the peak rate (Chowdhery et al., "PaLM", 2022, appendix B)."""
    baselines: tuple[Baseline, ...] = ()
    """Simpler planners on the same problem, best first; empty unless asked for."""
    warnings: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """``time_per_sample / lower_bound - 1``, never below 0; infinite while there is no bound."""
        return relative_gap(self.time_per_sample, self.lower_bound)

    @property
    def optimal(self) -> bool:
        """Whether the plan is proven optimal, to a gap of 1e-9."""
        return self.gap <= PROOF_GAP

    def to_json(self) -> dict[str, Any]:
        """The plan in the keys of the published format and Piper's own, ready for `json.dumps`."""
        from piper.encode import plan_document

        return plan_document(self)

    def save(self, path: str | PathLike[str], force: bool = False) -> None:
        """Write the plan as JSON.

        Args:
            path: the file; `piper evaluate` and the published programs read it.
            force: whether an existing file may be overwritten.

        Raises:
            InputError: the file exists and `force` is not set, or it cannot be written.
        """
        from piper.output import write_json

        write_json(self.to_json(), path, force=force)

    def __rich__(self) -> Group:
        from piper.report.plan import plan_table

        return plan_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)
