"""Solve times of the pipeline planner, one thread: ``pytest benches --benchmark-only``.

The workloads are those of the Piper paper and PipeDream's profiles; the table in ``README.md`` has the results.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from piper import _core
from piper.formats.pipedream import load_pipedream
from piper.formats.piper_json import load_piper
from piper.testing import RandomSource, large_workload
from piper.workload import Limits, Network, Workload

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

GIB = float(2**30)
PUBLISHED = {
    "bert32a100-2048": ("bert32a100", 2048, 8.0, 1920),
    "bert96a100-2048": ("bert96a100", 2048, 8.0, 1920),
    "bert96a100-16384": ("bert96a100", 16384, 8.0, 16384),
    "resnet-128": ("resnet", 128, 1.5, 7680),
    "gnmt-2": ("gnmt", 2, 2.5, 256),
}
PROFILES = ("vgg16", "resnet50", "resnext50", "densenet121", "gnmt")
RANDOM = {"chain-1000": ("chain", 1000), "residual-300": ("residual", 300), "diamonds-200": ("diamonds", 200)}


def data(*parts: str) -> Path:
    """A file of the shared workloads; skips where they are missing."""
    named = os.environ.get("PIPER_SHARED")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    path = root.joinpath("workloads", *parts)
    if not path.exists():
        pytest.skip(f"no file {path}; PIPER_SHARED names the folder of the shared data")
    return path


def measure(benchmark: BenchmarkFixture, workload: Workload) -> None:
    """Time a solve that must go through."""
    solution = benchmark(_core.solve, workload, Limits(), "async", threads=1)
    assert solution.status == "done"
    assert solution.stages is not None
    benchmark.extra_info.update(downsets=solution.downsets, value=solution.lower_bound)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(benchmark: BenchmarkFixture, name: str) -> None:
    file, devices, memory, microbatches = PUBLISHED[name]
    workload = load_piper(data("piper", f"{file}.json"))
    network = Network(25 * GIB, 25 * GIB, 25 * GIB)
    sized = replace(workload, devices=devices, memory_bytes=memory * GIB, microbatches=microbatches, network=network)
    measure(benchmark, sized)


@pytest.mark.parametrize("name", PROFILES)
def test_pipedream(benchmark: BenchmarkFixture, name: str) -> None:
    path = data("pipedream", f"{name}.txt")
    measure(benchmark, load_pipedream(path, devices=8, memory=16e9, bandwidth=25e9, microbatches=256))


@pytest.mark.parametrize("name", RANDOM)
def test_random(benchmark: BenchmarkFixture, name: str) -> None:
    shape, layers = RANDOM[name]
    measure(benchmark, large_workload(RandomSource(1), layers, shape=shape, microbatches=500, devices=64))
