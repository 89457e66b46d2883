"""``piper profile``."""

from __future__ import annotations

import click

from piper.cli.options import COUNT
from piper.cli.output import Output
from piper.cli.values import DIMENSION, SHAPE


@click.command("profile")
@click.argument("model")
@click.option("--dim", "dims", type=DIMENSION, multiple=True, help="Size of a symbolic dimension.")
@click.option("--shape", "shapes", type=SHAPE, multiple=True, help="Shape of an input, as INPUT:1x128.")
@click.option("--runs", type=COUNT, default=10, show_default=True, metavar="N", help="How often the model is run.")
@click.option(
    "--provider", default="CPUExecutionProvider", show_default=True, metavar="NAME", help="ONNX Runtime's provider."
)
@click.option(
    "-o", "--output", "path", type=click.Path(), required=True, metavar="FILE", help="The profile to write."
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--quiet", is_flag=True, help="No messages, no progress.")
def profile_command(
    model: str,
    dims: tuple[tuple[str, int], ...],
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    runs: int,
    provider: str,
    path: str,
    force: bool,
    quiet: bool,
) -> int:
    """Measure the operators of an ONNX model with ONNX Runtime; `--profile` of other commands reads the result.

    MODEL is an ONNX file with its weights. Needs onnxruntime: pip install 'piper-dnn[profile]'.
    """
    from piper.profiles.measure import profile

    output = Output(as_json=False, path=None, force=force, quiet=quiet)
    with output.progress("running"):
        profile(model, path, dims=dict(dims), shapes=dict(shapes), runs=runs, provider=provider, force=force)
    output.message(f"wrote {path}")
    return 0
