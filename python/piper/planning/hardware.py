"""The devices that a plan may use: a cluster, or single numbers that override it or a workload file."""

from __future__ import annotations

from dataclasses import replace

from piper.costs.cluster import Cluster
from piper.costs.units import parse_bytes
from piper.errors import InputError
from piper.planning.effort import check_amount
from piper.workload import Network, Workload


def cluster_of(
    cluster: Cluster | str | None, memory: float | str | None, bandwidth: float | str | None
) -> Cluster | None:
    """The cluster with the numbers that override its own.

    Raises:
        InputError: the text names no cluster, or a number is none.
    """
    if cluster is None:
        return None
    found = Cluster.parse(cluster) if isinstance(cluster, str) else cluster
    if not isinstance(found, Cluster):
        raise InputError(f"cluster is {cluster!r}; expected a Cluster or text such as 16x8:h100-80gb")
    return replace(
        found,
        memory=found.memory if memory is None else amount("memory", memory),
        bandwidth=found.bandwidth if bandwidth is None else amount("bandwidth", bandwidth),
    )


def on_cluster(workload: Workload, cluster: Cluster) -> Workload:
    """A measured workload with the devices, the memory and the bandwidth between nodes of a cluster."""
    network = flat(workload.network, cluster.network.stage_bandwidth)
    return replace(workload, devices=cluster.devices, memory_bytes=cluster.memory_bytes, network=network)


def flat(network: Network, bandwidth: float) -> Network:
    """The same bandwidth on every link."""
    return replace(
        network,
        stage_bandwidth=bandwidth,
        data_parallel_bandwidth_within=bandwidth,
        data_parallel_bandwidth_between=bandwidth,
    )


def within(devices: int | None, cluster: Cluster) -> int:
    """The devices of a cluster that may be used.

    Raises:
        InputError: the cluster has fewer.
    """
    if devices is not None and devices > cluster.devices:
        raise InputError(f"devices is {devices}, but the cluster {cluster} has {cluster.devices}")
    return devices or cluster.devices


def amount(name: str, value: float | str) -> float:
    """Bytes given as a number or as text such as ``8GiB``.

    Raises:
        InputError: the text is no size, or the number is negative or not finite.
    """
    if isinstance(value, str):
        return float(parse_bytes(value))
    check_amount(name, value)
    return float(value)
