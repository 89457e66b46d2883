"""Memory of parameters in training with Adam (Rajbhandari et al., "ZeRO", 2020, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from piper.model import DTYPE_BITS, Tensor


@dataclass(frozen=True, slots=True)
class ParameterBytes:
    """Bytes of parameters on one device."""

    weight: float = 0.0
    gradient: float = 0.0
    optimizer: float = 0.0
    trained: float = 0.0
    """Number of elements that are trained."""

    def __add__(self, other: ParameterBytes) -> ParameterBytes:
        return ParameterBytes(
            self.weight + other.weight,
            self.gradient + other.gradient,
            self.optimizer + other.optimizer,
            self.trained + other.trained,
        )


def parameter_bytes(
    weight: Tensor, part: float, *, trainable: bool = True, gradient_dtype: str | None = None
) -> ParameterBytes:
    """Bytes of a share of a weight.

    Types of up to 16 bit train in mixed precision: a gradient of 16 bit, and a copy of the weight, momentum and
    variance of 32 bit, 2 + 2 + 12 bytes. Wider ones have a gradient of their own type and momentum and variance, 4 +
    4 + 8 bytes in 32 bit. Integers and weights that are not trained have neither. `gradient_dtype` replaces the type
    of the gradient, as with the 32-bit sums of Megatron-LM, 2 + 4 + 12 bytes.
    """
    stored = weight.bytes * part
    if not trainable or not weight.dtype.startswith(("float", "bfloat", "complex")):
        return ParameterBytes(weight=stored)
    count = weight.elements * part
    width = max(DTYPE_BITS[weight.dtype] // 8, 2)
    gradient = width if gradient_dtype is None else DTYPE_BITS[gradient_dtype] // 8
    return ParameterBytes(stored, gradient * count, (12 if width == 2 else 2 * width) * count, count)
