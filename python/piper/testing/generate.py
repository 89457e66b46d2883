"""Random small instances of the pipeline-planning problem, made to be hard for a solver rather than realistic.

They mix what real workloads keep apart: many equal values, layers without some degree, alternatives that differ in
every number, memory from far too little to plenty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from piper.testing.graphs import Edges, random_edges
from piper.testing.permute import permuted
from piper.testing.source import Source
from piper.workload import Edge, Layer, Limits, Network, Recompute, Stage, Tie, TieCost, Tmpc, Transfer, Workload

DEGREES = (1, 2, 3, 4, 8)
"""Tensor-parallel degrees that layers may have."""
_NAMES = ("vanilla", "recomp", "offload", "selective recomp")
_NODE_SIZES = (1, 2, 3, 4, 6, 8)


@dataclass(frozen=True, slots=True)
class _Style:
    """What all numbers of one instance have in common."""

    whole: bool
    """Small whole numbers, so that sums coincide; otherwise any numbers."""
    close: bool
    """Whole numbers are a little off, so that many values lie close together without being equal: apart by parts of a
    million, which is far more than the tolerance of 1e-9 within which values count as equal."""
    uniform: bool
    """The alternatives of a layer and degree differ in time and memory only, as recomputation variants do."""
    synchronised: bool
    """Whether tensor-parallel groups exchange anything at stage boundaries."""
    sharded: bool
    """Whether some memory is shared out over the replicas."""

    def amount(self, source: Source, high: int) -> float:
        """Draw a number from 0 to `high`."""
        if self.whole or high == 0:
            return source.integer(0, high) * (1 + source.integer(0, 9) * 1e-6 * self.close)
        return 0.0 if source.chance(10) else source.real(0.01, high)

    def amounts(self, source: Source, count: int, high: int) -> tuple[float, ...]:
        """Draw several numbers from 0 to `high`."""
        return tuple(self.amount(source, high) for _ in range(count))


def random_workload(
    source: Source,
    *,
    max_layers: int = 8,
    max_devices: int = 8,
    max_microbatches: int = 12,
    max_tmpcs: int = 4,
    transfer: Transfer | None = None,
    shape: str | None = None,
) -> Workload:
    """Draw a small workload with layers numbered in any order.

    Args:
        source: makes the choices.
        max_layers: largest number of layers.
        max_devices: largest number of devices.
        max_microbatches: largest number of microbatches in a batch.
        max_tmpcs: largest number of alternatives for one layer and degree.
        transfer: how tensors with several consumers are counted; None leaves it to `source`.
        shape: a key of `piper.testing.SHAPES`; None leaves it to `source`.
    """
    style = _Style(
        whole=source.chance(60),
        close=source.chance(25),
        uniform=source.chance(50),
        synchronised=source.chance(60),
        sharded=source.chance(30),
    )
    count = source.integer(1, max_layers)
    pairs = random_edges(source, count, shape=shape)
    transfer = transfer or ("tensor" if source.chance(30) else "edge")
    layers = _layers(source, style, count, pairs, max_tmpcs)
    if transfer == "tensor":
        layers = tuple(_synchronising_alike(layer) for layer in layers)
    ties = _ties(source, style, count) if count > 1 and source.chance(25) else ()
    microbatches = _mostly_large(source, max_microbatches)
    memory = _memory(source, style, layers)
    workload = Workload(
        name="random",
        layers=layers,
        edges=_edges(source, style, pairs, transfer),
        devices=_mostly_large(source, max_devices),
        memory_bytes=memory,
        microbatches=microbatches,
        network=_network(source, style),
        reserve_bytes=source.choose((1.0, 0.125, 0.25)) * memory / 2 if memory and source.chance(15) else 0.0,
        transfer=transfer,
        ties=ties,
    )
    return permuted(workload, source.shuffled(range(count))) if source.chance(60) else workload


def random_limits(source: Source, workload: Workload) -> Limits:
    """Draw restrictions for a workload; most are absent, and together they may well rule out every plan."""
    count = len(workload.layers)
    return Limits(
        max_data_parallel=source.integer(1, 4) if source.chance(15) else None,
        max_tensor_parallel=source.choose(DEGREES) if source.chance(15) else None,
        data_parallel=source.integer(1, 3) if source.chance(8) else None,
        tensor_parallel=source.choose(DEGREES[:4]) if source.chance(8) else None,
        stages=source.integer(1, min(4, count)) if source.chance(12) else None,
        max_stages=source.integer(1, 4) if source.chance(12) else None,
        recompute=_recompute(source),
        pins=tuple(_pins(source, count)) if source.chance(20) else (),
        together=tuple(_groups(source, count)) if source.chance(20) else (),
        apart=tuple(_groups(source, count)) if source.chance(20) else (),
    )


def random_plan(source: Source, workload: Workload) -> tuple[Stage, ...]:
    """Draw stages over the layers of a workload along a topological order; they may well break other rules.

    Each layer is in one stage and each alternative exists, so the plan has a well-defined score. There is no stage
    when layers that were put together have no degree in common.
    """
    order = _random_order(source, workload)
    stages: list[Stage] = []
    while order:
        size = source.integer(1, len(order))
        members, order = sorted(order[:size]), order[size:]
        shared = set(DEGREES).intersection(*(workload.layers[layer].tmpcs for layer in members))
        if not shared:
            return ()
        t = source.choose(sorted(shared))
        choices = tuple(source.integer(0, len(workload.layers[layer].tmpcs[t]) - 1) for layer in members)
        stages.append(Stage(tuple(members), source.integer(1, 4), t, choices))
    return tuple(stages)


def _random_order(source: Source, workload: Workload) -> list[int]:
    """Draw a random topological order."""
    missing = [0] * len(workload.layers)
    for edge in workload.edges:
        missing[edge.target] += 1
    free = [layer for layer, count in enumerate(missing) if count == 0]
    order: list[int] = []
    while free:
        order.append(free.pop(source.integer(0, len(free) - 1)))
        for edge in workload.edges:
            if edge.source == order[-1]:
                missing[edge.target] -= 1
                if missing[edge.target] == 0:
                    free.append(edge.target)
    return order


def _layers(source: Source, style: _Style, count: int, pairs: Edges, max_tmpcs: int) -> tuple[Layer, ...]:
    degrees = source.sample(DEGREES[:4], source.integer(1, 3))
    if source.chance(10):
        degrees.append(8)
    if source.chance(80) and 1 not in degrees:
        degrees.append(1)
    made: list[Layer] = []
    kinds: dict[tuple[int, int], Layer] = {}
    for layer in range(count):
        shape = (sum(v == layer for _, v in pairs), sum(u == layer for u, _ in pairs))
        if shape in kinds and source.chance(40):  # equal layers, as the blocks of a network are
            made.append(replace(kinds[shape], id=layer, name=f"layer {layer}"))
            continue
        kept = [t for t in sorted(degrees) if not source.chance(5)]
        tmpcs = {t: _tmpcs(source, style, t, *shape, count=source.integer(1, max_tmpcs)) for t in kept}
        kinds[shape] = Layer(layer, f"layer {layer}", tmpcs)
        made.append(kinds[shape])
    return tuple(made)


def _tmpcs(source: Source, style: _Style, t: int, ins: int, outs: int, *, count: int) -> tuple[Tmpc, ...]:
    """Draw the alternatives for one degree; larger degrees are mostly a little faster."""
    made: list[Tmpc] = []
    for number in range(count):
        same = made[0] if made and style.uniform else None
        sync = 6 if style.synchronised and (t > 1 or source.chance(20)) else 0
        made.append(
            Tmpc(
                id=_NAMES[number] if number < len(_NAMES) else f"variant {number}",
                time=style.amount(source, 12 if t == 1 or source.chance(20) else 8),
                weight_bytes=same.weight_bytes if same else style.amount(source, 8),
                memory_per_microbatch=style.amount(source, 6),
                memory_fixed=style.amount(source, 9),
                memory_sharded=style.amount(source, 9) if style.sharded else 0.0,
                sync_forward=same.sync_forward if same else style.amounts(source, ins, sync),
                sync_backward=same.sync_backward if same else style.amounts(source, outs, sync),
            )
        )
    return tuple(made)


def _synchronising_alike(layer: Layer) -> Layer:
    """Give all alternatives of a degree the synchronisation lists of the first: a tensor is synchronised once."""
    return replace(
        layer,
        tmpcs={
            t: tuple(replace(c, sync_forward=cs[0].sync_forward, sync_backward=cs[0].sync_backward) for c in cs)
            for t, cs in layer.tmpcs.items()
        },
    )


def _edges(source: Source, style: _Style, pairs: Edges, transfer: Transfer) -> tuple[Edge, ...]:
    """All edges out of one layer carry the same bytes where they are the same tensor."""
    tensor: dict[int, float] = {}
    edges: list[Edge] = []
    for u, v in pairs:
        size = tensor[u] if transfer == "tensor" and u in tensor else style.amount(source, 9)
        tensor[u] = size
        edges.append(Edge(u, v, size))
    return tuple(edges)


def _network(source: Source, style: _Style) -> Network:
    levels = source.chance(35)
    bandwidth = (
        float(source.choose((1, 4, 32, 1000, 10**6))) if style.whole else source.real(0.5, source.choose((10, 300)))
    )
    within = bandwidth * source.choose((1.0, 4.0)) if levels else bandwidth
    between = bandwidth * source.choose((1.0, 0.5)) if levels else bandwidth
    return Network(
        stage_bandwidth=bandwidth,
        data_parallel_bandwidth_within=within,
        data_parallel_bandwidth_between=between,
        devices_per_node=source.choose(_NODE_SIZES) if levels else None,
        resync_factor=source.choose((4.0, 2.0)),
    )


def _ties(source: Source, style: _Style, count: int) -> tuple[Tie, ...]:
    ties: list[Tie] = []
    for _ in range(source.integer(1, 2)):
        layers = source.sample(range(count), source.integer(2, min(3, count)))
        costs = {t: TieCost(*style.amounts(source, 3, 6)) for t in source.subset(DEGREES, 80)}
        ties.append(Tie(tuple(layers), costs))
    return tuple(ties)


def _memory(source: Source, style: _Style, layers: Sequence[Layer]) -> float:
    """From too little for any layer to enough for all of them in one stage."""
    in_flight = source.integer(1, 3)
    total = 1.0
    for layer in layers:
        tmpcs = [tmpc for each in layer.tmpcs.values() for tmpc in each]
        needs = [tmpc.memory_per_microbatch * in_flight + tmpc.memory_fixed + tmpc.memory_sharded for tmpc in tmpcs]
        total += max(needs, default=0.0)
    memory = total * source.integer(2, 20) / 15
    return float(int(memory)) if style.whole and not style.close else memory


def _mostly_large(source: Source, high: int) -> int:
    return max(source.integer(1, high), source.integer(1, high))


def _recompute(source: Source) -> Recompute:
    options: tuple[Recompute, ...] = ("auto", "auto", "auto", "never", "always")
    return source.choose(options)


def _pins(source: Source, count: int) -> list[tuple[int, int]]:
    layers = source.sample(range(count), source.integer(1, min(2, count)))
    return [(layer, source.integer(0, min(2, count - 1))) for layer in layers]


def _groups(source: Source, count: int) -> list[tuple[int, ...]]:
    if count < 2:
        return []
    sizes = [source.integer(2, min(3, count)) for _ in range(source.integer(1, 2))]
    return [tuple(source.sample(range(count), size)) for size in sizes]
