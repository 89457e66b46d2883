"""The look that all tables share."""

from __future__ import annotations

from rich.table import Table


def bare_table() -> Table:
    """A table without lines, columns two spaces apart."""
    return Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
