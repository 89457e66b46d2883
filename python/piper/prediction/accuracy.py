"""Writes `docs/explanation/accuracy.md`: ``python -m piper.prediction.accuracy docs/explanation/accuracy.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from piper.costs.devices import Device, device
from piper.costs.workload import RESERVE
from piper.prediction.published import Check, check, runs

_TITLES = {
    "korthikanti": "Korthikanti et al., 2022, table 5: seconds of an iteration",
    "narayanan": "Narayanan et al., 2021, table 1: TFLOP/s of each device, recomputation counted",
}
_INTRODUCTION = """\
# How good predictions are

`piper evaluate MODEL --tp T --pp P ...` predicts the iteration time of a training run. This page holds predictions
against runs whose speed was published. It is written by `python -m piper.prediction.accuracy`; a test compares the
two.

All runs are GPT models on DGX A100 nodes (8 devices with 80 GB, NVLink, 8 x 200 Gb/s InfiniBand), sequence 2048,
vocabulary 51200, 16 bit, unfused attention. Where microbatch size and schedule were not published, the best predicted
ones that fit into the memory are taken. No factor belongs to a row: all predictions come from the same rules and the
constants below.
"""
_CHOICE = """\
## Constants

Rates, bandwidths and sizes are those of the data sheet. The five numbers of a device family say what no data sheet
does. For A100 they were chosen on a grid (efficiency in steps of 0.01, shares of bandwidths in steps of 0.03 and
0.05) by the errors of the runs that are not marked as held out; the optimum is flat, and neighbours of the chosen
point differ by a few tenths of a percent. Held-out runs had no part in that score, though their errors were in sight
while the rules were written. Other families have plausible values; for them no run has been checked.
"""
_LIMITS = """\
## What is left out

Jitter and stragglers, contention between exchanges, the operations of the framework between kernels. Large models in
many stages are predicted a little too fast for the runs of 2021 and a little too slow for those of 2022: programs
became better in between, for example at hiding the exchanges of tensor parallelism, and the rules are the same for
both. That the runs of 1T were not interleaved is supposed. Memory is the sum of parameters, gradients, optimizer
state, activations in flight and a reserve of 6 %; peak memory was not published for these runs.
"""


def report(checks: Sequence[Check]) -> str:
    """The document for these checks."""
    parts = [_INTRODUCTION, _summary(checks)]
    for source, title in _TITLES.items():
        parts.append(f"## {title}\n\n" + _table([found for found in checks if found.run.source == source]))
    parts += [_CHOICE, _constants(device("a100-80gb")), _LIMITS]
    return "\n".join(parts)


def _summary(checks: Sequence[Check]) -> str:
    rows = [
        f"| {name} | {len(group)} | {_mean(group):.1%} | {max(abs(c.error) for c in group):.1%} |"
        for name, group in (
            ("used to choose the constants", [c for c in checks if not c.run.held_out]),
            ("held out", [c for c in checks if c.run.held_out]),
        )
    ]
    return "\n".join(["| runs | number | mean error | largest error |", "|---|---|---|---|", *rows, ""])


def _mean(checks: Sequence[Check]) -> float:
    return sum(abs(found.error) for found in checks) / len(checks)


def _table(checks: Iterable[Check]) -> str:
    head = (
        "| model | hidden | layers | heads | TP x PP x DP | batch | microbatch | virtual stages | recomputation "
        "| published | predicted | error | |"
    )
    return "\n".join([head, "|---" * 13 + "|", *map(_row, checks), ""])


def _row(found: Check) -> str:
    run, arrangement = found.run, found.prediction.arrangement
    recomputation = f"{run.recompute}{', sequence parallel' if run.sequence_parallel else ''}"
    digits = 2 if run.seconds is not None else 0
    cells = (
        run.model,
        run.hidden,
        run.layers,
        run.heads,
        f"{arrangement.tensor_parallel} x {arrangement.pipeline} x {arrangement.data_parallel}",
        run.batch,
        arrangement.microbatch_size,
        arrangement.virtual_stages,
        recomputation,
        f"{run.published:.{digits}f} {run.unit}",
        f"{found.predicted:.{max(digits, 1)}f} {run.unit}",
        f"{found.error:+.1%}",
        "held out" if run.held_out else "",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _constants(spec: Device) -> str:
    family = spec.family
    sheet = "NVIDIA A100 data sheet (SXM, 80 GB)"
    fitted = "chosen as said above"
    rows = (
        ("peak, 16 bit", f"{spec.peak('float16') / 1e12:g} TFLOP/s", sheet),
        ("memory", spec.memory, sheet),
        ("memory bandwidth", f"{spec.memory_bandwidth / 1e9:g} GB/s", sheet),
        ("NVLink, one direction", f"{spec.link_bandwidth / 1e9:g} GB/s", sheet),
        (
            "network, one direction",
            f"{spec.network_bandwidth / 1e9:g} GB/s",
            "DGX A100 data sheet: 8 x 200 Gb/s for 8 devices",
        ),
        (
            "latency of a step, NVLink and network",
            f"{spec.link_latency * 1e6:g} and {spec.network_latency * 1e6:g} µs",
            "order of magnitude of NCCL's; no run is sensitive to it",
        ),
        ("share of the peak that large products reach", f"{family.matmul_efficiency:g}", fitted),
        (
            "time to fill and drain the device",
            f"{family.ramp * 1e6:g} µs",
            "a wave of tiles of a small product; the curve of efficiency over size, see [costs](costs.md)",
        ),
        ("share of the memory bandwidth", f"{family.memory_efficiency:g}", fitted),
        ("share of NVLink", f"{family.link_efficiency:g}", fitted),
        (
            "share of the network",
            f"{family.network_efficiency:g}",
            "Narayanan et al., 2021, section 5.9: 12.9 TB/s of all-reduces across the bisection of 3,072 devices in "
            "groups of 6, where we count 1,024 ports of 25 GB/s",
        ),
        ("launch of a kernel", f"{family.launch * 1e6:g} µs", "usual for CUDA"),
        ("optimizer step", "62 bytes moved for each parameter", "the steps of Megatron-LM's optimizer"),
        ("backward pass of fused attention", "2.5 x forward", "Dao et al., 2022: five products for two"),
        ("reserve", f"{RESERVE:.0%} of the memory", "runtime and fragmentation; supposed"),
    )
    lines = [f"| {name} | {value} | {source} |" for name, value, source in rows]
    return "\n".join(["| constant | value | source |", "|---|---|---|", *lines, ""])


def main() -> None:
    """Write the document to the file that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m piper.prediction.accuracy FILE")
    Path(sys.argv[1]).write_text(report([check(run) for run in runs()]), encoding="utf-8")


if __name__ == "__main__":
    main()
