"""``piper evaluate``."""

from __future__ import annotations

from typing import Any

import click

from piper.cli.options import batch_options, cluster_options, model_options, output_options
from piper.cli.output import Output
from piper.cli.subject import read

INFEASIBLE = 1


@click.command("evaluate")
@click.argument("model")
@click.argument("result")
@model_options
@cluster_options
@batch_options
@output_options
def evaluate_command(
    model: str, result: str, as_json: bool, path: str | None, force: bool, quiet: bool, **options: Any
) -> int:
    """Score a plan made elsewhere, and name every rule that it breaks.

    MODEL is what `piper plan` takes, with the same options; RESULT is the JSON file of a plan. Status 1 when the plan
    is infeasible.
    """
    from piper.evaluation import evaluate

    output = Output(as_json, path, force, quiet)
    output.check()
    with output.progress("reading") as bar:
        subject, arguments = read(model, options)
        bar.doing("evaluating")
        evaluation = evaluate(subject, result, **arguments)
    output.show(evaluation)
    return 0 if evaluation.feasible else INFEASIBLE
