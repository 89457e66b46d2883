"""The compiled half from Python: what it refuses and how it says so, what it gives back, and the simpler planners."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from shared import shared_path

from piper import _core
from piper.errors import InputError
from piper.formats.piper_json import load_piper
from piper.workload import Edge, Layer, Limits, Network, Stage, Tie, Tmpc, Workload

GIB = float(2**30)


def tmpc(ins: int, outs: int, **changes: Any) -> Tmpc:
    return replace(Tmpc("vanilla", 8.0, 4.0, 1.0, 2.0, 0.0, (0.0,) * ins, (0.0,) * outs), **changes)


def pair(**changes: Any) -> Workload:
    """Two layers of 8 units of time on two devices."""
    layers = (Layer(0, "first", {1: (tmpc(0, 1),)}), Layer(1, "second", {1: (tmpc(1, 0),)}))
    network = Network(1.0, 1.0, 1.0)
    return replace(Workload("pair", layers, (Edge(0, 1, 0.5),), 2, 100.0, 4, network), **changes)


def with_first(layer: Any) -> Workload:
    return pair(layers=(layer, pair().layers[1]))


def with_tmpc(**changes: Any) -> Workload:
    return with_first(Layer(0, "first", {1: (tmpc(0, 1), tmpc(0, 1, **changes))}))


WHOLE = [Stage((0, 1), 1, 1, (0, 0))]

NO_MAPPING: Any = []
BAD_WORKLOADS: list[tuple[Any, str]] = [
    (None, "workload: 'NoneType' object has no attribute 'layers'"),
    (pair(layers=()), "the workload has no layers"),
    (pair(layers=7), "workload.layers: 'int' object is not an instance of 'Sequence'"),
    (with_first(None), "workload.layers[0]: 'NoneType' object has no attribute 'tmpcs'"),
    (with_first(Layer(0, "", NO_MAPPING)), "workload.layers[0].tmpcs: 'list' object is not an instance of 'Mapping'"),
    (with_first(Layer(0, "", {-1: ()})), "workload.layers[0].tmpcs[-1]: "),
    (with_tmpc(time="fast"), "workload.layers[0].tmpcs[1][1].time: must be real number, not str"),
    (with_tmpc(id=3), "workload.layers[0].tmpcs[1][1].id: 'int' object is not an instance of 'str'"),
    (with_tmpc(time=math.nan), "the time of layer 0, degree 1, `vanilla` is NaN; expected a finite number"),
    (with_tmpc(time=-1), "the time of layer 0, degree 1, `vanilla` is -1.0; expected a finite number"),
    (with_tmpc(time=10**400), "workload.layers[0].tmpcs[1][1].time: int too large to convert to float"),
    (with_tmpc(sync_backward=()), "the synchronisation lists of layer 0, degree 1, `vanilla` have 0 and 0 entries"),
    (pair(edges=(Edge(0, 1, 1.0), Edge(1, 2, 1.0))), "edge 1 names layer 2, which does not exist"),
    (pair(edges=(Edge(0, 1, 1.0), Edge(1, 0, 1.0))), "the edges close a cycle: "),
    (pair(edges=(Edge(0, -1, 1.0),)), "workload.edges[0].target: "),
    (pair(devices=0), "the number of devices is 0; expected 1 to"),
    (pair(devices=2**40), "workload.devices: "),
    (pair(microbatches=2**31), "the number of microbatches is 2147483648; expected 1 to"),
    (pair(memory_bytes=math.nan), "the memory per device is NaN"),
    (pair(memory_bytes=math.inf, reserve_bytes=math.inf), "the memory per device is NaN"),
    (pair(transfer="wire"), 'workload.transfer: "wire"; expected one of edge, tensor'),
    (pair(network=Network(0.0, 1.0, 1.0)), "the bandwidth between stages is 0; it must be larger"),
    (pair(ties=(Tie((0, 5), {}),)), "shared weights need two layers that exist"),
]


@pytest.mark.parametrize(("workload", "text"), BAD_WORKLOADS, ids=[text for _, text in BAD_WORKLOADS])
@pytest.mark.parametrize("call", [_core.solve, _core.frontier, _core.needs, _core.baselines])
def test_a_bad_workload_is_one_line(call: Any, workload: Any, text: str) -> None:
    with pytest.raises(InputError) as raised:
        call(workload, Limits(), "async")
    message = str(raised.value)
    assert message.startswith(text)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(stages=-1), "limits.stages: "),
        (Limits(pins=((0, 1, 2),)), "limits.pins[0]: expected tuple of length 2"),  # type: ignore[arg-type]
        (Limits(apart=((0, "b"),)), "limits.apart[0][1]: "),  # type: ignore[arg-type]
        (Limits(recompute="often"), 'limits.recompute: "often"; expected one of auto, never, always'),  # type: ignore[arg-type]
    ],
)
def test_bad_limits_are_one_line(limits: Limits, text: str) -> None:
    with pytest.raises(InputError) as raised:
        _core.solve(pair(), limits, "async")
    assert str(raised.value).startswith(text)


def test_bad_schedules_and_stages_are_one_line() -> None:
    with pytest.raises(InputError, match='schedule: "2f2b"; expected one of async, gpipe, 1f1b'):
        _core.solve(pair(), Limits(), "2f2b")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"stages\[0\]\.data_parallel: "):
        _core.score(pair(), Limits(), "async", [Stage((0, 1), -1, 1, (0, 0))])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"threads": 0}, "threads is 0; expected 1 to 1024"),
        ({"threads": 10**30}, "expected 1 to 1024"),
        ({"time_limit": -1.0}, "time_limit is -1; expected a number of seconds that is not negative"),
        ({"time_limit": math.nan}, "time_limit is NaN"),
        ({"gap": -0.5}, "gap is -0.5; expected a number that is not negative"),
        ({"gap": math.nan}, "gap is NaN"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as raised:
        _core.solve(pair(), Limits(), "async", **options)
    assert text in str(raised.value)


def test_a_memory_limit_may_be_larger_than_any_memory() -> None:
    assert _core.solve(pair(), Limits(), "async", memory_limit=10**30, time_limit=1e300).stages is not None


def test_the_reserve_is_taken_off_the_memory() -> None:
    def excess(reserve: float) -> list[tuple[str, str, float]]:
        score = _core.score(pair(memory_bytes=6.0, reserve_bytes=reserve), Limits(), "async", WHOLE)
        return [(violation.rule, violation.where, violation.by) for violation in score.violations]

    assert excess(0.0) == []
    assert excess(1.0) == [("memory", "stage 0", 1.0)]
    assert excess(7.0) == [("memory", "stage 0", 6.0)]


def test_a_score_has_the_parts_of_every_stage() -> None:
    stages = [Stage((0,), 1, 1, (0,)), Stage((1,), 2, 1, (0,))]
    score = _core.score(pair(devices=3), Limits(), "async", stages)
    assert (score.value, score.devices, score.violations) == (9.0, 3, [])
    first, second = score.stages
    assert (first.load, first.compute, first.transfer, first.resync) == (9.0, 8.0, 1.0, 0.0)
    assert (first.memory, first.in_flight) == (5.0, 3)
    assert (second.load, second.compute, second.transfer, second.resync) == (6.5, 4.0, 0.5, 2.0)
    assert (second.memory, second.in_flight) == (3.0, 1)


def test_results_cannot_be_changed() -> None:
    score = _core.score(pair(), Limits(), "async", WHOLE)
    with pytest.raises(AttributeError):
        score.value = 0.0  # type: ignore[misc]


PUBLISHED_EQUAL_SPLITS = [
    # The published planner attaches the end layers to the end stages only and gives the last stages the larger share.
    ("bert32a100.json", 8, 8.0, 1920, 0.95),
    ("bert32a100.json", 64, 8.0, 1920, 1.0),
    ("bert32a100.json", 512, 8.0, 1920, 0.91),
    ("bert32a100.json", 2048, 8.0, 1920, 0.97),
    ("bert32a100.json", 512, 2.0, 1920, 0.86),
    ("bert96a100.json", 2048, 8.0, 1920, 1.0),
    ("gnmt.json", 2, 2.5, 256, 1.0),
]


@pytest.mark.parametrize(("file", "devices", "memory", "microbatches", "ratio"), PUBLISHED_EQUAL_SPLITS)
def test_equal_splits_are_as_good_as_the_published_ones(
    file: str, devices: int, memory: float, microbatches: int, ratio: float
) -> None:
    published = _published_equal_split(file, devices, memory)
    network = Network(25 * GIB, 25 * GIB, 25 * GIB)
    workload = replace(
        load_piper(shared_path("workloads", "piper", file)),
        devices=devices,
        memory_bytes=memory * GIB,
        microbatches=microbatches,
        network=network,
    )
    plans = dict(_core.baselines(workload, Limits(), "async"))
    assert list(plans) == ["equal split", "data and tensor parallel", "data parallel"]
    stages = plans["equal split"]
    assert stages is not None
    score = _core.score(workload, Limits(), "async", [Stage(tuple(v), d, t, tuple(c)) for v, d, t, c in stages])
    assert score.violations == []
    assert published * (ratio - 0.01) <= score.value <= published * min(ratio, 1 + 1e-9) * (1 + 1e-9)


def _published_equal_split(file: str, devices: int, memory: float) -> float:
    entries = json.loads(shared_path("workloads", "expected.json").read_text())["pipeline"]
    found = [e for e in entries if (e["file"], e["devices"], e["memory_gib"]) == (f"piper/{file}", devices, memory)]
    return float(found[0]["equal_split_time_per_sample"])
