"""The tables of placements and of the scores of splits: devices, what they hold, how full they are, what binds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from piper.costs.units import format_bytes
from piper.placement.result import PlacedPart, Placement, PlacementSetup, SplitEvaluation
from piper.placement.workload import PlacementWorkload
from piper.report.numbers import bar, percent_text, time_text
from piper.report.runs import numbers_text
from piper.report.stages import FULL
from piper.report.tables import bare_table
from piper.report.text import safe

_BAR = 5


def placement_table(placement: Placement) -> Group:
    """Headline, one row a device, one row a baseline."""
    parts: list[RenderableType] = [_headline(placement), device_table(placement.parts, placement.setup)]
    if placement.baselines:
        parts.append(_baselines(placement))
    return Group(*parts)


def split_evaluation_table(evaluation: SplitEvaluation) -> Group:
    """Headline, one row a device, one line a violation."""
    headline = Text.assemble(safe(evaluation.name), ": ")
    headline.append("feasible" if evaluation.feasible else "infeasible", "green" if evaluation.feasible else "red")
    headline.append(f", largest load {time_text(evaluation.max_load, evaluation.setup.time_unit)}")
    parts: list[RenderableType] = [headline, device_table(evaluation.parts, evaluation.setup)]
    for violation in evaluation.violations:
        by = f" (by {violation.by:,.6g})" if violation.by else ""
        parts.append(safe(f"violated: {violation.where}: {violation.rule}{by}", "red"))
    return Group(*parts)


def device_table(parts: Sequence[PlacedPart], setup: PlacementSetup) -> Table:
    """One row a device, or set of replicas."""
    table = bare_table()
    table.add_column("device", no_wrap=True)
    table.add_column("nodes", overflow="fold", min_width=12)
    table.add_column("load", no_wrap=True)
    table.add_column("transfers", justify="right", no_wrap=True)
    table.add_column("memory", no_wrap=True)
    table.add_column("binds", no_wrap=True)
    usable = {row.name: row.memory_bytes for row in setup.classes}
    busiest = max((part.load for part in parts), default=0.0)
    for part in parts:
        memory = math.inf if part.on_cpu else usable.get(part.device, 0.0)
        table.add_row(
            safe(part.device if part.replicas == 1 else f"{part.replicas} x {part.device}"),
            f"{len(part.ids)}: {numbers_text(part.ids)}",
            _load(part, busiest, setup),
            time_text(part.transfer, setup.time_unit),
            Text("") if part.on_cpu else _memory(part, memory),
            _binding(part, busiest, memory),
        )
    return table


def _headline(placement: Placement) -> Text:
    setup = placement.setup
    text = Text.assemble(safe(placement.name), ": ", (time_text(placement.max_load, setup.time_unit), "bold"))
    text.append(" per sample, ")
    text.append(_proof(placement), style="green" if placement.optimal else "yellow")
    used = sum(part.replicas for part in placement.parts if not part.on_cpu)
    cpus = sum(part.on_cpu for part in placement.parts)
    total = sum(row.count for row in setup.classes)
    text.append(f"\n{used} of {total} accelerators, {cpus} of {setup.cpus} CPUs")
    text.append(", contiguous" if placement.contiguous else ", not contiguous")
    text.append(f"; solved in {time_text(placement.solve_seconds, 's')}")
    return text


def _proof(placement: Placement) -> str:
    if placement.optimal:
        return "proven optimal"
    if placement.lower_bound <= 0:
        return f"not proven ({placement.status})"
    bound = time_text(placement.lower_bound, placement.setup.time_unit)
    return f"within {percent_text(placement.gap)} of the bound {bound} ({placement.algorithm}, {placement.status})"


def _load(part: PlacedPart, busiest: float, setup: PlacementSetup) -> Text:
    """A bar relative to the busiest device, and the time."""
    share = part.load / busiest if busiest > 0 else 0.0
    style = "yellow" if part.load >= busiest * (1 - 1e-9) else "cyan"
    return Text.assemble((bar(share, _BAR), style), f" {time_text(part.load, setup.time_unit)}")


def _memory(part: PlacedPart, usable: float) -> Text:
    """A bar relative to the memory of the device, and the bytes."""
    share = part.memory / usable if usable > 0 else float(part.memory > 0)
    style = "red" if share > 1 else "yellow" if share >= FULL else "green"
    return Text.assemble((bar(share, _BAR), style), f" {format_bytes(part.memory)}")


def _binding(part: PlacedPart, busiest: float, usable: float) -> str:
    """What keeps a device from doing better."""
    found = ["time"] if part.load >= busiest * (1 - 1e-9) else []
    return ", ".join([*found, "memory"] if part.memory > 0 and part.memory >= FULL * usable else found)


def _baselines(placement: Placement) -> Table:
    table = bare_table()
    table.add_column("baseline")
    table.add_column("largest load", justify="right")
    table.add_column("of the placement's", justify="right")
    table.add_column("breaks")
    for row in placement.baselines:
        if row.max_load is None or row.ratio is None:
            table.add_row(safe(row.name), "no split", "", "")
            continue
        load = time_text(row.max_load, placement.setup.time_unit)
        table.add_row(safe(row.name), load, f"{row.ratio:.3f} x", safe(", ".join(row.broken_rules)))
    return table


def placement_inspection_table(workload: PlacementWorkload) -> Group:
    """Headline, one row a node."""
    trains = sum(node.backward for node in workload.nodes)
    colors = len({node.color for node in workload.nodes if node.color is not None})
    devices = ", ".join(f"{row.count} x {row.name} ({format_bytes(row.memory_bytes)})" for row in workload.classes)
    headline = Text.assemble(safe(workload.name), f": {len(workload.nodes)} nodes ({trains} backward), ")
    headline.append(f"{len(workload.edges)} edges, {colors} colour classes\n{workload.cpus} CPUs; ")
    headline.append(safe(devices or "no accelerators"))
    table = bare_table()
    table.add_column("node", justify="right")
    table.add_column("name", overflow="fold")
    table.add_column("pass")
    table.add_column("colour class", justify="right")
    for name in ("cpu", *(row.name for row in workload.classes), "transfer", "size"):
        table.add_column(safe(name), justify="right")
    for node in workload.nodes:
        table.add_row(
            str(node.id),
            safe(node.name),
            "backward" if node.backward else "forward",
            "" if node.color is None else str(node.color),
            time_text(node.cpu, workload.time_unit),
            *("no" if time is None else time_text(time, workload.time_unit) for time in node.accelerators),
            time_text(node.transfer, workload.time_unit),
            format_bytes(node.size),
        )
    return Group(headline, table)
