from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shared import shared_path

import piper
from piper.costs import Cluster, workload_from_model
from piper.costs.training import Attention
from piper.errors import InputError
from piper.formats.huggingface import Wanted, model_from_config
from piper.model import Model
from piper.prediction import Prediction

SEQUENCE, HIDDEN, HEADS, LAYERS, VOCABULARY = 2048, 6144, 64, 48, 51200
GPT = {"model_type": "gpt2", "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS, "n_positions": SEQUENCE}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GPT), encoding="utf-8")
    return path


def gpt(layers: int = LAYERS, **keys: object) -> Model:
    document = GPT | {"n_layer": layers, "vocab_size": VOCABULARY} | keys
    return model_from_config(document, "gpt", "gpt", Wanted(dtype="float16"))


def evaluate(cluster: str = "1x8:a100-80gb", model: Model | None = None, **options: Any) -> Prediction:
    chosen: dict[str, Any] = {"tensor_parallel": 8, "attention": "unfused"} | options
    configuration = piper.Configuration(**chosen)
    found = piper.evaluate(model or gpt(), configuration, cluster)
    assert isinstance(found, Prediction)
    return found


def run(piper_command: Callable[..., Any], *arguments: object) -> dict[str, Any]:
    done = piper_command(*map(str, arguments))
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture
def piper_command() -> Callable[..., Any]:
    import subprocess
    import sys

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "piper", *arguments], capture_output=True, text=True, check=False
        )

    return call


def test_the_command_line_predicts_a_published_run(config: Path, piper_command: Callable[..., Any]) -> None:
    document = run(
        piper_command, "evaluate", config, "--cluster", "1x8:a100-80gb", "--tp", 8, "--pp", 1, "--dp", 1,
        "--microbatch-size", 4, "--global-batch", 4, "--recompute", "selective", "--sequence-parallel", "--schedule",
        "1f1b", "--attention", "unfused", "--sequence", 2048, "--vocabulary", 51200, "--dtype", "float16",
    )  # fmt: skip
    # Korthikanti et al., 2022, table 5.
    assert document["iterationTime"] == pytest.approx(1.10, rel=0.1)
    assert document["tokensPerSecond"] == pytest.approx(4 * 2048 / document["iterationTime"])
    (memory,) = document["memory"]
    parts = ("weights", "gradients", "optimizer", "activations", "reserve")
    assert memory["total"] == pytest.approx(sum(memory[name] for name in parts))
    assert memory["optimizer"] == 6 * memory["weights"]
    assert document["feasible"] is True


def test_flops_are_those_of_the_published_formulas() -> None:
    # Narayanan et al., 2021, section 5.1, and the appendix: 96 B s l h^2 (...) with, 72 B s l h^2 (...) without full
    # recomputation.
    batch = 4
    base = batch * SEQUENCE * LAYERS * HIDDEN**2
    with_full = 96 * base * (1 + SEQUENCE / (6 * HIDDEN) + VOCABULARY / (16 * LAYERS * HIDDEN))
    without = 72 * base * (1 + SEQUENCE / (6 * HIDDEN) + VOCABULARY / (12 * LAYERS * HIDDEN))
    found = evaluate(global_batch=batch, microbatch_size=4, recompute="full")
    assert found.tflops_per_device * 8e12 * found.iteration_time == pytest.approx(with_full, rel=1e-6)
    assert found.mfu * 8 * 312e12 * found.iteration_time == pytest.approx(without, rel=1e-6)


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("degree", [1, 2, 8])
@pytest.mark.parametrize("attention", ["fused", "unfused"])
def test_activations_of_a_layer_are_those_of_the_published_table(
    degree: int, sequence_parallel: bool, attention: Attention
) -> None:
    # Korthikanti et al., 2022, table 2.
    workload = workload_from_model(
        gpt(2), Cluster("a100-80gb", 1, 8), attention=attention, sequence_parallel=sequence_parallel
    )
    found = {tmpc.id: tmpc.memory_per_microbatch for tmpc in workload.layers[1].tmpcs[degree]}
    unit = SEQUENCE * HIDDEN
    scores = 5 * HEADS * SEQUENCE / HIDDEN / degree
    rest = 34 / degree if sequence_parallel else 10 + 24 / degree
    assert found["vanilla"] == pytest.approx(unit * (rest + (scores if attention == "unfused" else 0)), rel=0.02)
    assert found["full recomp"] == pytest.approx(2 * unit, rel=0.02)
    if attention == "unfused":
        assert found["selective recomp"] == pytest.approx(unit * rest, rel=0.02)


def test_the_first_stage_holds_what_the_schedule_says() -> None:
    # Narayanan et al., 2021, section 2.2; Korthikanti et al., 2022, section 4.2.3 for interleaving.
    options: dict[str, Any] = {"pipeline": 4, "global_batch": 16, "recompute": "full"}
    held = {
        schedule: evaluate("4x8:a100-80gb", schedule=schedule, virtual_stages=parts, **options).stages[0].in_flight
        for schedule, parts in (("gpipe", 1), ("1f1b", 1), ("interleaved", 3))
    }
    assert held == {"gpipe": 16, "1f1b": 4, "interleaved": pytest.approx(4 * (1 + 3 / (4 * 3)))}


def test_interleaving_divides_the_bubble_and_multiplies_transfers() -> None:
    options: dict[str, Any] = {"pipeline": 4, "global_batch": 16}
    plain = evaluate("4x8:a100-80gb", schedule="1f1b", **options)
    parts = evaluate("4x8:a100-80gb", schedule="interleaved", virtual_stages=3, **options)
    assert parts.bubble == pytest.approx(plain.bubble / 3, rel=0.05)
    assert parts.stages[1].transfer == pytest.approx(3 * plain.stages[1].transfer)
    assert sum(len(stage.layers) for stage in parts.stages) == LAYERS + 2
    assert parts.stages[0].layers[:5] == ("embedding", "layer.0", "layer.1", "layer.2", "layer.3")
    assert parts.stages[0].layers[5] == "layer.16"


def test_auto_takes_the_best_that_fits() -> None:
    options: dict[str, Any] = {"pipeline": 4, "global_batch": 64, "recompute": "full"}
    best = evaluate("4x8:a100-80gb", microbatch_size="auto", **options)
    assert best.feasible
    # Interleaving needs a number of microbatches that 4 stages divide: 64, 32, 16, 8, 4.
    tried = [
        evaluate("4x8:a100-80gb", microbatch_size=size, virtual_stages=parts, **options)
        for size in (1, 2, 4, 8, 16)
        for parts in (1, 2, 3, 4, 6, 12)
    ]
    fitting = [found.iteration_time for found in tried if found.feasible]
    assert best.iteration_time == min(fitting)


def test_memory_options_do_what_they_say() -> None:
    options: dict[str, Any] = {"tensor_parallel": 4, "global_batch": 32}
    plain = evaluate("4x8:a100-80gb", **options)
    sharded = evaluate("4x8:a100-80gb", optimizer_sharding=True, **options)
    wide = evaluate("4x8:a100-80gb", gradient_dtype="float32", **options)
    (a,), (b,), (c,) = plain.stages, sharded.stages, wide.stages
    assert b.memory.optimizer == pytest.approx(a.memory.optimizer / 8)
    assert b.optimizer == pytest.approx(a.optimizer / 8)
    assert c.memory.gradients == 2 * a.memory.gradients
    assert c.resync == pytest.approx(2 * a.resync, rel=0.01)
    hidden = evaluate("4x8:a100-80gb", overlap_data_parallel=True, **options)
    assert hidden.stages[0].resync == pytest.approx(a.resync - a.backward)


def test_what_does_not_fit_is_said_so(config: Path, piper_command: Callable[..., Any]) -> None:
    options = ("--cluster", "1x8:v100-16gb", "--tp", "8", "--vocabulary", "51200")
    done = piper_command("evaluate", str(config), *options)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["feasible"] is False
    assert document["peakMemory"] > document["memoryPerDevice"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tensor_parallel": 3}, "tensor_parallel is 3; expected a divisor of the 8 devices"),
        ({"tensor_parallel": 0}, "tensor_parallel is 0; expected a whole number from 1"),
        ({"pipeline": 2}, "tensor_parallel x pipeline x data_parallel is 16; expected at most 8"),
        ({"tensor_parallel": 1, "pipeline": 8, "virtual_stages": 7}, "8 x 7 stages of a model with 48 layers"),
        ({"global_batch": 3, "microbatch_size": 2}, "global_batch is 3; expected a multiple of 1 replicas x 2"),
        ({"schedule": "1f1b", "virtual_stages": 2}, "virtual_stages is 2, but the schedule is 1f1b"),
        ({"schedule": "zigzag"}, "schedule is 'zigzag'; expected gpipe, 1f1b, interleaved or auto"),
        ({"recompute": "some"}, "recompute is 'some'; expected none, selective or full"),
        ({"attention": "flash"}, "attention is 'flash'; expected 'fused' or 'unfused'"),
        (
            {"tensor_parallel": 2, "pipeline": 4, "global_batch": 6, "schedule": "interleaved", "virtual_stages": 2},
            "microbatches of each replica are 6; expected a multiple of the 4 stages",
        ),
    ],
)
def test_impossible_configurations_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        evaluate(**options)
    assert message in str(raised.value)


def test_a_degree_that_does_not_divide_the_heads_is_refused() -> None:
    with pytest.raises(InputError, match=r"does not divide layer 'layer\.0'; expected one of 1, 2, 4"):
        evaluate(model=gpt(n_head=12), tensor_parallel=8)


def test_options_of_configurations_and_of_results_are_kept_apart(
    config: Path, tmp_path: Path, piper_command: Callable[..., Any]
) -> None:
    plan = tmp_path / "plan.json"
    piper.plan("gpt2", "1x8:a100-80gb").save(plan)
    for arguments in (
        ("gpt2", plan, "--cluster", "1x8:a100-80gb", "--tp", "2"),
        ("gpt2", plan, "--cluster", "1x8:a100-80gb", "--schedule", "interleaved"),
        ("gpt2", "--cluster", "1x8:a100-80gb", "--microbatches", "8"),
        ("gpt2", "--tp", "2"),
        (config, "--cluster", "1x8:a100-80gb", "--microbatch-size", "many"),
    ):
        done = piper_command("evaluate", *map(str, arguments))
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert not done.stdout


@pytest.mark.parametrize("option", ["--sequence-parallel", "--optimizer-sharding"])
def test_plans_take_the_same_options(option: str, tmp_path: Path, piper_command: Callable[..., Any]) -> None:
    arguments = ("llama3-8b", "--cluster", "1x8:a100-80gb", "--microbatches", "64", "--attention", "unfused")
    file = tmp_path / "plan.json"
    planned = run(piper_command, "plan", *arguments, option)
    plain = run(piper_command, "plan", *arguments)
    file.write_text(json.dumps(planned), encoding="utf-8")
    scored = run(piper_command, "evaluate", "llama3-8b", file, *arguments[1:], option)
    assert scored["timePerSample"] == pytest.approx(planned["timePerSample"])
    assert planned["timePerSample"] <= plain["timePerSample"] * (1 + 1e-9)


def test_models_without_blocks_and_with_several_kinds_are_cut() -> None:
    for name in ("t5-11b", "vit-large"):
        found = piper.evaluate(name, piper.Configuration(pipeline=4, global_batch=64), "1x8:h100-80gb")
        assert isinstance(found, Prediction)
        assert len(found.stages) == 4
        assert str(found).startswith(name)


CLUSTERS = ("4x8:a100-80gb", "2x8:h100-80gb", "8x4:v100-32gb")


def test_a_graph_and_a_configuration_of_the_same_model_agree() -> None:
    graph = piper.load(shared_path("onnx", "models", "llama3_8b_dynamo_full.onnx"))
    built_in = piper.load("llama3-8b", dtype="float32", sequence=512)
    assert isinstance(graph, Model)
    assert isinstance(built_in, Model)
    assert graph.flops == pytest.approx(built_in.flops, rel=0.01)
    assert graph.weight_bytes == pytest.approx(built_in.weight_bytes, rel=0.01)
    for name in CLUSTERS:
        plans = [piper.plan(model, name) for model in (graph, built_in)]
        cuts = [
            [(stage.ids, stage.data_parallel_degree, stage.tensor_parallel_degree) for stage in plan.stages]
            for plan in plans
        ]
        assert cuts[0] == cuts[1]
        assert plans[0].time_per_sample == pytest.approx(plans[1].time_per_sample, rel=0.02)
        cluster = Cluster.parse(name)
        first, second = (workload_from_model(model, cluster) for model in (graph, built_in))
        for degree in (1, 2, 4):
            one, other = (workload.layers[5].tmpcs[degree][0] for workload in (first, second))
            assert one.time == pytest.approx(other.time, rel=0.04)
            assert one.memory_per_microbatch == pytest.approx(other.memory_per_microbatch, rel=0.02)
            assert one.memory_fixed == pytest.approx(other.memory_fixed, rel=0.01)
