"""Where tests find profiled models and real graphs made by others, which are no part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SKIP_REASON = "shared data is missing: put it beside the checkout as ../shared, or name its folder in PIPER_SHARED"


def shared_path(*parts: str) -> Path:
    """Path of a file or folder of the shared data; skips the test where it is missing."""
    named = os.environ.get("PIPER_SHARED")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{SKIP_REASON} (looked for {path})")
    return path
