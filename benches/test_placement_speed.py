"""Solve times of the placer, one thread: ``pytest benches --benchmark-only``.

The workloads are those of the device-placement paper; the table in ``README.md`` has the results.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from piper import _core
from piper.formats.pipedream import load_pipedream_placement
from piper.formats.placement_json import load_placement
from piper.placement.workload import Rules

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

PUBLISHED = (
    "layer_bert24_inference",
    "layer_bert24_training",
    "layer_gnmt_inference",
    "layer_gnmt_training",
    "layer_inceptionv3_inference",
    "layer_inceptionv3_training",
    "layer_resnet50_inference",
    "operator_bert_l-3_inference",
    "operator_bert_l-3_training",
    "operator_bert_l-6_inference",
    "operator_bert_l-12_inference",
    "operator_resnet50_inference",
    "operator_resnet50_training",
)
GAPS = {2: 0.02, 4: 0.05, 8: 0.10}
"""Accelerators to the gap that is to be proven on the NASNet profile at 100 GB/s."""


def data(*parts: str) -> Path:
    """A file of the shared workloads; skips where they are missing."""
    named = os.environ.get("PIPER_SHARED")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    path = root.joinpath("workloads", *parts)
    if not path.exists():
        pytest.skip(f"no file {path}; PIPER_SHARED names the folder of the shared data")
    return path


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(benchmark: BenchmarkFixture, name: str) -> None:
    workload = load_placement(data("placement", "throughput", f"{name}.json"))
    solution = benchmark(_core.place, workload, Rules(), threads=1)
    assert solution.status == "done"
    benchmark.extra_info.update(downsets=solution.downsets, value=solution.lower_bound)


@pytest.mark.parametrize("accelerators", GAPS)
def test_nasnet(benchmark: BenchmarkFixture, accelerators: int) -> None:
    path = data("pipedream", "nasnetamobile.txt")
    workload = load_pipedream_placement(path, accelerators=accelerators, bandwidth=100e9)
    gap = GAPS[accelerators]
    solution = benchmark.pedantic(
        _core.place,
        (workload, Rules()),
        {"threads": 1, "gap": gap, "time_limit": 30.0, "memory_limit": 2 << 30},
        rounds=1,
    )
    assert solution.status in ("done", "gap")
    benchmark.extra_info.update(downsets=solution.downsets, bound=solution.lower_bound)
