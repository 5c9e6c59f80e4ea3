"""Damaged files and full disks: one clear error, no acknowledged write lost, and later requests work."""

import itertools
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from odm.backends.local import LocalFile
from odm.backends.local.driver import LocalConnection
from odm.backends.local.file import FileStorage
from odm.errors import BackendError, OdmError
from odm.expressions.nodes import Increment
from odm.expressions.nodes import Path as Place
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables, Delete, Get, Key, Page, Put, Query, Request, Scan, Update
from tests.backends.local.support import line_of, opened, output_of, started

pytestmark = pytest.mark.slow

KEY = Key("p", "s")


def filled(path: Path) -> LocalConnection:
    connection = opened(path)
    for n in range(200):
        item = {
            "n": n,
            "d": Decimal("1.5"),
            "b": b"xx",
            "t": ["a", {"q": Decimal(2)}],
            "s": frozenset("ab"),
            "x": "y" * n,
        }
        perform(connection, Put(Key(f"p{n % 7}", f"s{n:04}"), item, {"by_x": Key("X", f"{n:04}")}))
    return connection


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed file with 200 items."""
    path = tmp_path_factory.mktemp("sound") / "shop.db"
    filled(path).close()
    return path


def requests(chance: random.Random) -> Iterator[Request]:
    yield from (Get(Key("p1", "s0001")), Scan(), Query("p2"), Query("p3", reverse=True), Query("X", index="by_x"))
    for n in chance.sample(range(200), 10):
        key = Key(f"p{n % 7}", f"s{n:04}")
        yield Put(key, {"n": 1}, {"by_x": Key("X", "new")})
        yield Update(key, (Increment(Place(("n",)), 1),), {"by_x": Key("Y", "new")})
        yield Delete(key)
    yield CreateTables()


def use(path: Path, chance: random.Random) -> None:
    """Every request either works or raises an error of odm."""
    connection = opened(path, create=False)
    for request in requests(chance):
        with suppress(OdmError):
            read(connection, request)
    connection.close()
    for upkeep in (LocalFile(path).compact, lambda: LocalFile(path).copy(path.with_suffix(".copy"))):
        with suppress(OdmError):
            upkeep()


@pytest.mark.parametrize("value", [b"", b"{", b"7", b"[1,2]", "text", 1, None], ids=str)
def test_a_value_of_another_type_in_place_of_an_item_is_damage(value: object, sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes(sound.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE items SET data = ?", (value,))
    table = opened(path, create=False)
    for request in (Get(Key("p1", "s0001")), Query("p2"), Query("X", index="by_x"), Scan()):
        with pytest.raises(BackendError, match="damaged"):
            read(table, request)
    table.close()


def read(connection: LocalConnection, request: Request) -> str:
    """The decoded response."""
    found = perform(connection, request)
    return repr(found.items if isinstance(found, Page) else found)


@pytest.mark.parametrize("seed", range(15))
def test_flipped_bytes_raise_only_errors_of_odm(seed: int, sound: Path, tmp_path: Path) -> None:
    chance = random.Random(seed)
    data = bytearray(sound.read_bytes())
    for _ in range(chance.choice([1, 5, 50, 500])):
        data[chance.randrange(4096 if seed % 3 else 0, len(data))] = chance.randrange(256)
    path = tmp_path / "shop.db"
    path.write_bytes(data)
    use(path, chance)


def test_a_truncated_file_is_damaged(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    data = sound.read_bytes()
    for length in (100, 4096, 4097, len(data) // 2, len(data) - 4096):
        path.write_bytes(data[:length])
        connection = opened(path, create=False)
        for request in (Get(KEY), Scan(), Put(KEY, {})):
            with pytest.raises(BackendError, match=r"shop\.db: .* damaged"):
                perform(connection, request)
        connection.close()


@pytest.mark.parametrize("damage", ["gone", "header", "middle"])
def test_without_its_log_a_file_has_its_earlier_contents(damage: str, tmp_path: Path) -> None:
    """SQLite treats a damaged log like one that a crash cut off. What remains is consistent."""
    owner = filled(tmp_path / "shop.db")
    path = tmp_path / "copy.db"
    shutil.copy(tmp_path / "shop.db", path)
    log = bytearray((tmp_path / "shop.db-wal").read_bytes())
    if damage != "gone":
        at = 0 if damage == "header" else len(log) // 2
        log[at : at + 100] = b"\xff" * 100
        path.with_name("copy.db-wal").write_bytes(log)
    owner.close()
    connection = opened(path, create=damage != "middle")
    found = perform(connection, Scan()).items
    assert len(found) < 200
    assert (len(found) > 0) == (damage == "middle")
    assert perform(connection, Query("X", index="by_x", count=True)).count == len(found)
    perform(connection, Put(KEY, {"n": 1}))
    connection.close()


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.touch()
    connection = opened(path, create=False)
    with pytest.raises(BackendError, match=r"is empty: call store.create\(\) first"):
        perform(connection, Get(KEY))
    perform(connection, CreateTables())
    perform(connection, Put(KEY, {"n": 1}))
    assert perform(connection, Get(KEY)) == {"n": 1}
    connection.close()


def test_only_create_makes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = opened(path, create=False)
    calls: list[Callable[[], object]] = [LocalFile(path).compact, lambda: LocalFile(path).copy(tmp_path / "copy.db")]
    calls += [partial(perform, connection, request) for request in (Get(KEY), Scan(), Put(KEY, {}))]
    for call in calls:
        with pytest.raises(BackendError, match=r"shop\.db does not exist: call store.create\(\) first"):
            call()
    connection.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed")
def test_a_file_that_was_removed_or_replaced_takes_no_writes(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = opened(path)
    perform(connection, Put(KEY, {"n": 1}))
    for file in tmp_path.glob("shop.db*"):
        file.unlink()
    with pytest.raises(BackendError, match="does not exist"):
        perform(connection, Put(KEY, {"n": 2}))
    other = opened(path)
    perform(connection, Put(KEY, {"n": 3}))
    assert perform(other, Get(KEY)) == {"n": 3}
    other.close()
    connection.close()


LIMITED = """
import resource, sys
from pathlib import Path
from odm.backends.local import LocalFile
from odm.errors import BackendError
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables, Get, Key, Put, Query
from tests.backends.local.support import opened

path = Path(sys.argv[1])
connection = opened(path)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, limits[1]))
done = 0
try:
    while done < 1000:
        perform(connection, Put(Key("p", f"{done:04}"), {"text": "y" * 2000}, {"by_x": Key("X", f"{done:04}")}))
        done += 1
except BackendError as error:
    assert str(path) in str(error) and "full" in str(error), error
assert 5 < done < 1000
for call in (LocalFile(path).compact, lambda: perform(connection, Put(Key("q"), {"text": "y" * 9000}))):
    try:
        call()
    except BackendError as error:
        assert "full" in str(error), error
    else:
        raise AssertionError("there was space")
assert perform(connection, Query("p", count=True)).count == done
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
perform(connection, Put(Key("q"), {"text": "y" * 9000}))
for index, partition in ((None, "p"), ("by_x", "X")):
    assert perform(connection, Query(partition, index=index, count=True)).count == done
LocalFile(path).compact()
connection.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
def test_no_space_for_the_log(tmp_path: Path) -> None:
    assert output_of(LIMITED, tmp_path / "shop.db") == ""


def test_a_full_disk_stops_writes_and_loses_nothing(tmp_path: Path) -> None:
    """SQLite's page limit raises the same error as a full disk."""
    path = tmp_path / "shop.db"
    connection = opened(path)
    storage = cast(FileStorage, connection._engine.storage)
    [sqlite] = storage._connections.idle
    pages = sqlite.execute("PRAGMA page_count").fetchone()[0]
    sqlite.execute(f"PRAGMA max_page_count = {pages + 20}")
    keys = (Key("p", f"{n:04}") for n in itertools.count())

    def fill() -> None:
        for key in keys:
            perform(connection, Put(key, {"text": "y" * 2000}, {"by_x": Key("X", key.sort)}))

    with pytest.raises(BackendError, match="the disk is full") as raised:
        fill()
    done = int(next(keys).sort) - 1
    assert str(path) in str(raised.value)
    assert isinstance(raised.value.__cause__, sqlite3.OperationalError)
    for index, partition in ((None, "p"), ("by_x", "X")):
        assert perform(connection, Query(partition, index=index, count=True)).count == done
    perform(connection, Delete(Key("p", "0000")))
    sqlite.execute(f"PRAGMA max_page_count = {pages + 1000}")
    perform(connection, Put(Key("p", "9999"), {"text": "y" * 2000}))
    assert perform(connection, Query("p", count=True)).count == done
    connection.close()


READER = """
import os, sys
from pathlib import Path
from odm.backends.local import Compaction, LocalFile  # compact() imports its module while this process may read it
from odm.errors import BackendError
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables, Delete, Get, Key, Put, Query
from tests.backends.local.support import opened

path, there = Path(sys.argv[1]), Path(sys.argv[2])
connection = opened(path, create=False)
if os.geteuid() == 0:  # for root nothing is read-only
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

def look():
    assert perform(connection, Query("X", index="by_x")).items == (perform(connection, Get(Key("p", "s"))),)
    return perform(connection, Get(Key("p", "s")))["n"]

def refused(call):
    try:
        call()
    except BackendError as error:
        assert str(path) in str(error) and "is read-only" in str(error), error
    else:
        raise AssertionError("it was written")

print(look(), flush=True)
for request in (Put(Key("p", "s"), {}), Delete(Key("p", "s")), CreateTables()):
    refused(lambda: perform(connection, request))
refused(LocalFile(path).compact)
LocalFile(path).copy(there / "copy.db")
copy = opened(there / "copy.db", create=False)
print(perform(copy, Get(Key("p", "s")))["n"], flush=True)
copy.close()
while sys.stdin.readline():
    print(look(), flush=True)
connection.close()
"""


@pytest.fixture
def folders() -> Iterator[tuple[Path, Path]]:
    """Two folders that every user of the machine can access; in the second one all can write."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        Path(one).chmod(0o755)
        Path(two).chmod(0o777)
        yield Path(one), Path(two)
        Path(one).chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are other ones")
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o555), (0o666, 0o555), (0o444, 0o777)])
@pytest.mark.parametrize("in_use", [False, True])
def test_a_read_only_file_can_be_read(
    folders: tuple[Path, Path], file_mode: int, folder_mode: int, in_use: bool
) -> None:
    path = folders[0] / "shop.db"
    owner = opened(path)
    perform(owner, Put(KEY, {"n": 1}, {"by_x": Key("X")}))
    if not in_use:
        owner.close()
    for file in folders[0].iterdir():
        file.chmod(file_mode)
    folders[0].chmod(folder_mode)
    with started(READER, path, folders[1]) as reader:
        assert reader.stdin is not None
        assert (line_of(reader), line_of(reader)) == ("1\n", "1\n")
        if os.geteuid() == 0 or in_use:  # a writer with permission continues, and the reader sees its writes
            writer = owner if in_use else opened(path, create=False)
            perform(writer, Put(KEY, {"n": 2}, {"by_x": Key("X")}))
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert line_of(reader) == "2\n"
            writer.close()
        _, err = reader.communicate()
        assert (reader.returncode, err) == (0, "")
