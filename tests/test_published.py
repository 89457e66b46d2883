"""The solver against what the authors of Piper published for their workloads, and against itself on the same files.

Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS 2021;
repository msr-fiddle/piper.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from shared import shared_path

from piper import _core
from piper.formats.piper_json import load_piper
from piper.workload import Limits, Network, Schedule, Stage, Workload

GIB = float(2**30)
EXACT = 1e-9
SCHEDULES: tuple[Schedule, ...] = ("async", "gpipe", "1f1b")


def entries() -> list[Any]:
    """One parameter an entry; without the data one that is skipped."""
    try:
        path = shared_path("workloads", "expected.json")
    except pytest.skip.Exception as missing:
        return [pytest.param(None, marks=pytest.mark.skip(reason=str(missing)))]
    return [pytest.param(entry, id=name(entry)) for entry in json.loads(path.read_text())["pipeline"]]


def name(entry: dict[str, Any]) -> str:
    return f"{Path(entry['file']).stem}-{entry['devices']}-devices-{entry['memory_gib']}GiB"


@cache
def loaded(file: str) -> Workload:
    return load_piper(shared_path("workloads", file))


def workload_of(
    file: str, devices: int, memory_gib: float, microbatches: int, bandwidth_gib: float = 25.0
) -> Workload:
    bandwidth = bandwidth_gib * GIB
    network = Network(bandwidth, bandwidth, bandwidth)
    return replace(
        loaded(file), devices=devices, memory_bytes=memory_gib * GIB, microbatches=microbatches, network=network
    )


def solved(workload: Workload, limits: Limits | None = None, schedule: Schedule = "async") -> float:
    """The optimum, judged and proven; infinite when there is provably no plan."""
    limits = limits or Limits()
    solution = _core.solve(workload, limits, schedule)
    assert solution.status == "done"
    if solution.stages is None:
        assert solution.lower_bound == math.inf
        return math.inf
    stages = [Stage(tuple(layers), d, t, tuple(choices)) for layers, d, t, choices in solution.stages]
    score = _core.score(workload, limits, schedule, stages)
    assert score.violations == []
    assert score.value * (1 - EXACT) <= solution.lower_bound <= score.value * (1 + EXACT)
    return score.value


@pytest.mark.parametrize("entry", entries())
def test_no_published_plan_is_better(entry: dict[str, Any]) -> None:
    workload = workload_of(
        entry["file"], entry["devices"], entry["memory_gib"], entry["microbatches"], entry["bandwidth_gib"]
    )
    value = solved(workload)
    published = entry["time_per_sample"]
    if published is None:
        assert value == math.inf
        memory, devices, stopped = _core.needs(workload, Limits(), "async")
        assert stopped is None
        assert memory is not None
        assert memory > workload.memory_bytes
        assert solved(replace(workload, memory_bytes=memory)) < math.inf
        assert solved(replace(workload, memory_bytes=memory * (1 - 1e-6))) == math.inf
        assert devices is not None
        assert solved(replace(workload, devices=devices)) < math.inf
        assert solved(replace(workload, devices=devices - 1)) == math.inf
        return
    assert value <= published * (1 + EXACT)
    assert value <= entry.get("exact_at_most", math.inf) * (1 + EXACT)
    # The published program is exact but for its choice of recomputation, which is never far off.
    assert value >= 0.95 * published


@pytest.mark.parametrize("entry", entries())
def test_all_downsets_were_looked_at(entry: dict[str, Any]) -> None:
    workload = workload_of(entry["file"], entry["devices"], entry["memory_gib"], entry["microbatches"])
    solution = _core.solve(workload, Limits(), "async")
    assert solution.complete
    assert solution.downsets == entry["downsets"]


@pytest.mark.parametrize("file", ["piper/bert32a100.json", "piper/resnet.json"])
def test_more_devices_are_never_worse(file: str) -> None:
    values = [solved(workload_of(file, devices, 3.0, 960)) for devices in (1, 2, 3, 7, 8, 13, 32, 48, 96)]
    assert all(more <= fewer for fewer, more in pairwise(values))
    assert values[-1] < values[0]


@pytest.mark.parametrize("file", ["piper/bert32a100.json", "piper/resnet.json"])
def test_more_memory_is_never_worse(file: str) -> None:
    values = [solved(workload_of(file, 32, memory, 960)) for memory in (0.25, 1.0, 1.5, 2.0, 4.0, 16.0)]
    assert all(more <= less for less, more in pairwise(values))
    assert values[0] == math.inf
    assert values[-1] < math.inf


@pytest.mark.parametrize("file", ["piper/bert32a100.json", "piper/bert96a100.json", "piper/resnet.json"])
@pytest.mark.parametrize("microbatches", [1, 7, 64, 97])
def test_any_number_of_microbatches(file: str, microbatches: int) -> None:
    value = solved(workload_of(file, 64, 1024.0, microbatches))
    work = sum(min(c.time * t for t, tmpcs in layer.tmpcs.items() for c in tmpcs) for layer in loaded(file).layers)
    assert work / 64 <= value < math.inf


@pytest.mark.parametrize("file", ["piper/bert32a100.json", "piper/resnet.json"])
def test_one_device_runs_each_layer_as_fast_as_it_can(file: str) -> None:
    plain = sum(min(tmpc.time for tmpc in layer.tmpcs[1]) for layer in loaded(file).layers)
    assert math.isclose(solved(workload_of(file, 1, 1e6, 64)), plain, rel_tol=EXACT)


@pytest.mark.parametrize("file", ["piper/bert32a100.json", "piper/resnet.json"])
def test_the_frontier_goes_through_the_optima(file: str) -> None:
    workload = workload_of(file, 24, 4.0, 960)
    points, stopped = _core.frontier(workload, Limits(), "async")
    assert stopped is None
    for devices in (1, 4, 8, 15, 24):
        best = min((value for used, value, _ in points if used <= devices), default=math.inf)
        assert math.isclose(best, solved(replace(workload, devices=devices)), rel_tol=EXACT)


def test_a_flush_costs_time_and_1f1b_saves_memory() -> None:
    workload = workload_of("piper/bert32a100.json", 64, 8.0, 64)
    asynchronous, gpipe, one_f_one_b = (solved(workload, schedule=schedule) for schedule in SCHEDULES)
    assert asynchronous < one_f_one_b <= gpipe < math.inf


def test_limits_are_part_of_the_search() -> None:
    workload = workload_of("piper/bert32a100.json", 64, 8.0, 1920)
    free = solved(workload)
    last = len(workload.layers) - 1
    for limits in (
        Limits(data_parallel=2),
        Limits(tensor_parallel=2),
        Limits(stages=5),
        Limits(max_stages=3),
        Limits(recompute="always"),
        Limits(pins=((last, 3),)),
        Limits(together=((10, 14),), apart=((0, last),)),
    ):
        assert free < solved(workload, limits) < math.inf, limits
