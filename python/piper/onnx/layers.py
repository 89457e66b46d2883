"""From steps to layers: segments between boundaries, repeated blocks as one layer each, small change swept together.

Layers are consecutive ranges of operators in execution order, so the graph of layers is acyclic whatever the model
is. Masks, position tables and the like, which are computed from the inputs without any parameter, belong to the first
layer that uses them and cost nothing to send: every stage has the inputs and makes its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median_high

from piper.onnx.blocks import repeated_runs
from piper.onnx.contract import contracted
from piper.onnx.graph import Kind, Step, Value
from piper.onnx.rules import flops, weights
from piper.onnx.segments import Work, segments

MAX_DOWNSETS = 5_000
"""Layers are merged until their graph has no more downsets than this."""
MAX_LAYERS = 1_000
"""Layers are merged until there are no more than this."""
SMALL = 0.05
"""A segment is small if its work is less than this part of the median segment's, its weights of the largest's."""


@dataclass(slots=True)
class Group:
    """A layer in the making."""

    steps: list[int]
    """Positions of steps, increasing."""
    kind: Hashable = None
    """Structure of the repeated block that it is one of."""
    repeats: int = 1
    work: int = 0
    weight_bytes: int = 0


@dataclass(slots=True)
class Layering:
    """Layers and what passes between them."""

    groups: list[Group]
    side: set[int]
    """Steps that no parameter and no product reaches."""
    edges: dict[tuple[int, int], int] = field(default_factory=dict)
    """Bytes by source and target layer."""
    input_bytes: list[int] = field(default_factory=list)


class _Flow:
    """Who makes and who reads what, views looked through."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.maker: dict[Value, int] = {}
        self._base: dict[Value, Value] = {}
        for place, step in enumerate(steps):
            for value in step.outputs:
                self.maker[value] = place
            if step.kind is Kind.VIEW and step.live_inputs:
                for value, source in zip(step.outputs, _sources(step), strict=True):
                    self._base[value] = self._base.get(source, source)
        self.live = [place for place, step in enumerate(steps) if step.kind is Kind.LIVE]
        self.side = self._side_steps()
        self.main = [place for place in self.live if place not in self.side]
        if not self.main:
            self.main, self.side = self.live, set()

    def base(self, value: Value) -> Value:
        """The value whose bytes `value` is a view of."""
        return self._base.get(value, value)

    def sources(self, place: int) -> tuple[Value, ...]:
        """Distinct values that a step reads, views looked through."""
        return tuple(dict.fromkeys(self.base(value) for value in self.steps[place].live_inputs))

    def _side_steps(self) -> set[int]:
        side: set[int] = set()
        for place in self.live:
            step = self.steps[place]
            if flops(step) or weights(step):
                continue
            if all(value.is_input or self.maker.get(value) in side for value in self.sources(place)):
                side.add(place)
        return side


def _sources(step: Step) -> tuple[Value, ...]:
    """The input that each output of a view is a view of."""
    live = step.live_inputs
    if step.node.op_type == "If":
        return tuple(value if value is not None else live[0] for value in step.inputs)
    return (live[0],) * len(step.outputs)


def make_layers(steps: Sequence[Step], *, merged: bool) -> Layering:
    """Group `steps` into layers; constants belong to none.

    Args:
        steps: in execution order.
        merged: whether neighbours are joined until the graph is small enough to be planned in seconds.
    """
    flow = _Flow(steps)
    if not flow.main:
        return _without_main(steps)
    groups = _blocks(flow, segments(_work(flow)))
    while merged and _too_fine(flow, groups):
        groups = _coarser(groups)
    return _layering(flow, groups)


def make_operator_layers(steps: Sequence[Step], together: Iterable[Sequence[int]]) -> Layering:
    """Make each step that is no view and no side step a layer, in an order that refines that of execution.

    Args:
        steps: in execution order.
        together: positions of steps that share a layer.
    """
    flow = _Flow(steps)
    if not flow.main:
        return _without_main(steps)
    number = {place: index for index, place in enumerate(flow.main)}
    single = [Group([place]) for place in flow.main]
    bound = ([number[place] for place in places if place in number] for places in _bridged(flow, together))
    chosen = contracted(len(single), _between(flow, single), bound)
    return _layering(flow, [_group(flow, [flow.main[index] for index in members]) for members in chosen])


def _bridged(flow: _Flow, together: Iterable[Sequence[int]]) -> Iterator[Sequence[int]]:
    """`together` with the steps whose results a view shows added to it."""
    for places in together:
        makers = (
            flow.maker.get(value, -1)
            for place in places
            if flow.steps[place].kind is Kind.VIEW
            for value in flow.sources(place)
        )
        yield tuple(dict.fromkeys((*places, *makers)))


def _without_main(steps: Sequence[Step]) -> Layering:
    rest = [place for place, step in enumerate(steps) if step.kind is not Kind.CONSTANT]
    return Layering([Group(rest)] if rest else [], set(), {}, [0] if rest else [])


def _too_fine(flow: _Flow, groups: Sequence[Group]) -> bool:
    return len(groups) > MAX_LAYERS or downsets(len(groups), _between(flow, groups), MAX_DOWNSETS) > MAX_DOWNSETS


def _layering(flow: _Flow, groups: list[Group]) -> Layering:
    """What passes between `groups`, and views and side steps given to them."""
    layering = Layering(groups, flow.side)
    layering.edges = _between(flow, groups)
    layering.input_bytes = _entering(flow, groups)
    _adopt(flow, groups)
    return layering


def _work(flow: _Flow) -> list[Work]:
    numbers: dict[Value, int] = {}
    main = set(flow.main)
    result = []
    for place in flow.main:
        step = flow.steps[place]
        reads = tuple(
            numbers.setdefault(value, len(numbers))
            for value in flow.sources(place)
            if value.is_input or flow.maker.get(value, -1) in main
        )
        makes = tuple(numbers.setdefault(value, len(numbers)) for value in step.outputs if value.name)
        amount = flops(step)
        result.append(Work(reads, makes, amount, bool(amount and weights(step))))
    return result


def _blocks(flow: _Flow, ranges: list[tuple[int, int]]) -> list[Group]:
    """One group per instance of a repeated block, and the segments between them with small ones merged."""
    parts = [_group(flow, flow.main[low:high]) for low, high in ranges]
    kinds = [_outline(flow, part) for part in parts]
    heads = [_head(flow, part) for part in parts]
    groups: list[Group] = []
    free = 0
    usual = _median([part.work for part in parts]), max(part.weight_bytes for part in parts)
    for run in repeated_runs(kinds, [part.work for part in parts], heads):
        groups += _swept(parts[free : run.start], usual)
        for begin in range(run.start, run.end, run.period):
            groups.append(_joined(parts[begin : begin + run.period]))
        free = run.end
    groups += _swept(parts[free:], usual)
    _find_equals(flow, groups)
    return groups


def _find_equals(flow: _Flow, groups: list[Group]) -> None:
    """Recognise equal layers, wherever they are."""
    equals: dict[Hashable, list[Group]] = {}
    for group in groups:
        if group.work:
            equals.setdefault(_structure(flow, group), []).append(group)
    for kind, members in equals.items():
        for group in members if len(members) > 1 else []:
            group.kind, group.repeats = kind, len(members)


def _group(flow: _Flow, places: list[int]) -> Group:
    chosen = [flow.steps[place] for place in places]
    parameters = {weight.name: weight.bytes for step in chosen for weight in weights(step)}
    return Group(list(places), work=sum(map(flops, chosen)), weight_bytes=sum(parameters.values()))


def _outline(flow: _Flow, group: Group) -> Hashable:
    """What segments of the same role share: the products with weights in them, or all operators where there is none.

    The first layer of a stack often differs from the others in a mask or a position bias that it makes for all of
    them.
    """
    if not group.work:
        return _structure(flow, group)
    chosen = (flow.steps[place] for place in group.steps)
    return tuple(
        (step.node.op_type, flops(step), tuple(weight.shape for weight in weights(step)))
        for step in chosen
        if flops(step)
    )


def _head(flow: _Flow, group: Group) -> int:
    """How well a block begins with `group`: attention comes first, an activation never."""
    attention = any("Attention" in (op := flow.steps[place].node.op_type) or op == "Softmax" for place in group.steps)
    return 2 if attention and group.work else 1 if group.work else 0


def _structure(flow: _Flow, group: Group) -> Hashable:
    """What two segments share that do the same with different weights."""
    rows = []
    for place in group.steps:
        step = flow.steps[place]
        shapes = tuple(value.shape for value in step.outputs)
        parameters = tuple(weight.shape for weight in weights(step))
        rows.append((step.node.domain, step.node.op_type, shapes, parameters, len(flow.sources(place))))
    return tuple(rows)


def _joined(parts: Sequence[Group]) -> Group:
    """Consecutive groups as one."""
    return Group(
        [place for part in parts for place in part.steps],
        work=sum(part.work for part in parts),
        weight_bytes=sum(part.weight_bytes for part in parts),
    )


def _median(amounts: Sequence[int]) -> int:
    """Median of those that are not 0."""
    return median_high([amount for amount in amounts if amount] or [0])


def _swept(parts: Sequence[Group], usual: tuple[int, int]) -> list[Group]:
    """Join each small part to the next one that is not, the last ones to the one before."""
    result: list[Group] = []
    waiting: list[Group] = []
    for part in parts:
        waiting.append(part)
        if part.work > SMALL * usual[0] or part.weight_bytes > SMALL * usual[1]:
            result.append(_joined(waiting))
            waiting = []
    if waiting and result:
        result[-1] = _joined([result[-1], *waiting])
    elif waiting:
        result.append(_joined(waiting))
    return result


def _coarser(groups: list[Group]) -> list[Group]:
    """Join the least pairs of neighbours, about a tenth of them."""
    pairs = sorted(range(len(groups) - 1), key=lambda place: (groups[place].work + groups[place + 1].work, place))
    chosen: set[int] = set()
    for place in pairs:
        if len(chosen) * 10 >= len(groups):
            break
        if place not in chosen and place - 1 not in chosen and place + 1 not in chosen:
            chosen.add(place)
    result: list[Group] = []
    place = 0
    while place < len(groups):
        width = 2 if place in chosen else 1
        result.append(_joined(groups[place : place + width]) if width == 2 else groups[place])
        place += width
    return result


def _layer_of(groups: Sequence[Group]) -> dict[int, int]:
    return {place: layer for layer, group in enumerate(groups) for place in group.steps}


def _between(flow: _Flow, groups: Sequence[Group]) -> dict[tuple[int, int], int]:
    """Bytes of the distinct tensors that each layer sends to each other one."""
    layer_of = _layer_of(groups)
    crossing: dict[tuple[int, int], dict[Value, None]] = {}
    for place in flow.main:
        for value in flow.sources(place):
            source = layer_of.get(flow.maker.get(value, -1))
            if source is not None and source != layer_of[place]:
                crossing.setdefault((source, layer_of[place]), {})[value] = None
    return {pair: sum(value.bytes for value in values) for pair, values in sorted(crossing.items())}


def _entering(flow: _Flow, groups: Sequence[Group]) -> list[int]:
    """Bytes of the distinct tensors that each layer takes from others or from the inputs."""
    layer_of = _layer_of(groups)
    result = []
    for layer, group in enumerate(groups):
        values = dict.fromkeys(value for place in group.steps for value in flow.sources(place))
        outside = (
            value for value in values if value.is_input or layer_of.get(flow.maker.get(value, -1), layer) != layer
        )
        result.append(sum(value.bytes for value in outside))
    return result


def _adopt(flow: _Flow, groups: list[Group]) -> None:
    """Give views and side steps to the first layer that uses them."""
    layer_of = _layer_of(groups)
    wanted: dict[Value, int] = {}
    for place in reversed(range(len(flow.steps))):
        step = flow.steps[place]
        if step.kind is Kind.CONSTANT:
            continue
        if place not in layer_of:
            users = [wanted[value] for value in step.outputs if value in wanted]
            makers = [layer_of.get(flow.maker.get(value, -1), 0) for value in flow.sources(place)]
            layer_of[place] = min(users) if users else max(makers, default=0)
            groups[layer_of[place]].steps.append(place)
        for value in step.live_inputs:
            wanted[value] = min(wanted.get(value, layer_of[place]), layer_of[place])
    for group in groups:
        group.steps.sort()


def downsets(count: int, edges: Sequence[tuple[int, int]] | dict[tuple[int, int], int], limit: int) -> int:
    """Number of downsets of an acyclic graph on ``0..count-1``, counted up to just over `limit`.

    Complexity: ``O(limit * count)`` time, ``O(limit)`` sets in memory.
    """
    needs = [0] * count
    for source, target in edges:
        needs[target] |= 1 << source
    seen = {0}
    todo = [0]
    while todo and len(seen) <= limit:
        current = todo.pop()
        for layer in range(count):
            if not current >> layer & 1 and needs[layer] & current == needs[layer]:
                bigger = current | 1 << layer
                if bigger not in seen:
                    seen.add(bigger)
                    todo.append(bigger)
    return len(seen)
