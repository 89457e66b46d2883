"""Small files of the formats that Piper reads."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def tmpc(name: str, forward: Document, backward: Document, time: float = 1) -> Document:
    return {
        "id": name,
        "timePerSample": time,
        "parameterSize": 4,
        "memoryUsageA": 2,
        "memoryUsageB": 8.5,
        "syncTimeFw": forward,
        "syncTimeBw": backward,
    }


def diamond() -> Document:
    """Layers 7 -> {-3, 5} -> 9; the last has two alternatives on two devices."""
    return {
        "maxDevices": 4,
        "maxMemoryPerDevice": 1e9,
        "bandwidth": 100,
        "mbsInBatch": 8,
        "nodes": [
            {"id": 7, "name": "in", "TMPCs": {"1": [tmpc("vanilla", {}, {"-3": 1, "5": 2})]}},
            {"id": -3, "TMPCs": {"1": [tmpc("vanilla", {"7": 3}, {"9": 4})]}},
            {"id": 5, "TMPCs": {"1": [tmpc("vanilla", {"7": 5}, {"9": 6})]}},
            {
                "id": 9,
                "TMPCs": {
                    "2": [
                        tmpc("vanilla", {"-3": 9, "5": 10}, {}),
                        tmpc("activation recomp", {"-3": 9, "5": 10}, {}, 2),
                    ],
                    "1": [tmpc("vanilla", {"5": 8, "-3": 7}, {})],
                    "4": [],
                },
            },
        ],
        "edges": [
            {"sourceId": 7, "destId": -3, "communicationCost": 10},
            {"sourceId": 7, "destId": 5, "communicationCost": 20.5},
            {"sourceId": 5, "destId": 9, "communicationCost": 30},
            {"sourceId": -3, "destId": 9, "communicationCost": 40},
        ],
    }


def placeable(id_: int, backward: int = 0, **more: object) -> Document:
    """A node of a placement workload."""
    return {
        "id": id_,
        "supportedOnFpga": True,
        "cpuLatency": 10,
        "fpgaLatency": 2,
        "isBackwardNode": backward,
        "size": 100,
        **more,
    }


def placement() -> Document:
    """Forward 5 -> {-6, 7} -> 8; backward 18 -> 15 in the colour classes of 8 and 5."""
    return {
        "maxFPGAs": 2,
        "maxCPUs": 1,
        "maxSizePerFPGA": 1e3,
        "nodes": [
            placeable(5, colorClass=2**31 - 1, name="in"),
            placeable(-6, supportedOnFpga=0),
            placeable(7, fpgaLatency=3),
            placeable(8, colorClass=-4, size=0),
            placeable(18, 1, colorClass=-4),
            placeable(15, 1, colorClass=2**31 - 1, fpgaLatency=4.5),
        ],
        "edges": [
            {"sourceId": 5, "destId": -6, "cost": 1},
            {"sourceId": 5, "destId": 7, "cost": 1},
            {"sourceId": -6, "destId": 8, "cost": 0.5},
            {"sourceId": 7, "destId": 8, "cost": 0.25},
            {"sourceId": 8, "destId": 18, "cost": 0},
            {"sourceId": 18, "destId": 15, "cost": 2},
        ],
    }


def split() -> Document:
    """A split of `placement` that leaves its backward nodes to their colour classes."""
    return {"fpgas": [{"nodes": [5, 7]}, {"nodes": [8]}], "cpus": [{"nodes": [-6]}, {"nodes": []}]}


def profiled(node: str, forward: str, backward: str, activation: str, parameters: str) -> str:
    """A line of a PipeDream profile."""
    return (
        f"{node} -- forward_compute_time={forward}, backward_compute_time={backward}, "
        f"activation_size={activation}, parameter_size={parameters}"
    )


PROFILE = "\n".join(
    [
        profiled("node1 -- Input0", "0.000", "0.000", "100.0", "0.000"),
        profiled("node4 -- Embedding(320, 4)", "1.5", "2", "7", "10.0"),
        profiled("node2 -- LSTM(4 -- 4)", "3", "5", "[6.0; 1.0]", "20") + " -- stage_id=3",
        "\tnode1 -- node4",
        "\tnode1 -- node2",
        "\tnode4 -- node2",
        "",
    ]
)


LLAMA: Document = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}

CONFIGS: dict[str, Document] = {
    "llama": LLAMA,
    "gpt2": {"model_type": "gpt2", "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 256, "vocab_size": 512},
    "bert": {
        "model_type": "bert",
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "vocab_size": 512,
        "max_position_embeddings": 128,
    },
    "mixtral": LLAMA | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    "t5": {
        "model_type": "t5",
        "d_model": 128,
        "d_kv": 32,
        "d_ff": 256,
        "num_heads": 4,
        "num_layers": 3,
        "num_decoder_layers": 2,
        "vocab_size": 512,
    },
    "vit": {
        "model_type": "vit",
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "image_size": 64,
        "patch_size": 16,
        "num_channels": 3,
    },
}
"""Hugging Face configurations of small transformers, by their type."""
