"""From a file to a checked ``ModelProto``: no weights, no surprises.

The file is hostile until proven otherwise: its size, the expansion of its functions, the order and names of its nodes
and the paths of its external tensors are checked here, so that later steps can rely on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from piper.errors import InputError
from piper.onnx.graph import MAX_DATA, Node

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

MAX_FILE_BYTES = 2**31
"""Protocol buffers hold no more."""
MAX_NODES = 1_000_000
"""Nodes of a model with all functions inlined."""


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed model and what was noticed about it."""

    path: Path
    model: ModelProto
    opsets: dict[str, int]
    warnings: tuple[str, ...]

    @property
    def graph(self) -> GraphProto:
        """The main graph."""
        return self.model.graph


def read_source(path: Path) -> Source:
    """Parse and check the file at `path`.

    Raises:
        InputError: it is no ONNX model, or one that no runtime would take.
    """
    model = _parse(path)
    if not model.HasField("graph"):
        raise InputError(f"{path}: no graph in it; expected an ONNX model")
    if not (model.graph.node or model.graph.input or model.graph.output):
        raise InputError(f"{path}: the graph is empty; expected nodes, inputs and outputs")
    warnings: list[str] = []
    opsets = _opsets(model, warnings)
    if model.functions:
        model = _inline(path, model)
    total = sum(1 for _ in _all_nodes(model.graph.node))
    if total > MAX_NODES:
        raise InputError(f"{path}: {total} nodes; expected at most {MAX_NODES}")
    return Source(path, model, opsets, tuple(warnings))


def _parse(path: Path) -> ModelProto:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
    from onnx import ModelProto

    try:
        size = path.stat().st_size
        if size == 0:
            raise InputError(f"{path}: the file is empty; expected an ONNX model")
        if size > MAX_FILE_BYTES:
            raise InputError(
                f"{path}: {size} bytes; an ONNX file has at most 2 GiB, larger weights are external data"
            )
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        model: ModelProto = ModelProto.FromString(content)
    except (DecodeError, UnicodeDecodeError):
        raise InputError(f"{path}: truncated, damaged, or no ONNX model (not a valid protocol buffer)") from None
    return model


def _opsets(model: ModelProto, warnings: list[str]) -> dict[str, int]:
    """Operator set version by domain. Some writers import a domain twice, some forget it."""
    from onnx import defs

    newest = defs.onnx_opset_version()
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if domain in opsets and opsets[domain] != entry.version:
            warnings.append(f"operator set {domain or 'ai.onnx'!r} is imported twice; the newer version counts")
        opsets[domain] = max(opsets.get(domain, 0), entry.version)
    if "" not in opsets:
        opsets[""] = newest
        domains = {node.domain for node in _all_nodes(model.graph.node)}
        if domains & {"", "ai.onnx"}:
            warnings.append(f"no operator set of ai.onnx is imported; version {newest} is assumed")
            model.opset_import.add(domain="", version=newest)
    if opsets[""] > newest:
        warnings.append(f"operator set {opsets['']} is newer than this installation of onnx knows ({newest})")
        opsets[""] = newest
    return opsets


def _all_nodes(nodes: object) -> Iterator[NodeProto]:
    """Nodes with those of their subgraphs; the depth is limited by the protocol buffer itself."""
    for node in nodes:  # type: ignore[attr-defined]
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g.node)
            for graph in attribute.graphs:
                yield from _all_nodes(graph.node)


def _inline(path: Path, model: ModelProto) -> ModelProto:
    """Replace calls of local functions by their bodies, once it is sure that the result is of a sane size."""
    from onnx import checker, inliner

    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    total = sum(_expanded(path, node, functions, sizes, []) for node in _all_nodes(model.graph.node))
    if total > MAX_NODES:
        raise InputError(f"{path}: {total} nodes once its functions are inlined; expected at most {MAX_NODES}")
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, TypeError, checker.ValidationError) as error:
        raise InputError(f"{path}: its local functions cannot be inlined: {one_line(error)}") from None


def _expanded(
    path: Path,
    node: NodeProto,
    functions: dict[tuple[str, str], FunctionProto],
    sizes: dict[tuple[str, str], int],
    stack: list[tuple[str, str]],
) -> int:
    """Nodes that `node` stands for; refuses functions that call themselves."""
    key = (node.domain, node.op_type)
    if key not in functions:
        return 1
    if key in stack or len(stack) > 100:
        raise InputError(f"{path}: function {node.op_type!r} calls itself, or calls are nested over 100 deep")
    if key not in sizes:
        stack.append(key)
        sizes[key] = sum(_expanded(path, inner, functions, sizes, stack) for inner in _all_nodes(functions[key].node))
        stack.pop()
    return sizes[key]


def sorted_nodes(
    graph: GraphProto, opsets: dict[str, int], known_outside: Callable[[str], bool], where: str
) -> list[Node]:
    """Nodes of `graph` in an order in which every value is made before it is read, the file's where it is one.

    Args:
        graph: a main graph or a subgraph.
        opsets: operator set versions by domain.
        known_outside: whether a name is known around the nodes: inputs, initializers, values of outer graphs.
        where: file, and node for a subgraph.

    Raises:
        InputError: a value is made twice or by nobody, or nodes form a cycle.
    """
    nodes = [_node(proto, index, opsets) for index, proto in enumerate(graph.node)]
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    known |= {tensor.values.name for tensor in graph.sparse_initializer} | {""}
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.outputs:
            if name and maker.setdefault(name, index) != index:
                raise InputError(f"{where}: value {name!r} is made by two nodes, the second is {node.name!r}")
    reads = [_reads(node) for node in nodes]
    for node, names in zip(nodes, reads, strict=True):
        for name in names:
            if name not in known and name not in maker and not known_outside(name):
                raise InputError(f"{where}: {node.where} reads {name!r}, which nothing produces")
    for value in graph.output:
        if value.name not in known and value.name not in maker and not known_outside(value.name):
            raise InputError(f"{where}: output {value.name!r} is produced by nothing")
    return _topological(nodes, reads, maker, where)


def _topological(nodes: list[Node], reads: list[set[str]], maker: dict[str, int], where: str) -> list[Node]:
    """Kahn's algorithm; among nodes that are ready, the first of the file."""
    import heapq

    waiting = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for index, names in enumerate(reads):
        for source in {maker[name] for name in names if name in maker}:
            readers[source].append(index)
            waiting[index] += 1
    ready = [index for index, number in enumerate(waiting) if number == 0]
    order: list[Node] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        stuck = [node.name for node, number in zip(nodes, waiting, strict=True) if number > 0]
        names_ = ", ".join(stuck[:5]) + (", ..." if len(stuck) > 5 else "")
        raise InputError(f"{where}: the graph has a cycle, among or before nodes {names_}; expected an acyclic graph")
    return order


def _node(proto: NodeProto, index: int, opsets: dict[str, int]) -> Node:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    name = proto.name or f"{proto.op_type}_{index}"
    return Node(name, proto.op_type, domain, opsets.get(domain, 1), tuple(proto.input), tuple(proto.output), proto)


def _reads(node: Node) -> set[str]:
    """Names that `node` and its subgraphs read from the graph it is in."""
    names = {name for name in node.inputs if name}
    for attribute in node.proto.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            names |= _free_names(graph)
    return names


def _free_names(graph: GraphProto) -> set[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer} | {""}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    free: set[str] = set()
    for index, proto in enumerate(graph.node):
        free |= _reads(_node(proto, index, {}))
        own |= set(proto.output)
    free |= {value.name for value in graph.output}
    return free - own


def external_bytes(source: Source, tensor: TensorProto, size: int) -> bytes | None:
    """The `size` bytes of a small external tensor, or None where its file is not there.

    Raises:
        InputError: its location leads out of the model's folder.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = PurePosixPath(entries.get("location", ""))
    if location.is_absolute() or ".." in location.parts or "\\" in str(location) or "\0" in str(location):
        raise InputError(
            f"{source.path}: tensor {tensor.name!r} lies at {str(location)!r}, outside the model's folder"
        )
    if size > 16 * MAX_DATA:
        return None
    folder = source.path.parent.resolve()
    file = (folder / location).resolve()
    if not file.is_relative_to(folder):
        raise InputError(
            f"{source.path}: tensor {tensor.name!r} lies at {str(location)!r}, outside the model's folder"
        )
    try:
        if not file.is_file():
            return None
        with file.open("rb") as stream:
            stream.seek(max(0, int(entries.get("offset", "0"))))
            content = stream.read(size)
    except (OSError, ValueError, OverflowError):
        return None
    return content if len(content) == size else None


def one_line(error: BaseException) -> str:
    """The text of `error` on one line of bounded length."""
    return " ".join(str(error).split())[:200]
