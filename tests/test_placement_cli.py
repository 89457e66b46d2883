"""``piper place``, and what other commands make of placement workloads and splits, as a shell sees them."""

from __future__ import annotations

import importlib.util
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from examples import Document, placement, split
from program import Terminal, on_terminal, refused, result, run
from shared import shared_path
from workloads import chain_document, write

import piper
from piper.costs.placement import placement_from_model


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    return write(tmp_path / "case.json", placement())


def test_place_gives_the_published_keys_and_a_proof(workload: Path) -> None:
    placed = result("place", workload)
    assert (placed["feasible"], placed["optimal"], placed["status"]) == (True, True, "done")
    assert placed["maxLoad"] == placed["lowerBound"]
    assert (placed["contiguous"], placed["algorithm"], placed["gap"]) == (True, "auto", 0)
    assert placed["nodes"][0] == {"id": 5, "name": "in"}
    listed = [node for device in (*placed["fpgas"], *placed["cpus"]) for node in device["nodes"]]
    assert sorted(listed) == sorted(node["id"] for node in placement()["nodes"])
    assert max(device["load"] for device in (*placed["fpgas"], *placed["cpus"])) == placed["maxLoad"]
    positions = [device["position"] for device in (*placed["fpgas"], *placed["cpus"])]
    assert sorted(positions) == list(range(len(positions)))


def test_a_saved_split_evaluates_to_the_same_load(workload: Path, tmp_path: Path) -> None:
    placed = result("place", workload)
    ended = run("place", workload, "-o", tmp_path / "split.json")
    assert (ended.returncode, ended.stdout) == (0, "")
    scored = result("evaluate", workload, tmp_path / "split.json")
    assert (scored["feasible"], scored["maxLoad"], scored["violations"]) == (True, placed["maxLoad"], [])
    assert run("place", workload, "-o", tmp_path / "split.json").returncode == 2
    assert run("place", workload, "-o", tmp_path / "split.json", "--force").returncode == 0


def test_a_broken_split_ends_with_status_1_and_names_rule_and_nodes(workload: Path, tmp_path: Path) -> None:
    broken = split()
    broken["fpgas"][0]["nodes"].append(-6)
    broken["cpus"] = []
    scored = result("evaluate", workload, write(tmp_path / "split.json", broken), status=1)
    assert scored["feasible"] is False
    assert scored["violations"] == [
        {"rule": "unsupported", "where": "accelerator 0, node -6", "nodes": [-6], "by": 1},
    ]


def test_options_override_the_numbers_of_the_file(workload: Path) -> None:
    alone = result("place", workload, "--accelerators", "0", "--cpus", "1")
    assert (alone["fpgas"], alone["maxLoad"]) == ([], 60)
    assert result("place", workload, "--accelerators", "accelerator=0")["maxLoad"] == 60
    little = result("place", workload, "--memory", "250", "--accelerators", "9")
    assert all(device["memory"] <= 250 for device in little["fpgas"])
    setup = result("place", workload, "--load", "duplex", "--training-objective", "split", "--max-replicas", "2")[
        "setup"
    ]
    assert (setup["loadRule"], setup["trainingObjective"], setup["maxReplicas"]) == ("duplex", "split", 2)


@pytest.mark.parametrize("algorithm", ["dp", "dpl", "pipedream", "local-search"])
def test_algorithms(workload: Path, algorithm: str) -> None:
    placed = result("place", workload, "--algorithm", algorithm)
    best = result("place", workload)
    assert placed["algorithm"] == algorithm
    assert placed["lowerBound"] <= best["maxLoad"]
    assert placed["maxLoad"] >= best["maxLoad"] or not placed["contiguous"]


def test_compare_shows_simpler_placers(workload: Path) -> None:
    placed = result("place", workload, "--compare")
    rows = {row["name"]: row for row in placed["baselines"]}
    assert {"dpl", "pipedream", "local-search", "single"} <= set(rows)
    assert rows["single"]["brokenRules"] == ["unsupported"]
    for row in rows.values():
        assert row["maxLoad"] is None or row["ratio"] == row["maxLoad"] / placed["maxLoad"]


def test_an_algorithm_whose_split_breaks_a_rule_ends_with_status_1(workload: Path) -> None:
    ended = run("place", workload, "--algorithm", "single")
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["feasible"] is False
    assert "accelerator 0, node -6: unsupported" in ended.stderr


def infeasible(document: Document, path: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Result and message of a workload that cannot be placed."""
    ended = run("place", write(path, document), *options)
    assert ended.returncode == 1, ended
    found = json.loads(ended.stdout)
    assert found["feasible"] is False
    assert ended.stderr.count("\n") == 1
    return found, ended.stderr


def test_an_infeasible_workload_says_what_would_do(tmp_path: Path) -> None:
    document = placement()
    found, message = infeasible(document, tmp_path / "a.json", "--cpus", "0")
    assert found["reasons"] == ["node -6 can run on a CPU only, and there is none"]
    assert found["needs"] == {}
    document["nodes"][1]["supportedOnFpga"] = 1
    found, message = infeasible(document, tmp_path / "b.json", "--cpus", "0", "--memory", "150")
    assert "node 5 (in) with the 1 other of its colour class needs 200 B, 50 B more than the 150 B" in message
    assert found["needs"]["memory"] == pytest.approx(300)
    assert "accelerators" not in found["needs"]
    found, _ = infeasible(document, tmp_path / "c.json", "--cpus", "0", "--memory", "250")
    assert found["needs"] == {"memory": pytest.approx(300), "accelerators": 3}
    enough = result("place", tmp_path / "c.json", "--cpus", "0", "--memory", "250", "--accelerators", "3")
    assert enough["optimal"]
    found, _ = infeasible(document, tmp_path / "d.json", "--cpus", "0", "--accelerators", "0")
    assert found["reasons"] == ["there is no device at all"]


def test_each_command_names_the_other(workload: Path, tmp_path: Path) -> None:
    pipeline = write(tmp_path / "chain.json", chain_document())
    assert "use `piper place`" in refused("plan", workload)
    assert "use `piper plan`" in refused("place", pipeline)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--device", "t4"), "the option device does not apply"),
        (("--bandwidth", "1GB"), "it counts transfers in time, not in bytes"),
        (("--accelerators", "tpu=2"), "there is no class 'tpu'; expected accelerator"),
        (("--accelerators", "2", "--accelerators", "3"), "give one number, or one CLASS=K for each class"),
        (("--accelerators", "-1"), "is no whole number from 0 on"),
        (("--cpus", "-1"), "-1 is not in the range"),
        (("--algorithm", "greedy"), "'greedy' is not one of"),
        (("--load", "fast"), "'fast' is not one of"),
        (("--gap", "-1"), "-1.0 is not in the range"),
    ],
)
def test_options_that_do_not_apply_are_refused(workload: Path, options: tuple[str, ...], expected: str) -> None:
    assert expected in refused("place", workload, *options)


def test_evaluate_refuses_options_of_the_other_problem(workload: Path, tmp_path: Path) -> None:
    parts = write(tmp_path / "split.json", split())
    assert "--microbatches: the option does not apply to a split" in refused(
        "evaluate", workload, parts, "--microbatches", "2"
    )
    pipeline = write(tmp_path / "chain.json", chain_document())
    plan = tmp_path / "plan.json"
    assert run("plan", pipeline, "-o", plan).returncode == 0
    assert "--cpus: the option does not apply to a plan" in refused("evaluate", pipeline, plan, "--cpus", "2")


def test_inspect_shows_a_placement_workload(workload: Path) -> None:
    shown = result("inspect", workload)
    assert [node["id"] for node in shown["nodes"]] == [5, -6, 7, 8, 18, 15]
    assert shown["nodes"][1]["latencies"] == {}
    assert shown["cpus"] == 1
    status, text = on_terminal("inspect", workload)
    assert status == 0
    assert "6 nodes (2 backward), 6 edges, 2 colour classes" in text


def test_a_terminal_gets_a_table(workload: Path) -> None:
    status, shown = on_terminal("place", workload, "--compare", NO_COLOR="1")
    assert status == 0
    assert "proven optimal" in shown
    assert "baseline" in shown
    assert "\x1b[3" not in shown


# --- Real models ----------------------------------------------------------------------------------------------------

GNMT = ("pipedream", "nasnetamobile.txt")


def large() -> tuple[str | Path, ...]:
    """A search that takes minutes."""
    return (shared_path("workloads", *GNMT), "--accelerators", "8", "--bandwidth", "25GB")


def test_a_time_limit_gives_the_best_so_far_and_its_bound() -> None:
    placed = result("place", *large(), "--time-limit", "2", status=3)
    assert placed["status"] == "time limit"
    assert placed["optimal"] is False
    assert 0 < placed["lowerBound"] < placed["maxLoad"]


def test_an_interrupt_gives_the_best_so_far() -> None:
    with Terminal("place", *large(), "--json") as terminal:
        time.sleep(4)
        terminal.process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        shown = terminal.shown_until_the_end()
        assert time.monotonic() - sent < 2
    assert terminal.process.returncode == 130
    assert '"status": "interrupted"' in shown
    assert "stopped early (interrupted)" in shown


def test_an_onnx_model_is_placed_by_operator() -> None:
    model = shared_path("onnx", "models", "light_resnet50.onnx")
    options = ("--accelerators", "4", "--device", "t4", "--cpus", "1")
    first, again = (result("place", model, *options, "--threads", threads) for threads in ("1", "2"))
    assert first["optimal"]
    assert (first["fpgas"], first["cpus"]) == (again["fpgas"], again["cpus"])
    assert first["setup"]["timeUnit"] == "s"
    assert first["setup"]["accelerators"] == [{"name": "t4", "count": 4, "maxSize": 16e9}]
    assert len(first["nodes"]) > 150
    slower = result("place", model, *options, "--bandwidth", "1MB")
    assert slower["maxLoad"] >= first["maxLoad"]
    kept = result("place", model, *options, "--unsupported", "Conv,MaxPool")
    convolutions = {node["id"] for node in kept["nodes"] if "conv" in node["name"].lower()}
    assert not convolutions & {node for device in kept["fpgas"] for node in device["nodes"]}


def test_operators_that_a_device_cannot_run_stay_on_a_cpu() -> None:
    model = shared_path("onnx", "models", "sklearn_logreg.onnx")
    options = ("--dim", "X.0=8", "--accelerators", "1", "--device", "t4")
    ended = run("place", model, *options)
    assert ended.returncode == 1
    assert "can run on a CPU only" in ended.stderr
    placed = result("place", model, *options, "--cpus", "1")
    assert placed["cpus"]
    everywhere = result("place", model, *options, "--cpus", "1", "--unsupported", "")
    assert everywhere["maxLoad"] <= placed["maxLoad"]


def test_a_built_in_model_is_placed_by_layer() -> None:
    placed = result("place", "llama3-8b", "--accelerators", "2", "--device", "a100-80gb", "--sequence", "128")
    assert placed["optimal"]
    assert sorted(len(device["nodes"]) for device in placed["fpgas"]) in ([16, 18], [17, 17])
    assert "the graph of its operators is not known" in refused(
        "place", "llama3-8b", "--accelerators", "2", "--device", "a100-80gb", "--granularity", "operator"
    )


def test_a_model_needs_devices() -> None:
    assert "it needs accelerators and their device" in refused("place", "llama3-8b")


def test_measured_times_replace_modelled_ones(tmp_path: Path) -> None:
    path = shared_path("onnx", "models", "light_resnet50.onnx")
    model = piper.load(path)
    assert isinstance(model, piper.Model)
    live = [operator for operator in model.operators if operator.rule != "constant"]
    events = [
        {
            "cat": "Node",
            "name": f"{live[0].name}_kernel_time",
            "dur": dur,
            "args": {"op_name": live[0].op_type, "provider": provider},
        }
        for dur, provider in ((9e6, "CUDAExecutionProvider"), (7e6, "CUDAExecutionProvider"))
    ]
    events.append(
        {
            "cat": "Node",
            "name": f"{live[1].name}_kernel_time",
            "dur": 3e6,
            "args": {"op_name": live[1].op_type, "provider": "CPUExecutionProvider"},
        }
    )
    events.append({"cat": "Node", "name": "fused_kernel_time", "dur": 1, "args": {}})
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(events))
    ended = run("place", path, "--accelerators", "1", "--device", "t4", "--cpus", "1", "--profile", profile)
    assert ended.returncode == 0, ended.stderr
    assert "no time for" in ended.stderr
    assert "fused" in ended.stderr
    from piper.costs.devices import device
    from piper.placement.profile import measured

    times, _ = measured(model, profile)
    workload = placement_from_model(model, device("t4"), accelerators=1, cpus=1, measured=times)
    assert workload.nodes[0].accelerators == (7,)
    assert workload.nodes[0].cpu < 1
    assert workload.nodes[1].cpu == 3
    assert (workload.nodes[1].accelerators[0] or 0.0) < 0.01


def test_a_profile_is_measured_or_names_the_extra(tmp_path: Path) -> None:
    model, written = shared_path("onnx", "models", "light_squeezenet.onnx"), tmp_path / "profile.json"
    if importlib.util.find_spec("onnxruntime") is None:
        assert "pip install 'piper-dnn[profile]'" in refused("profile", model, "-o", written)
        return
    ended = run("profile", model, "--runs", "2", "-o", written)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    placed = run("place", model, "--accelerators", "1", "--device", "t4", "--cpus", "1", "--profile", written)
    assert placed.returncode == 0
    assert "no time for" not in placed.stderr
    assert "exists already" in refused("profile", model, "-o", written)
    no_weights = shared_path("onnx", "models", "bert_base_mlm_ts_static.onnx")
    assert "onnxruntime cannot run it" in refused("profile", no_weights, "-o", tmp_path / "other.json")


def test_a_simple_algorithm_that_finds_nothing_proves_nothing(tmp_path: Path) -> None:
    document = placement()
    document["maxFPGAs"] = 0
    for node in document["nodes"]:
        node["isBackwardNode"] = 0
    file = write(tmp_path / "a.json", document)
    assert result("place", file)["optimal"]
    single = run("place", file, "--algorithm", "single")
    assert single.returncode == 3
    assert "proves nothing" in single.stderr
