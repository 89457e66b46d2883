"""The catalogue of devices: rows of `devices.toml`."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from os import PathLike, fspath
from typing import Any

import msgspec

from piper.costs.units import parse_bytes
from piper.costs.user_devices import extended
from piper.errors import InputError
from piper.formats.source import one_line, quoted, shown

VARIABLE = "PIPER_DEVICES"
"""Of the environment: a file with devices of the user's own."""

_WIDER: Mapping[str, tuple[str, ...]] = {
    "float8": ("bfloat16", "float16", "float32"),
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "float32": ("float64",),
    "int4": ("int8", "float16", "float32"),
    "uint4": ("int4", "int8", "float16", "float32"),
    "int8": ("float16", "float32"),
    "uint8": ("int8", "float16", "float32"),
    "complex64": ("float32",),
    "complex128": ("float64", "float32"),
}
"""Types whose rate serves for one that a device has no rate for, best first."""


@dataclass(frozen=True, slots=True)
class Family:
    """What devices of one making reach in practice."""

    matmul_efficiency: float
    """Share of the peak rate that very large matrix products reach."""
    ramp: float
    """Seconds in which a matrix product fills and drains the device."""
    memory_efficiency: float
    """Share of the memory bandwidth that streaming kernels reach."""
    link_efficiency: float
    """Share of the bandwidth of links inside a node that collectives and copies reach."""
    network_efficiency: float
    """Share of the bandwidth of the network that collectives and copies reach."""
    launch: float
    """Seconds that a kernel takes at least."""


@dataclass(frozen=True, slots=True)
class Device:
    """One row of the catalogue. Bandwidths are bytes per second of one device in one direction."""

    name: str
    family: Family
    memory: str
    """As the vendor states it, ``80GiB`` or ``24GB``."""
    memory_bandwidth: float
    flops: tuple[tuple[str, float], ...]
    """Peak FLOP/s of dense arithmetic, by type."""
    link_bandwidth: float
    """To the other devices of its node."""
    link_latency: float
    """Seconds of one step inside the node."""
    host_bandwidth: float
    """To the memory of the host."""
    network_bandwidth: float
    """Its share of the network of its node."""
    network_latency: float
    """Seconds of one step between nodes."""
    source: str
    """Where the numbers are from."""
    unsupported: frozenset[str] = frozenset()
    """ONNX operators that it cannot run."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory."""
        return parse_bytes(self.memory)

    def has_rate(self, dtype: str) -> bool:
        """Whether the device has arithmetic of its own for the type."""
        return dtype in dict(self.flops)

    def peak(self, dtype: str) -> float:
        """Peak FLOP/s for a type; for one that the device lacks, of the type that stands in; float32 in the end."""
        rates = dict(self.flops)
        for candidate in (dtype, *_WIDER.get(dtype, ()), "float32"):
            if candidate in rates:
                return rates[candidate]
        return max(rates.values())


def device_names() -> tuple[str, ...]:
    """Names of all devices, in the order of the catalogue."""
    return tuple(_catalogue()[0])


def device(name: str) -> Device:
    """The device of that name, in any case.

    Raises:
        InputError: there is none; names similar ones, or all.
    """
    devices, aliases = _catalogue()
    key = name.strip().lower()
    found = devices.get(aliases.get(key, key))
    if found is None:
        raise InputError(f"{name[:64]!r} is no device of the catalogue; {_suggestion(key, (*devices, *aliases))}")
    return found


def _suggestion(name: str, names: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name[:64], names, n=3, cutoff=0.5)
    if near:
        return f"similar names: {', '.join(near)}"
    return f"expected one of {', '.join(device_names())}"


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """A device as the catalogue writes it."""

    family: str
    memory: str
    memory_bandwidth: float
    flops: dict[str, float]
    link_bandwidth: float
    link_latency: float
    host_bandwidth: float
    network_bandwidth: float
    network_latency: float
    source: str
    unsupported: str | None = None

    def device(self, name: str, families: Mapping[str, Family], unsupported: Mapping[str, list[str]]) -> Device:
        return Device(
            name=name,
            family=families[self.family],
            memory=self.memory,
            memory_bandwidth=self.memory_bandwidth,
            flops=tuple(self.flops.items()),
            link_bandwidth=self.link_bandwidth,
            link_latency=self.link_latency,
            host_bandwidth=self.host_bandwidth,
            network_bandwidth=self.network_bandwidth,
            network_latency=self.network_latency,
            source=self.source,
            unsupported=frozenset(unsupported[self.unsupported] if self.unsupported else ()),
        )


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """The whole catalogue."""

    family: dict[str, Family]
    device: dict[str, _Row]
    unsupported: dict[str, list[str]]
    alias: dict[str, str]


Catalogue = tuple[dict[str, Device], dict[str, str]]
_chosen: list[str] = []
"""The file of `use_devices`, if there is one."""


def use_devices(path: str | PathLike[str] | None) -> None:
    """Add the devices of a TOML file to the catalogue, in place of those of any file before.

    The variable ``PIPER_DEVICES`` of the environment does the same without a call.

    Args:
        path: a file of the form of Piper's own catalogue; None for no file.

    Raises:
        InputError: the file cannot be read, or a row is not what was expected.
    """
    if path is None:
        _chosen.clear()
        return
    _of_file(fspath(path))
    _chosen[:] = [fspath(path)]


def _catalogue() -> Catalogue:
    path = _chosen[0] if _chosen else os.environ.get(VARIABLE)
    return _of_file(path) if path else _built_in()


@cache
def _built_in() -> Catalogue:
    return _devices(_tables())


@lru_cache(maxsize=4)
def _of_file(path: str) -> Catalogue:
    tables = extended(_tables(), path)
    try:
        found = _devices(tables)
    except msgspec.ValidationError as error:
        raise InputError(f"{shown(path)}: {one_line(str(error), 160)}") from None
    devices, aliases = found
    for name, device in devices.items():
        try:
            _ = device.memory_bytes
        except InputError as error:
            raise InputError(f"{shown(path)}: device.{one_line(name, 60)}: memory: {error}") from None
    for name, target in aliases.items():
        if target not in devices:
            raise InputError(f"{shown(path)}: alias.{one_line(name, 60)}: {quoted(target)} is no device")
    return found


def _tables() -> dict[str, Any]:
    return tomllib.loads(files("piper.costs").joinpath("devices.toml").read_text(encoding="utf-8"))


def _devices(tables: dict[str, Any]) -> Catalogue:
    content = msgspec.convert(tables, _File)
    for name, row in content.device.items():
        for value, table in ((row.family, content.family), (row.unsupported, content.unsupported)):
            if value is not None and value not in table:
                raise msgspec.ValidationError(f"device.{name}: there is no {value!r}; expected {', '.join(table)}")
        if not row.flops:
            raise msgspec.ValidationError(f"device.{name}: flops is empty; expected a rate for float32")
    rows = {name: row.device(name, content.family, content.unsupported) for name, row in content.device.items()}
    return rows, content.alias
