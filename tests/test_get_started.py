"""The first page of the documentation, followed by a reader: its blocks are the files that it says, and they run."""

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import odm
from tests.readme import Block, blocks, command
from tests.test_readme import LINE, ROOT

PAGE = ROOT / "docs" / "get_started.md"
HERE = LINE.replace("shop", "helpdesk")
SWITCHES = {"bigtable_emulator": "Bigtable", "moto_server": "DynamoDB"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's folder, with the files of the page."""
    for name, text in files([block for block in blocks(PAGE) if block.language == "python"]).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "helpdesk", raising=False)
    return tmp_path


def files(shown: list[Block]) -> dict[str, str]:
    """The files of the page: a block begins with the name of its file, or continues the one before."""
    written: dict[str, str] = {}
    name = ""
    for block in shown:
        if named := re.match(r"# (\w+\.py)\n", block.text):
            name = named[1]
        written[name] = written.get(name, "") + block.text
    return written


def printed(program: Path) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(str(program), run_name="__main__")
    return output.getvalue()


def test_the_program_prints_what_the_page_shows(folder: Path) -> None:
    shown = "".join(block.text for block in blocks(PAGE) if block.language == "text")
    assert printed(folder / "day.py") == shown
    assert printed(folder / "day.py") == shown  # the reader runs it again after each step


@pytest.mark.parametrize("service", list(SWITCHES))
def test_it_prints_the_same_elsewhere_except_for_the_plan(
    folder: Path, service: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = request.getfixturevalue(service)
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", address)
    switched = command(SWITCHES[service], "python notest", PAGE).replace("http://localhost:8000", address)
    program = (folder / "day.py").read_text(encoding="utf-8")
    assert HERE in program
    (folder / "day.py").write_text(program.replace(HERE, switched), encoding="utf-8")
    shown = "".join(block.text for block in blocks(PAGE) if block.language == "text" and "native " not in block.text)
    lines = printed(folder / "day.py").splitlines()
    plan = next(at for at, line in enumerate(lines) if line.startswith("call "))
    after = next(at for at, line in enumerate(lines) if line.startswith("no access pattern"))
    assert [*lines[: plan - 1], *lines[after:]] == shown.splitlines()


def test_the_test_of_the_page_passes(folder: Path, request: pytest.FixtureRequest) -> None:
    tests: dict[str, Any] = runpy.run_path(str(folder / "test_helpdesk.py"))
    tests["test_a_ticket_is_closed_once"](request.getfixturevalue("odm_memory"))


def test_the_command_prints_the_keys_that_the_page_shows(folder: Path) -> None:
    [shown] = [block.text for block in blocks(PAGE) if block.language == "console"]
    first, _, rest = shown.partition("\n")
    assert odm(folder, *first.split()[2:]).stdout.rstrip() == rest.rstrip()
