"""Where random choices come from: a seeded generator, or Hypothesis."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Source(ABC):
    """Makes choices. Low integers, False and first items are the simple ones, towards which a shrinker moves."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """Draw an integer from `low` to `high`, both included."""

    @abstractmethod
    def real(self, low: float, high: float) -> float:
        """Draw a finite number from `low` to `high`."""

    def chance(self, percent: int) -> bool:
        """Draw True in about `percent` of 100 cases."""
        return self.integer(0, 99) >= 100 - percent

    def choose(self, items: Sequence[T]) -> T:
        """Draw one of `items`, which must not be empty."""
        return items[self.integer(0, len(items) - 1)]

    def subset(self, items: Sequence[T], percent: int) -> list[T]:
        """Draw each of `items`, in their order, in about `percent` of 100 cases."""
        return [item for item in items if self.chance(percent)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Draw `count` different positions of `items` in any order."""
        return self.shuffled(items)[:count]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return all `items` in any order."""
        rest = list(items)
        return [rest.pop(self.integer(0, len(rest) - 1)) for _ in items]


class RandomSource(Source):
    """Choices of Python's generator: the same seed makes the same choices."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from `low` to `high`, all equally likely."""
        return self._random.randint(low, high)

    def real(self, low: float, high: float) -> float:
        """Draw a number from `low` to `high`, uniformly."""
        return self._random.uniform(low, high)
