"""Walk a graph in execution order with concrete shapes, folding what does not depend on the input's data.

The result is a list of steps whose values all have a type and a shape. What cannot be known without running the
network (how many elements are not zero, how often a loop turns, which branch is taken) is an assumption: named, with
a default, reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from piper.errors import InputError
from piper.model import Tensor
from piper.onnx.contrib import contrib_shapes, ml_shapes
from piper.onnx.control import CONTROL
from piper.onnx.dims import evaluate
from piper.onnx.fold import DATA_SIZED, fold, reference
from piper.onnx.graph import (
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
from piper.onnx.provenance import (
    constant_value,
    default_size,
    inherit,
    is_lookup,
    kind_of,
    measured,
    spread_rarity,
)
from piper.onnx.read import Source, one_line, sorted_nodes
from piper.onnx.scope import Notes, Scope
from piper.onnx.sequences import sequence_outputs
from piper.onnx.shapes import Inferred, OpenShape, ShapeInference
from piper.onnx.tensors import StoredTensors

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ValueInfoProto

MAX_DEPTH = 60
"""Nesting of subgraphs."""
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

SAME_SHAPE = frozenset({"Dropout", "Scaler", "Normalizer", "Imputer", "Binarizer"})
"""Operators whose outputs are as their input, which ONNX's inference does not say in every version."""
Flops = Callable[[Sequence[Step]], int]
Weights = Callable[[Sequence[Step]], tuple[Tensor, ...]]


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
        self.notes = notes
        self.flops = flops
        self.weights = weights
        self._tensors = StoredTensors(source)
        self._inference = ShapeInference(source.opsets, source.model.ir_version)
        self._declared: dict[str, ValueInfoProto] = {}
        self._depth = 0

    def run(self, inputs: Mapping[str, Shape]) -> tuple[list[Step], list[Value]]:
        """Steps of the main graph in order, and its outputs."""
        graph = self._source.graph
        scope = Scope({})
        for value in graph.input:
            if value.name in inputs:
                elem = _elem_type(value, str(self._source.path))
                scope.values[value.name] = Value(value.name, elem, inputs[value.name], is_input=True)
        return self.graph(graph, scope)

    def graph(self, graph: GraphProto, scope: Scope) -> tuple[list[Step], list[Value]]:
        """Steps of a graph, which may be inside a node, and its outputs."""
        where = str(self._source.path)
        if self._depth > MAX_DEPTH:
            raise InputError(f"{where}: subgraphs are nested over {MAX_DEPTH} deep")
        for tensor in graph.initializer:
            scope.values[tensor.name] = self._tensors.initializer(tensor, tensor.name)
        for sparse in graph.sparse_initializer:
            scope.values[sparse.values.name] = self._tensors.sparse(sparse.values, tuple(sparse.dims))
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

    def data(self, value: Value | None) -> np.ndarray[Any, Any] | None:
        """The elements of a small constant, read on first use."""
        return self._tensors.data(value)

    def _guarded(self, node: Node, scope: Scope) -> list[Step]:
        try:
            return self._node(node, scope)
        except MALFORMED as error:
            text = f"{error} is missing" if isinstance(error, KeyError) else one_line(error) or type(error).__name__
            raise InputError(f"{self._source.path}: {node.where}: malformed: {text}") from None

    def _node(self, node: Node, scope: Scope) -> list[Step]:
        inputs = [scope.find(name) if name else None for name in node.inputs]
        if node.domain == "" and node.op_type in CONTROL:
            steps = CONTROL[node.op_type](self, node, inputs, scope)
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
        kind = kind_of(node, inputs, values)
        if kind is Kind.CONSTANT:
            self._fill(node, inputs, values, inferred)
        spread_rarity(node, inputs, values)
        return Step(node, kind, tuple(inputs), values)

    def _sequence(self, node: Node, inputs: list[Value | None]) -> Step | None:
        """A step of an operator on sequences whose items are known."""
        for value in inputs:
            self.data(value)
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
            return (self._tensors.constant(node),)
        if node.domain == "" and node.op_type in ("Shape", "Size"):
            return (measured(node, inputs[0]),)
        if not inputs or not all(value is None or value.constant for value in inputs):
            return None
        if is_lookup(node, inputs):
            return None
        data = [self.data(value) for value in inputs]
        if any(array is None and value is not None for array, value in zip(data, inputs, strict=True)):
            return None
        results = fold(node, data)
        if results is None or len(results) != len(node.outputs):
            return None
        return tuple(
            constant_value(node, name, array, inputs) for name, array in zip(node.outputs, results, strict=True)
        )

    def _infer(self, node: Node, inputs: list[Value | None]) -> Inferred:
        where = str(self._source.path)
        for value in inputs:
            if value is not None and value.constant:
                self.data(value)
        inferred = ml_shapes(node, inputs) or self._inference.infer(node, inputs, where)
        if inferred is None or all(shape is None for _, shape in inferred):
            inferred = contrib_shapes(node, inputs) or inferred
        if inferred is None:
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            self.notes.warn(
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
                default = default_size(node, axis, inputs)
                size = self.notes.assume(
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
            inherit(node, value, inputs)

    def _evaluate(self, node: Node, data: list[np.ndarray[Any, Any] | None], values: tuple[Value, ...]) -> None:
        results = reference(node, data)
        if results is None or len(results) != len(values):
            return
        for value, array in zip(values, results, strict=True):
            if array.size <= MAX_DATA:
                value.data, value.shape = array, tuple(array.shape)
                for axis in range(array.ndim):
                    self.notes.assumed.pop(f"{value.name}.{axis}", None)


def _elem_type(info: ValueInfoProto, where: str) -> int:
    if not info.type.HasField("tensor_type"):
        raise InputError(f"{where}: input {info.name!r} is no tensor")
    elem = info.type.tensor_type.elem_type
    dtype_name(elem, f"{where}: input {info.name!r}")
    return elem
