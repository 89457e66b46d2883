"""Measured times of operators in place of modelled ones."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

from piper.formats.onnxruntime_json import CPU_PROVIDER, load_profile
from piper.formats.source import shown
from piper.placement.workload import Node, PlacementWorkload

_SHOWN = 8


def with_profile(workload: PlacementWorkload, path: str | PathLike[str]) -> PlacementWorkload:
    """The workload with the times of a profile of ONNX Runtime where it has them, matched by node name.

    Times of its CPU provider are those of a CPU, times of any other provider those of the accelerators. Nodes of the
    workload without a time keep the modelled one, and are named in a warning; so are names of the profile that no
    node has (fused operators, as a rule).

    Raises:
        InputError: the profile cannot be read.
    """
    measured = load_profile(path)
    where = shown(path)
    nodes = tuple(_measured(node, measured.get(node.name, {})) for node in workload.nodes)
    names = {node.name for node in workload.nodes}
    missing = [node.name for node in workload.nodes if node.name not in measured]
    strange = [name for name in measured if name not in names]
    warnings = [*workload.warnings]
    if missing:
        warnings.append(f"{where}: has no time for {_listed(missing)}; modelled times are used")
    if strange:
        warnings.append(f"{where}: the model has no node {_listed(strange)}")
    return replace(workload, nodes=nodes, warnings=tuple(warnings))


def _measured(node: Node, times: dict[str, float]) -> Node:
    others = [time for provider, time in times.items() if provider != CPU_PROVIDER]
    return replace(
        node,
        cpu=times.get(CPU_PROVIDER, node.cpu),
        accelerators=(others[0],) if others and node.accelerators[0] is not None else node.accelerators,
    )


def _listed(names: list[str]) -> str:
    text = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} of them: {text}" if len(names) > 1 else names[0]
