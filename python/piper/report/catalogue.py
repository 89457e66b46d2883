"""The table of what Piper knows by name."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from piper.costs.devices import Device
from piper.costs.units import format_bytes, format_count
from piper.inspection.catalogue import Catalogue
from piper.report.tables import bare_table


def catalogue_table(catalogue: Catalogue) -> Group:
    """Models on one line, one row a device. Bandwidths are of one device in one direction."""
    models = Text.assemble(("models", "bold"), "  ", ", ".join(catalogue.models))
    table = bare_table()
    table.add_column("device")
    for name in ("memory", "memory/s", "FLOP/s", "in node/s", "network/s"):
        table.add_column(name, justify="right")
    for device in catalogue.devices:
        table.add_row(*_cells(device))
    return Group(models, Text(), table)


def _cells(device: Device) -> tuple[str, ...]:
    rates = dict(device.flops)
    dtype = next((name for name in ("bfloat16", "float16", "float32") if name in rates), "float32")
    return (
        device.name,
        device.memory,
        format_bytes(device.memory_bandwidth),
        f"{format_count(device.peak(dtype))} {dtype}",
        format_bytes(device.link_bandwidth),
        format_bytes(device.network_bandwidth),
    )
