"""Time of single operators, for inspection."""

from __future__ import annotations

from piper.costs.devices import Device
from piper.costs.kernels import forward_kernels
from piper.costs.roofline import kernel_seconds
from piper.costs.sharding import share
from piper.model import Model


def operator_seconds(model: Model, device: Device) -> tuple[float, ...]:
    """Seconds of the forward pass of each operator of a model, run by itself on one device."""
    return tuple(
        kernel_seconds(kernel, device)
        for operator in model.operators
        for kernel in forward_kernels([share(operator, 1)], "unfused")
    )
