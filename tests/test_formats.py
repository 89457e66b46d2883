"""Readers of workloads and plans: what they make of good files, and one clear line for each bad one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edits import drop, put, text
from examples import PROFILE, Document, diamond
from shared import shared_path

from piper.errors import InputError
from piper.formats.detect import kind_of
from piper.formats.pipedream import load_pipedream
from piper.formats.piper_json import load_piper
from piper.formats.plan_json import load_plan
from piper.workload import Edge, Stage, Workload


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
    """The message of a reader that must refuse; checked to be one printable line that starts with the file."""
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.isprintable(), message
    assert len(message) < 1000
    return message


def profile_of(path: Path) -> Workload:
    return load_pipedream(path, devices=4, memory=1e9, bandwidth=100, microbatches=8)


# --- Piper workloads ------------------------------------------------------------------------------------------------


def test_piper_workload_has_the_numbers_of_the_file(file: Callable[[object], Path]) -> None:
    workload = load_piper(file(diamond()))
    assert (workload.name, workload.devices, workload.microbatches) == ("case", 4, 8)
    assert (workload.memory_bytes, workload.reserve_bytes, workload.network.stage_bandwidth) == (1e9, 0, 100)
    assert (workload.transfer, workload.time_unit, workload.network.resync_factor) == ("edge", None, 4)
    assert [(layer.id, layer.name) for layer in workload.layers] == [(7, "in"), (-3, "-3"), (5, "5"), (9, "9")]
    assert workload.edges == (Edge(0, 1, 10), Edge(0, 2, 20.5), Edge(2, 3, 30), Edge(1, 3, 40))
    last = workload.layers[3].tmpcs
    assert sorted(last) == [1, 2]
    assert [alternative.id for alternative in last[2]] == ["vanilla", "activation recomp"]
    only = last[1][0]
    assert (only.time, only.weight_bytes, only.memory_per_microbatch, only.memory_fixed) == (1, 4, 2, 8.5)


def test_synchronisation_entries_follow_the_order_of_the_edges(file: Callable[[object], Path]) -> None:
    layers = load_piper(file(diamond())).layers
    assert layers[3].tmpcs[1][0].sync_forward == (8, 7)
    assert layers[0].tmpcs[1][0].sync_backward == (1, 2)


def test_piper_workload_accepts_what_other_programs_write(file: Callable[[object], Path]) -> None:
    document = diamond() | {"comment": [1, {"x": None}], "maxDevices": 4.0}
    document["maxBatchSize"] = document.pop("mbsInBatch")
    document["nodes"][0]["colour"] = "red"
    marked = b"\xef\xbb\xbf" + json.dumps(document).encode()
    workload = load_piper(file(marked))
    assert (workload.devices, workload.microbatches) == (4, 8)


FIRST = ("nodes", 1, "TMPCs", "1", 0)
BAD_PIPER: list[tuple[Callable[[Document], object], str]] = [
    (drop("nodes"), '$: the key "nodes" is missing'),
    (drop("edges"), '$: the key "edges" is missing'),
    (drop("maxDevices"), '$: the key "maxDevices" is missing'),
    (drop("maxMemoryPerDevice"), '$: the key "maxMemoryPerDevice" is missing'),
    (drop("bandwidth"), '$: the key "bandwidth" is missing'),
    (drop("mbsInBatch"), '$: the key "mbsInBatch" (or "maxBatchSize") is missing'),
    (drop("nodes", 1, "id"), '$.nodes[1]: the key "id" is missing'),
    (drop("nodes", 1, "TMPCs"), '$.nodes[1]: the key "TMPCs" is missing'),
    (put(*FIRST, "id", value="a\nb"), "$.nodes[1].TMPCs[\"1\"][0].id: expected printable text, got 'a\\nb'"),
    (put("nodes", 0, "name", value="\ud800"), "contains an escaped half of a character"),
    (drop(*FIRST, "timePerSample"), '$.nodes[1].TMPCs["1"][0]: the key "timePerSample" is missing'),
    (drop(*FIRST, "syncTimeBw"), '$.nodes[1].TMPCs["1"][0]: the key "syncTimeBw" is missing'),
    (drop(*FIRST, "syncTimeFw", "7"), '$.nodes[1].TMPCs["1"][0].syncTimeFw: has no entry for layer 7'),
    (drop(*FIRST, "syncTimeBw", "9"), '$.nodes[1].TMPCs["1"][0].syncTimeBw: has no entry for layer 9'),
    (drop("edges", 0, "destId"), '$.edges[0]: the key "destId" is missing'),
    (put("nodes", value={}), "$.nodes: expected a list, got an object"),
    (put("nodes", value=[]), "$.nodes: expected at least one layer"),
    (put("nodes", 1, value=3), "$.nodes[1]: expected an object, got 3"),
    (put("nodes", 1, "id", value="3"), '$.nodes[1].id: expected an integer, got "3"'),
    (put("nodes", 1, "id", value=3.5), "$.nodes[1].id: expected an integer, got 3.5"),
    (put("nodes", 1, "id", value=7), "$.nodes[1].id: 7 is already the id of $.nodes[0]"),
    (put("nodes", 1, "id", value=2**63), "$.nodes[1].id: expected an integer <= 9223372036854775807"),
    (put("nodes", 1, "name", value=[1]), "$.nodes[1].name: expected a string, got a list"),
    (put("nodes", 1, "TMPCs", value=[]), "$.nodes[1].TMPCs: expected an object, got a list"),
    (put("nodes", 1, "TMPCs", "x", value=[]), '$.nodes[1].TMPCs["x"]: expected an integer, got "x"'),
    (put("nodes", 1, "TMPCs", "0", value=[]), '$.nodes[1].TMPCs["0"]: expected an integer >= 1, got "0"'),
    (put("nodes", 1, "TMPCs", "1", value=None), '$.nodes[1].TMPCs["1"]: expected a list, got null'),
    (put("nodes", 3, "TMPCs", "2", 1, "id", value="vanilla"), '$.nodes[3].TMPCs["2"][1].id: is also that of [0]'),
    (put(*FIRST, "id", value=1), '$.nodes[1].TMPCs["1"][0].id: expected a string, got 1'),
    (
        put(*FIRST, "timePerSample", value=-1),
        '$.nodes[1].TMPCs["1"][0].timePerSample: expected a number >= 0.0, got -1',
    ),
    (put(*FIRST, "timePerSample", value=float("nan")), "timePerSample: expected a number >= 0.0, got NaN"),
    (put(*FIRST, "timePerSample", value=float("inf")), "timePerSample: expected a number < 1e+30, got Infinity"),
    (put(*FIRST, "timePerSample", value=True), "timePerSample: expected a number, got true"),
    (put(*FIRST, "timePerSample", value="1"), 'timePerSample: expected a number, got "1"'),
    (put(*FIRST, "timePerSample", value=None), "timePerSample: expected a number, got null"),
    (put(*FIRST, "memoryUsageA", value=1e30), "memoryUsageA: expected a number < 1e+30, got 1e+30"),
    (put(*FIRST, "memoryUsageB", value=10**400), "memoryUsageB: expected a number below 1e+30, got 1000"),
    (put(*FIRST, "syncTimeFw", "7", value=-2), 'syncTimeFw["7"]: expected a number >= 0.0, got -2'),
    (put(*FIRST, "syncTimeFw", "x\n", value=2), 'syncTimeFw["x\\n"]: expected an integer, got "x\\n"'),
    (
        put("edges", 2, "communicationCost", value=-1),
        "$.edges[2].communicationCost: expected a number >= 0.0, got -1",
    ),
    (put("edges", 2, "destId", value=8), "$.edges[2].destId: there is no layer with id 8"),
    (put("edges", 2, "sourceId", value=8), "$.edges[2].sourceId: there is no layer with id 8"),
    (put("edges", 2, value=[5, 9, 1]), "$.edges[2]: expected an object, got a list"),
    (
        put("edges", 2, value={"sourceId": 7, "destId": 5, "communicationCost": 1}),
        "$.edges[2]: the edge 7 -> 5 is already $.edges[1]",
    ),
    (
        put("edges", 3, value={"sourceId": 9, "destId": 7, "communicationCost": 1}),
        "the edges close a cycle: 7 -> 5 -> 9 -> 7",
    ),
    (
        put("edges", 3, value={"sourceId": 9, "destId": 9, "communicationCost": 1}),
        "the edges close a cycle: 9 -> 9",
    ),
    (put("maxDevices", value=0), "$.maxDevices: expected a whole number from 1 to 1048576, got 0"),
    (put("maxDevices", value=2.5), "$.maxDevices: expected a whole number from 1 to 1048576, got 2.5"),
    (put("maxDevices", value=-4), "$.maxDevices: expected a number >= 0.0, got -4"),
    (put("maxDevices", value=10**12), "$.maxDevices: expected a whole number from 1 to 1048576, got 1000000000000"),
    (put("mbsInBatch", value=0), "$.mbsInBatch: expected a whole number from 1 to 1073741824, got 0"),
    (put("maxBatchSize", value=9), "$: mbsInBatch is 8 but maxBatchSize is 9"),
    (put("bandwidth", value=0), "$.bandwidth: expected a number above 0, got 0"),
    (put("bandwidth", value=-1), "$.bandwidth: expected a number >= 0.0, got -1"),
    (put("maxMemoryPerDevice", value="8GiB"), '$.maxMemoryPerDevice: expected a number, got "8GiB"'),
    (text(lambda t: t.replace("8.5", "1e400", 1)), "memoryUsageB: expected a number < 1e+30, got Infinity"),
    (text(lambda t: t.replace("8.5", "9" * 5000, 1)), "contains a number of thousands of digits"),
    (
        text(lambda t: t.replace("8.5", "8.5.5", 1)),
        "line 1, column 236: is not JSON: expecting ',' delimiter, found '.5",
    ),
    (text(lambda t: t.replace("8.5", "[" * 200_000, 1)), "is nested too deeply"),
    (text(lambda t: t[:-1] + ', "bandwidth": 7}'), '$: the key "bandwidth" appears more than once'),
    (
        text(lambda t: t.replace('{"2": [', '{"1": [], "2": [')),
        '$.nodes[3].TMPCs: the key "1" appears more than once',
    ),
    (text(lambda t: t[: len(t) // 2]), "is not JSON: a string that begins there does not end"),
    (text(lambda t: t[: t.index("nodes") - 1]), "is not JSON: the text ends too early"),
    (text(lambda t: t + "}"), "is not JSON: extra data, found '}'"),
    (text(lambda t: t.encode("utf-16")), "is UTF-16 or UTF-32 text; expected UTF-8"),
    (text(lambda t: t.encode().replace(b'"in"', b'"\xe4"')), "line 1: byte 118 is not UTF-8 text"),
    (lambda _: [], "$: expected an object, got a list"),
    (lambda _: b"", "is empty"),
    (lambda _: b"\0" * 64, "is not JSON"),
]


@pytest.mark.parametrize(("edit", "expected"), BAD_PIPER, ids=[message[:60] for _, message in BAD_PIPER])
def test_bad_piper_workload(
    file: Callable[[object], Path], edit: Callable[[Document], object], expected: str
) -> None:
    path = file(edit(diamond()))
    message = refusal(load_piper, path)
    assert message.startswith(f"{path}: ")
    assert expected in message


# --- PipeDream profiles ---------------------------------------------------------------------------------------------


def test_pipedream_profile_is_mapped_as_documented(file: Callable[[object], Path]) -> None:
    workload = profile_of(file(PROFILE))
    assert (workload.devices, workload.memory_bytes, workload.microbatches) == (4, 1e9, 8)
    assert (workload.network.stage_bandwidth, workload.time_unit, workload.transfer) == (100, "s", "edge")
    assert [(layer.id, layer.name) for layer in workload.layers] == [(1, "node1"), (4, "node4"), (2, "node2")]
    assert workload.edges == (Edge(0, 1, 100), Edge(0, 2, 100), Edge(1, 2, 7))
    plain, again = workload.layers[2].tmpcs[1]
    assert (plain.id, again.id) == ("vanilla", "recomp")
    assert (plain.time, again.time) == (0.008, 0.011)
    assert (plain.memory_per_microbatch, again.memory_per_microbatch) == (7, 107)
    assert (plain.memory_fixed, again.memory_fixed) == (80, 87)
    assert plain.sync_forward == again.sync_forward == (0, 0)
    assert workload.layers[0].tmpcs[1][0].sync_backward == (0, 0)


def test_pipedream_layers_without_numbers_are_counted(file: Callable[[object], Path]) -> None:
    workload = profile_of(file(PROFILE.replace("node4", "embedding")))
    assert [(layer.id, layer.name) for layer in workload.layers] == [(0, "node1"), (1, "embedding"), (2, "node2")]


def test_pipedream_edge_that_is_repeated_counts_once(file: Callable[[object], Path]) -> None:
    path = file(PROFILE + "\tnode1 -- node4\n")
    workload = profile_of(path)
    assert len(workload.edges) == 3
    assert workload.warnings == (f"{path}: line 7: the edge node1 -- node4 is repeated; it counts once",)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "--devices, --memory, --bandwidth and --microbatches"),
        ({"devices": 4, "memory": 1e9, "bandwidth": 1e9}, "--microbatches"),
        ({"devices": 4, "microbatches": 4}, "--memory and --bandwidth"),
    ],
)
def test_pipedream_profile_needs_a_cluster(
    file: Callable[[object], Path], given: dict[str, Any], missing: str
) -> None:
    message = refusal(lambda path: load_pipedream(path, **given), file(PROFILE))
    assert f"which does not say {missing};" in message


@pytest.mark.parametrize(
    "number", [{"devices": 0}, {"memory": -1.0}, {"memory": float("nan")}, {"bandwidth": 0.0}, {"microbatches": 0}]
)
def test_pipedream_cluster_must_be_possible(file: Callable[[object], Path], number: dict[str, Any]) -> None:
    given: dict[str, Any] = {"devices": 4, "memory": 1e9, "bandwidth": 100, "microbatches": 8}
    message = refusal(lambda path: load_pipedream(path, **(given | number)), file(PROFILE))
    assert message.startswith(f"--{next(iter(number))}: expected")


BAD_PROFILES: list[tuple[str | bytes, str]] = [
    (PROFILE.replace("=1.5,", "=-1.5,"), "line 2: forward_compute_time is '-1.5'; expected a number from 0 to 1e+30"),
    (PROFILE.replace("=1.5,", "=nan,"), "line 2: forward_compute_time is 'nan'"),
    (PROFILE.replace("=1.5,", "=1e400,"), "line 2: forward_compute_time is '1e400'"),
    (PROFILE.replace("=1.5,", "=1_5,"), "line 2: forward_compute_time is '1_5'"),
    (PROFILE.replace("=1.5,", "=,"), "line 2: forward_compute_time is ''"),
    (PROFILE.replace("=1.5,", f"={'9' * 999},"), "line 2: forward_compute_time is '999"),
    (PROFILE.replace("[6.0; 1.0]", "[6.0; x]"), "line 3: activation_size is 'x'"),
    (PROFILE.replace("[6.0; 1.0]", "[]"), "line 3: activation_size is ''"),
    (
        PROFILE.replace(", parameter_size=10.0", ""),
        "line 2: parameter_size is missing; expected `NODE -- DESCRIPTION",
    ),
    (PROFILE.replace("node4 -- Embedding(320, 4) -- ", "node4"), "line 2: 'node4forward_compute_time=1.5"),
    (PROFILE.replace("node2 -- LSTM", "node4 -- LSTM"), "line 3: node 'node4' is described a second time"),
    (PROFILE.replace("\tnode1 -- node4", "\tnode1 -- node8"), "line 4: node 'node8' is not described"),
    (
        PROFILE.replace("\tnode1 -- node4", "\tnode1 node4"),
        "line 4: '\\tnode1 node4'; expected a tab",
    ),
    (PROFILE.replace("\tnode1 -- node4", "\t-- node4"), "line 4: '\\t-- node4'; expected a tab"),
    (PROFILE.replace("\tnode1 -- node4", "\tnode2 -- node1"), "the edges close a cycle: node1 -> node2 -> node1"),
    (PROFILE.replace("\tnode1 -- node4", "\tnode4 -- node4"), "the edges close a cycle: node4 -> node4"),
    (PROFILE[:200], "line 2: "),
    (PROFILE.encode("utf-16"), "is UTF-16 or UTF-32 text; expected UTF-8"),
    (PROFILE.encode().replace(b"LSTM", b"\xff"), "line 3: byte 249 is not UTF-8 text"),
    ("\n\n", "has no nodes; expected `NODE -- DESCRIPTION"),
    ("\tnode1 -- node2\n", "has no nodes"),
    (b"", "is empty"),
    (b"\x00\x01\x02", "line 1: '\\x00\\x01\\x02'; expected"),
]


@pytest.mark.parametrize(("content", "expected"), BAD_PROFILES, ids=[message[:60] for _, message in BAD_PROFILES])
def test_bad_pipedream_profile(file: Callable[[object], Path], content: str | bytes, expected: str) -> None:
    path = file(content)
    message = refusal(profile_of, path)
    assert message.startswith(f"{path}: ")
    assert expected in message


# --- Plans ----------------------------------------------------------------------------------------------------------


def plan() -> Document:
    return {
        "stages": [
            {
                "nodes": [5, 7, -3],
                "dataParallelDegree": 1,
                "tensorParallelDegree": 1,
                "TMPCids": {"7": "vanilla", "-3": "vanilla", "5": "vanilla"},
                "load": 3,
            },
            {
                "nodes": [9],
                "dataParallelDegree": 1,
                "tensorParallelDegree": 2,
                "TMPCids": [[9, "activation recomp"]],
            },
        ],
        "timePerSample": 3,
    }


def test_plan_is_read_by_position(file: Callable[[object], Path], tmp_path: Path) -> None:
    workload = load_piper(file(diamond()))
    path = tmp_path / "plan"
    path.write_text(json.dumps(plan()))
    assert load_plan(path, workload) == (Stage((0, 1, 2), 1, 1, (0, 0, 0)), Stage((3,), 1, 2, (1,)))


BAD_PLANS: list[tuple[Callable[[Document], object], str]] = [
    (drop("stages"), "$.stages: expected at least one stage"),
    (put("stages", value=[]), "$.stages: expected at least one stage"),
    (lambda _: {"feasible": False, "reasons": []}, "$.feasible: is false, so the file holds no plan"),
    (drop("stages", 0, "nodes"), '$.stages[0]: the key "nodes" is missing'),
    (drop("stages", 0, "TMPCids"), '$.stages[0]: the key "TMPCids" is missing'),
    (put("stages", 0, "nodes", 1, value="7"), '$.stages[0].nodes[1]: expected an integer, got "7"'),
    (put("stages", 0, "nodes", 1, value=8), "$.stages[0].nodes[1]: the workload has no layer with id 8"),
    (put("stages", 0, "nodes", 1, value=5), "$.stages[0].nodes[1]: layer 5 is listed a second time"),
    (
        put("stages", 0, "dataParallelDegree", value=0),
        "$.stages[0].dataParallelDegree: expected an integer >= 1, got 0",
    ),
    (
        put("stages", 0, "tensorParallelDegree", value=2),
        "layer 5 has no TMPC for tensor-parallel degree 2; it has degrees 1",
    ),
    (
        put("stages", 0, "TMPCids", "5", value="x"),
        "$.stages[0].TMPCids[\"5\"]: layer 5 has no TMPC 'x' there; it has 'vanilla'",
    ),
    (put("stages", 0, "TMPCids", "5", value=0), '$.stages[0].TMPCids["5"]: expected a string, got 0'),
    (drop("stages", 0, "TMPCids", "5"), "$.stages[0].TMPCids: has no entry for layer 5"),
    (put("stages", 0, "TMPCids", value="x"), '$.stages[0].TMPCids: expected an object, got "x"'),
    (put("stages", 1, "TMPCids", value=[[9]]), "$.stages[1].TMPCids[0]: expected a list of length 2, got 1"),
    (
        put("stages", 1, "TMPCids", value=[[9, "a"], [9, "b"]]),
        "$.stages[1].TMPCids: a layer is listed more than once",
    ),
    (text(lambda t: t[:40]), "is not JSON"),
]


@pytest.mark.parametrize(("edit", "expected"), BAD_PLANS, ids=[message[:60] for _, message in BAD_PLANS])
def test_bad_plan(
    file: Callable[[object], Path], tmp_path: Path, edit: Callable[[Document], object], expected: str
) -> None:
    workload_path = tmp_path / "workload"
    workload_path.write_text(json.dumps(diamond()))
    workload = load_piper(workload_path)
    path = file(edit(plan()))
    message = refusal(lambda path: load_plan(path, workload), path)
    assert message.startswith(f"{path}: ")
    assert expected in message


# --- Telling formats apart ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (diamond(), "piper"),
        ({"nodes": [], "edges": []}, "piper"),
        ('{"maxDevices": NaN}', "piper"),
        ({"maxFPGAs": 2, "maxCPUs": 1, "nodes": [], "edges": []}, "placement"),
        (PROFILE, "pipedream"),
        ({"model_type": "llama", "hidden_size": 64}, "huggingface"),
        (plan(), "plan"),
        ({"feasible": False}, "plan"),
        ({"maxLoad": 1, "fpgas": [], "cpus": []}, "split"),
        (b"\x08\x07\x12\x07pytorch", "onnx"),
    ],
)
def test_kind_is_told_by_content(file: Callable[[object], Path], content: object, kind: str) -> None:
    assert kind_of(file(content)) == kind


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("hello", "is text of no known format; expected an ONNX model"),
        ({"a": 1}, "$: has no key of a known format"),
        ([1], "$: is no JSON object"),
        ('{"nodes": [', "line 1, column 12: is not JSON: the text ends too early"),
        ('{"a": ' + "[" * 200_000, "is nested too deeply"),
        (b"PK\x03\x04model", "is a zip archive"),
        ("{}".encode("utf-16"), "is UTF-16 or UTF-32 text"),
        (b"", "is empty"),
    ],
)
def test_unknown_kind(file: Callable[[object], Path], content: object, expected: str) -> None:
    assert expected in refusal(kind_of, file(content))


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    assert refusal(kind_of, tmp_path).endswith("is a folder; expected a file")
    assert "there is no such file" in refusal(load_piper, tmp_path / "none\nsuch")
    assert "is no name that a file can have" in refusal(load_piper, tmp_path / "null\0")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert refusal(kind_of, tmp_path / "pipe").endswith("is a pipe or a device; expected a file")


def test_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as large:
        large.write(b"{")
        large.truncate(2**31)
    assert "is larger than 64 MiB" in refusal(kind_of, path)


# --- Files made by others -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "layers", "edges", "devices"),
    [("bert32a100", 37, 67, 10), ("bert96a100", 101, 131, 2048), ("gnmt", 78, 104, 10), ("resnet", 177, 193, 10)],
)
def test_published_piper_workloads(name: str, layers: int, edges: int, devices: int) -> None:
    path = shared_path("workloads", "piper", f"{name}.json")
    assert kind_of(path) == "piper"
    workload = load_piper(path)
    assert (workload.name, workload.devices) == (name, devices)
    assert (len(workload.layers), len(workload.edges)) == (layers, edges)


@pytest.mark.parametrize(
    ("name", "layers", "milliseconds"),
    [
        ("densenet121", 429, 335.24),
        ("gnmt", 48, 89.416),
        ("nasnetamobile", 921, 599.844),
        ("resnet50", 177, 462.381),
        ("resnext50", 177, 607.951),
        ("vgg16", 41, 690.507),
    ],
)
def test_published_pipedream_profiles(name: str, layers: int, milliseconds: float) -> None:
    path = shared_path("workloads", "pipedream", f"{name}.txt")
    assert kind_of(path) == "pipedream"
    workload = profile_of(path)
    assert len(workload.layers) == layers
    assert sum(layer.tmpcs[1][0].time for layer in workload.layers) == pytest.approx(milliseconds / 1000)


def test_published_placement_files_are_recognised() -> None:
    root = shared_path("workloads", "placement")
    kinds = {path.parent.name: kind_of(path) for path in sorted(root.glob("*/*.json"))}
    assert kinds == {"latency": "placement", "throughput": "placement", "splits": "split"}
