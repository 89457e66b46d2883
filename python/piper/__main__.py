"""``python -m piper`` is ``piper``."""

from piper.cli import main

main()
