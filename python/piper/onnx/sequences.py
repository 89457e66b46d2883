"""Sequences of tensors: which value is at which place, so that they cost nothing where the places are known."""

from __future__ import annotations

from collections.abc import Callable

from piper.onnx.graph import Node, Value

MAX_ITEMS = 10_000
"""Values of one sequence."""

Items = list[Value]


def sequence_outputs(node: Node, inputs: list[Value | None], name: str) -> Value | None:
    """The output of a sequence operator, or None where it depends on data.

    Args:
        node: any node.
        inputs: its values; constants have their data.
        name: of the output.
    """
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    return rule(node, inputs, name) if rule is not None else None


def _sequence(name: str, items: Items) -> Value:
    """A sequence has no shape of its own; its first item says what it is a sequence of."""
    return Value(name, items[0].elem_type if items else 1, (), constant=False, items=tuple(items))


def _construct(_: Node, inputs: list[Value | None], name: str) -> Value | None:
    return _sequence(name, [value for value in inputs if value is not None])


def _empty(_: Node, __: list[Value | None], name: str) -> Value | None:
    return _sequence(name, [])


def _index(value: Value | None, length: int) -> int | None:
    if value is None:
        return length
    if value.data is None or value.data.size != 1:
        return None
    return int(value.data.reshape(-1)[0])


def _at(_: Node, inputs: list[Value | None], name: str) -> Value | None:
    sequence, place = inputs[0], inputs[1]
    if sequence is None or sequence.items is None or place is None:
        return None
    index = _index(place, 0)
    if index is None and len({(item.elem_type, item.shape) for item in sequence.items}) == 1:
        index = 0
    if index is None:
        return None
    item = sequence.items[index]
    return Value(name, item.elem_type, item.shape)


def _insert(_: Node, inputs: list[Value | None], name: str) -> Value | None:
    sequence, item = inputs[0], inputs[1]
    if sequence is None or sequence.items is None or item is None:
        return None
    index = _index(inputs[2] if len(inputs) > 2 else None, len(sequence.items))
    if index is None or len(sequence.items) >= MAX_ITEMS:
        return None
    items = list(sequence.items)
    items.insert(index, item)
    return _sequence(name, items)


def _split(node: Node, inputs: list[Value | None], name: str) -> Value | None:
    source = inputs[0]
    if source is None:
        return None
    axis = node.integer("axis") % len(source.shape)
    sizes = _sizes(inputs[1] if len(inputs) > 1 else None, source.shape[axis])
    if sizes is None or len(sizes) > MAX_ITEMS:
        return None
    keep = len(inputs) > 1 or node.integer("keepdims", 1)
    before, after = source.shape[:axis], source.shape[axis + 1 :]
    shapes = [(*before, *((size,) if keep else ()), *after) for size in sizes]
    return _sequence(name, [Value(f"{name}.{place}", source.elem_type, shape) for place, shape in enumerate(shapes)])


def _sizes(split: Value | None, whole: int) -> list[int] | None:
    if split is None:
        return [1] * min(whole, MAX_ITEMS + 1)
    if split.data is None:
        return None
    if split.data.ndim:
        return [int(size) for size in split.data]
    each = int(split.data)
    if each < 1 or whole // each > MAX_ITEMS:
        return None
    return [each] * (whole // each) + ([whole % each] if whole % each else [])


def _concat(node: Node, inputs: list[Value | None], name: str) -> Value | None:
    sequence = inputs[0]
    if sequence is None or not sequence.items:
        return None
    first = sequence.items[0]
    new = node.integer("new_axis")
    axis = node.integer("axis") % (len(first.shape) + new)
    if new:
        return Value(name, first.elem_type, (*first.shape[:axis], len(sequence.items), *first.shape[axis:]))
    size = sum(item.shape[axis] for item in sequence.items)
    return Value(name, first.elem_type, (*first.shape[:axis], size, *first.shape[axis + 1 :]))


_RULES: dict[str, Callable[[Node, list[Value | None], str], Value | None]] = {
    "ConcatFromSequence": _concat,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceInsert": _insert,
    "SplitToSequence": _split,
}
