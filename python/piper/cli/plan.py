"""``piper plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from piper.cli.options import (
    batch_options,
    cluster_options,
    effort_options,
    limit_options,
    model_options,
    output_options,
)
from piper.cli.output import Output
from piper.cli.subject import read
from piper.costs.units import format_bytes
from piper.encode import infeasible_document
from piper.errors import InfeasibleError

if TYPE_CHECKING:
    from piper.planning import Plan

INTERRUPTED = 130
LIMIT_REACHED = 3


@click.command("plan")
@click.argument("model")
@model_options
@cluster_options
@batch_options
@limit_options
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
        raise InfeasibleError([*error.reasons, _needs(error.needs)], error.needs) from None


def _plan(model: str, output: Output, options: dict[str, Any], *, compare: bool) -> int:
    from piper.planning import plan

    with output.progress("reading") as bar:
        subject, arguments = read(model, options)
        bar.doing("planning")
        result = plan(subject, **arguments, progress=bar, compare=compare)
    for warning in result.warnings:
        output.message(f"warning: {warning}")
    output.show(result)
    return _status(result, output)


def _needs(needs: dict[str, float]) -> str:
    """What would have to give, in words."""
    ways = []
    if "memory_bytes" in needs:
        size = needs["memory_bytes"]
        ways.append(f"{format_bytes(size)} of memory ({size:.0f} bytes) on each device")
    if "devices" in needs:
        ways.append(f"{needs['devices']:.0f} devices")
    return f"{' or '.join(ways)} would do" if ways else "neither more memory nor more devices would do"


def _status(result: Plan, output: Output) -> int:
    """Exit status of a plan, with a word on a search that was ended before it was through."""
    if result.status in ("done", "gap") or (result.optimal and result.status != "interrupted"):
        return 0
    proof = "proven optimal" if result.optimal else "not proven optimal"
    output.message(f"stopped early ({result.status}); this is the best plan so far, {proof}")
    return INTERRUPTED if result.status == "interrupted" else LIMIT_REACHED


def _refuse_with_frontier(**given: bool) -> None:
    """Refuse options that say nothing about a frontier, whose points are all proven.

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
    return 0
