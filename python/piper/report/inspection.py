"""Tables of models and workloads: one row a distinct layer, or one an operator."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from piper.costs.units import format_bytes, format_count
from piper.inspection.model import LayerRow, ModelInspection
from piper.inspection.workload import WorkloadInspection, plain_tmpc
from piper.report.numbers import time_text
from piper.report.runs import degrees_text, numbers_text
from piper.report.tables import bare_table
from piper.report.text import safe
from piper.workload import Layer


def model_table(inspection: ModelInspection) -> Group:
    """Totals, then one row for each distinct layer with the number of its repeats."""
    columns = ["layer", "numbers", "operators", "FLOPs", "weights", "activations", "moved", "tensor parallel"]
    table = _table(columns, inspection)
    for rows in _alike_rows(inspection.rows()):
        row = rows[0]
        name = row.layer.block or row.layer.name
        cells: list[RenderableType] = [
            safe(f"{row.repeats} x {name}" if row.repeats > 1 else name),
            numbers_text(row.id for row in rows),
            str(len(row.layer.operators)),
            *_sums(row.flops, row.weight_bytes, row.activation_bytes, row.bytes_moved),
            degrees_text(row.layer.degrees),
        ]
        table.add_row(*cells, *_seconds(row.seconds))
    return Group(_model_headline(inspection), table, *_notes(inspection))


def operator_table(inspection: ModelInspection) -> Group:
    """Totals, then one row an operator."""
    table = _table(["operator", "type", "rule", "FLOPs", "weights", "activations", "moved", "output"], inspection)
    for position, operator in enumerate(inspection.model.operators):
        shapes = ", ".join("x".join(map(str, output.shape)) or "scalar" for output in operator.outputs[:2])
        cells: list[RenderableType] = [
            safe(operator.name),
            safe(operator.op_type),
            safe(operator.rule),
            *_sums(operator.flops, operator.weight_bytes, operator.output_bytes, operator.bytes_moved),
            shapes,
        ]
        table.add_row(*cells, *_seconds(inspection.seconds[position] if inspection.seconds else None))
    return Group(_model_headline(inspection), table, *_notes(inspection))


def workload_table(inspection: WorkloadInspection) -> Group:
    """The cluster's numbers, then one row for layers that differ in nothing but their measured times."""
    workload = inspection.workload
    table = bare_table()
    for name in ("layer", "numbers", "time", "weights", "memory a", "memory b", "tensor parallel", "configurations"):
        table.add_column(name, overflow="fold")
    for layers in _alike(workload.layers):
        table.add_row(*_layer_cells(layers, workload.time_unit))
    return Group(_workload_headline(inspection), table)


def _alike(layers: Sequence[Layer]) -> list[list[Layer]]:
    """Layers with the same name, sizes and configurations, in order of the first."""
    groups: dict[Hashable, list[Layer]] = {}
    for layer in layers:
        tmpc = plain_tmpc(layer)
        sizes = None if tmpc is None else (tmpc.weight_bytes, tmpc.memory_per_microbatch, tmpc.memory_fixed)
        names = tuple((degree, tuple(t.id for t in layer.tmpcs[degree])) for degree in sorted(layer.tmpcs))
        groups.setdefault((layer.name, sizes, names), []).append(layer)
    return list(groups.values())


def _layer_cells(layers: Sequence[Layer], unit: Literal["s"] | None) -> list[RenderableType]:
    """What layers have in common, with the range of their times in the first configuration of the least degree."""
    first = layers[0]
    tmpcs = [tmpc for tmpc in map(plain_tmpc, layers) if tmpc is not None]
    times = sorted({time_text(tmpc.time, unit): tmpc.time for tmpc in tmpcs}.items(), key=lambda item: item[1])
    sizes = [(t.weight_bytes, t.memory_per_microbatch, t.memory_fixed) for t in tmpcs[:1]] or [(0.0, 0.0, 0.0)]
    return [
        safe(f"{len(layers)} x {first.name}" if len(layers) > 1 else first.name),
        numbers_text(layer.id for layer in layers),
        " to ".join(text for text, _ in (times[:1] + times[-1:] if len(times) > 1 else times)),
        *(format_bytes(size) for size in sizes[0]),
        degrees_text(sorted(first.tmpcs)),
        safe(", ".join(dict.fromkeys(t.id for degree in sorted(first.tmpcs) for t in first.tmpcs[degree]))),
    ]


def _workload_headline(inspection: WorkloadInspection) -> Text:
    workload = inspection.workload
    text = Text.assemble((safe(workload.name)), f": {len(workload.layers)} layers, {len(workload.edges)} edges")
    if inspection.cluster_known:
        bandwidth = format_bytes(workload.network.stage_bandwidth)
        memory = format_bytes(workload.memory_bytes)
        text.append(f"\n{workload.devices} devices with {memory} each, {bandwidth}/s between them")
        text.append(f", {workload.microbatches} microbatches")
    return text


def _model_headline(inspection: ModelInspection) -> Text:
    model = inspection.model
    text = Text.assemble((safe(model.name)), f": {len(model.layers)} layers, {len(model.operators)} operators")
    text.append(f"\nmicrobatch {model.batch}")
    text.append("" if model.tokens is None else f" ({model.tokens} tokens)")
    text.append(
        f", {model.dtype}: {format_count(model.flops)} FLOP forward, {format_count(model.parameters)} parameters"
    )
    text.append(f", {format_bytes(model.weight_bytes)} of weights")
    if inspection.device is not None and inspection.seconds is not None:
        text.append(f"\nforward on one {inspection.device}: {time_text(sum(inspection.seconds), 's')}")
    return text


def _table(columns: list[str], inspection: ModelInspection) -> Table:
    table = bare_table()
    numeric = ("operators", "FLOPs", "weights", "activations", "moved")
    for name in columns:
        table.add_column(name, justify="right" if name in numeric else "left", overflow="fold")
    if inspection.seconds is not None:
        table.add_column("forward", justify="right")
    return table


def _alike_rows(rows: Iterable[LayerRow]) -> list[list[LayerRow]]:
    """The layers of each block, and every layer that is no block on its own; in order of the first."""
    groups: dict[str | int, list[LayerRow]] = {}
    for row in rows:
        groups.setdefault(row.id if row.layer.block is None else row.layer.block, []).append(row)
    return list(groups.values())


def _sums(flops: int, weights: int, activations: int, moved: int) -> list[str]:
    return [format_count(flops), format_bytes(weights), format_bytes(activations), format_bytes(moved)]


def _seconds(seconds: float | None) -> list[str]:
    return [] if seconds is None else [time_text(seconds, "s")]


def _notes(inspection: ModelInspection) -> list[RenderableType]:
    return [safe(f"assumed: {sentence}", "dim") for sentence in inspection.model.assumptions]
