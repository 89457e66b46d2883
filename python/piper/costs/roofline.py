"""Time of a kernel on a device (Williams, Waterman and Patterson, "Roofline", 2009).

A kernel takes the longer of its arithmetic and its memory traffic, plus its launch. Arithmetic of ``f`` FLOPs runs at
the rate ``peak * e * f / (f + h)``: `e`, the share that very large products reach, is less than 1 since the clock
falls under load and tiles do not fit exactly; ``h = ramp * peak * e`` is the size at which half of that is reached,
since a product must fill the device with tiles and drain it again. Both are constants of the device's family, for
every operator of every model, so that arithmetic takes ``f / (peak * e) + ramp`` seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from piper.costs.devices import Device


@dataclass(frozen=True, slots=True)
class Kernel:
    """What one launch does on one device."""

    flops: float
    bytes: float
    """Read from and written to memory."""
    dtype: str
    """Type of the arithmetic."""


def matmul_rate(device: Device, dtype: str, flops: float) -> float:
    """FLOP/s that a product of so many FLOPs reaches."""
    top = device.peak(dtype) * device.family.matmul_efficiency
    return top * flops / (flops + device.family.ramp * top)


def kernel_seconds(kernel: Kernel, device: Device) -> float:
    """Seconds of one launch; nothing for a kernel that does nothing, such as a view."""
    if kernel.flops == 0 and kernel.bytes == 0:
        return 0.0
    arithmetic = kernel.flops / matmul_rate(device, kernel.dtype, kernel.flops) if kernel.flops else 0.0
    traffic = kernel.bytes / (device.memory_bandwidth * device.family.memory_efficiency)
    return max(arithmetic, traffic) + device.family.launch
