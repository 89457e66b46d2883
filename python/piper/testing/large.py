"""Large instances by size, for benchmarks: numbers like those of transformers and convolutional networks."""

from __future__ import annotations

from piper.testing.graphs import random_edges
from piper.testing.source import Source
from piper.workload import Edge, Layer, Network, Tmpc, Workload

_GIB = float(2**30)
_MIB = float(2**20)


def large_workload(
    source: Source,
    layers: int,
    *,
    shape: str = "chain",
    kinds: int = 4,
    max_degree: int = 8,
    devices: int = 64,
    microbatches: int = 512,
    memory_bytes: float = 16 * _GIB,
    bandwidth: float = 25 * _GIB,
) -> Workload:
    """Draw a workload of any size in which most layers repeat a few kinds.

    Times are seconds: a few milliseconds a layer, divided by the degree at a loss; activations are tens of MiB,
    weights tens to hundreds.

    Args:
        source: makes the choices.
        layers: number of layers.
        shape: a key of `piper.testing.SHAPES`. The number of downsets grows with the width of the graph: linearly
            with the layers for ``chain``, quickly for ``series_parallel``.
        kinds: number of different layers.
        max_degree: largest tensor-parallel degree; all powers of two up to it are possible.
        devices: number of devices.
        microbatches: microbatches in a batch.
        memory_bytes: bytes of one device.
        bandwidth: bytes per second of one device, on every link.
    """
    pairs = random_edges(source, layers, shape=shape)
    models = [_Kind(source) for _ in range(kinds)]
    of_layer = [source.choose(models) for _ in range(layers)]
    made: list[Layer] = []
    for layer, kind in enumerate(of_layer):
        ins, outs = sum(v == layer for _, v in pairs), sum(u == layer for u, _ in pairs)
        degrees = [1 << power for power in range(max_degree.bit_length())]
        made.append(Layer(layer, f"layer {layer}", {t: kind.tmpcs(t, ins, outs) for t in degrees}))
    return Workload(
        name=f"{shape} {layers}",
        layers=tuple(made),
        edges=tuple(Edge(u, v, of_layer[u].activation) for u, v in pairs),
        devices=devices,
        memory_bytes=memory_bytes,
        microbatches=microbatches,
        network=Network(bandwidth, bandwidth, bandwidth),
        time_unit="s",
    )


class _Kind:
    """A layer that the workload repeats."""

    def __init__(self, source: Source) -> None:
        self.time = source.real(1e-3, 8e-3)
        self.activation = source.real(4, 32) * _MIB
        self.saved = source.real(2, 8) * self.activation
        self.weights = source.real(16, 256) * _MIB

    def tmpcs(self, t: int, ins: int, outs: int) -> tuple[Tmpc, ...]:
        """With all activations kept, and with only the input kept and the forward pass (a third) done twice."""
        time = self.time * (1 / t + 0.05 * (t > 1))
        exchanged = self.activation * (t - 1) / t
        sync = ((exchanged,) * ins, (exchanged,) * outs)
        weights = self.weights / t
        kept = Tmpc("vanilla", time, weights, self.saved / t, 4 * weights, 0.0, *sync)
        again = Tmpc("recomp", time * 4 / 3, weights, self.activation, 4 * weights + self.saved / t, 0.0, *sync)
        return (kept, again)
