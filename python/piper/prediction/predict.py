"""From a configuration to its iteration time and memory."""

from __future__ import annotations

from collections.abc import Sequence

from piper.costs.cluster import Cluster
from piper.costs.costing import ModelCosts
from piper.costs.layer import LayerCost, Machine, Variant
from piper.costs.optimizer import optimizer_seconds
from piper.costs.parameters import ParameterBytes
from piper.costs.workload import RESERVE, matmul_dtype, rate_warnings
from piper.errors import InputError
from piper.model import Model
from piper.planning.resize import resized
from piper.prediction.arrange import arrangements
from piper.prediction.chunks import Chunk, cut, divisible
from piper.prediction.configuration import Arrangement, Configuration
from piper.prediction.links import Links
from piper.prediction.result import PredictedStage, Prediction, StageMemory
from piper.prediction.schedules import bubble, in_flight
from piper.profiles import Measurements


def predict(
    model: Model,
    configuration: Configuration,
    cluster: Cluster,
    *,
    reserve: float | None = None,
    measured: Measurements | None = None,
) -> Prediction:
    """Predict a training run.

    Where the configuration leaves microbatch size or schedule open, the fastest arrangement that fits into the memory
    is taken; if none fits, the one that needs the least memory.

    Args:
        model: what is trained.
        configuration: degrees, batch, schedule and memory options.
        cluster: the devices and their links.
        reserve: bytes of each device to keep free; 6 % by default.
        measured: times of operators, which go before modelled ones.

    Raises:
        InputError: the configuration does not go with the model or the cluster.
    """
    kept_free = RESERVE * cluster.memory_bytes if reserve is None else reserve
    best: Prediction | None = None
    known: dict[int, _Sized] = {}
    for arrangement in arrangements(configuration, cluster, divisible(model, configuration.pipeline)):
        size = arrangement.microbatch_size
        if size not in known:
            known[size] = _Sized(model, configuration, cluster, size, measured)
        found = _predicted(known[size], configuration, cluster, arrangement, kept_free)
        if best is None or _rank(found) < _rank(best):
            best = found
    if best is None:
        raise InputError("the configuration leaves nothing to try")
    return best


def _rank(prediction: Prediction) -> tuple[bool, float]:
    fits = prediction.feasible
    return (not fits, prediction.iteration_time if fits else prediction.peak_memory)


class _Sized:
    """A model with one microbatch size, costed at one degree."""

    def __init__(
        self,
        model: Model,
        configuration: Configuration,
        cluster: Cluster,
        size: int,
        measured: Measurements | None,
    ) -> None:
        degree = configuration.tensor_parallel
        self.model = resized(model, size)
        self.machine = Machine(cluster.spec, configuration.training)
        times = None if measured is None else measured.at(size)
        self.warnings = measured.warnings if measured else ()
        costs = ModelCosts(self.model, self.machine, cluster.devices_per_node, degree, times)
        self.costs = [self._at(costs, number, degree) for number in range(len(self.model.layers))]
        self.variants = self._variants(configuration.recompute)
        self.tied = {users: sizes[degree] for users, sizes in costs.tied().items()}
        # Bytes that cross the border before each layer, each tensor once.
        self.crossing = self._crossing()

    def _at(self, costs: ModelCosts, number: int, degree: int) -> LayerCost:
        found = costs.at(number)
        if degree not in found:
            possible = ", ".join(map(str, sorted(found)))
            raise InputError(
                f"{self.model.name}: tensor_parallel is {degree}, which does not divide layer "
                f"{self.model.layers[number].name!r}; expected one of {possible}"
            )
        return found[degree]

    def _variants(self, wanted: Variant) -> list[Variant]:
        """Repeated blocks recompute; where there are none, every layer does."""
        blocks = any(layer.block is not None for layer in self.model.layers)
        return [
            cost.best_variant(wanted) if layer.block is not None or not blocks else "none"
            for layer, cost in zip(self.model.layers, self.costs, strict=True)
        ]

    def _crossing(self) -> list[float]:
        last: dict[int, tuple[int, int]] = {}
        for edge in self.model.edges:
            target, size = last.get(edge.source, (edge.source, 0))
            last[edge.source] = max(target, edge.target), max(size, edge.bytes)
        change = [0.0] * (len(self.model.layers) + 1)
        for source, (target, size) in last.items():
            change[source + 1] += size
            change[target + 1] -= size
        crossing, current = [], 0.0
        for step in change[:-1]:
            current += step
            crossing.append(max(current, 0.0))
        return crossing

    def seconds(self, number: int) -> float:
        """Forward and backward time of a layer with its recomputation."""
        cost = self.costs[number]
        return cost.forward + cost.backward + cost.recomputation(self.variants[number])

    def repeated_flops(self) -> float:
        """FLOPs of the whole model that are done once more, all devices of a group together."""
        total = 0
        for layer, variant in zip(self.model.layers, self.variants, strict=True):
            operators = [self.model.operators[position] for position in layer.operators]
            if variant != "none":
                total += sum(item.flops for item in operators if variant == "full" or item.selective)
        return float(total)


def _predicted(
    sized: _Sized, configuration: Configuration, cluster: Cluster, arrangement: Arrangement, reserve: float
) -> Prediction:
    times = [sized.seconds(number) for number in range(len(sized.costs))]
    chunks = cut(sized.model, arrangement.pipeline * arrangement.virtual_stages, times)
    stage_chunks = [chunks[stage :: arrangement.pipeline] for stage in range(arrangement.pipeline)]
    links = Links(cluster)
    stages = tuple(
        _stage(sized, configuration, arrangement, links, number, parts, reserve)
        for number, parts in enumerate(stage_chunks)
    )
    loads = [stage.load for stage in stages]
    waiting = bubble(arrangement, loads)
    copies = _sums_of_copies(sized, stage_chunks, links)
    last = max(stage.resync + stage.optimizer for stage in stages)
    seconds = arrangement.microbatches * max(loads) + waiting + copies + last
    model = sized.model
    runs = arrangement.microbatches * arrangement.data_parallel
    flops = 3.0 * model.flops * runs
    again = sized.repeated_flops() * runs
    peak = sized.machine.device.peak(matmul_dtype(model))
    rate = 1 / seconds if seconds > 0 else 0.0
    return Prediction(
        name=model.name,
        configuration=configuration,
        arrangement=arrangement,
        iteration_time=seconds,
        tflops_per_device=(flops + again) * rate / arrangement.devices / 1e12,
        mfu=flops * rate / arrangement.devices / peak,
        samples_per_second=arrangement.global_batch * rate,
        tokens_per_second=None if model.tokens is None else model.tokens * runs * rate,
        bubble=waiting,
        stages=stages,
        memory_bytes=cluster.memory_bytes,
        warnings=(*model.warnings, *rate_warnings(model, cluster), *sized.warnings),
    )


def _stage(
    sized: _Sized,
    configuration: Configuration,
    arrangement: Arrangement,
    links: Links,
    number: int,
    chunks: Sequence[Chunk],
    reserve: float,
) -> PredictedStage:
    layers = [layer for chunk in chunks for layer in chunk]
    costs = [sized.costs[layer] for layer in layers]
    parameters = _held(sized, layers)
    backward = sum(
        cost.backward + cost.recomputation(sized.variants[x]) for x, cost in zip(layers, costs, strict=True)
    )
    replicas = arrangement.data_parallel
    resync = links.sum_over_replicas(parameters.gradient, replicas, arrangement.tensor_parallel)
    if configuration.overlap_data_parallel and replicas > 1:
        # The gradients of the layer that comes last have nothing to hide behind.
        resync = max(resync / len(layers), resync - backward)
    sharing = replicas if configuration.optimizer_sharding else 1
    held = in_flight(arrangement, number)
    return PredictedStage(
        layers=tuple(sized.model.layers[layer].name for layer in layers),
        forward=sum(cost.forward for cost in costs),
        backward=backward,
        transfer=sum(_transfer(sized, configuration, links, chunk) for chunk in chunks),
        resync=resync,
        optimizer=optimizer_seconds(parameters, sized.machine.device, sharing),
        in_flight=held,
        memory=StageMemory(
            weights=parameters.weight,
            gradients=parameters.gradient,
            optimizer=parameters.optimizer / sharing,
            activations=_activations(sized, layers, held),
            reserve=reserve,
        ),
    )


def _transfer(sized: _Sized, configuration: Configuration, links: Links, chunk: Chunk) -> float:
    """Seconds of a microbatch: activations one way, gradients the other, both links of a stage at the same time."""
    sizes = [sized.crossing[chunk[0]]]
    if chunk[-1] + 1 < len(sized.crossing):
        sizes.append(sized.crossing[chunk[-1] + 1])
    divided = configuration.sequence_parallel
    return 2 * max(links.hop(size, configuration.tensor_parallel, divided=divided) for size in sizes)


def _activations(sized: _Sized, layers: Sequence[int], held: float) -> float:
    """Bytes in flight, and what the largest layer has while it is recomputed."""
    pairs = [(sized.costs[layer], sized.variants[layer]) for layer in layers]
    kept = sum(cost.in_flight(variant) for cost, variant in pairs)
    return held * kept + max(cost.transient(variant) for cost, variant in pairs)


def _held(sized: _Sized, layers: Sequence[int]) -> ParameterBytes:
    """Parameters of a stage; of shared weights that another stage owns, a copy."""
    own = set(layers)
    total = sum((sized.costs[layer].parameters for layer in layers), ParameterBytes())
    for users, size in sized.tied.items():
        if users[0] not in own and own.intersection(users):
            total += size
    return total


def _sums_of_copies(sized: _Sized, stage_chunks: Sequence[Sequence[Chunk]], links: Links) -> float:
    """Seconds to sum the gradients of weights that several stages have."""
    owner = {layer: stage for stage, chunks in enumerate(stage_chunks) for chunk in chunks for layer in chunk}
    return sum(
        links.sum_over_stages(size.gradient, len({owner[user] for user in users}))
        for users, size in sized.tied.items()
    )
