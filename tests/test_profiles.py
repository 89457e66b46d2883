from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shared import shared_path

import piper
from piper.costs import Cluster, device, device_names, operator_seconds, use_devices, workload_from_model
from piper.errors import InputError
from piper.inspection import ModelInspection
from piper.model import Model
from piper.prediction import Prediction
from piper.profiles import match, read_profile

CLUSTER = "1x4:a100-80gb"


@pytest.fixture
def model() -> Model:
    found = piper.load("gpt2")
    assert isinstance(found, Model)
    return found


def write(path: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def node_event(name: str, micros: float, op_type: str, provider: str = "CUDAExecutionProvider") -> dict[str, Any]:
    return {
        "cat": "Node", "pid": 1, "tid": 1, "dur": micros, "ts": 0, "ph": "X", "name": f"{name}_kernel_time",
        "args": {"op_name": op_type, "provider": provider},
    }  # fmt: skip


def trace_event(name: str, micros: float, category: str) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": 1.5, "dur": micros, "pid": 0, "tid": 7}


def test_runs_of_onnx_runtime_are_averaged_without_the_first(tmp_path: Path) -> None:
    events = [
        {"cat": "Session", "name": "model_run", "dur": 9, "ph": "X"},
        node_event("a", 900, "MatMul"), node_event("a", 100, "MatMul"), node_event("a", 300, "MatMul"),
        node_event("b", 50, "Add", "CPUExecutionProvider"),
        {"cat": "Node", "name": "a_fence_before", "dur": 1, "ph": "X"},
    ]  # fmt: skip
    profile = read_profile(write(tmp_path / "p.json", events))
    assert profile.samples["a"].forward == pytest.approx(200e-6)
    assert profile.samples["a"].op_type == "MatMul"
    assert profile.samples["b"].forward == pytest.approx(50e-6)
    assert set(profile.samples) == {"a", "b"}


def test_traces_of_pytorch_prefer_the_device(tmp_path: Path) -> None:
    events = [
        trace_event("layer.0", 500, "user_annotation"),
        trace_event("layer.0", 700, "gpu_user_annotation"),
        trace_event("layer.0.backward", 1500, "gpu_user_annotation"),
        trace_event("nn.Module: layer.1", 600, "python_function"),
        trace_event("aten::mm", 10, "cpu_op"),
        {"ph": "M", "name": "process_name", "args": {}},
    ]
    profile = read_profile(write(tmp_path / "t.json", {"traceEvents": events}))
    assert set(profile.samples) == {"layer.0", "layer.1"}
    assert profile.samples["layer.0"].forward == pytest.approx(700e-6)
    assert profile.samples["layer.0"].backward == pytest.approx(1500e-6)
    assert profile.samples["layer.1"].backward is None


def test_measured_times_replace_modelled_ones(tmp_path: Path, model: Model) -> None:
    rows = "name,forward_ms,backward_ms\n" + "".join(f"layer.{n},{10},{30}\n" for n in range(12))
    measurements = match(model, read_profile(write(tmp_path / "p.csv", rows)))
    cluster = Cluster.parse(CLUSTER)
    workload = workload_from_model(model, cluster, measured=measurements.at(model.batch))
    plain = workload_from_model(model, cluster)
    (vanilla, *others) = workload.layers[3].tmpcs[1]
    assert vanilla.time == pytest.approx(0.040)
    assert others[-1].time == pytest.approx(0.050)
    assert workload.layers[0] == plain.layers[0]
    assert any("embedding.words" in text and "modelled" in text for text in measurements.warnings)
    # Twice the samples take twice the time.
    doubled = workload_from_model(model, cluster, measured=measurements.at(2))
    assert doubled.layers[3].tmpcs[1][0].time == pytest.approx(0.080)


def test_a_device_of_a_group_takes_its_share(tmp_path: Path, model: Model) -> None:
    profile = read_profile(write(tmp_path / "p.csv", "name,forward_ms\nlayer.3.feed_forward.up,8\n"))
    cluster = Cluster.parse(CLUSTER)
    measured = match(model, profile).at(1)
    plain = workload_from_model(model, cluster)
    slow = workload_from_model(model, cluster, measured=measured)
    gained = [slow.layers[4].tmpcs[t][0].time - plain.layers[4].tmpcs[t][0].time for t in (1, 2)]
    # 8 ms forward, twice that backward; half of it for each of two devices.
    assert gained[0] == pytest.approx(0.024, rel=0.05)
    assert gained[1] == pytest.approx(0.012, rel=0.05)


def test_types_must_agree(tmp_path: Path, model: Model) -> None:
    rows = "name,type,forward_ms\nlayer.0.feed_forward.up,MatMul,1\nlayer.1.feed_forward.up,Conv,1\nelsewhere,,1\n"
    found = match(model, read_profile(write(tmp_path / "p.csv", rows)))
    assert len(found.times) == 1
    assert "2 operators: layer.1.feed_forward.up, elsewhere" in found.warnings[1]


def test_the_batch_of_a_table_is_scaled(tmp_path: Path, model: Model) -> None:
    rows = "name,forward_ms,batch\nlayer.0,8,4\n"
    found = match(model, read_profile(write(tmp_path / "p.csv", rows)))
    assert sum(times.forward for times in found.at(1).values()) == pytest.approx(0.002)


def test_plans_predictions_and_inspections_take_profiles(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", "name,forward_ms\n" + "".join(f"layer.{n},100\n" for n in range(12)))
    plain, slow = (piper.plan("gpt2", CLUSTER, profile=profile) for profile in (None, path))
    assert slow.time_per_sample > 10 * plain.time_per_sample
    assert any("modelled times are used" in text for text in slow.warnings)
    scored = piper.evaluate("gpt2", slow, CLUSTER, profile=path)
    assert not isinstance(scored, Prediction)
    predicted = piper.evaluate("gpt2", piper.Configuration(), CLUSTER, profile=path)
    assert isinstance(predicted, Prediction)
    assert predicted.stages[0].forward == pytest.approx(1.2, rel=0.05)
    inspected = piper.inspect("gpt2", CLUSTER, profile=path)
    assert isinstance(inspected, ModelInspection)
    assert sum(inspected.seconds or ()) == pytest.approx(1.2, rel=0.05)
    operators = inspected.to_json()["operators"]
    assert {row["measured"] for row in operators} == {True, False}


def test_nodes_of_a_graph_are_matched(tmp_path: Path) -> None:
    path = shared_path("onnx", "models", "resnet50_ts_static_b8.onnx")
    graph = piper.load(path)
    assert isinstance(graph, Model)
    chosen = [operator for operator in graph.operators if operator.op_type == "Conv"]
    events = [node_event(operator.name, 1000, "Conv") for operator in chosen]
    profile = write(tmp_path / "p.json", events)
    done = subprocess.run(
        [sys.executable, "-m", "piper", "inspect", str(path), "--device", "t4", "--profile", str(profile), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = json.loads(done.stdout)["operators"]
    assert {row["name"] for row in rows if row["measured"]} == {operator.name for operator in chosen}
    assert all(row["seconds"] == pytest.approx(0.001) for row in rows if row["measured"])
    assert "no time for" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n", "line 1: the column name is missing"),
        ("name,forward_ms\n", "has no rows"),
        ("name,time\na,1\n", "the column forward_ms is missing"),
        ("name,forward_ms\nlayer.0,fast\n", "line 2: forward_ms is 'fast'; expected milliseconds"),
        ("name,forward_ms\nlayer.0,-1\n", "line 2: forward_ms is '-1'"),
        ("name,forward_ms\nlayer.0,nan\n", "line 2: forward_ms is 'nan'"),
        ("name,forward_ms\nlayer.0\n", "line 2: forward_ms is empty"),
        ("name,forward_ms\nlayer.0,1\nlayer.0,1\n", "line 3: 'layer.0' is there twice"),
        ("name,forward_ms,batch\nlayer.0,1,0\n", "line 2: batch is '0'"),
        ("name,forward_ms\nnowhere,1\n", "none of its 1 names is an operator or layer of gpt2"),
        ("[", "is no JSON"),
        ("[3]", "$[0]: is no object"),
        ("[]", "no event is the kernel of a node"),
        ('[{"cat": "Node", "name": "a_kernel_time", "dur": "x"}]', "$[0]: dur is 'x'; expected microseconds"),
        ("{}", "expected a list of events, a Chrome trace"),
        ('{"traceEvents": []}', "expected a trace of PyTorch"),
        ("[" * 5000, "is no JSON"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path / "profile", content)
    with pytest.raises(InputError) as raised:
        piper.plan("gpt2", CLUSTER, profile=path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(path))
    assert str(raised.value).isprintable()


DEVICES = """
[device.half-a100]
like = "a100-80gb"
memory = "40GB"
memory_bandwidth = 1e12

[alias]
half = "half-a100"
"""


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[Path]:
    yield write(tmp_path / "devices.toml", DEVICES)
    use_devices(None)


def test_devices_of_the_users_own(devices: Path) -> None:
    use_devices(devices)
    assert device_names()[-1] == "half-a100"
    assert device("half").memory_bytes == 40e9
    assert device("half").peak("float16") == 312e12
    found = piper.load("gpt2")
    assert isinstance(found, Model)
    assert sum(operator_seconds(found, device("half"))) > sum(operator_seconds(found, device("a100-80gb")))
    use_devices(None)
    with pytest.raises(InputError, match="no device of the catalogue"):
        device("half")


def test_devices_on_the_command_line_and_in_the_environment(devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [sys.executable, "-m", "piper", "inspect", "gpt2", "--device", "half-a100"]
    by_option = subprocess.run([*arguments, "--devices-file", str(devices)], capture_output=True, check=True)
    monkeypatch.setenv("PIPER_DEVICES", str(devices))
    by_variable = subprocess.run(arguments, capture_output=True, check=True)
    assert by_option.stdout == by_variable.stdout
    assert json.loads(by_option.stdout)["device"] == "half-a100"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a =", "is no TOML"),
        ("a = 1", "'a': expected tables named device.NAME"),
        ("[device]\nmine = 3", "device.mine: expected a table"),
        ('[device.mine]\nlike = "abacus"', "like: 'abacus' is not in the catalogue"),
        ('[device.mine]\nlike = "t4"\nmemory_bandwidth = -1', "memory_bandwidth is -1; expected a positive number"),
        ('[device.mine]\nlike = "t4"\nflops = { float32 = inf }', "float32 is inf; expected a positive number"),
        ('[device.mine]\nlike = "t4"\nmemory = "much"', "device.mine: memory: "),
        ('[device.mine]\nlike = "t4"\nfamily = "none"', "there is no 'none'; expected volta"),
        ('[device.mine]\nmemory = "8GiB"', "missing required field"),
        ('[device.mine]\nlike = "t4"\nspeed = 3', "unknown field"),
        ('[family.turing]\nlike = "volta"\nlink_efficiency = 2', "link_efficiency is 2; expected a share of 1"),
        ('[alias]\nmine = "abacus"', "alias.mine: 'abacus' is no device"),
    ],
)
def test_what_are_no_devices_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path / "devices.toml", content)
    with pytest.raises(InputError) as raised:
        use_devices(path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(path))
