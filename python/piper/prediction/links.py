"""Transfers between stages and sums over replicas, on the links that they cross."""

from __future__ import annotations

from piper.costs.cluster import Cluster
from piper.costs.collectives import Link, all_reduce


class Links:
    """The levels of a cluster's network as one device sees them."""

    def __init__(self, cluster: Cluster) -> None:
        spec, network = cluster.spec, cluster.network
        self._node = cluster.devices_per_node
        self._inside = Link(network.data_parallel_bandwidth_within, spec.link_latency)
        self._between = Link(network.data_parallel_bandwidth_between, spec.network_latency)
        # Neighbouring stages are on different nodes as soon as there are several: groups fill nodes first.
        self._stages = self._inside if cluster.nodes == 1 else self._between

    def hop(self, size: float, degree: int, *, divided: bool) -> float:
        """Seconds to hand a tensor from each device of a group to its counterpart in the next stage.

        Args:
            size: bytes of the whole tensor.
            degree: devices of the tensor-parallel group.
            divided: whether each device has only its part; otherwise all have all of it, and may still send a part
                each and gather the whole from their neighbours (Narayanan et al., 2021, section 4.1).
        """
        if size == 0:
            return 0.0
        link = self._stages
        part = size / degree / link.bandwidth + link.latency
        if divided or degree == 1:
            return part
        gathered = (degree - 1) * (size / degree / self._inside.bandwidth + self._inside.latency)
        return min(size / link.bandwidth + link.latency, part + gathered)

    def sum_over_replicas(self, size: float, replicas: int, degree: int) -> float:
        """Seconds to sum gradients over replicas; those in one node send to other nodes through a port each."""
        if replicas * degree <= self._node:
            return all_reduce(size, replicas, self._inside)
        ports = min(replicas, max(1, self._node // degree))
        bandwidth = min(self._inside.bandwidth, ports * self._between.bandwidth)
        return all_reduce(size, replicas, Link(bandwidth, self._between.latency))

    def sum_over_stages(self, size: float, stages: int) -> float:
        """Seconds to sum the gradient of a weight that several stages have a copy of."""
        return all_reduce(size, stages, self._stages)
