from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shared import shared_path

from piper.errors import InputError
from piper.formats import builtin
from piper.formats.huggingface import load_huggingface, model_types
from piper.model import Model, Partition
from piper.onnx import load_onnx

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
    "vocab_size": 512,
}
GPT: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 1024,
    "n_layer": 3,
    "n_head": 16,
    "n_positions": 2048,
    "vocab_size": 51200,
}


@pytest.fixture
def config(tmp_path: Path) -> Callable[[object], Path]:
    def write(document: object) -> Path:
        path = tmp_path / "config.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    return write


PUBLISHED = {
    "gpt2": 124.4e6,
    "gpt3-175b": 174.6e9,
    "llama2-7b": 6.738e9,
    "llama2-70b": 68.98e9,
    "llama3-8b": 8.030e9,
    "llama3-70b": 70.55e9,
    "llama3-405b": 405.9e9,
    "mistral-7b": 7.242e9,
    "mixtral-8x7b": 46.70e9,
    "qwen2.5-72b": 72.71e9,
    "qwen3-32b": 32.76e9,
    "bert-base": 109.5e6,
    "bert-large": 335.2e6,
    "t5-11b": 11.31e9,
    "vit-large": 304.3e6,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_built_in_models_have_the_published_number_of_parameters(name: str) -> None:
    assert builtin.load(name).parameters == pytest.approx(PUBLISHED[name], rel=0.001)


def test_defaults_of_built_in_models() -> None:
    model = builtin.load("llama3-8b")
    assert (model.batch, model.tokens, model.dtype) == (1, 4096, "bfloat16")
    assert builtin.load("gpt2").tokens == 1024
    assert builtin.load("LLAMA3-8B ").name == "llama3-8b"


def test_an_unknown_name_is_answered_with_similar_ones() -> None:
    with pytest.raises(InputError, match=r"similar names: .*llama3-8b"):
        builtin.load("lama3-8b")
    with pytest.raises(InputError, match="expected one of gpt2"):
        builtin.load("\n" * 100)


@pytest.mark.parametrize("name", builtin.names())
def test_every_built_in_model_is_a_sound_graph(name: str) -> None:
    model = builtin.load(name)
    positions = [position for layer in model.layers for position in layer.operators]
    assert positions == list(range(len(model.operators)))
    assert all(edge.source < edge.target for edge in model.edges)
    assert {edge.target for edge in model.edges} >= set(range(1, len(model.layers))) - _starts(model)
    assert len({operator.name for operator in model.operators}) == len(model.operators)
    assert all(layer.degrees[0] == 1 for layer in model.layers)


def _starts(model: Model) -> set[int]:
    return {number for number, layer in enumerate(model.layers) if layer.name.endswith("embedding")}


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("sequence", [512, 2048])
def test_flops_of_gpt_follow_the_published_formula(
    config: Callable[[object], Path], batch: int, sequence: int
) -> None:
    # Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021, section 5.1.
    model = load_huggingface(config(GPT), microbatch_size=batch, sequence=sequence)
    layers, hidden, vocabulary = 3, 1024, 51200
    published = (
        72 * batch * sequence * layers * hidden**2
        * (1 + sequence / (6 * hidden) + vocabulary / (12 * hidden * layers))
    )  # fmt: skip
    assert 3 * model.flops == pytest.approx(published, rel=1e-12)


def test_one_layer_of_gpt_keeps_what_is_published(config: Callable[[object], Path]) -> None:
    model = load_huggingface(config(GPT), microbatch_size=2)
    unit = 2048 * 2 * 1024
    operators = [model.operators[position] for position in model.layers[1].operators]
    assert sum(operator.saved_bytes for operator in operators) == 34 * unit
    assert sum(operator.saved_bytes_unfused for operator in operators) == 5 * 16 * 2048 // 1024 * unit


def test_options_override_the_file(config: Callable[[object], Path]) -> None:
    model = load_huggingface(config(LLAMA), sequence=256, microbatch_size=3, dtype="fp32", vocabulary=1000)
    assert model.tokens == 768
    assert model.dtype == "float32"
    assert model.inputs[0].shape == (3, 256)
    assert model.weight_bytes == 4 * model.parameters
    assert {weight.name: weight.shape for weight in model.weights}["embedding.weight"] == (1000, 64)


def test_degrees_divide_heads_key_heads_and_features(config: Callable[[object], Path]) -> None:
    model = load_huggingface(config(LLAMA))
    assert model.layers[1].degrees == (1, 2, 4)
    assert load_huggingface(config(LLAMA | {"num_key_value_heads": 1})).layers[1].degrees == (1,)
    assert load_huggingface(config(LLAMA | {"intermediate_size": 98})).layers[1].degrees == (1, 2)
    # Vocabularies are padded.
    assert 8 in load_huggingface(config(LLAMA), vocabulary=50257).layers[0].degrees


def test_tied_embeddings_share_their_weight(config: Callable[[object], Path]) -> None:
    untied = load_huggingface(config(LLAMA))
    tied = load_huggingface(config(LLAMA | {"tie_word_embeddings": True}))
    assert untied.parameters - tied.parameters == 512 * 64
    assert untied.flops == tied.flops


def test_a_mixture_computes_with_the_active_experts_only() -> None:
    dense, mixture = builtin.load("mistral-7b"), builtin.load("mixtral-8x7b")
    block = {o.name.partition(".feed_forward.")[2]: o for o in mixture.operators if "layer.0.feed_forward" in o.name}
    up = next(o for o in dense.operators if o.name == "layer.0.feed_forward.up")
    assert block["experts.up"].flops == 2 * up.flops
    assert block["experts.up"].weight_bytes == 8 * up.weight_bytes
    assert block["experts.up"].partition is Partition.EXPERT


def test_every_decoder_layer_reads_the_encoder() -> None:
    model = builtin.load("t5-11b")
    names = [layer.name for layer in model.layers]
    readers = {edge.target for edge in model.edges if names[edge.source] == "encoder.norm"}
    assert readers == {number for number, name in enumerate(names) if name.startswith("decoder.layer.")}
    sizes = {edge.bytes for edge in model.edges}
    assert sizes == {512 * 1024 * 2}


@pytest.mark.parametrize(
    ("name", "file", "size", "copied"),
    [
        ("llama3-8b", "llama3_8b_dynamo_full.onnx", {}, 0),
        # The export has the tied table twice, once for the look-up and once transposed for the scores.
        ("bert-base", "bert_base_mlm_ts_static.onnx", {}, 30522 * 768),
        ("gpt2", "gpt2_dynamo.onnx", {"batch": 2, "seq": 128}, 0),
    ],
)
def test_counts_agree_with_exported_graphs(name: str, file: str, size: dict[str, int], copied: int) -> None:
    graph = load_onnx(shared_path("onnx", "models", file), dims=size)
    batch, sequence = graph.inputs[0].shape
    model = builtin.load(name, sequence=sequence, microbatch_size=batch)
    assert model.flops == pytest.approx(graph.flops, rel=0.01)
    assert model.parameters + copied == pytest.approx(graph.parameters, rel=0.001)


@pytest.mark.parametrize(
    "key", [key for key in LLAMA if key not in ("num_key_value_heads", "max_position_embeddings")]
)
def test_a_missing_key_is_named(config: Callable[[object], Path], key: str) -> None:
    path = config({name: value for name, value in LLAMA.items() if name != key})
    with pytest.raises(InputError) as raised:
        load_huggingface(path)
    assert str(path) in str(raised.value)
    assert f'the key "{key}" is missing' in str(raised.value)


@pytest.mark.parametrize("value", [0, -4, 2**60, 1.5, math.nan, math.inf, "64", True, [], {}, 10**400])
@pytest.mark.parametrize("key", [key for key in LLAMA if key != "model_type"])
def test_an_impossible_value_is_named(config: Callable[[object], Path], key: str, value: object) -> None:
    path = config(LLAMA | {key: value})
    with pytest.raises(InputError) as raised:
        load_huggingface(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: $.{key}: expected a whole number from 1 to ")
    assert text.isprintable()
    assert len(text) < 400 + len(str(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "abacus"}, "'abacus' is not supported; expected one of gpt2, llama"),
        ({"model_type": 3}, "$.model_type: expected a string, got 3"),
        ({"num_key_value_heads": 3}, "expected a divisor of num_attention_heads, 8, got 3"),
        ({"hidden_size": 65}, "expected a multiple of the number of heads, 8, got 65"),
        ({"num_hidden_layers": 10**6}, "$.num_hidden_layers: expected a whole number from 1 to 10000, got 1000000"),
        ({"tie_word_embeddings": "yes"}, '$.tie_word_embeddings: expected true or false, got "yes"'),
        ({"attention_dropout": 2}, "$.attention_dropout: expected a number from 0 to 1, got 2"),
        ({"model_type": "mixtral"}, 'the key "num_local_experts" is missing'),
    ],
)
def test_what_does_not_fit_is_refused(
    config: Callable[[object], Path], change: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as raised:
        load_huggingface(config(LLAMA | change))
    assert message in str(raised.value)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"model_type": "llama", "model_type": "bert"}', "\x00"])
def test_what_is_no_configuration_is_refused(config: Callable[[object], Path], text: str) -> None:
    with pytest.raises(InputError):
        load_huggingface(config(text))


@pytest.mark.parametrize(
    "options",
    [
        {"sequence": 0},
        {"sequence": -1},
        {"sequence": 2**40},
        {"microbatch_size": 0},
        {"microbatch_size": 2**40},
        {"vocabulary": 0},
        {"dtype": "int3"},
    ],
)
def test_impossible_options_are_refused(config: Callable[[object], Path], options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        load_huggingface(config(LLAMA), **options)


def test_learned_positions_limit_the_sequence(config: Callable[[object], Path]) -> None:
    with pytest.raises(InputError, match="at most 2048"):
        load_huggingface(config(GPT), sequence=4096)


def test_images_have_no_sequence() -> None:
    assert builtin.load("vit-large", microbatch_size=2).tokens is None
    with pytest.raises(InputError, match="sequence does not apply"):
        builtin.load("vit-large", sequence=128)


def test_the_largest_configuration_is_read_quickly(config: Callable[[object], Path]) -> None:
    model = load_huggingface(config(LLAMA | {"num_hidden_layers": 10_000}))
    assert len(model.layers) == 10_002


def test_every_supported_type_has_a_built_in_model() -> None:
    assert {"gpt2", "llama", "mistral", "mixtral", "qwen2", "qwen3", "bert", "t5", "vit"} == set(model_types())
