"""The program: runs a command and turns however it ends into one line and an exit status."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import click

from piper.cli import INTERRUPTED
from piper.cli.commands import cli
from piper.errors import InfeasibleError, PiperError
from piper.formats.source import one_line

BROKEN_PIPE = 141
"""As a shell reports a program whose reader went away."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a device says that takes no more output."""
INTERNAL_ERROR = 70
"""``EX_SOFTWARE`` of sysexits.h."""


def run(arguments: Sequence[str]) -> int:
    """The command of `arguments`; returns the exit status of `piper.cli.main`."""
    _open_streams()
    try:
        return _invoke(arguments)
    except click.exceptions.Exit as ended:  # After --help and --version.
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except InfeasibleError as error:
        return _fail(str(error), INTERRUPTED if error.stopped == "interrupted" else error.exit_status)
    except PiperError as error:
        # The base class itself is what the compiled half raises for its own failures.
        return _fail(str(error), INTERNAL_ERROR if type(error) is PiperError else error.exit_status)
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in _FULL:
            return _internal(error)
        _discard_output()
        return _fail(f"the output cannot be written: {error.strerror}", 2)
    except KeyboardInterrupt as error:
        return _fail(str(error) or "interrupted", INTERRUPTED)
    except MemoryError:
        return _fail("the memory of the machine ran out", 3)
    except BaseException as error:  # A panic of the compiled half is no Exception.
        return _internal(error)


def _invoke(arguments: Sequence[str]) -> int:
    """Run the command. Not by click's own `main`, which answers interrupts and broken pipes in its own way."""
    if "_PIPER_COMPLETE" in os.environ:  # The shell asks for completions.
        cli.main(prog_name="piper")
    with cli.make_context("piper", list(arguments)) as context:
        status = cli.invoke(context)
    sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _internal(error: BaseException) -> int:
    if isinstance(error, SystemExit) or os.environ.get("PIPER_DEBUG") == "1":
        raise error
    return _fail(f"internal error, please report: {type(error).__name__}: {error}", INTERNAL_ERROR)


def _fail(message: str, status: int) -> int:
    """One line on standard error."""
    print(f"piper: {one_line(message)}", file=sys.stderr)  # noqa: T201
    return status


def _open_streams() -> None:
    """What the caller has closed goes nowhere, and no file that is opened takes its place."""
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Gets the lowest free number.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _discard_output() -> None:
    """Keep the interpreter from complaining at exit that what is still buffered has no reader."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
