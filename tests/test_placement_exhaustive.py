"""The placers against every split of random small workloads.

``PIPER_EXAMPLES`` sets how many instances each test draws (default 300). A failure names the seed of its instance:
``drawn(seed)`` makes it again. Hypothesis draws instances too, and shrinks those that fail.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from hypothesis import HealthCheck, given, settings
from placement_reference import Reference

from piper import _core
from piper.placement.bounds import work_bound
from piper.placement.judge import as_parts
from piper.placement.workload import Part, PlacementWorkload, Rules
from piper.testing import RandomSource, random_parts, random_placement_workload, random_rules, renumbered
from piper.testing.strategies import placements

EXAMPLES = int(os.environ.get("PIPER_EXAMPLES", "300"))
EXACT = 1e-9

Problem = tuple[PlacementWorkload, Rules]

shrinking = settings(
    max_examples=max(EXAMPLES // 3, 1),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def drawn(seed: int, *, max_nodes: int = 9) -> Problem:
    """The instance of a seed."""
    source = RandomSource(seed)
    return random_placement_workload(source, max_nodes=max_nodes), random_rules(source)


def seeds(test: int, count: int = EXAMPLES) -> Iterator[int]:
    """Seeds that no other test uses."""
    return iter(range(test * 10_000_000, test * 10_000_000 + count))


def close(one: float, other: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=EXACT, abs_tol=1e-12)


def parts_of(solution: _core.PlacementSolution) -> list[Part]:
    assert solution.parts is not None
    return as_parts(solution.parts)


def confirmed(workload: PlacementWorkload, rules: Rules, parts: list[Part]) -> float:
    """The judge's value of a split that must keep all rules, by the definition as well."""
    verdict = _core.place_score(workload, rules, parts)
    value, broken = Reference(workload, rules).score(parts)
    assert [violation.rule for violation in verdict.violations] == []
    assert broken == set()
    assert close(verdict.value, value)
    return verdict.value


def check_optimum(workload: PlacementWorkload, rules: Rules) -> None:
    best = Reference(workload, rules).best()
    solution = _core.place(workload, rules, threads=1)
    assert (solution.status, solution.complete) == ("done", True)
    if math.isinf(best):
        assert solution.parts is None, "a split where there is none"
        assert solution.lower_bound == math.inf
        return
    assert solution.parts is not None, f"no split, though there is one of {best}"
    value = confirmed(workload, rules, parts_of(solution))
    assert close(value, best), f"{value!r}, though there is one of {best!r}"
    assert close(solution.lower_bound, best), solution.lower_bound


def check(seed: int, problem: Problem, checked: Callable[[PlacementWorkload, Rules], None] = check_optimum) -> None:
    """Check the instance of a seed; a failure names it."""
    try:
        checked(*problem)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def test_the_optimum_is_found() -> None:
    for seed in seeds(31, 2 * EXAMPLES):
        check(seed, drawn(seed))


def test_the_optimum_is_found_in_training() -> None:
    for seed in seeds(32):
        source = RandomSource(seed)
        workload = random_placement_workload(source, training=True, max_classes=1)
        check(seed, (workload, random_rules(source)))


@shrinking
@given(placements(max_nodes=7))
def test_the_optimum_is_found_on_what_hypothesis_draws(problem: Problem) -> None:
    check_optimum(*problem)


def test_the_judge_scores_as_the_definition_says() -> None:
    broken_rules = set()
    for seed in seeds(33, 3 * EXAMPLES):
        workload, rules = drawn(seed)
        parts = random_parts(RandomSource(seed), workload)
        verdict = _core.place_score(workload, rules, parts)
        value, broken = Reference(workload, rules).score(parts)
        assert close(verdict.value, value), seed
        found = {violation.rule for violation in verdict.violations}
        # Where a colour class is torn, its nodes are mates of each other on several devices: not defined.
        undefined = {"contiguous"} if "color-class" in broken else set()
        assert found - undefined == broken - undefined, seed
        broken_rules |= found
    assert len(broken_rules) == 7, "the splits break every rule that splits of all nodes can break"


def check_simple_placers(workload: PlacementWorkload, rules: Rules) -> None:
    """None beats the optimum, contiguous or not; what must be contiguous is, and bounds hold."""
    best = Reference(workload, rules).best()
    names: tuple[Literal["dpl", "pipedream"], ...] = ("dpl", "pipedream")
    for name in names:
        solution = _core.place(workload, rules, algorithm=name, threads=1)
        assert solution.lower_bound <= best * (1 + EXACT), name
        if solution.parts is not None:
            assert confirmed(workload, rules, parts_of(solution)) >= best * (1 - EXACT), name
    free = replace(rules, contiguous=False, max_replicas=1)
    least = Reference(workload, free).best()
    assert work_bound(workload, free) <= least
    raw, status = _core.place_local_search(workload, free)
    assert status == "done"
    if raw is None:
        assert math.isinf(least)
        return
    value, broken = Reference(workload, free).score(as_parts(raw))
    assert broken <= {"memory"}
    assert broken or value >= least * (1 - EXACT)
    assert not broken or math.isinf(least) or len(workload.nodes) > 1
    assert close(_core.place_score(workload, free, as_parts(raw)).value, value)


def test_no_simple_placer_beats_the_optimum() -> None:
    for seed in seeds(34):
        check(seed, drawn(seed, max_nodes=6), check_simple_placers)


def check_bounds(workload: PlacementWorkload, rules: Rules) -> None:
    best = Reference(workload, rules).best()
    for solution in (
        _core.place(workload, rules, threads=1, time_limit=0.0),
        _core.place(workload, rules, threads=1, memory_limit=1),
        _core.place(workload, rules, threads=1, gap=0.5),
    ):
        assert solution.lower_bound <= best * (1 + EXACT)
        if solution.parts is not None:
            assert confirmed(workload, rules, parts_of(solution)) >= best * (1 - EXACT)
    if not math.isinf(best):
        assert solution.parts is not None
        assert confirmed(workload, rules, parts_of(solution)) <= 1.5 * best * (1 + EXACT)
    anything = _core.place(workload, rules, threads=1, gap=1e30)
    assert (anything.parts is None) == math.isinf(best), "a gap decides on whether there is a split"


def test_bounds_hold_however_early_a_search_ends() -> None:
    for seed in seeds(35, EXAMPLES // 5):
        check(seed, drawn(seed, max_nodes=7), check_bounds)


def test_numbers_of_nodes_and_threads_do_not_matter() -> None:
    for seed in seeds(36):
        workload, rules = drawn(seed)
        solution = _core.place(workload, rules, threads=1)
        again = _core.place(workload, rules, threads=2)
        assert (again.parts, again.lower_bound) == (solution.parts, solution.lower_bound), seed
        other = renumbered(workload, RandomSource(seed).shuffled(range(len(workload.nodes))))
        assert close(_core.place(other, rules, threads=1).lower_bound, solution.lower_bound), seed


def test_local_search_depends_on_its_seed_only() -> None:
    for seed in seeds(37, EXAMPLES // 3):
        workload, rules = drawn(seed)
        first, again = (_core.place_local_search(workload, rules, seed=seed) for _ in range(2))
        assert first == again, seed
