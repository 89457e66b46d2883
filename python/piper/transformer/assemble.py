"""Whole networks: layers, edges and degrees around the operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from piper.model import Model, ModelEdge, ModelLayer, Operator, Partition, Tensor

MAX_DEGREE = 64
"""Largest tensor-parallel degree that layers offer; a group lies in one node."""
VOCABULARY_MULTIPLE = 128
"""Megatron-LM pads vocabularies to a multiple of this, so that they can be divided."""


def padded_vocabulary(size: int) -> int:
    """What a degree must divide to divide a vocabulary."""
    return -(-size // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


def degrees(operators: Iterable[Operator]) -> tuple[int, ...]:
    """Tensor-parallel degrees that divide whatever the operators divide."""
    common = 0
    for operator in operators:
        if operator.partition is not Partition.REPLICATED:
            common = gcd(common, operator.divides)
    return tuple(degree for degree in range(1, MAX_DEGREE + 1) if (common or 1) % degree == 0)


class Assembly:
    """Collects the layers of a network in the order in which they run."""

    def __init__(self) -> None:
        self._operators: list[Operator] = []
        self._layers: list[ModelLayer] = []
        self._edges: list[ModelEdge] = []

    def layer(
        self,
        name: str,
        operators: Sequence[Operator],
        reads: Sequence[tuple[int, int]] = (),
        *,
        input_bytes: int,
        block: str | None = None,
    ) -> int:
        """Append a layer.

        Args:
            name: its name.
            operators: in order of execution.
            reads: ``(layer, bytes)`` for each layer whose output it reads.
            input_bytes: what full recomputation keeps.
            block: name of the block that it repeats.

        Returns:
            Its position.
        """
        number = len(self._layers)
        first = len(self._operators)
        self._operators += operators
        positions = tuple(range(first, first + len(operators)))
        self._layers.append(ModelLayer(name, positions, block, degrees(operators), input_bytes))
        self._edges += [ModelEdge(source, number, size) for source, size in reads]
        return number

    def model(
        self,
        name: str,
        *,
        dtype: str,
        batch: int,
        inputs: Sequence[Tensor],
        tokens: int | None,
        assumptions: Sequence[str] = (),
    ) -> Model:
        """The network."""
        return Model(
            name=name,
            operators=tuple(self._operators),
            layers=tuple(self._layers),
            edges=tuple(self._edges),
            inputs=tuple(inputs),
            dtype=dtype,
            batch=batch,
            tokens=tokens,
            assumptions=tuple(assumptions),
        )
