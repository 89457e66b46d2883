"""Profiles of PipeDream: one line a node with its measured times and sizes, then one line an edge.

Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019; repository
msr-fiddle/pipedream. Times in the file are milliseconds of one minibatch, which is a microbatch here; sizes are
bytes. A profile knows nothing about the cluster, so devices, memory, bandwidth and microbatches come from the caller.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from piper.errors import InputError
from piper.formats.dag import check_acyclic
from piper.formats.json_document import count
from piper.formats.piper_json import MAX_DEVICES, MAX_MICROBATCHES
from piper.formats.source import decode_text, one_line, quoted, read_bytes, shown
from piper.placement.workload import AcceleratorClass, Node, PlacementWorkload
from piper.workload import Edge, Layer, Network, Tmpc, Transfer, Workload

_SEPARATOR = " -- "
_TOO_LARGE = 1e30
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NODE_FORM = (
    "expected `NODE -- DESCRIPTION -- forward_compute_time=MS, backward_compute_time=MS, activation_size=BYTES, "
    "parameter_size=BYTES`"
)
_EDGE_FORM = "expected a tab, then `NODE -- NODE`"


@dataclass(frozen=True, slots=True)
class ProfiledNode:
    """A line of the profile: milliseconds and bytes."""

    name: str
    description: str
    forward: float
    backward: float
    activation: float
    parameters: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile; edges are positions in `nodes`."""

    nodes: tuple[ProfiledNode, ...]
    edges: tuple[tuple[int, int], ...]
    warnings: tuple[str, ...] = ()


def load_pipedream(
    path: str | PathLike[str],
    *,
    devices: int | None = None,
    memory: float | None = None,
    bandwidth: float | None = None,
    microbatches: int | None = None,
    transfer: Transfer = "edge",
) -> Workload:
    """Read a PipeDream profile as a pipeline workload in seconds.

    Every layer runs on one device, plainly or with recomputation. Plainly, it takes the forward and the backward
    time, keeps its activation for each microbatch in flight, and holds four times its parameters: weights, gradient
    and two moments of the optimiser. With recomputation it takes the forward time twice, keeps the activations of its
    inputs for each microbatch in flight, and holds its own activation once. Replicas exchange the parameters.

    Args:
        path: the profile.
        devices: number of devices.
        memory: bytes of one device.
        bandwidth: bytes per second from a device to the others.
        microbatches: number of microbatches in a batch.
        transfer: whether an activation is paid for on every edge that is cut, or once for each stage.

    Raises:
        InputError: the file cannot be read, a line has another form, a number is negative, not finite or too large, a
            node is repeated or missing, the edges close a cycle, or one of the four numbers is not given or out of
            range.
    """
    where = shown(path)
    profile = load_profile(path)
    numbers = {"--devices": devices, "--memory": memory, "--bandwidth": bandwidth, "--microbatches": microbatches}
    missing = [option for option, value in numbers.items() if value is None]
    if devices is None or memory is None or bandwidth is None or microbatches is None:
        raise InputError(
            f"{where}: is a PipeDream profile, which does not say {_listed(missing)}; give these options"
        )
    _check_cluster(memory, bandwidth)
    return Workload(
        name=Path(path).stem,
        layers=_layers(profile),
        edges=tuple(Edge(u, v, profile.nodes[u].activation) for u, v in profile.edges),
        devices=count(devices, MAX_DEVICES, "--devices"),
        memory_bytes=memory,
        microbatches=count(microbatches, MAX_MICROBATCHES, "--microbatches"),
        network=Network(bandwidth, bandwidth, bandwidth),
        transfer=transfer,
        time_unit="s",
        warnings=profile.warnings,
    )


def load_pipedream_placement(
    path: str | PathLike[str],
    *,
    accelerators: int | None = None,
    bandwidth: float | None = None,
    cpus: int = 0,
) -> PlacementWorkload:
    """Read a PipeDream profile as a device-placement workload in seconds.

    A node takes its forward and backward time on every device, moves its activation and the gradient of it over the
    cut (twice the bytes), and holds four times its parameters and its activation. The memory is that of all nodes
    together: a profile knows no limit.

    Args:
        path: the profile.
        accelerators: number of accelerators.
        bandwidth: bytes per second between an accelerator and host memory.
        cpus: number of CPUs.

    Raises:
        InputError: the file is no profile, or accelerators or bandwidth are not given or out of range.
    """
    where = shown(path)
    profile = load_profile(path)
    numbers = {"--accelerators": accelerators, "--bandwidth": bandwidth}
    if accelerators is None or bandwidth is None:
        missing = _listed([option for option, value in numbers.items() if value is None])
        raise InputError(f"{where}: is a PipeDream profile, which does not say {missing}; give these options")
    _check_cluster(0, bandwidth)
    sources = {source for source, _ in profile.edges}
    ids = _ids([node.name for node in profile.nodes])
    nodes = tuple(
        Node(
            id=ids[position],
            name=node.name,
            cpu=(node.forward + node.backward) / 1000,
            accelerators=((node.forward + node.backward) / 1000,),
            size=4 * node.parameters + node.activation,
            transfer=2 * node.activation / bandwidth if position in sources else 0.0,
        )
        for position, node in enumerate(profile.nodes)
    )
    memory = math.fsum(node.size for node in nodes)
    return PlacementWorkload(
        name=Path(path).stem,
        nodes=nodes,
        edges=profile.edges,
        classes=(AcceleratorClass("accelerator", accelerators, memory),),
        cpus=cpus,
        time_unit="s",
        warnings=profile.warnings,
    )


def load_profile(path: str | PathLike[str]) -> Profile:
    """Read a PipeDream profile as it is.

    Raises:
        InputError: the file cannot be read or is no profile.
    """
    where = shown(path)
    return parse_profile(decode_text(read_bytes(path), where), where)


def parse_profile(text: str, where: str) -> Profile:
    """A profile from its text; `where` names the file in messages.

    Raises:
        InputError: a line has another form, a number cannot be, or nodes and edges do not fit.
    """
    nodes: dict[str, ProfiledNode] = {}
    edges: list[tuple[str, str, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        place = f"{where}: line {number}"
        line = line.removesuffix("\r")
        if not line.strip():
            continue
        if line[0].isspace():
            edges.append((*_parse_edge(line, place), place))
            continue
        node = _parse_node(line, place)
        if node.name in nodes:
            raise InputError(f"{place}: node {node.name!r} is described a second time")
        nodes[node.name] = node
    if not nodes:
        raise InputError(f"{where}: has no nodes; {_NODE_FORM}")
    return _profile(nodes, edges, where)


def _profile(nodes: dict[str, ProfiledNode], edges: list[tuple[str, str, str]], where: str) -> Profile:
    positions = {name: position for position, name in enumerate(nodes)}
    pairs: dict[tuple[int, int], None] = {}
    warnings = []
    for source, target, place in edges:
        for name in (source, target):
            if name not in positions:
                raise InputError(f"{place}: node {name!r} is not described")
        pair = (positions[source], positions[target])
        if pair in pairs:
            # Each edge stands for the one activation of its source, so a second one says nothing new.
            warnings.append(f"{place}: the edge {source} -- {target} is repeated; it counts once")
        pairs[pair] = None
    check_acyclic(list(nodes), pairs, where)
    return Profile(tuple(nodes.values()), tuple(pairs), tuple(warnings))


def _parse_edge(line: str, place: str) -> tuple[str, str]:
    source, separator, target = line.strip().partition(_SEPARATOR)
    if not separator or not source.strip() or not target.strip() or _SEPARATOR in target:
        raise InputError(f"{place}: {quoted(line)}; {_EDGE_FORM}")
    return one_line(source.strip(), 200), one_line(target.strip(), 200)


def _parse_node(line: str, place: str) -> ProfiledNode:
    parts = line.rstrip().split(_SEPARATOR)
    if parts[-1].startswith("stage_id="):
        parts.pop()
    if len(parts) < 3:
        raise InputError(f"{place}: {quoted(line)}; {_NODE_FORM}")
    name, *description, numbers = parts
    values = dict(_assignment(text) for text in numbers.split(","))
    return ProfiledNode(
        name=one_line(name.strip(), 200),
        description=_SEPARATOR.join(description),
        forward=_amount(values, "forward_compute_time", place),
        backward=_amount(values, "backward_compute_time", place),
        activation=_sizes(values, "activation_size", place),
        parameters=_amount(values, "parameter_size", place),
    )


def _assignment(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.strip(), value.strip()


def _amount(values: dict[str, str], key: str, place: str) -> float:
    return _number(_value(values, key, place), key, place)


def _sizes(values: dict[str, str], key: str, place: str) -> float:
    """One size, or the sum of several: ``[a; b]``."""
    text = _value(values, key, place)
    if not (text.startswith("[") and text.endswith("]")):
        return _number(text, key, place)
    return math.fsum(_number(part.strip(), key, place) for part in text[1:-1].split(";"))


def _value(values: dict[str, str], key: str, place: str) -> str:
    if key not in values:
        raise InputError(f"{place}: {key} is missing; {_NODE_FORM}")
    return values[key]


def _number(text: str, key: str, place: str) -> float:
    value = float(text) if len(text) < 100 and _NUMBER.fullmatch(text) else math.nan
    if not 0 <= value < _TOO_LARGE:
        raise InputError(f"{place}: {key} is {quoted(text)}; expected a number from 0 to {_TOO_LARGE:g}")
    return value


def _layers(profile: Profile) -> tuple[Layer, ...]:
    inputs = [0.0] * len(profile.nodes)
    sources = [0] * len(profile.nodes)
    targets = [0] * len(profile.nodes)
    for source, target in profile.edges:
        inputs[target] += profile.nodes[source].activation
        sources[target] += 1
        targets[source] += 1
    ids = _ids([node.name for node in profile.nodes])
    return tuple(
        Layer(ids[v], node.name, {1: _tmpcs(node, inputs[v], sources[v], targets[v])})
        for v, node in enumerate(profile.nodes)
    )


def _ids(names: list[str]) -> list[int]:
    """The numbers in names like ``node7``, or positions where some have none or share one."""
    matches = [re.fullmatch(r"node(\d{1,18})", name, re.ASCII) for name in names]
    numbers = [int(match[1]) for match in matches if match is not None]
    return numbers if len(set(numbers)) == len(names) else list(range(len(names)))


def _tmpcs(node: ProfiledNode, input_bytes: float, sources: int, targets: int) -> tuple[Tmpc, Tmpc]:
    """Plain and recomputing; one device has nothing to synchronise within itself."""
    held = 4 * node.parameters
    none = (0.0,) * sources, (0.0,) * targets
    plain = (node.forward + node.backward) / 1000
    again = (2 * node.forward + node.backward) / 1000
    return (
        Tmpc("vanilla", plain, node.parameters, node.activation, held, 0.0, *none),
        Tmpc("recomp", again, node.parameters, input_bytes, held + node.activation, 0.0, *none),
    )


def _check_cluster(memory: float, bandwidth: float) -> None:
    if not 0 <= memory < _TOO_LARGE:
        raise InputError(f"--memory: expected a number of bytes from 0 to {_TOO_LARGE:g}, got {memory!r}")
    if not 0 < bandwidth < _TOO_LARGE:
        raise InputError(f"--bandwidth: expected bytes per second above 0, got {bandwidth!r}")


def _listed(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} and {options[-1]}"
