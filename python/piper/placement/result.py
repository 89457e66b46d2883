"""Placements as a user sees them."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from piper.placement.workload import AcceleratorClass, LoadRule, Rules, TrainingObjective
from piper.planning.result import PROOF_GAP, Status, relative_gap

if TYPE_CHECKING:
    from rich.console import Group

Algorithm = Literal["auto", "dp", "dpl", "local-search", "pipedream", "partition", "single"]
ALGORITHMS: tuple[Algorithm, ...] = ("auto", "dp", "dpl", "local-search", "pipedream", "partition", "single")


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """An operator that splits place: its number in results and its name."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class PassLoad:
    """What a device spends on one pass, in the unit of the result; of replicas, the part as one."""

    compute: float
    read: float
    """Moving in what other devices made."""
    write: float
    """Moving out what other devices need."""
    sync: float
    """Synchronising the weights of replicas, before the factor ``(r - 1) / r``."""
    load: float
    """All of it by the load rule, shared out over the replicas."""


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """The nodes of one device, or of one set of replicas, as the judge scores them."""

    device: str
    """Class of accelerators, or ``cpu``."""
    on_cpu: bool
    replicas: int
    ids: tuple[int, ...]
    """Numbers of the nodes."""
    names: tuple[str, ...]
    """Their names, in the same order."""
    load: float
    """Of both passes."""
    forward: PassLoad
    backward: PassLoad
    memory: float
    """Bytes on each accelerator; 0 for a CPU."""

    @property
    def compute(self) -> float:
        """Time of the nodes in both passes."""
        return self.forward.compute + self.backward.compute

    @property
    def transfer(self) -> float:
        """Time of moving data in and out in both passes."""
        return self.forward.read + self.forward.write + self.backward.read + self.backward.write


@dataclass(frozen=True, slots=True)
class SplitViolation:
    """A rule that a split breaks."""

    rule: str
    where: str
    """Device and nodes, a long list cut."""
    nodes: tuple[int, ...]
    """Numbers of the nodes."""
    by: float
    """Bytes, devices or nodes, as the rule has it."""


@dataclass(frozen=True, slots=True)
class PlacementBaseline:
    """What a simpler placer makes of the same problem."""

    name: str
    max_load: float | None
    """None where it finds no split."""
    ratio: float | None
    """Its load divided by the placement's; above 1 the placement is better."""
    broken_rules: tuple[str, ...] = ()
    """Rules of the problem that its split breaks, such as ``contiguous`` or ``memory``."""


@dataclass(frozen=True, slots=True)
class PlacementSetup:
    """What a split was made for."""

    classes: tuple[AcceleratorClass, ...]
    cpus: int
    rules: Rules
    time_unit: Literal["s"] | None

    @property
    def load(self) -> LoadRule:
        """How compute and transfers of an accelerator add up."""
        return self.rules.load

    @property
    def training_objective(self) -> TrainingObjective:
        """How the passes of training add up."""
        return self.rules.training_objective


@dataclass(frozen=True, slots=True)
class Placement:
    """Operators on devices, with a proof.

    Times are seconds where `PlacementSetup.time_unit` is ``"s"``, else in whatever unit the workload file has.
    """

    name: str
    """Name of the model or workload."""
    max_load: float
    """Time per sample in the steady state: the load of the busiest device (for the split objective, the largest
    forward plus the largest backward load)."""
    lower_bound: float
    """Proven: no split (no contiguous one, if `contiguous`) has a smaller `max_load`."""
    status: Status
    """Why the search ended; ``done``: it went through."""
    algorithm: Algorithm
    contiguous: bool
    """Whether the devices can be ordered so that no edge of the forward graph runs back."""
    solve_seconds: float
    """Wall-clock seconds of the search."""
    parts: tuple[PlacedPart, ...]
    """In pipeline order if contiguous."""
    nodes: tuple[PlacedNode, ...]
    """All nodes of the problem."""
    setup: PlacementSetup
    baselines: tuple[PlacementBaseline, ...] = ()
    """Simpler placers on the same problem, best first; empty unless asked for."""
    warnings: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """``max_load / lower_bound - 1``, never below 0; infinite while there is no bound."""
        return relative_gap(self.max_load, self.lower_bound)

    @property
    def optimal(self) -> bool:
        """Whether the split is proven optimal, to a gap of 1e-9."""
        return self.gap <= PROOF_GAP

    def to_json(self) -> dict[str, Any]:
        """The split in the keys of the published format and Piper's own, ready for `json.dumps`."""
        from piper.placement.documents import placement_document

        return placement_document(self)

    def save(self, path: str | PathLike[str], force: bool = False) -> None:
        """Write the split as JSON.

        Args:
            path: the file; `piper evaluate` and the published programs read it.
            force: whether an existing file may be overwritten.

        Raises:
            InputError: the file exists and `force` is not set, or it cannot be written.
        """
        from piper.output import write_json

        write_json(self.to_json(), path, force=force)

    def __rich__(self) -> Group:
        from piper.report.placement import placement_table

        return placement_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)


@dataclass(frozen=True, slots=True)
class SplitEvaluation:
    """A split's score. The fields are those of `Placement`, without a proof."""

    name: str
    feasible: bool
    max_load: float
    """What it would be if the violated rules did not hold."""
    violations: tuple[SplitViolation, ...]
    parts: tuple[PlacedPart, ...]
    nodes: tuple[PlacedNode, ...]
    setup: PlacementSetup

    def to_json(self) -> dict[str, Any]:
        """The evaluation in the keys of splits, and ``violations``."""
        from piper.placement.documents import split_evaluation_document

        return split_evaluation_document(self)

    def __rich__(self) -> Group:
        from piper.report.placement import split_evaluation_table

        return split_evaluation_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)
