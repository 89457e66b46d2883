"""The table of stages: what they hold, how full they are, what binds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
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


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a terminal has room for."""

    bars: bool
    low_heads: bool
    """Heads of columns on two lines."""
    narrow: bool
    """Long cells on two lines."""


_LAYOUTS = (
    _Layout(bars=True, low_heads=False, narrow=False),
    _Layout(bars=True, low_heads=True, narrow=False),
    _Layout(bars=False, low_heads=True, narrow=False),
    _Layout(bars=False, low_heads=True, narrow=True),
)
"""From the widest to the narrowest."""
_LAYERS = 1
"""Place of the column of layers, which takes what the others leave."""
_ROOM = 24
"""Characters of layers that go before bars, if they need as many."""
_LEAST = 9
"""Characters of layers where there is room for no layout."""
_UNLIMITED = 10_000
"""Characters, to measure a table that nothing confines."""


@dataclass(frozen=True, slots=True)
class StageTable:
    """One row a stage, in the widest layout for which there is room."""

    stages: Sequence[PlannedStage]
    layers: Sequence[PlannedLayer]
    usable: float
    """Bytes of a device that may be used."""
    unit: Literal["s"] | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table for the width at hand."""
        for layout in _LAYOUTS:
            table = self._table(layout)
            if Measurement.get(console, options.update(width=_UNLIMITED), table).maximum <= options.max_width:
                table.columns[_LAYERS].width = None
                break
        else:
            table.columns[_LAYERS].width, table.columns[_LAYERS].min_width = None, _LEAST
        yield table

    def _table(self, layout: _Layout) -> Table:
        blocks = {layer.id: layer.block for layer in self.layers}
        names = [f"{numbers_text(s.ids)} ({blocks_text([blocks[layer] for layer in s.ids])})" for s in self.stages]
        slowest = max(stage.load for stage in self.stages)
        table = self._columns(layout, names)
        for number, (stage, name) in enumerate(zip(self.stages, names, strict=True)):
            load, memory = self._load(stage, slowest), self._memory(stage)
            table.add_row(
                str(number),
                safe(name),
                f"{stage.data_parallel_degree} x {stage.tensor_parallel_degree}",
                _recomputed(stage),
                Text.assemble(*(load if layout.bars else load[1:])),
                Text.assemble(*(memory if layout.bars else memory[1:])),
                str(stage.in_flight),
                (",\n" if layout.narrow else ", ").join(_binding(stage, slowest, self.usable)),
            )
        return table

    def _columns(self, layout: _Layout, names: Sequence[str]) -> Table:
        def head(first: str, second: str) -> str:
            return f"{first}\n{second}" if layout.low_heads else f"{first} {second}"

        needed = max(len(word) for name in names for word in name.split())
        if not layout.narrow:
            needed = min(max(needed, _ROOM), max(map(len, names)))
        table = bare_table()
        table.add_column("stage", justify="right", no_wrap=True)
        table.add_column("layers", overflow="fold", width=needed, min_width=needed)
        table.add_column(head("data x", "tensor"), justify="center", no_wrap=True)
        table.add_column("recompute", no_wrap=True)
        table.add_column("load", no_wrap=True, justify="left" if layout.bars else "right")
        table.add_column("memory", no_wrap=True, justify="left" if layout.bars else "right")
        table.add_column(head("in", "flight"), justify="right", no_wrap=True)
        table.add_column("binds", no_wrap=True)
        return table

    def _load(self, stage: PlannedStage, slowest: float) -> tuple[tuple[str, str], str]:
        """A bar relative to the slowest stage, and the time."""
        share = stage.load / slowest if slowest > 0 else 0.0
        style = "yellow" if _slowest(stage, slowest) else "cyan"
        return (f"{bar(share, 6)} ", style), time_text(stage.load, self.unit)

    def _memory(self, stage: PlannedStage) -> tuple[tuple[str, str], str]:
        """A bar relative to what is usable, and the bytes."""
        share = stage.memory / self.usable if self.usable > 0 else float(stage.memory > 0)
        style = "red" if share > 1 else "yellow" if share >= FULL else "green"
        return (f"{bar(share, 6)} ", style), format_bytes(stage.memory)


def _binding(stage: PlannedStage, slowest: float, usable: float) -> list[str]:
    """What keeps a stage from doing better."""
    found = ["time"] if _slowest(stage, slowest) else []
    return [*found, "memory"] if stage.memory >= FULL * usable else found


def _slowest(stage: PlannedStage, slowest: float) -> bool:
    return stage.load >= slowest * (1 - 1e-9)


def _recomputed(stage: PlannedStage) -> str:
    count = sum("recomp" in tmpc for tmpc in stage.tmpc_ids.values())
    if count in (0, len(stage.ids)):
        return "all" if count else "none"
    return f"{count} of {len(stage.ids)}"
