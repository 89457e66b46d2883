"""Restrictions in a user's words, layers by name or number, as the solver takes them: by position."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from piper.errors import InputError
from piper.workload import Layer, Limits, Recompute

LayerRef = str | int
"""A layer by its name, or by its number in results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restrictions:
    """What plans must obey, before the layers' names are looked up."""

    recompute: Recompute = "auto"
    no_data_parallel: bool = False
    no_tensor_parallel: bool = False
    max_data_parallel: int | None = None
    max_tensor_parallel: int | None = None
    data_parallel: int | None = None
    tensor_parallel: int | None = None
    stages: int | None = None
    max_stages: int | None = None
    pins: Mapping[LayerRef, int] | Sequence[tuple[LayerRef, int]] = ()
    together: Sequence[Sequence[LayerRef]] = ()
    apart: Sequence[Sequence[LayerRef]] = ()

    def resolve(self, layers: Sequence[Layer]) -> Limits:
        """The same with positions in `layers`.

        Raises:
            InputError: a layer does not exist or its name is not unique, a number is not positive, or two
                restrictions contradict each other.
        """
        self._check()
        names = LayerNames(layers)
        return Limits(
            max_data_parallel=1 if self.no_data_parallel else self.max_data_parallel,
            max_tensor_parallel=1 if self.no_tensor_parallel else self.max_tensor_parallel,
            data_parallel=self.data_parallel,
            tensor_parallel=self.tensor_parallel,
            stages=self.stages,
            max_stages=self.max_stages,
            recompute=self.recompute,
            pins=tuple((names.position(layer), _stage(layer, stage)) for layer, stage in _pairs(self.pins)),
            together=names.groups(self.together),
            apart=names.groups(self.apart),
        )

    def _check(self) -> None:
        numbers = {
            "max_data_parallel": self.max_data_parallel,
            "max_tensor_parallel": self.max_tensor_parallel,
            "data_parallel": self.data_parallel,
            "tensor_parallel": self.tensor_parallel,
            "stages": self.stages,
            "max_stages": self.max_stages,
        }
        for name, value in numbers.items():
            check_count(name, value)
        if self.no_data_parallel and (self.data_parallel or 1) > 1:
            raise InputError(f"data_parallel is {self.data_parallel}, but data parallelism is switched off")
        if self.no_tensor_parallel and (self.tensor_parallel or 1) > 1:
            raise InputError(f"tensor_parallel is {self.tensor_parallel}, but tensor parallelism is switched off")


_NUMBER = re.compile(r"[0-9]{1,20}")


class LayerNames:
    """Looks up layers by number or unique name."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._by_id = {layer.id: position for position, layer in enumerate(layers)}
        self._by_name: dict[str, list[int]] = {}
        for position, layer in enumerate(layers):
            self._by_name.setdefault(layer.name, []).append(position)
        self._ids = [layer.id for layer in layers]

    def position(self, layer: LayerRef) -> int:
        """Position of a layer.

        Raises:
            InputError: there is no such layer, or there are several.
        """
        if isinstance(layer, str) and layer in self._by_name:
            positions = self._by_name[layer]
            if len(positions) > 1:
                some = ", ".join(str(self._ids[position]) for position in positions[:4])
                raise InputError(f"{len(positions)} layers are named {layer!r}; use a number instead: {some}, ...")
            return positions[0]
        number = int(layer) if isinstance(layer, str) and _NUMBER.fullmatch(layer) else layer
        if isinstance(number, int) and number in self._by_id:
            return self._by_id[number]
        raise InputError(f"there is no layer {layer!r}; `piper inspect` lists names and numbers")

    def groups(self, groups: Sequence[Sequence[LayerRef]]) -> tuple[tuple[int, ...], ...]:
        """Positions of the layers of several groups.

        Raises:
            InputError: as `position`, or a group is a single layer.
        """
        if not isinstance(groups, Iterable):
            raise InputError(f"{groups!r} is no list of groups; expected lists of layers, such as [[0, 'head']]")
        groups = list(groups)
        for group in groups:
            if isinstance(group, str | bytes) or not isinstance(group, Iterable):
                raise InputError(f"{group!r} is no group; expected a list of layers, such as [0, 'head']")
        return tuple(tuple(self.position(layer) for layer in group) for group in groups)


def _pairs(pins: Any) -> list[tuple[LayerRef, int]]:
    """Layers and stages, as a mapping or as pairs.

    Raises:
        InputError: they are neither.
    """
    items = pins.items() if isinstance(pins, Mapping) else pins
    found = list(items) if isinstance(items, Iterable) and not isinstance(items, str | bytes) else [items]
    for pair in found:
        if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
            raise InputError(f"{pair!r} pins nothing; expected layers and stages, such as {{'head': 2}}")
    return [(layer, stage) for layer, stage in found]


def _stage(layer: LayerRef, stage: int) -> int:
    if isinstance(stage, bool) or not isinstance(stage, int) or not 0 <= stage < 2**31:
        raise InputError(f"layer {layer!r} is pinned to stage {stage!r}; expected a whole number from 0 on")
    return stage


def check_count(name: str, value: int | None, largest: int = 2**31 - 1) -> None:
    """Refuse what is no positive number.

    Raises:
        InputError: naming the option and the value.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
        raise InputError(f"{name} is {value!r}; expected a whole number from 1 to {largest}")
