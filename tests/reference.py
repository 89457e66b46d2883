"""Every plan of a small pipeline workload, written from the definition of the problem and from nothing else.

Two independent halves, both slow and short:

* `tau_resync_memory`, `violations` and `value` score one given plan; `all_plans` yields every feasible one.
* `Optimum` finds the best without listing them: it goes through the stages from the first to the last and keeps, for
  each set of layers that is done and each number of replicas that is left, the Pareto-best endings. Every quantity of
  the objective grows with the choices made, so nothing that it drops could have won.

Sets of layers are bit masks. `replicas` is the sum of the data-parallel degrees of a stage and all later ones; it
decides how many microbatches are in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from piper.workload import Limits, Schedule, Stage, Tmpc, Workload

TOLERANCE = 1e-9
"""Relative, for memory and for equal values."""

Label = tuple[float, ...]


# --- One plan -------------------------------------------------------------------------------------------------------


def in_flight(schedule: Schedule, microbatches: int, d: int, replicas: int) -> int:
    """Microbatches whose activations a stage keeps."""
    published = -(-replicas // d)
    if schedule == "async":
        return published
    per_replica = -(-microbatches // d)
    return per_replica if schedule == "gpipe" else min(per_replica, published)


def tau_resync_memory(workload: Workload, stage: Stage, y: int) -> tuple[float, float, float]:
    """Time of one microbatch on one replica, synchronisation of one microbatch, bytes of one device."""
    d, t = stage.data_parallel, stage.tensor_parallel
    inside = set(stage.layers)
    tmpcs = {v: workload.layers[v].tmpcs[t][choice] for v, choice in zip(stage.layers, stage.choices, strict=True)}
    tau = sum(tmpc.time for tmpc in tmpcs.values())
    tau += 2 * sum(_crossing(workload, inside, tmpcs)) / workload.network.stage_bandwidth
    weights = sum(tmpc.weight_bytes for tmpc in tmpcs.values())
    memory = sum(
        tmpc.memory_per_microbatch * y + tmpc.memory_fixed + tmpc.memory_sharded / d for tmpc in tmpcs.values()
    )
    extra_weights, extra_memory, copies = tie_costs(workload, inside, d, t)
    factor, n = workload.network.resync_factor, workload.microbatches
    resync = factor * (d - 1) * (weights + extra_weights) / (d * n * data_parallel_bandwidth(workload, d, t))
    resync += factor / 2 * copies / (n * workload.network.stage_bandwidth)
    return tau, resync, memory + extra_memory


def data_parallel_bandwidth(workload: Workload, d: int, t: int) -> float:
    network = workload.network
    if network.devices_per_node is not None and d * t > network.devices_per_node:
        return network.data_parallel_bandwidth_between
    return network.data_parallel_bandwidth_within


def tie_costs(workload: Workload, inside: set[int], d: int, t: int) -> tuple[float, float, float]:
    """Of shared weights: bytes to add to ``w``, bytes of memory, bytes that keep the copies equal."""
    weights = memory = copies = 0.0
    for tie in workload.ties:
        here = inside.intersection(tie.layers)
        if t not in tie.costs or not here:
            continue
        cost = tie.costs[t]
        if tie.layers[0] not in inside:
            weights += cost.weight_bytes
            memory += cost.memory_fixed + cost.memory_sharded / d
        if here != set(tie.layers):
            copies += cost.weight_bytes
    return weights, memory, copies


def _crossing(workload: Workload, inside: set[int], tmpcs: dict[int, Tmpc]) -> Iterator[float]:
    """Bytes that cross the border of a stage, forward direction."""
    entering: dict[int, list[tuple[float, float]]] = {}
    leaving: dict[int, list[tuple[float, float]]] = {}
    for number, edge in enumerate(workload.edges):
        if edge.source not in inside and edge.target in inside:
            sync = tmpcs[edge.target].sync_forward[_rank(workload, number, "target")]
            entering.setdefault(edge.source, []).append((edge.bytes, sync))
        if edge.source in inside and edge.target not in inside:
            sync = tmpcs[edge.source].sync_backward[_rank(workload, number, "source")]
            leaving.setdefault(edge.source, []).append((edge.bytes, sync))
    for tensor in [*entering.values(), *leaving.values()]:
        if workload.transfer == "edge":
            yield from (size + sync for size, sync in tensor)
        else:
            yield max(size for size, _ in tensor) + max(sync for _, sync in tensor)


def _rank(workload: Workload, number: int, end: str) -> int:
    """Place of an edge among those that share its source or target."""
    layer = getattr(workload.edges[number], end)
    return sum(getattr(edge, end) == layer for edge in workload.edges[:number])


def value(workload: Workload, schedule: Schedule, stages: Sequence[Stage]) -> float:
    """Time per microbatch."""
    n = workload.microbatches
    parts = []
    for position, stage in enumerate(stages):
        y = in_flight(schedule, n, stage.data_parallel, sum(s.data_parallel for s in stages[position:]))
        tau, resync, _ = tau_resync_memory(workload, stage, y)
        parts.append((stage.data_parallel, tau, resync))
    if schedule == "async":
        return max(tau / d + resync for d, tau, resync in parts)
    total = sum(tau for _, tau, _ in parts)
    pace = max(n / d * tau + (total - tau) for d, tau, _ in parts)
    return (pace + max(n * resync for _, _, resync in parts)) / n


def violations(workload: Workload, limits: Limits, schedule: Schedule, stages: Sequence[Stage]) -> set[str]:
    """The rules that stages break which partition the layers, by the names that the judge gives them."""
    n, node = workload.microbatches, workload.network.devices_per_node
    stage_of = {layer: position for position, stage in enumerate(stages) for layer in stage.layers}
    broken = {
        "edge-backward": any(stage_of[edge.source] > stage_of[edge.target] for edge in workload.edges),
        "devices": sum(s.data_parallel * s.tensor_parallel for s in stages) > workload.devices,
        "replicas": sum(s.data_parallel for s in stages) > n,
        "stages": limits.stages not in (None, len(stages)),
        "max-stages": limits.max_stages is not None and len(stages) > limits.max_stages,
        "pin": any(stage_of[layer] != stage for layer, stage in limits.pins),
        "together": any(len({stage_of[layer] for layer in group}) > 1 for group in limits.together),
        "apart": any(len({stage_of[layer] for layer in group}) < len(group) for group in limits.apart),
        "data-parallel-divides": any(n % s.data_parallel for s in stages),
        "data-parallel": any(limits.data_parallel not in (None, s.data_parallel) for s in stages),
        "max-data-parallel": any(s.data_parallel > (limits.max_data_parallel or s.data_parallel) for s in stages),
        "tensor-parallel": any(limits.tensor_parallel not in (None, s.tensor_parallel) for s in stages),
        "max-tensor-parallel": any(
            s.tensor_parallel > (limits.max_tensor_parallel or s.tensor_parallel) for s in stages
        ),
        "tensor-parallel-in-node": any(node is not None and node % s.tensor_parallel for s in stages),
        "memory": max(memories(workload, schedule, stages)) > usable_memory(workload) * (1 + TOLERANCE),
        "recompute": any(
            choice not in allowed_choices(workload, limits, layer, s.tensor_parallel)
            for s in stages
            for layer, choice in zip(s.layers, s.choices, strict=True)
        ),
    }
    return {rule for rule, is_broken in broken.items() if is_broken}


def memories(workload: Workload, schedule: Schedule, stages: Sequence[Stage]) -> list[float]:
    """Bytes of one device of each stage."""
    found = []
    for position, stage in enumerate(stages):
        replicas = sum(later.data_parallel for later in stages[position:])
        y = in_flight(schedule, workload.microbatches, stage.data_parallel, replicas)
        found.append(tau_resync_memory(workload, stage, y)[2])
    return found


def usable_memory(workload: Workload) -> float:
    return workload.memory_bytes - workload.reserve_bytes


def data_degrees(workload: Workload, limits: Limits) -> list[int]:
    n = workload.microbatches
    allowed = [d for d in range(1, (limits.max_data_parallel or n) + 1) if n % d == 0]
    return [d for d in allowed if limits.data_parallel in (None, d)]


def tensor_degrees(workload: Workload, limits: Limits) -> list[int]:
    known = sorted({t for layer in workload.layers for t in layer.tmpcs})
    return [t for t in known if limits.tensor_parallel in (None, t) and t <= (limits.max_tensor_parallel or t)]


def allowed_choices(workload: Workload, limits: Limits, layer: int, t: int) -> list[int]:
    tmpcs = workload.layers[layer].tmpcs.get(t, ())
    recomputes = [number for number, tmpc in enumerate(tmpcs) if "recomp" in tmpc.id]
    if limits.recompute == "never":
        return [number for number in range(len(tmpcs)) if number not in recomputes]
    if limits.recompute == "always" and recomputes:
        return recomputes
    return list(range(len(tmpcs)))


# --- All plans ------------------------------------------------------------------------------------------------------


def all_plans(workload: Workload, limits: Limits, schedule: Schedule) -> Iterator[list[Stage]]:
    """Every feasible plan: all orders of stages, all degrees, all choices."""
    for split in _splits(workload, 0):
        for stages in _staged(workload, limits, split, workload.devices):
            if not violations(workload, limits, schedule, stages):
                yield stages


def _staged(workload: Workload, limits: Limits, split: list[int], devices: int) -> Iterator[list[Stage]]:
    if not split:
        yield []
        return
    for stage in _stages(workload, limits, split[0]):
        left = devices - stage.data_parallel * stage.tensor_parallel
        if left >= 0:
            for rest in _staged(workload, limits, split[1:], left):
                yield [stage, *rest]


def _splits(workload: Workload, done: int) -> Iterator[list[int]]:
    everything = (1 << len(workload.layers)) - 1
    if done == everything:
        yield []
    for closed in prefixes(workload):
        if closed != done and closed & done == done:
            for rest in _splits(workload, closed):
                yield [closed & ~done, *rest]


def _stages(workload: Workload, limits: Limits, layers: int) -> Iterator[Stage]:
    members = members_of(layers)
    for t in tensor_degrees(workload, limits):
        for choices in product(*(allowed_choices(workload, limits, layer, t) for layer in members)):
            for d in data_degrees(workload, limits):
                yield Stage(members, d, t, choices)


def members_of(layers: int) -> tuple[int, ...]:
    return tuple(layer for layer in range(layers.bit_length()) if layers >> layer & 1)


def prefixes(workload: Workload) -> list[int]:
    """All sets of layers that contain the predecessors of their members."""
    needed = [
        sum({1 << edge.source for edge in workload.edges if edge.target == v}) for v in range(len(workload.layers))
    ]
    found = [0]
    for layers in found:
        for v, before in enumerate(needed):
            larger = layers | 1 << v
            if layers & before == before and larger not in found:
                found.append(larger)
    return found


# --- The best plan --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Best:
    """The optimum; for the asynchronous schedule also the fewest devices, then stages, that reach it."""

    value: float
    devices: int | None
    stages: int | None


def pareto(labels: Iterable[Label]) -> list[Label]:
    """Those that no other one equals or beats in every part."""
    kept: list[Label] = []
    for label in sorted(set(labels)):
        if not any(all(a <= b for a, b in zip(other, label, strict=True)) for other in kept):
            kept.append(label)
    return kept


class Optimum:
    """The best plans of a workload, for every number of devices at once.

    The label of an ending is ``(devices, stages, largest load)`` for the asynchronous schedule, and for the others
    ``(devices, largest (N / d - 1) * tau, sum of tau, largest N * resync)``.
    """

    def __init__(self, workload: Workload, limits: Limits, schedule: Schedule) -> None:
        self.workload, self.limits, self.schedule = workload, limits, schedule
        self.everything = (1 << len(workload.layers)) - 1
        self.closed = prefixes(workload)
        self.degrees = [
            (d, t)
            for d in data_degrees(workload, limits)
            for t in tensor_degrees(workload, limits)
            if d * t <= workload.devices and (workload.network.devices_per_node or t) % t == 0
        ]
        self.counts_stages = bool(limits.stages or limits.max_stages or limits.pins)
        self._endings: Callable[[int, int, int], list[Label]] = cache(self._compute_endings)
        self._options: Callable[[int, int, int, int], list[Label]] = cache(self._compute_options)

    def labels(self) -> list[Label]:
        """Labels of all plans that are best in some respect."""
        most = min(self.workload.devices, self.workload.microbatches)
        return pareto(label for replicas in range(1, most + 1) for label in self._endings(0, 0, replicas))

    def frontier(self) -> dict[int, float]:
        """Best value at most by number of devices; devices that no plan fits are missing."""
        worth = [(int(label[0]), self._value(label)) for label in self.labels()]
        best = {
            k: min((v for used, v in worth if used <= k), default=None) for k in range(1, self.workload.devices + 1)
        }
        return {k: v for k, v in best.items() if v is not None}

    def best(self) -> Best | None:
        """The optimum; None when there is no plan."""
        labels = self.labels()
        if not labels:
            return None
        least = min(self._value(label) for label in labels)
        optimal = [label for label in labels if self._value(label) <= least * (1 + TOLERANCE)]
        if self.schedule != "async":
            return Best(least, None, None)
        devices, stages = min((int(label[0]), int(label[1])) for label in optimal)
        return Best(least, devices, stages)

    def _value(self, label: Label) -> float:
        if self.schedule == "async":
            return label[2]
        _, slowest, total, resync = label
        return (slowest + total + resync) / self.workload.microbatches

    def _compute_endings(self, done: int, position: int, replicas: int) -> list[Label]:
        """Best ways to run what is not done on exactly `replicas` replicas; the next stage has number `position`."""
        if done == self.everything:
            fits = replicas == 0 and (not self.counts_stages or self.limits.stages in (None, position))
            return [(0, 0, 0.0) if self.schedule == "async" else (0, 0.0, 0.0, 0.0)] * fits
        if self.limits.max_stages is not None and position >= self.limits.max_stages:
            return []
        after = position + self.counts_stages
        found: list[Label] = []
        for closed in self.closed:
            layers = closed & ~done
            if closed & done != done or not layers or not self._allowed(layers, position):
                continue
            for d, t in self.degrees:
                endings = self._endings(closed, after, replicas - d) if d <= replicas else []
                if endings:
                    y = in_flight(self.schedule, self.workload.microbatches, d, replicas)
                    found += [
                        self._joined(d, t, option, ending)
                        for option in self._options(layers, d, t, y)
                        for ending in endings
                        if ending[0] + d * t <= self.workload.devices
                    ]
        return pareto(found)

    def _joined(self, d: int, t: int, option: Label, ending: Label) -> Label:
        tau, resync = option
        devices, n = ending[0] + d * t, self.workload.microbatches
        if self.schedule == "async":
            return (devices, ending[1] + 1, max(ending[2], tau / d + resync))
        return (devices, max(ending[1], (n / d - 1) * tau), ending[2] + tau, max(ending[3], n * resync))

    def _allowed(self, layers: int, position: int) -> bool:
        for layer, stage in self.limits.pins:
            if (layers >> layer & 1) != (stage == position):
                return False
        for group in self.limits.together:
            if sum(layers >> layer & 1 for layer in group) not in (0, len(group)):
                return False
        return all(sum(layers >> layer & 1 for layer in group) <= 1 for group in self.limits.apart)

    def _compute_options(self, layers: int, d: int, t: int, y: int) -> list[Label]:
        """Pareto-best ``(tau, resync)`` of a stage over the choices that its memory allows."""
        room = usable_memory(self.workload) * (1 + TOLERANCE)
        return pareto((tau, resync) for tau, resync, memory in self.choices(layers, d, t, y) if memory <= room)

    def choices(self, layers: int, d: int, t: int, y: int) -> list[Label]:
        """Pareto-best ``(tau, resync, memory)`` of a stage, whatever memory there is.

        Layer by layer. Where a tensor enters once for all its consumers, the largest synchronisation so far of each
        tensor is part of what is compared.
        """
        workload, inside = self.workload, set(members_of(layers))
        once = workload.transfer == "tensor"
        sources = sorted({e.source for e in workload.edges if e.target in inside and e.source not in inside})
        bandwidth, n = workload.network.stage_bandwidth, workload.microbatches
        weights, memory, copies = tie_costs(workload, inside, d, t)
        factor = workload.network.resync_factor
        per_weight = factor * (d - 1) / (d * n * data_parallel_bandwidth(workload, d, t))
        tau = 2 * self._tensor_bytes(inside) / bandwidth
        start = (tau, per_weight * weights + factor / 2 * copies / (n * bandwidth), memory)
        labels: list[Label] = [start + (0.0,) * len(sources) * once]
        for layer in sorted(inside):
            ins = [
                (i, e.source) for i, e in enumerate(workload.edges) if e.target == layer and e.source not in inside
            ]
            outs = [i for i, e in enumerate(workload.edges) if e.source == layer and e.target not in inside]
            grown: list[Label] = []
            for choice in allowed_choices(workload, self.limits, layer, t):
                tmpc = workload.layers[layer].tmpcs[t][choice]
                entering = [(u, tmpc.sync_forward[_rank(workload, i, "target")]) for i, u in ins]
                leaving = [tmpc.sync_backward[_rank(workload, i, "source")] for i in outs]
                sync = max(leaving, default=0.0) if once else sum(leaving) + sum(size for _, size in entering)
                more = (
                    tmpc.time + 2 * sync / bandwidth,
                    per_weight * tmpc.weight_bytes,
                    tmpc.memory_per_microbatch * y + tmpc.memory_fixed + tmpc.memory_sharded / d,
                )
                largest = tuple(max((size for u, size in entering if u == source), default=0.0) for source in sources)
                for label in labels:
                    summed = tuple(a + b for a, b in zip(label[:3], more, strict=True))
                    grown.append(summed + (tuple(map(max, label[3:], largest)) if once else ()))
            labels = pareto(grown)
        return pareto((label[0] + 2 * sum(label[3:]) / bandwidth, label[1], label[2]) for label in labels)

    def _tensor_bytes(self, inside: set[int]) -> float:
        """Bytes of activations that cross the border, whatever the choices."""
        crossing = [e for e in self.workload.edges if (e.source in inside) != (e.target in inside)]
        if self.workload.transfer == "edge":
            return sum(e.bytes for e in crossing)
        return sum(max(e.bytes for e in crossing if e.source == u) for u in {e.source for e in crossing})
