"""The alternatives of one layer at one tensor-parallel degree: no, selective and full recomputation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from piper.costs.collectives import Link, all_reduce
from piper.costs.devices import Device
from piper.costs.kernels import (
    Attention,
    backward_kernels,
    backward_sums,
    forward_kernels,
    forward_sums,
    recomputed_kernels,
)
from piper.costs.parameters import ParameterBytes
from piper.costs.roofline import Kernel, kernel_seconds
from piper.costs.sharding import Share
from piper.workload import Tmpc

VANILLA = "vanilla"
SELECTIVE = "selective recomp"
FULL = "full recomp"


@dataclass(frozen=True, slots=True)
class Machine:
    """What the time of a layer depends on beside the layer."""

    device: Device
    attention: Attention
    optimizer_sharding: bool

    @property
    def link(self) -> Link:
        """The links of a tensor-parallel group, which is always inside one node."""
        return Link(self.device.link_bandwidth * self.device.family.link_efficiency, self.device.link_latency)


def tmpcs(
    shares: Sequence[Share], degree: int, parameters: ParameterBytes, input_bytes: float, machine: Machine
) -> tuple[Tmpc, ...]:
    """All alternatives, without synchronisation entries; recomputation only where it saves memory.

    Args:
        shares: what one device has of each operator, in order of execution.
        degree: devices of the tensor-parallel group.
        parameters: bytes of the layer's parameters on one device.
        input_bytes: activations that enter the layer, whole on every device: all that full recomputation keeps.
        machine: the device and how training is done.
    """
    forward = _seconds(forward_kernels(shares, machine.attention), forward_sums(shares), degree, machine)
    backward = _seconds(backward_kernels(shares, machine.attention), backward_sums(shares), degree, machine)
    again = _seconds(recomputed_kernels(shares, machine.attention), [], degree, machine)
    kept = _saved(shares, machine.attention)
    rest = _saved([item for item in shares if not item.operator.selective], machine.attention)
    result = [_tmpc(VANILLA, forward + backward, kept, 0.0, parameters, machine)]
    if rest < kept:
        result.append(_tmpc(SELECTIVE, forward + backward + again, rest, kept - rest, parameters, machine))
    if input_bytes < kept:
        result.append(_tmpc(FULL, forward + backward + forward, input_bytes, kept - input_bytes, parameters, machine))
    return tuple(result)


def _tmpc(
    name: str, time: float, kept: float, recomputed: float, parameters: ParameterBytes, machine: Machine
) -> Tmpc:
    """One alternative.

    Recomputed activations are there for one microbatch at a time, so that they count once, as in the workloads of the
    Piper paper.
    """
    fixed = parameters.weight + parameters.gradient + recomputed
    sharded = machine.optimizer_sharding
    return Tmpc(
        id=name,
        time=time,
        weight_bytes=parameters.gradient,
        memory_per_microbatch=kept,
        memory_fixed=fixed if sharded else fixed + parameters.optimizer,
        memory_sharded=parameters.optimizer if sharded else 0.0,
        sync_forward=(),
        sync_backward=(),
    )


def _seconds(kernels: Iterable[Kernel], sums: Iterable[float], degree: int, machine: Machine) -> float:
    compute = sum(kernel_seconds(kernel, machine.device) for kernel in kernels)
    return compute + sum(all_reduce(size, degree, machine.link) for size in sums)


def _saved(shares: Iterable[Share], attention: Attention) -> float:
    """Activations that are kept for the backward pass."""
    unfused = attention == "unfused"
    return sum(item.saved_bytes + (item.saved_bytes_unfused if unfused else 0.0) for item in shares)
