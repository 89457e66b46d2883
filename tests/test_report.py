"""Tables: nothing is cut off, at any width of a usual terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console, RenderableType

import piper


def shown(table: RenderableType, width: int) -> list[str]:
    stream = StringIO()
    Console(file=stream, width=width, color_system=None, force_terminal=False).print(table)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.fixture(scope="module")
def plan() -> piper.Plan:
    return piper.plan("llama3-70b", "8x8:h100-80gb")


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_plan_is_whole_at_any_width(plan: piper.Plan, width: int) -> None:
    lines = shown(plan, width)
    start = next(number for number, line in enumerate(lines) if line.startswith("stage"))
    assert lines[start].split()[-1] == "binds"
    text = " ".join(" ".join(lines[start:]).split())
    assert "…" not in text
    assert "DecoderLayer)" in text
    rows = [line.split() for line in lines[start + 1 :] if line[:5].strip()]
    assert [int(row[0]) for row in rows] == list(range(len(plan.stages)))
    assert all(str(stage.in_flight) in row for stage, row in zip(plan.stages, rows, strict=True))


@pytest.mark.parametrize("width", [100, 120])
def test_a_stage_takes_one_row_where_there_is_room(plan: piper.Plan, width: int) -> None:
    lines = shown(plan, width)
    start = next(number for number, line in enumerate(lines) if line.startswith("stage"))
    longer = [line for line in lines[start + 1 :] if not line[:5].strip()]
    assert len(longer) <= 1
    assert any("█" in line for line in lines) == (width == 120)


def test_an_excess_has_its_unit(plan: piper.Plan) -> None:
    evaluation = piper.evaluate("llama3-70b", plan, "8x8:h100-80gb", memory="70GiB", reserve=0)
    assert any("memory (2.38 GiB too much)" in line for line in shown(evaluation, 120))
