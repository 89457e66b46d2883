"""Elementwise operators that run as one kernel.

A graph that was exported operator by operator writes a norm as a power, a mean, a root and two products. Kernels of
training programs and compilers do not: they read the input once and write the result once. The rule here is that of
loop fusion (Chen et al., "TVM", 2018, section 3): an operator without matrix products becomes part of the kernel that
reads its result, if only this one does. What then stays in memory is what enters and what leaves the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from piper.model import Model, ModelLayer, Operator

_RULES = frozenset({"elementwise", "normalisation", "reduction", "bias, dropout and addition"})
_MOVES = frozenset({"Concat", "Expand", "Slice", "Split", "Transpose"})
"""Movements that are nothing but another order of reading."""


def _fusible(operator: Operator) -> bool:
    return not operator.flops and (operator.rule in _RULES or operator.op_type in _MOVES)


def _view(operator: Operator) -> bool:
    return not (operator.flops or operator.input_bytes or operator.output_bytes)


@dataclass(slots=True)
class _Kernel:
    members: list[int]
    """Positions of its operators, the one that writes the result last."""
    reads: dict[int, int] = field(default_factory=dict)
    """Bytes read by the operator that made them."""


class Fusion:
    """The graph of a model's operators, for the layers of which kernels are sought."""

    def __init__(self, model: Model, alone: Collection[int] = ()) -> None:
        """Look through views once for all layers; operators `alone` stay kernels of their own."""
        self._model = model
        self._alone = frozenset(alone)
        self._sources: dict[int, dict[int, int]] = {}
        self._readers: dict[int, list[int]] = {}
        origin: dict[int, int] = {}
        for edge in sorted(model.operator_edges, key=lambda edge: (edge.target, edge.source)):
            source = origin.get(edge.source, edge.source)
            if _view(model.operators[edge.target]):
                origin.setdefault(edge.target, source)
                continue
            self._sources.setdefault(edge.target, {})[source] = edge.bytes
            self._readers.setdefault(source, []).append(edge.target)

    def operators(self, layer: ModelLayer) -> list[tuple[int, Operator]]:
        """The operators of a layer, those of a kernel as one, each with the position of the one it ends with."""
        kernels = self._kernels(layer.operators)
        return [(position, self._merged(kernels[position])) for position in layer.operators if position in kernels]

    def kernels(self, layer: ModelLayer) -> list[tuple[int, ...]]:
        """The operators of each kernel of a layer, as positions in the model."""
        return [tuple(kernel.members) for kernel in self._kernels(layer.operators).values()]

    def _kernels(self, positions: Sequence[int]) -> dict[int, _Kernel]:
        """Kernels by the operator that they end with."""
        home: dict[int, int] = {}
        kernels: dict[int, _Kernel] = {}
        for position in reversed(positions):
            end = self._joins(position, home)
            home[position] = end
            if end == position:
                kernels[end] = _Kernel([])
            kernels[end].members.insert(0, position)
        for kernel in kernels.values():
            kernel.reads = self._reads(kernel.members)
        return kernels

    def _joins(self, position: int, home: dict[int, int]) -> int:
        """The kernel that an operator becomes part of; its own where there is none."""
        operators = self._model.operators
        operator = operators[position]
        ends = {home.get(reader, -1) for reader in self._readers.get(position, ())}
        if position in self._alone or not _fusible(operator) or len(ends) != 1:
            return position
        (end,) = ends
        if end < 0 or end in self._alone or not _fusible(operators[end]):
            return position
        last = operators[end]
        alike = (operator.partition, operator.selective, operator.trainable)
        return end if alike == (last.partition, last.selective, last.trainable) else position

    def _reads(self, members: Sequence[int]) -> dict[int, int]:
        """Bytes that come from outside, each tensor once; inputs of the network under the reader's own position."""
        inside = set(members)
        reads: dict[int, int] = {}
        for position in members:
            size = self._model.operators[position].input_bytes
            sources = self._sources.get(position, {})
            for source, made in sources.items():
                if source not in inside:
                    reads[source] = max(reads.get(source, 0), min(made, size))
            rest = size - sum(sources.values())
            if rest > 0:
                reads[position] = rest
        return reads

    def _merged(self, kernel: _Kernel) -> Operator:
        operators = [self._model.operators[position] for position in kernel.members]
        last = operators[-1]
        if len(operators) == 1:
            return last
        return replace(
            last,
            rule="fused",
            input_bytes=sum(kernel.reads.values()),
            weights=tuple(dict.fromkeys(weight for operator in operators for weight in operator.weights)),
            saved_bytes=sum(operator.saved_bytes for operator in operators),
            saved_bytes_unfused=sum(operator.saved_bytes_unfused for operator in operators),
            divides=gcd(*(operator.divides for operator in operators)),
        )
