"""What the documents say is true: their commands run, and they mention every option."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from examples import LLAMA, PROFILE, diamond, placement

from piper.cli.commands import cli

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(document: Path) -> list[list[str]]:
    """The arguments of all ``piper`` commands in shell blocks."""
    lines = [line for block in blocks(document, "sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("piper ")]


def write_examples(folder: Path) -> None:
    """Files of the names that the documents use."""
    import onnx
    from onnx import TensorProto, helper

    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, bytes(4 * shape[0] * shape[1]), raw=True)
        for name, shape in (("up", (64, 256)), ("down", (256, 64)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "down"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 64])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    (folder / "workload.json").write_text(json.dumps(diamond()), encoding="utf-8")
    (folder / "placement.json").write_text(json.dumps(placement()), encoding="utf-8")
    (folder / "profile.txt").write_text(PROFILE, encoding="utf-8")


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the documents, as the working directory."""
    write_examples(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_succeed(document: Path, examples: Path) -> None:
    for arguments in commands(document):
        done = subprocess.run(
            [sys.executable, "-m", "piper", *arguments], cwd=examples, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (arguments, done.stderr)
        assert "-o" in arguments or done.stdout, arguments


def test_python_example_runs(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0].endswith("True")
    assert json.loads((examples / "plan.json").read_text(encoding="utf-8"))["optimal"] is True


def test_readme_begins_with_the_two_commands_that_are_checked() -> None:
    first, second, *_ = blocks(ROOT / "README.md", "sh")
    assert re.fullmatch(r"pip install \. && piper plan .*\n", first)
    assert f"\t{second}" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_reference_has_every_option() -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for name, command in cli.commands.items():
        assert f"piper {name}" in reference
        for option in command.params:
            if isinstance(option, click.Option):
                for text in option.opts:
                    assert re.search(rf"`{text}\b", reference), (name, text)


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        path, _, _ = target.partition("#")
        if path and "://" not in path:
            assert (document.parent / path).exists(), target
