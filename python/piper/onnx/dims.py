"""Sizes of the inputs: what the user fixes, what symbols mean, what stays open."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from piper.errors import InputError
from piper.onnx.graph import MAX_DIMENSION, Shape, checked_shape

if TYPE_CHECKING:
    from onnx import TensorShapeProto, ValueInfoProto

_UNNAMED = frozenset({"", "?", "-1", "None", "unk"})
"""Spellings of a dimension that has no name; two of them need not be equal."""


def evaluate(text: str, symbols: Mapping[str, int]) -> int | None:
    """Value of a symbolic size such as ``past_seq + seq`` or ``8*(((height - 1)//8)) + 8``.

    Args:
        text: sums, products, quotients, powers of integers and symbols, and calls of Min, Max and Mod.
        symbols: values of symbols; the whole text may be one, too.

    Returns:
        The size; None if a symbol is unknown or the text is no such expression.
    """
    if text in symbols:
        return symbols[text]
    if len(text) > 500:
        return None
    try:
        return _evaluate(ast.parse(text.strip(), mode="eval").body, symbols)
    except (SyntaxError, ValueError, ArithmeticError, KeyError, RecursionError, MemoryError):
        return None


def free_symbols(text: str) -> list[str]:
    """Symbols of an expression in order; a text that is no expression is one symbol itself."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [text]
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    supported = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.operator, ast.unaryop)
    if not all(isinstance(node, (*supported, ast.expr_context)) for node in ast.walk(tree)):
        return [text]
    return list(dict.fromkeys(name for name in names if name.lower() not in ("min", "max", "mod", "floor")))


def _evaluate(node: ast.expr, symbols: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value) if abs(value) <= MAX_DIMENSION:
            return value
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, symbols)
        case ast.BinOp(left=left, op=operator, right=right):
            return _binary(operator, _evaluate(left, symbols), _evaluate(right, symbols))
        case ast.Call(func=ast.Name(id=name), args=arguments) if arguments:
            values = [_evaluate(argument, symbols) for argument in arguments]
            match name.lower():
                case "min":
                    return min(values)
                case "max":
                    return max(values)
                case "mod" if len(values) == 2:
                    return values[0] % values[1]
                case "floor" if len(values) == 1:
                    return values[0]
    raise ValueError("no expression of sizes")


def _binary(operator: ast.operator, left: int, right: int) -> int:
    if max(abs(left), abs(right)) > 2**64:
        raise ValueError("out of range")
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() | ast.Div():
            return left // right
        case ast.Mod():
            return left % right
        case ast.Pow() if 0 <= right <= 64:
            return int(left**right)
    raise ValueError("no expression of sizes")


@dataclass(slots=True)
class Fixing:
    """Values that the user gave for the open sizes of the inputs, and those that follow from them."""

    dims: Mapping[str, int]
    shapes: Mapping[str, Sequence[int]]
    symbols: dict[str, int] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Name of an unresolved size to the places where it occurs."""


def fix_inputs(inputs: Sequence[ValueInfoProto], fixing: Fixing, where: str) -> dict[str, Shape]:
    """Concrete shapes of `inputs`.

    A size is given by its symbol, or by ``input.axis`` whether it has a symbol or not, or as part of a whole shape.

    Raises:
        InputError: names that do not occur, contradictions, or sizes that stay open (all of them are listed).
    """
    declared = {value.name: list(value.type.tensor_type.shape.dim) for value in inputs}
    _check_names(declared, fixing, where)
    for name, size in fixing.dims.items():
        if size < 0 or size > MAX_DIMENSION:
            raise InputError(f"{where}: dimension {name}={size} is out of range (1 to {MAX_DIMENSION} was expected)")
        fixing.symbols[name] = size
    for name, shape in fixing.shapes.items():
        _bind_shape(name, shape, declared[name], fixing, where)
    result = {}
    for name, dims in declared.items():
        sizes = [_size(name, axis, dim, fixing) for axis, dim in enumerate(dims)]
        if name in fixing.shapes and not dims:
            sizes = list(fixing.shapes[name])
        result[name] = checked_shape(tuple(sizes), f"{where}: input {name!r}")
    if fixing.missing:
        open_names = "; ".join(f"{name} ({', '.join(places)})" for name, places in sorted(fixing.missing.items()))
        some = min(fixing.missing)
        raise InputError(f"{where}: give a size to each open dimension, as --dim {some}=1 does: {open_names}")
    return result


def _check_names(declared: Mapping[str, list[TensorShapeProto.Dimension]], fixing: Fixing, where: str) -> None:
    for name in fixing.shapes:
        if name not in declared:
            raise InputError(
                f"{where}: a shape is given for {name!r}; the inputs are {', '.join(declared) or 'none'}"
            )
    known = {f"{name}.{axis}" for name, dims in declared.items() for axis in range(len(dims))}
    for dims in declared.values():
        for dim in dims:
            known |= {dim.dim_param, *free_symbols(dim.dim_param)} if _symbol(dim) else set()
    for name in fixing.dims:
        if name not in known:
            names = ", ".join(sorted(known - {""}))
            raise InputError(f"{where}: no input has a dimension {name!r}; there are {names or 'none'}")


def _symbol(dim: TensorShapeProto.Dimension) -> str:
    """Symbol of an open dimension; empty where it is unnamed or has a size."""
    return dim.dim_param if dim.HasField("dim_param") and dim.dim_param.strip() not in _UNNAMED else ""


def _bind_shape(
    name: str, shape: Sequence[int], dims: list[TensorShapeProto.Dimension], fixing: Fixing, where: str
) -> None:
    """Take the meaning of symbols from a shape that the user gave."""
    if dims and len(shape) != len(dims):
        raise InputError(f"{where}: input {name!r} has {len(dims)} dimensions, the shape given has {len(shape)}")
    for axis, (size, dim) in enumerate(zip(shape, dims, strict=False)):
        if dim.dim_value > 0 and dim.dim_value != size:
            raise InputError(f"{where}: input {name!r} has size {dim.dim_value} at axis {axis}, not {size}")
        symbol = _symbol(dim)
        if symbol and fixing.symbols.setdefault(symbol, size) != size:
            other = fixing.symbols[symbol]
            raise InputError(
                f"{where}: dimension {symbol!r} is both {other} and {size} (input {name!r}, axis {axis})"
            )


def _size(name: str, axis: int, dim: TensorShapeProto.Dimension, fixing: Fixing) -> int:
    place = f"{name}.{axis}"
    if name in fixing.shapes:
        return int(fixing.shapes[name][axis])
    if place in fixing.dims:
        return fixing.dims[place]
    symbol = _symbol(dim)
    if symbol:
        size = evaluate(symbol, fixing.symbols)
        if size is not None:
            return size
        for free in free_symbols(symbol):
            if free not in fixing.symbols:
                fixing.missing.setdefault(free, []).append(place)
        return 1
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return dim.dim_value
    if dim.HasField("dim_value") and dim.dim_value == 0 and not dim.HasField("dim_param"):
        return 0
    fixing.missing.setdefault(place, []).append(place)
    return 1
