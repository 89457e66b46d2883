"""The command line: `main` is the program ``piper``."""

from piper.cli.run import main

__all__ = ["main"]
