"""What the compiled half makes of arguments that are no placement problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from piper import _core
from piper.errors import InputError
from piper.placement.workload import AcceleratorClass, Node, Part, PlacementWorkload, Rules

NODES = (
    Node(0, "a", 4.0, (1.0,), 1.0, 0.5),
    Node(1, "b", 4.0, (2.0,), 1.0),
    Node(2, "c", 4.0, (2.0,), backward=True),
)
WORKLOAD = PlacementWorkload("chain", NODES, ((0, 1), (1, 2)), (AcceleratorClass("gpu", 2, 10.0),), 1)


def with_node(**changes: Any) -> PlacementWorkload:
    return replace(WORKLOAD, nodes=(NODES[0], replace(NODES[1], **changes), NODES[2]))


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: _core.place(with_node(cpu="4"), Rules()), "workload.nodes[1].cpu: must be real number, not str"),
    (lambda: _core.place(with_node(accelerators=("x",)), Rules()), "workload.nodes[1].accelerators[0]: must be real"),
    (lambda: _core.place(with_node(cpu=math.nan), Rules()), "the CPU time of node 1 is NaN"),
    (lambda: _core.place(with_node(accelerators=(-1.0,)), Rules()), "the accelerator time of node 1 is -1.0"),
    (lambda: _core.place(with_node(size=1e30), Rules()), "the size of node 1 is 1e30"),
    (lambda: _core.place(with_node(transfer=math.inf), Rules()), "the transfer time of node 1 is inf"),
    (lambda: _core.place(with_node(sync=-0.5), Rules()), "the synchronisation time of node 1 is -0.5"),
    (lambda: _core.place(with_node(accelerators=()), Rules()), "node 1 has times for 0 classes of accelerators"),
    (lambda: _core.place(replace(WORKLOAD, nodes=()), Rules()), "the workload has no nodes"),
    (lambda: _core.place(replace(WORKLOAD, edges=((0, 3),)), Rules()), "edge 0 names node 3, which does not exist"),
    (lambda: _core.place(replace(WORKLOAD, edges=((0, 1), (1, 0))), Rules()), "the edges close a cycle: 1 -> 0"),
    (
        lambda: _core.place(replace(WORKLOAD, edges=((2, 1),)), Rules()),
        "edge 2 -> 1 runs from the backward pass into",
    ),
    (lambda: _core.place(replace(WORKLOAD, cpus=2**21), Rules()), "the number of CPUs is 2097152; expected at most"),
    (lambda: _core.place(replace(WORKLOAD, cpus=-1), Rules()), "workload.cpus: "),
    (lambda: _core.place(WORKLOAD, cast("Any", None)), "rules: "),
    (lambda: _core.place(WORKLOAD, Rules(load=cast("Any", "fast"))), "rules.load: "),
    (lambda: _core.place(WORKLOAD, Rules(), algorithm=cast("Any", "ip")), "algorithm: "),
    (lambda: _core.place(WORKLOAD, Rules(), gap=-1), "gap is -1; expected a number that is not negative"),
    (lambda: _core.place(WORKLOAD, Rules(), time_limit=-1), "time_limit is -1"),
    (lambda: _core.place(WORKLOAD, Rules(), threads=0), "threads is 0"),
    (lambda: _core.place_score(WORKLOAD, Rules(), [cast("Any", 3)]), "parts[0]"),
    (lambda: _core.place_score(WORKLOAD, Rules(), [Part(0, 1, (-1,))]), "parts[0].nodes[0]: "),
]


@pytest.mark.parametrize(("call", "expected"), BAD, ids=[expected[:60] for _, expected in BAD])
def test_arguments_that_cannot_be_are_named(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_split_of_numbers_gets_a_verdict() -> None:
    parts = [Part(0, 0, (0, 0, 7)), Part(9, 2**32 - 1, (1,)), Part(None, 5, ())]
    verdict = _core.place_score(WORKLOAD, Rules(), parts)
    assert {violation.rule for violation in verdict.violations} >= {
        "node-unknown",
        "node-repeated",
        "node-missing",
        "class-unknown",
        "replicas",
    }
    assert verdict.value >= 0


def test_progress_is_reported_and_may_end_the_search() -> None:
    nodes = tuple(Node(v, str(v), 1.0 + v % 7, (1.0 + v % 5,), 1.0, 0.5) for v in range(400))
    wide = replace(WORKLOAD, nodes=nodes, edges=(), classes=(AcceleratorClass("gpu", 12, 1e3),), cpus=0)

    def stop(best: float, bound: float) -> None:
        assert bound <= best
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _core.place(wide, Rules(), progress=stop, time_limit=20)
