from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Literal

import pytest

from piper import _core
from piper.costs import Cluster, device, device_names, operator_seconds, workload_from_model
from piper.costs.collectives import Link, all_reduce, ring_all_reduce, tree_all_reduce
from piper.costs.roofline import Kernel, kernel_seconds, matmul_rate
from piper.errors import InputError
from piper.formats import builtin
from piper.formats.huggingface import Wanted, model_from_config
from piper.model import Model, ModelEdge, ModelLayer, Operator, Partition, Tensor
from piper.workload import Limits, Tmpc, Workload

A100 = Cluster("a100-80gb", nodes=2, devices_per_node=8)
SEQUENCE, HIDDEN, HEADS = 2048, 6144, 64


def gpt(batch: int = 4, layers: int = 2, dtype: str = "float16") -> Model:
    """Layers of the model with 22 billion parameters of Korthikanti et al., 2022, table 3."""
    keys = {
        "model_type": "gpt2", "n_embd": HIDDEN, "n_layer": layers, "n_head": HEADS, "n_positions": SEQUENCE,
        "vocab_size": 51200,
    }  # fmt: skip
    return model_from_config(keys, "gpt", "gpt", Wanted(microbatch_size=batch, dtype=dtype))


def layer(workload: Workload, degree: int, number: int = 1) -> dict[str, Tmpc]:
    return {tmpc.id: tmpc for tmpc in workload.layers[number].tmpcs[degree]}


@pytest.mark.parametrize("degree", [1, 8])
@pytest.mark.parametrize("attention", ["fused", "unfused"])
def test_activations_are_those_of_the_published_table(degree: int, attention: Literal["fused", "unfused"]) -> None:
    # Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, table 2.
    batch = 4
    unit = SEQUENCE * batch * HIDDEN
    scores = 5 * HEADS * SEQUENCE / HIDDEN / degree if attention == "unfused" else 0
    alternatives = layer(workload_from_model(gpt(batch), A100, attention=attention), degree)
    assert alternatives["vanilla"].memory_per_microbatch == pytest.approx(unit * (10 + 24 / degree + scores))
    assert alternatives["full recomp"].memory_per_microbatch == 2 * unit
    if attention == "unfused":
        assert alternatives["selective recomp"].memory_per_microbatch == pytest.approx(unit * (10 + 24 / degree))
    else:
        assert "selective recomp" not in alternatives


@pytest.mark.parametrize("degree", [1, 8])
def test_parameters_take_sixteen_bytes_each(degree: int) -> None:
    model = gpt()
    shared = layer(workload_from_model(model, A100), degree)["vanilla"]
    weights = {w.name: w for position in model.layers[1].operators for w in model.operators[position].weights}
    whole = sum(w.elements for w in weights.values())
    # Norms, and the biases after row-parallel products, are on every device.
    copied = 6 * HIDDEN
    elements = (whole - copied) / degree + copied
    assert shared.memory_fixed == pytest.approx(16 * elements)
    assert shared.weight_bytes == pytest.approx(2 * elements)


def test_parameters_in_32_bit() -> None:
    model = gpt(dtype="float32")
    tmpc = layer(workload_from_model(model, A100), 1)["vanilla"]
    elements = sum(w.elements for i in model.layers[1].operators for w in model.operators[i].weights)
    assert tmpc.memory_fixed == 16 * elements
    assert tmpc.weight_bytes == 4 * elements


def test_the_optimizer_state_can_be_shared_out() -> None:
    whole = layer(workload_from_model(gpt(), A100), 2)["vanilla"]
    parts = layer(workload_from_model(gpt(), A100, optimizer_sharding=True), 2)["vanilla"]
    assert whole.memory_sharded == 0
    assert parts.memory_fixed + parts.memory_sharded == whole.memory_fixed
    assert parts.memory_sharded == pytest.approx(0.75 * whole.memory_fixed)


def test_recomputation_trades_time_for_memory() -> None:
    alternatives = layer(workload_from_model(gpt(), A100, attention="unfused"), 8)
    vanilla, selective, full = (alternatives[name] for name in ("vanilla", "selective recomp", "full recomp"))
    assert vanilla.time < selective.time < full.time
    assert vanilla.memory_per_microbatch > selective.memory_per_microbatch > full.memory_per_microbatch
    for other in (selective, full):
        # With one microbatch in flight nothing is saved: it is there once while it is recomputed.
        assert other.memory_fixed + other.memory_per_microbatch == pytest.approx(
            vanilla.memory_fixed + vanilla.memory_per_microbatch
        )


@pytest.mark.parametrize(
    ("variant", "milliseconds"), [("vanilla", 19.6), ("selective recomp", 20.9), ("full recomp", 27.2)]
)
def test_time_of_a_layer_is_near_the_measured_one(variant: str, milliseconds: float) -> None:
    # Korthikanti et al., 2022, table 4: forward and backward of one layer of the 22B model on 8 A100.
    workload = workload_from_model(gpt(4), A100, attention="unfused")
    assert 1e3 * layer(workload, 8)[variant].time == pytest.approx(milliseconds, rel=0.1)


def test_equal_layers_have_equal_numbers() -> None:
    workload = workload_from_model(builtin.load("llama3-8b"), A100)
    assert len({repr(item.tmpcs) for item in workload.layers[1:-1]}) == 1


def test_all_layers_are_offered_at_the_degrees_of_the_blocks() -> None:
    # BERT's vocabulary, and the classes of a vision transformer, go with any degree.
    for name, degrees in [("bert-base", {1, 2, 4}), ("bert-large", {1, 2, 4, 8}), ("vit-large", {1, 2, 4, 8})]:
        workload = workload_from_model(builtin.load(name), A100)
        blocks = {tuple(item.tmpcs) for item in workload.layers[1:-1]}
        assert blocks == {tuple(sorted(degrees))}
        assert degrees <= set(workload.layers[0].tmpcs)
        assert degrees <= set(workload.layers[-1].tmpcs)


def test_a_layer_is_not_divided_in_part() -> None:
    # 25 heads: attention cannot be divided by 8, although the feed-forward network could.
    workload = workload_from_model(builtin.load("gpt2-xl"), A100)
    assert set(workload.layers[1].tmpcs) == {1}


def test_groups_lie_in_a_node() -> None:
    model = builtin.load("bert-large")
    assert set(workload_from_model(model, Cluster("h100-80gb", 3, 6)).layers[1].tmpcs) == {1, 2}
    assert set(workload_from_model(model, A100, max_tensor_parallel=4).layers[1].tmpcs) == {1, 2, 4}


def test_a_tied_embedding_is_paid_for_once() -> None:
    model = builtin.load("gpt2")
    workload = workload_from_model(model, A100)
    table = 2 * 50257 * 768
    (tie,) = workload.ties
    assert tie.layers == (0, len(model.layers) - 1)
    assert tie.costs[1].weight_bytes == table
    assert tie.costs[1].memory_fixed == 8 * table
    assert tie.costs[2].weight_bytes == table / 2
    total = sum(item.tmpcs[1][0].weight_bytes for item in workload.layers)
    assert total == 2 * model.parameters
    assert not workload_from_model(builtin.load("llama3-8b"), A100).ties


def test_a_shared_table_ties_encoder_decoder_and_head() -> None:
    workload = workload_from_model(builtin.load("t5-11b"), A100)
    names = [item.name for item in workload.layers]
    (tie,) = workload.ties
    assert [names[position] for position in tie.layers] == ["encoder.embedding", "decoder.embedding", "head"]


def test_defaults_of_a_workload() -> None:
    model = builtin.load("llama3-8b")
    workload = workload_from_model(model, A100)
    assert workload.devices == 16
    assert workload.microbatches == 128
    assert workload.memory_bytes == 80 * 2**30
    assert workload.reserve_bytes == pytest.approx(0.06 * workload.memory_bytes)
    assert (workload.transfer, workload.time_unit) == ("tensor", "s")
    assert (workload.samples_per_microbatch, workload.tokens_per_microbatch) == (1, 4096)
    assert workload.flops_per_microbatch == 3 * model.flops
    assert workload.peak_flops_per_device == 312e12
    assert workload.network.devices_per_node == 8
    assert workload.network.resync_factor == 2


@pytest.mark.parametrize("name", builtin.names())
def test_built_in_models_are_planned_and_judged(name: str) -> None:
    workload = workload_from_model(builtin.load(name), Cluster("h100-80gb", nodes=64, devices_per_node=8))
    solution = _core.solve(workload, Limits(), "async")
    assert solution.status == "done"
    assert solution.stages
    # Nothing runs faster than the peak of all devices.
    assert workload.flops_per_microbatch is not None
    assert solution.lower_bound > workload.flops_per_microbatch / (512 * 989.4e12)


def test_a_type_without_a_rate_is_reported() -> None:
    model = builtin.load("bert-large")
    workload = workload_from_model(model, Cluster("v100-32gb"))
    assert workload.warnings == (
        "v100-32gb has no bfloat16 arithmetic: its products are costed at the rate of a wider type",
    )
    half = workload_from_model(builtin.load("bert-large", dtype="float16"), Cluster("v100-32gb"))
    assert not half.warnings
    assert half.layers[1].tmpcs[1][0].time < 0.5 * workload.layers[1].tmpcs[1][0].time


def product(name: str, partition: Partition, size: int = 4096) -> Operator:
    tensor = Tensor(f"{name}.weight", "bfloat16", (size, size))
    width = 2 * size * size
    return Operator(
        name,
        "MatMul",
        "test",
        2 * size**3,
        width,
        width,
        (tensor,),
        saved_bytes=width,
        partition=partition,
        divides=64,
    )


def between(partition: Partition) -> Operator:
    return Operator("between", "Add", "test", 0, 2**20, 2**20, partition=partition, divides=64)


def seconds(*operators: Operator, degree: int = 8) -> float:
    layers = (ModelLayer("only", tuple(range(len(operators))), degrees=(1, degree), input_bytes=2**30),)
    model = Model("test", operators, layers, ())
    tmpcs = workload_from_model(model, Cluster("a100-80gb", 1, 8)).layers[0].tmpcs[degree]
    return tmpcs[0].time


def test_products_of_one_input_share_the_sum_of_its_gradient() -> None:
    column, row = Partition.COLUMN, Partition.ROW
    link = Link(0.85 * 300e9, 2e-6)
    one_sum = all_reduce(2 * 4096**2, 8, link)
    alone = seconds(product("a", column)) - one_sum
    assert seconds(product("a", row)) == pytest.approx(alone + one_sum)
    together = seconds(product("q", column), product("k", column))
    assert together == pytest.approx(2 * alone + one_sum)
    divided = seconds(between(Partition.SHARDED)) + seconds(product("q", column), product("k", column))
    assert seconds(product("q", column), between(Partition.SHARDED), product("k", column)) == pytest.approx(divided)
    whole = seconds(between(Partition.REPLICATED), degree=1) + 2 * (alone + one_sum)
    assert seconds(product("q", column), between(Partition.REPLICATED), product("k", column)) == pytest.approx(whole)


def test_weights_that_are_not_trained_cost_neither_gradient_nor_optimizer() -> None:
    trained, frozen = product("a", Partition.REPLICATED), replace(product("b", Partition.REPLICATED), trainable=False)
    layers = (ModelLayer("a", (0,)), ModelLayer("b", (1,)))
    model = Model("test", (trained, frozen), layers, (ModelEdge(0, 1, 10),))
    first, second = (item.tmpcs[1][0] for item in workload_from_model(model, A100).layers)
    assert (first.memory_fixed, second.memory_fixed) == (16 * 4096**2, 2 * 4096**2)
    assert second.weight_bytes == 0
    assert second.time < first.time
    assert (first.sync_backward, second.sync_forward) == ((0.0,), (0.0,))


def test_a_view_costs_nothing_and_a_look_up_not_the_whole_table() -> None:
    model = builtin.load("gpt2")
    by_name = dict(zip((o.name for o in model.operators), operator_seconds(model, device("t4")), strict=True))
    assert by_name["layer.0.self_attention.heads"] == 0
    assert by_name["embedding.words"] < 0.2 * 2 * 50257 * 768 / 320e9


def test_fused_attention_moves_no_scores() -> None:
    fused, unfused = (
        layer(workload_from_model(gpt(), A100, attention=a), 1)["vanilla"].time for a in ("fused", "unfused")
    )
    assert fused < 0.95 * unfused


def test_a_kernel_takes_the_longer_of_arithmetic_and_traffic() -> None:
    a100 = device("a100-80gb")
    assert kernel_seconds(Kernel(0, 0, "float16"), a100) == 0
    traffic = kernel_seconds(Kernel(0, 1e9, "float16"), a100)
    assert traffic == pytest.approx(1e9 / (0.66 * 2039e9) + 4e-6)
    assert kernel_seconds(Kernel(1e6, 1e9, "float16"), a100) == traffic
    assert kernel_seconds(Kernel(1e15, 1e9, "float16"), a100) == pytest.approx(1e15 / (0.78 * 312e12), rel=0.001)


def test_larger_products_reach_higher_rates() -> None:
    h100 = device("h100-80gb")
    rates = [matmul_rate(h100, "bfloat16", 2.0 * size**3) for size in (128, 512, 1024, 4096, 16384)]
    assert all(small < large for small, large in pairwise(rates))
    assert rates[0] < 0.01 * 989.4e12
    assert 0.6 * 989.4e12 < rates[-1] < 989.4e12


def test_small_sums_take_the_tree_and_large_ones_the_ring() -> None:
    link = Link(25e9, 5e-6)
    assert all_reduce(1e9, 1, link) == 0
    assert all_reduce(1e3, 64, link) == tree_all_reduce(1e3, 64, link) < ring_all_reduce(1e3, 64, link)
    assert all_reduce(1e10, 64, link) == ring_all_reduce(1e10, 64, link) < tree_all_reduce(1e10, 64, link)
    assert ring_all_reduce(1e10, 4, link) == pytest.approx(1.5 * 1e10 / 25e9, rel=1e-3)


@pytest.mark.parametrize("name", device_names())
def test_every_device_has_sane_numbers(name: str) -> None:
    spec = device(name)
    assert 1e9 < spec.memory_bytes < 1e12
    assert 1e9 < spec.network_bandwidth <= spec.link_bandwidth < spec.memory_bandwidth
    assert all(1e12 <= rate < 1e17 for _, rate in spec.flops)
    assert spec.peak("float64") <= spec.peak("float32") <= spec.peak("bfloat16") <= spec.peak("float8")
    efficiencies = (spec.family.matmul_efficiency, spec.family.memory_efficiency, spec.family.link_efficiency)
    assert all(0.3 < share < 1 for share in efficiencies)
    assert spec.source


def test_devices_have_short_names() -> None:
    assert device("H100").name == "h100-80gb"
    assert Cluster("a100").device == "a100-80gb"


def test_an_unknown_device_is_answered_with_similar_ones() -> None:
    with pytest.raises(InputError, match=r"similar names: .*h100-80gb"):
        device("h100-80g")
    with pytest.raises(InputError, match="'abacus' is no device of the catalogue; expected one of v100-16gb"):
        device("abacus")


def test_clusters_are_read_as_they_are_written() -> None:
    cluster = Cluster.parse(" 16X8:H100-80gb ")
    assert cluster == Cluster("h100-80gb", nodes=16, devices_per_node=8)
    assert str(cluster) == "16x8:h100-80gb"
    assert cluster.devices == 128
    assert Cluster.parse("t4").devices == 1


@pytest.mark.parametrize(
    "text",
    ["", "16x8", "x8:t4", "0x8:t4", "8:t4", "-1x8:t4", "1x8:", "1x8:abacus", "99999999x9:t4", "1" * 99 + "x1:t4"],
)
def test_what_is_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(InputError) as raised:
        Cluster.parse(text)
    assert str(raised.value).isprintable()


def test_numbers_of_a_cluster_can_be_overridden() -> None:
    plain = Cluster("a100-80gb", 2, 8)
    other = Cluster("a100-80gb", 2, 8, memory=40e9, bandwidth=10e9)
    assert other.memory_bytes == 40e9
    assert other.network == replace(plain.network, stage_bandwidth=10e9, data_parallel_bandwidth_between=10e9)
    one = Cluster("a100-80gb", 1, 8)
    assert one.network.stage_bandwidth == one.network.data_parallel_bandwidth_within
    assert (
        plain.network.stage_bandwidth == plain.network.data_parallel_bandwidth_between < one.network.stage_bandwidth
    )
    for number in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="memory"):
            Cluster("a100-80gb", memory=number)


@pytest.mark.parametrize(("devices", "nodes"), [(1, 1), (8, 1), (6, 1), (64, 8), (12, 3), (9, 9)])
def test_a_number_of_devices_fills_nodes(devices: int, nodes: int) -> None:
    cluster = Cluster.of("t4", devices)
    assert (cluster.devices, cluster.nodes) == (devices, nodes)


def test_impossible_settings_are_refused() -> None:
    model = builtin.load("gpt2")
    for count in (0, -1, 2**31):
        with pytest.raises(InputError, match="microbatches"):
            workload_from_model(model, A100, microbatches=count)
    with pytest.raises(InputError, match="attention"):
        workload_from_model(model, A100, attention="flash")  # type: ignore[arg-type]
