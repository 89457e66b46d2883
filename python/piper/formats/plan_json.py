"""Plans as files: the published result format, which Piper's own results extend."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Annotated, Any

from msgspec import Meta, Struct

from piper.errors import InputError
from piper.formats.json_document import Id, convert, member, read_json
from piper.formats.piper_json import MAX_DEVICES, MAX_MICROBATCHES
from piper.formats.source import quoted, shown
from piper.workload import Layer, Stage, Workload

_DataParallel = Annotated[int, Meta(ge=1, le=MAX_MICROBATCHES)]
_TensorParallel = Annotated[int, Meta(ge=1, le=MAX_DEVICES)]


class StageJson(Struct):
    """A stage as the file has it."""

    nodes: list[Id]
    dataParallelDegree: _DataParallel
    tensorParallelDegree: _TensorParallel
    TMPCids: Any
    """An object from layer id to TMPC id, or a list of pairs of them, as the published program writes it."""


class PlanJson(Struct):
    """The file."""

    stages: list[StageJson] = []
    feasible: bool = True


def load_plan(path: str | PathLike[str], workload: Workload) -> tuple[Stage, ...]:
    """Read a plan for a workload, made by Piper or by another program.

    That the stages obey the rules of the problem is for the judge to say; only what no plan could mean is refused.

    Args:
        path: the JSON file.
        workload: what the numbers of layers and the names of TMPCs refer to.

    Returns:
        The stages in pipeline order.

    Raises:
        InputError: the file cannot be read, is not JSON, a key is missing or has the wrong type, it holds no plan, or
            a layer or a TMPC does not exist in the workload.
    """
    where = shown(path)
    document = read_json(path, PlanJson)
    if not document.feasible:
        raise InputError(f"{where}: $.feasible: is false, so the file holds no plan")
    if not document.stages:
        raise InputError(f"{where}: $.stages: expected at least one stage")
    reader = _StageReader(workload.layers, where)
    return tuple(reader.stage(stage, f"$.stages[{number}]") for number, stage in enumerate(document.stages))


class _StageReader:
    """Turns layer ids and TMPC ids into positions."""

    def __init__(self, layers: Sequence[Layer], where: str) -> None:
        self._layers = layers
        self._positions = {layer.id: position for position, layer in enumerate(layers)}
        self._where = where

    def stage(self, stage: StageJson, path: str) -> Stage:
        names = self._tmpc_ids(stage.TMPCids, f"{path}.TMPCids")
        placed: dict[int, int] = {}
        for number, node in enumerate(stage.nodes):
            layer = self._position(node, f"{path}.nodes[{number}]")
            if layer in placed:
                raise self._error(f"{path}.nodes[{number}]", f"layer {node} is listed a second time")
            if node not in names:
                raise self._error(f"{path}.TMPCids", f"has no entry for layer {node}")
            place = member(f"{path}.TMPCids", node)
            placed[layer] = self._choice(self._layers[layer], stage.tensorParallelDegree, names[node], place)
        layers = tuple(sorted(placed))
        choices = tuple(placed[layer] for layer in layers)
        return Stage(layers, stage.dataParallelDegree, stage.tensorParallelDegree, choices)

    def _tmpc_ids(self, value: Any, path: str) -> dict[int, str]:
        if not isinstance(value, list):
            return convert(value, dict[Id, str], self._where, path)
        pairs = convert(value, list[tuple[Id, str]], self._where, path)
        names = dict(pairs)
        if len(names) < len(pairs):
            raise self._error(path, "a layer is listed more than once")
        return names

    def _position(self, node: int, path: str) -> int:
        if node not in self._positions:
            raise self._error(path, f"the workload has no layer with id {node}")
        return self._positions[node]

    def _choice(self, layer: Layer, degree: int, name: str, path: str) -> int:
        alternatives = [tmpc.id for tmpc in layer.tmpcs.get(degree, ())]
        if name in alternatives:
            return alternatives.index(name)
        if alternatives:
            known = ", ".join(quoted(known, 40) for known in alternatives[:6])
            raise self._error(path, f"layer {layer.id} has no TMPC {quoted(name, 40)} there; it has {known}")
        degrees = ", ".join(map(str, sorted(layer.tmpcs))) or "none"
        raise self._error(
            path, f"layer {layer.id} has no TMPC for tensor-parallel degree {degree}; it has degrees {degrees}"
        )

    def _error(self, path: str, message: str) -> InputError:
        return InputError(f"{self._where}: {path}: {message}")
