"""Placements of the workloads of the device-placement paper, held against what its authors' programs answer.

Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", NeurIPS 2020; repository
msr-fiddle/dnn-partitioning.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from shared import shared_path

import piper
from piper import _core
from piper.formats.placement_json import load_placement
from piper.placement.judge import as_parts
from piper.placement.workload import LoadRule, PlacementWorkload, Rules, TrainingObjective

EXACT = 1e-9
PRINTED = 1e-5
"""Published baselines have six digits."""
WORKLOADS = (
    "layer_bert24_inference",
    "layer_bert24_training",
    "layer_gnmt_inference",
    "layer_gnmt_training",
    "layer_inceptionv3_inference",
    "layer_inceptionv3_training",
    "layer_resnet50_inference",
    "operator_bert_l-12_inference",
    "operator_bert_l-3_inference",
    "operator_bert_l-3_training",
    "operator_bert_l-6_inference",
    "operator_resnet50_inference",
    "operator_resnet50_training",
)
EXPERTS = (
    "bert24_inference",
    "bert24_training",
    "gnmt_inference",
    "gnmt_training",
    "inceptionv3_inference",
    "resnet50_inference",
)


@cache
def expected() -> dict[str, Any]:
    document = json.loads(shared_path("workloads", "expected.json").read_text())
    assert isinstance(document, dict)
    return document


@cache
def loaded(name: str) -> PlacementWorkload:
    return load_placement(shared_path("workloads", "placement", "throughput", f"{name}.json"))


def baseline(name: str, kind: str) -> float:
    value = expected()["baselines"]["throughput"][name].get(kind)
    return math.inf if value is None else float(value)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_optimum_is_proven_and_never_worse_than_published(name: str) -> None:
    placed = piper.place(loaded(name))
    published = expected()["placement_throughput"].get(name, {})
    assert placed.optimal, placed.gap
    assert placed.contiguous
    assert placed.max_load <= published.get("linearised", math.inf) * (1 + EXACT)
    if "max_load" in published:
        assert placed.max_load == pytest.approx(published["max_load"], rel=EXACT)
    linear = piper.place(loaded(name), algorithm="dpl")
    assert placed.max_load <= linear.max_load
    assert linear.max_load <= placed.max_load * 1.01


@pytest.mark.parametrize("name", WORKLOADS)
def test_one_accelerator_scores_as_published(name: str) -> None:
    raw = _core.place_single(loaded(name), Rules())
    assert raw is not None
    score = _core.place_score(loaded(name), Rules(), as_parts(raw))
    one = expected()["baselines"]["throughput"].get(name, {}).get("one_accelerator")
    if one is not None:
        assert score.value == pytest.approx(one, rel=PRINTED)
    assert {violation.rule for violation in score.violations} <= {"memory"}


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_score_as_published(name: str) -> None:
    split = shared_path("workloads", "placement", "splits", f"{name}_expert.json")
    evaluation = piper.evaluate(loaded(f"layer_{name}"), split)
    assert isinstance(evaluation, piper.SplitEvaluation)
    assert evaluation.feasible, evaluation.violations
    value = expected()["baselines"]["throughput"].get(f"layer_{name}", {}).get("expert")
    if value is not None:
        assert evaluation.max_load == pytest.approx(value, rel=PRINTED)
    assert evaluation.max_load >= piper.place(loaded(f"layer_{name}"), time_limit=20).max_load


@pytest.mark.parametrize("name", ["layer_bert24_training", "layer_gnmt_inference", "operator_bert_l-3_training"])
def test_local_search_is_about_as_good_as_published(name: str) -> None:
    placed = piper.place(loaded(name), algorithm="local-search")
    assert placed.max_load <= 1.02 * baseline(name, "local_search_10_restarts")
    again = piper.place(loaded(name), algorithm="local-search")
    assert again.parts == placed.parts
    assert piper.place(loaded(name), algorithm="local-search", restarts=1).max_load >= placed.max_load


@pytest.mark.parametrize("load", ["overlap", "duplex"])
@pytest.mark.parametrize("objective", ["sum", "split"])
def test_variants_are_proven_and_ordered(load: LoadRule, objective: TrainingObjective) -> None:
    workload = loaded("layer_bert24_training")
    sequential = piper.place(workload, training_objective=objective)
    variant = piper.place(workload, load=load, training_objective=objective)
    assert sequential.optimal
    assert variant.optimal
    assert variant.max_load <= sequential.max_load
    one_pass = piper.place(workload, load=load)
    assert variant.max_load >= one_pass.max_load * (1 - EXACT)


def test_replicas_help_where_weights_are_free_to_synchronise() -> None:
    workload = loaded("layer_resnet50_inference")
    alone, shared = (piper.place(workload, max_replicas=replicas) for replicas in (1, 3))
    assert shared.optimal
    assert shared.max_load <= alone.max_load
    assert max(part.replicas for part in shared.parts) <= 3


@pytest.mark.parametrize("accelerators", [1, 2, 4, 8])
def test_more_accelerators_never_hurt(accelerators: int) -> None:
    workload = loaded("operator_bert_l-6_inference")
    fewer, more = (piper.place(workload, accelerators=count) for count in (accelerators, accelerators + 1))
    assert more.max_load <= fewer.max_load
    assert more.lower_bound <= fewer.max_load


@pytest.mark.parametrize("name", ["vgg16", "resnet50"])
def test_profiles_are_placed(name: str) -> None:
    path: Path = shared_path("workloads", "pipedream", f"{name}.txt")
    placed = piper.place(path, accelerators=4, bandwidth="25GB")
    assert placed.optimal
    assert len(placed.parts) == 4
    total = sum(part.compute for part in placed.parts)
    assert total / 4 <= placed.max_load < total


@pytest.mark.parametrize(
    "name", ["layer_bert24_inference", "layer_resnet50_inference", "operator_bert_l-6_inference"]
)
def test_balanced_partitioning(name: str) -> None:
    pytest.importorskip("pymetis")
    placed, again = (piper.place(loaded(name), algorithm="partition") for _ in range(2))
    assert placed.parts == again.parts
    assert placed.max_load <= 1.2 * baseline(name, "scotch")
    assert sum(len(part.ids) for part in placed.parts) == len(placed.nodes)
