"""``piper inspect``."""

from __future__ import annotations

from typing import Any

import click

from piper.cli.options import COUNT, granularity_option, model_options, output_options, profile_option
from piper.cli.output import Output
from piper.cli.subject import cluster_argument, reading_arguments


@click.command("inspect", short_help="Show layers, operators, counts and where they come from.")
@click.argument("model", required=False)
@model_options
@granularity_option
@click.option("--microbatch-size", type=COUNT, metavar="B", help="Samples in a microbatch [1].")
@click.option("--cluster", metavar="NxD:DEVICE", help="Also show seconds on its devices.")
@click.option("--device", metavar="NAME", help="Also show seconds on this device.")
@click.option("--operators", is_flag=True, help="One row an operator.")
@click.option("--list", "list_names", is_flag=True, help="The built-in models and devices.")
@profile_option
@output_options
def inspect_command(
    model: str | None,
    list_names: bool,
    operators: bool,
    as_json: bool,
    path: str | None,
    force: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Show what a model is made of: layers, operators, counts, and where each number comes from.

    MODEL is what `piper plan` takes.
    """
    output = Output(as_json, path, force, quiet)
    output.check()
    if list_names:
        from piper.inspection import catalogue

        output.show(catalogue())
        return 0
    if model is None:
        raise click.UsageError("name a model, or use --list to see the built-in ones")
    _inspect(model, output, options, operators=operators)
    return 0


def _inspect(model: str, output: Output, options: dict[str, Any], *, operators: bool) -> None:
    from piper.inspection import ModelInspection, inspect
    from piper.report.inspection import operator_table

    arguments = dict(options)
    reading = reading_arguments(arguments)
    cluster = cluster_argument(arguments.pop("cluster"), arguments.pop("device"), None)
    with output.progress("reading"):
        inspection = inspect(model, cluster, **reading, **arguments)
    for warning in inspection.warnings:
        output.message(f"warning: {warning}")
    if operators and isinstance(inspection, ModelInspection):
        output.show(inspection, operator_table(inspection))
    else:
        output.show(inspection)
