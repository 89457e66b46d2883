"""Real exported graphs against their true shapes, counted FLOPs and stored bytes; their layers and partitions."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mutate import mutated
from onnx_graphs import downsets
from shared import shared_path

from piper.errors import InputError
from piper.model import Model, ModelLayer, Partition
from piper.onnx import load_onnx

LINES = {
    "bad_cycle": "cycle, among or before nodes n0, n1, n2",
    "bad_dangling_input": "node 'n0' (Add) reads 'ghost', which nothing produces",
    "bad_empty_graph": "the graph is empty",
    "bad_shape_mismatch": "Incompatible dimensions for matrix multiplication; its inputs are x 4x64, w 48x32",
    "bad_truncated": "truncated, damaged, or no ONNX model",
    "bad_zero_bytes": "the file is empty",
}
BLOCKS = {
    "bert_base_dynamo_static": ("EncoderLayer", 12, (1, 2, 4)),
    "bert_base_ts": ("EncoderLayer", 12, (1, 2, 4)),
    "bert_base_ts_ortfused": ("EncoderLayer", 12, (1, 2, 4)),
    "distilbert_dynamo": ("EncoderLayer", 6, (1, 2, 4)),
    "gpt2_dynamo": ("DecoderLayer", 12, (1, 2, 4)),
    "gpt2_past_ts": ("DecoderLayer", 12, (1, 2, 4)),
    "llama3_8b_dynamo_full": ("DecoderLayer", 32, (1, 2, 4, 8)),
    "llama32L_dynamo": ("DecoderLayer", 32, (1, 2)),
    "llama32L_ts": ("DecoderLayer", 32, (1, 2)),
    "mixtral4L_dynamo_batched": ("DecoderLayer", 4, (1, 2)),
    "odd_functions_helper": ("MLP", 12, (1, 2, 4, 8, 16, 32, 64)),
    "odd_nameless_nodes": ("EncoderLayer", 12, (1, 2, 4)),
    "t5_small_ts": ("DecoderLayer", 5, (1, 2, 4, 8)),
    "unet_small_ts": ("TransformerBlock3", 3, (1, 2, 4, 8)),
    "vit_base_ts": ("EncoderLayer", 12, (1, 2, 4)),
}
"""Most frequent block, how often it comes, and the tensor-parallel degrees that its heads allow."""


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """Entries by name; empty where the shared data are missing."""
    try:
        path = shared_path("onnx", "manifest.json")
    except pytest.skip.Exception:
        return {}
    return {entry["name"]: entry for entry in json.loads(path.read_text())}


NEVER_RUN = ("llama3_8b_dynamo_full", "odd_unknown_domain_op")
"""Graphs that no runtime could run, so that there are no true shapes of them."""
VALID = sorted(name for name in manifest() if not name.startswith("bad_"))


@cache
def model(name: str) -> Model:
    """A model of the collection at the shapes of its true run."""
    return load_onnx(shared_path("onnx", "models", f"{name}.onnx"), shapes=manifest()[name]["input_shapes"])


def block_layers(loaded: Model, block: str) -> list[ModelLayer]:
    return [layer for layer in loaded.layers if layer.block == block]


def partitions(loaded: Model, layer: ModelLayer) -> Counter[Partition]:
    return Counter(loaded.operators[place].partition for place in layer.operators)


@pytest.mark.parametrize("name", [name for name in VALID if name not in NEVER_RUN])
def test_every_shape_and_type_is_the_true_one(name: str) -> None:
    truth = json.loads(shared_path("onnx", "shapes", f"{name}.json").read_text())["values"]
    loaded = model(name)
    found = {tensor.name: tensor for tensor in loaded.inputs}
    found |= {tensor.name: tensor for operator in loaded.operators for tensor in operator.outputs}
    assert set(truth) <= set(found)
    assert {key: [found[key].dtype, list(found[key].shape)] for key in truth} == truth


@pytest.mark.parametrize("name", VALID)
def test_flops_and_stored_bytes_are_those_counted_elsewhere(name: str) -> None:
    entry, loaded = manifest()[name], model(name)
    assert loaded.initializer_bytes == entry["params_bytes"]
    if entry.get("flops") is not None:
        assert loaded.flops == pytest.approx(entry["flops"], rel=0.01)


@pytest.mark.parametrize(
    "name",
    ["bert_base_ts", "distilbert_dynamo", "gpt2_dynamo", "llama3_8b_dynamo_full", "llama32L_ts", "vit_base_ts"],
)
def test_parameters_are_those_of_the_original(name: str) -> None:
    assert model(name).weight_bytes == manifest()[name]["params_bytes_torch"]


@pytest.mark.parametrize(
    ("name", "expected"), [("light_resnet50", 102_440_608), ("light_vgg19", 574_668_960), ("silero_vad", 1_234_432)]
)
def test_parameters_are_found_where_the_file_keeps_them(name: str, expected: int) -> None:
    # 25,610,152 and 143,667,240 elements of 4 bytes; the manifest's initializers are shapes only.
    assert model(name).weight_bytes == expected


@pytest.mark.parametrize("name", sorted(LINES) if VALID else [])
def test_a_bad_file_gives_one_clear_line(name: str) -> None:
    with pytest.raises(InputError) as raised:
        load_onnx(shared_path("onnx", "models", f"{name}.onnx"))
    assert LINES[name] in str(raised.value)
    assert f"{name}.onnx: " in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", VALID)
def test_layers_hold_every_operator_once_and_edges_point_forward(name: str) -> None:
    loaded = model(name)
    placed = Counter(place for layer in loaded.layers for place in layer.operators)
    running = {place for place, operator in enumerate(loaded.operators) if operator.rule != "constant"}
    assert placed == Counter(running)
    assert all(edge.source < edge.target and edge.bytes > 0 for edge in loaded.edges)
    assert all(layer.degrees[0] == 1 for layer in loaded.layers)
    assert len({layer.name for layer in loaded.layers}) == len(loaded.layers)


@pytest.mark.parametrize("name", VALID)
def test_layers_make_a_small_lattice(name: str) -> None:
    assert downsets(model(name)) <= 200


@pytest.mark.parametrize("name", sorted(BLOCKS) if VALID else [])
def test_repeated_blocks_are_found_with_their_degrees(name: str) -> None:
    block, repeats, allowed = BLOCKS[name]
    layers = block_layers(model(name), block)
    assert (len(layers), {layer.degrees for layer in layers}) == (repeats, {allowed})


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        ("llama3_8b_dynamo_full", 5, 2),  # query, key, value, gate, up; output, down
        ("llama32L_ts", 5, 2),
        ("gpt2_dynamo", 2, 2),  # fused query, key and value
        ("bert_base_ts_ortfused", 4, 2),
        ("mixtral4L_dynamo_batched", 4, 2),  # the experts' gate and up are one product
    ],
)
def test_attention_and_mlp_are_column_then_row_parallel(name: str, columns: int, rows: int) -> None:
    loaded = model(name)
    counts = partitions(loaded, block_layers(loaded, BLOCKS[name][0])[0])
    assert (counts[Partition.COLUMN], counts[Partition.ROW]) == (columns, rows)


@pytest.mark.parametrize("name", ["gpt2_dynamo", "llama3_8b_dynamo_full", "mixtral4L_dynamo_batched"])
def test_embedding_and_head_are_split_by_vocabulary(name: str) -> None:
    loaded = model(name)
    assert [loaded.layers[0].name, loaded.layers[-1].name] == ["embedding", "head"]
    assert partitions(loaded, loaded.layers[0])[Partition.VOCABULARY] == 1
    assert partitions(loaded, loaded.layers[-1])[Partition.COLUMN] == 1
    assert loaded.layers[0].degrees == loaded.layers[-1].degrees == (1, 2, 4, 8, 16, 32, 64)


def test_activations_of_a_transformer_layer_follow_the_published_count() -> None:
    # Korthikanti et al. 2022, section 4.1, without dropout masks: 32 s b h bytes in 16 bit, here 32 bit.
    loaded = model("bert_base_ts")
    layer = block_layers(loaded, "EncoderLayer")[1]
    operators = [loaded.operators[place] for place in layer.operators]
    sequence, hidden, heads = 128, 768, 12
    assert sum(operator.saved_bytes for operator in operators) == pytest.approx(2 * 32 * sequence * hidden, rel=0.02)
    unfused = sum(operator.saved_bytes_unfused for operator in operators)
    assert unfused == 4 * heads * sequence * sequence
    assert all(operator.selective for operator in operators if operator.saved_bytes_unfused)


def test_batch_tokens_and_type_are_recognised() -> None:
    llama = model("llama3_8b_dynamo_full")
    assert (llama.batch, llama.tokens, llama.dtype) == (1, 512, "float32")
    resnet = model("resnet50_ts_static_b8")
    assert (resnet.batch, resnet.tokens, resnet.dtype) == (8, None, "float32")
    assert model("bert_base_mlm_ts_static_fp16").dtype == "float16"


def test_a_dtype_of_the_users_replaces_floating_point_types() -> None:
    path = shared_path("onnx", "models", "bert_base_dynamo_static.onnx")
    half = load_onnx(path, dtype="bfloat16")
    full = model("bert_base_dynamo_static")
    assert (half.dtype, half.weight_bytes * 2, half.flops) == ("bfloat16", full.weight_bytes, full.flops)
    assert half.initializer_bytes == full.initializer_bytes


def test_quantised_weights_count_as_stored() -> None:
    loaded = model("resnet50_qdq_int8")
    kinds = Counter[str]()
    for tensor in loaded.weights:
        kinds[tensor.dtype] += tensor.elements
    assert kinds["int8"] == 25_502_912  # 23,454,912 of the convolutions, 2,048,000 of the last layer
    assert loaded.weight_bytes < 26_000_000


def test_symbols_can_be_given_by_name_or_place() -> None:
    path = shared_path("onnx", "models", "bert_base_ts.onnx")
    expected = model("bert_base_ts").flops
    assert load_onnx(path, dims={"batch": 1, "seq": 128}).flops == expected
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    places = {f"{name}.{axis}": size for name in inputs for axis, size in enumerate((1, 128))}
    assert load_onnx(path, dims=places).flops == expected


def test_open_dimensions_are_all_named_with_their_places() -> None:
    with pytest.raises(
        InputError, match=r"batch \(input_ids\.0, attention_mask\.0, decoder_input_ids\.0\); dec_seq \("
    ):
        load_onnx(shared_path("onnx", "models", "t5_small_ts.onnx"), dims={"enc_seq": 8})


def test_assumptions_are_reported_and_can_be_changed() -> None:
    path = shared_path("onnx", "models", "silero_vad.onnx")
    shapes = manifest()["silero_vad"]["input_shapes"]
    assert model("silero_vad").assumptions[0].startswith("If_0.branch = 1: ")
    narrow = load_onnx(path, shapes=shapes | {"input": [1, 288]}, assumptions={"If_0.branch": 0})
    assert narrow.flops < model("silero_vad").flops
    with pytest.raises(InputError, match=r"no assumption 'If_9\.branch'; there are: If_0\.branch"):
        load_onnx(path, shapes=shapes, assumptions={"If_9.branch": 0})


def test_both_branches_of_a_choice_are_stored() -> None:
    # W0, W1, W2, Wo and bias: a step runs W1 or W2, memory holds both.
    assert model("odd_if_loop_helper").weight_bytes == manifest()["odd_if_loop_helper"]["params_bytes"] - 8 * 3 - 1


def test_an_unknown_operator_is_reported() -> None:
    loaded = model("odd_unknown_domain_op")
    assert any("ai.vendor.kernels.FusedRotaryAttention" in text for text in loaded.warnings)
    assert [text.split(":")[0] for text in loaded.assumptions] == ["b.0 = 4", "b.1 = 256"]


def test_a_graph_without_nodes_is_read_with_a_warning() -> None:
    loaded = model("odd_passthrough_no_nodes")
    assert (loaded.operators, loaded.layers) == ((), ())
    assert loaded.warnings == ("the graph has no operators: there is nothing to plan",)


def test_reading_is_deterministic() -> None:
    path = shared_path("onnx", "models", "t5_small_ts.onnx")
    again = load_onnx(path, shapes=manifest()["t5_small_ts"]["input_shapes"])
    assert again == model("t5_small_ts")


def test_importing_piper_does_not_import_onnx() -> None:
    code = "import sys, piper, piper.onnx; assert 'onnx' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_damaged_files_end_in_one_line_or_a_model(tmp_path: Path) -> None:
    names = ("odd_if_loop_helper", "silero_vad_half", "sklearn_logreg", "lstm_tagger_ts", "odd_functions_helper")
    seeds = [shared_path("onnx", "models", f"{name}.onnx").read_bytes() for name in names]
    shapes = [manifest()[name]["input_shapes"] for name in names]
    rng = random.Random(2021)
    path = tmp_path / "model.onnx"
    lines = []
    for trial in range(300):
        which = trial % len(names)
        path.write_bytes(mutated(rng, seeds[which : which + 1], binary=True))
        try:
            load_onnx(path, shapes=shapes[which])
        except InputError as error:
            lines.append(str(error))
    assert len(lines) > 30
    assert not [line for line in lines if "\n" in line or len(line) > 1000]
