"""The recipes of docs/recipes run as a reader runs them: their files are written to folders, and pytest runs there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import effort
from tests.readme import README, Block, blocks
from tests.test_readme import run

pytestmark = pytest.mark.slow

ROOT = README.parent
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
OPTIONS = ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function")
PYTEST = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *(f"-o{option}" for option in OPTIONS))


def python(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


def files(page: Path) -> dict[str, str]:
    """The files of a page: blocks whose first line has a name, joined if they have the same one; {} of a notebook."""
    found: dict[str, str] = {}
    for block in python(page):
        name = re.match(r"# (\w+\.py)(?:, continued)?\n", block.text)
        if name is None:
            assert not found, f"{page.name}:{block.line}: this block has no file name in its first line"
        else:
            found[name[1]] = found.get(name[1], "") + block.text
    return found


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """A folder for each page, with its files."""
    for page in RECIPES:
        written, folder = files(page), tmp_path / f"{page.stem}_page"
        assert not written or any(name.startswith("test_") for name in written), page.name
        for name, text in written.items():
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    return [str(folder) for folder in tmp_path.iterdir()]


def test_the_tests_of_the_recipes_pass(
    folders: list[str], tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process, because most of the time is that of imports."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:  # nothing is configured
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    skipped = 2
    if effort.full():
        monkeypatch.setenv("DYNAMODB_LOCAL", request.getfixturevalue("dynamodb_local"))
        skipped = 0
    done = subprocess.run(
        [sys.executable, *PYTEST, *folders], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int((re.search(r"(\d+) skipped", done.stdout) or [0, 0])[1]) == skipped


@pytest.mark.parametrize("page", [page for page in RECIPES if not files(page)], ids=lambda page: page.stem)
def test_cells_run_and_print_what_the_page_shows(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    run([block for block in blocks(page) if block.language in {"python", "text"}], names)
    names["db"].close()


@pytest.mark.full
def test_the_recipes_satisfy_a_strict_type_checker(folders: list[str], tmp_path: Path) -> None:
    """Without their tests, whose functions have no types."""
    written = [path for path in tmp_path.glob("*/*.py") if not path.name.startswith(("test_", "conftest"))]
    for page in RECIPES:
        if not files(page):
            written.append(tmp_path / f"{page.stem}_cells.py")
            written[-1].write_text("\n".join(block.text for block in python(page)), encoding="utf-8")
    options = ["--strict", "--no-incremental", "--allow-untyped-decorators", "--ignore-missing-imports"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, written)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
