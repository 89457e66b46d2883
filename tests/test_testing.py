"""The random inputs that ship with the package."""

from __future__ import annotations

import importlib
import sys

import pytest
from hypothesis import given, settings

from piper import _core
from piper.errors import InputError
from piper.testing import SHAPES, RandomSource, large_workload, permuted, random_edges, random_plan, random_workload
from piper.testing.strategies import problems
from piper.workload import Limits, Schedule, Workload


def test_the_same_seed_makes_the_same_instance() -> None:
    assert random_workload(RandomSource(3)) == random_workload(RandomSource(3))
    assert random_workload(RandomSource(3)) != random_workload(RandomSource(4))


@pytest.mark.parametrize("shape", SHAPES)
def test_edges_of_every_shape_run_forward(shape: str) -> None:
    for nodes in range(1, 40):
        edges = random_edges(RandomSource(nodes), nodes, shape=shape)
        assert all(0 <= source < target < nodes for source, target in edges)
        if shape not in ("separate", "sparse"):
            assert {target for _, target in edges} == set(range(1, nodes)), "one part"


@pytest.mark.parametrize("shape", SHAPES)
def test_large_workloads_have_the_size_that_was_asked_for(shape: str) -> None:
    workload = large_workload(RandomSource(1), 60, shape=shape, devices=4, microbatches=8)
    assert (len(workload.layers), workload.devices, workload.microbatches) == (60, 4, 8)
    stages = random_plan(RandomSource(1), workload)
    assert _core.score(workload, Limits(), "async", list(stages)).value > 0


def test_an_order_that_is_no_permutation_is_refused() -> None:
    workload = random_workload(RandomSource(1))
    with pytest.raises(InputError, match="expected each of 0 to"):
        permuted(workload, [0] * (len(workload.layers) + 1))


def test_a_permutation_is_undone_by_its_inverse() -> None:
    workload = random_workload(RandomSource(2))
    order = RandomSource(6).shuffled(range(len(workload.layers)))
    inverse = [order.index(layer) for layer in range(len(order))]
    assert len(order) > 2
    assert permuted(permuted(workload, order), inverse) == workload


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(problems(max_layers=5))
def test_the_core_takes_whatever_the_strategies_draw(problem: tuple[Workload, Limits, Schedule]) -> None:
    workload, limits, schedule = problem
    plan = list(random_plan(RandomSource(1), workload))
    if plan:
        assert _core.score(workload, limits, schedule, plan).devices > 0


def test_without_hypothesis_the_strategies_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "piper.testing.strategies")
    with pytest.raises(ImportError, match=r"pip install 'piper-dnn\[test\]'"):
        importlib.import_module("piper.testing.strategies")
