"""Which activations training keeps for the backward pass.

Every operator's derivative needs some of its inputs or outputs. Exporters split what runs as one kernel (a
normalisation, GELU) into many operators; a tensor that elementwise operators can rebuild from tensors that are kept
anyway is not kept, unless a matrix multiplication needs it. The scores of attention are counted apart: fused
attention (Dao et al., FlashAttention, 2022) keeps none of them. Compare Korthikanti et al., "Reducing Activation
Recomputation in Large Transformer Models", section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from piper.onnx.graph import FLOATS, Kind, Step, Value, count
from piper.onnx.rules import flops, rule_of, weights

_NEED_NOTHING_NAMES = (
    "Add Sub Neg Sum Mean Concat Slice Split Transpose Expand Cast Pad ReduceMean ReduceSum AveragePool "
    "GlobalAveragePool Gather GatherND GatherElements DequantizeLinear QuantizeLinear Resize Upsample Tile IsNaN "
    "IsInf Equal Less Greater LessOrEqual GreaterOrEqual And Or Not Xor DepthToSpace SpaceToDepth Squeeze "
    "Unsqueeze Reshape Range OneHot Floor Ceil Round Sign ArgMax ArgMin Shape"
)
_NEED_OUTPUT_NAMES = "Softmax LogSoftmax Sigmoid Tanh Relu Sqrt Reciprocal Exp HardSigmoid Clip Elu LeakyRelu"
_NEED_NOTHING = frozenset(_NEED_NOTHING_NAMES.split())
"""Operators whose derivative is the same for every input, or that have none."""
_NEED_OUTPUT = frozenset(_NEED_OUTPUT_NAMES.split())
"""Operators whose derivative follows from the output."""
_CHEAP = frozenset({"elementwise", "normalisation"})
"""Rules of operators that are repeated rather than kept for others like them."""
_SAME_CONTENT = frozenset({"Transpose", "Expand", "Cast", "Neg"})
_REACH = 16
"""How many operators lie between a softmax and the products around it, at most."""


@dataclass(slots=True)
class Saved:
    """Bytes kept because of each step, by position."""

    plain: dict[int, int] = field(default_factory=dict)
    unfused: dict[int, int] = field(default_factory=dict)
    selective: set[int] = field(default_factory=set)


def saved_activations(steps: Sequence[Step], side: set[int]) -> Saved:
    """What each of `steps` keeps; each tensor is counted once.

    Args:
        steps: in execution order.
        side: positions of steps that no parameter reaches, such as masks: nothing is kept for them.
    """
    return _Account(steps, side).settle()


class _Account:
    def __init__(self, steps: Sequence[Step], side: set[int]) -> None:
        self._steps = steps
        self._side = side
        self._maker = {value: place for place, step in enumerate(steps) for value in step.outputs}
        self._readers: dict[Value, list[int]] = {}
        for place, step in enumerate(steps):
            for value in step.live_inputs:
                self._readers.setdefault(value, []).append(place)
        self._origin = self._origins()
        self._cores, self._scores = self._attention_cores()

    def settle(self) -> Saved:
        """Decide for every needed tensor whether it is kept, and on whose account."""
        saved = Saved()
        firm, soft = self._needs()
        saved.unfused = dict(self._cores)
        available = set(firm)
        for value, place in firm.items():
            saved.plain[place] = saved.plain.get(place, 0) + value.bytes
        for value, place in soft.items():
            if value in firm or self._rebuilt(value, available):
                continue
            available.add(value)
            saved.plain[place] = saved.plain.get(place, 0) + value.bytes
        saved.selective = set(self._score_steps)
        return saved

    def _needs(self) -> tuple[dict[Value, int], dict[Value, int]]:
        """Origins that are needed by something that is not cheap, and by cheap operators only, with who pays."""
        firm: dict[Value, int] = {}
        soft: dict[Value, int] = {}
        for place, step in enumerate(self._steps):
            if step.kind is not Kind.LIVE or place in self._side:
                continue
            rule = rule_of(step)
            target = soft if rule is not None and rule.name in _CHEAP else firm
            for value in self._needed(step):
                origin = self._origin.get(value, value)
                if not self._counts(origin):
                    continue
                target.setdefault(origin, self._operand_payer(place, value) if place in self._score_steps else place)
        return firm, dict(sorted(soft.items(), key=lambda item: self._maker.get(item[0], -1)))

    def _operand_payer(self, place: int, value: Value) -> int:
        """Who pays for an operand of attention: selective recomputation drops the scores, not the operands.

        It is a step that tensor parallelism divides as it divides the operand: the one that brought it into heads, or
        the next product with weights where a projection goes straight into a fused operator.
        """
        maker = self._maker.get(value, place)
        if maker not in self._score_steps and not flops(self._steps[maker]):
            return maker
        following = range(place + 1, len(self._steps))
        return next((p for p in following if flops(self._steps[p]) and weights(self._steps[p])), maker)

    def _needed(self, step: Step) -> tuple[Value, ...]:
        op = step.node.op_type
        if op in _NEED_NOTHING:
            return ()
        if op == "Where":
            condition = step.input(0)
            return () if condition is None or condition.constant else (condition,)
        if op in _NEED_OUTPUT:
            return step.outputs[:1]
        if (
            op == "Mul"
            and len(step.live_inputs) == 1
            and len(step.inputs) == 2
            and step.inputs[0] is not step.inputs[1]
        ):
            return step.live_inputs if weights(step) else ()
        if op == "Div" and (divisor := step.input(1)) is not None and divisor.constant:
            return step.live_inputs if weights(step) else ()
        return step.live_inputs

    def _counts(self, value: Value) -> bool:
        """Whether a value is an activation worth keeping: made by a step that parameters reach, and no score."""
        if value.constant or value in self._scores or (value.dtype not in FLOATS and value.dtype != "bool"):
            return False
        maker = self._maker.get(value)
        return value.is_input if maker is None else maker not in self._side

    def _rebuilt(self, value: Value, available: set[Value], seen: dict[Value, bool] | None = None) -> bool:
        """Whether a few cheap operators make `value` from what is kept."""
        seen = {} if seen is None else seen
        if value in available or value.constant:
            return True
        if value not in seen:
            seen[value] = False  # what is beyond reach counts as not rebuilt
            seen[value] = len(seen) <= 2 * _REACH and self._made_cheaply(value, available, seen)
        return seen[value]

    def _made_cheaply(self, value: Value, available: set[Value], seen: dict[Value, bool]) -> bool:
        maker = self._maker.get(value)
        if maker is None or maker in self._side:
            return True
        step = self._steps[maker]
        rule = rule_of(step)
        if rule is None:
            return False
        cheap = rule.name in _CHEAP or rule.name == "view" or step.node.op_type in ("ReduceMean", "Slice", "Expand")
        sources = (self._origin.get(source, source) for source in step.live_inputs)
        return cheap and all(self._rebuilt(source, available, seen) for source in sources)

    def _origins(self) -> dict[Value, Value]:
        """Values that are another value in another layout, type or scale, by that value."""
        origin: dict[Value, Value] = {}
        for step in self._steps:
            live = step.live_inputs
            if len(live) != 1 or len(step.outputs) < 1 or step.kind is Kind.CONSTANT:
                continue
            if step.kind is Kind.VIEW or step.node.op_type in _SAME_CONTENT or _scales(step):
                origin[step.outputs[0]] = origin.get(live[0], live[0])
        return origin

    def _attention_cores(self) -> tuple[dict[int, int], set[Value]]:
        """Bytes of score matrices by softmax, and all values between the two products of attention."""
        bytes_: dict[int, int] = {}
        scores: set[Value] = set()
        self._score_steps: set[int] = set()
        for place, step in enumerate(self._steps):
            if step.kind is not Kind.LIVE:
                continue
            rule = rule_of(step)
            if rule is not None and rule.name == "attention":
                self._score_steps.add(place)
                bytes_[place] = _fused_scores(step)
                continue
            if step.node.op_type != "Softmax" or not step.live_inputs:
                continue
            before = self._walk(step.live_inputs[0], forward=False)
            after = self._walk(step.outputs[0], forward=True)
            if before is None or after is None:
                continue
            self._score_steps |= {place, *before[0], *after[0]}
            scores |= {step.outputs[0], *before[1], *after[1]}
            bytes_[place] = step.outputs[0].bytes
        return bytes_, scores

    def _walk(self, start: Value, *, forward: bool) -> tuple[list[int], list[Value]] | None:
        """Steps and score values from a softmax to the product of two activations before or after it."""
        places: list[int] = []
        values = [start]
        todo = [start]
        found = False
        while todo and len(places) < _REACH:
            value = todo.pop()
            maker = self._maker.get(value)
            for place in self._readers.get(value, []) if forward else [] if maker is None else [maker]:
                step = self._steps[place]
                if place in places or place in self._side or step.kind is Kind.CONSTANT:
                    continue
                places.append(place)
                if step.node.op_type in ("MatMul", "Einsum") and len(step.live_inputs) == 2 and not weights(step):
                    found = True
                    continue
                if flops(step) or step.node.op_type == "Softmax":
                    return None
                following = step.outputs if forward else step.live_inputs
                next_values = [v for v in following if count(v.shape) == count(start.shape) and v not in values]
                values += next_values
                todo += next_values
        return (places, values) if found else None


def _fused_scores(step: Step) -> int:
    """Bytes of the score matrices that a fused attention operator never writes, were they written."""
    heads = max(1, step.node.integer("num_heads", step.node.integer("q_num_heads", 1)))
    products, out = flops(step), step.outputs[0]
    weight = step.input(1)
    if weight is not None and weight.constant:  # the projections are part of the operator
        products -= 2 * count(step.live_inputs[0].shape) * weight.shape[-1]
    width = out.shape[-1] if len(out.shape) == 3 else out.shape[-1] * heads
    return products * heads * out.bytes // max(1, 4 * count(out.shape) * width)


def _scales(step: Step) -> bool:
    """Whether `step` multiplies by a constant number."""
    if step.node.op_type not in ("Mul", "Div") or len(step.inputs) != 2 or step.node.domain:
        return False
    constants = [value for value in step.inputs if value is not None and value.constant]
    return len(constants) == 1 and count(constants[0].shape) == 1
