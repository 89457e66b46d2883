"""Transformers from a few sizes: the operators of each block with exact counts.

`architecture` says what a transformer is made of, `operators` counts single operators, `blocks` puts them in the
order in which they run, and `assemble` makes a `piper.model.Model` of a whole network.
"""

from piper.transformer.architecture import Attention, Block, Experts, FeedForward
from piper.transformer.assemble import Assembly

__all__ = ["Assembly", "Attention", "Block", "Experts", "FeedForward"]
