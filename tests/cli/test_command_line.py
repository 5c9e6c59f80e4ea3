"""`odm` as a user runs it: in a folder, on a file, with its output in a pipe.

A program of its own is started where the start, the end or the pipe is what is tested.
"""

import re
import shutil
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from odm import Store
from odm.backends.local import LocalFile
from tests.cli.command_line import RUN, each, failure, odm, odm_here, succeeded
from tests.cli.conftest import SHOP
from tests.shop import Note, notes

pytestmark = pytest.mark.one_of(2)

TIME = re.compile(r"[0-9.]+ m?s\b")


def answers(output: str) -> str:
    """What follows the news of loading or finding, without the times."""
    return TIME.sub("...", output[output.index("\n1  ") :])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(folder: Path) -> str:
    return succeeded(odm(folder, "demo", "--all"))


def test_the_first_run_loads(first: str, folder: Path) -> None:
    assert first.startswith("Loading odm-demo.db\n")
    assert re.search(r"airports +3,376 items loaded\n +customers +240 .*\n +orders +4,000 ", first)
    assert len(re.findall(r"^\d+  .*\? ─", first, re.MULTILINE)) == 14
    assert (folder / "odm-demo.db").is_file()


def test_the_second_run_finds_its_data_and_gives_the_same_answers(first: str, folder: Path) -> None:
    second = succeeded(odm_here(folder, "demo", "--all"))
    assert second.startswith("Found the data of an earlier run in odm-demo.db")
    assert "3,376 airports, 240 customers, 4,000 orders" in second
    assert "items loaded" not in second
    assert answers(second) == answers(first)


def test_three_questions_fit_on_one_screen(first: str, folder: Path) -> None:
    lines = succeeded(odm_here(folder, "demo", COLUMNS="80")).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if re.match(r"\d+  .*\? ─", line)]) == 3
    assert lines[-1].startswith("odm demo --all")


def test_reset_loads_again(first: str, folder: Path) -> None:
    again = succeeded(odm_here(folder, "demo", "--reset", "--all"))
    assert "3,376 items loaded" in again
    assert answers(again) == answers(first)


@pytest.mark.parametrize("columns", [80, 120])
def test_piped_output_is_plain_text_of_the_width(columns: int, first: str, folder: Path) -> None:
    output = first if columns == 80 else succeeded(odm_here(folder, "demo", "--all", COLUMNS=str(columns)))
    *lines, last = output.splitlines()
    assert last.startswith("Read next: ")
    assert Path(last.removeprefix("Read next: ")).is_file()
    assert [line for line in lines if len(line) > columns] == []
    assert [line for line in lines if line != line.rstrip()] == []
    assert [character for character in set(output) if not character.isprintable()] == ["\n"]
    assert "…" not in output


def test_letters_that_the_output_lacks_are_no_error(first: str, folder: Path) -> None:
    assert "Found the data" in succeeded(odm(folder, "demo", PYTHONIOENCODING="ascii"))


def test_a_text_file_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.db"
    text.write_text("not a database, but long enough to look at " * 100)
    before = text.read_bytes()
    assert "notes.db" in failure(odm_here(tmp_path, "demo", "--file", "notes.db"))
    assert "choose another path" in failure(odm_here(tmp_path, "demo", "--file", "notes.db", "--reset"))
    assert text.read_bytes() == before


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.executescript("CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine');")
    connection.close()
    before = other.read_bytes()
    assert "another program" in failure(odm_here(tmp_path, "demo", "--file", "other.db"))
    assert "another program" in failure(odm_here(tmp_path, "demo", "--file", "other.db", "--reset"))
    assert other.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["other.db"]


def test_other_tables_in_the_file_stay(tmp_path: Path) -> None:
    with Store(notes, LocalFile(tmp_path / "shared.db")) as db:
        db.create()
        db.put(Note(note_id="mine"))
        succeeded(odm_here(tmp_path, "demo", "--file", "shared.db"))
        succeeded(odm_here(tmp_path, "demo", "--file", "shared.db", "--reset"))
        assert list(db.scan()) == [Note(note_id="mine")]


def test_a_missing_folder(tmp_path: Path) -> None:
    assert "no folder" in failure(odm_here(tmp_path, "demo", "--file", "missing/demo.db"))


INSTALL = "pip install 'single-table-odm[cli]'"


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_what_is_not_installed_is_named_with_the_fix(package: str, tmp_path: Path) -> None:
    blocked = f"import sys; sys.modules[{package!r}] = None\n{RUN}"
    message = failure(odm(tmp_path, "demo", run=blocked))
    assert package in message
    assert INSTALL in message


def test_commands_on_bigtable_name_the_extra(tmp_path: Path) -> None:
    cloud = ["shop:shop", "--project", "p", "--instance", "i"]
    commands = (
        ["plan", *cloud, "--backend", "bigtable"],
        ["scrub", *cloud],
        ["drop-rows", *cloud, "--all"],
        ["inspect", "bigtable:p/i", "t"],
    )
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    blocked = f"import sys; sys.modules['google'] = sys.modules['grpc'] = None\n{each(*commands)}"
    extra = "the Bigtable backend needs Google's client: pip install 'single-table-odm[bigtable]'"
    assert odm(tmp_path, run=blocked).stderr == f"odm: {extra}\nexit 1\n" * len(commands)


def test_without_airports_nothing_is_lost(
    first: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(folder / "odm-demo.db", tmp_path)
    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, "vega_datasets", None)
        for option in ("--file=new.db", "--reset"):
            message = failure(odm_here(tmp_path, "demo", option))
            assert "vega_datasets" in message
            assert INSTALL in message
    assert succeeded(odm_here(tmp_path, "demo")).startswith("Found the data")


def test_help(tmp_path: Path) -> None:
    assert "Load real airports" in succeeded(odm_here(tmp_path, "--help"))
    assert "Usage: odm " in succeeded(odm_here(tmp_path, "--help"))
    assert "--version" in succeeded(odm_here(tmp_path, "-h"))
    demo = succeeded(odm_here(tmp_path, "demo", "--help"))
    assert "--file" in demo
    assert "--reset" in demo
    assert "odm-demo.db" in demo
    assert not list(tmp_path.iterdir())


def test_version(tmp_path: Path) -> None:
    try:
        expected = version("single-table-odm")
    except PackageNotFoundError:
        pytest.skip("single-table-odm is not installed here")
    assert succeeded(odm_here(tmp_path, "--version")) == f"odm {expected}\n"


def test_what_can_not_be_run_as_written_is_one_line(tmp_path: Path) -> None:
    assert "--fast" in failure(odm_here(tmp_path, "demo", "--fast"), 2)
    assert "Did you mean 'demo'" in failure(odm_here(tmp_path, "dem"), 2)
    assert "See odm check --help" in failure(odm_here(tmp_path, "check"), 2)
    assert "dynamodb, bigtable. See odm plan --help" in failure(odm_here(tmp_path, "plan", "shop:shop"), 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_can_not_be_written_is_one_line(first: str, folder: Path) -> None:
    full = "sys.stdout.flush(); os.dup2(os.open('/dev/full', os.O_WRONLY), 1)"
    done = odm(folder, run=each(["--help"], ["copy", "--help"], ["demo"], before=full))
    assert done.stderr == "odm: the output cannot be written: No space left on device\nexit 1\n" * 3
    assert done.stdout == ""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not remove the folder of a process")
def test_a_folder_that_was_removed(tmp_path: Path) -> None:
    removed = "import os; os.rmdir(os.getcwd())\n"
    done = odm(tmp_path, run=removed + each(["check", "shop"], ["demo"], ["compact", "shop.db"]))
    assert re.fullmatch(r"(odm: [^\n]*the current folder [^\n]*\nexit 1\n){3}", done.stderr)


def test_without_a_command_the_help_is_shown(tmp_path: Path) -> None:
    done = odm_here(tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: odm " in done.stdout


def test_help_loads_neither_models_nor_vendors(tmp_path: Path) -> None:
    helps = each(["--help"], ["check", "--help"], ["explain", "--help"])
    done = odm(tmp_path, run=f"{helps}print(*sorted(sys.modules))")
    assert done.stderr == "exit 0\n" * 3
    modules = done.stdout.splitlines()[-1].split()
    assert "typer" in modules
    assert not {"boto3", "botocore", "google", "grpc", "odm.codec", "odm.schema.table"}.intersection(modules)


@pytest.mark.parametrize("command", ["demo", "lock", "check", "schema", "explain"])
def test_each_command_explains_itself(command: str, tmp_path: Path) -> None:
    text = succeeded(odm_here(tmp_path, command, "--help"))
    assert f"Usage: odm {command} " in text
    if command != "demo":
        assert f"Example: odm {command} shop.models:shop" in text
        assert "--json" in text
