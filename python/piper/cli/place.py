"""``piper place``."""

from __future__ import annotations

from typing import Any

import click

from piper.cli.ending import exit_status, with_needs
from piper.cli.options import effort_options, model_options, output_options, placement_options
from piper.cli.output import Output
from piper.cli.subject import placement_arguments, read_placement
from piper.encode import infeasible_document
from piper.errors import InfeasibleError

ALGORITHMS = ("auto", "dp", "dpl", "local-search", "pipedream", "partition", "single")


@click.command("place", short_help="Put operators on accelerators and CPUs.")
@click.argument("model")
@model_options
@placement_options
@click.option(
    "--algorithm",
    type=click.Choice(ALGORITHMS),
    default="auto",
    show_default=True,
    help="auto proves the optimum where it can; dpl looks along linear orders; the rest is to compare with.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, metavar="N", show_default=True, help="Of local search."
)
@click.option("--restarts", type=click.IntRange(1, 2**31 - 1), default=10, metavar="N", help="Of local search [10].")
@effort_options
@click.option("--compare", is_flag=True, help="Also show what simpler placers reach.")
@output_options
def place_command(
    model: str, compare: bool, as_json: bool, path: str | None, force: bool, quiet: bool, **options: Any
) -> int:
    """Place operators on accelerators and CPUs for maximum throughput; proven optimal.

    MODEL is a placement workload, an ONNX file (with --accelerators and --device), a PipeDream profile (with
    --accelerators and --bandwidth), a Hugging Face config.json, or the name of a built-in model.
    """
    output = Output(as_json, path, force, quiet)
    output.check()
    try:
        return _place(model, output, options, compare=compare)
    except InfeasibleError as error:
        output.show_document(infeasible_document(error))
        raise with_needs(error) if error.needs else error from None


def _place(model: str, output: Output, options: dict[str, Any], *, compare: bool) -> int:
    from piper.placement.place import place

    arguments = dict(options)
    setting, reading = placement_arguments(arguments)
    with output.progress("reading") as bar:
        workload = read_placement(model, setting, reading)
        bar.doing("placing")
        result = place(workload, **arguments, progress=bar, compare=compare)
    for warning in result.warnings:
        output.message(f"warning: {warning}")
    output.show(result)
    return exit_status(result, output, "split")
