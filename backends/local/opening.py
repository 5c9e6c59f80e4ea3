"""Open a file, create its tables if it is new, and reject files that this version cannot read.

If file and folder are writable, the file is opened with a write-ahead log and ``synchronous=FULL``: a commit is on the
disk when it returns. Otherwise it is opened for reading only. If no program has such a file open, it is opened as
``immutable``, and opened again if it changes.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from odm.backends.local.places import SIDE_FILES, check_own, check_side_files, create_private
from odm.errors import BackendError, TableNotFound

APPLICATION_ID: Final = int.from_bytes(b"odm1", "big")
"""Identifies odm's files, at byte 68: https://sqlite.org/fileformat.html#application_id."""

FORMAT: Final = 1
"""The version of the layout below."""

WITH_LOGS: Final = 2
"""The version of a file in which a table keeps changes. Programs that do not log theirs cannot open it."""

LONGEST_SECONDS: Final = 2_147_483.0
"""The longest timeout of SQLite, which stores milliseconds in 32 bits; with a longer one it does not wait at all."""

# AUTOINCREMENT: the id of a dropped table is never used again, so `FileTable` may find items by an id that it knew.
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
    """A connection with cached facts about its file.

    Attributes:
        spaces: by table name, the version of the file at the last `FileTable.look`, the ids of the table's spaces, and
            how long its changes are kept, in seconds; None: it has no log.
        opened: identifies the file; for an immutable file also its size and modification time.
        frozen: whether it was opened as ``immutable``.
        empty: whether the file had no tables when it was opened.
    """

    spaces: dict[str, tuple[int, dict[str, int], float | None]]
    opened: tuple[object, ...]
    frozen: bool
    empty: bool

    def outdated(self, path: Path) -> bool:
        """Whether the path now leads to another file, or a file that was opened as ``immutable`` has changed."""
        return self.opened != _look_of(path, self.frozen)


def open_file(path: Path, timeout: float, *, create: bool) -> Connection:
    """A connection to the file, in autocommit mode and for any thread.

    Args:
        path: absolute path of the file.
        timeout: how long to wait for programs that lock the file without taking the writer lock, in seconds.
        create: create the file if it does not exist, and accept an empty one, for `lay_out`.

    Raises:
        BackendError: the file is not odm's, has a newer format, does not exist, is empty, or is a folder; or another
            user planted it, or something in the place of one of its side files.
        sqlite3.Error: the file cannot be opened or is damaged.
    """
    _check_place(path, create)
    writable = create or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK))
    if create:
        create_private(path)
    if writable:
        check_own(path)
    check_side_files(path, [f"{path}{suffix}" for suffix in SIDE_FILES])
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
        connection.create_function("crc32", 1, crc32, deterministic=True)  # the same as in `storage.segment_of`
        connection.spaces, connection.opened, connection.frozen = {}, _look_of(path, frozen), frozen
    except BaseException:
        connection.close()
        raise
    return connection


def roll_back(connection: Connection) -> None:
    """Roll back the open transaction, if any; if this fails, `Connections.give` closes the connection."""
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
        raise TableNotFound(f"file {path} does not exist: call store.create() first, or check its path")


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _look_of(path: Path, frozen: bool) -> tuple[object, ...]:
    try:
        stat = os.stat(path)  # noqa: PTH116  # four times as fast as Path.stat, and called before every write
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
    if version > WITH_LOGS:
        raise BackendError(
            f"file {path} has format {version}, written by a later version of odm; this one reads up to format "
            f"{WITH_LOGS}: upgrade odm"
        )


def lay_out(connection: Connection) -> None:
    """Create the tables of a file that has none yet; the caller holds the writer lock."""
    if _is_empty(connection):  # another process may have been faster
        connection.executescript(_LAYOUT)
    # The write-ahead log begins after the tables were created, so a file that lost its log is still known to be odm's.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.empty = False


def _is_empty(connection: Connection) -> bool:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [schema] = connection.execute("PRAGMA schema_version").fetchone()
    return bool(application == schema == 0)


_LOGS = f"""
CREATE TABLE logs (space INTEGER PRIMARY KEY, seconds REAL);
CREATE TABLE changes (
    space INTEGER, number INTEGER, at REAL, partition BLOB, sort BLOB, old BLOB, new BLOB,
    PRIMARY KEY (space, number)
) WITHOUT ROWID;
PRAGMA user_version = {WITH_LOGS};
"""


def has_logs(connection: Connection) -> bool:
    """Whether a table of the file keeps changes, or did."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    return bool(version >= WITH_LOGS)


def has_id(connection: sqlite3.Connection) -> bool:
    """Whether the file has a table for its id, by which `odm.protocol.requests.TableIdentity` names it."""
    sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'identity'"
    return connection.execute(sql).fetchone() is not None


def add_logs(connection: Connection) -> None:
    """Create the tables for changes, in the open transaction, unless they exist."""
    if not has_logs(connection):
        for statement in filter(str.strip, _LOGS.split(";")):
            connection.execute(statement)
