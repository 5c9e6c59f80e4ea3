"""The README and the pages of docs/ are true: their examples run and print what they show, and their links work."""

import ast
import contextlib
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from pydoc import locate
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest

import odm
from odm.backends.local import Memory
from tests.cli.command_line import odm as odm_command
from tests.readme import README, Block, blocks, command
from tests.type_checker import mypy

ROOT = README.parent

PAGES = sorted((ROOT / "docs").rglob("*.md"))
SHOP = ROOT / "docs" / "model.md"
AFTER_SHOP = [
    ROOT / "docs" / f"{name}.md"
    for name in ("copy", "dynamodb", "evolve", "operate", "query", "test", "transactions", "types", "write")
]
"""Pages whose examples use the shop: they run after its first block."""

ALONE = [ROOT / "docs" / f"{name}.md" for name in ("capacity", "how_it_works")]
"""Pages whose examples use nothing else, on the engine in memory."""

ENGINE_ALONE = ["Memory(", "LocalFile("]
UNFIT = {
    "memory": [],
    "moto_server": [".meter()", "scan(Customer, prefix="],  # moto 5.2 reports other units
    "dynamodb_local": ["scan(Customer, prefix="],  # Unsupported
    "bigtable_emulator": ["transaction()", ".meter()"],  # Unsupported; a page of an index is two requests
}
"""What the examples of blocks that do not run on a service have."""

LINE = 'backend = LocalFile("shop.db")'


def examples(page: Path) -> list[Block]:
    """The Python of a page and what it prints, after the shop if it uses that."""
    before = [block for block in blocks(SHOP) if block.language == "python"][:1] if page in AFTER_SHOP else []
    return [*before, *(block for block in blocks(page) if block.language in {"python", "text"})]


def run(
    shown: Sequence[Block], names: dict[str, Any], others: Mapping[str, Callable[[Block], str]] = MappingProxyType({})
) -> None:
    """Run examples one after another, and compare what each prints with the text below it.

    Args:
        shown: the examples.
        names: the names of their Python.
        others: by another language, what runs an example and returns what it prints.
    """
    printed = ""
    for block in shown:
        if block.language == "text":
            assert printed == block.text
            continue
        if block.language in others:
            printed = others[block.language](block)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile("\n" * (block.line - 1) + block.text, "page.md", "exec"), names)
        printed = output.getvalue()


@pytest.mark.parametrize("page", [README, SHOP, *AFTER_SHOP, *ALONE], ids=lambda page: page.stem)
def test_examples_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = examples(page)
    assert [block for block in shown if block.language == "python"]
    names: dict[str, Any] = {"__name__": "__main__"}
    run(shown, names)
    names["db"].close()


def test_every_page_with_python_is_run() -> None:
    """Those not here have tests of their own: of the first page, of patterns, of Beam, of Bigtable and others."""
    own = {
        "beam.md",
        "bigtable.md",
        "bigtable_emulator.md",
        "coming_from_boto3.md",
        "coming_from_dynamodb_toolbox.md",
        "coming_from_dynamoose.md",
        "coming_from_electrodb.md",
        "coming_from_onetable.md",
        "coming_from_pydynantic.md",
        "coming_from_pynamodb.md",
        "existing_tables.md",
        "get_started.md",
        "large_values.md",
        "lint.md",
        "own_patterns.md",
        "patterns.md",
    }
    run_here = {page.name for page in (SHOP, *AFTER_SHOP, *ALONE)}
    golden = {"bigtable_requests.md", "dynamodb_cases.md", "dynamodb_requests.md"}
    pages = [page for page in PAGES if page.parent.name != "recipes"]  # those have tests/test_recipes.py
    with_python = {page.name for page in pages if any(block.language == "python" for block in blocks(page))}
    assert with_python - own - golden == run_here


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize(
    "page", [README, *PAGES, ROOT / "examples" / "README.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose)):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall("^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9_ -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [README, SHOP, *AFTER_SHOP], ids=lambda page: page.stem)
@pytest.mark.parametrize("service", list(UNFIT))
def test_examples_run_on_another_backend_after_a_change_of_one_line(
    service: str, page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("AWS_")]:  # nothing is configured
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # there may be one where the tests run
    shown = [block.text for block in examples(page) if block.language == "python"]
    assert "".join(shown).splitlines().count(LINE) == 1
    names: dict[str, Any] = {"__name__": "__main__", "Memory": Memory}
    unfit = [*ENGINE_ALONE, *UNFIT[service]]
    prefix = f'Store(shop, backend, prefix="{uuid4().hex[:8]}-"'  # services are shared by the tests
    for text in shown:
        if any(part in text.replace(LINE, "") for part in unfit):
            continue
        here = text.replace(LINE, switched(service, request)).replace("Store(shop, backend", prefix)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(here, "page.md", "exec"), names)
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
    model = next(block.text for block in blocks(SHOP) if block.language == "python")
    page = ROOT / "docs" / {"lock": "evolve.md", "lint": "operate.md"}[command]
    [shown] = [block.text for block in blocks(page) if block.language == "console" and f"$ odm {command}" in block.text]
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
    for page in (README, *PAGES):
        for block in blocks(page):
            if block.language.startswith("python "):
                ast.parse(block.text)


def test_set_up_is_two_commands() -> None:
    assert command("main job").endswith("odm demo")
    assert "pytest" in command("tests")


def test_errors_named_exist() -> None:
    text = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    section = text.split("## Errors")[1].split("\n## ")[0]
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", section))
    assert named
    assert named <= set(odm.__all__)


def test_names_in_prose_exist() -> None:
    """Calls of a store, and names of odm. Those in docstrings are checked when the site is built."""
    other = {"odm.bigtable", "odm.dynamodb", "odm.lock"}  # two logs and a file
    calls = {"db.rotate"}  # of a time series
    missing = []
    for page in (README, *PAGES, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"):
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        named = set(re.findall(r"`(odm(?:\.[A-Za-z_]+)+)`", prose)) - other
        called = set(re.findall(r"`(?:await )?(db\.[a-z_]+)", prose)) - calls
        missing += [f"{page.name}: {name}" for name in named if locate(name) is None]
        missing += [f"{page.name}: {call}" for call in called if not hasattr(odm.Store, call.removeprefix("db."))]
    assert missing == []


@pytest.mark.slow
def test_the_examples_satisfy_a_strict_type_checker(tmp_path: Path) -> None:
    written = []
    for page in (README, SHOP, *AFTER_SHOP, *ALONE):
        source = "\n".join(block.text for block in examples(page) if block.language == "python")
        written.append(tmp_path / f"shown_{page.stem.lower()}.py")
        written[-1].write_text(source, encoding="utf-8")
    checked = mypy(*written)
    assert checked.returncode == 0, checked.stdout
