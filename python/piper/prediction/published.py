"""Published runs, and what is predicted for them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import msgspec

from piper.costs.cluster import Cluster
from piper.costs.layer import Variant
from piper.formats.huggingface import Wanted, model_from_config
from piper.model import Model
from piper.prediction.configuration import Configuration
from piper.prediction.predict import predict
from piper.prediction.result import Prediction

SEQUENCE = 2048
VOCABULARY = 51200
NODE = 8


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One run of `published.toml`: a GPT model, its configuration, and seconds of an iteration or TFLOP/s."""

    source: Literal["korthikanti", "narayanan"]
    model: str
    hidden: int
    layers: int
    heads: int
    tensor_parallel: int
    pipeline: int
    devices: int
    batch: int
    recompute: Variant
    sequence_parallel: bool
    held_out: bool
    microbatch_size: int | None = None
    virtual_stages: int | None = None
    seconds: float | None = None
    tflops: float | None = None

    @property
    def published(self) -> float:
        """Seconds of an iteration, or TFLOP/s of each device."""
        return self.tflops if self.seconds is None else self.seconds  # type: ignore[return-value]

    @property
    def unit(self) -> str:
        """Of `published`."""
        return "s" if self.seconds is not None else "TFLOP/s"

    def gpt(self) -> Model:
        """The model, microbatches of one sample."""
        keys = {
            "model_type": "gpt2", "n_embd": self.hidden, "n_layer": self.layers, "n_head": self.heads,
            "n_positions": SEQUENCE, "vocab_size": VOCABULARY,
        }  # fmt: skip
        return model_from_config(keys, self.model, self.model, Wanted(dtype="float16"))

    def configuration(self) -> Configuration:
        """How it was trained; what was not published is left open."""
        known = self.microbatch_size is not None
        return Configuration(
            tensor_parallel=self.tensor_parallel,
            pipeline=self.pipeline,
            microbatch_size=self.microbatch_size or "auto",
            global_batch=self.batch,
            recompute=self.recompute,
            sequence_parallel=self.sequence_parallel,
            schedule="auto",
            virtual_stages=self.virtual_stages if known else None,
            attention="unfused",
        )

    def cluster(self) -> Cluster:
        """Nodes of 8 A100 with 80 GB."""
        return Cluster("a100-80gb", nodes=self.devices // NODE, devices_per_node=NODE)


@dataclass(frozen=True, slots=True)
class Check:
    """A run with what is predicted for it."""

    run: Run
    prediction: Prediction

    @property
    def predicted(self) -> float:
        """In the unit of the run."""
        return self.prediction.iteration_time if self.run.seconds is not None else self.prediction.tflops_per_device

    @property
    def error(self) -> float:
        """Relative; positive where the prediction is larger."""
        return self.predicted / self.run.published - 1


def runs() -> tuple[Run, ...]:
    """All published runs, in the order of the file."""
    text = files("piper.prediction").joinpath("published.toml").read_text(encoding="utf-8")
    return tuple(msgspec.convert(tomllib.loads(text)["run"], list[Run]))


def check(run: Run) -> Check:
    """Predict a run."""
    return Check(run, predict(run.gpt(), run.configuration(), run.cluster()))
