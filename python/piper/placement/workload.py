"""The numbers that a placement needs: operators with their times, transfers, and the devices.

A workload is what is left of a model and its devices once every cost is known. The solvers and the judge see nothing
else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

LoadRule = Literal["sequential", "overlap", "duplex"]
TrainingObjective = Literal["sum", "split"]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator (or layer)."""

    id: int
    """Number of the operator in the file or model it came from; results use it."""
    name: str
    cpu: float
    """Time on a CPU."""
    accelerators: tuple[float | None, ...]
    """Time on an accelerator of each class; None where it is not supported."""
    size: float = 0.0
    """Bytes that it takes on an accelerator."""
    transfer: float = 0.0
    """Time to move its output between an accelerator and host memory."""
    sync: float = 0.0
    """Time to synchronise its weights among replicas."""
    backward: bool = False
    """Whether it belongs to the backward pass."""
    color: int | None = None
    """Nodes of one colour class are on one device. Classes are numbered from 0."""


@dataclass(frozen=True, slots=True)
class AcceleratorClass:
    """Accelerators that are alike."""

    name: str
    count: int
    memory_bytes: float
    """Of each."""


@dataclass(frozen=True, slots=True)
class PlacementWorkload:
    """A device-placement problem without the user's choices."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    """Source and target, positions in `nodes`."""
    classes: tuple[AcceleratorClass, ...]
    """Classes of accelerators; one in the published workloads."""
    cpus: int
    time_unit: Literal["s"] | None = None
    """Unit of all times; None where a published file does not say."""
    warnings: tuple[str, ...] = ()

    @property
    def accelerators(self) -> int:
        """Number of accelerators of all classes."""
        return sum(row.count for row in self.classes)

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass."""
        return any(node.backward for node in self.nodes)

    def with_memory(self, memory_bytes: float) -> PlacementWorkload:
        """The same with other memory on each accelerator."""
        return replace(self, classes=tuple(replace(row, memory_bytes=memory_bytes) for row in self.classes))


@dataclass(frozen=True, slots=True)
class Rules:
    """The variant of the problem."""

    load: LoadRule = "sequential"
    """How an accelerator's compute and transfers add up: their sum, the larger of both, or the largest of compute,
    transfers in and transfers out."""
    training_objective: TrainingObjective = "sum"
    """The largest load of both passes together, or the largest forward plus the largest backward load."""
    contiguous: bool = True
    """Whether devices must be consecutive in some order: no edge of the forward graph runs back."""
    max_replicas: int = 1
    """Most accelerators of one class that may hold the same part and share its load."""


@dataclass(frozen=True, slots=True)
class Part:
    """The nodes of one device, or of one set of replicas, as the solvers return them and the judge takes them."""

    accelerator_class: int | None
    """Position in `PlacementWorkload.classes`; None for a CPU."""
    replicas: int
    nodes: tuple[int, ...]
    """Positions in `PlacementWorkload.nodes`."""
