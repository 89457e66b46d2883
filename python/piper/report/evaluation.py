"""The table of an evaluation: the score, the stages, and every rule that is broken."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from piper.costs.units import format_bytes
from piper.evaluation import Evaluation, Violation
from piper.report.numbers import percent_text, time_text
from piper.report.stages import StageTable
from piper.report.text import safe

_COUNTS = ("devices", "replicas", "max-data-parallel", "max-tensor-parallel", "stages", "max-stages")
"""Rules with a limit that counts something."""


def evaluation_table(evaluation: Evaluation) -> Group:
    """Headline, one row a stage, one line a violation."""
    parts: list[RenderableType] = [
        _headline(evaluation),
        StageTable(evaluation.stages, evaluation.layers, evaluation.memory_bytes, evaluation.time_unit),
    ]
    parts += [safe(f"violated: {v.where}: {v.rule}{_excess(v)}", "red") for v in evaluation.violations]
    return Group(*parts)


def _excess(violation: Violation) -> str:
    """By how much, for rules about quantities."""
    if violation.rule == "memory":
        return f" ({format_bytes(violation.by)} too much)"
    return f" (by {violation.by:,.6g})" if violation.rule in _COUNTS else ""


def _headline(evaluation: Evaluation) -> Text:
    text = Text.assemble(safe(evaluation.name), ": ")
    text.append("feasible" if evaluation.feasible else "infeasible", "green" if evaluation.feasible else "red")
    text.append(f", {time_text(evaluation.time_per_sample, evaluation.time_unit)} per microbatch, ")
    text.append(f"{evaluation.devices_used} of {evaluation.devices} devices, {evaluation.microbatches} microbatches")
    if evaluation.iteration_time is not None:
        text.append(f"\n{time_text(evaluation.iteration_time, 's')} per iteration")
    if evaluation.tokens_per_second is not None:
        text.append(f", {evaluation.tokens_per_second:,.0f} tokens/s")
    if evaluation.mfu is not None:
        text.append(f", {percent_text(evaluation.mfu)} MFU")
    return text
