"""``piper evaluate`` without a result: options of a configuration, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from piper.cli.options import COUNT, together
from piper.cli.subject import cluster_argument, reading_arguments
from piper.cli.values import Parsed
from piper.errors import InputError

if TYPE_CHECKING:
    from piper.prediction import Prediction


def count_or_auto(text: str) -> int | Literal["auto"]:
    """A whole number from 1 on, or ``auto``.

    Raises:
        InputError: it is neither.
    """
    if text == "auto":
        return "auto"
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise InputError(f"{text!r}: expected a whole number from 1 on, or auto")
    return int(text)


evaluation_batch_options = together(
    click.option("--microbatches", type=COUNT, metavar="N", help="Microbatches in a batch [models: 8 per device]."),
    click.option(
        "--microbatch-size",
        type=Parsed("b|auto", count_or_auto),
        help="Samples in a microbatch [1]; auto: the best power of two up to 16 (configurations).",
    ),
    click.option("--global-batch", type=COUNT, metavar="G", help="Samples in a batch."),
    click.option(
        "--schedule",
        type=click.Choice(["async", "gpipe", "1f1b", "interleaved", "auto"]),
        help="Of a plan: async, gpipe or 1f1b [async]; of a configuration: all others [auto].",
    ),
    click.option(
        "--transfer",
        type=click.Choice(["edge", "tensor"]),
        help="Count a tensor with several consumers on each edge, or once.",
    ),
)
"""How the batch is cut and run."""

_TYPES = {
    "--tp": ("tensor_parallel", "T", "Devices that share each layer [1]."),
    "--pp": ("pipeline", "P", "Stages of the pipeline [1]."),
    "--dp": ("data_parallel", "D", "Replicas [all that the cluster has room for]."),
    "--virtual-stages": ("virtual_stages", "V", "Parts of the model on each device [1, or the best]."),
}
configuration_options = together(
    *(
        click.option(flag, name, type=COUNT, metavar=letter, help=f"{text}")
        for flag, (name, letter, text) in _TYPES.items()
    ),
    click.option(
        "--recompute", type=click.Choice(["none", "selective", "full"]), help="What is computed again [none]."
    ),
    click.option("--overlap", "overlap_data_parallel", is_flag=True, help="Sum gradients during the backward pass."),
)
"""What a configuration has and a plan has not."""

CONFIGURATION_ONLY = (
    "tensor_parallel",
    "pipeline",
    "data_parallel",
    "virtual_stages",
    "recompute",
    "overlap_data_parallel",
)
_TRAINING = ("attention", "sequence_parallel", "optimizer_sharding", "gradient_dtype")
_OF_BATCH = ("microbatch_size", "global_batch", "schedule")
_OF_CLUSTER = ("memory", "bandwidth", "reserve", "profile")


def predicted(model: str, options: dict[str, Any]) -> Prediction:
    """The prediction for a configuration.

    Raises:
        InputError: the model or an option cannot be used.
        click.UsageError: an option is for plans or splits only.
    """
    from piper.prediction import Configuration
    from piper.prediction.evaluate import evaluate_configuration

    arguments = dict(options)
    reading = reading_arguments(arguments)
    cluster = cluster_argument(arguments.pop("cluster"), arguments.pop("device"), arguments["devices"])
    if options["device"] is not None:
        arguments.pop("devices")
    where = {name: arguments.pop(name) for name in _OF_CLUSTER}
    chosen = {name: arguments.pop(name) for name in (*CONFIGURATION_ONLY, *_TRAINING, *_OF_BATCH)}
    for name, value in arguments.items():
        if value not in (None, (), False):
            raise click.UsageError(f"--{name.replace('_', '-')} needs a RESULT to score")
    configuration = Configuration(**{name: value for name, value in chosen.items() if value is not None})
    return evaluate_configuration(model, configuration, cluster, **where, reading=reading)


def refuse_configuration(options: dict[str, Any]) -> None:
    """Take out the options of configurations, which do not go with a result.

    Raises:
        click.UsageError: one was given.
    """
    for name in CONFIGURATION_ONLY:
        if options.pop(name) not in (None, False):
            raise click.UsageError(f"{name.replace('_', '-')} does not go with a RESULT, which has its own")
    if options["schedule"] in ("interleaved", "auto"):
        raise click.UsageError(f"--schedule {options['schedule']} does not go with a RESULT")
    if options["microbatch_size"] == "auto":
        raise click.UsageError("--microbatch-size auto does not go with a RESULT")
