"""Time of the optimizer's step.

Adam in mixed precision moves for each parameter, in bytes: the gradient is converted to 32 bit (2 + 4), checked for
overflow and unscaled (4 + 4), read for its norm (4), clipped (4 + 4); Adam reads gradient, weight, momentum and
variance and writes the last three (16 + 12); the weight is converted to 16 bit (4 + 2) and the gradient set to zero
(2): 62 in all, the steps of the optimizer of Megatron-LM (Shoeybi et al., 2019) as its code has them. A gradient that
is in 32 bit already is not converted (2 + 4 less) but is zeroed at full width (2 more).
"""

from __future__ import annotations

from piper.costs.devices import Device
from piper.costs.parameters import ParameterBytes

ADAM = 16 + 12
CLIPPING = 4 + 4 + 4
UNSCALING = 4 + 4
"""Bytes for each element of 32 bit."""
_MASTER = 12


def optimizer_seconds(parameters: ParameterBytes, device: Device, replicas: int = 1) -> float:
    """Seconds of one step over the parameters of one device; `replicas` share it where they share the state."""
    if not parameters.optimizer:
        return 0.0
    mixed = parameters.optimizer == _MASTER * parameters.trained
    moved = (ADAM + CLIPPING) * parameters.trained + parameters.gradient
    if mixed:
        moved += UNSCALING * parameters.trained + 4 * parameters.trained + parameters.weight
        if parameters.gradient < 4 * parameters.trained:
            moved += 4 * parameters.trained + parameters.gradient
    return moved / replicas / (device.memory_bandwidth * device.family.memory_efficiency)
