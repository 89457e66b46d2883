"""A configuration as training programs such as Megatron-LM take it: the same degrees for the whole model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from piper.costs.layer import Variant
from piper.costs.training import Attention, GradientType, Training
from piper.errors import InputError

FixedSchedule = Literal["gpipe", "1f1b", "interleaved"]
ScheduleChoice = Literal["gpipe", "1f1b", "interleaved", "auto"]
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Degrees, batch, schedule and memory options of a training run.

    Raises:
        InputError: a number is not positive, or a choice is none.
    """

    tensor_parallel: int = 1
    pipeline: int = 1
    """Stages of the pipeline."""
    data_parallel: int | None = None
    """Replicas; None: as many as the cluster has room for."""
    microbatch_size: int | Literal["auto"] = 1
    """Samples in a microbatch; ``"auto"``: the power of two up to 16 that is predicted to be best."""
    global_batch: int | None = None
    """Samples in a batch; None: 8 microbatches for each device."""
    recompute: Variant = "none"
    """What the repeated blocks of the model compute again in the backward pass."""
    schedule: ScheduleChoice = "auto"
    """``"auto"``: 1F1B or interleaved, whichever is predicted to be better."""
    virtual_stages: int | None = None
    """Parts of the model on each device, for the interleaved schedule; None: 1, or the best."""
    sequence_parallel: bool = False
    attention: Attention = "fused"
    optimizer_sharding: bool = False
    gradient_dtype: GradientType | None = None
    overlap_data_parallel: bool = False
    """Whether gradients are summed over replicas while the last microbatch's backward pass goes on."""

    def __post_init__(self) -> None:
        for name in ("tensor_parallel", "pipeline", "data_parallel", "global_batch", "virtual_stages"):
            _check_count(name, getattr(self, name))
        if self.microbatch_size != "auto":
            _check_count("microbatch_size", self.microbatch_size)
        for name, choices in (("recompute", get_args(Variant)), ("schedule", get_args(ScheduleChoice))):
            value = getattr(self, name)
            if value not in choices:
                raise InputError(f"{name} is {value!r}; expected {', '.join(choices[:-1])} or {choices[-1]}")
        if self.schedule in ("gpipe", "1f1b") and (self.virtual_stages or 1) > 1:
            raise InputError(
                f"virtual_stages is {self.virtual_stages}, but the schedule is {self.schedule}; expected interleaved"
            )
        _ = self.training

    @property
    def training(self) -> Training:
        """What costs of single layers depend on."""
        return Training(
            attention=self.attention,
            sequence_parallel=self.sequence_parallel,
            optimizer_sharding=self.optimizer_sharding,
            gradient_dtype=self.gradient_dtype,
        )


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A configuration with nothing left open."""

    tensor_parallel: int
    pipeline: int
    data_parallel: int
    microbatch_size: int
    microbatches: int
    """In a batch, for each replica."""
    schedule: FixedSchedule
    virtual_stages: int

    @property
    def devices(self) -> int:
        """Devices in use."""
        return self.tensor_parallel * self.pipeline * self.data_parallel

    @property
    def global_batch(self) -> int:
        """Samples in a batch."""
        return self.microbatch_size * self.microbatches * self.data_parallel


def _check_count(name: str, value: object) -> None:
    if value is None and name not in ("tensor_parallel", "pipeline", "microbatch_size"):
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InputError(f"{name} is {value!r}; expected a whole number from 1 to {LARGEST}")
