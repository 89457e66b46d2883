"""Types and shapes of a node's outputs, from concrete inputs.

ONNX's own inference is asked one node at a time, with every size a number and every small constant at hand, so that
nothing symbolic is left for it to lose. Answers are kept by signature: the blocks of a deep network ask the same
questions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from piper.errors import InputError
from piper.onnx.graph import Node, Shape, Value
from piper.onnx.read import one_line

if TYPE_CHECKING:
    from onnx import TypeProto
    from onnx.defs import OpSchema

OpenShape = tuple[int | None, ...] | None
"""A shape with sizes that are open; None where not even the rank is known."""
Inferred = tuple[tuple[int, OpenShape], ...]
"""Element type (0: unknown) and shape of each output."""


class ShapeInference:
    """Per-node inference with a cache.

    Args:
        opsets: operator set version by domain.
        ir_version: of the file.
    """

    def __init__(self, opsets: dict[str, int], ir_version: int) -> None:
        self._opsets = opsets
        self._ir_version = ir_version
        self._cache: dict[Any, Inferred] = {}

    def infer(self, node: Node, inputs: list[Value | None], where: str) -> Inferred | None:
        """Outputs of `node`; None for an operator that ONNX does not define.

        Raises:
            InputError: the inputs do not fit the operator.
        """
        schema = _schema(node.op_type, node.version, node.domain)
        if schema is None:
            return None
        key = self._signature(node, inputs)
        if key not in self._cache:
            self._cache[key] = self._ask(schema, node, inputs, where)
        return self._cache[key]

    def _signature(self, node: Node, inputs: list[Value | None]) -> Any:
        parts = [
            None
            if value is None
            else (value.elem_type, value.shape, None if value.data is None else value.data.tobytes())
            for value in inputs
        ]
        attributes = tuple(attribute.SerializeToString() for attribute in node.proto.attribute)
        used = tuple(bool(name) for name in node.outputs)
        return node.domain, node.op_type, attributes, tuple(parts), used

    def _ask(self, schema: OpSchema, node: Node, inputs: list[Value | None], where: str) -> Inferred:
        from onnx import checker, helper, numpy_helper, shape_inference
        from onnx.shape_inference import InferenceError

        types, data = {}, {}
        for name, value in zip(node.inputs, inputs, strict=True):
            if value is None:
                continue
            types[name] = _type_proto(value.elem_type, value.shape)
            if value.data is not None:
                data[name] = numpy_helper.from_array(value.data, name)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self._opsets.items()]
        try:
            outputs = shape_inference.infer_node_outputs(
                schema, node.proto, types, data, opset_imports=opsets, ir_version=self._ir_version
            )
        except (InferenceError, checker.ValidationError, RuntimeError, ValueError, TypeError, KeyError) as error:
            text = one_line(error).removeprefix("[ShapeInferenceError] ").removeprefix("[TypeInferenceError] ")
            raise InputError(f"{where}: {node.where}: {text}; {_describe(inputs)}") from None
        return tuple(_read_type(outputs.get(name)) for name in node.outputs)


@lru_cache(maxsize=1024)
def _schema(op_type: str, version: int, domain: str) -> OpSchema | None:
    from onnx import defs

    try:
        return defs.get_schema(op_type, version, domain)
    except (defs.SchemaError, ValueError, TypeError):
        return None


@lru_cache(maxsize=4096)
def _type_proto(elem_type: int, shape: Shape) -> TypeProto:
    from onnx import helper

    return helper.make_tensor_type_proto(elem_type, shape)


def _read_type(proto: TypeProto | None) -> tuple[int, OpenShape]:
    if proto is None:
        return 0, None
    if proto.HasField("sequence_type"):
        return _read_type(proto.sequence_type.elem_type)
    if proto.HasField("optional_type"):
        return _read_type(proto.optional_type.elem_type)
    if not proto.HasField("tensor_type"):
        return 0, None
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    sizes = (dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in tensor.shape.dim)
    return tensor.elem_type, tuple(sizes)


def _describe(inputs: list[Value | None]) -> str:
    shapes = (
        "-" if value is None else f"{value.name} {'x'.join(map(str, value.shape)) or 'scalar'}" for value in inputs
    )
    return f"its inputs are {', '.join(shapes)}"[:300]
