"""The way from an ONNX file to a `Model`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from piper.errors import InputError
from piper.model import Granularity, Model, ModelEdge, ModelLayer, Operator, Partition, Tensor
from piper.onnx.bound import bound_together
from piper.onnx.dims import Fixing, fix_inputs
from piper.onnx.graph import FLOATS, Kind, Step, Value, checked_shape, dtype_name
from piper.onnx.layers import Group, Layering, make_layers, make_operator_layers
from piper.onnx.names import kind_of, layer_name, unique
from piper.onnx.partition import MIN_VOCABULARY, Placement, degrees, partition_layers
from piper.onnx.propagate import MALFORMED, Propagation
from piper.onnx.read import Source, one_line, read_source
from piper.onnx.rules import (
    flops,
    input_bytes,
    output_bytes,
    rule_of,
    total_flops,
    total_weights,
    weights,
)
from piper.onnx.saved import Saved, saved_activations
from piper.onnx.scope import Notes

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

_OVERRIDES = {"float64": 11, "float32": 1, "float16": 10, "bfloat16": 16, "float8": 17}
_REPLACED = frozenset({"float64", "float32", "float16", "bfloat16"})
_INTEGERS = frozenset({"int64", "int32"})


def load_model(
    path: Path,
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    assumptions: Mapping[str, int],
    dtype: str | None,
    granularity: Granularity,
    *,
    regions: bool = True,
) -> Model:
    """See `piper.onnx.load_onnx`; for `regions`, which benchmarks ask for, `piper.onnx.bound.bound_together`."""
    if granularity not in get_args(Granularity):
        known = ", ".join(get_args(Granularity))
        raise InputError(f"granularity is {granularity!r}; expected one of {known}")
    if dtype is not None and dtype not in _OVERRIDES:
        raise InputError(f"dtype {dtype!r} is unknown; expected one of {', '.join(_OVERRIDES)}")
    source = read_source(path)
    try:
        return _build(source, Fixing(dims, shapes), Notes(assumptions), dtype, granularity, regions)
    except (*MALFORMED, UnicodeDecodeError) as error:
        raise InputError(f"{path}: malformed: {one_line(error) or type(error).__name__}") from None


def _build(
    source: Source, fixing: Fixing, notes: Notes, dtype: str | None, granularity: Granularity, regions: bool
) -> Model:
    inputs = _inputs(source.graph)
    fixed = fix_inputs(inputs, fixing, str(source.path))
    propagation = Propagation(source, fixing.symbols, notes, total_flops, total_weights)
    steps, outputs = propagation.run(fixed)
    _check_assumptions(source, notes)
    if dtype is not None:
        _override(steps, _OVERRIDES[dtype])
    tensors = tuple(Tensor(value.name, _input_dtype(value, source, dtype), fixed[value.name]) for value in inputs)
    model = Model(
        name=source.path.stem,
        operators=(),
        layers=(),
        edges=(),
        operator_edges=_operator_edges(steps),
        inputs=tensors,
        dtype=_dominant_float(steps),
        batch=_batch(tensors),
        tokens=_tokens(tensors),
        initializer_bytes=_initializer_bytes(source.graph, str(source.path)),
        assumptions=tuple(notes.assumed.values()),
    )
    layering = make_layers(steps, merged=granularity == "auto")
    model = _layered(model, steps, layering, set(outputs))
    if granularity == "operator":
        layering = make_operator_layers(steps, bound_together(model, regions=regions))
        model = _layered(model, steps, layering, set(outputs))
    _warn(model.operators, steps, notes)
    return replace(model, warnings=(*source.warnings, *notes.warnings))


def _layered(model: Model, steps: Sequence[Step], layering: Layering, outputs: set[Value]) -> Model:
    """`model` with these layers, and its operators as tensor parallelism divides them there."""
    saved = saved_activations(steps, layering.side)
    placements = partition_layers(steps, [group.steps for group in layering.groups], outputs)
    operators = tuple(_operator(place, step, placements, saved, model.dtype) for place, step in enumerate(steps))
    edges = tuple(ModelEdge(source, target, size) for (source, target), size in layering.edges.items())
    return replace(model, operators=operators, layers=_layers(steps, layering, operators), edges=edges)


def _inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """Inputs of the network; old files list initializers as inputs, too."""
    stored = {tensor.name for tensor in graph.initializer} | {
        tensor.values.name for tensor in graph.sparse_initializer
    }
    return [value for value in graph.input if value.name not in stored]


def _check_assumptions(source: Source, notes: Notes) -> None:
    for name in notes.given:
        if name not in notes.assumed:
            known = ", ".join(list(notes.assumed)[:10]) or "none"
            raise InputError(f"{source.path}: there is no assumption {name!r}; there are: {known}")


def _all_steps(steps: Iterable[Step]) -> Iterable[Step]:
    for step in steps:
        yield step
        yield from _all_steps(step.body)


def _override(steps: Sequence[Step], elem_type: int) -> None:
    """Give all floating-point values and parameters another type; quantised ones keep theirs."""
    name = dtype_name(elem_type, "dtype")

    def retyped(tensor: Tensor) -> Tensor:
        return replace(tensor, dtype=name) if tensor.dtype in _REPLACED else tensor

    values: dict[Value, None] = {}
    for step in _all_steps(steps):
        step.idle_weights = tuple(map(retyped, step.idle_weights))
        values |= dict.fromkeys(value for value in (*step.inputs, *step.outputs) if value is not None)
    for value in values:
        value.weights = tuple(map(retyped, value.weights))
        value.stored = None if value.stored is None else retyped(value.stored)
        if value.dtype in _REPLACED:
            value.elem_type = elem_type


def _dominant_float(steps: Sequence[Step]) -> str:
    """The floating-point type of most parameter bytes, else of most activation bytes."""
    sizes: Counter[str] = Counter()
    for weight in total_weights(steps):
        if weight.dtype in FLOATS:
            sizes[weight.dtype] += weight.bytes
    if not sizes:
        for value in (value for step in steps for value in step.outputs):
            if value.dtype in FLOATS:
                sizes[value.dtype] += value.bytes
    return max(sizes, key=lambda name: (sizes[name], name)) if sizes else "float32"


def _operator(place: int, step: Step, placements: Mapping[int, Placement], saved: Saved, own: str) -> Operator:
    rule = rule_of(step)
    placement = placements.get(place, Placement())
    parameters = weights(step)
    return Operator(
        name=step.node.name,
        op_type=step.node.op_type,
        rule=rule.name if rule is not None else "unknown",
        flops=flops(step) if step.kind is Kind.LIVE else 0,
        input_bytes=input_bytes(step),
        output_bytes=output_bytes(step),
        weights=parameters,
        saved_bytes=saved.plain.get(place, 0),
        saved_bytes_unfused=saved.unfused.get(place, 0),
        partition=placement.partition,
        divides=placement.divides,
        outputs=tuple(value.tensor for value in step.outputs if value.name),
        selective=place in saved.selective,
        dtype=next((value.dtype for value in step.outputs if value.dtype in FLOATS), own),
        trainable=all(weight.dtype in FLOATS for weight in parameters),
    )


def _operator_edges(steps: Sequence[Step]) -> tuple[ModelEdge, ...]:
    """What operators send to each other. Constants are everywhere and need no sending."""
    maker = {
        value: place for place, step in enumerate(steps) if step.kind is not Kind.CONSTANT for value in step.outputs
    }
    read: dict[int, dict[Value, None]] = {}
    pairs: dict[tuple[int, int], None] = {}
    for target, step in enumerate(steps):
        for value in step.live_inputs if step.kind is not Kind.CONSTANT else ():
            source = maker.get(value)
            if source is not None and source != target:
                read.setdefault(source, {})[value] = None
                pairs[source, target] = None
    sizes = {source: sum(value.bytes for value in values) for source, values in read.items()}
    return tuple(ModelEdge(source, target, sizes[source]) for source, target in pairs)


def _warn(operators: Sequence[Operator], steps: Sequence[Step], notes: Notes) -> None:
    if not operators:
        notes.warn("the graph has no operators: there is nothing to plan")
    missing: Counter[str] = Counter()
    for operator, step in zip(operators, steps, strict=True):
        if operator.rule == "unknown":
            missing[f"{step.node.domain}.{step.node.op_type}".removeprefix(".")] += 1
    for name, number in sorted(missing.items()):
        notes.warn(f"no cost rule for operator {name} (used {number} times): costed by the bytes that it moves")


def _layers(steps: Sequence[Step], layering: Layering, operators: Sequence[Operator]) -> tuple[ModelLayer, ...]:
    blocks = _block_names(steps, layering.groups, operators)
    names = unique(_names(steps, layering.groups, operators))
    result = []
    for group, name, block, entering in zip(layering.groups, names, blocks, layering.input_bytes, strict=True):
        chosen = [Placement(operators[place].partition, operators[place].divides) for place in group.steps]
        result.append(ModelLayer(name, tuple(group.steps), block, degrees(chosen), entering))
    return tuple(result)


def _block_names(steps: Sequence[Step], groups: Sequence[Group], operators: Sequence[Operator]) -> list[str | None]:
    """One name for each kind of repeated block, numbered where a sort has several."""
    text_out = any(operator.partition is Partition.VOCABULARY for operator in operators) and any(
        operator.partition is Partition.COLUMN and operator.divides >= MIN_VOCABULARY
        for operator in _last(groups, operators)
    )
    sorts: dict[object, str] = {}
    for group in groups:
        if group.kind is not None and group.kind not in sorts:
            sorts[group.kind] = kind_of([steps[place] for place in group.steps], text_out)
    totals = Counter(sorts.values())
    used: Counter[str] = Counter()
    names: dict[object, str] = {}
    for kind, sort in sorts.items():
        used[sort] += 1
        names[kind] = sort if totals[sort] == 1 else f"{sort}{used[sort]}"
    return [None if group.kind is None else names[group.kind] for group in groups]


def _last(groups: Sequence[Group], operators: Sequence[Operator]) -> list[Operator]:
    return [operators[place] for place in groups[-1].steps] if groups else []


def _names(steps: Sequence[Step], groups: Sequence[Group], operators: Sequence[Operator]) -> list[str]:
    names = []
    for number, group in enumerate(groups):
        chosen = [operators[place] for place in group.steps]
        if any(operator.partition is Partition.VOCABULARY for operator in chosen) and not group.work:
            names.append("embedding")
        elif number == len(groups) - 1 and _is_head(chosen):
            names.append("head")
        else:
            names.append(
                layer_name([steps[place] for place in group.steps]) or _alone(steps, group) or f"layer.{number}"
            )
    return names


def _alone(steps: Sequence[Step], group: Group) -> str:
    """The name of the one operator that runs in a layer; empty where there are several."""
    running = [place for place in group.steps if steps[place].kind is Kind.LIVE]
    return steps[running[0]].node.name if len(running) == 1 else ""


def _is_head(operators: Sequence[Operator]) -> bool:
    """Whether a layer scores a vocabulary: a product divided by columns that nothing sums up again."""
    rows = any(operator.partition is Partition.ROW for operator in operators)
    return not rows and any(_scores_vocabulary(operator) for operator in operators)


def _scores_vocabulary(operator: Operator) -> bool:
    return operator.partition is Partition.COLUMN and operator.rule == "matmul" and operator.divides >= MIN_VOCABULARY


def _input_dtype(value: ValueInfoProto, source: Source, dtype: str | None) -> str:
    own = dtype_name(value.type.tensor_type.elem_type, f"{source.path}: input {value.name!r}")
    return dtype if dtype is not None and own in _REPLACED else own


def _batch(inputs: Sequence[Tensor]) -> int:
    """First axis of the first input that has more than one."""
    return next((tensor.shape[0] for tensor in inputs if len(tensor.shape) > 1), 1)


def _tokens(inputs: Sequence[Tensor]) -> int | None:
    """Elements of the first input that holds token numbers, ``[batch, sequence]``."""
    return next((tensor.elements for tensor in inputs if len(tensor.shape) == 2 and tensor.dtype in _INTEGERS), None)


def _initializer_bytes(graph: GraphProto, where: str) -> int:
    """Every initializer once, by its stored type, those of subgraphs included."""
    total = 0
    for tensor in graph.initializer:
        place = f"{where}: initializer {tensor.name!r}"
        total += Tensor(
            tensor.name, dtype_name(tensor.data_type, place), checked_shape(tuple(tensor.dims), place)
        ).bytes
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                total += _initializer_bytes(inner, where)
    return total
