"""What an operator costs: one rule per operator type.

A rule gives floating-point operations, 2 per multiply-add, for matrix multiplications, convolutions and recurrent
cells. Everything else costs the bytes that it moves. An operator without a rule is costed by bytes, too, but
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from piper.model import Tensor
from piper.onnx.contrib import fused_operands, group_query_sizes
from piper.onnx.graph import Kind, Shape, Step, Value, count

FlopRule = Callable[[Step], int]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named way to count.

    Attributes:
        name: what ``piper inspect`` prints.
        flops: floating-point operations of a step.
    """

    name: str
    flops: FlopRule


def rule_of(step: Step) -> Rule | None:
    """The rule for `step`, or None for an operator type without one."""
    if step.kind is Kind.CONSTANT:
        return _CONSTANT
    if step.kind is Kind.VIEW:
        return _VIEW
    return RULES.get((step.node.domain, step.node.op_type)) or _BYTES.get((step.node.domain, step.node.op_type))


def flops(step: Step) -> int:
    """Floating-point operations of one run of `step`, all turns of a loop included."""
    if step.body:
        return step.trips * total_flops(step.body)
    rule = rule_of(step)
    return rule.flops(step) if rule is not None else 0


def total_flops(steps: Sequence[Step]) -> int:
    """Floating-point operations of `steps`."""
    return sum(flops(step) for step in steps if step.kind is Kind.LIVE)


def total_weights(steps: Sequence[Step]) -> tuple[Tensor, ...]:
    """Parameters of `steps`, each once."""
    return tuple({weight.name: weight for step in steps for weight in weights(step)}.values())


def weights(step: Step) -> tuple[Tensor, ...]:
    """Parameters that `step` reads, each once, as the file stores them."""
    found = {weight.name: weight for weight in step.idle_weights}
    if step.kind is not Kind.LIVE:
        return tuple(found.values())
    for inner in step.body:
        found |= {weight.name: weight for weight in weights(inner)}
    quantised = step.node.op_type in QUANTISED
    for value in step.inputs[: TABLES_FROM.get(step.node.op_type)]:
        if value is None or not value.constant:
            continue
        found |= {weight.name: weight for weight in value.weights}
        if quantised and value.stored is not None and value.stored.elements > 1:
            found[value.stored.name] = value.stored
    return tuple(found.values())


def input_bytes(step: Step) -> int:
    """Activations and computed constants that `step` reads; of a slice or a lookup, only what it picks."""
    if step.kind is not Kind.LIVE:
        return 0
    own = sum(
        value.bytes
        for value in dict.fromkeys(step.inputs)
        if value is not None and not value.weights and not _stored(value)
    )
    if step.node.op_type in PICKING and not step.body:
        own = min(own, output_bytes(step) + sum(value.bytes for value in step.live_inputs[1:]))
    return own + step.trips * sum(input_bytes(inner) for inner in step.body)


def output_bytes(step: Step) -> int:
    """Activations that `step` writes."""
    if step.kind is not Kind.LIVE:
        return 0
    own = sum(value.bytes for value in step.outputs if value.name)
    return own + step.trips * sum(output_bytes(inner) for inner in step.body)


def _stored(value: Value) -> bool:
    """Whether a constant is a tensor of the file that no computation made (counted as weight, or negligible)."""
    return value.constant and value.stored is not None


def _shape(step: Step, index: int) -> Shape:
    value = step.input(index)
    if value is None:
        raise ValueError(f"input {index} is missing")
    return value.shape


def _size(step: Step, index: int) -> int:
    return count(_shape(step, index))


def _out(step: Step, index: int = 0) -> int:
    return count(step.outputs[index].shape)


def _nothing(_: Step) -> int:
    return 0


def _matmul(step: Step) -> int:
    return 2 * _out(step) * (_shape(step, 0) or (1,))[-1]


def _fused_matmul(step: Step) -> int:
    left, _ = fused_operands(step.node, _shape(step, 0), _shape(step, 1))
    return 2 * _out(step) * left[-1]


def _matmul_nbits(step: Step) -> int:
    return 2 * _out(step) * _shape(step, 0)[-1]


def _gemm(step: Step) -> int:
    return 2 * _out(step) * _shape(step, 0)[0 if step.node.integer("transA") else 1]


def _conv(position: int) -> FlopRule:
    """Output size times kernel times input channels per group."""
    return lambda step: 2 * _out(step) * count(_shape(step, position)[1:])


def _conv_transpose(step: Step) -> int:
    return 2 * _size(step, 0) * count(_shape(step, 1)[1:])


def _recurrent(step: Step) -> int:
    """Input and recurrent matrices of all gates and directions, once a time step."""
    return 2 * count(_shape(step, 0)[:2]) * (_size(step, 1) + _size(step, 2))


def _einsum(step: Step) -> int:
    """Contract pair by pair from the left, each by the product of its index sizes; 0 where nothing is contracted."""
    equation = str(step.node.attributes["equation"]).replace(" ", "")
    left, _, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) < 2:
        return 0
    sizes: dict[str, int] = {}
    for place, term in enumerate(terms):
        for label, size in zip(_labels(term, len(_shape(step, place))), _shape(step, place), strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    operands = [set(_labels(term, len(_shape(step, place)))) for place, term in enumerate(terms)]
    result = set(_labels(right, len(step.outputs[0].shape)))
    total, current = 0, operands[0]
    for place, operand in enumerate(operands[1:], 1):
        labels = current | operand
        later = result.union(*operands[place + 1 :])
        if labels - later:
            total += 2 * count(tuple(sizes.get(label, 1) for label in labels))
        current = labels & later
    return total


def _labels(term: str, rank: int) -> list[str]:
    """Index names of an operand; those of an ellipsis are numbered from the right."""
    if "..." not in term:
        return list(term)
    before, _, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    return [*before, *(f".{hidden - place}" for place in range(hidden)), *after]


def _scores(batch: int, heads: int, queries: int, keys: int, head: int, value_head: int) -> int:
    """The two batched products of attention."""
    return 2 * batch * heads * queries * keys * (head + value_head)


def _contrib_attention(step: Step) -> int:
    batch, length, width = _shape(step, 0)[:3]
    hidden = step.outputs[0].shape[-1]
    past = step.input(4)
    total = length + (past.shape[3] if past is not None and len(past.shape) == 5 else 0)
    projections = 2 * batch * length * width * _shape(step, 1)[-1]
    return projections + _scores(batch, 1, length, total, hidden, hidden)


def _multi_head_attention(step: Step) -> int:
    query, out = _shape(step, 0), step.outputs[0].shape
    key, past = step.input(1), step.input(6)
    keys = query[1] if key is None else key.shape[2] if len(key.shape) == 4 else key.shape[1]
    keys += past.shape[2] if past is not None and len(past.shape) == 4 else 0
    width = query[-1] if len(query) == 3 else out[-1]
    return _scores(query[0], 1, query[1], keys, width, out[-1])


def _group_query_attention(step: Step) -> int:
    batch, length, total, heads, _, head = group_query_sizes(step.node, list(step.inputs))
    return _scores(batch, heads, length, total, head, head)


def _standard_attention(step: Step) -> int:
    """``Attention`` of ai.onnx, operator set 23: ``[batch, heads, length, head]`` or ``[batch, length, width]``."""
    query, key, past = _shape(step, 0), _shape(step, 1), step.input(4)
    value = _shape(step, 2)
    keys = key[-2] + (past.shape[2] if past is not None else 0)
    if len(query) == 4:
        return _scores(query[0], query[1], query[2], keys, query[3], value[3])
    heads = step.node.integer("q_num_heads", 1)
    kv_heads = max(1, step.node.integer("kv_num_heads", heads))
    return _scores(query[0], heads, query[1], keys, query[2] // max(1, heads), value[2] // kv_heads)


def _mixture(step: Step) -> int:
    """Each token passes ``k`` experts; weights are ``[experts, ...]``."""
    tokens = count(_shape(step, 0)[:-1])
    matrices = [value for value in step.inputs[2:] if value is not None and len(value.shape) == 3]
    return 2 * tokens * step.node.integer("k", 1) * sum(count(value.shape[1:]) for value in matrices)


def _linear_model(step: Step) -> int:
    coefficients = step.node.attributes.get("coefficients") or ()
    return 2 * _shape(step, 0)[0] * len(coefficients)


_CONSTANT, _VIEW = Rule("constant", _nothing), Rule("view", _nothing)
_MS = "com.microsoft"

RULES: dict[tuple[str, str], Rule] = {
    ("", "MatMul"): Rule("matmul", _matmul),
    ("", "MatMulInteger"): Rule("matmul", _matmul),
    ("", "QLinearMatMul"): Rule("matmul", _matmul),
    ("", "Gemm"): Rule("matmul", _gemm),
    ("", "Einsum"): Rule("einsum", _einsum),
    ("", "Conv"): Rule("convolution", _conv(1)),
    ("", "ConvInteger"): Rule("convolution", _conv(1)),
    ("", "QLinearConv"): Rule("convolution", _conv(3)),
    ("", "DeformConv"): Rule("convolution", _conv(1)),
    ("", "ConvTranspose"): Rule("convolution", _conv_transpose),
    ("", "LSTM"): Rule("recurrent", _recurrent),
    ("", "GRU"): Rule("recurrent", _recurrent),
    ("", "RNN"): Rule("recurrent", _recurrent),
    ("", "Attention"): Rule("attention", _standard_attention),
    ("ai.onnx.ml", "LinearClassifier"): Rule("linear model", _linear_model),
    ("ai.onnx.ml", "LinearRegressor"): Rule("linear model", _linear_model),
    (_MS, "Attention"): Rule("attention", _contrib_attention),
    (_MS, "QAttention"): Rule("attention", _contrib_attention),
    (_MS, "MultiHeadAttention"): Rule("attention", _multi_head_attention),
    (_MS, "DecoderMaskedMultiHeadAttention"): Rule("attention", _multi_head_attention),
    (_MS, "GroupQueryAttention"): Rule("attention", _group_query_attention),
    (_MS, "FusedMatMul"): Rule("matmul", _fused_matmul),
    (_MS, "FusedGemm"): Rule("matmul", _gemm),
    (_MS, "QGemm"): Rule("matmul", _gemm),
    (_MS, "DynamicQuantizeMatMul"): Rule("matmul", _matmul),
    (_MS, "MatMulIntegerToFloat"): Rule("matmul", _matmul),
    (_MS, "MatMulNBits"): Rule("matmul", _matmul_nbits),
    (_MS, "MatMulBnb4"): Rule("matmul", _matmul_nbits),
    (_MS, "MatMulFpQ4"): Rule("matmul", _matmul_nbits),
    (_MS, "FusedConv"): Rule("convolution", _conv(1)),
    (_MS, "NhwcFusedConv"): Rule("convolution", _conv(1)),
    (_MS, "NhwcConv"): Rule("convolution", _conv(1)),
    (_MS, "MoE"): Rule("mixture of experts", _mixture),
    (_MS, "QMoE"): Rule("mixture of experts", _mixture),
}
"""Operators that multiply matrices, by domain and type."""

QUANTISED = frozenset(
    {"MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv", "QAttention", "QGemm", "DynamicQuantizeMatMul",
     "MatMulIntegerToFloat", "MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "QMoE"}
)  # fmt: skip
"""Operators whose constant integer inputs are parameters."""

TABLES_FROM = {"GroupQueryAttention": 7, "RotaryEmbedding": 1}
"""Operators that read tables of sines and cosines, which are no parameters, from this input on."""

PICKING = frozenset({"Gather", "GatherND", "GatherElements", "Slice", "Compress"})
"""Operators that read only what they write."""

_BYTE_RULES = {
    "elementwise": (
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
        "CastLike Ceil Celu Clip Cos Cosh CumSum DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf "
        "Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less "
        "LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear Reciprocal Relu "
        "RotaryEmbedding Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh "
        "ThresholdedRelu Where Xor"
    ),
    "reduction": (
        "ArgMax ArgMin GlobalAveragePool GlobalMaxPool GlobalLpPool ReduceL1 ReduceL2 ReduceLogSum "
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Hardmax LogSoftmax "
        "Softmax TopK NonZero Unique"
    ),
    "normalisation": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization "
        "MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization"
    ),
    "pooling": "AveragePool LpPool MaxPool MaxRoiPool MaxUnpool RoiAlign",
    "movement": (
        "Col2Im Compress Concat ConstantOfShape DepthToSpace Expand EyeLike Gather GatherElements GatherND Pad "
        "Range Resize ReverseSequence Scatter ScatterElements ScatterND Slice SpaceToDepth Split TensorScatter "
        "Tile Transpose Trilu Upsample OneHot GridSample CenterCropPad NonMaxSuppression"
    ),
    "sequence": (
        "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
        "SplitToSequence"
    ),
    "random": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "control flow": "Loop Scan",
}
_MS_BYTE_RULES = {
    "elementwise": (
        "BiasAdd BiasGelu DequantizeLinear FastGelu Gelu QLinearAdd QLinearLeakyRelu QLinearMul QLinearSigmoid "
        "QuantizeLinear QuickGelu RotaryEmbedding"
    ),
    "reduction": "BiasSoftmax QLinearSoftmax QLinearGlobalAveragePool",
    "normalisation": (
        "EmbedLayerNormalization GroupNorm SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization"
    ),
}
_BYTES: dict[tuple[str, str], Rule] = {
    **{("", op): Rule(name, _nothing) for name, ops in _BYTE_RULES.items() for op in ops.split()},
    **{(_MS, op): Rule(name, _nothing) for name, ops in _MS_BYTE_RULES.items() for op in ops.split()},
    **{("ai.onnx.ml", op): Rule("elementwise", _nothing) for op in ("Binarizer", "Imputer", "Normalizer", "Scaler")},
}
