"""Names and values in a graph and around it, and what is supposed and noticed on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from piper.errors import InputError
from piper.onnx.graph import Value


@dataclass(slots=True)
class Notes:
    """What the reader supposes and notices on its way."""

    given: Mapping[str, int]
    """The user's values of assumptions."""
    assumed: dict[str, str] = field(default_factory=dict)
    """Name of an assumption to the sentence that reports it."""
    warnings: dict[str, None] = field(default_factory=dict)

    def assume(self, name: str, default: int, because: str) -> int:
        """The user's value or the default of a quantity, reported either way."""
        value = self.given.get(name, default)
        if value < 0:
            raise InputError(f"assumption {name}={value}: expected a number that is not negative")
        self.assumed[name] = f"{name} = {value}: {because}"
        return value

    def warn(self, text: str) -> None:
        """Report `text` once."""
        self.warnings[text] = None


@dataclass(slots=True)
class Scope:
    """Values by name in a graph, and around it."""

    values: dict[str, Value]
    outer: Scope | None = None

    def find(self, name: str) -> Value:
        """The value that `name` means here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise InputError(f"value {name!r} is used before it is made")

    def has(self, name: str) -> bool:
        """Whether `name` means anything here."""
        return name in self.values or (self.outer is not None and self.outer.has(name))
