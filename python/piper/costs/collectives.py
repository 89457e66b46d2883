"""All-reduce by latency and bandwidth.

The ring of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005, and
the two trees of Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
2009.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A level of the network as one device sees it."""

    bandwidth: float
    """Achieved bytes per second in one direction."""
    latency: float
    """Seconds of one step."""


def ring_all_reduce(size: float, group: int, link: Link) -> float:
    """Seconds: a reduce-scatter and an all-gather, each of ``group - 1`` steps with one share of the data."""
    steps = 2 * (group - 1)
    return steps * (size / group / link.bandwidth + link.latency)


def tree_all_reduce(size: float, group: int, link: Link) -> float:
    """Seconds: up and down two pipelined binary trees, each of which carries half of the data at full bandwidth."""
    depth = (group - 1).bit_length()
    return 2 * (size / link.bandwidth + depth * link.latency)


def all_reduce(size: float, group: int, link: Link) -> float:
    """Seconds to sum `size` bytes over `group` devices, by ring or tree, whichever is less; 0 for one device."""
    if group == 1 or size == 0:
        return 0.0
    return min(ring_all_reduce(size, group, link), tree_all_reduce(size, group, link))
