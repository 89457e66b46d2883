"""The program ``piper`` as a shell starts it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

PIPER = Path(sysconfig.get_path("scripts")) / "piper"


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PIPER, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, cwd=cwd
    )


def result(*arguments: str | Path, status: int = 0) -> dict[str, Any]:
    """The JSON on standard output of a command that must end with `status`."""
    ended = run(*arguments)
    assert ended.returncode == status, ended.stderr
    document = json.loads(ended.stdout)
    assert isinstance(document, dict)
    return document


def refused(*arguments: str | Path) -> str:
    """The one line of a command that must be refused as bad input or usage."""
    ended = run(*arguments)
    assert ended.returncode == 2, ended
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("piper: ")
    return ended.stderr


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: str | Path, **environment: str) -> None:
        self._leader, follower = pty.openpty()
        plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        self.process = subprocess.Popen(
            [PIPER, *map(str, arguments)],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=plain | {"TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40"} | environment,
        )
        os.close(follower)
        self._shown = bytearray()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._leader)
        self.process.wait(timeout=60)

    def shown_until(self, word: str) -> str:
        """Everything shown up to where a word first appears, or to the end."""
        while word not in self._shown.decode(errors="replace") and self._read():
            pass
        return self._shown.decode(errors="replace")

    def shown_until_the_end(self) -> str:
        """Everything shown."""
        while self._read():
            pass
        return self._shown.decode()

    def _read(self) -> bool:
        try:
            part = os.read(self._leader, 65536)
        except OSError:  # What Linux says when the last writer has closed.
            return False
        self._shown += part
        return bool(part)


def on_terminal(*arguments: str | Path, **environment: str) -> tuple[int, str]:
    """Exit status and everything that a terminal shows."""
    with Terminal(*arguments, **environment) as terminal:
        shown = terminal.shown_until_the_end()
    return terminal.process.returncode, shown
