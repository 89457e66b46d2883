"""What is lost by planning layers instead of operators: ``python benches/granularity.py``.

Each graph is planned twice, exactly, on the same devices: at the granularity ``auto`` and at ``operator``. The table
goes to standard output; into documents that are named, such as ``docs/explanation/layers.md``, between the two lines
``<!-- granularity -->``. The graphs are looked for beside the checkout in ``../shared``, or in the folder that
`PIPER_SHARED` names.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from piper import _core
from piper.costs.cluster import Cluster
from piper.costs.workload import workload_from_model
from piper.model import Granularity, Model
from piper.onnx.load import load_model
from piper.workload import Limits, Stage, Workload

Shapes = dict[str, tuple[int, ...]]
_TEXT: Shapes = {"input_ids": (8, 128), "attention_mask": (8, 128)}
_IMAGE: tuple[int, ...] = (8, 3, 224, 224)
GRAPHS: dict[str, Shapes] = {
    "bert_base_ts": _TEXT | {"token_type_ids": (8, 128)},
    "distilbert_dynamo": _TEXT,
    "gpt2_dynamo": _TEXT,
    "t5_small_ts": {"input_ids": (8, 128), "attention_mask": (8, 128), "decoder_input_ids": (8, 128)},
    "vit_base_ts": {"pixel_values": _IMAGE},
    "resnet50_ts": {"input": _IMAGE},
    "mobilenet_v3_dynamo": {},
    "light_squeezenet": {},
    "light_shufflenet": {},
    "light_vgg19": {},
    "light_densenet121": {},
    "mixtral4L_dynamo_batched": {"input_ids": (8, 64), "attention_mask": (8, 64)},
    "unet_small_ts": {"sample": (8, 4, 32, 32), "timestep": (1,), "encoder_hidden_states": (8, 77, 128)},
}
SECONDS = 60.0
TIGHT = 0.7
"""Of the memory that the largest stage takes without recomputation."""
MARK = "<!-- granularity -->"


@dataclass(frozen=True, slots=True)
class Setting:
    """What is planned for."""

    title: str
    cluster: str
    limits: Limits
    tight: bool = False
    """Whether memory is so small that something has to be computed again."""
    regions: bool = True
    """Whether what tensor parallelism divides stays together."""


NEVER = Limits(recompute="never")
CHAIN = Limits(recompute="never", max_data_parallel=1)
SINGLE = replace(CHAIN, max_tensor_parallel=1)
SETTINGS = (
    Setting("8 devices", "1x8:a100-80gb", NEVER),
    Setting("64 devices", "8x8:a100-80gb", NEVER),
    Setting("8, one replica", "1x8:a100-80gb", CHAIN),
    Setting("8, one replica, little memory", "1x8:a100-80gb", replace(CHAIN, recompute="auto"), tight=True),
    Setting("8, one device a stage", "1x8:a100-80gb", SINGLE),
    Setting("the same, regions cut", "1x8:a100-80gb", SINGLE, regions=False),
)


def shared() -> Path:
    named = os.environ.get("PIPER_SHARED")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    return root / "onnx" / "models"


def read(name: str, granularity: Granularity, *, regions: bool = True) -> Model:
    return load_model(shared() / f"{name}.onnx", {}, GRAPHS[name], {}, None, granularity, regions=regions)


def posed(model: Model, setting: Setting) -> Workload:
    return workload_from_model(model, Cluster.parse(setting.cluster))


def solved(workload: Workload, limits: Limits) -> _core.Solution:
    return _core.solve(workload, limits, "async", threads=1, time_limit=SECONDS, memory_limit=2**30)


def bounds(workload: Workload, limits: Limits) -> tuple[float, float]:
    """Value of the best plan that was found, infinity where there is none, and the proven bound."""
    solution = solved(workload, limits)
    if solution.status == "done":
        return solution.lower_bound, solution.lower_bound
    return _core.score(workload, limits, "async", stages(solution)).value, solution.lower_bound


def stages(solution: _core.Solution) -> list[Stage]:
    return [Stage(tuple(layers), d, t, tuple(choices)) for layers, d, t, choices in solution.stages or []]


def needed(workload: Workload, limits: Limits) -> float:
    """Bytes of the fullest device of the fastest plan that computes nothing again."""
    solution = solved(workload, replace(limits, recompute="never"))
    verdict = _core.score(workload, limits, "async", stages(solution))
    return max(stage.memory for stage in verdict.stages)


def difference(coarse: Model, fine: Model, setting: Setting) -> str:
    """How much longer the best plan of layers takes than that of operators."""
    workloads = [posed(model, setting) for model in (coarse, fine)]
    if setting.tight:
        memory = TIGHT * needed(workloads[0], setting.limits)
        workloads = [replace(workload, memory_bytes=memory, reserve_bytes=0.0) for workload in workloads]
    (layers, _), (operators, bound) = (bounds(workload, setting.limits) for workload in workloads)
    if math.isinf(layers) or math.isinf(operators):
        return "no plan" if layers == operators else "no plan of layers" if layers > operators else "layers only"
    if operators > bound * (1 + 1e-9):
        return f"at most {100 * (layers / bound - 1):.1f} %"
    return f"{100 * (layers / operators - 1):+.2f} %".replace("-0.00", "+0.00")


def rows() -> Iterator[str]:
    """The table, a line at a time."""
    titles = ("graph", "layers", "downsets", "operators", "downsets", *(setting.title for setting in SETTINGS))
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for name in GRAPHS:
        yield row(name)


def row(name: str) -> str:
    """One graph."""
    coarse, fine = read(name, "auto"), read(name, "operator")
    finest = read(name, "operator", regions=False)
    differences = (difference(coarse, fine if setting.regions else finest, setting) for setting in SETTINGS)
    cells = (name, len(coarse.layers), lattice(coarse), len(fine.layers), lattice(fine))
    return f"| {' | '.join((*map(str, cells), *differences))} |"


def lattice(model: Model) -> str:
    """Number of downsets."""
    solution = solved(posed(model, SETTINGS[0]), SETTINGS[0].limits)
    return f"{solution.downsets:,}" if solution.complete else "too many"


def main() -> None:
    lines = []
    for line in rows():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        lines.append(line)
    for name in sys.argv[1:]:
        document = Path(name)
        before, _, after = document.read_text(encoding="utf-8").split(MARK)
        table = "\n".join(["", *lines, ""])
        document.write_text(f"{before}{MARK}\n{table}\n{MARK}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
