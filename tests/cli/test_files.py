"""`odm compact` and `odm snapshot`."""

import json
from pathlib import Path

import pytest

from odm import Store
from odm.backends.local import LocalFile
from tests.cli.command_line import odm, odm_here
from tests.shop import Note, notes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With ``notes.db``, most of whose notes were deleted, and ``text.db``, which is not a database."""
    with Store(notes, LocalFile(tmp_path / "notes.db")) as db:
        db.create()
        with db.batch() as batch:
            for n in range(200):
                batch.put(Note(note_id=f"n{n}", text="y" * 1000))
        with db.batch() as batch:
            for n in range(1, 200):
                batch.delete(Note, note_id=f"n{n}")
    (tmp_path / "text.db").write_text("notes\n" * 1000)
    return tmp_path


def kept(path: Path) -> list[str]:
    with Store(notes, LocalFile(path)) as db:
        return [note.note_id for note in db.scan(Note)]


def test_compact(folder: Path) -> None:
    before = (folder / "notes.db").stat().st_size
    done = odm(folder, "compact", "notes.db", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    after = (folder / "notes.db").stat().st_size
    assert json.loads(done.stdout) == {"file": "notes.db", "before": before, "after": after}
    assert after < before / 4
    assert kept(folder / "notes.db") == ["n0"]
    done = odm_here(folder, "compact", "notes.db")
    assert done.stdout == f"notes.db: {after:,} bytes before, {after:,} bytes after\n"


def test_copy(folder: Path) -> None:
    done = odm(folder, "snapshot", "notes.db", "copy.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"copy.db: {(folder / 'copy.db').stat().st_size:,} bytes\n"
    assert kept(folder / "copy.db") == ["n0"]
    done = odm_here(folder, "snapshot", "notes.db", "other.db", "--json")
    assert json.loads(done.stdout) == {
        "file": "notes.db",
        "to": "other.db",
        "bytes": (folder / "other.db").stat().st_size,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compact", "gone.db"], "gone.db does not exist: call store.create() first, or check its path"),
        (["compact", "text.db"], "text.db: it is not odm's, or it is damaged; choose another path"),
        (["compact", "."], "is a folder; give the path of a file in it"),
        (["snapshot", "gone.db", "copy.db"], "gone.db does not exist: call store.create() first, or check its path"),
        (["snapshot", "notes.db", "text.db"], "text.db already exists; choose another path, or remove it first"),
        (["snapshot", "notes.db", "gone/copy.db"], "there is no folder"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, folder: Path) -> None:
    done = odm_here(folder, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("odm: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "copy.db").exists()


def test_help(folder: Path) -> None:
    for command in ("compact", "snapshot"):
        done = odm_here(folder, command, "--help")
        assert done.returncode == 0
        assert f"Example: odm {command} shop.db" in done.stdout
        assert "--json" in done.stdout
    done = odm_here(folder, "snapshot", "notes.db")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
