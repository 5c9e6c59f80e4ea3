"""The change log of the bundled engine: what is in it, how long, and where it begins."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from odm import BackendError, BadCursor, BadValue, Entity, PrimaryKey, Store, Table, set_
from odm.backends.local import LocalFile, Memory
from odm.backends.local.opening import FORMAT, WITH_LOGS
from odm.changes import Changed, Inserted, Removed
from odm.errors import Unsupported
from odm.procedures.changes import Changes
from odm.protocol.connection import Backend
from odm.testing import Clock
from tests.backends.local.support import started

notes = Table("notes")
Open = Callable[..., Backend]


class Note(Entity, table=notes):
    name: str
    text: str = ""

    primary = PrimaryKey("NOTE#{name}")


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a backend; the file is the same each time."""
    memory: list[Memory] = []

    def opened(**options: Any) -> Backend:
        if request.param == "file":
            return LocalFile(tmp_path / "notes.db", **options)
        memory.append(Memory(**options))
        return memory[0]

    return opened


def store(backend: Backend) -> Store:
    db = Store(notes, backend)
    db.create()
    return db


def page(db: Store, after: str | None = None, size: int = 100) -> Changes:
    return db.run(lambda do: do.changes("log", after, size=size))


def changes(db: Store) -> list[Any]:
    return [change for change, _ in page(db).items]


def test_it_has_each_change_once_in_order(engine: Open) -> None:
    clock = Clock()
    db = store(engine(changes=True, clock=clock))
    a, b = Note(name="a"), Note(name="b")
    db.put(a)
    db.put(a)  # changes nothing
    clock.advance(60)
    with db.transaction() as tx:
        tx.put(b)
        tx.update(Note.primary(name="a"), set_(Note.text, "new"))
    db.delete(Note, name="a")
    db.delete(Note, name="a")
    with pytest.raises(BadValue):
        db.update(Note.primary(name="b"), set_(Note.name, "c"))  # type: ignore[odm]
    new = Note(name="a", text="new")
    found = changes(db)
    assert [(type(one), one.old, one.new) for one in found] == [
        (Inserted, None, a),
        (Inserted, None, b),
        (Changed, a, new),
        (Removed, new, None),
    ]
    assert [one.key for one in found] == [("NOTE#a", ""), ("NOTE#b", ""), ("NOTE#a", ""), ("NOTE#a", "")]
    assert found[1].at - found[0].at == timedelta(seconds=60)
    assert [one.order for one in found] == sorted({one.order for one in found})
    assert found[2].changed == {"text"}


def test_a_batch_that_writes_a_key_is_logged_per_item(engine: Open) -> None:
    db = store(engine(changes=True))
    with db.batch() as batch:
        for n in range(1200):  # more than the engine applies at once
            batch.put(Note(name=str(n)))
    first = page(db, size=1000)
    rest = page(db, first.position, size=1000)
    names = [getattr(change.new, "name", None) for change, _ in (*first.items, *rest.items)]
    assert names == [str(n) for n in range(1200)]
    assert page(db, rest.position).items == []
    assert page(db, first.items[10][1], size=2).items == list(first.items[11:13])


def test_without_changes_there_is_no_log(engine: Open) -> None:
    db = store(engine())
    db.put(Note(name="a"))
    with pytest.raises(Unsupported, match=r"'notes' keeps no changes: open it with Memory\(changes=True\)"):
        page(db)
    with pytest.raises(Unsupported):
        db.run(lambda do: do.change_shards())


def test_create_begins_the_log_of_a_table_that_exists(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    store(LocalFile(path)).put(Note(name="a"))
    db = store(LocalFile(path, changes=True))
    db.put(Note(name="b"))
    other = Store(notes, LocalFile(path))  # a program that does not know of the log
    other.put(Note(name="c"))
    assert [change.new.name for change in changes(db)] == ["b", "c"]
    assert [change.new.name for change in changes(other)] == ["b", "c"]


def test_an_open_store_logs_from_when_another_program_begins_the_log(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    db = store(LocalFile(path))
    db.put(Note(name="a"))
    code = (
        "import sys\nfrom odm import Store\nfrom odm.backends.local import LocalFile\n"
        "from tests.backends.local.test_log import notes\n"
        "Store(notes, LocalFile(sys.argv[1], changes=True)).create()\n"
    )
    with started(code, path) as process:
        assert process.wait(60) == 0
    db.put(Note(name="b"))
    assert [change.new.name for change in changes(db)] == ["b"]


def test_only_files_with_a_log_have_the_new_format(tmp_path: Path) -> None:
    for keeps, expected in ((False, FORMAT), (True, WITH_LOGS)):
        store(LocalFile(tmp_path / "notes.db", changes=keeps)).close()
        with closing(sqlite3.connect(tmp_path / "notes.db")) as raw:
            assert raw.execute("PRAGMA user_version").fetchone() == (expected,)


def test_old_changes_are_deleted_and_missing_ones_are_reported(engine: Open) -> None:
    clock = Clock()
    db = store(engine(changes=timedelta(hours=1), clock=clock))
    db.put(Note(name="first"))
    start = page(db).position
    db.put(Note(name="second"))
    clock.advance(3601)
    for n in range(2200):
        db.put(Note(name="third", text=str(n)))
    left = changes(db)
    assert [change.new.name for change in left[:1]] == ["third"]
    assert page(db, page(db, size=1).position).items
    with pytest.raises(
        BadCursor, match=r"'notes': the change after position .* is no longer kept, so changes were lost"
    ):
        page(db, start)


def test_the_newest_change_is_kept_so_that_numbers_continue(engine: Open) -> None:
    clock = Clock()
    db = store(engine(changes=timedelta(hours=1), clock=clock))
    for n in range(1100):
        db.put(Note(name="a", text=str(n)))
    end = page(db, size=2000).position
    clock.advance(10_000)
    for n in range(1000):
        db.put(Note(name="b", text=str(n)))
    assert [getattr(change.new, "name", None) for change, _ in page(db, end, size=2000).items] == ["b"] * 1000


def test_a_table_that_was_dropped_has_another_log(engine: Open) -> None:
    db = store(engine(changes=True))
    db.put(Note(name="a"))
    position = page(db).position
    db.drop()
    with pytest.raises(BackendError, match=r"call store.create\(\) first"):
        page(db)
    db.create()
    assert changes(db) == []
    with pytest.raises(BadCursor, match="is not a position of the change feed of table 'notes'"):
        page(db, position)


@pytest.mark.parametrize("position", ["", "7", ":", "x:1", "1:-1", "1:x", "1:\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_position_of_no_feed_is_refused(engine: Open, position: str) -> None:
    with pytest.raises(BadCursor):
        page(store(engine(changes=True)), position)


@pytest.mark.parametrize("value", [timedelta(), timedelta(seconds=-1), 24, "1h", None])
def test_how_long_must_be_a_time(value: Any) -> None:
    for make in (Memory, lambda **options: LocalFile("notes.db", **options)):
        with pytest.raises(BadValue, match=r"write changes=True, or how long to keep changes, as a timedelta above 0"):
            make(changes=value)


def test_a_copy_of_a_file_has_its_log(tmp_path: Path) -> None:
    backend = LocalFile(tmp_path / "notes.db", changes=True)
    db = store(backend)
    db.put(Note(name="a"))
    backend.compact()
    backend.copy(tmp_path / "copy.db")
    copied = Store(notes, LocalFile(tmp_path / "copy.db"))
    assert page(copied) == page(db)
    copied.put(Note(name="b"))
    assert len(changes(copied)) == 2


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_a_page_has_one_change_or_more(engine: Open, size: Any) -> None:
    with pytest.raises(BadValue, match=r"changes\(size=.*\): give the number of changes to read"):
        page(store(engine(changes=True)), size=size)
