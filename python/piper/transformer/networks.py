"""Whole transformers: language models, encoders with decoders, vision transformers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from piper.model import Model, Operator, Partition, Tensor
from piper.transformer import operators as op
from piper.transformer.architecture import Activations, Block, Norm
from piper.transformer.assemble import Assembly, padded_vocabulary
from piper.transformer.blocks import block

_TABLE = "embedding"
_HEAD = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A stack of equal blocks over tokens, with an embedding before and scores of the vocabulary after it."""

    name: str
    block: Block
    block_name: str
    layers: int
    vocabulary: int
    tied: bool
    """Whether embedding and head share their weight."""
    positions: int = 0
    """Rows of a learned table of positions; 0 for none."""
    segments: int = 0
    """Rows of a table of segments; 0 for none."""
    embedding_norm: bool = False
    embedding_dropout: bool = False
    masked: bool = False
    """Whether the head is that of BERT, with a transformation before the scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoder:
    """T5: two stacks over a shared table."""

    name: str
    block: Block
    """Of the encoder; the decoder's attend to the encoder as well."""
    encoder_layers: int
    decoder_layers: int
    vocabulary: int
    tied: bool
    buckets: int
    """Rows of the tables of relative positions, one for each stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vision:
    """A stack of equal blocks over the patches of an image, with a classifier."""

    name: str
    block: Block
    layers: int
    patches: int
    patch_features: int
    image: tuple[int, int, int]
    classes: int


def language_model(shape: Language, stream: Activations) -> Model:
    """GPT, Llama, BERT and their relatives."""
    assembly = Assembly()
    hidden = shape.block.hidden
    size = stream.bytes(hidden)
    last = assembly.layer("embedding", _embedding(shape, stream), input_bytes=8 * stream.tokens)
    for number in range(shape.layers):
        name = f"layer.{number}"
        operators = block(name, shape.block, stream, None)
        last = assembly.layer(name, operators, [(last, size)], input_bytes=size, block=shape.block_name)
    assembly.layer("head", _language_head(shape, stream), [(last, size)], input_bytes=size)
    return assembly.model(
        shape.name,
        dtype=stream.dtype,
        batch=stream.batch,
        inputs=[_tokens("input_ids", stream)],
        tokens=stream.tokens,
        assumptions=_assumptions(stream, shape.block),
    )


def encoder_decoder(shape: EncoderDecoder, stream: Activations) -> Model:
    """T5. Every layer of the decoder reads the encoder's output."""
    assembly = Assembly()
    hidden = shape.block.hidden
    size = stream.bytes(hidden)
    last = assembly.layer("encoder.embedding", _t5_embedding("encoder", shape, stream), input_bytes=8 * stream.tokens)
    for number in range(shape.encoder_layers):
        name = f"encoder.layer.{number}"
        operators = block(name, shape.block, stream, None)
        last = assembly.layer(name, operators, [(last, size)], input_bytes=size, block="EncoderLayer")
    # The output is kept here, once, for all layers that read it.
    final = op.norm("encoder.norm", stream, hidden, shape.block.norm)
    final = replace(final, saved_bytes=final.saved_bytes + size)
    encoded = assembly.layer(
        "encoder.norm", [final, *_dropout("encoder", shape.block, stream)], [(last, size)], input_bytes=2 * size
    )
    last = assembly.layer("decoder.embedding", _t5_embedding("decoder", shape, stream), input_bytes=8 * stream.tokens)
    decoder = replace(shape.block, cross_attention=True)
    for number in range(shape.decoder_layers):
        name = f"decoder.layer.{number}"
        operators = block(name, decoder, stream, stream)
        reads = [(last, size), (encoded, size)]
        last = assembly.layer(name, operators, reads, input_bytes=size, block="DecoderLayer")
    head = [
        op.norm("decoder.norm", stream, hidden, shape.block.norm),
        *_dropout("decoder.output", shape.block, stream),
        *_scores(hidden, shape.vocabulary, stream, tied=shape.tied, bias=False),
    ]
    assembly.layer("head", head, [(last, size)], input_bytes=size)
    return assembly.model(
        shape.name,
        dtype=stream.dtype,
        batch=stream.batch,
        inputs=[_tokens("input_ids", stream), _tokens("decoder_input_ids", stream)],
        tokens=stream.tokens,
        assumptions=[*_assumptions(stream, shape.block), "the decoder's sequence is as long as the encoder's"],
    )


def vision_model(shape: Vision, stream: Activations) -> Model:
    """The vision transformer; the sequence is one class token and the patches."""
    hidden = shape.block.hidden
    patches = replace(stream, sequence=shape.patches)
    stream = replace(stream, sequence=shape.patches + 1)
    size = stream.bytes(hidden)
    pixels = Tensor("pixel_values", stream.dtype, (stream.batch, *shape.image))
    positions = op.added_table("embedding.positions", "positions.weight", stream, stream.sequence, hidden)
    token = Tensor("class_token", stream.dtype, (1, hidden))
    assembly = Assembly()
    embedding = [
        op.product("embedding.patches", patches, shape.patch_features, {"patches": hidden}, bias=True),
        replace(positions, weights=(*positions.weights, token)),
        *_dropout("embedding", shape.block, stream),
    ]
    last = assembly.layer("embedding", embedding, input_bytes=pixels.bytes)
    for number in range(shape.layers):
        name = f"layer.{number}"
        operators = block(name, shape.block, stream, None)
        last = assembly.layer(name, operators, [(last, size)], input_bytes=size, block="EncoderLayer")
    one = replace(stream, sequence=1)
    head = [
        op.norm("norm", stream, hidden, shape.block.norm),
        op.product("classifier", one, hidden, {"classifier": shape.classes}, bias=True),
        op.cross_entropy("loss", one, shape.classes, partition=Partition.REPLICATED, divides=1),
    ]
    assembly.layer("head", head, [(last, size)], input_bytes=size)
    return assembly.model(
        shape.name, dtype=stream.dtype, batch=stream.batch, inputs=[pixels], tokens=None,
        assumptions=[f"microbatch of {stream.batch}, {stream.dtype}"],
    )  # fmt: skip


def _embedding(shape: Language, stream: Activations) -> list[Operator]:
    hidden = shape.block.hidden
    operators = [_words("embedding.words", hidden, shape.vocabulary, stream)]
    if shape.positions:
        operators.append(op.added_table("embedding.positions", "positions.weight", stream, shape.positions, hidden))
    if shape.segments:
        operators.append(op.added_table("embedding.segments", "segments.weight", stream, shape.segments, hidden))
    if shape.embedding_norm:
        operators.append(op.norm("embedding.norm", stream, hidden, shape.block.norm))
    if shape.embedding_dropout:
        operators.append(op.dropout("embedding.dropout", stream, hidden))
    return operators


def _t5_embedding(stack: str, shape: EncoderDecoder, stream: Activations) -> list[Operator]:
    """Words, and the bias that relative positions give to the scores of all layers of the stack."""
    heads = shape.block.attention.heads
    matrix = Tensor(f"{stack}.relative_bias", stream.dtype, (1, heads, stream.sequence, stream.sequence))
    bias = Operator(
        name=matrix.name,
        op_type="Embedding",
        rule="look-up",
        flops=0,
        input_bytes=8 * stream.sequence**2,
        output_bytes=matrix.bytes,
        weights=(Tensor(f"{stack}.relative_bias.weight", stream.dtype, (shape.buckets, heads)),),
        partition=Partition.SHARDED,
        divides=heads,
        outputs=(matrix,),
        dtype=stream.dtype,
    )
    words = _words(f"{stack}.embedding.words", shape.block.hidden, shape.vocabulary, stream)
    return [words, *_dropout(f"{stack}.embedding", shape.block, stream), bias]


def _words(name: str, hidden: int, vocabulary: int, stream: Activations) -> Operator:
    return op.lookup(name, f"{_TABLE}.weight", stream, vocabulary, hidden, divides=padded_vocabulary(vocabulary))


def _dropout(prefix: str, shape: Block, stream: Activations) -> list[Operator]:
    return [op.dropout(f"{prefix}.dropout", stream, shape.hidden)] if shape.dropout else []


def _language_head(shape: Language, stream: Activations) -> list[Operator]:
    hidden = shape.block.hidden
    norm: Norm = shape.block.norm
    if not shape.masked:
        scores = _scores(hidden, shape.vocabulary, stream, tied=shape.tied, bias=False)
        return [op.norm("norm", stream, hidden, norm), *scores]
    return [
        op.product("head.transform", stream, hidden, {"head.transform": hidden}, bias=True),
        op.activation("head.activation", stream, hidden, gated=False, partition=Partition.REPLICATED),
        op.norm("head.norm", stream, hidden, norm),
        *_scores(hidden, shape.vocabulary, stream, tied=shape.tied, bias=True),
    ]


def _scores(hidden: int, vocabulary: int, stream: Activations, *, tied: bool, bias: bool) -> list[Operator]:
    """Scores of the vocabulary, divided by columns, and the loss."""
    divides = padded_vocabulary(vocabulary)
    product = op.product(
        "head.scores",
        stream,
        hidden,
        {_TABLE if tied else _HEAD: vocabulary},
        partition=Partition.COLUMN,
        divides=divides,
    )
    if bias:
        product = replace(product, weights=(*product.weights, Tensor("head.bias", stream.dtype, (vocabulary,))))
    loss = op.cross_entropy("loss", stream, vocabulary, partition=Partition.SHARDED, divides=divides)
    return [product, loss]


def _tokens(name: str, stream: Activations) -> Tensor:
    return Tensor(name, "int64", (stream.batch, stream.sequence))


def _assumptions(stream: Activations, shape: Block) -> list[str]:
    sizes = f"sequence of {stream.sequence}, microbatch of {stream.batch}, {stream.dtype}"
    vocabulary = "the vocabulary is divided as if padded to a multiple of 128"
    return [sizes, vocabulary, *(["tokens are spread evenly over the experts"] if shape.experts else [])]
