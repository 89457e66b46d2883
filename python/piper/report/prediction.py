"""The table of a prediction: the totals, and one row for stages that are alike."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from piper.costs.units import format_bytes
from piper.prediction.result import PredictedStage, Prediction
from piper.report.numbers import percent_text, time_text
from piper.report.runs import numbers_text
from piper.report.tables import bare_table
from piper.report.text import safe


def prediction_table(prediction: Prediction) -> Group:
    """Headline, then times of a microbatch and of a batch, and memory of each kind of stage."""
    alike = _alike(prediction.stages)
    return Group(_headline(prediction), _times(alike), Text(""), _memory(alike))


def _times(stages: Sequence[tuple[list[int], PredictedStage]]) -> Table:
    table = bare_table()
    table.add_column("stages")
    for name in ("layers", "forward", "backward", "transfer", "resync", "optimizer step", "in flight"):
        table.add_column(name, justify="right")
    for numbers, stage in stages:
        times = (stage.forward, stage.backward, stage.transfer, stage.resync, stage.optimizer)
        cells = (time_text(time, "s") for time in times)
        table.add_row(numbers_text(numbers), str(len(stage.layers)), *cells, f"{stage.in_flight:g}")
    return table


def _memory(stages: Sequence[tuple[list[int], PredictedStage]]) -> Table:
    table = bare_table()
    table.add_column("stages")
    parts = ("weights", "gradients", "optimizer", "activations", "reserve", "total")
    for name in parts:
        table.add_column(name, justify="right")
    for numbers, stage in stages:
        table.add_row(numbers_text(numbers), *(format_bytes(getattr(stage.memory, name)) for name in parts))
    return table


def _alike(stages: tuple[PredictedStage, ...]) -> list[tuple[list[int], PredictedStage]]:
    """Neighbouring stages with the same times and sizes."""
    groups: list[tuple[list[int], PredictedStage]] = []
    for number, stage in enumerate(stages):
        if groups and _numbers(groups[-1][1]) == _numbers(stage):
            groups[-1][0].append(number)
        else:
            groups.append(([number], stage))
    return groups


def _numbers(stage: PredictedStage) -> tuple[object, ...]:
    return len(stage.layers), stage.load, stage.resync, stage.optimizer, stage.memory


def _headline(prediction: Prediction) -> Text:
    arrangement = prediction.arrangement
    text = Text.assemble(safe(prediction.name), ": ")
    text.append(
        f"{arrangement.tensor_parallel} x tensor, {arrangement.pipeline} x pipeline, {arrangement.data_parallel} x "
        f"data parallel, {arrangement.microbatches} microbatches of {arrangement.microbatch_size}, "
        f"{arrangement.schedule}"
    )
    if arrangement.virtual_stages > 1:
        text.append(f" with {arrangement.virtual_stages} virtual stages")
    text.append(f"\n{time_text(prediction.iteration_time, 's')} per iteration")
    text.append(f", {prediction.tflops_per_device:.1f} TFLOP/s per device, {percent_text(prediction.mfu)} MFU")
    if prediction.tokens_per_second is not None:
        text.append(f", {prediction.tokens_per_second:,.0f} tokens/s")
    fits = "fits" if prediction.feasible else "does not fit"
    text.append(f"\n{format_bytes(prediction.peak_memory)} at most on a device, ")
    text.append(f"{fits} into {format_bytes(prediction.memory_bytes)}", "green" if prediction.feasible else "red")
    return text
