"""Options that several commands share, as decorators, and how they become arguments of the Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from piper.cli.values import ACCELERATORS, DIMENSION, GROUP, OPERATOR_TYPES, PIN, SHAPE, SIZE

F = TypeVar("F", bound=Callable[..., Any])
Options = dict[str, Any]

COUNT = click.IntRange(min=1)
AMOUNT = click.FloatRange(min=0)


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator for several options, which help shows in their order."""

    def decorate(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _use_devices(context: click.Context, _: click.Parameter, value: str | None) -> None:
    """Add the devices of a file to the catalogue before any other option is read."""
    from piper.costs.devices import use_devices

    if value is not None:
        use_devices(value)
        context.call_on_close(lambda: use_devices(None))


model_options = together(
    click.option(
        "--devices-file",
        type=click.Path(),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_use_devices,
        help="Devices of your own (TOML); PIPER_DEVICES in the environment does the same.",
    ),
    click.option("--dim", "dims", type=DIMENSION, multiple=True, help="Size of a symbolic dimension (ONNX)."),
    click.option("--shape", "shapes", type=SHAPE, multiple=True, help="Shape of an input, as INPUT:1x128 (ONNX)."),
    click.option(
        "--assume", "assumptions", type=DIMENSION, multiple=True, help="A number that a graph leaves open (ONNX)."
    ),
    click.option("--dtype", metavar="TYPE", help="Type of weights and activations, such as bfloat16."),
    click.option("--sequence", type=COUNT, metavar="N", help="Tokens in a sample (built-in models and config.json)."),
    click.option("--vocabulary", type=COUNT, metavar="V", help="Size of the vocabulary (the same)."),
)
"""What reads a model."""

cluster_options = together(
    click.option("--cluster", metavar="NxD:DEVICE", help="Nodes x devices of a node : device, as in 16x8:h100-80gb."),
    click.option("--device", metavar="NAME", help="Device, with --devices; `piper inspect --list` names them."),
    click.option("--devices", type=COUNT, metavar="K", help="Most devices to use."),
    click.option("--memory", type=SIZE, help="Memory of one device, as 8GiB or 80GB."),
    click.option("--bandwidth", type=SIZE, help="Bytes per second between devices, as 25GiB."),
    click.option("--reserve", type=SIZE, help="Memory of each device that no plan may use [models: 6 %]."),
)
"""Where it runs."""

batch_options = together(
    click.option("--microbatches", type=COUNT, metavar="N", help="Microbatches in a batch [models: 8 per device]."),
    click.option("--microbatch-size", type=COUNT, metavar="B", help="Samples in a microbatch [1]."),
    click.option(
        "--global-batch",
        type=COUNT,
        metavar="G",
        help="Samples in a batch; alone, the best microbatch size is sought.",
    ),
    click.option(
        "--schedule",
        type=click.Choice(["async", "gpipe", "1f1b"]),
        default="async",
        show_default=True,
        help="When replicas exchange gradients: async is 1F1B without a flush.",
    ),
    click.option(
        "--transfer",
        type=click.Choice(["edge", "tensor"]),
        help="Count a tensor with several consumers on each edge, or once.",
    ),
)
"""How the batch is cut and run."""

limit_options = together(
    click.option(
        "--recompute",
        type=click.Choice(["auto", "never", "always"]),
        default="auto",
        show_default=True,
        help="Recompute activations.",
    ),
    click.option("--no-data-parallel", is_flag=True, help="One replica of each stage."),
    click.option("--no-tensor-parallel", is_flag=True, help="One device for each replica."),
    click.option("--max-data-parallel", type=COUNT, metavar="D", help="Most replicas of a stage."),
    click.option("--max-tensor-parallel", type=COUNT, metavar="T", help="Most devices of a replica."),
    click.option("--data-parallel", type=COUNT, metavar="D", help="Replicas of every stage."),
    click.option("--tensor-parallel", type=COUNT, metavar="T", help="Devices of every replica."),
    click.option("--stages", type=COUNT, metavar="S", help="Number of stages."),
    click.option("--max-stages", type=COUNT, metavar="S", help="Most stages."),
    click.option(
        "--pin", "pins", type=PIN, multiple=True, help="Put a layer (name or number) into a stage, counted from 0."
    ),
    click.option("--together", type=GROUP, multiple=True, help="Layers that share a stage."),
    click.option("--apart", type=GROUP, multiple=True, help="Layers of which no two share a stage."),
)
"""What plans must obey."""

training_options = together(
    click.option(
        "--attention", type=click.Choice(["fused", "unfused"]), help="Whether attention keeps no scores [fused]."
    ),
    click.option(
        "--sequence-parallel", is_flag=True, help="Share tokens out where tensor parallelism divides nothing."
    ),
    click.option(
        "--optimizer-sharding", is_flag=True, help="Share the optimizer's state out over replicas (ZeRO 1)."
    ),
    click.option(
        "--gradient-dtype",
        type=click.Choice(["float16", "bfloat16", "float32"]),
        help="Type of the gradients of weights [that of the weights].",
    ),
)
"""How a model is trained."""

granularity_option = click.option(
    "--granularity",
    type=click.Choice(["operator", "layer", "auto"]),
    help="What is planned as one layer (ONNX): auto joins blocks where there are too many [auto].",
)
"""How fine layers are."""

profile_option = click.option(
    "--profile",
    type=click.Path(),
    metavar="FILE",
    help="Measured times of operators: ONNX Runtime (JSON), PyTorch (Chrome trace), or CSV.",
)
"""What was measured."""

split_options = together(
    click.option(
        "--accelerators",
        type=ACCELERATORS,
        multiple=True,
        help="Number of accelerators, by class if there are several.",
    ),
    click.option("--cpus", type=click.IntRange(min=0), metavar="L", help="Number of CPUs."),
    click.option(
        "--granularity",
        type=click.Choice(["operator", "layer", "auto"]),
        help="What is placed of a model [auto: operators, where their graph is known].",
    ),
    click.option(
        "--unsupported",
        type=OPERATOR_TYPES,
        help="Operators that stay on a CPU, as NonZero,Unique [the device's list].",
    ),
    click.option(
        "--profile", type=click.Path(), metavar="FILE", help="Measured times: ONNX Runtime's profile (JSON)."
    ),
    click.option(
        "--load",
        type=click.Choice(["sequential", "overlap", "duplex"]),
        help="How compute and transfers of an accelerator add up [sequential].",
    ),
    click.option(
        "--training-objective",
        type=click.Choice(["sum", "split"]),
        help="Largest load of both passes together (1F1B), or largest forward plus largest backward (GPipe) [sum].",
    ),
    click.option("--max-replicas", type=COUNT, metavar="R", help="Most accelerators that may share a part [1]."),
)
"""What a split is made for."""

placement_options = together(
    click.option("--device", metavar="NAME", help="What the accelerators are; `piper inspect --list` names them."),
    click.option("--memory", type=SIZE, help="Memory of one accelerator, as 8GiB or 80GB."),
    click.option("--bandwidth", type=SIZE, help="Bytes per second between an accelerator and host memory, as 12GB."),
    split_options,
)
"""Where operators are placed."""

effort_options = together(
    click.option("--threads", type=COUNT, metavar="N", help="Threads [one for each processor]."),
    click.option("--time-limit", type=AMOUNT, metavar="S", help="Seconds after which the best plan so far is given."),
    click.option("--memory-limit", type=SIZE, help="Memory of the planner itself [half of what is free]."),
    click.option(
        "--gap", type=AMOUNT, default=0.0, metavar="SHARE", help="Stop at a plan this close to the bound, as 0.01."
    ),
)
"""How hard to try."""

output_options = together(
    click.option("--json", "as_json", is_flag=True, help="JSON, also on a terminal."),
    click.option(
        "-o", "--output", "path", type=click.Path(), metavar="FILE", help="Write the result to a file, as JSON."
    ),
    click.option("--force", is_flag=True, help="Overwrite the file."),
    click.option("--quiet", is_flag=True, help="No messages, no progress."),
)
"""Where the result goes."""
