"""Pipeline schedules: how many microbatches are in flight, and what filling and draining costs.

GPipe is that of Huang et al., 2019; 1F1B and its interleaved form are those of Narayanan et al., "Efficient
Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, section 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from piper.prediction.configuration import Arrangement


def in_flight(arrangement: Arrangement, stage: int) -> float:
    """Microbatches whose activations a stage holds at once; one that only some of its layers hold counts in part."""
    count, stages, parts = arrangement.microbatches, arrangement.pipeline, arrangement.virtual_stages
    if arrangement.schedule == "gpipe":
        return float(count)
    if parts == 1:
        return float(min(count, stages - stage))
    ahead = 2 * (stages - stage - 1) + (parts - 1) * stages + 1
    return min(count * parts, ahead) / parts


def bubble(arrangement: Arrangement, loads: Sequence[float]) -> float:
    """Seconds in which the slowest stage waits: one microbatch on every other stage, or of its share of layers."""
    return (sum(loads) - max(loads)) / arrangement.virtual_stages
