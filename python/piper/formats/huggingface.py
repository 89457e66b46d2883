"""Hugging Face ``config.json``: a transformer given by its sizes.

One function a `model_type` turns the keys of the file into the parts of `piper.transformer`. Keys have the meaning
and the defaults of the library ``transformers``; those that say nothing about sizes are left aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from piper.errors import InputError
from piper.formats.config_keys import Keys
from piper.formats.json_document import parse
from piper.formats.source import decode_text, one_line, read_bytes, shown
from piper.model import Model
from piper.transformer.architecture import Activations, Attention, Block, Experts, FeedForward
from piper.transformer.networks import EncoderDecoder, Language, Vision, encoder_decoder, language_model, vision_model

DEFAULT_SEQUENCE = 4096
MAX_LAYERS = 10_000
MAX_FEATURES = 2**24
MAX_HEADS = 2**16
MAX_EXPERTS = 2**14
MAX_VOCABULARY = 2**27
MAX_SEQUENCE = 2**26
MAX_MICROBATCH = 2**20

_DTYPES = {
    "float64": "float64", "fp64": "float64",
    "float32": "float32", "fp32": "float32",
    "float16": "float16", "fp16": "float16",
    "bfloat16": "bfloat16", "bf16": "bfloat16",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a configuration leaves open; None takes the default.

    Raises:
        InputError: a number is out of range or the type is unknown.
    """

    sequence: int | None = None
    """Tokens in a sample: the smaller of the model's maximum and 4096."""
    microbatch_size: int | None = None
    """Samples in a microbatch: 1."""
    dtype: str | None = None
    """Type of weights and activations: bfloat16."""
    vocabulary: int | None = None
    """Size of the vocabulary: the configuration's."""

    def __post_init__(self) -> None:
        limits = {"sequence": MAX_SEQUENCE, "microbatch_size": MAX_MICROBATCH, "vocabulary": MAX_VOCABULARY}
        for name, largest in limits.items():
            value = getattr(self, name)
            if value is not None and not _is_whole(value, largest):
                raise InputError(f"{name} is {value!r}; expected a whole number from 1 to {largest}")
        if self.dtype is not None and (not isinstance(self.dtype, str) or self.dtype.lower() not in _DTYPES):
            raise InputError(f"dtype is {self.dtype!r}; expected one of {', '.join(dict.fromkeys(_DTYPES.values()))}")

    def stream(self, longest: int | None) -> Activations:
        """The dimensions of activations for a model with so many positions."""
        sequence = self.sequence or min(longest or DEFAULT_SEQUENCE, DEFAULT_SEQUENCE)
        return Activations(self.microbatch_size or 1, sequence, _DTYPES[(self.dtype or "bfloat16").lower()])


def load_huggingface(
    path: str | PathLike[str],
    *,
    sequence: int | None = None,
    microbatch_size: int | None = None,
    dtype: str | None = None,
    vocabulary: int | None = None,
) -> Model:
    """Read a ``config.json``.

    Args:
        path: the file.
        sequence: tokens in a sample; by default the smaller of the model's maximum and 4096.
        microbatch_size: samples in a microbatch; 1 by default.
        dtype: type of weights and activations; bfloat16 by default.
        vocabulary: in place of the file's.

    Raises:
        InputError: the file cannot be used: file, key and what was expected; or an argument is out of range.
    """
    where = shown(path)
    document = parse(decode_text(read_bytes(path), where), where)
    if not isinstance(document, dict):
        raise InputError(f"{where}: $: is no JSON object; expected the configuration of a transformer")
    wanted = Wanted(sequence=sequence, microbatch_size=microbatch_size, dtype=dtype, vocabulary=vocabulary)
    return model_from_config(document, where, where, wanted)


def model_from_config(document: Mapping[str, Any], name: str, where: str, wanted: Wanted) -> Model:
    """The model of a configuration; `where` names its file in messages.

    Raises:
        InputError: as `load_huggingface`.
    """
    keys = Keys(document, where)
    kind = keys.text("model_type")
    if kind not in _READERS:
        known = ", ".join(_READERS)
        raise InputError(f"{where}: $.model_type: {one_line(kind, 60)!r} is not supported; expected one of {known}")
    return _READERS[kind](keys, name, wanted)


def model_types() -> tuple[str, ...]:
    """The values of ``model_type`` that can be read."""
    return tuple(_READERS)


def _gpt2(keys: Keys, name: str, wanted: Wanted) -> Model:
    hidden = keys.whole("n_embd", MAX_FEATURES)
    heads = keys.whole("n_head", MAX_HEADS)
    positions = keys.whole("n_positions", MAX_SEQUENCE)
    dropout = keys.share("resid_pdrop", 0.1) > 0
    block = Block(
        hidden=hidden,
        attention=Attention(
            heads=heads,
            key_heads=heads,
            head_size=_head_size(keys, "n_embd", hidden, heads),
            input_bias=True,
            output_bias=True,
            dropout=keys.share("attn_pdrop", 0.1) > 0,
        ),
        feed_forward=FeedForward(size=keys.whole("n_inner", MAX_FEATURES, 4 * hidden), bias=True),
        dropout=dropout,
    )
    return language_model(
        Language(
            name=name,
            block=block,
            block_name="DecoderLayer",
            layers=keys.whole("n_layer", MAX_LAYERS),
            vocabulary=_vocabulary(keys, wanted),
            tied=keys.truth("tie_word_embeddings", True),
            positions=positions,
            embedding_dropout=keys.share("embd_pdrop", 0.1) > 0,
        ),
        _within(keys, wanted, positions),
    )


def _bert(keys: Keys, name: str, wanted: Wanted) -> Model:
    positions = keys.whole("max_position_embeddings", MAX_SEQUENCE)
    dropout = keys.share("hidden_dropout_prob", 0.1) > 0
    return language_model(
        Language(
            name=name,
            block=_encoder_block(keys, input_bias=True),
            block_name="EncoderLayer",
            layers=keys.whole("num_hidden_layers", MAX_LAYERS),
            vocabulary=_vocabulary(keys, wanted),
            tied=keys.truth("tie_word_embeddings", True),
            positions=positions,
            segments=keys.whole("type_vocab_size", MAX_VOCABULARY, 2),
            embedding_norm=True,
            embedding_dropout=dropout,
            masked=True,
        ),
        _within(keys, wanted, positions),
    )


def _encoder_block(keys: Keys, *, input_bias: bool) -> Block:
    """A layer of BERT or of the vision transformer."""
    hidden = keys.whole("hidden_size", MAX_FEATURES)
    heads = keys.whole("num_attention_heads", MAX_HEADS)
    vision = not input_bias
    return Block(
        hidden=hidden,
        attention=Attention(
            heads=heads,
            key_heads=heads,
            head_size=_head_size(keys, "hidden_size", hidden, heads),
            input_bias=input_bias or keys.truth("qkv_bias", True),
            output_bias=True,
            dropout=keys.share("attention_probs_dropout_prob", 0.0 if vision else 0.1) > 0,
        ),
        feed_forward=FeedForward(size=keys.whole("intermediate_size", MAX_FEATURES), bias=True),
        dropout=keys.share("hidden_dropout_prob", 0.0 if vision else 0.1) > 0,
    )


def _llama(keys: Keys, name: str, wanted: Wanted) -> Model:
    bias = keys.truth("attention_bias", False)
    return _decoder(keys, name, wanted, input_bias=bias, output_bias=bias, key_heads=_heads(keys))


def _mistral(keys: Keys, name: str, wanted: Wanted) -> Model:
    return _decoder(keys, name, wanted)


def _mixtral(keys: Keys, name: str, wanted: Wanted) -> Model:
    count = keys.whole("num_local_experts", MAX_EXPERTS)
    active = keys.whole("num_experts_per_tok", count)
    return _decoder(keys, name, wanted, experts=Experts(count, active))


def _qwen2(keys: Keys, name: str, wanted: Wanted) -> Model:
    return _decoder(keys, name, wanted, input_bias=True)


def _qwen3(keys: Keys, name: str, wanted: Wanted) -> Model:
    bias = keys.truth("attention_bias", False)
    return _decoder(keys, name, wanted, input_bias=bias, output_bias=bias, head_norm=True)


def _decoder(
    keys: Keys,
    name: str,
    wanted: Wanted,
    *,
    input_bias: bool = False,
    output_bias: bool = False,
    head_norm: bool = False,
    key_heads: int | None = None,
    experts: Experts | None = None,
) -> Model:
    """Llama and its relatives; `key_heads` is the default of ``num_key_value_heads``."""
    hidden = keys.whole("hidden_size", MAX_FEATURES)
    heads = _heads(keys)
    shared = keys.whole("num_key_value_heads", MAX_HEADS, key_heads)
    if heads % shared:
        raise keys.wrong("num_key_value_heads", shared, f"a divisor of num_attention_heads, {heads}")
    size = keys.whole("head_dim", MAX_FEATURES, 0, least=0) or _head_size(keys, "hidden_size", hidden, heads)
    attention = Attention(
        heads=heads,
        key_heads=shared,
        head_size=size,
        input_bias=input_bias,
        output_bias=output_bias,
        rotary=True,
        head_norm=head_norm,
        dropout=keys.share("attention_dropout", 0.0) > 0,
    )
    feed_forward = FeedForward(
        size=keys.whole("intermediate_size", MAX_FEATURES), gated=True, bias=keys.truth("mlp_bias", False)
    )
    return language_model(
        Language(
            name=name,
            block=Block(hidden=hidden, attention=attention, feed_forward=feed_forward, experts=experts, norm="rms"),
            block_name="DecoderLayer",
            layers=keys.whole("num_hidden_layers", MAX_LAYERS),
            vocabulary=_vocabulary(keys, wanted),
            tied=keys.truth("tie_word_embeddings", False),
        ),
        wanted.stream(keys.whole("max_position_embeddings", MAX_SEQUENCE, DEFAULT_SEQUENCE)),
    )


def _t5(keys: Keys, name: str, wanted: Wanted) -> Model:
    layers = keys.whole("num_layers", MAX_LAYERS)
    heads = keys.whole("num_heads", MAX_HEADS)
    dropout = keys.share("dropout_rate", 0.1) > 0
    block = Block(
        hidden=keys.whole("d_model", MAX_FEATURES),
        attention=Attention(
            heads=heads, key_heads=heads, head_size=keys.whole("d_kv", MAX_FEATURES), dropout=dropout
        ),
        feed_forward=FeedForward(
            size=keys.whole("d_ff", MAX_FEATURES), gated=keys.text("feed_forward_proj", "relu").startswith("gated")
        ),
        norm="rms",
        dropout=dropout,
    )
    return encoder_decoder(
        EncoderDecoder(
            name=name,
            block=block,
            encoder_layers=layers,
            decoder_layers=keys.whole("num_decoder_layers", MAX_LAYERS, layers),
            vocabulary=_vocabulary(keys, wanted),
            tied=keys.truth("tie_word_embeddings", True),
            buckets=keys.whole("relative_attention_num_buckets", MAX_VOCABULARY, 32),
        ),
        wanted.stream(keys.whole("n_positions", MAX_SEQUENCE, 512)),
    )


def _vit(keys: Keys, name: str, wanted: Wanted) -> Model:
    for option in ("sequence", "vocabulary"):
        if getattr(wanted, option) is not None:
            raise InputError(f"{keys.where}: is a vision transformer; the option {option} does not apply to it")
    image = keys.whole("image_size", MAX_FEATURES)
    patch = keys.whole("patch_size", image)
    patches = (image // patch) ** 2
    if patches >= MAX_SEQUENCE:
        raise keys.wrong("patch_size", patch, f"a size that cuts an image of {image} into fewer than {MAX_SEQUENCE}")
    channels = keys.whole("num_channels", MAX_FEATURES, 3)
    return vision_model(
        Vision(
            name=name,
            block=_encoder_block(keys, input_bias=False),
            layers=keys.whole("num_hidden_layers", MAX_LAYERS),
            patches=patches,
            patch_features=channels * patch * patch,
            image=(channels, image, image),
            classes=keys.whole("num_labels", MAX_VOCABULARY, keys.size_of("id2label") or 2),
        ),
        wanted.stream(None),
    )


def _is_whole(value: object, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= largest


def _heads(keys: Keys) -> int:
    return keys.whole("num_attention_heads", MAX_HEADS)


def _head_size(keys: Keys, name: str, hidden: int, heads: int) -> int:
    if hidden % heads:
        raise keys.wrong(name, hidden, f"a multiple of the number of heads, {heads}")
    return hidden // heads


def _vocabulary(keys: Keys, wanted: Wanted) -> int:
    return wanted.vocabulary or keys.whole("vocab_size", MAX_VOCABULARY)


def _within(keys: Keys, wanted: Wanted, positions: int) -> Activations:
    """The stream of a model that learned its positions and has no others."""
    if (wanted.sequence or 1) > positions:
        raise InputError(f"{keys.where}: sequence is {wanted.sequence}; expected at most {positions}, its positions")
    return wanted.stream(positions)


_READERS: Mapping[str, Callable[[Keys, str, Wanted], Model]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "bert": _bert,
    "t5": _t5,
    "vit": _vit,
}
