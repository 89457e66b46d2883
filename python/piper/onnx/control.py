"""Branches and loops: what runs, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from piper.errors import InputError
from piper.onnx.graph import Kind, Node, Step, Value, checked_shape
from piper.onnx.scope import Scope

if TYPE_CHECKING:
    from onnx import GraphProto

    from piper.onnx.propagate import Propagation

MAX_TRIPS = 10**6
"""Turns of a loop that are believed."""


def _if(walk: Propagation, node: Node, inputs: list[Value | None], scope: Scope) -> list[Step]:
    """The branch that is taken, in place; where that is not known, the costlier one by assumption."""
    condition = walk.data(inputs[0])
    branches: dict[bool, tuple[list[Step], list[Value]]] = {}
    graphs = {True: node.attributes["then_branch"], False: node.attributes["else_branch"]}
    if condition is not None and condition.size == 1:
        taken = bool(condition.reshape(-1)[0])
    else:
        branches = _fitting(walk, graphs, scope)
        costlier = max(branches, key=lambda branch: (walk.flops(branches[branch][0]), branch))
        because = f"{node.where} depends on data (1: then, 0: else); the default is the costlier branch that fits"
        taken = bool(walk.notes.assume(f"{node.name}.branch", int(costlier), because))
    if taken not in branches:
        branches[taken] = walk.graph(graphs[taken], Scope({}, scope))
    steps, results = branches[taken]
    if len(results) != len(node.outputs):
        raise ValueError(f"{len(node.outputs)} outputs, but the branch has {len(results)}")
    renamed = _renamed(node, results)
    idle = [walk.weights(other) for branch, (other, _) in branches.items() if branch is not taken]
    renamed.idle_weights = idle[0] if idle else ()
    return [*steps, renamed]


def _fitting(
    walk: Propagation, graphs: Mapping[bool, GraphProto], scope: Scope
) -> dict[bool, tuple[list[Step], list[Value]]]:
    """Both branches, without one that these shapes do not fit: it is not the one that is taken."""
    branches = {}
    failure: InputError | None = None
    for branch, graph in graphs.items():
        try:
            branches[branch] = walk.graph(graph, Scope({}, scope))
        except InputError as error:
            failure = error
    if failure is not None and not branches:
        raise failure
    return branches


def _loop(walk: Propagation, node: Node, inputs: list[Value | None], scope: Scope) -> list[Step]:
    body = node.attributes["body"]
    limit, initial = walk.data(inputs[0] if inputs else None), inputs[2:]
    if limit is not None and limit.size == 1:
        trips = int(limit.reshape(-1)[0])
    else:
        trips = walk.notes.assume(f"{node.name}.trips", 1, f"how often {node.where} turns depends on data")
    trips = max(0, min(trips, MAX_TRIPS))
    carried = len(initial)
    inner = Scope({}, scope)
    for place, info in enumerate(body.input):
        start = initial[place - 2] if 2 <= place < carried + 2 else None
        elem = start.elem_type if start else (7 if place == 0 else 9)
        inner.values[info.name] = Value(info.name, elem, start.shape if start else ())
    steps, results = walk.graph(body, inner)
    finals = results[1:]
    values = []
    for place, name in enumerate(node.outputs):
        final = finals[place]
        shape = final.shape if place < carried else (trips, *final.shape)
        values.append(Value(name, final.elem_type, checked_shape(shape, node.where)))
    return [Step(node, Kind.LIVE, (*inputs, *_captured(steps, inner)), tuple(values), tuple(steps), trips)]


def _scan(walk: Propagation, node: Node, inputs: list[Value | None], scope: Scope) -> list[Step]:
    body, scanned = node.attributes["body"], node.integer("num_scan_inputs")
    states = len(inputs) - scanned
    axes = node.integers("scan_input_axes") or [0] * scanned
    inner, trips = Scope({}, scope), 1
    for place, info in enumerate(body.input):
        value = inputs[place]
        if value is None:
            raise ValueError("a state of Scan is missing")
        shape = value.shape
        if place >= states:
            axis = axes[place - states] % max(1, len(shape))
            trips, shape = shape[axis], (*shape[:axis], *shape[axis + 1 :])
        inner.values[info.name] = Value(info.name, value.elem_type, shape)
    steps, results = walk.graph(body, inner)
    out_axes = node.integers("scan_output_axes") or [0] * len(node.outputs)
    values = []
    for place, name in enumerate(node.outputs):
        final = results[place]
        shape = final.shape
        if place >= states:
            axis = out_axes[place - states] % (len(shape) + 1)
            shape = (*shape[:axis], trips, *shape[axis:])
        values.append(Value(name, final.elem_type, checked_shape(shape, node.where)))
    return [Step(node, Kind.LIVE, (*inputs, *_captured(steps, inner)), tuple(values), tuple(steps), trips)]


def _renamed(node: Node, results: list[Value]) -> Step:
    """Outputs of an ``If`` as views of its branch's."""
    values = tuple(
        Value(
            name or value.name, value.elem_type, value.shape, value.constant, value.data, value.stored, value.weights,
            value.proto
        )
        for name, value in zip(node.outputs, results, strict=True)
    )  # fmt: skip
    kind = Kind.CONSTANT if all(value.constant for value in values) else Kind.VIEW
    return Step(node, kind, tuple(results), values)


def _captured(steps: list[Step], inner: Scope) -> tuple[Value, ...]:
    """Live values that a body reads from around it."""
    made = {value for step in steps for value in step.outputs} | set(inner.values.values())
    read = dict.fromkeys(value for step in steps for value in step.live_inputs)
    return tuple(value for value in read if value not in made and (value.is_input or not value.constant))


CONTROL: dict[str, Callable[[Propagation, Node, list[Value | None], Scope], list[Step]]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}
"""Operators with graphs inside: each returns the steps that stand for it, the last with its outputs."""
