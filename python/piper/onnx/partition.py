"""Tensor parallelism found in the operators of a layer (Shoeybi et al., Megatron-LM, 2019, section 3).

A product with a weight may be split by output columns; what is made of its result is then divided along an axis, and
the division is followed through the layer: reshaped into heads, transposed, through the products of attention,
elementwise, until a second product with a weight consumes it by rows and its sum over devices is whole again. A
product whose result cannot be followed that far stays replicated. No name and no pattern of a particular model is
looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from piper.model import Partition
from piper.onnx.divide import Shard, Shards, follow_rule
from piper.onnx.graph import Kind, Step, Value
from piper.onnx.rules import rule_of, weights

MAX_DEGREE = 64
VOCABULARY_MULTIPLE = 128
"""Vocabularies are padded to a multiple of this before they are split, as Megatron-LM does."""
MAX_FOLLOWED = 400_000
"""Operators looked at for one layer, all attempts together; what is not settled by then stays whole."""
MIN_VOCABULARY = 1024
"""Fewer rows or columns than this are no vocabulary."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What tensor parallelism does to one step."""

    partition: Partition = Partition.REPLICATED
    divides: int = 1


class _ConflictError(Exception):
    """The division of `origins` cannot be followed."""

    def __init__(self, origins: frozenset[int]) -> None:
        super().__init__()
        self.origins = origins


def partition_layer(
    steps: Sequence[Step], places: Sequence[int], leaving: set[Value], outputs: set[Value]
) -> dict[int, Placement]:
    """Placements of the steps of one layer by position; those that are missing are replicated.

    Args:
        steps: all steps.
        places: those of the layer, in order.
        leaving: values that other layers read.
        outputs: results of the network.
    """
    follower = _Follower(steps, places, leaving, outputs)
    outer: dict[int, int] = {}
    for _ in range(min(4 * len(places) + 4, MAX_FOLLOWED // max(1, len(places)) + 8)):
        try:
            return follower.follow(outer)
        except _ConflictError as conflict:
            for origin in conflict.origins:
                outer[origin] = follower.next_try(origin, outer.get(origin, 1))
    return {}


def partition_layers(
    steps: Sequence[Step], layers: Sequence[Sequence[int]], outputs: set[Value]
) -> dict[int, Placement]:
    """Placements of the steps of all layers by position; those that are missing are replicated.

    What one layer sends to another is whole on every device.

    Args:
        steps: all steps.
        layers: positions of the steps of each layer, in order.
        outputs: results of the network.
    """
    layer_of = {place: layer for layer, places in enumerate(layers) for place in places}
    maker = {value: place for place, step in enumerate(steps) for value in step.outputs}
    leaving: list[set[Value]] = [set() for _ in layers]
    for place, layer in layer_of.items():
        for value in steps[place].live_inputs:
            source = layer_of.get(maker.get(value, -1))
            if source is not None and source != layer:
                leaving[source].add(value)
    result: dict[int, Placement] = {}
    for layer, places in enumerate(layers):
        result |= partition_layer(steps, places, leaving[layer], outputs)
    return result


def degrees(placements: Sequence[Placement]) -> tuple[int, ...]:
    """Powers of two that divide whatever the operators of a layer divide."""
    common = 0
    for placement in placements:
        if placement.partition is not Partition.REPLICATED:
            common = gcd(common, placement.divides)
    result = []
    degree = 1
    while degree <= MAX_DEGREE and common % degree == 0:
        result.append(degree)
        degree *= 2
    return tuple(result)


class _Follower:
    def __init__(
        self, steps: Sequence[Step], places: Sequence[int], leaving: set[Value], outputs: set[Value]
    ) -> None:
        self._steps = steps
        self._places = places
        self._leaving = leaving
        self._outputs = outputs
        self._experts = {steps[place].outputs[0]: place for place in places if _is_expert_lookup(steps[place])}
        self._scores = self._vocabulary_scores()

    def _vocabulary_scores(self) -> set[Value]:
        """Values that become results of the network by elementwise operators only."""
        scores = set(self._outputs)
        for place in reversed(self._places):
            step = self._steps[place]
            rule = rule_of(step)
            if rule is not None and rule.name in ("elementwise", "view") and scores.intersection(step.outputs):
                scores.update(step.live_inputs)
        return scores

    def next_try(self, origin: int, outer: int) -> int:
        """Another reading of a column-parallel product, 0 for none."""
        columns = self._steps[origin].outputs[0].shape[-1] if self._steps[origin].outputs[0].shape else 1
        choices = [1, *(parts for parts in (3, 2) if columns % parts == 0), 0]
        return choices[choices.index(outer) + 1] if outer in choices[:-1] else 0

    def follow(self, outer: Mapping[int, int]) -> dict[int, Placement]:
        """Follow all divisions once; `outer` is how each product is read, 0 where it stays whole."""
        shards: Shards = {}
        result: dict[int, Placement] = {}
        for place in self._places:
            step = self._steps[place]
            if step.kind is Kind.CONSTANT:
                continue
            placement = self._step(place, step, shards, outer, result)
            if placement.partition is not Partition.REPLICATED:
                result[place] = placement
        for value, shard in shards.items():
            if value in self._leaving or (value in self._outputs and not self._may_leave(value, shard)):
                raise _ConflictError(shard.origins)
        return result

    def _may_leave(self, value: Value, shard: Shard) -> bool:
        """Whether a result of the network may stay divided: scores of a vocabulary, or a key-value cache."""
        last = shard.axis == len(value.shape) - 1
        return (last and value.shape[-1] >= MIN_VOCABULARY) or (not last and len(value.shape) == 4)

    def _step(
        self, place: int, step: Step, shards: Shards, outer: Mapping[int, int], result: dict[int, Placement]
    ) -> Placement:
        if _is_embedding(step):
            rows = step.inputs[0].shape[0] if step.inputs[0] is not None else 1
            return Placement(Partition.VOCABULARY, _padded(rows))
        if step.kind is Kind.LIVE and _is_projection(step):
            return self._projection(place, step, shards, outer)
        expert = self._expert(step)
        if expert is not None:
            return self._expert_product(place, step, shards, outer, result, expert)
        return _followed(step, shards)

    def _projection(self, place: int, step: Step, shards: Shards, outer: Mapping[int, int]) -> Placement:
        """A product with a weight: column-parallel on whole inputs, row-parallel on divided ones."""
        source, out = step.inputs[0], step.outputs[0]
        shard = shards.get(source) if source is not None else None
        if shard is not None and source is not None:
            if shard.axis != len(source.shape) - 1 or step.node.op_type == "Attention":
                raise _ConflictError(shard.origins)
            return Placement(Partition.ROW, shard.divides)
        parts = outer.get(place, 1)
        if parts == 0 or not out.shape:
            return Placement()
        columns = out.shape[-1] // parts
        if step.node.op_type == "Attention":
            columns = max(1, step.node.integer("num_heads", 1))
        elif out in self._scores and columns >= MIN_VOCABULARY:
            columns = _padded(columns)
        shards[out] = Shard(len(out.shape) - 1, columns, frozenset({place}), parts)
        return Placement(Partition.COLUMN, columns)

    def _expert(self, step: Step) -> tuple[Value, Value] | None:
        """The weights of chosen experts and what they are applied to."""
        if step.kind is not Kind.LIVE or step.node.op_type != "MatMul" or len(step.live_inputs) != 2:
            return None
        left, right = step.live_inputs
        return (left, right) if left in self._experts and len(right.shape) == len(left.shape) else None

    def _expert_product(
        self,
        place: int,
        step: Step,
        shards: Shards,
        outer: Mapping[int, int],
        result: dict[int, Placement],
        operands: tuple[Value, Value],
    ) -> Placement:
        """As a projection, the weights being looked up for each token: ``[tokens, out, in] x [tokens, in, 1]``."""
        weight, source = operands
        axis = len(weight.shape) - 2
        shard = shards.get(source)
        if shard is not None:
            if shard.axis != axis:
                raise _ConflictError(shard.origins)
            result[self._experts[weight]] = Placement(Partition.EXPERT, shard.divides)
            return Placement(Partition.ROW, shard.divides)
        if outer.get(place, 1) == 0:
            return Placement()
        rows = weight.shape[axis]
        shards[step.outputs[0]] = Shard(axis, rows, frozenset({place}))
        result[self._experts[weight]] = Placement(Partition.EXPERT, rows)
        return Placement(Partition.COLUMN, rows)


def _padded(rows: int) -> int:
    return -(-rows // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


def _is_embedding(step: Step) -> bool:
    table, indices = step.input(0), step.input(1)
    if step.node.op_type != "Gather" or step.kind is not Kind.LIVE or table is None or indices is None:
        return False
    rows = table.weights and len(table.shape) == 2 and table.shape[0] >= MIN_VOCABULARY
    return bool(rows) and not indices.constant and step.node.integer("axis") == 0


def _is_expert_lookup(step: Step) -> bool:
    """Whether `step` picks matrices of experts for each token."""
    table, indices = step.input(0), step.input(1)
    lookup = step.kind is Kind.LIVE and step.node.op_type in ("Gather", "GatherND") and table is not None
    return bool(
        lookup and table is not None and table.weights and len(table.shape) == 3 and indices and not indices.constant
    )


def _is_projection(step: Step) -> bool:
    """Whether `step` multiplies an activation by a matrix of parameters."""
    source, weight = step.input(0), step.input(3 if step.node.op_type == "QLinearMatMul" else 1)
    if source is None or weight is None or source.constant or not weight.constant or not weights(step):
        return False
    match step.node.op_type:
        case "MatMul" | "QLinearMatMul" | "MatMulInteger" | "DynamicQuantizeMatMul" | "MatMulIntegerToFloat":
            return len(weight.shape) == 2 and len(source.shape) > 1
        case "FusedMatMul":
            return len(weight.shape) == 2 and not step.node.integer("transA") and not step.node.integer("transBatchA")
        case "Gemm" | "FusedGemm":
            return not step.node.integer("transA")
        case "MatMulNBits" | "MatMulBnb4" | "MatMulFpQ4":
            return True
        case "Attention":
            return step.node.domain == "com.microsoft"
    return False


def _followed(step: Step, shards: Shards) -> Placement:
    """Pass divisions of inputs on to outputs by the rule of the operator."""
    divided = [value for value in step.live_inputs if value in shards]
    if not divided:
        return Placement()
    origins = frozenset().union(*(shards[value].origins for value in divided))
    rule = follow_rule(step)
    if rule is None or step.body:
        raise _ConflictError(origins)
    try:
        outputs = rule(step, shards)
    except (IndexError, ValueError, ZeroDivisionError, TypeError):
        outputs = None
    if outputs is None:
        raise _ConflictError(origins)
    divides = 0
    for value, shard in zip(step.outputs, outputs, strict=False):
        if shard is not None:
            shards[value] = replace(shard, origins=origins)
            divides = gcd(divides, shard.divides)
    return Placement(Partition.SHARDED, divides)
