"""Small ONNX models made by hand, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from piper.model import Model

node = helper.make_node
opset = helper.make_opsetid


def value(name: str, shape: Sequence[int | str | None] | None, dtype: int = TensorProto.FLOAT) -> ValueInfoProto:
    """A typed input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(
    name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT, location: str = "weights.bin"
) -> TensorProto:
    """A parameter whose data are elsewhere, and missing."""
    tensor = TensorProto(name=name, data_type=dtype, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def constant(name: str, numbers: Any, dtype: Any = np.int64) -> TensorProto:
    """A small initializer with its data."""
    return numpy_helper.from_array(np.asarray(numbers, dtype=dtype), name)


def save(
    folder: Path,
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str],
    initializers: Sequence[TensorProto] = (),
    functions: Sequence[FunctionProto] = (),
    version: int = 17,
) -> Path:
    """Write a model and return its path."""
    results = [value(name, None) for name in outputs]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), results, list(initializers))
    imports = [opset("", version), opset("com.microsoft", 1), opset("local", 1)]
    model: ModelProto = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def downsets(model: Model, limit: int = 20_000) -> int:
    """Number of sets of layers that contain every layer their members depend on, counted up to just over `limit`."""
    needs: list[set[int]] = [set() for _ in model.layers]
    for edge in model.edges:
        needs[edge.target].add(edge.source)
    seen = {frozenset[int]()}
    todo = list(seen)
    while todo and len(seen) <= limit:
        current = todo.pop()
        for layer, needed in enumerate(needs):
            if layer not in current and needed <= current and (bigger := current | {layer}) not in seen:
                seen.add(bigger)
                todo.append(bigger)
    return len(seen)
