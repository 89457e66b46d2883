"""What a transformer is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from piper.model import DTYPE_BITS

Norm = Literal["layer", "rms"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention, with key and value heads that serve several query heads where there are fewer of them."""

    heads: int
    key_heads: int
    head_size: int
    input_bias: bool = False
    output_bias: bool = False
    rotary: bool = False
    head_norm: bool = False
    """Whether query and key heads are normalised."""
    dropout: bool = False
    """Of the attention probabilities."""

    @property
    def query_features(self) -> int:
        """Features of all query heads."""
        return self.heads * self.head_size

    @property
    def key_features(self) -> int:
        """Features of all key heads, and of all value heads."""
        return self.key_heads * self.head_size


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Two matrix products with an activation between, or three where the activation is gated."""

    size: int
    gated: bool = False
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture: each token goes through some of the feed-forward networks."""

    count: int
    active: int


@dataclass(frozen=True, slots=True)
class Block:
    """One layer of an encoder or decoder."""

    hidden: int
    attention: Attention
    feed_forward: FeedForward
    experts: Experts | None = None
    cross_attention: bool = False
    """Whether it also attends to the output of an encoder."""
    norm: Norm = "layer"
    dropout: bool = False
    """Of what attention and feed-forward network add to the stream."""


@dataclass(frozen=True, slots=True)
class Activations:
    """Dimensions that all activations of a stream share."""

    batch: int
    sequence: int
    dtype: str

    @property
    def tokens(self) -> int:
        """Tokens of one microbatch."""
        return self.batch * self.sequence

    @property
    def width(self) -> int:
        """Bytes of one element."""
        return DTYPE_BITS[self.dtype] // 8

    def bytes(self, features: int) -> int:
        """Bytes of so many features of every token."""
        return self.tokens * features * self.width

    def shape(self, features: int) -> tuple[int, int, int]:
        """Shape of such a tensor."""
        return self.batch, self.sequence, features
