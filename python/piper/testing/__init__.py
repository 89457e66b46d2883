"""Random inputs, for the tests of Piper and of whatever is built on it.

`RandomSource` draws from a seeded generator: the same seed gives the same instance, which suits stress tests and
benchmarks. `piper.testing.strategies` offers the same instances as Hypothesis strategies, which shrink; only that
module needs Hypothesis (``pip install 'piper-dnn[test]'``).
"""

from piper.testing.generate import random_limits, random_plan, random_workload
from piper.testing.graphs import SHAPES, random_edges
from piper.testing.large import large_workload
from piper.testing.permute import permuted, permuted_limits
from piper.testing.placement import random_parts, random_placement_workload, random_rules, renumbered
from piper.testing.source import RandomSource, Source

__all__ = [
    "SHAPES",
    "RandomSource",
    "Source",
    "large_workload",
    "permuted",
    "permuted_limits",
    "random_edges",
    "random_limits",
    "random_parts",
    "random_placement_workload",
    "random_plan",
    "random_rules",
    "random_workload",
    "renumbered",
]
