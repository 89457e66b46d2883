"""Operators of attention, feed-forward networks and mixtures of experts, in the order in which they run.

Tensor parallelism is that of Megatron-LM (Shoeybi et al., 2019, section 3): the products before attention and
activation are split by column, those after them by row, and what lies between works on heads or columns of its own.
Experts are divided among the devices of a group: tokens are chosen from the whole stream, and the results are summed.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from piper.model import Operator, Partition, Tensor
from piper.transformer.architecture import Activations, Attention, Block, Experts, FeedForward
from piper.transformer.operators import activation, addition, norm, product


def block(prefix: str, shape: Block, stream: Activations, encoded: Activations | None) -> list[Operator]:
    """All operators of a layer; `encoded` is the encoder's output, where it is attended to."""
    operators = self_attention(f"{prefix}.self_attention", shape, stream)
    if shape.cross_attention and encoded is not None:
        operators += cross_attention(f"{prefix}.cross_attention", shape, stream, encoded)
    return operators + feed_forward(f"{prefix}.feed_forward", shape, stream)


def self_attention(prefix: str, shape: Block, stream: Activations) -> list[Operator]:
    """Norm, attention of the stream to itself, addition."""
    attention = shape.attention
    columns = {
        f"{prefix}.query": attention.query_features,
        f"{prefix}.key": attention.key_features,
        f"{prefix}.value": attention.key_features,
    }
    return [
        norm(f"{prefix}.norm", stream, shape.hidden, shape.norm),
        _columns(f"{prefix}.query_key_value", stream, shape.hidden, columns, attention),
        *_heads(prefix, attention, stream, stream),
        *_core(prefix, attention, stream, stream),
        *_joined(prefix, shape, stream),
    ]


def cross_attention(prefix: str, shape: Block, stream: Activations, encoded: Activations) -> list[Operator]:
    """Norm, attention of the stream to the encoder's output, addition.

    The encoder's output is kept once, by the layer that makes it.
    """
    attention = shape.attention
    columns = {f"{prefix}.key": attention.key_features, f"{prefix}.value": attention.key_features}
    return [
        replace(_columns(f"{prefix}.key_value", encoded, shape.hidden, columns, attention), saved_bytes=0),
        norm(f"{prefix}.norm", stream, shape.hidden, shape.norm),
        _columns(f"{prefix}.query", stream, shape.hidden, {f"{prefix}.query": attention.query_features}, attention),
        *_heads(prefix, attention, stream, encoded),
        *_core(prefix, attention, stream, encoded),
        *_joined(prefix, shape, stream),
    ]


def feed_forward(prefix: str, shape: Block, stream: Activations) -> list[Operator]:
    """Norm, feed-forward network or mixture of them, addition."""
    network = shape.feed_forward
    if shape.experts is not None:
        inner = _mixture(prefix, shape.hidden, network, shape.experts, stream)
    else:
        inner = _dense(prefix, shape.hidden, network, stream)
    bias = f"{prefix}.down" if network.bias else None
    return [
        norm(f"{prefix}.norm", stream, shape.hidden, shape.norm),
        *inner,
        addition(f"{prefix}.add", stream, shape.hidden, bias=bias, dropout=shape.dropout),
    ]


def _columns(name: str, stream: Activations, hidden: int, columns: dict[str, int], attention: Attention) -> Operator:
    return product(
        name,
        stream,
        hidden,
        columns,
        partition=Partition.COLUMN,
        divides=gcd(attention.heads, attention.key_heads),
        bias=attention.input_bias,
    )


def _heads(prefix: str, attention: Attention, stream: Activations, keys: Activations) -> list[Operator]:
    """What is done to query and key heads before attention. Query, key and value are kept here.

    Without rotation or norm nothing runs: heads are a view of the product's columns.
    """
    queries_and_keys = stream.bytes(attention.query_features) + keys.bytes(attention.key_features)
    kept = queries_and_keys + keys.bytes(attention.key_features)
    operators = []
    if attention.head_norm:
        operators.append(_on_heads(f"{prefix}.head_norm", "RMSNorm", attention, queries_and_keys, stream))
        names = (f"{prefix}.query_norm.weight", f"{prefix}.key_norm.weight")
        weights = tuple(Tensor(name, stream.dtype, (attention.head_size,)) for name in names)
        operators[-1] = replace(operators[-1], weights=weights, saved_bytes=queries_and_keys, rule="normalisation")
    moved = queries_and_keys if attention.rotary else 0
    kind = "RotaryEmbedding" if attention.rotary else "SplitHeads"
    heads = _on_heads(f"{prefix}.heads", kind, attention, moved, stream)
    return [*operators, replace(heads, saved_bytes=kept)]


def _on_heads(name: str, op_type: str, attention: Attention, moved: int, stream: Activations) -> Operator:
    return Operator(
        name=name,
        op_type=op_type,
        rule="elementwise" if moved else "view",
        flops=0,
        input_bytes=moved,
        output_bytes=moved,
        partition=Partition.SHARDED,
        divides=gcd(attention.heads, attention.key_heads),
        dtype=stream.dtype,
    )


def _core(prefix: str, attention: Attention, stream: Activations, keys: Activations) -> list[Operator]:
    """Scores, softmax, dropout and weighted sum.

    Fused attention runs them as one kernel that keeps no scores; selective recomputation runs them again.
    """
    queries, values = stream.bytes(attention.query_features), keys.bytes(attention.key_features)
    pairs = stream.batch * attention.heads * stream.sequence * keys.sequence
    scores = pairs * stream.width
    flops = 2 * pairs * attention.head_size
    matrix = (stream.batch, attention.heads, stream.sequence, keys.sequence)

    def step(name: str, op_type: str, inputs: int, outputs: int, saved: int, flops: int = 0) -> Operator:
        shape = matrix if op_type != "Context" else stream.shape(attention.query_features)
        return Operator(
            name=f"{prefix}.{name}",
            op_type="MatMul" if flops else op_type,
            rule="core of attention",
            flops=flops,
            input_bytes=inputs,
            output_bytes=outputs,
            saved_bytes_unfused=saved,
            partition=Partition.SHARDED,
            divides=gcd(attention.heads, attention.key_heads),
            outputs=(Tensor(f"{prefix}.{name}", stream.dtype, shape),),
            selective=True,
            dtype=stream.dtype,
        )

    operators = [
        step("scores", "Scores", queries + values, scores, 0, flops),
        step("softmax", "Softmax", scores, scores, scores),
    ]
    if attention.dropout:
        # The mask and the result, which the next product needs.
        operators.append(step("dropout", "Dropout", scores, scores, pairs + scores))
    return [*operators, step("context", "Context", scores + values, queries, 0, flops)]


def _joined(prefix: str, shape: Block, stream: Activations) -> list[Operator]:
    """The product that joins the heads, and the addition to the stream."""
    attention = shape.attention
    bias = f"{prefix}.output" if attention.output_bias else None
    return [
        product(
            f"{prefix}.output",
            stream,
            attention.query_features,
            {f"{prefix}.output": shape.hidden},
            partition=Partition.ROW,
            divides=gcd(attention.heads, attention.key_heads),
        ),
        addition(f"{prefix}.add", stream, shape.hidden, bias=bias, dropout=shape.dropout),
    ]


def _dense(prefix: str, hidden: int, network: FeedForward, stream: Activations) -> list[Operator]:
    return [
        product(
            f"{prefix}.up",
            stream,
            hidden,
            _up(prefix, network),
            partition=Partition.COLUMN,
            divides=network.size,
            bias=network.bias,
        ),
        activation(f"{prefix}.activation", stream, network.size, gated=network.gated, divides=network.size),
        product(
            f"{prefix}.down",
            stream,
            network.size,
            {f"{prefix}.down": hidden},
            partition=Partition.ROW,
            divides=network.size,
        ),
    ]


def _up(prefix: str, network: FeedForward) -> dict[str, int]:
    gate = {f"{prefix}.gate": network.size} if network.gated else {}
    return {**gate, f"{prefix}.up": network.size}


def _mixture(prefix: str, hidden: int, network: FeedForward, experts: Experts, stream: Activations) -> list[Operator]:
    """Router, dispatch, experts and sum of their results; tokens are taken to be spread evenly over the experts."""
    chosen = replace(stream, sequence=stream.sequence * experts.active)
    return [
        product(f"{prefix}.router", stream, hidden, {f"{prefix}.router": experts.count}),
        Operator(
            name=f"{prefix}.dispatch",
            op_type="Dispatch",
            rule="routing of tokens",
            flops=0,
            input_bytes=stream.bytes(hidden),
            output_bytes=chosen.bytes(hidden),
            partition=Partition.COLUMN,
            divides=experts.count,
            dtype=stream.dtype,
        ),
        _of_experts(product(f"{prefix}.experts.up", chosen, hidden, _up(f"{prefix}.experts", network)), experts),
        activation(
            f"{prefix}.experts.activation",
            chosen,
            network.size,
            gated=network.gated,
            partition=Partition.EXPERT,
            divides=experts.count,
        ),
        _of_experts(
            product(f"{prefix}.experts.down", chosen, network.size, {f"{prefix}.experts.down": hidden}), experts
        ),
        # The results are kept: the gradient of the router's weights needs them.
        Operator(
            name=f"{prefix}.combine",
            op_type="Combine",
            rule="routing of tokens",
            flops=0,
            input_bytes=chosen.bytes(hidden),
            output_bytes=stream.bytes(hidden),
            saved_bytes=chosen.bytes(hidden),
            partition=Partition.ROW,
            divides=experts.count,
            dtype=stream.dtype,
        ),
    ]


def _of_experts(operator: Operator, experts: Experts) -> Operator:
    """A product whose rows go to different experts, each with weights of its own."""
    weights = tuple(replace(weight, shape=(experts.count, *weight.shape)) for weight in operator.weights)
    return replace(
        operator,
        rule="products of experts",
        weights=weights,
        partition=Partition.EXPERT,
        divides=experts.count,
    )
