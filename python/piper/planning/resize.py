"""The counts of a model for microbatches of another size."""

from __future__ import annotations

from dataclasses import replace

from piper.model import Model, Operator


def resized(model: Model, size: int) -> Model:
    """The model with `size` samples in a microbatch: FLOPs and activations in proportion, weights as they are.

    Activations that are the same for every sample, such as a table of relative positions, are taken to grow as well;
    they are few, and the plan then errs on the safe side.
    """
    if size == model.batch:
        return model
    return replace(
        model,
        operators=tuple(_operator(operator, size, model.batch) for operator in model.operators),
        layers=tuple(replace(x, input_bytes=_scaled(x.input_bytes, size, model.batch)) for x in model.layers),
        edges=tuple(replace(edge, bytes=_scaled(edge.bytes, size, model.batch)) for edge in model.edges),
        operator_edges=tuple(replace(x, bytes=_scaled(x.bytes, size, model.batch)) for x in model.operator_edges),
        batch=size,
        tokens=None if model.tokens is None else _scaled(model.tokens, size, model.batch),
    )


def _operator(operator: Operator, size: int, batch: int) -> Operator:
    return replace(
        operator,
        flops=_scaled(operator.flops, size, batch),
        input_bytes=_scaled(operator.input_bytes, size, batch),
        output_bytes=_scaled(operator.output_bytes, size, batch),
        saved_bytes=_scaled(operator.saved_bytes, size, batch),
        saved_bytes_unfused=_scaled(operator.saved_bytes_unfused, size, batch),
    )


def _scaled(value: int, size: int, batch: int) -> int:
    return -(-value * size // batch)
