"""What a placement workload says: nodes with their measured times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from piper.placement.workload import PlacementWorkload

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, slots=True)
class PlacementInspection:
    """A placement workload, shown as it is."""

    workload: PlacementWorkload

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the file warns about."""
        return self.workload.warnings

    def to_json(self) -> dict[str, Any]:
        """Nodes with their times, edges, and the devices."""
        workload = self.workload
        names = [row.name for row in workload.classes]
        return {
            "name": workload.name,
            "timeUnit": workload.time_unit,
            "accelerators": [
                {"name": row.name, "count": row.count, "maxSize": row.memory_bytes} for row in workload.classes
            ],
            "cpus": workload.cpus,
            "nodes": [
                {
                    "id": node.id,
                    "name": node.name,
                    "cpuLatency": node.cpu,
                    "latencies": {
                        name: time for name, time in zip(names, node.accelerators, strict=True) if time is not None
                    },
                    "size": node.size,
                    "transfer": node.transfer,
                    "syncTime": node.sync,
                    "isBackwardNode": node.backward,
                    "colorClass": node.color,
                }
                for node in workload.nodes
            ],
            "edges": [
                {"sourceId": workload.nodes[source].id, "destId": workload.nodes[target].id}
                for source, target in workload.edges
            ],
            "assumptions": [],
            "warnings": list(workload.warnings),
        }

    def __rich__(self) -> Group:
        from piper.report.placement import placement_inspection_table

        return placement_inspection_table(self.workload)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)
