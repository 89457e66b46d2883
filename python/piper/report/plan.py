"""The table of a plan: how good it is, its stages, and the baselines where there are any."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from piper.costs.units import format_bytes
from piper.planning.result import Baseline, Plan
from piper.report.numbers import percent_text, time_text
from piper.report.stages import StageTable
from piper.report.tables import bare_table
from piper.report.text import safe


def plan_table(plan: Plan) -> Group:
    """Headline, one row a stage, one row a baseline."""
    parts: list[RenderableType] = [
        _headline(plan),
        StageTable(plan.stages, plan.layers, plan.memory_bytes, plan.time_unit),
    ]
    if plan.baselines:
        parts.append(_baselines(plan))
    return Group(*parts)


def _headline(plan: Plan) -> Text:
    text = Text.assemble(safe(plan.name), ": ", (time_text(plan.time_per_sample, plan.time_unit), "bold"))
    text.append(" per microbatch, ")
    text.append(_proof(plan), style="green" if plan.optimal else "yellow")
    text.append(f"\n{_batch(plan)}\n{plan.devices_used} of {plan.devices} devices, {_stages(len(plan.stages))}")
    text.append(f", {format_bytes(plan.memory_bytes)} usable on each; solved in {time_text(plan.solve_seconds, 's')}")
    return text


def _stages(count: int) -> str:
    return "1 stage" if count == 1 else f"{count} stages"


def _proof(plan: Plan) -> str:
    if plan.optimal:
        return "proven optimal"
    if plan.lower_bound <= 0:
        return f"not proven ({plan.status})"
    bound = time_text(plan.lower_bound, plan.time_unit)
    return f"within {percent_text(plan.gap)} of the bound {bound} ({plan.status})"


def _batch(plan: Plan) -> str:
    size = "" if plan.microbatch_size is None else f" of {plan.microbatch_size}"
    parts = [f"batch of {plan.microbatches} microbatches{size}"]
    if plan.iteration_time is not None:
        parts.append(f"{time_text(plan.iteration_time, 's')} per iteration")
    if plan.tokens_per_second is not None:
        parts.append(f"{plan.tokens_per_second:,.0f} tokens/s")
    if plan.mfu is not None:
        parts.append(f"{percent_text(plan.mfu)} MFU")
    return ", ".join(parts)


def _baselines(plan: Plan) -> Table:
    table = bare_table()
    table.add_column("baseline")
    table.add_column("time", justify="right")
    table.add_column("of the plan's", justify="right")
    for baseline in plan.baselines:
        table.add_row(safe(baseline.name), *_baseline_cells(baseline, plan))
    return table


def _baseline_cells(baseline: Baseline, plan: Plan) -> tuple[str, str]:
    if baseline.time_per_sample is None or baseline.ratio is None:
        return "no plan", ""
    return time_text(baseline.time_per_sample, plan.time_unit), f"{baseline.ratio:.3f} x"
