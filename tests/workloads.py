"""Small workload files for tests of the package and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def chain_document(layers: int = 4, **changes: Any) -> dict[str, Any]:
    """A chain of equal layers: 8 units of time, 10 bytes of memory that stay and 1 for each microbatch in flight."""
    edges = [{"sourceId": v, "destId": v + 1, "communicationCost": 0} for v in range(layers - 1)]
    document: dict[str, Any] = {
        "maxDevices": 2,
        "maxMemoryPerDevice": 1000,
        "bandwidth": 1,
        "mbsInBatch": 8,
        "nodes": [_layer(v, layers) for v in range(layers)],
        "edges": edges,
    }
    return document | changes


def long_document(layers: int = 1200) -> dict[str, Any]:
    """A chain of layers that all differ, on many devices with many possible degrees: takes several seconds."""
    document = chain_document(layers, maxDevices=60_000, mbsInBatch=720_720, maxMemoryPerDevice=150)
    for node in document["nodes"]:
        for alternatives in node["TMPCs"].values():
            for tmpc in alternatives:
                tmpc["timePerSample"] *= 1 + node["id"] ** 2 * 7919 % 9973 / 9973
    return document


def wide_document(layers: int = 18) -> dict[str, Any]:
    """Layers without edges and all different: with little memory for the search, a plan but no proof."""
    times = [100 + v * v * 7919 % 9973 / 97 + v / 1000 for v in range(layers)]
    nodes = [
        {"id": v, "name": f"layer {v}", "TMPCs": {"1": [_tmpc("vanilla", time, {}, {})]}}
        for v, time in enumerate(times)
    ]
    return {
        "maxDevices": 11,
        "maxMemoryPerDevice": 1e6,
        "bandwidth": 1,
        "mbsInBatch": 64,
        "nodes": nodes,
        "edges": [],
    }


def write(path: Path, document: dict[str, Any]) -> Path:
    """The document as a file."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _layer(number: int, layers: int) -> dict[str, Any]:
    before = {str(number - 1): 0} if number else {}
    after = {str(number + 1): 0} if number + 1 < layers else {}
    alternatives = {
        "1": [_tmpc("vanilla", 8, before, after), _tmpc("activation recomp", 10, before, after, running=0.5)],
        "2": [_tmpc("vanilla", 5, before, after, fixed=5)],
    }
    return {"id": number, "name": f"block.{number}", "TMPCs": alternatives}


def _tmpc(
    name: str, time: float, before: dict[str, int], after: dict[str, int], *, running: float = 1, fixed: float = 10
) -> dict[str, Any]:
    return {
        "id": name,
        "timePerSample": time,
        "parameterSize": 0,
        "memoryUsageA": running,
        "memoryUsageB": fixed,
        "syncTimeFw": before,
        "syncTimeBw": after,
    }
