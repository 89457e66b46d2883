"""Names of layers and blocks, from what exporters write where they write something."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from piper.onnx.graph import Kind, Step
from piper.onnx.rules import flops, rule_of, weights

_GENERATED = re.compile(r"^(onnx::|val_|_?const|[A-Za-z]+_\d+$)")


def layer_name(steps: Sequence[Step]) -> str:
    """The module that the operators of a layer have in common, such as ``model.layers.0``; empty if there is none."""
    parameters = [weight.name for step in steps if step.kind is Kind.LIVE for weight in weights(step)]
    by_weight = _common(_path(name, ".") for name in parameters if "." in name and not _GENERATED.match(name))
    by_node = _common(
        _path(step.node.name.strip("/"), "/") for step in steps if flops(step) and step.node.name.startswith("/")
    )
    return max(by_weight, by_node, key=len)


def kind_of(steps: Sequence[Step], text_out: bool) -> str:
    """What sort of block the operators of a layer are.

    Args:
        steps: of one layer.
        text_out: whether the network reads token numbers and scores a vocabulary.
    """
    attention = sum(rule.name == "attention" for step in steps if (rule := rule_of(step)) is not None)
    attention += sum(step.node.op_type == "Softmax" for step in steps)
    rules = {rule.name for step in steps if flops(step) and (rule := rule_of(step)) is not None}
    if attention and rules & {"matmul", "attention", "einsum"}:
        names = " ".join(step.node.name.lower() for step in steps)
        if "convolution" in rules:
            return "TransformerBlock"
        if "encoder" in names and "decoder" not in names:
            return "EncoderLayer"
        return "DecoderLayer" if text_out else "EncoderLayer"
    if "convolution" in rules:
        return "ConvBlock"
    return "RecurrentBlock" if "recurrent" in rules else "MLP" if rules else "Block"


def unique(names: Iterable[str]) -> list[str]:
    """`names` with a number after each that has occurred before."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


def _path(name: str, separator: str) -> list[str]:
    """The modules around a parameter or operator."""
    return name.split(separator)[:-1]


def _common(paths: Iterable[list[str]]) -> str:
    """Longest common beginning, with dots."""
    everything = list(paths)
    if not everything:
        return ""
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*everything, strict=False))
    return ".".join(parts[0] for parts in shared)
