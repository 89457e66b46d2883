"""All arrangements that a configuration leaves open on a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from piper.costs.cluster import Cluster
from piper.costs.workload import MICROBATCHES_PER_DEVICE
from piper.errors import InputError
from piper.prediction.configuration import Arrangement, Configuration, FixedSchedule

LARGEST_MICROBATCH = 16
"""Largest microbatch that ``"auto"`` tries."""


def arrangements(configuration: Configuration, cluster: Cluster, blocks: int) -> list[Arrangement]:
    """Every arrangement to try, small microbatches first.

    Args:
        configuration: what the user wants.
        cluster: the devices.
        blocks: parts that stages may be made of: repeated blocks, or layers where there are too few of them.

    Raises:
        InputError: the degrees do not fit the cluster or the model, or the batch cannot be divided.
    """
    replicas = _replicas(configuration, cluster)
    stages = configuration.pipeline
    if stages * (configuration.virtual_stages or 1) > blocks:
        wanted = f"{stages} x {configuration.virtual_stages}" if configuration.virtual_stages else str(stages)
        raise InputError(f"{wanted} stages of a model with {blocks} layers to divide; expected at most as many")
    found = [
        Arrangement(configuration.tensor_parallel, stages, replicas, size, count, schedule, parts)
        for size, count in _cuts(configuration, replicas)
        for schedule, parts in _schedules(configuration, count, blocks)
    ]
    if not found:
        raise InputError(
            f"the interleaved schedule needs a number of microbatches that {stages} stages divide, and parts that "
            f"divide {blocks} layers; no microbatch size gives them"
        )
    return found


def _replicas(configuration: Configuration, cluster: Cluster) -> int:
    tensor, stages = configuration.tensor_parallel, configuration.pipeline
    if cluster.devices_per_node % tensor:
        raise InputError(
            f"tensor_parallel is {tensor}; expected a divisor of the {cluster.devices_per_node} devices of a node"
        )
    room = cluster.devices // (tensor * stages)
    replicas = configuration.data_parallel or room
    if room == 0 or replicas > room:
        needed = tensor * stages * (configuration.data_parallel or 1)
        raise InputError(
            f"tensor_parallel x pipeline x data_parallel is {needed}; "
            f"expected at most {cluster.devices}, the devices of {cluster}"
        )
    return replicas


def _cuts(configuration: Configuration, replicas: int) -> Iterator[tuple[int, int]]:
    """Sizes and numbers of microbatches of each replica."""
    wanted = configuration.microbatch_size
    sizes = [1 << power for power in range(LARGEST_MICROBATCH.bit_length())] if wanted == "auto" else [wanted]
    usual = MICROBATCHES_PER_DEVICE * replicas * configuration.tensor_parallel * configuration.pipeline
    found = False
    for size in sizes:
        batch = configuration.global_batch or usual * max(sizes)
        if batch % (replicas * size) == 0:
            found = True
            yield size, batch // (replicas * size)
    if not found:
        text = f"{replicas} replicas" if wanted == "auto" else f"{replicas} replicas x {wanted} samples"
        raise InputError(f"global_batch is {configuration.global_batch}; expected a multiple of {text}")


def _schedules(configuration: Configuration, count: int, blocks: int) -> Iterator[tuple[FixedSchedule, int]]:
    stages, parts = configuration.pipeline, configuration.virtual_stages
    schedule = configuration.schedule
    if schedule == "gpipe":
        yield "gpipe", 1
    if schedule == "1f1b" or (schedule == "auto" and (parts or 1) == 1):
        yield "1f1b", 1
    if schedule == "interleaved" and parts == 1:
        yield "interleaved", 1
    if schedule == "interleaved" or (schedule == "auto" and parts != 1):
        if configuration.microbatch_size != "auto" and schedule == "interleaved" and count % stages:
            raise InputError(
                f"microbatches of each replica are {count}; "
                f"expected a multiple of the {stages} stages, which the interleaved schedule needs"
            )
        most = blocks // stages if stages > 1 else 0
        for number in [parts] if parts else range(2, most + 1):
            if number > 1 and count % stages == 0 and (parts or blocks % (stages * number) == 0):
                yield "interleaved", number
