"""The files of a database: readable by their owner alone, and never a file that another user put in their place."""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odm.backends.bigtable.emulator import emulator
from odm.backends.local import LocalFile
from odm.backends.local.lock import WriterLock
from odm.errors import BackendError
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables, Get, Key, Put
from tests.backends.local.support import opened, output_of, schema_of
from tests.cli.command_line import odm_here, succeeded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions, and links need rights")

KEY = Key("p", "s")
SIDES = ("-wal", "-shm", "-journal", "-lock", "-turn")
OTHER_USER = 65534

as_root = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can make files of other users"
)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def written(path: Path, number: int) -> None:
    """Put an item, and read it."""
    connection = opened(path)
    perform(connection, Put(KEY, {"n": number}))
    assert perform(connection, Get(KEY)) == {"n": number}
    connection.close()


REFUSED = """
import sys
from pathlib import Path
from odm.errors import BackendError
from odm.protocol.connection import perform
from odm.protocol.requests import Get, Key, Put
from tests.backends.local.support import opened

connection = opened(Path(sys.argv[1]), create=False)
key = Key("p", "s")
for request in (Put(key, {"n": 1}),) if sys.argv[2] == "write" else (Get(key),):
    try:
        perform(connection, request)
    except BackendError as error:
        print(error)
connection.close()
"""
"""Performs a request that is refused, in a process of its own, which is stopped when it waits for a pipe."""


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_database_is_private(mask: int, tmp_path: Path) -> None:
    with umask(mask):
        connection = opened(tmp_path / "shop.db")
        perform(connection, Put(KEY, {"n": 1}))
        assert modes(tmp_path) == dict.fromkeys(["shop.db", *(f"shop.db{s}" for s in SIDES if s != "-journal")], 0o600)
        connection.close()
        LocalFile(tmp_path / "shop.db").compact()
        LocalFile(tmp_path / "shop.db").copy(tmp_path / "copy.db")
        assert set(modes(tmp_path).values()) == {0o600}


def test_the_file_of_the_bigtable_emulator_is_private(tmp_path: Path) -> None:
    with umask(0), emulator(file=tmp_path / "bigtable.db"):
        assert set(modes(tmp_path).values()) == {0o600}
        assert len(modes(tmp_path)) >= 5


def test_the_file_of_the_demo_is_private(tmp_path: Path) -> None:
    with umask(0):
        succeeded(odm_here(tmp_path, "demo", "--file", "demo.db"))
    assert modes(tmp_path)["demo.db"] == 0o600
    assert set(modes(tmp_path).values()) == {0o600}


@pytest.mark.parametrize("mode", [0o644, 0o664, 0o666])
def test_the_mode_of_an_existing_database_stays_and_its_new_files_have_it(mode: int, tmp_path: Path) -> None:
    """Whoever shares a database with a group made the file so, or changed its mode."""
    path = tmp_path / "shop.db"
    opened(path).close()
    for file in tmp_path.iterdir():
        if file != path:
            file.unlink()
    path.chmod(mode)
    with umask(0o022):
        connection = opened(path)
        perform(connection, Put(KEY, {"n": 1}))
        assert modes(tmp_path) == dict.fromkeys(["shop.db", *(f"shop.db{s}" for s in SIDES if s != "-journal")], mode)
        connection.close()


def test_the_modes_of_existing_lock_files_stay(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    opened(path).close()
    for suffix in ("-lock", "-turn"):
        path.with_name(path.name + suffix).chmod(0o640)
    written(path, 1)
    assert [modes(tmp_path)[f"shop.db{suffix}"] for suffix in ("-lock", "-turn")] == [0o640, 0o640]


def link(place: Path, other: Path) -> None:
    place.symlink_to(other)


def broken_link(place: Path, other: Path) -> None:
    place.symlink_to(other.with_name("new"))


def hard_link(place: Path, other: Path) -> None:
    os.link(other, place)


def pipe(place: Path, other: Path) -> None:
    os.mkfifo(place)


def folder(place: Path, other: Path) -> None:
    place.mkdir()


PLANTED = {"link": link, "broken link": broken_link, "hard link": hard_link, "pipe": pipe, "folder": folder}


@pytest.mark.parametrize("suffix", SIDES)
@pytest.mark.parametrize("plant", PLANTED.values(), ids=list(PLANTED))
def test_another_file_in_place_of_a_side_file_is_refused(
    plant: Callable[[Path, Path], None], suffix: str, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"do not touch")
    path = tmp_path / "data" / "shop.db"
    path.parent.mkdir()
    opened(path).close()
    place = path.with_name(path.name + suffix)
    place.unlink(missing_ok=True)
    plant(place, precious)
    if plant is pipe:
        assert re.search(rf"shop\.db{suffix} .*remove it", output_of(REFUSED, path, "write"))
    else:
        connection = opened(path, create=False)
        with pytest.raises(BackendError, match=rf"shop\.db{suffix} .*remove it"):
            perform(connection, Put(KEY, {"n": 1}))
        connection.close()
    assert precious.read_bytes() == b"do not touch"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data", "precious"]


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_reader_does_not_wait_for_a_pipe(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    opened(path).close()
    os.mkfifo(path.with_name(path.name + suffix))
    assert f"shop.db{suffix} is not a file" in output_of(REFUSED, path, "read")


@pytest.mark.parametrize("suffix", ["-lock", "-turn"])
def test_a_lock_does_not_follow_a_link_that_appears_after_the_check(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"do not touch")
    lock = WriterLock(tmp_path / "shop.db", 1.0)
    monkeypatch.setattr("odm.backends.local.lock.prepare", lambda *_: None)
    for name in ("-lock", "-turn"):
        (tmp_path / f"shop.db{name}").touch()
    (tmp_path / f"shop.db{suffix}").unlink()
    (tmp_path / f"shop.db{suffix}").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"), lock:
        pass
    lock.close()
    assert precious.read_bytes() == b"do not touch"


def test_the_database_itself_may_be_a_link_of_its_owner(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "shop.db").symlink_to(tmp_path / "data" / "real.db")
    written(tmp_path / "shop.db", 1)
    assert (tmp_path / "data" / "real.db-lock").exists()
    assert not (tmp_path / "shop.db-lock").exists()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder in which every user can make files, as in /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@as_root
@pytest.mark.parametrize("how", ["the file", "a link in the way", "a folder in the way"])
def test_a_link_that_another_user_planted_in_a_shared_folder_is_not_followed(
    how: str, shared: Path, tmp_path: Path
) -> None:
    """Linux has this rule (fs.protected_symlinks), and odm, which resolves links itself, would circumvent it."""
    home = tmp_path / "home"
    home.mkdir()
    match how:
        case "the file":
            path, planted = shared / "shop.db", shared / "shop.db"
            planted.symlink_to(home / "new.db")
        case "a folder in the way":
            path, planted = shared / "folder" / "shop.db", shared / "folder"
            planted.symlink_to(home)
        case _:
            path, planted = tmp_path / "mine.db", shared / "next"
            path.symlink_to(planted)
            planted.symlink_to(home / "new.db")
    os.lchown(planted, OTHER_USER, OTHER_USER)
    with pytest.raises(BackendError, match=f"{planted} is a symbolic link of another user"):
        opened(path)
    assert list(home.iterdir()) == []


@as_root
@pytest.mark.parametrize("suffix", ["", *SIDES])
def test_a_file_that_another_user_planted_in_a_shared_folder_is_not_used(suffix: str, shared: Path) -> None:
    path = shared / "shop.db"
    if suffix:
        opened(path).close()
    planted = path.with_name(path.name + suffix)
    planted.unlink(missing_ok=True)
    planted.touch()
    os.chown(planted, OTHER_USER, OTHER_USER)
    planted.chmod(0o666)
    connection = LocalFile(path).connect(schema_of())
    with pytest.raises(BackendError, match=rf"shop\.db{suffix} belongs to another user"):
        perform(connection, CreateTables())
    connection.close()
    assert planted.read_bytes() == b""


@as_root
def test_a_database_in_a_shared_folder_works_for_its_owner_and_root(shared: Path) -> None:
    path = shared / "shop.db"
    written(path, 1)
    connection = opened(path)  # its log and its locks stay
    perform(connection, Put(KEY, {"n": 2}))
    connection.close()
    for file in shared.iterdir():
        os.chown(file, OTHER_USER, OTHER_USER)
    with pytest.raises(BackendError, match=r"shop\.db belongs to another user"):
        written(path, 3)
    os.chown(shared, OTHER_USER, OTHER_USER)
    written(path, 3)
