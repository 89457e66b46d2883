"""The group of all commands."""

from __future__ import annotations

import click

from piper import __version__
from piper.cli.evaluate import evaluate_command
from piper.cli.inspect import inspect_command
from piper.cli.place import place_command
from piper.cli.plan import plan_command
from piper.cli.profile import profile_command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="piper", message="%(prog)s %(version)s")
def cli() -> None:
    """Plan how to train and serve large neural networks: which layers on which devices, proven optimal.

    Sizes are written as 8GiB, 80GB or plain bytes. On a terminal results are tables, elsewhere JSON. Exit status: 0
    solved, 1 proven infeasible, 2 bad input or usage, 3 stopped by a limit without proof, 130 interrupted.
    """


cli.add_command(plan_command)
cli.add_command(place_command)
cli.add_command(evaluate_command)
cli.add_command(inspect_command)
cli.add_command(profile_command)
