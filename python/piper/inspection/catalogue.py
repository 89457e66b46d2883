"""What Piper knows by name: models and devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from piper.costs.devices import Device, device, device_names

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Names of built-in models, and the devices."""

    models: tuple[str, ...]
    devices: tuple[Device, ...]

    def to_json(self) -> dict[str, Any]:
        """Names of models; devices with their numbers: bytes, bytes per second, FLOP/s by type."""
        return {
            "models": [{"name": name} for name in self.models],
            "devices": [_device_document(device) for device in self.devices],
        }

    def __rich__(self) -> Group:
        from piper.report.catalogue import catalogue_table

        return catalogue_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)


def catalogue() -> Catalogue:
    """Everything that is known by name."""
    from piper.formats.builtin import names

    return Catalogue(names(), tuple(device(name) for name in device_names()))


def _device_document(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "memory": device.memory_bytes,
        "memoryBandwidth": device.memory_bandwidth,
        "flops": dict(device.flops),
        "linkBandwidth": device.link_bandwidth,
        "networkBandwidth": device.network_bandwidth,
        "source": device.source,
    }
