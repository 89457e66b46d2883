"""What a layer costs on the devices of one tensor-parallel group, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from piper.costs.collectives import Link, all_reduce
from piper.costs.devices import Device
from piper.costs.kernels import (
    backward_kernels,
    backward_sums,
    forward_kernels,
    forward_sums,
    recomputed_kernels,
)
from piper.costs.measurement import Measured, measured_seconds
from piper.costs.parameters import ParameterBytes
from piper.costs.roofline import Kernel, kernel_seconds
from piper.costs.sharding import Share
from piper.costs.training import Attention, Training

Variant = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What the time of a layer depends on beside the layer."""

    device: Device
    training: Training

    @property
    def link(self) -> Link:
        """The links of a tensor-parallel group, which is always inside one node."""
        return Link(self.device.link_bandwidth * self.device.family.link_efficiency, self.device.link_latency)


@dataclass(frozen=True, slots=True)
class LayerCost:
    """Seconds and bytes of one microbatch on each device of a group."""

    forward: float
    backward: float
    """Without recomputation."""
    attention_again: float
    """What selective recomputation adds to the backward pass."""
    kept: float
    """Activations that stay for the backward pass without recomputation."""
    kept_selective: float
    """The same when the core of attention is computed again."""
    kept_full: float
    """The same when everything is computed again: the layer's input, whole on every device."""
    parameters: ParameterBytes
    flops: float
    """Of the forward pass, on one device."""
    attention_flops: float
    """The part of it that selective recomputation repeats."""

    def variants(self) -> tuple[Variant, ...]:
        """Recomputation, where it saves memory."""
        names: list[Variant] = ["none"]
        if self.kept_selective < self.kept:
            names.append("selective")
        if self.kept_full < self.kept:
            names.append("full")
        return tuple(names)

    def recomputation(self, variant: Variant) -> float:
        """Seconds that a variant adds to the backward pass."""
        return {"none": 0.0, "selective": self.attention_again, "full": self.forward}[variant]

    def repeated_flops(self, variant: Variant) -> float:
        """FLOPs that a variant adds."""
        return {"none": 0.0, "selective": self.attention_flops, "full": self.flops}[variant]

    def in_flight(self, variant: Variant) -> float:
        """Bytes for each microbatch in flight."""
        return {"none": self.kept, "selective": self.kept_selective, "full": self.kept_full}[variant]

    def transient(self, variant: Variant) -> float:
        """Bytes that are there while one microbatch is recomputed."""
        return self.kept - self.in_flight(variant)

    def best_variant(self, wanted: Variant) -> Variant:
        """The variant that is wanted, or none where it saves nothing."""
        return wanted if wanted in self.variants() else "none"


def layer_cost(
    shares: Sequence[Share],
    degree: int,
    parameters: ParameterBytes,
    input_bytes: float,
    machine: Machine,
    measured: Sequence[Measured | None] | None = None,
) -> LayerCost:
    """Cost a layer.

    Args:
        shares: what one device has of each operator, in order of execution.
        degree: devices of the tensor-parallel group.
        parameters: bytes of the layer's parameters on one device.
        input_bytes: activations that enter the layer, whole on every device: all that full recomputation keeps.
        machine: the device and how training is done.
        measured: for each operator its times on one device, where they are known; they replace the model's.
    """
    attention = machine.training.attention
    known = measured or (None,) * len(shares)
    modelled = [item for item, times in zip(shares, known, strict=True) if times is None]
    forward, backward = measured_seconds(shares, known)
    forward += _seconds(forward_kernels(modelled, attention), forward_sums(shares), degree, machine)
    backward += _seconds(backward_kernels(modelled, attention), backward_sums(shares), degree, machine)
    core = [(item, times) for item, times in zip(shares, known, strict=True) if item.operator.selective]
    again, _ = measured_seconds([item for item, _ in core], [times for _, times in core])
    again += _seconds(recomputed_kernels(modelled, attention), (), degree, machine)
    return LayerCost(
        forward=forward,
        backward=backward,
        attention_again=again,
        kept=_saved(shares, attention),
        kept_selective=_saved([item for item in shares if not item.operator.selective], attention),
        kept_full=input_bytes,
        parameters=parameters,
        flops=sum(item.flops for item in shares),
        attention_flops=sum(item.flops for item in shares if item.operator.selective),
    )


def _seconds(kernels: Iterable[Kernel], sums: Iterable[float], degree: int, machine: Machine) -> float:
    compute = sum(kernel_seconds(kernel, machine.device) for kernel in kernels)
    return compute + sum(all_reduce(size, degree, machine.link) for size in sums)


def _saved(shares: Iterable[Share], attention: Attention) -> float:
    """Activations that are kept for the backward pass."""
    unfused = attention == "unfused"
    return sum(item.saved_bytes + (item.saved_bytes_unfused if unfused else 0.0) for item in shares)
