"""Properties of files only: durability, sharing between processes, and files of other programs."""

import gc
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as FilePath
from threading import TIMEOUT_MAX
from typing import cast

import pytest

from odm.backends.local import LocalFile, file
from odm.backends.local.file import FileStorage
from odm.backends.local.opening import open_file
from odm.backends.local.storage import Record
from odm.errors import BackendError, BadValue, ConditionFailed, Throttled
from odm.expressions.nodes import Increment, Path
from odm.protocol.connection import perform
from odm.protocol.requests import BatchWrite, CreateTables, DropTables, Get, Key, Put, Query, Scan, Update
from tests.backends.local.support import opened, reading, schema_of, set_record, writing

KEY = Key("p", "s")
ADD = (Increment(Path(("n",)), 1),)

WRITER = """
import sys
from odm.backends.local import LocalFile
from odm.expressions.nodes import Increment, Path
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables, Key, Put, Update
from tests.backends.local.support import schema_of

name, times = sys.argv[2], int(sys.argv[3])
connection = LocalFile(sys.argv[1]).connect(schema_of())
perform(connection, CreateTables())
for n in range(times):
    perform(connection, Put(Key(name, f"{n:06}"), {"n": n}, {"by_x": Key("X", f"{name}{n:06}")}))
    perform(connection, Update(Key("all"), (Increment(Path(("n",)), 1),)))
    print(n, flush=True)
connection.close()
"""


def writer(path: FilePath, name: str, times: int) -> subprocess.Popen[str]:
    """A process that puts items and increments a counter; it prints the number of each put whose call has returned."""
    arguments = [sys.executable, "-c", WRITER, str(path), name, str(times)]
    environment = {**os.environ, "PYTHONPATH": str(FilePath.cwd())}
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)


def test_writes_are_visible_after_reopening(tmp_path: FilePath) -> None:
    path = tmp_path / "shop.db"
    first = opened(path)
    perform(first, Put(KEY, {"n": 1}, {"by_x": Key("X", "1")}))
    first.close()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["shop.db", "shop.db-lock", "shop.db-turn"]
    second = opened(path, create=False)
    assert perform(second, Get(KEY)) == {"n": 1}
    assert perform(second, Query("X", index="by_x")).items == ({"n": 1},)
    perform(second, Put(KEY, {"n": 2}))
    assert perform(second, Query("X", index="by_x")).items == ()
    second.close()


def test_a_kill_while_the_file_is_open_loses_no_write(tmp_path: FilePath) -> None:
    path = tmp_path / "shop.db"
    process = writer(path, "killed", 1_000_000)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(20)]
    process.send_signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
    rest = process.stdout.read().splitlines()
    process.wait()
    process.stdout.close()
    told = len(lines) + len(rest)
    connection = opened(path, create=False)
    page = perform(connection, Query("X", index="by_x"))
    counted = perform(connection, Get(Key("all")))["n"]
    connection.close()
    assert [item["n"] for item in page.items] == list(range(len(page.items)))
    assert len(page.items) - told in {0, 1}
    assert counted - told in {0, 1}


def test_processes_write_together(tmp_path: FilePath) -> None:
    path = tmp_path / "shop.db"
    processes = [writer(path, name, 100) for name in ("one", "two", "three")]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0, 0]
    connection = opened(path, create=False)
    assert perform(connection, Get(Key("all"))) == {"n": 300}
    assert perform(connection, Query("two", count=True)).count == 100
    assert perform(connection, Query("X", index="by_x", count=True)).count == 300
    connection.close()


def test_threads_write_and_read_together(tmp_path: FilePath) -> None:
    connection = opened(tmp_path / "shop.db")
    perform(connection, Put(KEY, {"n": 0}, {"by_x": Key("X")}))

    def work(thread: int) -> list[int]:
        seen = []
        for n in range(25):
            perform(connection, Update(KEY, ADD, {"by_x": Key("X", f"{thread} {n}")}))
            [item] = perform(connection, Query("X", index="by_x")).items
            seen.append(item["n"])
        return seen

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert all(seen == sorted(seen) for seen in results)
    assert perform(connection, Get(KEY)) == {"n": 200}
    connection.close()


def test_a_read_does_not_wait_for_a_writer(tmp_path: FilePath) -> None:
    storage = file.FileStorage(tmp_path / "db", "shop", 60.0)
    storage.create([])
    with writing(storage) as view:
        set_record(view, KEY, Record(b"1", {}))
        with reading(storage) as other:
            assert other.get(KEY) is None
    with reading(storage) as view:
        assert view.get(KEY) == b"1"
    storage.close()


def test_a_block_that_raises_changes_nothing(tmp_path: FilePath) -> None:
    storage = file.FileStorage(tmp_path / "db", "shop", 60.0)
    storage.create(["by_x"])

    def change() -> None:
        with writing(storage) as view:
            set_record(view, KEY, Record(b"1", {"by_x": Key("X")}))
            raise ConditionFailed("")

    with pytest.raises(ConditionFailed):
        change()
    with reading(storage) as view:
        assert view.get(KEY) is None
        assert list(view.rows(Query("X", index="by_x"))) == []
    storage.close()


def test_other_connections_see_what_one_creates_and_drops(tmp_path: FilePath) -> None:
    one, two = opened(tmp_path / "shop.db"), opened(tmp_path / "shop.db", create=False)
    perform(two, Put(KEY, {"n": 1}, {"by_x": Key("X")}))
    perform(one, DropTables())
    for request in (Get(KEY), Put(KEY, {}), Scan()):
        with pytest.raises(BackendError, match="does not exist"):
            perform(two, request)
    perform(one, CreateTables())
    perform(one, Put(KEY, {"n": 2}))
    assert perform(two, Get(KEY)) == {"n": 2}
    perform(two, Put(KEY, {"n": 3}, {"by_x": Key("X")}))
    assert perform(one, Query("X", index="by_x")).items == ({"n": 3},)
    one.close()
    two.close()


def test_drop_removes_all_rows(tmp_path: FilePath) -> None:
    connection = opened(tmp_path / "shop.db")
    perform(connection, Put(KEY, {"n": 1}, {"by_x": Key("X")}))
    perform(connection, DropTables())
    connection.close()
    raw = sqlite3.connect(tmp_path / "shop.db")
    assert [raw.execute(f"SELECT count(*) FROM {name}").fetchone() for name in ("items", "entries", "spaces")] == [
        (0,)
    ] * 3
    raw.close()


def test_nothing_is_opened_before_the_first_request(tmp_path: FilePath) -> None:
    connection = LocalFile(tmp_path / "shop.db").connect(schema_of())
    assert list(tmp_path.iterdir()) == []
    connection.close()
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_is_resolved_when_the_backend_is_created(
    tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    backend = LocalFile("shop.db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    connection = backend.connect(schema_of())
    perform(connection, CreateTables())
    connection.close()
    assert (tmp_path / "shop.db").exists()
    assert repr(backend) == f"LocalFile({str(tmp_path / 'shop.db')!r})"


def foreign(path: FilePath) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()


def newer(path: FilePath) -> None:
    opened(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()


def no_database(path: FilePath) -> None:
    path.write_text("notes\n" * 1000)


def damaged(path: FilePath) -> None:
    connection = opened(path)
    perform(connection, BatchWrite(tuple(Put(Key("p", str(n)), {"text": "x" * 500}) for n in range(500))))
    connection.close()
    data = bytearray(path.read_bytes())
    for page in range(4, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign, "is a database of another program; choose another path"),
        (newer, "has format 3, written by a later version of odm; this one reads up to format 2: upgrade odm"),
        (no_database, "it is not odm's, or it is damaged"),
        (damaged, "it is damaged"),
        (FilePath.mkdir, "is a folder; give the path of a file in it"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: FilePath, make: Callable[[FilePath], None], message: str) -> None:
    path = tmp_path / "wrong.db"
    make(path)
    before = None if path.is_dir() else path.read_bytes()
    connection = opened(path, create=False)
    for request in (Query("p"), Query("p", reverse=True)):
        with pytest.raises(BackendError, match=message) as raised:
            perform(connection, request)
        assert str(path) in str(raised.value)
    connection.close()
    assert before is None or path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_a_pipe_is_refused_and_no_other_file_is_created(tmp_path: FilePath) -> None:
    os.mkfifo(tmp_path / "shop.db")
    connection = LocalFile(tmp_path / "shop.db").connect(schema_of())
    for request in (CreateTables(), Query("p")):
        with pytest.raises(BackendError, match=f"{tmp_path / 'shop.db'} is a device or a pipe; choose another path"):
            perform(connection, request)
    connection.close()
    assert [file.name for file in tmp_path.iterdir()] == ["shop.db"]


def test_a_path_with_a_null_character() -> None:
    with pytest.raises(BadValue, match=r"LocalFile\('a.x00b'\): a path cannot contain the character U\+0000"):
        LocalFile("a\0b")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not remove the folder of a process")
def test_a_relative_path_where_the_folder_was_removed(tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(BackendError, match=r"LocalFile\('shop.db'\): the current folder does not exist any more"):
        LocalFile("shop.db")


def test_a_missing_folder_is_named(tmp_path: FilePath) -> None:
    connection = LocalFile(tmp_path / "gone" / "shop.db").connect(schema_of())
    with pytest.raises(BackendError, match=f"there is no folder {tmp_path / 'gone'}; create it first"):
        perform(connection, CreateTables())
    connection.close()


def test_a_program_that_keeps_the_file_locked(tmp_path: FilePath) -> None:
    path = tmp_path / "shop.db"
    connection = LocalFile(path, timeout=0.05).connect(schema_of())
    perform(connection, CreateTables())
    rude = sqlite3.connect(path, isolation_level=None)
    rude.execute("BEGIN IMMEDIATE")
    with pytest.raises(Throttled, match="has locked the file for too long; try again") as raised:
        perform(connection, Put(KEY, {}))
    assert isinstance(raised.value.__cause__, sqlite3.OperationalError)
    rude.execute("COMMIT")
    perform(connection, Put(KEY, {}))
    rude.close()
    connection.close()


@pytest.mark.parametrize("timeout", [2e6, 3e6, 1e9, TIMEOUT_MAX])
def test_a_very_long_timeout_still_waits(timeout: float, tmp_path: FilePath) -> None:
    """SQLite stores the timeout in milliseconds in 32 bits."""
    opened(tmp_path / "shop.db").close()
    connection = open_file(tmp_path / "shop.db", timeout, create=False)
    [milliseconds] = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.close()
    assert milliseconds >= 2e9


def test_writes_are_synced(tmp_path: FilePath) -> None:
    storage = file.FileStorage(tmp_path / "db", "shop", 60.0)
    storage.create([])
    with writing(storage) as view:
        assert isinstance(view, file.FileTable)
        assert view._execute("PRAGMA synchronous").fetchone() == (2,)
        assert view._execute("PRAGMA journal_mode").fetchone() == ("wal",)
    storage.close()


def test_an_unclosed_connection_is_closed_with_its_store(tmp_path: FilePath) -> None:
    connection = opened(tmp_path / "left.db")
    storage = cast(FileStorage, connection._engine.storage)
    [sqlite] = storage._connections.idle
    del connection, storage
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        sqlite.execute("SELECT 1")
