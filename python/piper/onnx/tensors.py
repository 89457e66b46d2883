"""Tensors that the file stores, read only where their numbers matter for shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from piper.errors import InputError
from piper.model import Tensor
from piper.onnx.graph import FLOATS, MAX_DATA, Node, Shape, Value, checked_shape, count, dtype_name
from piper.onnx.provenance import constant_value
from piper.onnx.read import Source, external_bytes

if TYPE_CHECKING:
    import numpy as np
    from onnx import TensorProto


class StoredTensors:
    """Values of initializers and constants.

    Args:
        source: the file.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._external: dict[tuple[str, str, str], str] = {}

    def initializer(self, tensor: TensorProto, name: str) -> Value:
        """A stored tensor under the name it has in the graph."""
        where = f"{self._source.path}: initializer {name!r}"
        if tensor.external_data:
            external_bytes(self._source, tensor, 1 << 62)
        dtype = dtype_name(tensor.data_type, where)
        shape = checked_shape(tuple(tensor.dims), where)
        stored = Tensor(self._tied(tensor, name, dtype, shape), dtype, shape)
        weights = (stored,) if dtype in FLOATS and stored.elements > 1 else ()
        return Value(name, tensor.data_type, shape, constant=True, stored=stored, weights=weights, proto=tensor)

    def sparse(self, tensor: TensorProto, dims: Shape) -> Value:
        """A sparse tensor: its shape, and the bytes of its values."""
        value = self.initializer(tensor, tensor.name)
        value.shape, value.proto = checked_shape(dims, f"{self._source.path}: initializer {tensor.name!r}"), None
        return value

    def _tied(self, tensor: TensorProto, name: str, dtype: str, shape: Shape) -> str:
        """The name of the first tensor that is stored at the same place, for weights that are shared."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if "offset" not in entries and "length" not in entries:
            return name
        key = (entries.get("location", ""), entries.get("offset", "0"), f"{dtype}{shape}")
        return self._external.setdefault(key, name)

    def data(self, value: Value | None) -> np.ndarray[Any, Any] | None:
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
        elif proto.data_location == TensorProto.EXTERNAL:
            raise InputError(f"{self._source.path}: tensor {value.name!r}: no file is named for its external data")
        try:
            return numpy_helper.to_array(proto)
        except (ValueError, TypeError, RuntimeError, OSError, KeyError):
            raise InputError(f"{self._source.path}: tensor {value.name!r}: its data do not fit its shape") from None

    def constant(self, node: Node) -> Value:
        """The output of a ``Constant`` node."""
        import numpy as np

        name = node.outputs[0]
        attributes = node.attributes
        if "value" in attributes:
            return self.initializer(attributes["value"], name)
        if "sparse_value" in attributes:
            sparse = attributes["sparse_value"]
            return self.sparse(sparse.values, tuple(sparse.dims))
        for key, dtype in (
            ("value_int", np.int64),
            ("value_ints", np.int64),
            ("value_float", np.float32),
            ("value_floats", np.float32),
        ):
            if key in attributes:
                array = np.asarray(attributes[key], dtype=dtype)
                return constant_value(node, name, array, [])
        texts = attributes.get("value_strings", [])
        return Value(name, 8, (len(texts),) if "value_strings" in attributes else (), constant=True)
