"""The solver against every plan of random small workloads.

``PIPER_EXAMPLES`` sets how many instances each test draws (default 300). A failure names the seed of its instance:
``drawn(seed)`` makes it again. Hypothesis draws instances too, and shrinks those that fail.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from reference import Optimum, all_plans, memories, value, violations

from piper import _core
from piper.testing import RandomSource, permuted, permuted_limits, random_limits, random_plan, random_workload
from piper.testing.strategies import problems
from piper.workload import Layer, Limits, Network, Schedule, Stage, Tmpc, Workload

EXAMPLES = int(os.environ.get("PIPER_EXAMPLES", "300"))
SCHEDULES: tuple[Schedule, ...] = ("async", "gpipe", "1f1b")
EXACT = 1e-9

Problem = tuple[Workload, Limits, Schedule]

shrinking = settings(
    max_examples=max(EXAMPLES // 3, 1),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def drawn(seed: int, *, max_layers: int = 8) -> Problem:
    """The instance of a seed: half of them have limits."""
    source = RandomSource(seed)
    workload = random_workload(source, max_layers=max_layers)
    limits = random_limits(source, workload) if source.chance(50) else Limits()
    return workload, limits, SCHEDULES[seed % 3]


def seeds(test: int, count: int = EXAMPLES) -> Iterator[int]:
    """Seeds that no other test uses."""
    return iter(range(test * 10_000_000, test * 10_000_000 + count))


def stages_of(solution: _core.Solution) -> list[Stage]:
    assert solution.stages is not None
    return [Stage(tuple(layers), d, t, tuple(choices)) for layers, d, t, choices in solution.stages]


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=EXACT, abs_tol=0.0)


def check_optimum(workload: Workload, limits: Limits, schedule: Schedule) -> None:
    best = Optimum(workload, limits, schedule).best()
    solution = _core.solve(workload, limits, schedule, threads=1)
    assert solution.status == "done"
    if best is None:
        assert solution.stages is None, "a plan where there is none"
        assert solution.lower_bound == math.inf
        return
    assert solution.stages is not None, f"no plan, though there is one of {best}"
    score = _core.score(workload, limits, schedule, stages_of(solution))
    assert score.violations == [], [(v.rule, v.where, v.by) for v in score.violations]
    assert close(score.value, best.value), f"{score.value!r}, though there is one of {best}"
    assert score.value * (1 - EXACT) <= solution.lower_bound <= score.value * (1 + EXACT)
    if schedule == "async":
        assert (score.devices, len(score.stages)) == (best.devices, best.stages), "not the fewest devices and stages"


def check_frontier(workload: Workload, limits: Limits, schedule: Schedule) -> None:
    points, stopped = _core.frontier(workload, limits, schedule, threads=1)
    assert stopped is None
    assert all(close(bound, value) for _, value, bound in points), points
    frontier = [(k, value) for k, value, _ in points]
    devices, values = [k for k, _ in frontier], [v for _, v in frontier]
    assert devices == sorted(set(devices)), frontier
    assert all(later < earlier for earlier, later in pairwise(values)), frontier
    expected = Optimum(workload, limits, schedule).frontier()
    for k in range(1, workload.devices + 1):
        best = min((v for used, v in frontier if used <= k), default=math.inf)
        assert close(best, expected.get(k, math.inf)), f"{k} devices: {frontier}; expected {expected}"
    for k, best in frontier:
        fewer = replace(workload, devices=k)
        solution = _core.solve(fewer, limits, schedule, threads=1)
        assert close(_core.score(fewer, limits, schedule, stages_of(solution)).value, best), (
            f"{k} devices: {frontier}"
        )


def check_needs(workload: Workload, limits: Limits, schedule: Schedule) -> None:
    """Needs are usable bytes: the reserve comes on top."""

    def feasible(changed: Workload) -> bool:
        return Optimum(changed, limits, schedule).best() is not None

    if feasible(workload):
        return
    memory, devices, stopped = _core.needs(workload, limits, schedule)
    assert stopped is None
    usable = replace(workload, memory_bytes=workload.memory_bytes - workload.reserve_bytes, reserve_bytes=0.0)
    most = workload.microbatches * max((t for layer in workload.layers for t in layer.tmpcs), default=1)
    if devices is None:
        assert not feasible(replace(usable, devices=most)), f"{most} devices would do"
    else:
        assert feasible(replace(usable, devices=devices)), f"{devices} devices are too few"
        assert not feasible(replace(usable, devices=devices - 1)), f"{devices - 1} devices would do"
    if memory is None:
        assert not feasible(replace(usable, memory_bytes=1e29)), "much memory would do"
    else:
        assert feasible(replace(usable, memory_bytes=memory)), f"{memory} bytes are too few"
        assert not feasible(replace(usable, memory_bytes=memory * (1 - 1e-6))), f"less than {memory} bytes would do"


def check(seed: int, problem: Problem, checked: Callable[[Workload, Limits, Schedule], None] = check_optimum) -> None:
    """Check the instance of a seed; a failure names it."""
    try:
        checked(*problem)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def test_the_reference_agrees_with_a_list_of_all_plans() -> None:
    for seed in seeds(1):
        source = RandomSource(seed)
        workload = random_workload(source, max_layers=4, max_devices=4, max_microbatches=6, max_tmpcs=2)
        limits = random_limits(source, workload) if source.chance(50) else Limits()
        schedule = SCHEDULES[seed % 3]
        plans = list(islice(all_plans(workload, limits, schedule), 2000))
        if len(plans) == 2000:
            continue
        best = Optimum(workload, limits, schedule).best()
        assert (best is None) == (not plans), seed
        if best is not None:
            assert close(best.value, min(value(workload, schedule, plan) for plan in plans)), seed


def test_the_optimum_is_found() -> None:
    for seed in seeds(2, 3 * EXAMPLES):
        check(seed, drawn(seed))


def test_the_optimum_is_found_among_many_equal_layers() -> None:
    for seed in seeds(9, EXAMPLES // 2):
        source, schedule = RandomSource(seed), SCHEDULES[seed % 3]
        layers = 12 if schedule == "async" else 8
        workload = random_workload(
            source, shape=source.choose(("chain", "residual")), max_layers=layers, max_devices=12
        )
        check(seed, (workload, Limits(), schedule))


def independent_layers(devices: int, microbatches: int, *times: dict[int, float]) -> Workload:
    """Layers without edges, memory or weights, of which only the time by tensor-parallel degree matters."""
    layers = tuple(
        Layer(
            number,
            f"layer {number}",
            {t: (Tmpc("vanilla", time, 0.0, 0.0, 0.0, 0.0, (), ()),) for t, time in by_degree.items()},
        )
        for number, by_degree in enumerate(times)
    )
    network = Network(1.0, 1.0, 1.0)
    return Workload("independent", layers, (), devices, memory_bytes=1.0, microbatches=microbatches, network=network)


def test_a_plan_that_is_hardly_better_is_found() -> None:
    check_optimum(independent_layers(3, 2, {2: 0.0}, {1: 2.0, 2: 2.00001}), Limits(), "async")


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_batch_of_one_microbatch_uses_the_devices_that_help(schedule: Schedule) -> None:
    check_optimum(independent_layers(5, 1, {1: 0.0, 2: 0.0}, {1: 1.0, 2: 0.2, 4: 0.0}), Limits(), schedule)


@shrinking
@given(problems(max_layers=6))
def test_the_optimum_is_found_on_what_hypothesis_draws(problem: Problem) -> None:
    check_optimum(*problem)


def test_the_frontier_is_what_separate_solves_find() -> None:
    for seed in seeds(3):
        check(seed, drawn(seed, max_layers=7), check_frontier)


def test_needs_are_the_least_that_do() -> None:
    for seed in seeds(4, 3 * EXAMPLES):
        check(seed, drawn(seed, max_layers=6), check_needs)


def test_numbers_of_layers_do_not_matter() -> None:
    for seed in seeds(5):
        workload, limits, schedule = drawn(seed)
        order = RandomSource(seed).shuffled(range(len(workload.layers)))
        other, other_limits = permuted(workload, order), permuted_limits(limits, order)
        solution = _core.solve(workload, limits, schedule, threads=1)
        again = _core.solve(other, other_limits, schedule, threads=1)
        assert (solution.stages is None) == (again.stages is None), seed
        if solution.stages is not None:
            score = _core.score(workload, limits, schedule, stages_of(solution))
            permuted_score = _core.score(other, other_limits, schedule, stages_of(again))
            assert permuted_score.violations == [], seed
            assert close(score.value, permuted_score.value), seed


def test_threads_do_not_change_the_plan() -> None:
    for seed in seeds(6):
        workload, limits, schedule = drawn(seed)
        first, *others = (_core.solve(workload, limits, schedule, threads=threads) for threads in (1, 2, 4))
        for other in others:
            assert other.stages == first.stages, seed
            assert other.lower_bound == first.lower_bound, seed


def test_the_judge_scores_as_the_definition_says() -> None:
    for seed in seeds(7, 3 * EXAMPLES):
        workload, limits, schedule = drawn(seed)
        source = RandomSource(seed)
        stages = list(random_plan(source, workload))
        if source.chance(30):
            stages = source.shuffled(stages)
        if not stages:
            continue
        score = _core.score(workload, limits, schedule, stages)
        assert close(score.value, value(workload, schedule, stages)), seed
        assert score.devices == sum(stage.data_parallel * stage.tensor_parallel for stage in stages), seed
        for stage, memory in zip(score.stages, memories(workload, schedule, stages), strict=True):
            assert close(stage.memory, memory), seed
        assert {v.rule for v in score.violations} == violations(workload, limits, schedule, stages), seed


def test_no_baseline_beats_the_optimum() -> None:
    for seed in seeds(8):
        workload, limits, schedule = drawn(seed)
        best = Optimum(workload, limits, schedule).best()
        for name, tuples in _core.baselines(workload, limits, schedule):
            if tuples is None:
                continue
            stages = [Stage(tuple(layers), d, t, tuple(choices)) for layers, d, t, choices in tuples]
            assert best is not None, f"seed {seed}: {name}"
            assert not violations(workload, limits, schedule, stages), f"seed {seed}: {name}"
            assert value(workload, schedule, stages) >= best.value * (1 - EXACT), f"seed {seed}: {name}"
