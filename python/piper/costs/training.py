"""How training is done, as far as costs depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from piper.errors import InputError

Attention = Literal["fused", "unfused"]
GradientType = Literal["float16", "bfloat16", "float32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Choices that hold for a whole model.

    Raises:
        InputError: one is none of its choices.
    """

    attention: Attention = "fused"
    """Fused attention keeps no score matrices and moves them nowhere (Dao et al., "FlashAttention", 2022)."""
    sequence_parallel: bool = False
    """Whether the devices of a tensor-parallel group share the tokens of what the degree does not divide: norms,
    dropouts and additions (Korthikanti et al., 2022, section 4.2.2)."""
    optimizer_sharding: bool = False
    """Whether data-parallel replicas share the optimizer's state (Rajbhandari et al., "ZeRO", 2020, stage 1)."""
    gradient_dtype: GradientType | None = None
    """Type in which gradients of weights are kept and exchanged; None: that of the weights."""

    def __post_init__(self) -> None:
        if self.attention not in get_args(Attention):
            raise InputError(f"attention is {self.attention!r}; expected 'fused' or 'unfused'")
        if self.gradient_dtype is not None and self.gradient_dtype not in get_args(GradientType):
            raise InputError(
                f"gradient_dtype is {self.gradient_dtype!r}; expected {', '.join(get_args(GradientType))}"
            )
