"""What exporters could write and hostile hands would: small graphs, each for one rule of the ONNX reader."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper
from onnx_graphs import constant, downsets, node, opset, save, value, weight

from piper.errors import InputError
from piper.model import Model, Operator, Partition
from piper.onnx import load_onnx


def operator(loaded: Model, name: str) -> Operator:
    return next(item for item in loaded.operators if item.name == name)


def product(folder: Path, location: str) -> Path:
    """``x @ w`` with the data of ``w`` at `location`."""
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    return save(folder, nodes, [value("x", [2, 4])], ["y"], [weight("w", [4, 4], location=location)])


def attention(q: str, k: str, v: str, out: str) -> list[NodeProto]:
    """Scores, softmax and the sum of values of ``[batch, heads, sequence, head]``."""
    return [
        node("Transpose", [k], ["k_t"], perm=[0, 1, 3, 2]),
        node("MatMul", [q, "k_t"], ["scores"], name="scores"),
        node("Softmax", ["scores"], ["p"], name="softmax"),
        node("MatMul", ["p", v], [out], name="values"),
    ]


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "data/../../weights.bin", "..\\weights.bin"])
def test_weights_outside_of_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    with pytest.raises(InputError, match=r"tensor 'w' lies at .*, outside the model's folder"):
        load_onnx(product(tmp_path, location))


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(np.asarray([4, 2], dtype=np.int64).tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "shape.bin").symlink_to(tmp_path / "secret")
    shape = weight("s", [2], TensorProto.INT64, "shape.bin")
    path = save(folder, [node("Reshape", ["x", "s"], ["y"])], [value("x", [2, 4])], ["y"], [shape])
    with pytest.raises(InputError, match="outside the model's folder"):
        load_onnx(path)


def test_a_shape_in_external_data_is_read(tmp_path: Path) -> None:
    (tmp_path / "shape.bin").write_bytes(np.asarray([4, 2], dtype=np.int64).tobytes())
    shape = weight("s", [2], TensorProto.INT64, "shape.bin")
    path = save(tmp_path, [node("Reshape", ["x", "s"], ["y"])], [value("x", [2, 4])], ["y"], [shape])
    assert load_onnx(path).operators[0].outputs[0].shape == (4, 2)


def test_weights_that_lie_in_a_subfolder_need_not_be_there(tmp_path: Path) -> None:
    assert load_onnx(product(tmp_path, "data/w.bin")).flops == 2 * 2 * 4 * 4


def test_functions_that_multiply_without_end_are_refused(tmp_path: Path) -> None:
    imports = [opset("", 17), opset("local", 1)]
    functions = [helper.make_function("local", "f0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], imports)]
    for level in range(1, 40):
        twice = [node(f"f{level - 1}", [a], [b], domain="local") for a, b in (("a", "c"), ("c", "b"))]
        functions.append(helper.make_function("local", f"f{level}", ["a"], ["b"], twice, imports))
    path = save(tmp_path, [node("f39", ["x"], ["y"], domain="local")], [value("x", [4])], ["y"], functions=functions)
    with pytest.raises(InputError, match="549755813888 nodes once its functions are inlined"):
        load_onnx(path)


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    body = [node("f", ["a"], ["b"], domain="local")]
    function = helper.make_function("local", "f", ["a"], ["b"], body, [opset("local", 1)])
    path = save(tmp_path, [node("f", ["x"], ["y"], domain="local")], [value("x", [4])], ["y"], functions=[function])
    with pytest.raises(InputError, match="function 'f' calls itself"):
        load_onnx(path)


def test_absurd_sizes_are_refused(tmp_path: Path) -> None:
    relu = [node("Relu", ["x"], ["y"])]
    with pytest.raises(InputError, match="input 'x': shape 1099511627776x2 is out of range"):
        load_onnx(save(tmp_path, relu, [value("x", [2**40, 2])], ["y"]))
    with pytest.raises(InputError, match="dimension n=1099511627776 is out of range"):
        load_onnx(save(tmp_path, relu, [value("x", ["n", 2])], ["y"]), dims={"n": 2**40})
    fill = [node("ConstantOfShape", ["s"], ["c"], name="fill"), node("Add", ["x", "c"], ["y"])]
    path = save(tmp_path, fill, [value("x", [2])], ["y"], [constant("s", [2**40, 2**10])])
    with pytest.raises(InputError, match=r"node 'fill' \(ConstantOfShape\), output 'c': shape .* is out of range"):
        load_onnx(path)


def test_symbolic_expressions_are_evaluated(tmp_path: Path) -> None:
    sizes = ["past + seq", "8*(((seq - 1)//8)) + 8", "Min(512, seq)"]
    path = save(tmp_path, [node("Relu", ["x"], ["y"])], [value("x", sizes)], ["y"])
    assert load_onnx(path, dims={"past": 3, "seq": 17}).inputs[0].shape == (20, 24, 17)
    with pytest.raises(InputError, match=r"past \(x\.0\); seq \(x\.0, x\.1, x\.2\)"):
        load_onnx(path)


def test_dimensions_without_a_name_are_given_by_place(tmp_path: Path) -> None:
    path = save(tmp_path, [node("Relu", ["x"], ["y"])], [value("x", ["?", "?", None])], ["y"])
    assert load_onnx(path, dims={"x.0": 2, "x.1": 3, "x.2": 4}).inputs[0].shape == (2, 3, 4)
    with pytest.raises(InputError, match=r"x\.0 \(x\.0\); x\.1 \(x\.1\); x\.2 \(x\.2\)"):
        load_onnx(path)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"dims": {"m": 1}}, "no input has a dimension 'm'; there are n, x.0, x.1"),
        ({"shapes": {"z": (1, 2)}}, "a shape is given for 'z'; the inputs are x"),
        ({"shapes": {"x": (1,)}}, "input 'x' has 2 dimensions, the shape given has 1"),
        ({"shapes": {"x": (1, 3)}}, "input 'x' has size 2 at axis 1, not 3"),
        ({"dims": {"n": 3}, "shapes": {"x": (4, 2)}}, "dimension 'n' is both 3 and 4"),
        ({"dims": {"n": -1}}, "dimension n=-1 is out of range"),
        ({"dims": {"n": 1}, "dtype": "float12"}, "dtype 'float12' is unknown"),
    ],
)
def test_wrong_options_say_what_there_is(tmp_path: Path, options: dict[str, object], line: str) -> None:
    path = save(tmp_path, [node("Relu", ["x"], ["y"])], [value("x", ["n", 2])], ["y"])
    with pytest.raises(InputError) as raised:
        load_onnx(path, **options)  # type: ignore[arg-type]
    assert line in str(raised.value)


def test_counts_that_depend_on_data_are_assumptions(tmp_path: Path) -> None:
    nodes = [
        node("NonZero", ["x"], ["nz"]),
        node("NonMaxSuppression", ["boxes", "scores", "limit"], ["picked"]),
    ]
    inputs = [value("x", [4, 5]), value("boxes", [1, 100, 4]), value("scores", [1, 3, 100])]
    path = save(tmp_path, nodes, inputs, ["nz", "picked"], [constant("limit", [10])])
    loaded = load_onnx(path)
    assert [item.outputs[0].shape for item in loaded.operators] == [(2, 20), (30, 3)]
    assert [text.split(":")[0] for text in loaded.assumptions] == ["nz.1 = 20", "picked.0 = 30"]
    changed = load_onnx(path, assumptions={"nz.1": 7})
    assert changed.operators[0].outputs[0].shape == (2, 7)


def test_nodes_may_come_in_any_order(tmp_path: Path) -> None:
    nodes = [node("Relu", ["b"], ["y"]), node("Tanh", ["a"], ["b"]), node("Exp", ["x"], ["a"])]
    loaded = load_onnx(save(tmp_path, nodes, [value("x", [2])], ["y"]))
    assert [item.op_type for item in loaded.operators] == ["Exp", "Tanh", "Relu"]
    assert [item.name for item in loaded.operators] == ["Exp_2", "Tanh_1", "Relu_0"]


def test_a_weight_in_another_layout_is_the_weight(tmp_path: Path) -> None:
    nodes = [
        node("Gather", ["table", "ids"], ["x"]),
        node("Transpose", ["table"], ["turned"]),
        node("MatMul", ["x", "turned"], ["y"], name="head"),
    ]
    path = save(tmp_path, nodes, [value("ids", [1, 8], TensorProto.INT64)], ["y"], [weight("table", [32000, 64])])
    loaded = load_onnx(path)
    assert operator(loaded, "head").weights[0].name == "table"
    assert loaded.weight_bytes == 4 * 32000 * 64


def test_tensors_at_the_same_place_are_one_parameter(tmp_path: Path) -> None:
    first, second = weight("a", [64, 64]), weight("b", [64, 64])
    for tensor in (first, second):
        tensor.external_data.add(key="offset", value="4096")
    nodes = [node("MatMul", ["x", "a"], ["h"]), node("MatMul", ["h", "b"], ["y"])]
    loaded = load_onnx(save(tmp_path, nodes, [value("x", [1, 64])], ["y"], [first, second]))
    assert (loaded.weight_bytes, loaded.initializer_bytes) == (4 * 64 * 64, 2 * 4 * 64 * 64)


def test_one_product_for_query_key_and_value_is_divided_by_heads(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w_qkv"], ["product"], name="qkv"),
        node("Reshape", ["product", "apart"], ["five"]),
        node("Transpose", ["five"], ["parts"], perm=[2, 0, 3, 1, 4]),
        *(node("Gather", ["parts", f"i{place}"], [name], axis=0) for place, name in enumerate("qkv")),
        *attention("q", "k", "v", "mixed"),
        node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "flat"], ["rows"]),
        node("MatMul", ["rows", "w_out"], ["projected"], name="out"),
        node("Add", ["x", "projected"], ["y"]),
    ]
    constants = [constant("apart", [0, 64, 3, 8, 32]), constant("flat", [0, 64, 256])]
    constants += [constant(f"i{place}", place) for place in range(3)]
    weights = [weight("w_qkv", [256, 768]), weight("w_out", [256, 256])]
    path = save(tmp_path, nodes, [value("x", [2, 64, 256])], ["y"], [*weights, *constants])
    loaded = load_onnx(path)
    kinds = {name: operator(loaded, name).partition for name in ("qkv", "scores", "softmax", "values", "out")}
    assert list(kinds.values()) == [Partition.COLUMN, *[Partition.SHARDED] * 3, Partition.ROW]
    assert loaded.layers[0].degrees == (1, 2, 4, 8)


def test_a_product_that_cannot_be_followed_stays_whole(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["h"], name="first"),
        node("LayerNormalization", ["h", "g"], ["n"]),
        node("MatMul", ["n", "u"], ["o"], name="second"),
        node("Add", ["x", "o"], ["y"]),
    ]
    weights = [weight("w", [64, 256]), weight("g", [256]), weight("u", [256, 64])]
    loaded = load_onnx(save(tmp_path, nodes, [value("x", [1, 8, 64])], ["y"], weights))
    assert {item.partition for item in loaded.operators} == {Partition.REPLICATED}


def quantised(name: str, source: str, out: str, rows: int, columns: int) -> tuple[NodeProto, list[TensorProto]]:
    """A product with weights of 4 bits in blocks of 32."""
    stored = weight(f"{name}.weight", [columns, rows // 32, 16], TensorProto.UINT8)
    scales = weight(f"{name}.scales", [columns * rows // 32])
    inputs = [source, stored.name, scales.name]
    product = node(
        "MatMulNBits", inputs, [out], name=name, domain="com.microsoft", K=rows, N=columns, bits=4, block_size=32
    )
    return product, [stored, scales]


def test_contributed_operators_have_shapes_counts_and_partitions(tmp_path: Path) -> None:
    parts = [quantised(name, "x", name, 256, columns) for name, columns in (("q", 256), ("k", 64), ("v", 64))]
    parts.append(quantised("out", "mixed", "projected", 256, 256))
    group = node(
        "GroupQueryAttention",
        ["q", "k", "v", "past_k", "past_v", "lengths", "total"],
        ["mixed", "present_k", "present_v"],
        name="attention",
        domain="com.microsoft",
        num_heads=8,
        kv_num_heads=2,
    )
    nodes = [*(part for part, _ in parts[:3]), group, parts[3][0], node("Add", ["x", "projected"], ["y"])]
    initializers = [tensor for _, tensors in parts for tensor in tensors]
    initializers += [constant("lengths", [127], np.int32), constant("total", 128, np.int32)]
    inputs = [value("x", [1, 128, 256]), value("past_k", [1, 2, 64, 32]), value("past_v", [1, 2, 64, 32])]
    path = save(tmp_path, nodes, inputs, ["y", "present_k", "present_v"], initializers)
    loaded = load_onnx(path)
    core = operator(loaded, "attention")
    assert [tensor.shape for tensor in core.outputs] == [(1, 128, 256), (1, 2, 192, 32), (1, 2, 192, 32)]
    assert core.flops == 2 * 2 * 8 * 128 * 192 * 32
    assert operator(loaded, "q").flops == 2 * 128 * 256 * 256
    assert operator(loaded, "q").weight_bytes == 256 * 256 // 2 + 4 * 256 * 256 // 32
    assert loaded.layers[0].degrees == (1, 2)
    assert (core.partition, operator(loaded, "out").partition) == (Partition.SHARDED, Partition.ROW)


def test_einsum_counts_what_it_contracts(tmp_path: Path) -> None:
    nodes = [node("Einsum", ["x", "w"], ["y"], equation="...sh,hnd->...nsd")]
    loaded = load_onnx(save(tmp_path, nodes, [value("x", [3, 64, 256])], ["y"], [weight("w", [256, 8, 32])]))
    assert loaded.operators[0].outputs[0].shape == (3, 8, 64, 32)
    assert loaded.flops == 2 * 3 * 64 * 256 * 8 * 32


def test_a_scan_costs_its_body_for_each_step(tmp_path: Path) -> None:
    inner = [
        node("MatMul", ["state", "w"], ["m"]),
        node("Add", ["m", "item"], ["next"]),
        node("Identity", ["next"], ["out"]),
    ]
    ends = [value("next", [1, 8]), value("out", [1, 8])]
    body = helper.make_graph(inner, "body", [value("state", [1, 8]), value("item", [1, 8])], ends)
    nodes = [node("Scan", ["start", "items"], ["last", "all"], body=body, num_scan_inputs=1)]
    inputs = [value("start", [1, 8]), value("items", [20, 1, 8])]
    loaded = load_onnx(save(tmp_path, nodes, inputs, ["last", "all"], [weight("w", [8, 8])]))
    assert [tensor.shape for tensor in loaded.operators[0].outputs] == [(1, 8), (20, 1, 8)]
    assert (loaded.flops, loaded.weight_bytes) == (20 * 2 * 8 * 8, 4 * 8 * 8)


def test_skip_connections_do_not_glue_a_network_together(tmp_path: Path) -> None:
    # A U-Net: the first half of the blocks send their results to the second half, last one first.
    depth, current = 16, "x"
    weights: list[TensorProto] = []
    nodes: list[NodeProto] = []
    skips: list[str] = []
    for block in range(2 * depth):
        if block >= depth:
            nodes.append(node("Add", [current, skips.pop()], [f"joined{block}"]))
            current = f"joined{block}"
        weights.append(weight(f"w{block}", [64, 64]))
        nodes += [node("MatMul", [current, f"w{block}"], [f"m{block}"]), node("Relu", [f"m{block}"], [f"r{block}"])]
        current = f"r{block}"
        if block < depth:
            skips.append(current)
    loaded = load_onnx(save(tmp_path, nodes, [value("x", [8, 64])], [current], weights))
    assert len(loaded.layers) >= depth
    assert all(edge.source < edge.target for edge in loaded.edges)


def test_sequences_with_known_places_are_seen_through(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=1, keepdims=0),
        node("SequenceAt", ["parts", "first"], ["a"], name="at"),
        node("SequenceAt", ["parts", "last"], ["b"]),
        node("SequenceConstruct", ["a", "b"], ["pair"]),
        node("ConcatFromSequence", ["pair"], ["y"], axis=0, new_axis=1, name="concat"),
    ]
    constants = [constant("first", 0), constant("last", -1)]
    loaded = load_onnx(save(tmp_path, nodes, [value("x", [2, 3, 8])], ["y"], constants))
    assert operator(loaded, "at").outputs[0].shape == (2, 8)
    assert operator(loaded, "concat").outputs[0].shape == (2, 2, 8)
    assert loaded.assumptions == ()


def test_one_expert_of_a_one_hot_choice_gets_its_share_of_the_tokens(tmp_path: Path) -> None:
    nodes = [
        node("OneHot", ["choice", "experts", "values"], ["hot"]),
        node("Transpose", ["hot"], ["by_expert"], perm=[2, 1, 0]),
        node("Gather", ["by_expert", "third"], ["mask"], axis=0),
        node("NonZero", ["mask"], ["tokens"]),
    ]
    constants = [constant("experts", 8), constant("values", [0, 1]), constant("third", 3)]
    path = save(tmp_path, nodes, [value("choice", [64, 2], TensorProto.INT64)], ["tokens"], constants)
    loaded = load_onnx(path)
    assert loaded.operators[-1].outputs[0].shape == (2, 2 * 64 // 8)
    assert loaded.assumptions[0].startswith("tokens.1 = 16: ")


@pytest.mark.parametrize("seed", range(6))
def test_any_graph_becomes_an_acyclic_graph_of_layers_that_can_be_solved(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    reach, size = rng.choice((2, 5, 40, 400)), 400
    nodes = [node("MatMul", ["x", "w"], ["v0"])]
    for place in range(1, size):
        first, second = (f"v{rng.randrange(max(0, place - reach), place)}" for _ in range(2))
        product = rng.random() < 0.5
        nodes.append(node("MatMul" if product else "Add", [first, "w" if product else second], [f"v{place}"]))
    unread = {name for item in nodes for name in item.output} - {name for item in nodes for name in item.input}
    path = save(tmp_path, nodes, [value("x", [4, 64])], sorted(unread), [weight("w", [64, 64])])
    loaded = load_onnx(path)
    assert all(edge.source < edge.target for edge in loaded.edges)
    assert sorted(place for layer in loaded.layers for place in layer.operators) == list(range(size))
    assert downsets(loaded) <= 5_000


def test_towers_side_by_side_are_coarsened_until_they_can_be_solved(tmp_path: Path) -> None:
    depth, nodes, weights = 100, [], []
    for tower in "abc":
        for place in range(depth):
            source = f"{tower}{place}" if place else "x"
            weights.append(weight(f"w{tower}{place}", [64, 64]))
            nodes.append(node("MatMul", [source, f"w{tower}{place}"], [f"{tower}{place + 1}"]))
    nodes.append(node("Sum", [f"{tower}{depth}" for tower in "abc"], ["y"]))
    loaded = load_onnx(save(tmp_path, nodes, [value("x", [4, 64])], ["y"], weights))
    assert len(loaded.layers) > 10
    assert downsets(loaded) <= 5_000
