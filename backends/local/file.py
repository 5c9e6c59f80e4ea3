"""The storage of `LocalFile(path)`: one SQLite file for all its tables, shared by threads and processes.

Write-ahead log with ``synchronous=FULL``: when a `writing` block has ended, its changes are on the disk. Readers
neither wait nor make others wait; writers and checkpoints stand in line for the `WriterLock`. Key texts are kept as
UTF-8 blobs, whose order is that of the keys. Every block has a connection to itself, out of a pool.
"""

import os
import sqlite3
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Self

from pydantic_core import from_json, to_json

from odm.backends.local.lock import WriterLock
from odm.backends.local.storage import Record, Rows, not_created, span_of
from odm.errors import BackendError
from odm.operations.ir import Key, Position, Query

APPLICATION_ID: Final = int.from_bytes(b"odm1", "big")
"""Marks a file as odm's, at byte 68: https://sqlite.org/fileformat.html#application_id."""

FORMAT: Final = 1
"""The version of the layout below; a file with a higher one was written by a later odm."""

BUSY_SECONDS: Final = 60.0
"""How long to wait for a program that locks the file without asking for the writer lock."""

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

_BASE: Final = ""
"""The name in ``spaces`` of a table's own space; the others are named as their index."""


class FileTable:
    """One table as one connection sees it; a `View` while it is out of the pool, as a context manager.

    Args:
        connection: to the file, checked and laid out.
        table: the table's name.
        release: takes this back into the pool.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, release: Callable[["FileTable"], None]) -> None:
        self.connection = connection
        self._execute = connection.execute
        self._table = table
        self._release = release
        self._spaces: dict[str, int] = {}
        self._looked: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release(self)

    @property
    def indexes(self) -> Collection[str]:
        return self._spaces.keys()

    def look(self) -> None:
        """Learn which spaces there are, unless no other connection has changed the file since the last look.

        Raises:
            BackendError: there are none.
        """
        [version] = self._execute("PRAGMA data_version").fetchone()
        if version != self._looked:
            self._spaces = dict(self._execute('SELECT "index", id FROM spaces WHERE "table" = ?', (self._table,)))
            self._looked = version
        if _BASE not in self._spaces:
            raise not_created(self._table)

    def create(self, indexes: Collection[str]) -> None:
        for index in (_BASE, *indexes):
            self._execute('INSERT OR IGNORE INTO spaces ("table", "index") VALUES (?, ?)', (self._table, index))
        self._looked = None

    def drop(self) -> None:
        ours = '(SELECT id FROM spaces WHERE "table" = ?)'
        self._execute(f"DELETE FROM items WHERE space IN {ours}", (self._table,))
        self._execute(f"DELETE FROM entries WHERE space IN {ours}", (self._table,))
        self._execute('DELETE FROM spaces WHERE "table" = ?', (self._table,))
        self._looked = None

    def get(self, key: Key) -> bytes | None:
        sql = "SELECT data FROM items WHERE space = ? AND partition = ? AND sort = ?"
        row = self._execute(sql, (self._spaces[_BASE], _blob(key.partition), _blob(key.sort))).fetchone()
        return None if row is None else row[0]

    def record(self, key: Key) -> Record | None:
        sql = "SELECT data, entries FROM items WHERE space = ? AND partition = ? AND sort = ?"
        row = self._execute(sql, (self._spaces[_BASE], _blob(key.partition), _blob(key.sort))).fetchone()
        if row is None:
            return None
        data, entries = row
        return Record(data, {index: Key(*index_key) for index, index_key in from_json(entries).items()})

    def put(self, key: Key, record: Record) -> None:
        sql = (
            "INSERT INTO items VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET data = excluded.data, entries = excluded.entries"
        )
        self._execute(sql, (self._spaces[_BASE], *_blobs(*key), record.data, to_json(dict(record.entries))))

    def delete(self, key: Key) -> None:
        sql = "DELETE FROM items WHERE space = ? AND partition = ? AND sort = ?"
        self._execute(sql, (self._spaces[_BASE], *_blobs(*key)))

    def link(self, index: str, index_key: Key, key: Key) -> None:
        self._execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (self._spaces[index], *_blobs(*index_key, *key)))

    def unlink(self, index: str, index_key: Key, key: Key) -> None:
        sql = (
            "DELETE FROM entries"
            " WHERE space = ? AND partition = ? AND sort = ? AND item_partition = ? AND item_sort = ?"
        )
        self._execute(sql, (self._spaces[index], *_blobs(*index_key, *key)))

    def rows(self, query: Query) -> Rows:
        low, behind, high = span_of(query)
        base = self._spaces[_BASE]
        bounds = _blobs(query.partition, *low, *(high or ()))
        if query.index is None:
            sql = _items_sql(behind, high is not None, query.reverse)
            with closing(self._execute(sql, (base, *bounds))) as cursor:
                for sort, data in cursor:
                    yield Position(Key(query.partition, _text(sort))), data
        else:
            sql = _entries_sql(behind, high is not None, query.reverse)
            with closing(self._execute(sql, (base, self._spaces[query.index], *bounds))) as cursor:
                for index_sort, partition, sort, data in cursor:
                    key = Key(_text(partition), _text(sort))
                    yield Position(key, Key(query.partition, _text(index_sort))), data

    def scan(self, after: Key | None) -> Rows:
        sql = (
            "SELECT partition, sort, data FROM items WHERE space = ? AND (partition, sort) > (?, ?)"
            " ORDER BY partition, sort"
        )
        with closing(self._execute(sql, (self._spaces[_BASE], *_blobs(*(after or Key("")))))) as cursor:
            for partition, sort, data in cursor:
                yield Position(Key(_text(partition), _text(sort))), data


class _Pool:
    """The connections that no block uses; it outlives its storage, to close them."""

    def __init__(self, lock: WriterLock) -> None:
        self.idle: list[FileTable] = []
        self._lock = lock
        self._closed = False
        self._process = os.getpid()

    def release(self, table: FileTable) -> None:
        """Take a connection back."""
        self.idle.append(table)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close all, and those that come back later; may be called twice."""
        self._closed = True
        if os.getpid() != self._process:
            return  # a forked child: the connections are its parent's
        if self.idle:
            with self._lock:  # the last connection to close makes a checkpoint
                while self.idle:
                    self.idle.pop().connection.close()
        self._lock.close()


class FileStorage:
    """One table by name in a file, which is opened at the first request.

    Args:
        path: absolute path of the file.
        table: the table's name.
    """

    def __init__(self, path: Path, table: str) -> None:
        self._path = path
        self._table = table
        self._lock = WriterLock(path.with_name(path.name + "-lock"))
        self._pool = _Pool(self._lock)
        # Where nobody closed the store, its connections go with it, or at the end of the process.
        weakref.finalize(self, self._pool.close)

    def reading(self) -> FileTable:
        table = self._take()
        try:
            table.look()
        except BaseException:
            self._pool.release(table)
            raise
        return table

    @contextmanager
    def writing(self) -> Iterator[FileTable]:
        with self._transaction() as table:
            table.look()
            yield table

    def create(self, indexes: Collection[str]) -> None:
        with self._transaction() as table:
            table.create(indexes)

    def drop(self) -> None:
        with self._transaction() as table:
            table.drop()

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def _transaction(self) -> Iterator[FileTable]:
        with self._take() as table, self._lock:
            execute = table.connection.execute
            execute("BEGIN IMMEDIATE")
            try:
                yield table
                execute("COMMIT")
            finally:
                if table.connection.in_transaction:
                    execute("ROLLBACK")

    def _take(self) -> FileTable:
        try:
            return self._pool.idle.pop()
        except IndexError:
            return self._open()

    def _open(self) -> FileTable:
        if not self._path.parent.is_dir():
            raise BackendError(f"file {self._path}: there is no folder {self._path.parent}; create it first")
        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return FileTable(connection, self._table, self._pool.release)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Lay out a new file, and refuse one that is not ours or too new."""
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID and not _is_empty(connection):
            raise BackendError(f"file {self._path} is a database of another program; choose another path")
        if version > FORMAT:
            raise BackendError(
                f"file {self._path} has format {version}, written by a later version of odm; this one reads "
                f"up to format {FORMAT}: upgrade odm"
            )
        connection.execute("PRAGMA synchronous = FULL")
        if _is_empty(connection):
            with self._lock:
                _lay_out(connection)


def _lay_out(connection: sqlite3.Connection) -> None:
    if _is_empty(connection):  # another process may have been faster
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_LAYOUT)


def _is_empty(connection: sqlite3.Connection) -> bool:
    [version] = connection.execute("PRAGMA schema_version").fetchone()
    return bool(version == 0)


@cache
def _items_sql(behind: bool, bounded: bool, reverse: bool) -> str:
    range_, order = _range_sql(("sort",), behind, bounded, reverse)
    return f"SELECT sort, data FROM items WHERE space = ? AND partition = ? AND {range_} ORDER BY {order}"


@cache
def _entries_sql(behind: bool, bounded: bool, reverse: bool) -> str:
    range_, order = _range_sql(("e.sort", "e.item_partition", "e.item_sort"), behind, bounded, reverse)
    return (
        "SELECT e.sort, e.item_partition, e.item_sort, i.data FROM entries e CROSS JOIN items i"
        " ON i.space = ? AND i.partition = e.item_partition AND i.sort = e.item_sort"
        f" WHERE e.space = ? AND e.partition = ? AND {range_} ORDER BY {order}"
    )


def _range_sql(columns: tuple[str, ...], behind: bool, bounded: bool, reverse: bool) -> tuple[str, str]:
    place, marks = ", ".join(columns), ", ".join("?" * len(columns))
    above = f"({place}) {'>' if behind else '>='} ({marks})"
    below = f" AND ({place}) < ({marks})" if bounded else ""
    return above + below, ", ".join(f"{column} DESC" if reverse else column for column in columns)


def _blobs(*texts: str) -> list[bytes]:
    return [_blob(text) for text in texts]


def _blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # the bound of a range may be half a surrogate pair


def _text(blob: bytes) -> str:
    return blob.decode("utf-8", "surrogatepass")
