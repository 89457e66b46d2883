"""Values of options: sizes, ``NAME=VALUE``, shapes, groups of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from piper.costs.units import parse_bytes
from piper.errors import InputError

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # Only newer releases of click can be subscripted.


class Parsed(ParamType):
    """An option whose text a function understands; its `InputError` becomes the message of the option."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value of the text, or a usage error."""
        try:
            return self._parse(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


def dimension(text: str) -> tuple[str, int]:
    """``NAME=VALUE`` with a whole number from 1 on.

    Raises:
        InputError: the text has another form.
    """
    name, separator, value = text.rpartition("=")
    if not separator or not name:
        raise InputError(f"{text!r}: expected NAME=VALUE")
    return name, _whole(value, text, least=1)


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``INPUT:1x128``, as trtexec writes it; names may contain colons.

    Raises:
        InputError: the text has another form.
    """
    name, separator, sizes = text.rpartition(":")
    if not separator or not name:
        raise InputError(f"{text!r}: expected INPUT:SIZExSIZE, such as input_ids:1x128")
    return name, tuple(_whole(size, text, least=0) for size in sizes.lower().split("x"))


def pin(text: str) -> tuple[str, int]:
    """``LAYER=STAGE``, stages counted from 0.

    Raises:
        InputError: the text has another form.
    """
    name, separator, stage = text.rpartition("=")
    if not separator or not name:
        raise InputError(f"{text!r}: expected LAYER=STAGE, stages counted from 0")
    return name, _whole(stage, text, least=0)


def accelerators(text: str) -> tuple[str | None, int]:
    """``K``, or ``CLASS=K`` where there are several classes.

    Raises:
        InputError: the text has another form.
    """
    name, separator, count = text.rpartition("=")
    if separator and not name:
        raise InputError(f"{text!r}: expected K, or CLASS=K")
    return (name if separator else None), _whole(count, text, least=0)


def operator_types(text: str) -> tuple[str, ...]:
    """``A,B,...``; nothing for none."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def layer_group(text: str) -> tuple[str, ...]:
    """``A,B,...``: at least two layers.

    Raises:
        InputError: there are fewer.
    """
    layers = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(layers) < 2:
        raise InputError(f"{text!r}: expected two or more layers with commas between")
    return layers


def _whole(text: str, where: str, *, least: int) -> int:
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18 or int(digits) < least:
        raise InputError(f"{where!r}: {text!r} is no whole number from {least} on")
    return int(digits)


SIZE = Parsed("size", parse_bytes)
DIMENSION = Parsed("name=value", dimension)
SHAPE = Parsed("input:shape", shape)
PIN = Parsed("layer=stage", pin)
GROUP = Parsed("layer,layer", layer_group)
ACCELERATORS = Parsed("[class=]k", accelerators)
OPERATOR_TYPES = Parsed("type,type", operator_types)
