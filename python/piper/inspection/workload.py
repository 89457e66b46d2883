"""What a workload file says: layers with their measured costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from piper.workload import Layer, Tmpc, Workload

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, slots=True)
class WorkloadInspection:
    """A workload, shown as it is."""

    workload: Workload
    cluster_known: bool = True
    """Whether devices, memory, bandwidth and microbatches are the workload's own; a profile has none."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the file warns about."""
        return self.workload.warnings

    def to_json(self) -> dict[str, Any]:
        """Layers with their costs, and the numbers of the cluster where the file has them."""
        workload = self.workload
        document: dict[str, Any] = {"name": workload.name, "timeUnit": workload.time_unit}
        if self.cluster_known:
            document |= {
                "maxDevices": workload.devices,
                "maxMemoryPerDevice": workload.memory_bytes,
                "bandwidth": workload.network.stage_bandwidth,
                "mbsInBatch": workload.microbatches,
            }
        repeats = self.repeats()
        document["layers"] = [
            _layer_document(layer, count) for layer, count in zip(workload.layers, repeats, strict=True)
        ]
        document["edges"] = [
            {
                "sourceId": workload.layers[edge.source].id,
                "destId": workload.layers[edge.target].id,
                "communicationCost": edge.bytes,
            }
            for edge in workload.edges
        ]
        document["assumptions"] = []
        document["warnings"] = list(workload.warnings)
        return document

    def repeats(self) -> list[int]:
        """For each layer how many layers have its name and its costs."""
        kinds = [kind_of_layer(layer) for layer in self.workload.layers]
        counts = Counter(kinds)
        return [counts[kind] for kind in kinds]

    def __rich__(self) -> Group:
        from piper.report.inspection import workload_table

        return workload_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)


def kind_of_layer(layer: Layer) -> Hashable:
    """Equal for layers that are the same but for their number."""
    return layer.name, tuple((degree, layer.tmpcs[degree]) for degree in sorted(layer.tmpcs))


def plain_tmpc(layer: Layer) -> Tmpc | None:
    """The configuration that stands for a layer in a table: the first of the smallest degree."""
    return layer.tmpcs[min(layer.tmpcs)][0] if layer.tmpcs else None


def _layer_document(layer: Layer, repeats: int) -> dict[str, Any]:
    return {
        "id": layer.id,
        "name": layer.name,
        "repeats": repeats,
        "tensorParallel": sorted(layer.tmpcs),
        "TMPCs": {str(t): [_tmpc_document(tmpc) for tmpc in tmpcs] for t, tmpcs in sorted(layer.tmpcs.items())},
    }


def _tmpc_document(tmpc: Tmpc) -> dict[str, Any]:
    return {
        "id": tmpc.id,
        "timePerSample": tmpc.time,
        "parameterSize": tmpc.weight_bytes,
        "memoryUsageA": tmpc.memory_per_microbatch,
        "memoryUsageB": tmpc.memory_fixed,
    }
