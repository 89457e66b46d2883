"""The table of stages: what they hold, how full they are, what binds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.table import Table
from rich.text import Text

from piper.costs.units import format_bytes
from piper.planning.result import PlannedLayer, PlannedStage
from piper.report.numbers import bar, time_text
from piper.report.runs import blocks_text, numbers_text
from piper.report.tables import bare_table
from piper.report.text import safe

FULL = 0.95
"""Share of the memory from which on it is said to bind."""


def stage_table(
    stages: Sequence[PlannedStage],
    layers: Sequence[PlannedLayer],
    usable: float,
    unit: Literal["s"] | None,
) -> Table:
    """One row a stage. `usable` are the bytes of a device that may be used."""
    table = bare_table()
    table.add_column("stage", justify="right")
    table.add_column("layers", overflow="fold")
    table.add_column("data x tensor", justify="center")
    table.add_column("recompute")
    table.add_column("load", no_wrap=True)
    table.add_column("memory", no_wrap=True)
    table.add_column("in flight", justify="right")
    table.add_column("binds")
    blocks = {layer.id: layer.block for layer in layers}
    slowest = max(stage.load for stage in stages)
    for number, stage in enumerate(stages):
        table.add_row(
            str(number),
            safe(f"{numbers_text(stage.ids)} ({blocks_text([blocks[layer] for layer in stage.ids])})"),
            f"{stage.data_parallel_degree} x {stage.tensor_parallel_degree}",
            _recomputed(stage),
            _load(stage, slowest, unit),
            _memory(stage, usable),
            str(stage.in_flight),
            _binding(stage, slowest, usable),
        )
    return table


def _load(stage: PlannedStage, slowest: float, unit: Literal["s"] | None) -> Text:
    """A bar relative to the slowest stage, and the time."""
    share = stage.load / slowest if slowest > 0 else 0.0
    style = "yellow" if _slowest(stage, slowest) else "cyan"
    return Text.assemble((bar(share, 6), style), f" {time_text(stage.load, unit)}")


def _memory(stage: PlannedStage, usable: float) -> Text:
    """A bar relative to what is usable, and the bytes."""
    share = stage.memory / usable if usable > 0 else float(stage.memory > 0)
    style = "red" if share > 1 else "yellow" if share >= FULL else "green"
    return Text.assemble((bar(share, 6), style), f" {format_bytes(stage.memory)}")


def _binding(stage: PlannedStage, slowest: float, usable: float) -> str:
    """What keeps a stage from doing better."""
    found = ["time"] if _slowest(stage, slowest) else []
    return ", ".join([*found, "memory"] if stage.memory >= FULL * usable else found)


def _slowest(stage: PlannedStage, slowest: float) -> bool:
    return stage.load >= slowest * (1 - 1e-9)


def _recomputed(stage: PlannedStage) -> str:
    count = sum("recomp" in tmpc for tmpc in stage.tmpc_ids.values())
    if count in (0, len(stage.ids)):
        return "all" if count else "none"
    return f"{count} of {len(stage.ids)}"
