"""Damaged copies of real files: every reader takes them or refuses them in one line, and does nothing else.

PIPER_MUTATIONS is the number of copies for each reader; the same number gives the same copies.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from examples import CONFIGS, placement
from mutate import mutated
from mutate_onnx import mutated_model
from shared import shared_path

from piper import _core
from piper.errors import InfeasibleError, InputError, LimitError
from piper.formats.detect import kind_of
from piper.formats.huggingface import load_huggingface
from piper.formats.pipedream import load_pipedream, load_pipedream_placement
from piper.formats.piper_json import load_piper
from piper.formats.placement_json import load_placement
from piper.formats.plan_json import load_plan
from piper.formats.split_json import load_split
from piper.model import Model
from piper.onnx import load_onnx
from piper.placement.place import place
from piper.placement.workload import Part, Rules
from piper.workload import Limits, Stage, Workload

MUTATIONS = int(os.environ.get("PIPER_MUTATIONS", "1000"))


Damage = Callable[[random.Random, Sequence[bytes]], bytes]


def damaged_text(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A copy with damaged characters, tokens or numbers."""
    return mutated(rng, seeds, binary=False)


def damaged_bytes(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A copy with damaged bytes."""
    return mutated(rng, seeds, binary=True)


def damaged_model(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A copy of an ONNX model, mostly one that can still be parsed."""
    return damaged_bytes(rng, seeds) if rng.random() < 0.25 else mutated_model(rng, rng.choice(seeds))


def survive(
    read: Callable[[Path], object],
    seeds: Sequence[Path],
    path: Path,
    damage: Damage = damaged_text,
    copies: int = MUTATIONS,
) -> int:
    """Feed damaged copies of the seeds to a reader; the number that it took."""
    originals = [seed.read_bytes() for seed in seeds]
    taken = 0
    for number in range(copies):
        path.write_bytes(damage(random.Random(number), originals))
        try:
            read(path)
        except InputError as error:
            message = str(error)
            assert message.isprintable(), (number, message)
            assert len(message) < 2000, (number, message)
        except BaseException as error:
            error.add_note(f"copy {number}")
            raise
        else:
            taken += 1
    return taken


def judge(workload: Workload, stages: Sequence[Stage]) -> None:
    """Send a workload and a plan through the compiled half."""
    verdict = _core.score(workload, Limits(), "async", list(stages))
    assert verdict.value >= 0 or verdict.violations


def one_stage(workload: Workload) -> Stage:
    """All layers in one stage on one device."""
    positions = tuple(range(len(workload.layers)))
    return Stage(positions, 1, 1, tuple(0 for _ in positions))


def test_piper_workloads(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        workload = load_piper(path)
        if all(1 in layer.tmpcs for layer in workload.layers):
            judge(workload, [one_stage(workload)])

    folder = shared_path("workloads", "piper")
    seeds = [folder / "gnmt.json", folder / "gnmt.json", folder / "bert32a100.json"]
    assert survive(read, seeds, tmp_path / "workload") > 0


def test_pipedream_profiles(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        workload = load_pipedream(path, devices=4, memory=16e9, bandwidth=25e9, microbatches=64)
        judge(workload, [one_stage(workload)])

    folder = shared_path("workloads", "pipedream")
    seeds = [folder / "gnmt.txt", folder / "vgg16.txt"]
    assert survive(read, seeds, tmp_path / "profile") > 0


def test_placement_workloads(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        workload = load_placement(path)
        everything = Part(None, 1, tuple(range(len(workload.nodes))))
        assert _core.place_score(workload, Rules(), [everything]).value >= 0

    folder = shared_path("workloads", "placement", "throughput")
    small = tmp_path / "small"
    small.write_text(json.dumps(placement(), indent=1))
    seeds = [small, folder / "layer_bert24_training.json", folder / "operator_bert_l-3_inference.json"]
    assert survive(read, seeds, tmp_path / "workload") > 0


def test_small_placement_workloads_are_solved(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        with contextlib.suppress(InfeasibleError, LimitError):
            placed = place(path, time_limit=1, threads=1)
            assert placed.lower_bound <= placed.max_load

    seed = tmp_path / "seed"
    seed.write_text(json.dumps(placement(), indent=1))
    assert survive(read, [seed], tmp_path / "workload") > 0


def test_profiles_as_placement_workloads(tmp_path: Path) -> None:
    folder = shared_path("workloads", "pipedream")
    seeds = [folder / "gnmt.txt", folder / "vgg16.txt"]
    taken = survive(
        lambda path: load_pipedream_placement(path, accelerators=2, bandwidth=1e9), seeds, tmp_path / "profile"
    )
    assert taken > 0


def test_splits(tmp_path: Path) -> None:
    workload = load_placement(shared_path("workloads", "placement", "throughput", "layer_bert24_training.json"))
    seed = shared_path("workloads", "placement", "splits", "bert24_training_expert.json")

    def read(path: Path) -> None:
        verdict = _core.place_score(workload, Rules(), list(load_split(path, workload)))
        assert verdict.value >= 0

    assert survive(read, [seed], tmp_path / "split") > 0


def test_plans(tmp_path: Path) -> None:
    workload = load_piper(shared_path("workloads", "piper", "gnmt.json"))
    seed = tmp_path / "seed"
    seed.write_text(json.dumps(halves(workload), indent=1))
    taken = survive(lambda path: judge(workload, load_plan(path, workload)), [seed], tmp_path / "plan")
    assert taken > 0


def halves(workload: Workload) -> dict[str, object]:
    """A plan of two stages, each written in one of the two published ways."""
    ids = [layer.id for layer in workload.layers]
    front, back = ids[: len(ids) // 2], ids[len(ids) // 2 :]
    return {
        "stages": [
            {
                "nodes": front,
                "dataParallelDegree": 1,
                "tensorParallelDegree": 1,
                "TMPCids": {str(layer): "vanilla" for layer in front},
            },
            {
                "nodes": back,
                "dataParallelDegree": 1,
                "tensorParallelDegree": 1,
                "TMPCids": [[layer, "activation recomp"] for layer in back],
            },
        ],
    }


def check(model: Model) -> None:
    """What every model promises."""
    assert model.flops >= 0
    for edge in model.edges:
        assert 0 <= edge.source < len(model.layers)
        assert 0 <= edge.target < len(model.layers)
        assert edge.bytes >= 0


@pytest.mark.parametrize("model_type", sorted(CONFIGS))
def test_huggingface_configurations(tmp_path: Path, model_type: str) -> None:
    seed = tmp_path / "seed"
    seed.write_text(json.dumps(CONFIGS[model_type], indent=2))
    copies = -(-MUTATIONS // len(CONFIGS))
    taken = survive(lambda path: check(load_huggingface(path)), [seed], tmp_path / "config", copies=copies)
    assert taken > 0


ONNX_MODELS = {
    "light_vgg19": {},
    "light_squeezenet": {},
    "lstm_tagger_ts": {"batch": 2, "seq": 16},
    "odd_functions_helper": {"batch": 2, "seq": 8},
    "odd_if_loop_helper": {"N": 4},
    "odd_unknown_domain_op": {"n": 4},
    "silero_vad_half": {"batch": 1, "sequence": 64},
    "sklearn_logreg": {"X.0": 2},
}
"""Small models that use every part of the format, with the sizes of their open dimensions."""


@pytest.mark.parametrize("name", sorted(ONNX_MODELS))
def test_onnx_models(tmp_path: Path, name: str) -> None:
    seed = shared_path("onnx", "models", f"{name}.onnx")
    copies = -(-MUTATIONS // len(ONNX_MODELS))
    taken = survive(
        lambda path: check(load_onnx(path, dims=ONNX_MODELS[name])),
        [seed],
        tmp_path / "model.onnx",
        damaged_model,
        copies,
    )
    assert taken > 0


def test_detection(tmp_path: Path) -> None:
    seeds = [
        *sorted(shared_path("workloads", "piper").glob("*.json")),
        *sorted(shared_path("workloads", "pipedream").glob("*.txt")),
        *sorted(shared_path("workloads", "placement").glob("*/*.json")),
        shared_path("onnx", "models", "light_vgg19.onnx"),
        shared_path("onnx", "models", "sklearn_logreg.onnx"),
    ]
    assert survive(kind_of, seeds, tmp_path / "file") > 0
