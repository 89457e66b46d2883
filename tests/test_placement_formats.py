"""Readers of placement workloads and splits: what they make of good files, and one clear line for each bad one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edits import drop, put, text
from examples import PROFILE, Document, placement, profiled, split
from shared import shared_path

import piper
from piper.errors import InputError
from piper.formats.detect import kind_of
from piper.formats.pipedream import load_pipedream_placement
from piper.formats.placement_json import load_placement
from piper.formats.split_json import load_split
from piper.placement.workload import AcceleratorClass, Node, Part


@pytest.fixture
def file(tmp_path: Path) -> Callable[[object], Path]:
    """Writes a document, text or bytes to a file named ``case``."""

    def write(content: object) -> Path:
        path = tmp_path / "case"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def refusal(read: Callable[[Path], object], path: Path) -> str:
    """The message of a reader that must refuse; checked to be one printable line."""
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.isprintable(), message
    assert len(message) < 1000
    return message


# --- Placement workloads --------------------------------------------------------------------------------------------


def test_a_workload_has_the_numbers_of_the_file(file: Callable[[object], Path]) -> None:
    workload = load_placement(file(placement()))
    assert (workload.name, workload.cpus, workload.time_unit) == ("case", 1, None)
    assert workload.classes == (AcceleratorClass("accelerator", 2, 1e3),)
    assert workload.edges == ((0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5))
    assert workload.nodes[0] == Node(5, "in", 10, (2,), 100, transfer=1, color=0)
    assert workload.nodes[1] == Node(-6, "-6", 10, (None,), 100, transfer=0.5)
    assert workload.nodes[5] == Node(15, "15", 10, (4.5,), 100, backward=True, color=0)
    assert [node.color for node in workload.nodes] == [0, None, None, 1, 1, 0]
    assert piper.load(file(placement())) == workload


def test_truth_is_written_in_two_ways(file: Callable[[object], Path]) -> None:
    document = placement()
    for node in document["nodes"]:
        node["isBackwardNode"] = bool(node["isBackwardNode"])
        node["supportedOnFpga"] = int(node["supportedOnFpga"])
    assert load_placement(file(document)) == load_placement(file(placement()))


def test_an_edge_that_is_repeated_counts_once(file: Callable[[object], Path]) -> None:
    document = placement()
    document["edges"].append(document["edges"][0])
    assert load_placement(file(document)) == load_placement(file(placement()))


def classes() -> Document:
    """Two classes of accelerators."""
    document = placement()
    del document["maxFPGAs"], document["maxSizePerFPGA"]
    document["accelerators"] = [
        {"name": "fast", "count": 1, "maxSize": 50},
        {"name": "large", "count": 3, "maxSize": 1e6},
    ]
    for node in document["nodes"]:
        node["latencies"] = {"fast": 1, "large": 4}
        del node["supportedOnFpga"], node["fpgaLatency"]
    document["nodes"][2] |= {"latencies": {"large": 5}, "syncTime": 0.75}
    return document


def test_several_classes_of_accelerators(file: Callable[[object], Path], tmp_path: Path) -> None:
    workload = load_placement(file(classes()))
    assert workload.classes == (AcceleratorClass("fast", 1, 50), AcceleratorClass("large", 3, 1e6))
    assert [node.accelerators for node in workload.nodes[:3]] == [(1, 4), (1, 4), (None, 5)]
    assert (workload.nodes[2].sync, workload.nodes[0].sync) == (0.75, 0)
    placed = piper.place(workload)
    assert {part.device for part in placed.parts} <= {"fast", "large", "cpu"}
    document = placed.to_json()
    assert [row["name"] for row in document["setup"]["accelerators"]] == ["fast", "large"]
    assert all(row["class"] in ("fast", "large") for row in document["fpgas"])
    placed.save(tmp_path / "split.json")
    again = piper.evaluate(workload, tmp_path / "split.json")
    assert isinstance(again, piper.SplitEvaluation)
    assert (again.feasible, again.max_load) == (True, placed.max_load)


EDGE = ("edges", 1)
BAD_WORKLOADS: list[tuple[Callable[[Document], object], str]] = [
    (drop("nodes"), '$: the key "nodes" is missing'),
    (drop("edges"), '$: the key "edges" is missing'),
    (drop("maxFPGAs"), '$: the key "maxFPGAs" is missing'),
    (drop("maxSizePerFPGA"), '$: the key "maxSizePerFPGA" is missing'),
    (drop("maxCPUs"), '$: the key "maxCPUs" is missing'),
    (drop("nodes", 1, "id"), '$.nodes[1]: the key "id" is missing'),
    (drop("nodes", 1, "cpuLatency"), '$.nodes[1]: the key "cpuLatency" is missing'),
    (drop("nodes", 1, "fpgaLatency"), '$.nodes[1]: the key "fpgaLatency" is missing'),
    (drop("nodes", 1, "supportedOnFpga"), '$.nodes[1]: the key "supportedOnFpga" is missing'),
    (drop("nodes", 1, "isBackwardNode"), '$.nodes[1]: the key "isBackwardNode" is missing'),
    (drop("edges", 0, "cost"), '$.edges[0]: the key "cost" is missing'),
    (drop("edges", 0, "sourceId"), '$.edges[0]: the key "sourceId" is missing'),
    (put("nodes", value=[]), "$.nodes: expected at least one node"),
    (put("nodes", value=3), "$.nodes: expected a list, got 3"),
    (put("nodes", 1, "id", value=5), "$.nodes[1].id: 5 is already the id of $.nodes[0]"),
    (put("nodes", 1, "id", value="5"), '$.nodes[1].id: expected an integer, got "5"'),
    (put("nodes", 1, "supportedOnFpga", value=2), "$.nodes[1].supportedOnFpga: "),
    (put("nodes", 1, "isBackwardNode", value="yes"), "$.nodes[1].isBackwardNode: "),
    (put("nodes", 1, "cpuLatency", value=-1), "$.nodes[1].cpuLatency: expected a number >= 0.0, got -1"),
    (put("nodes", 1, "fpgaLatency", value=1e30), "$.nodes[1].fpgaLatency: expected a number < 1e+30"),
    (put("nodes", 1, "size", value=float("nan")), "$.nodes[1].size: "),
    (put("nodes", 1, "syncTime", value=float("inf")), "$.nodes[1].syncTime: "),
    (put("nodes", 1, "colorClass", value=1.5), "$.nodes[1].colorClass: "),
    (put("nodes", 1, "colorClass", value=2**70), "$.nodes[1].colorClass: "),
    (put("maxFPGAs", value=1.5), "$.maxFPGAs: expected a whole number from 0 to 1048576, got 1.5"),
    (put("maxFPGAs", value=2**21), "$.maxFPGAs: expected a number <= 1048576"),
    (put("maxCPUs", value=-1), "$.maxCPUs: expected a number >= 0.0, got -1"),
    (
        put(*EDGE, "cost", value=1.5),
        "$.edges[1].cost: 1.5 differs from the 1 of $.edges[0], which moves the same output",
    ),
    (put(*EDGE, "destId", value=99), "$.edges[1].destId: there is no node with id 99"),
    (put(*EDGE, "sourceId", value=99), "$.edges[1].sourceId: there is no node with id 99"),
    (
        put("edges", 5, value={"sourceId": 18, "destId": 7, "cost": 0}),
        "$.edges[5]: 18 -> 7 runs from the backward pass",
    ),
    (put("edges", 3, value={"sourceId": 7, "destId": 5, "cost": 0}), "the edges close a cycle: 5 -> 7 -> 5"),
    (put("nodes", 1, "latencies", value={"fast": "slow"}), '$.nodes[1].latencies["fast"]: expected a number'),
    (text(lambda json_text: json_text[:-3]), "line 1, column "),
    (text(lambda json_text: json_text.replace('"maxCPUs"', '"maxFPGAs"', 1)), "$: the key "),
]


@pytest.mark.parametrize(("edit", "expected"), BAD_WORKLOADS, ids=[message[:60] for _, message in BAD_WORKLOADS])
def test_bad_workloads_are_refused_with_their_place(
    file: Callable[[object], Path], edit: Callable[[Document], object], expected: str
) -> None:
    path = file(edit(placement()))
    message = refusal(load_placement, path)
    assert message.startswith(f"{path}: ")
    assert expected in message


BAD_CLASSES: list[tuple[Callable[[Document], object], str]] = [
    (
        put("nodes", 0, "latencies", "slow", value=1),
        'latencies["slow"]: there is no class of accelerators of that name',
    ),
    (
        put("accelerators", 1, "name", value="fast"),
        "$.accelerators[1].name: 'fast' is already the name of another class",
    ),
    (put("accelerators", 1, "count", value=0.5), "$.accelerators[1].count: expected a whole number"),
    (put("accelerators", 0, "maxSize", value=-1), "$.accelerators[0].maxSize: expected a number >= 0.0"),
    (drop("accelerators", 0, "maxSize"), '$.accelerators[0]: the key "maxSize" is missing'),
    (drop("nodes", 0, "latencies"), '$.nodes[0]: the key "latencies" is missing'),
    (
        put("accelerators", value=[{"name": str(n), "count": 2**20, "maxSize": 1} for n in range(2)]),
        "$.accelerators: are 2097152 devices; expected at most 1048576",
    ),
    (
        put("accelerators", value=[{"name": str(n), "count": 1, "maxSize": 1} for n in range(65)]),
        "$.accelerators: has 65 classes; expected 64",
    ),
]


@pytest.mark.parametrize(("edit", "expected"), BAD_CLASSES, ids=[message[:60] for _, message in BAD_CLASSES])
def test_bad_classes_are_refused_with_their_place(
    file: Callable[[object], Path], edit: Callable[[Document], object], expected: str
) -> None:
    assert expected in refusal(load_placement, file(edit(classes())))


# --- Profiles -------------------------------------------------------------------------------------------------------


def test_a_profile_as_a_placement_workload(file: Callable[[object], Path]) -> None:
    text = "".join(
        profiled(f"node{number} -- layer", forward, backward, activation, parameters) + "\n"
        for number, (forward, backward, activation, parameters) in enumerate(
            [("1.5", "2.5", "[6.0; 4.0]", "3.0"), ("0.0", "1.0", "8.0", "0.0")]
        )
    )
    workload = load_pipedream_placement(file(text + "\tnode0 -- node1\n"), accelerators=3, bandwidth=100)
    assert (workload.time_unit, workload.cpus, workload.edges) == ("s", 0, ((0, 1),))
    assert workload.nodes == (
        Node(0, "node0", 0.004, (0.004,), size=22, transfer=0.2),
        Node(1, "node1", 0.001, (0.001,), size=8),
    )
    assert workload.classes == (AcceleratorClass("accelerator", 3, 30),)


def test_a_profile_needs_accelerators_and_bandwidth(file: Callable[[object], Path]) -> None:
    message = refusal(lambda path: piper.place(path, accelerators=2), file(PROFILE))
    assert "does not say --bandwidth" in message
    assert "does not say --accelerators and --bandwidth" in refusal(piper.place, file(PROFILE))


# --- Splits ---------------------------------------------------------------------------------------------------------


def test_backward_nodes_follow_their_colour_class(file: Callable[[object], Path]) -> None:
    workload = load_placement(file(placement()))
    parts = load_split(file(split()), workload)
    assert parts == (Part(0, 1, (0, 2, 5)), Part(0, 1, (3, 4)), Part(None, 1, (1,)))


def test_backward_nodes_of_a_torn_class_stay_missing(file: Callable[[object], Path]) -> None:
    document = placement()
    document["nodes"][2]["colorClass"] = 2**31 - 1
    workload = load_placement(file(document))
    torn = {"fpgas": [{"nodes": [5]}, {"nodes": [7, 8]}], "cpus": [{"nodes": [-6]}]}
    evaluation = piper.evaluate(workload, file(torn))
    assert isinstance(evaluation, piper.SplitEvaluation)
    broken = {violation.rule: violation for violation in evaluation.violations}
    assert broken["node-missing"].where == "node 15"
    assert broken["color-class"].where == "nodes 5, 7"


BAD_SPLITS: list[tuple[Callable[[Document], object], str]] = [
    (drop("fpgas", 0, "nodes"), '$.fpgas[0]: the key "nodes" is missing'),
    (put("fpgas", 0, "nodes", value=["5"]), '$.fpgas[0].nodes[0]: expected an integer, got "5"'),
    (put("fpgas", 0, "nodes", value=[5, 99]), "$.fpgas[0].nodes[1]: the workload has no node with id 99"),
    (put("cpus", 0, "nodes", value=[1]), "$.cpus[0].nodes[0]: the workload has no node with id 1"),
    (put("fpgas", 0, "class", value="tpu"), "$.fpgas[0].class: the workload has no class 'tpu'; it has accelerator"),
    (put("fpgas", 0, "replicas", value=0), "$.fpgas[0].replicas: expected an integer >= 1, got 0"),
    (put("fpgas", 0, "replicas", value=1.5), "$.fpgas[0].replicas: expected an integer"),
    (put("cpus", value=7), "$.cpus: expected a list, got 7"),
    (put("feasible", value=False), "$.feasible: is false, so the file holds no split"),
    (lambda _: {"fpgas": [], "cpus": []}, "$: expected devices in fpgas or cpus"),
    (lambda _: [], "$: expected an object, got a list"),
]


@pytest.mark.parametrize(("edit", "expected"), BAD_SPLITS, ids=[message[:60] for _, message in BAD_SPLITS])
def test_bad_splits_are_refused_with_their_place(
    file: Callable[[object], Path], edit: Callable[[Document], object], expected: str
) -> None:
    workload = load_placement(file(placement()))
    path = file(edit(split()))
    message = refusal(lambda where: load_split(where, workload), path)
    assert message.startswith(f"{path}: ")
    assert expected in message


def test_a_class_must_be_named_where_there_are_several(file: Callable[[object], Path]) -> None:
    workload = load_placement(file(classes()))
    message = refusal(lambda path: load_split(path, workload), file(split()))
    assert 'the key "class" is missing; the workload has classes fast, large' in message


BROKEN: list[tuple[Callable[[Document], object], str, str]] = [
    (put("fpgas", 0, "nodes", value=[5, 7, -6]), "unsupported", "accelerator 0, node -6"),
    (put("fpgas", 0, "nodes", value=[5, 7, 7]), "node-repeated", "accelerator 0, node 7"),
    (put("fpgas", 0, "nodes", value=[5]), "node-missing", "node 7"),
    (put("fpgas", 0, "replicas", value=3), "accelerators", "split"),
    (put("fpgas", 0, "replicas", value=2), "replicas", "accelerator 0, nodes 5, 7, 15"),
    (put("cpus", 1, "nodes", value=[7]), "cpus", "split"),
]


@pytest.mark.parametrize(("edit", "rule", "where"), BROKEN, ids=[rule for _, rule, _ in BROKEN])
def test_broken_rules_are_named_with_their_nodes(
    file: Callable[[object], Path], edit: Callable[[Document], object], rule: str, where: str
) -> None:
    workload = load_placement(file(placement()))
    evaluation = piper.evaluate(workload, file(edit(split())))
    assert isinstance(evaluation, piper.SplitEvaluation)
    assert not evaluation.feasible
    assert (rule, where) in [(violation.rule, violation.where) for violation in evaluation.violations]


def test_a_split_that_runs_back_or_does_not_fit_is_named(file: Callable[[object], Path]) -> None:
    workload = load_placement(file(placement()))
    back: dict[str, Any] = {"fpgas": [{"nodes": [5, 8]}, {"nodes": [7]}], "cpus": [{"nodes": [-6]}]}
    evaluation = piper.evaluate(workload, file(back), memory=250)
    assert isinstance(evaluation, piper.SplitEvaluation)
    found = {violation.rule: violation for violation in evaluation.violations}
    assert set(found) == {"contiguous", "memory"}
    assert set(found["contiguous"].nodes) <= {5, -6, 7, 8}
    assert (found["memory"].nodes, found["memory"].by) == ((5, 8, 18, 15), 50)


# --- Files made by others -------------------------------------------------------------------------------------------


def test_all_published_workloads_are_read() -> None:
    root = shared_path("workloads", "placement")
    for path in sorted([*root.glob("throughput/*.json"), *root.glob("latency/*.json")]):
        document = json.loads(path.read_text())
        workload = load_placement(path)
        assert kind_of(path) == "placement"
        assert [node.id for node in workload.nodes] == [node["id"] for node in document["nodes"]]
        assert len(workload.edges) == len(document["edges"])
        assert (workload.accelerators, workload.cpus) == (document["maxFPGAs"], document["maxCPUs"])
