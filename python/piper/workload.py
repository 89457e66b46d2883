"""The numbers that a pipeline planner needs: layers with their costs, devices, links, restrictions.

A workload is what is left of a model and a cluster once every cost is known. The solver and the judge see nothing
else. The problem is that of Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN
Parallelization", NeurIPS 2021, section 3; the letters in the docstrings are the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Recompute = Literal["auto", "never", "always"]
Schedule = Literal["async", "gpipe", "1f1b"]
Transfer = Literal["edge", "tensor"]


@dataclass(frozen=True, slots=True)
class Tmpc:
    """One way to run a layer on ``t`` devices: a time-memory-parallelism configuration."""

    id: str
    """Name, such as ``vanilla`` or ``activation recomp``; one that contains ``recomp`` recomputes activations."""
    time: float
    """``p``: time of one microbatch, forward and backward, in the unit of the workload."""
    weight_bytes: float
    """``w``: bytes that one device sends around to synchronise data-parallel replicas."""
    memory_per_microbatch: float
    """``a``: bytes for each microbatch in flight."""
    memory_fixed: float
    """``b``: bytes whatever is in flight."""
    memory_sharded: float
    """``o``: bytes shared out over the data-parallel replicas; 0 in the published workloads."""
    sync_forward: tuple[float, ...]
    """``cfw``: for each edge into the layer, in the order of `Workload.edges`, bytes exchanged when it is cut."""
    sync_backward: tuple[float, ...]
    """``cbw``: the same for each edge out of the layer."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer with its alternatives."""

    id: int
    """Number of the layer in the file or model it came from; results use it."""
    name: str
    tmpcs: Mapping[int, tuple[Tmpc, ...]]
    """Tensor-parallel degree to the alternatives on that many devices. A degree that is missing is not possible."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that one layer sends to another; `source` and `target` are positions in `Workload.layers`."""

    source: int
    target: int
    bytes: float
    """``c``: bytes of one microbatch."""


@dataclass(frozen=True, slots=True)
class Network:
    """Links of one device, in bytes per unit of the workload's time."""

    stage_bandwidth: float
    """``B`` of transfers between stages."""
    data_parallel_bandwidth_within: float
    """Of a data-parallel group inside one node."""
    data_parallel_bandwidth_between: float
    """Of a data-parallel group that spans nodes."""
    devices_per_node: int | None = None
    """A group spans nodes when ``d * t`` is larger; ``t`` must divide it. None: one level, any ``t``."""
    resync_factor: float = 4.0
    """``f`` in ``f * (d - 1) / d * w / (N * B)``: 4 as published, 2 for a ring all-reduce."""


@dataclass(frozen=True, slots=True)
class TieCost:
    """What a second copy of shared weights costs, bytes per device at one tensor-parallel degree."""

    weight_bytes: float
    memory_fixed: float
    memory_sharded: float


@dataclass(frozen=True, slots=True)
class Tie:
    """Layers that use the same weights; the first owns them and its own TMPCs pay for one copy."""

    layers: tuple[int, ...]
    """Positions in `Workload.layers`."""
    costs: Mapping[int, TieCost]


@dataclass(frozen=True, slots=True)
class Workload:
    """A pipeline-planning problem without the user's restrictions."""

    name: str
    layers: tuple[Layer, ...]
    edges: tuple[Edge, ...]
    devices: int
    """``K``."""
    memory_bytes: float
    """``M``: bytes of one device."""
    microbatches: int
    """``N``: microbatches in a batch."""
    network: Network
    reserve_bytes: float = 0.0
    """Part of `memory_bytes` that no plan may use."""
    transfer: Transfer = "edge"
    """Whether a tensor with several consumers is paid for on each edge, or once a stage that it enters or leaves."""
    ties: tuple[Tie, ...] = ()
    time_unit: Literal["s"] | None = None
    """Unit of all times; None where a published file does not say."""
    samples_per_microbatch: int | None = None
    """Sequences or images in one microbatch, where known."""
    tokens_per_microbatch: int | None = None
    flops_per_microbatch: float | None = None
    """Model FLOPs, forward and backward, without recomputation."""
    peak_flops_per_device: float | None = None
    """Peak rate of one device for the type that the matrix multiplications run in, FLOP/s."""
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In a few words; `piper.inspect` tells all."""
        return f"{self.name}: {len(self.layers)} layers, {len(self.edges)} edges"


@dataclass(frozen=True, slots=True)
class Limits:
    """Restrictions on plans; everything is open by default. Layers are positions in `Workload.layers`."""

    max_data_parallel: int | None = None
    max_tensor_parallel: int | None = None
    data_parallel: int | None = None
    """The one degree that every stage must have."""
    tensor_parallel: int | None = None
    """The one degree that every stage must have."""
    stages: int | None = None
    """Exact number of stages."""
    max_stages: int | None = None
    recompute: Recompute = "auto"
    pins: tuple[tuple[int, int], ...] = ()
    """``(layer, stage)``, stages counted from 0 at the input."""
    together: tuple[tuple[int, ...], ...] = ()
    """Layers of one group are in one stage."""
    apart: tuple[tuple[int, ...], ...] = ()
    """No two layers of one group are in one stage."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a plan, as the solver returns it and the judge takes it."""

    layers: tuple[int, ...]
    """Positions in `Workload.layers`, increasing."""
    data_parallel: int
    tensor_parallel: int
    choices: tuple[int, ...]
    """For each layer the position of its TMPC in the layer's list for the stage's tensor-parallel degree."""
