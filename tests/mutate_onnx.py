"""Damage to ONNX models that leaves them parseable: fields of wrong values, nodes in wrong places."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.message import Message
from onnx import ModelProto

INTEGERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 0.5, 1e38, float("inf"), float("nan"))
TEXTS = ("", "x", "batch", "Add", "MatMul", "Reshape", "Loop", "Constant", "com.microsoft", "\n", "\u2028", "x" * 500)


def mutated_model(rng: random.Random, seed: bytes) -> bytes:
    """The model with one to three changes somewhere inside."""
    model = ModelProto.FromString(seed)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(rng, model)
    return bytes(model.SerializeToString())


def _change(rng: random.Random, message: Message) -> None:
    """Go down at random, and change what is there."""
    fields = message.ListFields()
    if not fields or rng.random() < 0.02:
        _set(rng, message, rng.choice(message.DESCRIPTOR.fields))
        return
    field, value = rng.choice(fields)
    if field.is_repeated:
        _change_list(rng, field, value)
    elif field.message_type is not None:
        _change(rng, value)
    else:
        _set(rng, message, field)


def _change_list(rng: random.Random, field: Any, values: Any) -> None:
    at, other = rng.randrange(len(values)), rng.randrange(len(values))
    how = rng.random()
    if how < 0.1:
        del values[at]
    elif field.message_type is not None:
        if how < 0.2:
            values.add().CopyFrom(values[at])
        elif how < 0.3:
            values[at].CopyFrom(values[other])
        else:
            _change(rng, values[at])
    elif how < 0.3:
        values.append(values[at])
    elif how < 0.5:
        values[at] = values[other]
    else:
        values[at] = _value(rng, field)


def _set(rng: random.Random, message: Message, field: Any) -> None:
    """Give a single field a new value, or take its value away."""
    if field.is_repeated or field.message_type is not None or rng.random() < 0.2:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _value(rng, field))


def _value(rng: random.Random, field: Any) -> Any:
    """A value that the field's type admits."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        text = rng.choice(TEXTS)
        return text.encode() if field.type == field.TYPE_BYTES else text
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if kind == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind == field.CPPTYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    bits = 32 if kind in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    signed = kind in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return min(high, max(low, rng.choice((*INTEGERS, rng.randrange(0, 40)))))
