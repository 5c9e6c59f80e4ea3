"""How a file is opened, laid out when it is new, and refused when it is not one that this version can read.

Where file and folder may be written, with a write-ahead log and ``synchronous=FULL``: a commit is on the disk when it
returns. Where they may not, for reading only: together with a program that has the file open, or as a file that nobody
changes (``immutable``), which is opened anew when it has changed after all.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from odm.errors import BackendError

APPLICATION_ID: Final = int.from_bytes(b"odm1", "big")
"""Marks a file as odm's, at byte 68: https://sqlite.org/fileformat.html#application_id."""

FORMAT: Final = 1
"""The version of the layout below; a file with a higher one was written by a later odm."""

LONGEST_SECONDS: Final = 2_147_483.0
"""SQLite counts the milliseconds that it waits in 32 bits, and does not wait at all for more."""

_LAYOUT: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE spaces (id INTEGER PRIMARY KEY AUTOINCREMENT, "table" TEXT, "index" TEXT, UNIQUE ("table", "index"));
CREATE TABLE items (
    space INTEGER, partition BLOB, sort BLOB, data BLOB, entries BLOB,
    PRIMARY KEY (space, partition, sort)
) WITHOUT ROWID;
CREATE TABLE entries (
    space INTEGER, partition BLOB, sort BLOB, item_partition BLOB, item_sort BLOB,
    PRIMARY KEY (space, partition, sort, item_partition, item_sort)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""


class Connection(sqlite3.Connection):
    """A connection with what was learned by it.

    Attributes:
        spaces: table to the version of the file at the last look, and the ids of the table's spaces.
        opened: which file this is; for one that nobody changes, how it looked.
        frozen: whether it was opened as a file that nobody changes.
        empty: whether the file was not laid out when it was opened.
    """

    spaces: dict[str, tuple[int, dict[str, int]]]
    opened: tuple[object, ...]
    frozen: bool
    empty: bool

    def outdated(self, path: Path) -> bool:
        """Whether another file is at the path by now, or the file has changed although nobody was to change it."""
        return self.opened != _look_of(path, self.frozen)


def open_file(path: Path, timeout: float, *, create: bool) -> Connection:
    """A connection to the file, in autocommit mode and for any thread.

    Args:
        path: absolute path of the file.
        timeout: how long to wait for programs that lock the file without asking for the writer lock, in seconds.
        create: make a file that is not there, and take one that is empty, for `lay_out`.

    Raises:
        BackendError: it is not odm's, too new, not there, empty, or a folder.
        sqlite3.Error: it cannot be opened or is damaged.
    """
    _check_place(path, create)
    writable = create or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK))
    frozen = not writable and not _log_of(path).exists()
    mode = "rwc" if create else "rw" if writable else "ro"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}{'&immutable=1' if frozen else ''}",
        timeout=min(timeout, LONGEST_SECONDS),
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
        uri=True,
    )
    try:
        connection.empty = _is_empty(connection)
        if not connection.empty:
            _check(connection, path)
        elif not create:
            raise BackendError(f"file {path} is empty: call store.create() first")
        if writable and not connection.empty:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.create_function("crc32", 1, crc32, deterministic=True)  # as `storage.segment_of` has it
        connection.spaces, connection.opened, connection.frozen = {}, _look_of(path, frozen), frozen
    except BaseException:
        connection.close()
        raise
    return connection


def roll_back(connection: Connection) -> None:
    """End the transaction without a trace; a connection that cannot is not kept, see `Connections.give`."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _check_place(path: Path, create: bool) -> None:
    if not path.parent.is_dir():
        raise BackendError(f"file {path}: there is no folder {path.parent}; create it first")
    if path.is_dir():
        raise BackendError(f"file {path} is a folder; give the path of a file in it")
    if path.exists() and not path.is_file():
        raise BackendError(f"file {path} is a device or a pipe; choose another path")
    if not create and not path.exists():
        raise BackendError(f"file {path} does not exist: call store.create() first")


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _look_of(path: Path, frozen: bool) -> tuple[object, ...]:
    try:
        stat = os.stat(path)  # noqa: PTH116  # before every write, and four times as fast as Path.stat
    except FileNotFoundError:
        return ()
    if frozen:
        return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, _log_of(path).exists()
    return stat.st_dev, stat.st_ino


def _check(connection: Connection, path: Path) -> None:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise BackendError(f"file {path} is a database of another program; choose another path")
    if version > FORMAT:
        raise BackendError(
            f"file {path} has format {version}, written by a later version of odm; this one reads up to format "
            f"{FORMAT}: upgrade odm"
        )


def lay_out(connection: Connection) -> None:
    """Make the tables of a file that has none yet; the caller holds the writer lock."""
    if _is_empty(connection):  # another process may have been faster
        connection.executescript(_LAYOUT)
    # The log begins after the layout, so that a file without its log is at least seen to be ours.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.empty = False


def _is_empty(connection: Connection) -> bool:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [schema] = connection.execute("PRAGMA schema_version").fetchone()
    return bool(application == schema == 0)
