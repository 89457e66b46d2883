"""The table of an evaluation: the score, the stages, and every rule that is broken."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from piper.evaluation import Evaluation
from piper.report.numbers import percent_text, time_text
from piper.report.stages import stage_table
from piper.report.text import safe


def evaluation_table(evaluation: Evaluation) -> Group:
    """Headline, one row a stage, one line a violation."""
    parts: list[RenderableType] = [
        _headline(evaluation),
        stage_table(evaluation.stages, evaluation.layers, evaluation.memory_bytes, evaluation.time_unit),
    ]
    for violation in evaluation.violations:
        by = f" (by {violation.by:,.6g})" if violation.by else ""
        parts.append(safe(f"violated: {violation.where}: {violation.rule}{by}", "red"))
    return Group(*parts)


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
