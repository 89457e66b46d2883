"""Small changes of documents, each of which makes a file bad in one way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from examples import Document


def put(*path: str | int, value: object) -> Callable[[Document], object]:
    """An edit that sets the value at a path."""

    def edit(document: Document) -> object:
        target: Any = document
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value
        return document

    return edit


def drop(*path: str | int) -> Callable[[Document], object]:
    """An edit that deletes the value at a path."""

    def edit(document: Document) -> object:
        target: Any = document
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]
        return document

    return edit


def text(change: Callable[[str], str | bytes]) -> Callable[[Document], object]:
    """An edit of the JSON text."""
    return lambda document: change(json.dumps(document))
