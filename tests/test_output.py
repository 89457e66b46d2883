"""Result files: never half written, never overwritten by accident."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from piper.errors import InputError
from piper.output import write_json

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and devices are those of POSIX")


def test_a_file_is_overwritten_only_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json({"a": 1}, path)
    with pytest.raises(InputError, match="exists already; use --force"):
        write_json({"a": 2}, path)
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    write_json({"a": 2}, path, force=True)
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 2}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "none/result.json"])
def test_what_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"is a folder|does not exist"):
        write_json({}, tmp_path / name)


@posix
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    write_json({"a": 1}, path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        write_json({"a": 2}, path, force=True)
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_links_modes_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    path, link = tmp_path / "result.json", tmp_path / "link.json"
    write_json({"a": 1}, path)
    path.chmod(0o640)
    link.symlink_to(path)
    write_json({"a": 2}, link, force=True)
    assert link.is_symlink()
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 2}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    write_json({"a": 3}, os.devnull)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
