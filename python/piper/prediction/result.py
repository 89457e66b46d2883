"""What a configuration is predicted to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from piper.prediction.configuration import Arrangement, Configuration

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Bytes on each device of a stage."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    """Those in flight, and one layer's while it is recomputed."""
    reserve: float
    """Kept free for the runtime, fragmentation, and what no rule counts."""

    @property
    def total(self) -> float:
        """Sum of all."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.reserve


@dataclass(frozen=True, slots=True)
class PredictedStage:
    """One stage: seconds of a microbatch, and of a batch where it says so."""

    layers: tuple[str, ...]
    """Names of its layers, all virtual stages together."""
    forward: float
    backward: float
    """With what is recomputed."""
    transfer: float
    """Activations and gradients exchanged with its neighbours."""
    resync: float
    """Sum of gradients over replicas, for each batch."""
    optimizer: float
    """The optimizer's step, for each batch."""
    in_flight: float
    """Microbatches whose activations are held at once."""
    memory: StageMemory

    @property
    def load(self) -> float:
        """Seconds of a microbatch."""
        return self.forward + self.backward + self.transfer


@dataclass(frozen=True, slots=True)
class Prediction:
    """Times are seconds, sizes bytes."""

    name: str
    configuration: Configuration
    """As it was asked for."""
    arrangement: Arrangement
    """With everything that was left open."""
    iteration_time: float
    """Of one batch."""
    tflops_per_device: float
    """10^12 floating-point operations a second on each device, recomputed ones counted."""
    mfu: float
    """Model FLOPs utilisation, recomputation not counted (Chowdhery et al., "PaLM", 2022, appendix B)."""
    samples_per_second: float
    tokens_per_second: float | None
    bubble: float
    """Seconds of the iteration in which the slowest stage waits for the pipeline to fill and drain."""
    stages: tuple[PredictedStage, ...]
    memory_bytes: float
    """Of one device."""
    warnings: tuple[str, ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether every stage fits into the memory."""
        return self.peak_memory <= self.memory_bytes

    @property
    def peak_memory(self) -> float:
        """Bytes of the fullest device, the reserve included."""
        return max(stage.memory.total for stage in self.stages)

    def to_json(self) -> dict[str, Any]:
        """The result of ``piper evaluate`` without a plan, ready for `json.dumps`."""
        from piper.prediction.encode import prediction_document

        return prediction_document(self)

    def __rich__(self) -> Group:
        from piper.report.prediction import prediction_table

        return prediction_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)
