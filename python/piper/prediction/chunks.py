"""Which layers go together: as many parts as devices in the pipeline, times virtual stages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from piper.model import Model

Chunk = tuple[int, ...]
"""Positions of consecutive layers."""


def divisible(model: Model, stages: int) -> int:
    """Layers that are shared out over the stages: repeated blocks, or all where these are fewer than the stages."""
    blocks = sum(layer.block is not None for layer in model.layers)
    return blocks if blocks >= stages else len(model.layers)


def cut(model: Model, parts: int, seconds: Sequence[float]) -> list[Chunk]:
    """Cut the layers into so many chunks.

    Repeated blocks are dealt out evenly, as training programs do; what comes before the first goes with it, other
    layers go with the block before them. Without enough blocks the slowest chunk is as fast as can be.

    Args:
        model: the model; it has at least `parts` layers.
        parts: number of chunks.
        seconds: time of each layer.
    """
    blocks = [number for number, layer in enumerate(model.layers) if layer.block is not None]
    if len(blocks) < parts:
        return _balanced(seconds, parts)
    starts = [blocks[-(-part * len(blocks) // parts)] for part in range(1, parts)]
    edges = [0, *starts, len(model.layers)]
    return [tuple(range(low, high)) for low, high in pairwise(edges)]


def _balanced(seconds: Sequence[float], parts: int) -> list[Chunk]:
    low, high = max(seconds), sum(seconds)
    for _ in range(64):
        middle = (low + high) / 2
        if len(_filled(seconds, middle)) <= parts:
            high = middle
        else:
            low = middle
    chunks = _filled(seconds, high)
    while len(chunks) < parts:
        place = max((i for i, c in enumerate(chunks) if len(c) > 1), key=lambda i: sum(seconds[x] for x in chunks[i]))
        whole = chunks[place]
        middle_layer = len(whole) // 2
        chunks[place : place + 1] = [whole[:middle_layer], whole[middle_layer:]]
    return chunks


def _filled(seconds: Sequence[float], limit: float) -> list[Chunk]:
    """Chunks of at most `limit` seconds, each as long as it can be."""
    chunks: list[list[int]] = [[]]
    used = 0.0
    for number, time in enumerate(seconds):
        if chunks[-1] and used + time > limit * (1 + 1e-12):
            chunks.append([])
            used = 0.0
        chunks[-1].append(number)
        used += time
    return [tuple(chunk) for chunk in chunks]
