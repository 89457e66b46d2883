"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# Builds must not differ from each other, nor fail because a machine is busy.
settings.register_profile("piper", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("piper")
