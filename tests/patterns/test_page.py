"""Checks the page on patterns: its examples run, its tables are those of the modules, and it has every module."""

import difflib
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from odm.backends.local import LocalFile
from tests.readme import blocks
from tests.type_checker import mypy

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "patterns.md"
PAGES = [PAGE, ROOT / "docs" / "own_patterns.md"]
REWRITE = "ODM_GOLDEN=write pytest tests/patterns/test_page.py"
FOLDER = ROOT / "patterns"
MODULES = sorted(FOLDER.glob("[!_]*.py"))
COPIED = re.compile(r"(<!-- tables of patterns/(\w+\.py) -->\n).*?(<!-- end -->\n)", re.DOTALL)
LINE = "backend = Memory()"


TABLE = re.compile(r"^(?:\|.*\n)+", re.MULTILINE)
"""A table of a docstring."""


def tables(module: Path) -> str:
    """The tables in the docstring of a module, as Markdown."""
    text = import_module(f"odm.patterns.{module.stem}").__doc__ or ""
    found = [table.replace("``", "`") for table in TABLE.findall(text)]
    assert found, f"the docstring of {module.name} has tables: of the layout, and of what calls cost"
    return "\n".join(found)


def test_its_tables_are_those_of_the_modules() -> None:
    shown = PAGE.read_text(encoding="utf-8")
    true = COPIED.sub(lambda m: f"{m[1]}{tables(FOLDER / m[2])}{m[3]}", shown)
    if os.environ.get("ODM_GOLDEN") == "write":
        PAGE.write_text(true, encoding="utf-8")
    elif true != shown:
        difference = difflib.unified_diff(shown.splitlines(), true.splitlines(), "the page", "the modules", n=1)
        pytest.fail("\n".join([f"rewrite it with {REWRITE}", *difference]))


def test_every_module_is_on_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert MODULES
    assert [module.name for module in MODULES if f"](../patterns/{module.name})" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lower()).strip().replace(" ", "-")
        for line in re.findall("^#+(.*)", text, re.MULTILINE)
    }
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert {link for link in links if link.startswith("#") and link[1:] not in headings} == set()
    files = {link.partition("#")[0] for link in links if not link.startswith(("#", "https://"))}
    assert {link for link in files if not (page.parent / link).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.parametrize("file", [False, True])
def test_examples_run(page: Path, file: bool, tmp_path: Path) -> None:
    shown = [block for block in blocks(page) if block.language == "python"]
    assert len(shown) >= 3
    names: dict[str, Any] = {"__name__": "__main__"}
    if file:
        names["file"] = LocalFile(tmp_path / "patterns.db")
    for block in shown:
        text = block.text.replace(LINE, "backend = file") if file else block.text
        exec(compile("\n" * (block.line - 1) + text, page.name, "exec"), names)
    if "engine" in names:
        names["engine"].dispose()  # from Python 3.13 on, SQLite warns of a connection that nobody closed


@pytest.mark.full
def test_examples_satisfy_a_strict_type_checker(tmp_path: Path) -> None:
    for page in PAGES:
        text = "\n".join(block.text for block in blocks(page) if block.language == "python")
        (tmp_path / f"{page.stem}.py").write_text(text, encoding="utf-8")
    files = sorted(map(str, tmp_path.glob("*.py")))
    assert len(files) == len(PAGES)
    checked = mypy(*files)
    assert checked.returncode == 0, checked.stdout
