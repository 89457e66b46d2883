"""``piper evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from piper.cli.configuration import (
    configuration_options,
    evaluation_batch_options,
    predicted,
    refuse_configuration,
)
from piper.cli.options import cluster_options, model_options, output_options, split_options, training_options
from piper.cli.output import Output
from piper.cli.subject import placement_arguments, read, read_placement
from piper.errors import InputError

if TYPE_CHECKING:
    from piper.evaluation import Evaluation
    from piper.placement.result import SplitEvaluation
    from piper.prediction import Prediction

INFEASIBLE = 1
TRAINING = ("attention", "sequence_parallel", "optimizer_sharding", "gradient_dtype")
PLAN_ONLY = (
    "cluster",
    "devices",
    "reserve",
    "microbatches",
    "microbatch_size",
    "global_batch",
    "schedule",
    "transfer",
    *TRAINING,
)
SPLIT_ONLY = (
    "accelerators",
    "cpus",
    "unsupported",
    "load",
    "training_objective",
    "max_replicas",
)


@click.command("evaluate", short_help="Score a plan or a split, or predict a configuration.")
@click.argument("model")
@click.argument("result", required=False)
@model_options
@cluster_options
@evaluation_batch_options
@configuration_options
@training_options
@split_options
@output_options
def evaluate_command(
    model: str, result: str | None, as_json: bool, path: str | None, force: bool, quiet: bool, **options: Any
) -> int:
    """Score a plan or split made elsewhere, or predict what a configuration takes.

    MODEL is what `piper plan` or `piper place` takes, with the same options; RESULT is the JSON file of a plan or of
    a split, of which every rule that it breaks is named. Without RESULT the options --tp, --pp, --dp and so on say
    what is predicted. Status 1 when it is infeasible.
    """
    from piper.evaluation import is_placement

    output = Output(as_json, path, force, quiet)
    output.check()
    if result is None:
        with output.progress("evaluating"):
            prediction = predicted(model, options)
        for warning in prediction.warnings:
            output.message(f"warning: {warning}")
        output.show(prediction)
        return 0 if prediction.feasible else INFEASIBLE
    refuse_configuration(options)
    with output.progress("evaluating"):
        judge = _split if is_placement(model, result) else _plan
        evaluation = judge(model, result, options)
    output.show(evaluation)
    return 0 if evaluation.feasible else INFEASIBLE


def _plan(model: str, result: str, options: dict[str, Any]) -> Prediction | Evaluation | SplitEvaluation:
    from piper.evaluation import evaluate

    for name in SPLIT_ONLY:
        given = options.pop(name)
        if given is not None and given != ():
            raise InputError(f"--{name.replace('_', '-')}: the option does not apply to a plan")
    subject, arguments = read(model, options)
    return evaluate(subject, result, **arguments)


def _split(model: str, result: str, options: dict[str, Any]) -> Prediction | Evaluation | SplitEvaluation:
    from piper.evaluation import evaluate

    for name in PLAN_ONLY:
        if _given(name, options):
            raise InputError(f"--{name.replace('_', '-')}: the option does not apply to a split")
        options.pop(name)
    setting, reading = placement_arguments(options)
    return evaluate(read_placement(model, setting, reading), result, **options)


def _given(name: str, options: dict[str, Any]) -> bool:
    """Whether an option has another value than its default."""
    return options[name] not in (None, False)
