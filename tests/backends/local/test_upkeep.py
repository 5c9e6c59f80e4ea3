"""`LocalFile.compact` and `LocalFile.copy`."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from odm.backends.local import LocalFile
from odm.errors import BackendError
from odm.expressions.nodes import Increment
from odm.expressions.nodes import Path as Place
from odm.protocol.connection import perform
from odm.protocol.requests import BatchWrite, Delete, Get, Key, Put, Query, Scan, Update
from tests.backends.local.support import opened

ADD = (Increment(Place(("n",)), 1),)


def filled(path: Path, items: int = 500) -> None:
    connection = opened(path)
    puts = [Put(Key("p", f"{n:04}"), {"n": n, "text": "y" * 1000}, {"by_x": Key("X", f"{n:04}")}) for n in range(items)]
    perform(connection, BatchWrite(tuple(puts)))
    connection.close()


def test_compact_returns_space_and_keeps_the_items(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    filled(path)
    connection = opened(path)  # stays open
    perform(connection, BatchWrite(tuple(Delete(Key("p", f"{n:04}")) for n in range(450))))
    before = path.stat().st_size
    done = LocalFile(path).compact()
    assert done.before >= before
    assert done.after < before / 4
    assert path.stat().st_size == done.after
    for query in (Query("p"), Query("X", index="by_x")):
        assert [item["n"] for item in perform(connection, query).items] == list(range(450, 500))
    perform(connection, Put(Key("p"), {"n": 1}))
    connection.close()


def test_compact_leaves_nothing_open(tmp_path: Path) -> None:
    filled(tmp_path / "shop.db", 1)
    LocalFile(tmp_path / "shop.db").compact()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["shop.db", "shop.db-lock", "shop.db-turn"]


def test_a_copy_is_a_snapshot_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    filled(path, 3000)  # copied in several steps
    connection = opened(path)
    perform(connection, Put(Key("first"), {"n": 0}))
    perform(connection, Put(Key("second"), {"n": 0}))
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            perform(connection, Update(Key("first"), ADD))
            perform(connection, Update(Key("second"), ADD))

    thread = threading.Thread(target=write)
    thread.start()
    for number in range(5):
        LocalFile(path).copy(tmp_path / f"copy{number}.db")
    stop.set()
    thread.join()
    seen = []
    for number in range(5):
        copied = opened(tmp_path / f"copy{number}.db", create=False)
        first, second = (perform(copied, Get(Key(which)))["n"] for which in ("first", "second"))
        assert first - second in {0, 1}
        seen.append(first)
        perform(copied, Put(Key("q"), {}))
        copied.close()
        with closing(sqlite3.connect(tmp_path / f"copy{number}.db")) as raw:
            assert raw.execute("SELECT count(*) FROM items").fetchone() == (3003,)
            assert raw.execute("SELECT count(*) FROM entries").fetchone() == (3000,)
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    connection.close()


def test_a_copy_includes_the_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = opened(path)
    perform(connection, Put(Key("p"), {"n": 1}))
    LocalFile(path).copy(tmp_path / "copy.db")
    assert sorted(file.name for file in tmp_path.glob("copy*")) == ["copy.db"]
    assert (tmp_path / "copy.db").stat().st_mode == path.stat().st_mode
    copied = opened(tmp_path / "copy.db", create=False)
    assert perform(copied, Scan()).items == ({"n": 1},)
    copied.close()
    connection.close()


def test_a_copy_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    filled(path, 1)
    taken = tmp_path / "taken.db"
    taken.write_text("mine")
    for to in (taken, path, tmp_path):
        with pytest.raises(BackendError, match=f"file {to} already exists; choose another path, or remove it first"):
            LocalFile(path).copy(to)
    assert taken.read_text() == "mine"
    with pytest.raises(BackendError, match=f"there is no folder {tmp_path / 'gone'}; create it first"):
        LocalFile(path).copy(tmp_path / "gone" / "copy.db")
    assert not list(tmp_path.glob("*.part"))


def test_a_copy_does_not_overwrite_a_file_created_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, to = tmp_path / "shop.db", tmp_path / "copy.db"
    filled(path, 1)
    monkeypatch.setattr("os.path.lexists", lambda _: to.write_text("mine") == 0)  # created right after the check
    with pytest.raises(BackendError, match="already exists"):
        LocalFile(path).copy(to)
    assert to.read_text() == "mine"
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("contents", [b"notes\n" * 1000, None])
def test_a_foreign_file_is_neither_compacted_nor_copied(contents: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    if contents is None:
        raw = sqlite3.connect(path)
        raw.execute("CREATE TABLE theirs (a)")
        raw.close()
    else:
        path.write_bytes(contents)
    before = path.read_bytes()
    with pytest.raises(BackendError, match=r"theirs\.db.*choose another path"):
        LocalFile(path).compact()
    with pytest.raises(BackendError, match=r"theirs\.db.*choose another path"):
        LocalFile(path).copy(tmp_path / "copy.db")
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("copy*"))


@pytest.mark.parametrize("left", ["-wal", "-journal"])
def test_a_copy_is_refused_where_an_old_log_exists(left: str, tmp_path: Path) -> None:
    """SQLite would apply the log to the copy. It may be left from a file that was removed to be restored."""
    filled(tmp_path / "backup.db", 1)
    (tmp_path / f"shop.db{left}").write_bytes(b"left by a program that was killed")
    with pytest.raises(BackendError, match=f"shop.db{left} already exists") as caught:
        LocalFile(tmp_path / "backup.db").copy(tmp_path / "shop.db")
    assert "remove it first" in str(caught.value)
    assert not (tmp_path / "shop.db").exists()
