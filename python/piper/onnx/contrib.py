"""Output shapes of ONNX Runtime's contributed operators (domain ``com.microsoft``), which have no schema here.

Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable

from piper.onnx.graph import Node, Shape, Value
from piper.onnx.shapes import Inferred

Rule = Callable[[Node, list[Value | None]], list[tuple[int, Shape]]]

FLOAT = 1


def contrib_shapes(node: Node, inputs: list[Value | None]) -> Inferred | None:
    """Outputs of a contributed operator, or None if it has no rule here."""
    rule = _RULES.get(node.op_type)
    if node.domain not in ("com.microsoft", "", "com.microsoft.nchwc") or rule is None:
        return None
    outputs = rule(node, inputs)
    outputs += [(0, None)] * (len(node.outputs) - len(outputs))  # type: ignore[list-item]
    return tuple(outputs[: len(node.outputs)])


def _at(inputs: list[Value | None], index: int) -> Value:
    value = inputs[index] if index < len(inputs) else None
    if value is None:
        raise ValueError(f"input {index} is missing")
    return value


def _maybe(inputs: list[Value | None], index: int) -> Value | None:
    return inputs[index] if index < len(inputs) else None


def _same(node: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    first = _at(inputs, 0)
    return [(first.elem_type, first.shape)] * len(node.outputs)


def _broadcast(_: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    values = [value for value in inputs if value is not None and value.shape]
    first = _at(inputs, 0)
    rank = max((len(value.shape) for value in values), default=0)
    shape = [1] * rank
    for value in values:
        for place, size in enumerate(value.shape, rank - len(value.shape)):
            shape[place] = max(shape[place], size)
    return [(first.elem_type, tuple(shape))]


def _skip_norm(_: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    first = _at(inputs, 0)
    statistic = (FLOAT, (*first.shape[:-1], 1))
    return [(first.elem_type, first.shape), statistic, statistic, (first.elem_type, first.shape)]


def _embed_norm(_: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    ids, table = _at(inputs, 0), _at(inputs, 2)
    out = (table.elem_type, (*ids.shape, table.shape[-1]))
    return [out, (6, ids.shape[:1]), out]


def _swap(shape: Shape, batch: bool, last: bool) -> Shape:
    """A matrix operand of FusedMatMul as it is multiplied."""
    if batch and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if last and len(shape) > 1 else shape


def fused_operands(node: Node, left: Shape, right: Shape) -> tuple[Shape, Shape]:
    """Shapes of the operands of ``FusedMatMul`` after its transpositions."""
    return (
        _swap(left, bool(node.integer("transBatchA")), bool(node.integer("transA"))),
        _swap(right, bool(node.integer("transBatchB")), bool(node.integer("transB"))),
    )


def matmul_shape(left: Shape, right: Shape) -> Shape:
    """Shape of ``MatMul``, as numpy has it."""
    batch_left, batch_right = left[:-2], right[:-2]
    rank = max(len(batch_left), len(batch_right))
    padded = ((1,) * (rank - len(shape)) + shape for shape in (batch_left, batch_right))
    batch = tuple(max(sizes) for sizes in zip(*padded, strict=True))
    rows = left[-2:-1] if len(left) > 1 else ()
    columns = right[-1:] if len(right) > 1 else ()
    return (*batch, *rows, *columns)


def _fused_matmul(node: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    left, right = _at(inputs, 0), _at(inputs, 1)
    return [(left.elem_type, matmul_shape(*fused_operands(node, left.shape, right.shape)))]


def _integer_matmul(_: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    left, right = _at(inputs, 0), _at(inputs, 1)
    return [(FLOAT, matmul_shape(left.shape, right.shape))]


def _matmul_nbits(node: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    left = _at(inputs, 0)
    return [(left.elem_type, (*left.shape[:-1], node.integer("N")))]


def _gemm(node: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    left, right = _at(inputs, 0), _at(inputs, 1 if node.op_type != "QGemm" else 3)
    rows = left.shape[1 if node.integer("transA") else 0]
    columns = right.shape[0 if node.integer("transB") else 1]
    elem = left.elem_type if node.op_type != "QGemm" or _maybe(inputs, 7) is not None else FLOAT
    return [(elem, (rows, columns))]


def _attention(node: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    if node.domain == "":
        raise ValueError("an operator set of ai.onnx with Attention was expected")
    value, weight = _at(inputs, 0), _at(inputs, 1)
    batch, length = value.shape[:2]
    sizes = node.integers("qkv_hidden_sizes")
    hidden = sizes[2] if sizes else weight.shape[-1] // 3
    heads = max(1, node.integer("num_heads", 1))
    past = _maybe(inputs, 4)
    total = length + (past.shape[3] if past is not None and len(past.shape) == 5 else 0)
    out = (value.elem_type, (batch, length, hidden))
    return [out, (value.elem_type, (2, batch, heads, total, hidden // heads))]


def _multi_head_attention(node: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    query, value = _at(inputs, 0), _maybe(inputs, 2)
    heads = max(1, node.integer("num_heads", 1))
    batch, length = query.shape[:2]
    if value is None:  # query is [batch, length, heads, 3, head], or key is packed with the values
        width = heads * query.shape[-1] if len(query.shape) == 5 else query.shape[-1]
        keys = length
    elif len(value.shape) == 4:
        width, keys = value.shape[1] * value.shape[3], value.shape[2]
    else:
        width, keys = value.shape[-1], value.shape[1]
    past = _maybe(inputs, 6)
    total = keys + (past.shape[2] if past is not None and len(past.shape) == 4 else 0)
    present = (query.elem_type, (batch, heads, total, width // heads))
    return [(query.elem_type, (batch, length, width)), present, present]


def group_query_sizes(node: Node, inputs: list[Value | None]) -> tuple[int, int, int, int, int, int]:
    """Batch, query length, key length, heads, key-value heads and head size of ``GroupQueryAttention``."""
    query, key, past = _at(inputs, 0), _maybe(inputs, 1), _maybe(inputs, 3)
    heads = max(1, node.integer("num_heads", 1))
    kv_heads = max(1, node.integer("kv_num_heads", heads))
    batch, length = query.shape[:2]
    head = query.shape[-1] // (heads if key is not None else heads + 2 * kv_heads)
    before = past.shape[2] if past is not None and len(past.shape) == 4 else 0
    return batch, length, before + length, heads, kv_heads, head


def _group_query_attention(node: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    elem = _at(inputs, 0).elem_type
    batch, length, total, heads, kv_heads, head = group_query_sizes(node, inputs)
    present = (elem, (batch, kv_heads, total, head))
    return [(elem, (batch, length, heads * head)), present, present]


def _linear_classifier(node: Node, inputs: list[Value | None]) -> list[tuple[int, Shape]]:
    rows = _at(inputs, 0).shape[0]
    labels = node.attributes.get("classlabels_ints") or node.attributes.get("classlabels_strings") or [0]
    return [(8 if node.attributes.get("classlabels_strings") else 7, (rows,)), (FLOAT, (rows, max(2, len(labels))))]


_RULES: dict[str, Rule] = {
    "Attention": _attention,
    "BiasAdd": _same,
    "BiasGelu": _same,
    "BiasSoftmax": _same,
    "DynamicQuantizeMatMul": _integer_matmul,
    "EmbedLayerNormalization": _embed_norm,
    "FastGelu": _same,
    "FusedGemm": _gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": _same,
    "GroupNorm": _same,
    "GroupQueryAttention": _group_query_attention,
    "LayerNormalization": _skip_norm,
    "MatMulBnb4": _matmul_nbits,
    "MatMulFpQ4": _matmul_nbits,
    "MatMulIntegerToFloat": _integer_matmul,
    "MatMulNBits": _matmul_nbits,
    "MoE": _same,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _attention,
    "QGemm": _gemm,
    "QLinearAdd": lambda node, inputs: _broadcast(node, [_at(inputs, 0), _at(inputs, 3)]),
    "QLinearMul": lambda node, inputs: _broadcast(node, [_at(inputs, 0), _at(inputs, 3)]),
    "QLinearLeakyRelu": _same,
    "QLinearSigmoid": _same,
    "QLinearSoftmax": _same,
    "QMoE": _same,
    "QuickGelu": _same,
    "RMSNormalization": _same,
    "RotaryEmbedding": _same,
    "SimplifiedLayerNormalization": _skip_norm,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_norm,
}


def ml_shapes(node: Node, inputs: list[Value | None]) -> Inferred | None:
    """Outputs of classical models (domain ``ai.onnx.ml``) that ONNX's own inference leaves open."""
    if node.domain == "ai.onnx.ml" and node.op_type == "LinearClassifier":
        return tuple(_linear_classifier(node, inputs)[: len(node.outputs)])
    return None
