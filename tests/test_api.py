"""The Python functions: what they return, what they raise, what they cost to import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from examples import PROFILE
from workloads import chain_document, long_document, write

import piper
from piper import _core
from piper.planning import InternalError


@pytest.fixture
def chain(tmp_path: Path) -> piper.Workload:
    workload = piper.load(write(tmp_path / "chain.json", chain_document()))
    assert isinstance(workload, piper.Workload)
    return workload


def bert(cluster: str = "2x4:a100-80gb", **options: object) -> piper.Plan:
    return piper.plan("bert-large", cluster, **options)  # type: ignore[arg-type]


def test_a_plan_carries_its_proof_and_its_stages(chain: piper.Workload) -> None:
    plan = piper.plan(chain)
    assert plan.time_per_sample == 16
    assert plan.lower_bound == pytest.approx(16, rel=1e-9)
    assert plan.optimal
    assert 0 <= plan.gap <= 1e-9
    assert plan.devices_used == sum(stage.devices for stage in plan.stages) == 2
    assert sorted(layer for stage in plan.stages for layer in stage.ids) == [0, 1, 2, 3]
    assert all(stage.load == stage.compute + stage.transfer + stage.resync for stage in plan.stages)
    assert plan.iteration_time is None


def test_models_and_workloads_print_in_a_line(chain: piper.Workload) -> None:
    assert str(chain) == "chain: 4 layers, 3 edges"
    assert str(piper.load("bert-large")) == "bert-large: 26 layers, 346 operators, bfloat16"


def test_names_and_files_are_taken_as_models(tmp_path: Path) -> None:
    file = write(tmp_path / "chain.json", chain_document())
    assert piper.plan(file).stages == piper.plan(str(file)).stages


def test_sizes_are_numbers_or_text(chain: piper.Workload) -> None:
    assert piper.plan(chain, memory="1KiB").memory_bytes == piper.plan(chain, memory=1024).memory_bytes == 1024
    with pytest.raises(piper.InputError, match="memory"):
        piper.plan(chain, memory=float("nan"))


def test_sizes_of_a_profile_are_numbers_or_text(tmp_path: Path) -> None:
    file = tmp_path / "profile.txt"
    file.write_text(PROFILE, encoding="utf-8")
    text = piper.load(file, devices=2, memory="16GB", bandwidth="25GB", microbatches=4)
    assert text == piper.load(file, devices=2, memory=16e9, bandwidth=25e9, microbatches=4)


def test_a_group_is_a_list_of_layers(chain: piper.Workload) -> None:
    with pytest.raises(piper.InputError, match="'layer' is no group; expected a list of layers"):
        piper.plan(chain, together=["layer"])


def test_a_reserve_is_not_used(chain: piper.Workload) -> None:
    assert piper.plan(chain, memory=100, reserve=40).memory_bytes == 60
    with pytest.raises(piper.InfeasibleError):
        piper.plan(chain, memory=100, reserve=99)


def test_layers_are_named_by_name_or_number(chain: piper.Workload) -> None:
    by_name = piper.plan(chain, pins={"block.2": 1}, stages=2, no_data_parallel=True, no_tensor_parallel=True)
    by_number = piper.plan(chain, pins=[(2, 1)], stages=2, no_data_parallel=True, no_tensor_parallel=True)
    assert by_name.stages == by_number.stages
    assert 2 in by_name.stages[1].ids


def test_names_that_several_layers_have_are_refused(tmp_path: Path) -> None:
    document = chain_document()
    for node in document["nodes"]:
        node["name"] = "block"
    with pytest.raises(piper.InputError, match="4 layers are named 'block'; use a number instead: 0, 1, 2, 3"):
        piper.plan(write(tmp_path / "same.json", document), pins={"block": 0})


def test_infeasibility_says_what_would_do(chain: piper.Workload) -> None:
    with pytest.raises(piper.InfeasibleError) as caught:
        piper.plan(chain, memory=3)
    error = caught.value
    assert error.reasons == [str(error)]
    assert piper.plan(chain, memory=error.needs["memory_bytes"]).optimal
    with pytest.raises(piper.InfeasibleError):
        piper.plan(chain, memory=error.needs["memory_bytes"] * (1 - 1e-6))


def test_what_a_model_needs_is_enough_with_its_reserve() -> None:
    with pytest.raises(piper.InfeasibleError) as caught:
        bert("1x2:a100-80gb", memory="1GiB")
    assert bert("1x2:a100-80gb", memory=caught.value.needs["memory_bytes"]).optimal


def test_saved_plans_are_never_overwritten_unasked(chain: piper.Workload, tmp_path: Path) -> None:
    plan, file = piper.plan(chain), tmp_path / "plan.json"
    plan.save(file)
    with pytest.raises(piper.InputError, match="exists"):
        plan.save(file)
    plan.save(file, force=True)
    assert json.loads(file.read_text()) == json.loads(json.dumps(plan.to_json()))


def test_plans_and_their_files_evaluate_alike(chain: piper.Workload, tmp_path: Path) -> None:
    plan = piper.plan(chain, devices=4)
    plan.save(tmp_path / "plan.json")
    of_plan = piper.evaluate(chain, plan, devices=4)
    assert of_plan == piper.evaluate(chain, tmp_path / "plan.json", devices=4)
    assert isinstance(of_plan, piper.Evaluation)
    assert of_plan.feasible
    assert (of_plan.time_per_sample, of_plan.stages) == (plan.time_per_sample, plan.stages)
    assert not piper.evaluate(chain, plan, devices=3).feasible


def test_a_plan_of_another_workload_is_refused(chain: piper.Workload, tmp_path: Path) -> None:
    longer = piper.load(write(tmp_path / "longer.json", chain_document(layers=6)))
    with pytest.raises(piper.InputError):
        piper.evaluate(chain, piper.plan(longer))


def test_the_frontier_agrees_with_single_plans(chain: piper.Workload) -> None:
    frontier = piper.frontier(chain, devices=8)
    assert all(
        piper.plan(chain, devices=point.devices).time_per_sample == point.time_per_sample for point in frontier.points
    )


@pytest.mark.parametrize("schedule", ["async", "gpipe", "1f1b"])
def test_schedules_are_judged_like_they_are_planned(chain: piper.Workload, schedule: piper.workload.Schedule) -> None:
    plan = piper.plan(chain, schedule=schedule)
    evaluation = piper.evaluate(chain, plan, schedule=schedule)
    assert isinstance(evaluation, piper.Evaluation)
    assert evaluation.time_per_sample == plan.time_per_sample
    assert (plan.time_per_sample == 16) == (schedule == "async" or len(plan.stages) == 1)


def test_progress_hears_of_best_and_bound_and_can_end_the_search(tmp_path: Path) -> None:
    heard: list[tuple[float, float]] = []

    def hear(best: float, bound: float) -> None:
        heard.append((best, bound))
        if best < float("inf"):
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        piper.plan(write(tmp_path / "long.json", long_document()), progress=hear)
    assert all(0 <= bound <= best for best, bound in heard)


def test_a_search_without_time_says_so(chain: piper.Workload) -> None:
    with pytest.raises(piper.LimitError, match="time limit"):
        piper.plan(chain, time_limit=0)


def test_the_microbatch_search_finds_what_single_plans_find() -> None:
    searched = bert(global_batch=64)
    sizes = {size: bert(global_batch=64, microbatch_size=size) for size in (1, 2, 4, 8, 16, 32, 64)}
    best = min(sizes, key=lambda size: sizes[size].time_per_sample / size)
    assert searched.microbatch_size == best
    assert searched.microbatches == 64 // best
    assert searched.stages == sizes[best].stages
    assert searched.optimal
    assert searched.iteration_time == pytest.approx(searched.time_per_sample * searched.microbatches)


def test_a_resized_model_is_the_model_read_at_that_size() -> None:
    read = piper.plan(piper.load("llama3-8b", microbatch_size=4), "1x8:h100-80gb", microbatches=32)
    resized = piper.plan(piper.load("llama3-8b"), "1x8:h100-80gb", microbatches=32, microbatch_size=4)
    assert (read.stages, read.microbatch_size, read.mfu) == (resized.stages, 4, resized.mfu)


def test_batches_that_cannot_be_cut_are_refused() -> None:
    with pytest.raises(piper.InputError, match="global_batch"):
        bert(global_batch=10, microbatch_size=4)
    with pytest.raises(piper.InputError, match="global_batch"):
        bert(global_batch=8, microbatch_size=4, microbatches=3)
    assert bert(global_batch=8, microbatches=4).microbatch_size == 2


def test_models_need_devices() -> None:
    with pytest.raises(piper.InputError, match="cluster"):
        piper.plan("bert-large")


def test_the_solver_is_not_believed(chain: piper.Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = _core.solve(chain, piper.Limits(), "async")
    assert honest.stages is not None
    for stages, bound in ((honest.stages, honest.lower_bound * 0.9), (honest.stages[:-1], honest.lower_bound)):
        fake = SimpleNamespace(stages=stages, lower_bound=bound, status="done")
        monkeypatch.setattr(_core, "solve", lambda *_, fake=fake, **__: fake)
        with pytest.raises(InternalError):
            piper.plan(chain)


def test_results_print_as_tables(chain: piper.Workload) -> None:
    assert "proven optimal" in str(piper.plan(chain, compare=True))
    assert "feasible" in str(piper.evaluate(chain, piper.plan(chain)))
    assert "devices" in str(piper.frontier(chain))
    assert "4 layers" in str(piper.inspect(chain))


def test_import_is_light() -> None:
    code = "import sys, piper; print([m for m in ('rich', 'click', 'onnx', 'numpy') if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
    code = "import sys, piper; print([m for m in sys.modules if m.startswith('piper.')])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
    assert set(piper.__all__) <= set(dir(piper))
    assert all(getattr(piper, name) is not None for name in piper.__all__)
    assert not hasattr(piper, "nothing")


def test_a_comparison_that_is_ended_leaves_the_plan(chain: piper.Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: object, **__: object) -> None:
        raise reason

    monkeypatch.setattr(_core, "baselines", ended)
    reason: BaseException = piper.LimitError("time")
    plan = piper.plan(chain, compare=True)
    assert (plan.time_per_sample, plan.status, plan.baselines) == (16, "done", ())
    assert "no comparison" in plan.warnings[-1]
    reason = KeyboardInterrupt()
    plan = piper.plan(chain, compare=True)
    assert (plan.time_per_sample, plan.status, plan.optimal) == (16, "interrupted", True)


def test_needs_keep_to_the_time_limit(chain: piper.Workload) -> None:
    assert _core.needs(chain, piper.Limits(), "async", time_limit=0) == (None, None, "time limit")
    with pytest.raises(piper.LimitError):
        _core.baselines(chain, piper.Limits(), "async", time_limit=0)


def test_the_smallest_times_that_there_are_end_the_search(tmp_path: Path) -> None:
    document = chain_document(maxMemoryPerDevice=1e29, bandwidth=1e-300)
    for node in document["nodes"]:
        for tmpc in node["TMPCs"]["1"]:
            tmpc |= {"timePerSample": 5e-324, "parameterSize": 1}
    for edge in document["edges"]:
        edge["communicationCost"] = 9e29
    plan = piper.plan(write(tmp_path / "small.json", document), time_limit=30)
    assert plan.status != "time limit"


@pytest.mark.parametrize(
    "options",
    [
        {"cluster": 5},
        {"pins": 5},
        {"pins": "x"},
        {"pins": [1]},
        {"pins": [("block.0",)]},
        {"pins": [("9" * 5000, 1)]},
        {"together": 5},
        {"apart": [None]},
    ],
)
def test_arguments_of_wrong_types_are_refused(options: dict[str, Any], chain: piper.Workload) -> None:
    with pytest.raises(piper.InputError):
        piper.plan(chain, **options)


def test_an_interrupt_while_a_plan_is_judged_leaves_the_plan(
    chain: piper.Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    presses = [KeyboardInterrupt]
    score = _core.score

    def pressed(*arguments: Any) -> _core.Score:
        if presses:
            raise presses.pop()
        return score(*arguments)

    monkeypatch.setattr(_core, "score", pressed)
    plan = piper.plan(chain, memory_limit=1e9)  # type: ignore[arg-type]
    assert (plan.time_per_sample, plan.status) == (16, "interrupted")
