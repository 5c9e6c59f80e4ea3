"""The README is true: its examples run, print what it says, and its tables name what exists."""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import odm
from odm.backends.local import Memory
from tests.cli.command_line import odm as odm_command
from tests.readme import README, blocks, command

UNFIT = {
    "moto_server": [".meter()"],  # moto 5.2 tells other units
    "bigtable_emulator": ["transaction()", ".meter()"],  # Unsupported; a page of an index is two requests
}
"""What the examples of blocks that do not run on a service have."""

DYNAMODB = README.parent / "docs" / "dynamodb.md"

LINE = 'backend = LocalFile("shop.db")'


def test_examples_run_and_print_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    ran = 0
    for block in blocks():
        if block.language == "python":
            source = "\n" * (block.line - 1) + block.text
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(source, "README.md", "exec"), names)
            printed = output.getvalue()
            ran += 1
        elif block.language == "text":
            assert printed == block.text
    assert ran >= 5


def test_examples_of_the_page_on_dynamodb_run_after_those_of_the_shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [block for block in blocks(DYNAMODB) if block.language == "python"]
    assert shown
    for text in (
        next(block.text for block in blocks() if block.language == "python"),
        *(block.text for block in shown),
    ):
        exec(compile(text, "dynamodb.md", "exec"), names)
    names["db"].close()


@pytest.mark.parametrize("service", ["memory", "moto_server", "dynamodb_local", "bigtable_emulator"])
def test_examples_run_on_another_backend_after_a_change_of_one_line(
    service: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("AWS_")]:  # nothing is configured
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # there may be one where the tests run
    shown = [block.text for block in blocks() if block.language == "python"]
    lines = "".join(shown).splitlines()
    assert lines.count(LINE) == 1
    names: dict[str, Any] = {"__name__": "__main__", "Memory": Memory}
    # What is about the bundled engine alone names it again.
    for text in (text.replace(LINE, switched(service, request)) for text in shown):
        unfit = any(part in text for part in UNFIT.get(service, ()))
        if not unfit and "Memory(" not in text.replace("backend = Memory()", "") and "LocalFile(" not in text:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, "README.md", "exec"), names)
    names["db"].close()
    assert not list(tmp_path.iterdir())  # no file of the bundled engine


def switched(service: str, request: pytest.FixtureRequest) -> str:
    """What stands in place of the line; the README's own, but for the port of the service."""
    if service == "memory":
        return "backend = Memory()"
    address = request.getfixturevalue(service)
    if service == "bigtable_emulator":
        request.getfixturevalue("monkeypatch").setenv("BIGTABLE_EMULATOR_HOST", address)
        return command("switch to Bigtable", "python notest")
    return command("switch", "python notest").replace("http://localhost:8000", address)


@pytest.mark.parametrize("command", ["lock", "lint"])
def test_commands_print_what_the_readme_shows(command: str, tmp_path: Path) -> None:
    model = next(block.text for block in blocks() if block.language == "python")
    [shown] = [block.text for block in blocks() if block.language == "console" and f"$ odm {command}" in block.text]
    (tmp_path / "shop.py").write_text(model, encoding="utf-8")
    printed = ""
    for line in shown.splitlines():
        if not line.startswith("$ "):
            continue
        printed += f"{line}\n"
        if edit := re.fullmatch(r"\$ sed -i s/(.+)/(.+)/ (.+)", line):
            path = tmp_path / edit[3]
            path.write_text(path.read_text(encoding="utf-8").replace(edit[1], edit[2]), encoding="utf-8")
        else:
            done = odm_command(tmp_path, *line.split()[2:])
            printed += done.stdout + done.stderr
    assert printed == shown


def test_what_is_not_run_at_least_parses() -> None:
    for block in blocks():
        if block.language.startswith("python "):
            ast.parse(block.text)


def test_set_up_is_two_commands() -> None:
    assert command("main job").endswith("odm demo")
    assert "pytest" in command("tests")


def test_errors_named_exist() -> None:
    text = README.read_text(encoding="utf-8")
    section = text.split("## Errors")[1].split("\n## ")[0]
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", section))
    assert named
    assert named <= set(odm.__all__)


def test_the_examples_satisfy_a_strict_type_checker(tmp_path: Path) -> None:
    shown = [*blocks(), *blocks(DYNAMODB)]
    source = "\n".join(block.text for block in shown if block.language == "python")
    (tmp_path / "shown.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(tmp_path / "shown.py")]
    checked = subprocess.run(command, cwd=README.parent, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
