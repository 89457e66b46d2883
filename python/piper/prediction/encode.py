"""A prediction as a JSON document."""

from __future__ import annotations

from typing import Any

from piper.prediction.result import PredictedStage, Prediction, StageMemory


def prediction_document(prediction: Prediction) -> dict[str, Any]:
    """The result of ``piper evaluate`` without a plan: seconds, bytes per device."""
    arrangement = prediction.arrangement
    document: dict[str, Any] = {
        "name": prediction.name,
        "feasible": prediction.feasible,
        "iterationTime": prediction.iteration_time,
        "tflopsPerDevice": prediction.tflops_per_device,
        "mfu": prediction.mfu,
        "samplesPerSecond": prediction.samples_per_second,
        "tokensPerSecond": prediction.tokens_per_second,
        "bubble": prediction.bubble,
        "devicesUsed": arrangement.devices,
        "tensorParallelDegree": arrangement.tensor_parallel,
        "pipelineParallelDegree": arrangement.pipeline,
        "dataParallelDegree": arrangement.data_parallel,
        "microbatchSize": arrangement.microbatch_size,
        "microbatches": arrangement.microbatches,
        "globalBatch": arrangement.global_batch,
        "schedule": arrangement.schedule,
        "virtualStages": arrangement.virtual_stages,
        "recompute": prediction.configuration.recompute,
        "memoryPerDevice": prediction.memory_bytes,
        "peakMemory": prediction.peak_memory,
        "memory": [_memory_document(stage.memory) for stage in prediction.stages],
        "stages": [_stage_document(stage) for stage in prediction.stages],
    }
    if prediction.warnings:
        document["warnings"] = list(prediction.warnings)
    return document


def _memory_document(memory: StageMemory) -> dict[str, float]:
    return {
        "weights": memory.weights,
        "gradients": memory.gradients,
        "optimizer": memory.optimizer,
        "activations": memory.activations,
        "reserve": memory.reserve,
        "total": memory.total,
    }


def _stage_document(stage: PredictedStage) -> dict[str, Any]:
    return {
        "layers": list(stage.layers),
        "forward": stage.forward,
        "backward": stage.backward,
        "transfer": stage.transfer,
        "load": stage.load,
        "resync": stage.resync,
        "optimizer": stage.optimizer,
        "inFlight": stage.in_flight,
    }
