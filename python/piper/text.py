"""Text from outside, made fit for a message."""

from __future__ import annotations


def one_line(text: str, limit: int = 4096) -> str:
    """Text with unprintable characters escaped, cut to `limit` characters."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
