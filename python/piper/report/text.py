"""Tables as plain text, and text that is safe to show."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, RenderableType
from rich.text import Text

WIDTH = 120
"""Columns of plain text."""


def plain_text(renderable: RenderableType) -> str:
    """A table without colours, for `str` and logs."""
    stream = StringIO()
    Console(file=stream, width=WIDTH, color_system=None, force_terminal=False).print(renderable)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def safe(text: str, style: str = "") -> Text:
    """Text from a file: no markup, no control characters."""
    return Text("".join(c if c.isprintable() else "?" for c in text), style=style)
