"""``piper plan``."""

from __future__ import annotations

from typing import Any

import click

from piper.cli.ending import exit_status, with_needs
from piper.cli.options import (
    batch_options,
    cluster_options,
    effort_options,
    granularity_option,
    limit_options,
    model_options,
    output_options,
    profile_option,
    training_options,
)
from piper.cli.output import Output
from piper.cli.subject import read
from piper.encode import infeasible_document
from piper.errors import InfeasibleError


@click.command("plan", short_help="Plan a training pipeline.")
@click.argument("model")
@model_options
@granularity_option
@cluster_options
@batch_options
@limit_options
@training_options
@profile_option
@effort_options
@click.option("--compare", is_flag=True, help="Also show what simpler planners reach.")
@click.option("--frontier", is_flag=True, help="The best time for every number of devices.")
@output_options
def plan_command(
    model: str,
    compare: bool,
    frontier: bool,
    as_json: bool,
    path: str | None,
    force: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Plan a training pipeline: stages, their replicas and devices, what to recompute; proven optimal.

    MODEL is an ONNX file, a Piper workload, a PipeDream profile, a Hugging Face config.json, or the name of a
    built-in model (`piper inspect --list`).
    """
    output = Output(as_json, path, force, quiet)
    output.check()
    try:
        if not frontier:
            return _plan(model, output, options, compare=compare)
        _refuse_with_frontier(compare=compare, gap=options.pop("gap") > 0)
        return _frontier(model, output, options)
    except InfeasibleError as error:
        output.show_document(infeasible_document(error))
        raise with_needs(error) from None


def _plan(model: str, output: Output, options: dict[str, Any], *, compare: bool) -> int:
    from piper.planning import plan

    with output.progress("reading") as bar:
        subject, arguments = read(model, options)
        bar.doing("planning")
        result = plan(subject, **arguments, progress=bar, compare=compare)
    for warning in result.warnings:
        output.message(f"warning: {warning}")
    output.show(result)
    return exit_status(result, output, "plan")


def _refuse_with_frontier(**given: bool) -> None:
    """Refuse options that say nothing about a frontier, whose points are each searched to the end.

    Raises:
        click.UsageError: naming the first that is given.
    """
    for name, is_given in given.items():
        if is_given:
            raise click.UsageError(f"--{name} does not go with --frontier")


def _frontier(model: str, output: Output, options: dict[str, Any]) -> int:
    from piper.planning import frontier

    with output.progress("reading") as bar:
        subject, arguments = read(model, options)
        bar.doing("planning")
        result = frontier(subject, **arguments, progress=bar)
    output.show(result)
    return exit_status(result, output, "frontier")
