"""Device-placement workloads: recognised, so that users are sent to the command that plans them.

Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", NeurIPS 2020; repository
msr-fiddle/dnn-partitioning.
"""

from __future__ import annotations

from os import PathLike
from typing import NoReturn

from piper.errors import InputError
from piper.formats.source import shown

KEYS = frozenset({"maxFPGAs", "maxCPUs", "maxSizePerFPGA"})
"""Keys that only a placement workload has."""


def refuse_placement(path: str | PathLike[str]) -> NoReturn:
    """Say which command a placement workload is for.

    Raises:
        InputError: always.
    """
    raise InputError(
        f"{shown(path)}: is a placement workload; use `piper place`, `piper plan` takes pipeline workloads"
    )
