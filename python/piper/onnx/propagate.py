"""Walk a graph in execution order with concrete shapes, folding what does not depend on the input's data.

The result is a list of steps whose values all have a type and a shape. What cannot be known without running the
network (how many elements are not zero, how often a loop turns, which branch is taken) is an assumption: named, with
a default, reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piper.errors import InputError
from piper.model import Tensor
from piper.onnx.contrib import contrib_shapes, ml_shapes
from piper.onnx.dims import evaluate
from piper.onnx.fold import DATA_SIZED, fold, reference
from piper.onnx.graph import (
    FLOATS,
    MAX_DATA,
    Kind,
    Node,
    Shape,
    Step,
    Value,
    checked_shape,
    count,
    dtype_name,
)
from piper.onnx.read import Source, external_bytes, one_line, sorted_nodes
from piper.onnx.sequences import sequence_outputs
from piper.onnx.shapes import Inferred, OpenShape, ShapeInference

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, TensorProto, ValueInfoProto

VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
"""Operators whose output is their first input's bytes."""
LAYOUTS = VIEWS | {"Transpose", "Cast", "CastLike", "DequantizeLinear", "Slice", "Split", "Expand"}
"""Operators that make no new parameter from a parameter."""
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
SAME_SHAPE = frozenset({"Dropout", "Scaler", "Normalizer", "Imputer", "Binarizer"})
"""Operators whose outputs are as their input, which ONNX's inference does not say in every version."""
LOOKUPS = frozenset({"Gather", "GatherND", "GatherElements"})
MAX_DEPTH = 60
"""Nesting of subgraphs."""
MAX_TRIPS = 10**6
MALFORMED = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    AssertionError,
)
"""What Python raises on nodes with wrong attributes or too few inputs."""

Flops = Callable[[Sequence[Step]], int]
Weights = Callable[[Sequence[Step]], tuple[Tensor, ...]]


@dataclass(slots=True)
class Notes:
    """What the reader supposes and notices on its way."""

    given: Mapping[str, int]
    """The user's values of assumptions."""
    assumed: dict[str, str] = field(default_factory=dict)
    """Name of an assumption to the sentence that reports it."""
    warnings: dict[str, None] = field(default_factory=dict)

    def assume(self, name: str, default: int, because: str) -> int:
        """The user's value or the default of a quantity, reported either way."""
        value = self.given.get(name, default)
        if value < 0:
            raise InputError(f"assumption {name}={value}: expected a number that is not negative")
        self.assumed[name] = f"{name} = {value}: {because}"
        return value

    def warn(self, text: str) -> None:
        """Report `text` once."""
        self.warnings[text] = None


@dataclass(slots=True)
class Scope:
    """Values by name in a graph, and around it."""

    values: dict[str, Value]
    outer: Scope | None = None

    def find(self, name: str) -> Value:
        """The value that `name` means here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise InputError(f"value {name!r} is used before it is made")

    def has(self, name: str) -> bool:
        """Whether `name` means anything here."""
        return name in self.values or (self.outer is not None and self.outer.has(name))


class Propagation:
    """One pass over a model.

    Args:
        source: the file.
        symbols: sizes of symbolic dimensions.
        notes: receives assumptions and warnings.
        flops: counts floating-point operations, to pick the costlier branch of an ``If``.
        weights: lists parameters, for the other branch.
    """

    def __init__(
        self, source: Source, symbols: Mapping[str, int], notes: Notes, flops: Flops, weights: Weights
    ) -> None:
        self._source = source
        self._symbols = symbols
        self._notes = notes
        self._flops = flops
        self._weights = weights
        self._inference = ShapeInference(source.opsets, source.model.ir_version)
        self._declared: dict[str, ValueInfoProto] = {}
        self._external: dict[tuple[str, str, str], str] = {}
        self._depth = 0

    def run(self, inputs: Mapping[str, Shape]) -> tuple[list[Step], list[Value]]:
        """Steps of the main graph in order, and its outputs."""
        graph = self._source.graph
        scope = Scope({})
        for value in graph.input:
            if value.name in inputs:
                elem = _elem_type(value, str(self._source.path))
                scope.values[value.name] = Value(value.name, elem, inputs[value.name], is_input=True)
        return self._graph(graph, scope)

    def _graph(self, graph: GraphProto, scope: Scope) -> tuple[list[Step], list[Value]]:
        where = str(self._source.path)
        if self._depth > MAX_DEPTH:
            raise InputError(f"{where}: subgraphs are nested over {MAX_DEPTH} deep")
        for tensor in graph.initializer:
            scope.values[tensor.name] = self._initializer(tensor, tensor.name)
        for sparse in graph.sparse_initializer:
            scope.values[sparse.values.name] = self._sparse(sparse.values, tuple(sparse.dims))
        for info in (*graph.value_info, *graph.output):
            self._declared[info.name] = info
        steps: list[Step] = []
        self._depth += 1
        try:
            for node in sorted_nodes(graph, self._source.opsets, scope.has, where):
                steps += self._guarded(node, scope)
        finally:
            self._depth -= 1
        return steps, [scope.find(value.name) for value in graph.output]

    def _guarded(self, node: Node, scope: Scope) -> list[Step]:
        try:
            return self._node(node, scope)
        except MALFORMED as error:
            text = f"{error} is missing" if isinstance(error, KeyError) else one_line(error) or type(error).__name__
            raise InputError(f"{self._source.path}: {node.where}: malformed: {text}") from None

    def _initializer(self, tensor: TensorProto, name: str) -> Value:
        where = f"{self._source.path}: initializer {name!r}"
        if tensor.external_data:
            external_bytes(self._source, tensor, 1 << 62)
        dtype = dtype_name(tensor.data_type, where)
        shape = checked_shape(tuple(tensor.dims), where)
        stored = Tensor(self._tied(tensor, name, dtype, shape), dtype, shape)
        weights = (stored,) if dtype in FLOATS and stored.elements > 1 else ()
        return Value(name, tensor.data_type, shape, constant=True, stored=stored, weights=weights, proto=tensor)

    def _sparse(self, tensor: TensorProto, dims: Shape) -> Value:
        value = self._initializer(tensor, tensor.name)
        value.shape, value.proto = checked_shape(dims, f"{self._source.path}: initializer {tensor.name!r}"), None
        return value

    def _tied(self, tensor: TensorProto, name: str, dtype: str, shape: Shape) -> str:
        """The name of the first tensor that is stored at the same place, for weights that are shared."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if "offset" not in entries and "length" not in entries:
            return name
        key = (entries.get("location", ""), entries.get("offset", "0"), f"{dtype}{shape}")
        return self._external.setdefault(key, name)

    def _data(self, value: Value | None) -> np.ndarray[Any, Any] | None:
        """The elements of a small constant, read on first use."""
        if value is None:
            return None
        if value.data is None and value.proto is not None:
            value.data = self._read(value.proto, value)
            value.proto = None
        return value.data

    def _read(self, proto: TensorProto, value: Value) -> np.ndarray[Any, Any] | None:
        from onnx import TensorProto, numpy_helper

        if count(value.shape) > MAX_DATA or value.dtype == "string":
            return None
        if proto.external_data:
            content = external_bytes(self._source, proto, value.bytes)
            if content is None:
                return None
            proto = TensorProto(data_type=proto.data_type, dims=proto.dims, raw_data=content)
        try:
            return numpy_helper.to_array(proto)
        except (ValueError, TypeError, RuntimeError, OSError, KeyError):
            raise InputError(f"{self._source.path}: tensor {value.name!r}: its data do not fit its shape") from None

    def _node(self, node: Node, scope: Scope) -> list[Step]:
        inputs = [scope.find(name) if name else None for name in node.inputs]
        if node.domain == "" and node.op_type in _CONTROL:
            steps = _CONTROL[node.op_type](self, node, inputs, scope)
        else:
            steps = [self._plain(node, inputs)]
        for name, value in zip(node.outputs, steps[-1].outputs, strict=True):
            if name:
                scope.values[name] = value
        return steps

    def _plain(self, node: Node, inputs: list[Value | None]) -> Step:
        outputs = self._folded(node, inputs)
        if outputs is not None:
            return Step(node, Kind.CONSTANT, tuple(inputs), outputs)
        sequence = self._sequence(node, inputs)
        if sequence is not None:
            return sequence
        inferred = self._infer(node, inputs)
        values = tuple(self._value(node, place, inferred[place], inputs) for place in range(len(node.outputs)))
        kind = _kind(node, inputs, values)
        if kind is Kind.CONSTANT:
            self._fill(node, inputs, values, inferred)
        _spread_rarity(node, inputs, values)
        return Step(node, kind, tuple(inputs), values)

    def _sequence(self, node: Node, inputs: list[Value | None]) -> Step | None:
        """A step of an operator on sequences whose items are known."""
        for value in inputs:
            self._data(value)
        output = sequence_outputs(node, inputs, node.outputs[0]) if node.outputs else None
        if output is None:
            return None
        where = f"{self._source.path}: {node.where}, output {output.name!r}"
        for value in (output, *(output.items or ())):
            checked_shape(value.shape, where)
        # Putting values side by side costs; taking one out of a sequence, or putting one in, does not.
        kind = (
            Kind.LIVE
            if node.op_type in ("ConcatFromSequence", "SplitToSequence") or output.items == ()
            else Kind.VIEW
        )
        return Step(node, kind, tuple(inputs), (output,))

    def _folded(self, node: Node, inputs: list[Value | None]) -> tuple[Value, ...] | None:
        """Outputs with data, for constants and shape arithmetic."""
        if node.domain == "" and node.op_type == "Constant":
            return (self._constant(node),)
        if node.domain == "" and node.op_type in ("Shape", "Size"):
            return (_measured(node, inputs[0]),)
        if not inputs or not all(value is None or value.constant for value in inputs):
            return None
        if _is_lookup(node, inputs):
            return None
        data = [self._data(value) for value in inputs]
        if any(array is None and value is not None for array, value in zip(data, inputs, strict=True)):
            return None
        results = fold(node, data)
        if results is None or len(results) != len(node.outputs):
            return None
        return tuple(
            _constant_value(node, name, array, inputs) for name, array in zip(node.outputs, results, strict=True)
        )

    def _constant(self, node: Node) -> Value:
        import numpy as np

        name = node.outputs[0]
        attributes = node.attributes
        if "value" in attributes:
            return self._initializer(attributes["value"], name)
        if "sparse_value" in attributes:
            sparse = attributes["sparse_value"]
            return self._sparse(sparse.values, tuple(sparse.dims))
        for key, dtype in (
            ("value_int", np.int64),
            ("value_ints", np.int64),
            ("value_float", np.float32),
            ("value_floats", np.float32),
        ):
            if key in attributes:
                array = np.asarray(attributes[key], dtype=dtype)
                return _constant_value(node, name, array, [])
        texts = attributes.get("value_strings", [])
        return Value(name, 8, (len(texts),) if "value_strings" in attributes else (), constant=True)

    def _infer(self, node: Node, inputs: list[Value | None]) -> Inferred:
        where = str(self._source.path)
        for value in inputs:
            if value is not None and value.constant:
                self._data(value)
        inferred = ml_shapes(node, inputs) or self._inference.infer(node, inputs, where)
        if inferred is None or all(shape is None for _, shape in inferred):
            inferred = contrib_shapes(node, inputs) or inferred
        if inferred is None:
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            self._notes.warn(
                f"operator {name} is unknown; its output shapes are assumptions, its cost is by bytes moved"
            )
            return ((0, None),) * len(node.outputs)
        return inferred

    def _value(self, node: Node, place: int, inferred: tuple[int, OpenShape], inputs: list[Value | None]) -> Value:
        elem, shape = inferred
        name = node.outputs[place]
        if shape is None or None in shape or elem == 0:
            elem, shape = self._completed(node, place, elem, shape, inputs)
        where = f"{self._source.path}: {node.where}, output {name!r}"
        dtype_name(elem, where)
        known = checked_shape(tuple(size or 0 for size in shape), where)
        return Value(name, elem, known)

    def _completed(
        self, node: Node, place: int, elem: int, shape: OpenShape, inputs: list[Value | None]
    ) -> tuple[int, Shape]:
        """Fill what inference leaves open: from the file, else by an assumption."""
        name = node.outputs[place]
        first = next((value for value in inputs if value is not None), None)
        info = self._declared.get(name)
        if info is not None:
            elem = elem or info.type.tensor_type.elem_type
            shape = self._merged(shape, info)
        if elem == 0:
            elem = first.elem_type if first is not None else 1
        if not name:
            return elem, ()
        if node.op_type in SAME_SHAPE and first is not None:
            return elem, first.shape
        if shape is None:
            shape = (None,) * (len(first.shape) if first is not None else 0)
        sizes = []
        for axis, size in enumerate(shape):
            if size is None:
                default = _default_size(node, axis, inputs)
                size = self._notes.assume(
                    f"{name}.{axis}", default, f"axis {axis} of the output of {node.where} is open"
                )
            sizes.append(size)
        return elem, tuple(sizes)

    def _merged(self, shape: OpenShape, info: ValueInfoProto) -> OpenShape:
        """`shape` with open sizes as the file declares them, symbols evaluated."""
        declared = info.type.tensor_type
        if not declared.HasField("shape"):
            return shape
        dims = declared.shape.dim
        if shape is None:
            shape = (None,) * len(dims)
        if len(shape) != len(dims):
            return shape
        sizes: list[int | None] = []
        for size, dim in zip(shape, dims, strict=True):
            if size is None and dim.HasField("dim_value") and dim.dim_value > 0:
                size = dim.dim_value
            elif size is None and dim.HasField("dim_param"):
                size = evaluate(dim.dim_param, self._symbols)
            sizes.append(size)
        return tuple(sizes)

    def _fill(self, node: Node, inputs: list[Value | None], values: tuple[Value, ...], inferred: Inferred) -> None:
        """Mark outputs of constant inputs as constant, with data where small, and with the weights they come from."""
        if sum(count(value.shape) for value in values) <= MAX_DATA and node.domain == "":
            data = [value.data if value is not None else None for value in inputs]
            complete = all((array is None) == (value is None) for array, value in zip(data, inputs, strict=True))
            known = all(shape is not None and None not in shape for _, shape in inferred)
            if complete and (known or node.op_type in DATA_SIZED):
                self._evaluate(node, data, values)
        for value in values:
            _inherit(node, value, inputs)

    def _evaluate(self, node: Node, data: list[np.ndarray[Any, Any] | None], values: tuple[Value, ...]) -> None:
        results = reference(node, data)
        if results is None or len(results) != len(values):
            return
        for value, array in zip(values, results, strict=True):
            if array.size <= MAX_DATA:
                value.data, value.shape = array, tuple(array.shape)
                for axis in range(array.ndim):
                    self._notes.assumed.pop(f"{value.name}.{axis}", None)

    # Control flow

    def _if(self, node: Node, inputs: list[Value | None], scope: Scope) -> list[Step]:
        """The branch that is taken, in place; where that is not known, the costlier one by assumption."""
        condition = self._data(inputs[0])
        branches: dict[bool, tuple[list[Step], list[Value]]] = {}
        graphs = {True: node.attributes["then_branch"], False: node.attributes["else_branch"]}
        if condition is not None and condition.size == 1:
            taken = bool(condition.reshape(-1)[0])
        else:
            branches = self._fitting(graphs, scope)
            costlier = max(branches, key=lambda branch: (self._flops(branches[branch][0]), branch))
            because = f"{node.where} depends on data (1: then, 0: else); the default is the costlier branch that fits"
            taken = bool(self._notes.assume(f"{node.name}.branch", int(costlier), because))
        if taken not in branches:
            branches[taken] = self._graph(graphs[taken], Scope({}, scope))
        steps, results = branches[taken]
        if len(results) != len(node.outputs):
            raise ValueError(f"{len(node.outputs)} outputs, but the branch has {len(results)}")
        renamed = _renamed(node, results)
        idle = [self._weights(other) for branch, (other, _) in branches.items() if branch is not taken]
        renamed.idle_weights = idle[0] if idle else ()
        return [*steps, renamed]

    def _fitting(self, graphs: Mapping[bool, GraphProto], scope: Scope) -> dict[bool, tuple[list[Step], list[Value]]]:
        """Both branches, without one that these shapes do not fit: it is not the one that is taken."""
        branches = {}
        failure: InputError | None = None
        for branch, graph in graphs.items():
            try:
                branches[branch] = self._graph(graph, Scope({}, scope))
            except InputError as error:
                failure = error
        if failure is not None and not branches:
            raise failure
        return branches

    def _loop(self, node: Node, inputs: list[Value | None], scope: Scope) -> list[Step]:
        body = node.attributes["body"]
        limit, initial = self._data(inputs[0] if inputs else None), inputs[2:]
        if limit is not None and limit.size == 1:
            trips = int(limit.reshape(-1)[0])
        else:
            trips = self._notes.assume(f"{node.name}.trips", 1, f"how often {node.where} turns depends on data")
        trips = max(0, min(trips, MAX_TRIPS))
        carried = len(initial)
        inner = Scope({}, scope)
        for place, info in enumerate(body.input):
            start = initial[place - 2] if 2 <= place < carried + 2 else None
            elem = start.elem_type if start else (7 if place == 0 else 9)
            inner.values[info.name] = Value(info.name, elem, start.shape if start else ())
        steps, results = self._graph(body, inner)
        finals = results[1:]
        values = []
        for place, name in enumerate(node.outputs):
            final = finals[place]
            shape = final.shape if place < carried else (trips, *final.shape)
            values.append(Value(name, final.elem_type, checked_shape(shape, node.where)))
        return [Step(node, Kind.LIVE, (*inputs, *_captured(steps)), tuple(values), tuple(steps), trips)]

    def _scan(self, node: Node, inputs: list[Value | None], scope: Scope) -> list[Step]:
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
        steps, results = self._graph(body, inner)
        out_axes = node.integers("scan_output_axes") or [0] * len(node.outputs)
        values = []
        for place, name in enumerate(node.outputs):
            final = results[place]
            shape = final.shape
            if place >= states:
                axis = out_axes[place - states] % (len(shape) + 1)
                shape = (*shape[:axis], trips, *shape[axis:])
            values.append(Value(name, final.elem_type, checked_shape(shape, node.where)))
        return [Step(node, Kind.LIVE, (*inputs, *_captured(steps)), tuple(values), tuple(steps), trips)]


_CONTROL: dict[str, Callable[[Propagation, Node, list[Value | None], Scope], list[Step]]] = {
    "If": Propagation._if,
    "Loop": Propagation._loop,
    "Scan": Propagation._scan,
}


def _elem_type(info: ValueInfoProto, where: str) -> int:
    if not info.type.HasField("tensor_type"):
        raise InputError(f"{where}: input {info.name!r} is no tensor")
    elem = info.type.tensor_type.elem_type
    dtype_name(elem, f"{where}: input {info.name!r}")
    return elem


def _measured(node: Node, value: Value | None) -> Value:
    """``Shape`` or ``Size`` of a value whose shape is known."""
    import numpy as np

    if value is None:
        raise ValueError("input 0 is missing")
    if node.op_type == "Size":
        array = np.asarray(count(value.shape), dtype=np.int64)
    else:
        rank = len(value.shape)
        start, end = node.integer("start"), node.integer("end", rank)
        array = np.asarray(value.shape[slice(start, end)], dtype=np.int64)
    return Value(node.outputs[0], 7, tuple(array.shape), constant=True, data=array)


def _constant_value(node: Node, name: str, array: np.ndarray[Any, Any], inputs: list[Value | None]) -> Value:
    from onnx import helper

    value = Value(name, helper.np_dtype_to_tensor_dtype(array.dtype), tuple(array.shape), constant=True, data=array)
    _inherit(node, value, inputs)
    if node.op_type in ("Constant", "ConstantOfShape"):
        _as_parameter(node, value, inputs)
    return value


def _inherit(node: Node, value: Value, inputs: list[Value | None]) -> None:
    """Give a constant the parameters that it was made from."""
    value.constant = True
    present = [source for source in inputs if source is not None]
    if node.op_type in LAYOUTS:
        sources = present[:2] if node.op_type == "DequantizeLinear" else present[:1]
        value.stored = sources[0].stored if sources else None
        value.weights = tuple(dict.fromkeys(weight for source in sources for weight in source.weights))
        if node.op_type == "DequantizeLinear" and value.stored is not None:
            value.weights = tuple(dict.fromkeys((value.stored, *value.weights)))
    elif node.op_type == "ConstantOfShape":
        _as_parameter(node, value, inputs)
    else:
        kept = (weight for source in present if source.proto or source.stored for weight in source.weights)
        value.weights = tuple(dict.fromkeys(kept))


def _as_parameter(node: Node, value: Value, inputs: list[Value | None]) -> None:
    """Take a float tensor of a fixed size for a parameter: some writers keep them so. A mask's size is computed."""
    fixed = all(source is None or source.stored is not None for source in inputs)
    if value.dtype in FLOATS and count(value.shape) > 1 and fixed:
        value.stored = Tensor(node.outputs[0], value.dtype, value.shape)
        value.weights = (value.stored,)


def _is_lookup(node: Node, inputs: list[Value | None]) -> bool:
    """Whether `node` reads rows of a parameter: an embedding, which runs even where its indices are constant."""
    table = inputs[0] if inputs else None
    return node.op_type in LOOKUPS and table is not None and bool(table.weights) and len(table.shape) > 1


def _kind(node: Node, inputs: list[Value | None], outputs: tuple[Value, ...]) -> Kind:
    if node.domain == "" and node.op_type in RANDOM:
        return Kind.LIVE
    if all(value is None or value.constant for value in inputs) and node.inputs:
        return (
            Kind.LIVE
            if _is_lookup(node, inputs) or node.domain not in ("", "ai.onnx.ml", "com.microsoft")
            else Kind.CONSTANT
        )
    first = inputs[0] if inputs else None
    if node.domain != "" or first is None:
        return Kind.LIVE
    if node.op_type in VIEWS or (node.op_type == "Cast" and outputs[0].elem_type == first.elem_type):
        return Kind.VIEW
    if node.op_type == "Expand" and count(outputs[0].shape) == count(first.shape):
        return Kind.VIEW
    return Kind.LIVE


def _spread_rarity(node: Node, inputs: list[Value | None], outputs: tuple[Value, ...]) -> None:
    """Follow one-hot values, which tell how many elements of a mask are set: a mixture's choice of experts."""
    first = inputs[0] if inputs else None
    if node.op_type == "OneHot" and len(inputs) > 1 and inputs[1] is not None and inputs[1].data is not None:
        outputs[0].rarity = max(1, int(inputs[1].data.reshape(-1)[0]))
    elif first is not None and node.op_type in LAYOUTS | LOOKUPS:
        for value in outputs:
            value.rarity = first.rarity


def _default_size(node: Node, axis: int, inputs: list[Value | None]) -> int:
    """What an open size is supposed to be: as large as it can get where that is known, else as in the first input."""
    first = next((value for value in inputs if value is not None), None)
    if first is None:
        return 1
    if node.op_type in DATA_SIZED:
        return -(-count(first.shape) // first.rarity)
    if node.op_type == "NonMaxSuppression" and len(inputs) > 1 and inputs[1] is not None:
        limit = inputs[2].data if len(inputs) > 2 and inputs[2] is not None else None
        boxes = first.shape[1]
        each = min(boxes, int(limit.reshape(-1)[0])) if limit is not None and limit.size else boxes
        return inputs[1].shape[0] * inputs[1].shape[1] * each
    return first.shape[axis] if axis < len(first.shape) else 1


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


def _captured(steps: list[Step]) -> tuple[Value, ...]:
    """Live values that a body reads from around it."""
    made = {value for step in steps for value in step.outputs}
    read = dict.fromkeys(value for step in steps for value in step.live_inputs)
    return tuple(value for value in read if value not in made and (value.is_input or not value.constant))
