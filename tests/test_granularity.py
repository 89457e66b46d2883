"""The same ONNX model as operators, as blocks, and as what can be planned in seconds."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from program import refused, result
from shared import shared_path

import piper
from piper.costs.cluster import Cluster
from piper.costs.workload import workload_from_model
from piper.errors import InputError
from piper.model import Granularity, Model, Partition
from piper.onnx import load_onnx
from piper.onnx.contract import contracted
from piper.workload import Tmpc, Workload

Shapes = dict[str, tuple[int, ...]]
TEXT: Shapes = {"input_ids": (8, 128), "attention_mask": (8, 128)}
SHAPES: dict[str, Shapes] = {
    "bert_base_ts": TEXT | {"token_type_ids": (8, 128)},
    "gpt2_dynamo": TEXT,
    "resnet50_ts": {"input": (8, 3, 224, 224)},
    "light_squeezenet": {},
    "mixtral4L_dynamo_batched": {"input_ids": (8, 64), "attention_mask": (8, 64)},
    "t5_small_ts": TEXT | {"decoder_input_ids": (8, 128)},
    "unet_small_ts": {"sample": (8, 4, 32, 32), "timestep": (1,), "encoder_hidden_states": (8, 77, 128)},
}
DIVIDED = {Partition.COLUMN, Partition.SHARDED, Partition.EXPERT}


@cache
def model(name: str, granularity: Granularity) -> Model:
    return load_onnx(shared_path("onnx", "models", f"{name}.onnx"), shapes=SHAPES[name], granularity=granularity)


def workload(name: str, granularity: Granularity) -> Workload:
    return workload_from_model(model(name, granularity), Cluster.parse("1x8:a100-80gb"))


def write(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, tuple[int, int]]) -> Path:
    """A model of ``x`` and ``y``, 4 x 64; weights without values."""
    tensors = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, bytes(4 * shape[0] * shape[1]), raw=True)
        for name, shape in weights.items()
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.fixture
def block(tmp_path: Path) -> Path:
    """A residual MLP whose activation is written in two operators, behind a product whose result stays whole."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "first"], ["a"], name="first"),
        node("Softmax", ["a"], ["s"], name="softmax"),
        node("MatMul", ["s", "up"], ["h"], name="up"),
        node("Sigmoid", ["h"], ["g"], name="sigmoid"),
        node("Mul", ["h", "g"], ["r"], name="mul"),
        node("MatMul", ["r", "down"], ["d"], name="down"),
        node("Add", ["d", "s"], ["y"], name="add"),
    ]
    return write(tmp_path / "model.onnx", nodes, {"first": (64, 64), "up": (64, 256), "down": (256, 64)})


@pytest.mark.parametrize("granularity", ["operator", "layer", "auto"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_operator_that_is_left_is_in_one_layer_and_edges_go_forward(
    name: str, granularity: Granularity
) -> None:
    found = model(name, granularity)
    places = sorted(place for layer in found.layers for place in layer.operators)
    assert places == [place for place, operator in enumerate(found.operators) if operator.rule != "constant"]
    assert all(edge.source < edge.target for edge in found.edges)
    assert len({layer.name for layer in found.layers}) == len(found.layers)


@pytest.mark.parametrize("name", SHAPES)
def test_operators_are_divided_as_in_blocks_and_divided_tensors_stay_in_a_layer(name: str) -> None:
    fine, coarse = model(name, "operator"), model(name, "layer")
    assert [operator.partition for operator in fine.operators] == [o.partition for o in coarse.operators]
    layer_of = {place: number for number, layer in enumerate(fine.layers) for place in layer.operators}
    for edge in fine.operator_edges:
        source, target = fine.operators[edge.source], fine.operators[edge.target]
        if source.partition in DIVIDED and target.partition in {Partition.ROW, Partition.SHARDED}:
            assert layer_of[edge.source] == layer_of[edge.target], (source.name, target.name)


@pytest.mark.parametrize("name", SHAPES)
def test_costs_of_operators_add_up_to_those_of_blocks(name: str) -> None:
    fine, coarse = workload(name, "operator"), workload(name, "layer")
    degrees = [degree for degree in (1, 2, 4, 8) if all(degree in layer.tmpcs for layer in coarse.layers)]
    assert 1 in degrees
    for degree in degrees:
        sums = [totals([layer.tmpcs[degree][0] for layer in posed.layers]) for posed in (fine, coarse)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-9), degree


def totals(alternatives: list[Tmpc]) -> list[float]:
    rows = [(t.time, t.weight_bytes, t.memory_per_microbatch, t.memory_fixed) for t in alternatives]
    return [math.fsum(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("name", ["bert_base_ts", "resnet50_ts", "light_squeezenet"])
@pytest.mark.parametrize("no_data_parallel", [False, True])
def test_no_plan_of_blocks_is_faster_than_the_best_of_operators(name: str, no_data_parallel: bool) -> None:
    fine, coarse = (
        piper.plan(
            model(name, granularity), "1x8:a100-80gb", recompute="never", no_data_parallel=no_data_parallel, threads=1
        )
        for granularity in ("operator", "layer")
    )
    assert fine.optimal
    assert coarse.optimal
    assert fine.time_per_sample <= coarse.time_per_sample * (1 + 1e-9)


@pytest.mark.parametrize("name", ["bert_base_ts", "light_squeezenet"])
def test_the_document_has_the_measured_difference(name: str) -> None:
    fine, coarse = (
        piper.plan(model(name, granularity), "1x8:a100-80gb", recompute="never", no_data_parallel=True, threads=1)
        for granularity in ("operator", "auto")
    )
    document = Path(__file__).parents[1] / "docs" / "explanation" / "layers.md"
    (line,) = re.findall(rf"^\| {name} \|.*$", document.read_text(encoding="utf-8"), re.MULTILINE)
    assert f"{100 * (coarse.time_per_sample / fine.time_per_sample - 1):+.2f} %" in line
    assert f"| {len(coarse.layers)} |" in line
    assert f"| {len(fine.layers)} |" in line


def test_kernels_and_regions_stay_whole(block: Path) -> None:
    found = load_onnx(block, granularity="operator")
    names = [[found.operators[place].name for place in layer.operators] for layer in found.layers]
    assert names == [["first"], ["softmax"], ["up", "sigmoid", "mul", "down"], ["add"]]
    degrees = [layer.degrees for layer in found.layers]
    assert degrees[2] == (1, 2, 4, 8, 16, 32, 64)
    assert found.operators[0].partition is Partition.REPLICATED
    assert found.edges[-1].bytes == 4 * 64 * 4


def test_auto_joins_what_is_too_much_to_prove(tmp_path: Path) -> None:
    names = ["x", *(f"v{place}" for place in range(1100)), "y"]
    nodes = [
        helper.make_node("MatMul", [before, f"w{place % 2}"], [after], name=f"n{place}")
        for place, (before, after) in enumerate(pairwise(names))
    ]
    path = write(tmp_path / "long.onnx", nodes, {"w0": (64, 64), "w1": (64, 64)})
    counts = {name: len(load_onnx(path, granularity=name).layers) for name in ("operator", "layer", "auto")}
    assert counts["operator"] == 1101
    assert counts["layer"] <= counts["operator"]
    assert counts["auto"] <= 1000


def test_plans_are_scored_at_the_granularity_they_were_made_at(block: Path, tmp_path: Path) -> None:
    where = ("--cluster", "1x2:a100-80gb", "--no-data-parallel")
    plan = result("plan", block, *where, "--granularity", "operator")
    out = tmp_path / "plan.json"
    out.write_text(json.dumps(plan), encoding="utf-8")
    assert [layer["name"] for layer in plan["layers"]][:2] == ["first", "softmax"]
    assert sum(len(stage["nodes"]) for stage in plan["stages"]) == 4
    score = result("evaluate", block, out, "--cluster", "1x2:a100-80gb", "--granularity", "operator")
    assert score["timePerSample"] == pytest.approx(plan["timePerSample"])
    again = piper.evaluate(block, out, cluster="1x2:a100-80gb", granularity="operator")
    assert isinstance(again, piper.Evaluation)
    assert again.feasible
    assert "layer" in refused("evaluate", block, out, "--cluster", "1x2:a100-80gb")


def test_inspect_shows_the_layers_of_a_granularity(block: Path) -> None:
    fine = result("inspect", block, "--granularity", "operator", "--json")
    coarse = result("inspect", block, "--granularity", "layer", "--json")
    assert len(fine["layers"]) == 4
    assert len(coarse["layers"]) < 4


def test_place_takes_auto_for_operators(block: Path) -> None:
    where = ("place", block, "--accelerators", "2", "--device", "t4")
    sizes = [len(nodes_of(result(*where, "--granularity", name))) for name in ("auto", "operator", "layer")]
    assert sizes[0] == sizes[1] == 7
    assert sizes[2] < 7


def nodes_of(split: dict[str, object]) -> list[object]:
    nodes = split["nodes"]
    assert isinstance(nodes, list)
    return nodes


def test_granularity_is_for_onnx_models_and_one_of_three(block: Path) -> None:
    assert "granularity does not apply" in refused(
        "plan", "llama3-8b", "--cluster", "1x8:h100-80gb", "--granularity", "layer"
    )
    with pytest.raises(InputError, match="granularity is 'fine'; expected one of operator, layer, auto"):
        piper.load(block, granularity="fine")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"give it to piper\.load"):
        piper.evaluate(load_onnx(block), piper.plan(block, "1x2:a100-80gb"), granularity="layer")


def test_groups_on_ways_between_each_other_become_one() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 5)]
    assert contracted(6, edges, [(0, 2), (1, 3)]) == [[0, 1, 2, 3], [4], [5]]
    assert contracted(6, edges, [(1, 3)]) == [[0], [1, 2, 3], [4], [5]]
    assert contracted(3, [], [(0, 2)]) == [[0, 2], [1]]
    assert contracted(3, [(0, 2)], []) == [[0], [1], [2]]


@pytest.mark.parametrize("name", ["bert_base_ts", "gpt2_dynamo", "resnet50_ts", "light_squeezenet"])
def test_the_best_of_blocks_is_behind_by_no_more_than_the_largest_of_them(name: str) -> None:
    fine, coarse = (
        piper.plan(
            model(name, granularity),
            "1x8:a100-80gb",
            recompute="never",
            no_data_parallel=True,
            no_tensor_parallel=True,
            threads=1,
        )
        for granularity in ("operator", "layer")
    )
    largest = max(layer.tmpcs[1][0].time for layer in workload(name, "layer").layers)
    sent = max(stage.transfer for stage in coarse.stages)
    assert coarse.time_per_sample <= fine.time_per_sample + largest + sent
