"""What a model is made of: operators and layers with their counts, and where each number comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from piper.model import Model, ModelLayer, Operator, Tensor

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, slots=True)
class ModelInspection:
    """A model with the times of its operators on a device, where one was given."""

    model: Model
    seconds: tuple[float, ...] | None = None
    """Seconds of the forward pass of each operator, on one device."""
    device: str | None = None
    """Name of that device."""
    measured: frozenset[int] = frozenset()
    """Positions of the operators whose seconds were measured."""
    profile_warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the model, and that of a profile, warn about."""
        return (*self.model.warnings, *self.profile_warnings)

    def to_json(self) -> dict[str, Any]:
        """All counts of one forward pass of one microbatch; layers name operators by position."""
        model = self.model
        return {
            "name": model.name,
            "dtype": model.dtype,
            "microbatchSize": model.batch,
            "tokens": model.tokens,
            "flops": model.flops,
            "initializerBytes": model.initializer_bytes,
            "weightBytes": model.weight_bytes,
            "parameters": model.parameters,
            "device": self.device,
            "inputs": [_tensor_document(tensor) for tensor in model.inputs],
            "operators": [self._operator_document(i) for i in range(len(model.operators))],
            "layers": [self._layer_document(row) for row in self.rows()],
            "edges": [{"sourceId": e.source, "destId": e.target, "communicationCost": e.bytes} for e in model.edges],
            "assumptions": list(model.assumptions),
            "warnings": list(self.warnings),
        }

    def rows(self) -> list[LayerRow]:
        """The layers with their sums."""
        repeats = Counter(layer.block for layer in self.model.layers)
        return [
            LayerRow.of(self.model, number, layer, repeats[layer.block] if layer.block else 1, self.seconds)
            for number, layer in enumerate(self.model.layers)
        ]

    def _operator_document(self, position: int) -> dict[str, Any]:
        operator = self.model.operators[position]
        document: dict[str, Any] = {
            "name": operator.name,
            "opType": operator.op_type,
            "flops": operator.flops,
            "weightBytes": operator.weight_bytes,
            "activationBytes": operator.output_bytes,
            "bytesMoved": operator.bytes_moved,
            "rule": operator.rule,
            "outputs": [_tensor_document(tensor) for tensor in operator.outputs],
        }
        if self.seconds is not None:
            document["seconds"] = self.seconds[position]
            document["measured"] = position in self.measured
        return document

    def _layer_document(self, row: LayerRow) -> dict[str, Any]:
        document: dict[str, Any] = {
            "id": row.id,
            "name": row.layer.name,
            "block": row.layer.block,
            "operators": list(row.layer.operators),
            "repeats": row.repeats,
            "flops": row.flops,
            "weightBytes": row.weight_bytes,
            "activationBytes": row.activation_bytes,
            "bytesMoved": row.bytes_moved,
            "tensorParallel": list(row.layer.degrees),
        }
        if row.seconds is not None:
            document["seconds"] = row.seconds
        return document

    def __rich__(self) -> Group:
        from piper.report.inspection import model_table

        return model_table(self)

    def __str__(self) -> str:
        from piper.report.text import plain_text

        return plain_text(self)


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer with the sums over its operators."""

    id: int
    """Its position, which is its number in plans."""
    layer: ModelLayer
    repeats: int
    """How many layers of the model are the same block."""
    flops: int
    weight_bytes: int
    """Each weight once."""
    activation_bytes: int
    bytes_moved: int
    seconds: float | None

    @classmethod
    def of(
        cls, model: Model, number: int, layer: ModelLayer, repeats: int, seconds: Sequence[float] | None
    ) -> LayerRow:
        """Sum up the operators of a layer."""
        operators = [model.operators[position] for position in layer.operators]
        return cls(
            id=number,
            layer=layer,
            repeats=repeats,
            flops=sum(operator.flops for operator in operators),
            weight_bytes=_weight_bytes(operators),
            activation_bytes=sum(operator.output_bytes for operator in operators),
            bytes_moved=sum(operator.bytes_moved for operator in operators),
            seconds=None if seconds is None else sum(seconds[position] for position in layer.operators),
        )


def _weight_bytes(operators: Sequence[Operator]) -> int:
    weights = {weight.name: weight.bytes for operator in operators for weight in operator.weights}
    return sum(weights.values())


def _tensor_document(tensor: Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}
