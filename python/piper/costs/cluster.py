"""Clusters: nodes of equal devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import gcd, isfinite

from piper.costs.devices import Device, device
from piper.errors import InputError
from piper.workload import Network

MAX_DEVICES = 2**20
"""Largest cluster that can be planned for."""
_USUAL_NODE = 8
_TEXT = re.compile(r"(\d{1,9})\s*x\s*(\d{1,9})\s*:\s*(\S.*)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Cluster:
    """Nodes with the same number of the same devices.

    Example:
        ``Cluster("h100-80gb", nodes=16, devices_per_node=8)``, or ``Cluster.parse("16x8:h100-80gb")``.

    Raises:
        InputError: the catalogue has no such device, or a number is not positive or too large.
    """

    device: str
    """Name in the catalogue."""
    nodes: int = 1
    devices_per_node: int = 1
    memory: float | None = None
    """Bytes of one device; None: as in the catalogue."""
    bandwidth: float | None = None
    """Bytes per second of one device in one direction to other nodes, taken as achieved; None: as in the catalogue.
    In a cluster of one node, to the other devices."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", device(self.device).name)
        for name in ("nodes", "devices_per_node"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"cluster: {name} is {value!r}; expected a whole number from 1 on")
        if self.devices > MAX_DEVICES:
            raise InputError(
                f"cluster: {self.nodes} x {self.devices_per_node} devices; expected at most {MAX_DEVICES}"
            )
        for name in ("memory", "bandwidth"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and 0 < value < 1e30):
                raise InputError(f"cluster: {name} is {value!r}; expected a positive number")

    @classmethod
    def parse(cls, text: str) -> Cluster:
        """Nodes x devices of a node : device, as in ``16x8:h100-80gb``; a device alone is one of it.

        Raises:
            InputError: the text has another form or names no device.
        """
        match = _TEXT.fullmatch(text.strip())
        if match is not None:
            return cls(match[3], nodes=int(match[1]), devices_per_node=int(match[2]))
        if ":" in text or not text.strip():
            raise InputError(f"{text[:64]!r} is no cluster; expected NODESxDEVICES:DEVICE, such as 16x8:h100-80gb")
        try:
            return cls(text)
        except InputError as error:
            raise InputError(f"{error}; a cluster is NODESxDEVICES:DEVICE, such as 16x8:h100-80gb") from None

    @classmethod
    def of(cls, device: str, devices: int) -> Cluster:
        """That many devices in nodes of 8, or of fewer where 8 does not divide them; up to 8 share one node.

        Raises:
            InputError: as the constructor.
        """
        if devices <= _USUAL_NODE:
            return cls(device, devices_per_node=devices)
        node = gcd(devices, _USUAL_NODE)
        return cls(device, nodes=devices // node, devices_per_node=node)

    def __str__(self) -> str:
        return f"{self.nodes}x{self.devices_per_node}:{self.device}"

    @property
    def spec(self) -> Device:
        """The row of the catalogue."""
        return device(self.device)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.nodes * self.devices_per_node

    @property
    def memory_bytes(self) -> float:
        """Bytes of one device."""
        return float(self.spec.memory_bytes if self.memory is None else self.memory)

    @property
    def network(self) -> Network:
        """Achieved bandwidths by level; gradients are summed in a ring, which sends 2 (d - 1) / d of them."""
        spec = self.spec
        within = spec.link_bandwidth * spec.family.link_efficiency
        between = spec.network_bandwidth * spec.family.network_efficiency
        if self.bandwidth is not None:
            between = float(self.bandwidth)
        return Network(
            stage_bandwidth=within if self.nodes == 1 and self.bandwidth is None else between,
            data_parallel_bandwidth_within=within,
            data_parallel_bandwidth_between=between,
            devices_per_node=self.devices_per_node,
            resync_factor=2.0,
        )
