"""Operators that stay in one layer even at the finest granularity, since a cut between them makes no sense.

* The operators of one kernel: elementwise operators that are fused, and the core of attention. A stage boundary
  between them would undo the fusion, and the sum of their costs would not be that of the layer they come from.
* The operators between a column-parallel product and the row-parallel one that sums its result up again. The tensors
  between them are divided over the tensor-parallel group; a cut there would have to gather them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from piper.costs.fusion import Fusion
from piper.model import Model, Operator, Partition

_MAKES_DIVIDED = frozenset({Partition.COLUMN, Partition.SHARDED, Partition.EXPERT})
_READS_DIVIDED = frozenset({Partition.SHARDED, Partition.ROW})


def bound_together(model: Model, *, regions: bool = True) -> Iterator[Sequence[int]]:
    """Positions of operators that share a layer, in sets that may overlap; each within one layer of `model`.

    Args:
        model: made of blocks.
        regions: whether tensors that tensor parallelism divides stay in a layer; without, operators of such a region
            are layers by themselves, which allow no degree to divide them.
    """
    fusion = Fusion(model)
    for layer in model.layers:
        yield from (kernel for kernel in fusion.kernels(layer) if len(kernel) > 1)
        yield from _attention_cores([(place, model.operators[place]) for place in layer.operators])
    if regions:
        yield from _divided_tensors(model)


def _attention_cores(operators: Sequence[tuple[int, Operator]]) -> Iterator[list[int]]:
    """The operators that fused attention runs as one kernel; only another product ends it."""
    core: list[int] = []
    for place, operator in operators:
        if operator.selective:
            core.append(place)
        elif operator.flops and core:
            yield core
            core = []
    if core:
        yield core


def _divided_tensors(model: Model) -> Iterator[tuple[int, int]]:
    """Maker and reader of each tensor that tensor parallelism divides."""
    layer_of = {place: number for number, layer in enumerate(model.layers) for place in layer.operators}
    for edge in model.operator_edges:
        source, target = model.operators[edge.source].partition, model.operators[edge.target].partition
        looked_up = source is Partition.EXPERT
        if layer_of.get(edge.source) == layer_of.get(edge.target) and (
            looked_up or (source in _MAKES_DIVIDED and target in _READS_DIVIDED)
        ):
            yield edge.source, edge.target
