"""The program ``piper`` as a shell sees it: standard output, standard error, exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from program import PIPER, Terminal, on_terminal, refused, result, run
from shared import shared_path
from workloads import chain_document, long_document, wide_document, write

import piper
from piper import _core
from piper.cli import main

LITTLE_MEMORY = ("--memory-limit", "20MB")


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    return write(tmp_path / "chain.json", chain_document())


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return write(tmp_path / "wide.json", wide_document())


def test_a_plan_in_a_pipe_is_json_and_nothing_else(chain: Path) -> None:
    ended = run("plan", chain)
    assert (ended.returncode, ended.stderr) == (0, "")
    plan = json.loads(ended.stdout)
    # 32 units of work on two devices without any transfer.
    assert plan["timePerSample"] == 16
    assert plan["lowerBound"] == pytest.approx(16, rel=1e-9)
    assert plan["optimal"] is True
    assert plan["devicesUsed"] == 2
    assert [layer["name"] for layer in plan["layers"]] == ["block.0", "block.1", "block.2", "block.3"]
    placed = [layer for stage in plan["stages"] for layer in stage["nodes"]]
    assert sorted(placed) == [0, 1, 2, 3]
    for stage in plan["stages"]:
        assert set(stage["TMPCids"]) == {str(layer) for layer in stage["nodes"]}
        assert stage["load"] <= plan["timePerSample"]
        assert stage["memory"] <= plan["memoryPerDevice"]
    assert "iterationTime" not in plan  # The file does not say what its times are measured in.


def test_options_override_the_numbers_of_the_file(chain: Path) -> None:
    plan = result("plan", chain, "--devices", "1", "--memory", "1KiB", "--microbatches", "2", "--bandwidth", "7")
    assert (plan["timePerSample"], plan["devices"], plan["memoryPerDevice"]) == (32, 1, 1024)
    assert plan["microbatches"] == 2


def test_restrictions_shape_the_plan(chain: Path) -> None:
    plan = result("plan", chain, "--no-data-parallel", "--no-tensor-parallel", "--pin", "block.1=1", "--stages", "2")
    assert [stage["nodes"] for stage in plan["stages"]] == [[0], [1, 2, 3]]
    plan = result("plan", chain, "--together", "block.0,block.2", "--apart", "2,3", "--tensor-parallel", "1")
    assert [stage["nodes"] for stage in plan["stages"]] == [[0, 1, 2], [3]]
    plan = result("plan", chain, "--recompute", "always", "--tensor-parallel", "1")
    assert {tmpc for stage in plan["stages"] for tmpc in stage["TMPCids"].values()} == {"activation recomp"}


def test_a_saved_plan_evaluates_to_its_own_score(chain: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    assert run("plan", chain, "-o", saved).stdout == ""
    evaluation = result("evaluate", chain, saved)
    assert evaluation["feasible"] is True
    assert evaluation["timePerSample"] == json.loads(saved.read_text())["timePerSample"]
    assert evaluation["violations"] == []


def test_evaluation_of_a_plan_that_breaks_a_limit(chain: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    run("plan", chain, "-o", saved)
    evaluation = result("evaluate", chain, saved, "--memory", "30", status=1)
    assert evaluation["feasible"] is False
    assert {violation["rule"] for violation in evaluation["violations"]} == {"memory"}
    assert all(violation["by"] > 0 for violation in evaluation["violations"])


def test_existing_files_are_kept_unless_forced(chain: Path, tmp_path: Path) -> None:
    precious = tmp_path / "plan.json"
    precious.write_text("precious")
    assert "--force" in refused("plan", chain, "-o", precious)
    assert precious.read_text() == "precious"
    assert run("plan", chain, "-o", precious, "--force").returncode == 0
    assert json.loads(precious.read_text())["optimal"]
    assert "does not exist" in refused("plan", chain, "-o", tmp_path / "nowhere" / "plan.json")


def test_json_goes_to_both_when_asked_for(chain: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    shown = run("plan", chain, "-o", saved, "--json").stdout
    assert json.loads(shown) == json.loads(saved.read_text())


def test_an_infeasible_layer_is_named_with_what_would_do(chain: Path) -> None:
    ended = run("plan", chain, "--memory", "3")
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "block.0" in ended.stderr
    document = json.loads(ended.stdout)
    assert document["feasible"] is False
    assert "block.0" in document["reasons"][0]
    enough = document["needs"]["memory"]
    assert run("plan", chain, "--memory", str(int(enough))).returncode == 0
    assert run("plan", chain, "--memory", str(int(enough) - 1)).returncode == 1


def test_too_few_devices_are_answered_with_how_many_would_do(chain: Path) -> None:
    document = result("plan", chain, "--memory", "14", "--no-tensor-parallel", status=1)
    assert document["needs"]["devices"] == 4
    options = ("--memory", "14", "--no-tensor-parallel")
    assert run("plan", chain, "--devices", "4", *options).returncode == 0


def test_contradicting_restrictions_are_explained(chain: Path) -> None:
    document = result("plan", chain, "--data-parallel", "3", status=1)
    assert any("3" in reason and "8 microbatches" in reason for reason in document["reasons"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--pin", "block.1=0", "--pin", "block.1=1"), "stages 0 and 1"),
        (("--pin", "block.0=1", "--pin", "block.1=0"), "later stage"),
        (("--pin", "block.0=2", "--stages", "2"), "0 to 1"),
        (("--together", "0,1", "--together", "1,2", "--apart", "0,2"), "together and apart"),
        (("--pin", "0=0", "--pin", "1=0", "--apart", "0,1"), "together and apart"),
        (("--tensor-parallel", "2", "--max-tensor-parallel", "1"), "largest one, 1"),
        (("--tensor-parallel", "2", "--devices", "1"), "1 devices"),
        (("--stages", "5"), "4 layers"),
        (("--pin", "block.0=1"), "order of the layers"),
    ],
)
def test_what_contradicts_is_named(options: tuple[str, ...], expected: str, chain: Path) -> None:
    assert expected in "; ".join(result("plan", chain, *options, status=1)["reasons"])


def test_the_frontier_ends_at_the_plan(chain: Path) -> None:
    points = result("plan", chain, "--devices", "8", "--frontier")["frontier"]
    assert [point["devices"] for point in points] == sorted({point["devices"] for point in points})
    times = [point["timePerSample"] for point in points]
    assert times == sorted(times, reverse=True)
    assert times[-1] == result("plan", chain, "--devices", "8")["timePerSample"]


def test_baselines_are_never_better(chain: Path) -> None:
    baselines = result("plan", chain, "--compare")["baselines"]
    assert baselines
    assert all(baseline["ratio"] is None or baseline["ratio"] >= 1 - 1e-12 for baseline in baselines)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["plan"], "MODEL"),
        (["plan", "no-such-model"], "no-such-model"),
        (["plan", "{chain}", "--nonsense"], "--nonsense"),
        (["plan", "{chain}", "--memory", "8 parsecs"], "8 parsecs"),
        (["plan", "{chain}", "--devices", "0"], "--devices"),
        (["plan", "{chain}", "--gap", "-1"], "--gap"),
        (["plan", "{chain}", "--gap", "nan"], "gap"),
        (["plan", "{chain}", "--pin", "block.9=0"], "block.9"),
        (["plan", "{chain}", "--pin", "block.1=99999999999"], "99999999999"),
        (["plan", "{chain}", "--reserve", "1TB"], "reserve"),
        (["plan", "{chain}", "--dim", "batch=1"], "--dim"),
        (["plan", "{chain}", "--frontier", "--compare"], "--compare"),
        (["plan", "{chain}", "--frontier", "--gap", "0.1"], "--gap"),
        (["plan", "{chain}", "--pin", "block.1"], "LAYER=STAGE"),
        (["plan", "{chain}", "--together", "block.1"], "block.1"),
        (["plan", "{chain}", "--global-batch", "8"], "workload file"),
        (["plan", "{chain}", "--cluster", "many"], "many"),
        (["plan", "{truncated}"], "truncated.json"),
        (["plan", "{empty}"], "empty.json"),
        (["plan", "{folder}"], "folder"),
        (["evaluate", "{chain}", "{chain}"], "stages"),
        (["evaluate", "{chain}"], "RESULT"),
        (["inspect"], "--list"),
        (["place", "{chain}"], "place"),
        (["plan", "gpt3-175b"], "cluster"),
        (["plan", "gpt3-175b", "--cluster", "1x8:abacus"], "abacus"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], expected: str, chain: Path, tmp_path: Path) -> None:
    (tmp_path / "truncated.json").write_text(chain.read_text()[:100])
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "folder").mkdir()
    files = {name: tmp_path / f"{name}.json" for name in ("truncated", "empty")}
    names = files | {"chain": chain, "folder": tmp_path / "folder"}
    assert expected in refused(*(argument.format(**names) for argument in arguments))


def test_control_characters_of_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    assert "\x1b" not in refused("plan", tmp_path / "\x1b[31mred\nline")


def test_a_limit_gives_the_best_so_far_and_status_3(wide: Path) -> None:
    plan = result("plan", wide, *LITTLE_MEMORY, status=3)
    assert plan["optimal"] is False
    assert plan["status"] == "memory limit"
    assert 0 < plan["lowerBound"] < plan["timePerSample"]


def test_no_time_at_all_is_status_3_and_one_line(wide: Path) -> None:
    ended = run("plan", wide, "--time-limit", "0")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.count("\n") == 1
    assert "time limit" in ended.stderr


def test_a_reached_gap_is_success_without_proof(wide: Path) -> None:
    plan = result("plan", wide, *LITTLE_MEMORY, "--gap", "0.5")
    assert plan["optimal"] is False
    assert plan["status"] == "gap"
    assert 1e-9 < plan["gap"] <= 0.5


def test_ctrl_c_prints_the_best_so_far_and_ends(tmp_path: Path) -> None:
    with Terminal("plan", write(tmp_path / "long.json", long_document()), "--json") as terminal:
        assert "bound" in terminal.shown_until("best")
        terminal.process.send_signal(signal.SIGINT)
        shown = terminal.shown_until_the_end()
    assert terminal.process.returncode == 130
    plan = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])
    assert plan["status"] == "interrupted"
    assert plan["lowerBound"] <= plan["timePerSample"]


def test_a_reader_that_goes_away_is_no_error(wide: Path) -> None:
    read, write_end = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [str(PIPER), "inspect", str(wide)], stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(write_end)
    assert ended.stderr == b""
    assert ended.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only some systems have a device that is always full")
def test_a_full_disk_is_one_line(chain: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run([PIPER, "plan", chain], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "piper: the output cannot be written: No space left on device\n"


def test_a_terminal_gets_a_table(chain: Path) -> None:
    status, shown = on_terminal("plan", chain)
    assert status == 0
    assert "proven optimal" in shown
    assert "\x1b[" in shown
    assert "{" not in shown
    assert "block.3" in shown


def test_no_color_is_respected(chain: Path) -> None:
    _, shown = on_terminal("plan", chain, NO_COLOR="1")
    assert "proven optimal" in shown
    assert "\x1b[3" not in shown


def test_json_can_be_had_on_a_terminal(chain: Path) -> None:
    _, shown = on_terminal("plan", chain, "--json")
    assert json.loads(shown)["optimal"] is True


def test_quiet_shows_the_result_alone(wide: Path) -> None:
    status, shown = on_terminal("plan", wide, *LITTLE_MEMORY, "--quiet", "--json")
    assert status == 3
    assert json.loads(shown)["status"] == "memory limit"
    assert "not proven" in run("plan", wide, *LITTLE_MEMORY).stderr


def test_inspection_of_a_workload(chain: Path) -> None:
    document = result("inspect", chain)
    assert [layer["tensorParallel"] for layer in document["layers"]] == [[1, 2]] * 4
    assert document["mbsInBatch"] == 8


def test_inspection_of_a_built_in_model() -> None:
    document = result("inspect", "gpt3-175b", "--device", "a100-80gb")
    assert document["parameters"] == pytest.approx(175e9, rel=0.01)
    assert document["flops"] == sum(operator["flops"] for operator in document["operators"])
    assert document["flops"] == sum(layer["flops"] for layer in document["layers"])
    assert max(layer["repeats"] for layer in document["layers"]) == 96
    assert all(operator["seconds"] >= 0 for operator in document["operators"])
    _, shown = on_terminal("inspect", "gpt3-175b")
    assert "96 x " in shown


def test_the_list_of_built_in_names() -> None:
    document = result("inspect", "--list")
    assert "gpt3-175b" in {model["name"] for model in document["models"]}
    assert "h100-80gb" in {device["name"] for device in document["devices"]}


def test_a_built_in_model_plans_and_evaluates(tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    where = ("--cluster", "8x8:a100-80gb", "--microbatches", "64")
    assert run("plan", "bert-large", *where, "-o", saved).returncode == 0
    plan = json.loads(saved.read_text())
    assert plan["optimal"] is True
    assert plan["iterationTime"] == pytest.approx(64 * plan["timePerSample"])
    assert 0 < plan["mfu"] < 1
    assert result("evaluate", "bert-large", saved, *where)["timePerSample"] == plan["timePerSample"]


def test_an_onnx_model_plans_once_its_dimensions_are_known() -> None:
    model = shared_path("onnx", "models", "gpt2_dynamo.onnx")
    assert "batch" in refused("plan", model, "--cluster", "1x8:h100-80gb")
    known = ("--dim", "batch=2", "--dim", "seq=128")
    plan = result("plan", model, *known, "--cluster", "1x8:h100-80gb", "--microbatches", "32")
    assert plan["optimal"] is True
    assert plan["microbatchSize"] == 2
    inspection = result("inspect", model, *known, "--device", "h100-80gb")
    assert [layer["name"] for layer in inspection["layers"]] == [layer["name"] for layer in plan["layers"]]
    assert inspection["inputs"][0]["shape"] == [2, 128]


def test_a_profile_needs_its_cluster() -> None:
    profile = shared_path("workloads", "pipedream", "vgg16.txt")
    assert "--devices" in refused("plan", profile)
    plan = result(
        "plan", profile, "--devices", "4", "--memory", "16GB", "--bandwidth", "25GB", "--microbatches", "64"
    )
    assert plan["optimal"] is True
    assert plan["timeUnit"] == "s"
    assert len(result("inspect", profile)["layers"]) == len(plan["layers"])


def test_a_placement_workload_is_sent_to_its_own_command() -> None:
    file = next(iter(sorted(shared_path("workloads", "placement", "throughput").glob("*.json"))))
    assert "piper place" in refused("plan", file)


def test_version_and_module() -> None:
    assert run("--version").stdout == f"piper {piper.__version__}\n"
    ended = subprocess.run([sys.executable, "-m", "piper", "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout == run("--version").stdout


def test_an_interrupt_at_any_other_time_is_one_line(
    chain: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("piper.cli.plan.read", interrupt)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(chain)])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "piper: interrupted\n"


def test_an_unexpected_error_is_one_line(
    chain: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PIPER_DEBUG", raising=False)
    monkeypatch.setattr("piper.cli.plan.read", lambda *_: 1 / 0)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(chain)])
    assert ended.value.code == 70
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "please report" in message


def test_ctrl_c_while_modules_are_loaded_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "piper.cli.run":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "piper.cli.run", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main(["inspect", "--list"])
    assert (ended.value.code, capsys.readouterr().err) == (130, "piper: interrupted\n")


def test_ctrl_c_at_the_end_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    presses = iter([KeyboardInterrupt, KeyboardInterrupt])

    def ignore(*_: object) -> None:
        for press in presses:
            raise press

    monkeypatch.setattr("signal.signal", ignore)
    with pytest.raises(SystemExit) as ended:
        main(["inspect", "--list"])
    assert (ended.value.code, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize("arguments", [["inspect", "--list"], ["plan", "--help"]])
def test_closed_streams_are_no_error(arguments: list[str]) -> None:
    command = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", str(PIPER), *arguments]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


def test_a_name_that_no_file_can_have_is_refused(chain: Path) -> None:
    assert "cannot be written" in refused("plan", chain, "-o", "a" * 300)


def test_a_frontier_without_proof_is_status_3(wide: Path) -> None:
    frontier = result("plan", wide, "--frontier", "--devices", "3", *LITTLE_MEMORY, status=3)
    assert (frontier["optimal"], frontier["status"]) == (False, "memory limit")
    assert all(point["lowerBound"] <= point["timePerSample"] for point in frontier["frontier"])
    ended = run("plan", wide, "--frontier", "--time-limit", "0")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (3, "", 1)


@pytest.mark.parametrize(
    ("found", "status", "expected"),
    [
        ((None, None, "interrupted"), 130, "what would do was not found (interrupted)"),
        ((99.0, None, "time limit"), 1, "(99 bytes) on each device would do, maybe less (time limit)"),
    ],
)
def test_what_would_do_is_sought_within_the_limits(
    found: tuple[float | None, int | None, str],
    status: int,
    expected: str,
    chain: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(_core, "needs", lambda *_, **__: found)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(chain), "--memory", "5"])
    shown = capsys.readouterr()
    assert ended.value.code == status
    assert shown.err.endswith(f"{expected}\n")
    assert json.loads(shown.out)["status"] == found[2]
