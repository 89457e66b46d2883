"""The table of a frontier: best time and speed-up for every number of devices that helps."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from piper.planning.frontier import Frontier
from piper.report.numbers import time_text
from piper.report.tables import bare_table
from piper.report.text import safe


def frontier_table(frontier: Frontier) -> Group:
    """One row for each number of devices at which the time improves."""
    table = bare_table()
    for name in ("devices", "time per microbatch", "speed-up", "per device"):
        table.add_column(name, justify="right")
    first = frontier.points[0]
    for point in frontier.points:
        speedup = first.time_per_sample / point.time_per_sample if point.time_per_sample > 0 else 1.0
        table.add_row(
            str(point.devices),
            time_text(point.time_per_sample, frontier.time_unit),
            f"{speedup:.2f} x",
            f"{100 * speedup * first.devices / point.devices:.0f} %",
        )
    proof = "proven optimal" if frontier.optimal else "not proven optimal"
    headline = Text.assemble(safe(frontier.name), f": {proof}; solved in {time_text(frontier.solve_seconds, 's')}")
    return Group(headline, table)
