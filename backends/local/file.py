"""The storage of `LocalFile(path)`: one SQLite file for all its tables, shared by threads and processes.

It uses a write-ahead log with ``synchronous=FULL``: when a `writing` block has ended, its changes are on the disk.
Readers neither wait nor make others wait; writers and checkpoints wait in turn for the `WriterLock`. Keys are stored as
UTF-8 blobs, which sort in the order of the keys. Each block has a connection of its own.
"""

import sqlite3
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, Self

from pydantic_core import from_json, to_json

from odm.backends.local.clients import Connections, Loan
from odm.backends.local.log import Logged, logged
from odm.backends.local.opening import Connection, add_logs, has_id, has_logs
from odm.backends.local.storage import Change, Record, Rows, not_created, span_of, to_blob
from odm.errors import BackendError
from odm.protocol.requests import Key, Partitions, Query, TableIdentity

_NO_ENTRIES: Final = b"{}"

TRIM: Final = 1000
"""Old changes are deleted once in so many."""

_BASE: Final = ""
"""The name in ``spaces`` of a table's own space; those of indexes have the index name."""


class FileTable(Loan):
    """One table in one block: a `View`, and the context manager of its block.

    Args:
        connections: the connections to the file.
        table: the table's name.
        writes: the block writes: it is a transaction, which holds the writer lock.
        create: create the file and its tables if it is new.
        clock: returns the time in seconds, for the log.
    """

    _execute: Callable[..., sqlite3.Cursor]
    _facts: dict[str, tuple[int, dict[str, int], float | None]]
    _spaces: dict[str, int]
    _keeps: float | None

    def __init__(
        self,
        connections: Connections,
        table: str,
        *,
        writes: bool = False,
        create: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(connections, writes=writes, create=create)
        self._table = table
        self._clock = clock
        self._looked = False

    @property
    def block(self) -> Self:
        return self

    def open(self) -> Connection:
        connection = super().open()
        self._execute, self._facts = connection.execute, connection.spaces
        _, self._spaces, self._keeps = self._facts.get(self._table, (0, {}, None))
        if self._writes:
            # A transaction that begins as a read cannot become a write once another program has written (SQLITE_BUSY).
            self._execute("BEGIN IMMEDIATE")
            if not self._create:
                self.look()
        return connection

    def __exit__(self, kind: type[BaseException] | None = None, *rest: object) -> None:
        try:
            if self._writes and kind is None:
                self._execute("COMMIT")
            self.close()
        except BaseException:  # also of a signal handler
            self.close()
            raise

    @property
    def indexes(self) -> Collection[str]:
        self.look()
        return self._spaces.keys()

    def look(self) -> None:
        """Read the table's spaces, once per block and only if another connection has changed the file since.

        Raises:
            BackendError: the table does not exist.
        """
        if self._looked:
            return
        [version] = self._execute("PRAGMA data_version").fetchone()
        known = self._facts.get(self._table)
        if known is None or known[0] != version:
            spaces = dict(self._execute('SELECT "index", id FROM spaces WHERE "table" = ?', (self._table,)))
            known = self._facts[self._table] = version, spaces, self._kept(spaces.get(_BASE))
        _, self._spaces, self._keeps = known
        if _BASE not in self._spaces:
            raise not_created(self._table)
        self._looked = True

    def _kept(self, space: int | None) -> float | None:
        """How long the changes of a space are kept."""
        if self._connection is None or not has_logs(self._connection):
            return None
        row = self._execute("SELECT seconds FROM logs WHERE space = ?", (space,)).fetchone()
        return None if row is None else float(row[0])

    def create(self, indexes: Collection[str], changes: float | None) -> None:
        for index in (_BASE, *indexes):
            self._execute('INSERT OR IGNORE INTO spaces ("table", "index") VALUES (?, ?)', (self._table, index))
        if changes is not None and self._connection is not None:
            add_logs(self._connection)
            base = 'SELECT id, ? FROM spaces WHERE "table" = ? AND "index" = ?'
            self._execute(f"INSERT OR IGNORE INTO logs {base}", (changes, self._table, _BASE))
        self._facts.pop(self._table, None)

    def names(self) -> Collection[str]:
        return [name for (name,) in self._execute('SELECT DISTINCT "table" FROM spaces')]

    def drop(self) -> None:
        ours = '(SELECT id FROM spaces WHERE "table" = ?)'
        self._execute(f"DELETE FROM items WHERE space IN {ours}", (self._table,))
        self._execute(f"DELETE FROM entries WHERE space IN {ours}", (self._table,))
        if self._connection is not None and has_logs(self._connection):
            self._execute(f"DELETE FROM changes WHERE space IN {ours}", (self._table,))
            self._execute(f"DELETE FROM logs WHERE space IN {ours}", (self._table,))
        self._execute('DELETE FROM spaces WHERE "table" = ?', (self._table,))
        self._facts.pop(self._table, None)

    def file_id(self) -> str | None:
        """The id of the file; None: it has none yet."""
        if self._connection is None or not has_id(self._connection):
            return None
        row = self._execute("SELECT id FROM identity").fetchone()
        return None if row is None else str(row[0])

    def assigned_id(self) -> str:
        """The id of the file, which gets one if it has none."""
        file_id = self.file_id()
        if file_id is not None:
            return file_id
        self._execute("CREATE TABLE IF NOT EXISTS identity (id TEXT)")
        new = token_hex(16)
        self._execute("INSERT INTO identity VALUES (?)", (new,))
        return new

    def size(self) -> tuple[int, int]:
        self.look()
        sql = "SELECT count(*), coalesce(sum(length(data)), 0) FROM items WHERE space = ?"
        items, size = self._execute(sql, (self._spaces[_BASE],)).fetchone()
        return int(items), int(size)

    def get(self, key: Key) -> bytes | None:
        row = self._find("SELECT data FROM items WHERE space = ? AND partition = ? AND sort = ?", key)
        return None if row is None else _item(row[0])

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        self._execute("BEGIN")  # without it, each statement would read a snapshot of its own
        try:
            return [self.get(key) for key in keys]
        finally:
            self._execute("COMMIT")

    def record(self, key: Key) -> Record | None:
        row = self._find("SELECT data, entries FROM items WHERE space = ? AND partition = ? AND sort = ?", key)
        return None if row is None else Record(_item(row[0]), _entries_of(row[1]))

    def _find(self, sql: str, key: Key) -> Any:
        """The row of an item. If it exists, no `look` is needed: the id of a dropped space is never reused."""
        place = _blobs(*key)
        row = self._execute(sql, (self._spaces.get(_BASE), *place)).fetchone()
        if row is None and not self._looked:
            known = self._spaces
            self.look()
            if known is self._spaces:
                return None
            row = self._execute(sql, (self._spaces[_BASE], *place)).fetchone()
        return row

    def apply(self, changes: Sequence[Change]) -> None:
        for key, old, new, *_ in changes:
            if new is old:
                continue
            before = old.entries if old is not None else {}
            now = new.entries if new is not None else {}
            for index, index_key in before.items() - now.items():
                self._unlink(index, index_key, key)
            for index, index_key in now.items() - before.items():
                self._link(index, index_key, key)
            if new is not None:
                self._put(key, new)
            else:
                self._delete(key)
        if self._keeps is not None:
            self._log(changes, self._keeps)

    def _log(self, changes: Sequence[Change], seconds: float) -> None:
        """Log the changes of this transaction; delete old ones now and then, but the newest keeps the count."""
        space, now = self._spaces[_BASE], self._clock()
        [last] = self._execute("SELECT max(number) FROM changes WHERE space = ?", (space,)).fetchone()
        begin = (last or 0) + 1
        for number, at, key, old, new in logged(changes, begin, now):
            row = (space, number, at, *_blobs(*key), old, new)
            self._execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        if begin // TRIM != (begin + len(changes)) // TRIM:
            sql = "DELETE FROM changes WHERE space = ? AND number < ? AND at < ?"
            self._execute(sql, (space, begin, now - seconds))

    @property
    def feed(self) -> str | None:
        self.look()
        return None if self._keeps is None else str(self._spaces[_BASE])

    def logged(self, after: int, limit: int) -> Sequence[Logged]:
        space = self._spaces[_BASE]
        sql = "SELECT number, at, partition, sort, old, new FROM changes WHERE space = ? AND number > ?"
        rows = self._execute(f"{sql} ORDER BY number LIMIT ?", (space, after, limit)).fetchall()
        return [Logged(number, at, Key(_text(part), _text(sort)), *data) for number, at, part, sort, *data in rows]

    def _put(self, key: Key, record: Record) -> None:
        sql = (
            "INSERT INTO items VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET data = excluded.data, entries = excluded.entries"
        )
        entries = to_json(dict(record.entries)) if record.entries else _NO_ENTRIES
        self._execute(sql, (self._spaces[_BASE], *_blobs(*key), record.data, entries))

    def _delete(self, key: Key) -> None:
        sql = "DELETE FROM items WHERE space = ? AND partition = ? AND sort = ?"
        self._execute(sql, (self._spaces[_BASE], *_blobs(*key)))

    def _link(self, index: str, index_key: Key, key: Key) -> None:
        self._execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (self._spaces[index], *_blobs(*index_key, *key)))

    def _unlink(self, index: str, index_key: Key, key: Key) -> None:
        sql = (
            "DELETE FROM entries"
            " WHERE space = ? AND partition = ? AND sort = ? AND item_partition = ? AND item_sort = ?"
        )
        if index not in self._spaces:
            raise _damaged(f"it has an entry in {index!r}, which is not an index")
        self._execute(sql, (self._spaces[index], *_blobs(*index_key, *key)))

    def rows(self, query: Query) -> Rows:
        self.look()
        low, behind, high = span_of(query)
        base = self._spaces[_BASE]
        bounds = _blobs(query.partition, *low, *(high or ()))
        if query.index is None:
            sql = _items_sql(behind, high is not None, query.reverse)
            # Closed also if the caller stops early: an open cursor keeps its read transaction, and the log grows.
            with closing(self._execute(sql, (base, *bounds))) as cursor:
                for sort, data in cursor:
                    yield _item(data), _text(sort)
        else:
            sql = _entries_sql(behind, high is not None, query.reverse)
            with closing(self._execute(sql, (base, self._spaces[query.index], *bounds))) as cursor:
                for index_sort, partition, sort, data in cursor:
                    yield _item(data), _text(index_sort), _text(partition), _text(sort)

    def scan(
        self, after: Key | None, segment: tuple[int, int] | None = None, partitions: Partitions | None = None
    ) -> Rows:
        self.look()
        number, of = segment or (0, 1)
        low, high = partitions or Partitions("", None)
        begin = Key(low) if after is None or after.partition < low else after
        below = "AND partition < ?" if high is not None else ""
        chosen = "AND crc32(partition) % ? = ?" if of > 1 else ""
        behind = ">" if begin is after else ">="
        sql = (
            f"SELECT partition, sort, data FROM items WHERE space = ? AND (partition, sort) {behind} (?, ?)"
            f" {below} {chosen} ORDER BY partition, sort"
        )
        bounds: tuple[Any, ...] = (self._spaces[_BASE], *_blobs(*begin, *(() if high is None else (high,))))
        with closing(self._execute(sql, (*bounds, of, number) if chosen else bounds)) as cursor:
            for partition, sort, data in cursor:
                yield _item(data), _text(partition), _text(sort)


class FileStorage:
    """One table of a file, which is opened at the first request.

    Args:
        path: absolute path of the file.
        table: the table's name.
        timeout: how long to wait for other writers, in seconds.
        changes: how long a new log keeps changes, in seconds; None: create none.
        clock: returns the time in seconds, for the log.
    """

    def __init__(
        self,
        path: Path,
        table: str,
        timeout: float,
        changes: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._table = table
        self._changes = changes
        self._clock = clock
        self._connections = Connections(path, timeout)
        # Closes the connections of a store that was not closed, when it is collected or the process ends.
        weakref.finalize(self, self._connections.close)

    def reading(self) -> FileTable:
        return FileTable(self._connections, self._table)

    def writing(self) -> FileTable:
        return FileTable(self._connections, self._table, writes=True, clock=self._clock)

    def create(self, indexes: Collection[str]) -> None:
        view = FileTable(self._connections, self._table, writes=True, create=True)
        with view.block:
            view.create(indexes, self._changes)

    def drop(self) -> None:
        if self._connections.path.exists():
            view = FileTable(self._connections, self._table, writes=True, create=True)
            with view.block:
                view.drop()

    def names(self) -> Collection[str]:
        if not self._connections.path.exists():
            return ()
        view = self.reading()
        with view.block:
            return view.names()

    def identity(self, *, assign: bool) -> TableIdentity:
        place = f"file {self._connections.path}"
        view = self.reading()
        with view.block:
            assigned = view.file_id() or ""
        if assign and not assigned:
            view = self.writing()
            with view.block:
                assigned = view.assigned_id()
        return TableIdentity({"backend": "file", "file": assigned, "table": self._table}, place=place)

    def recover(self) -> None:
        self._connections.recover()

    def close(self) -> None:
        self._connections.close()


@cache
def _items_sql(behind: bool, bounded: bool, reverse: bool) -> str:
    range_, order = _range_sql(("sort",), behind, bounded, reverse)
    return f"SELECT sort, data FROM items WHERE space = ? AND partition = ? AND {range_} ORDER BY {order}"


@cache
def _entries_sql(behind: bool, bounded: bool, reverse: bool) -> str:
    range_, order = _range_sql(("e.sort", "e.item_partition", "e.item_sort"), behind, bounded, reverse)
    # A CROSS JOIN, because SQLite does not reorder it: it reads the entries in the order of their key.
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


def _item(data: object) -> bytes:
    """The bytes of an item; in a damaged file the value may have another type."""
    if not isinstance(data, bytes):
        raise BackendError("a stored item is damaged, restore it from a copy: its value is not bytes")
    return data


def _entries_of(data: bytes) -> dict[str, Key]:
    if data == _NO_ENTRIES:
        return {}
    try:
        return {index: Key(*index_key) for index, index_key in from_json(data).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise _damaged(repr(error)) from error


def _damaged(damage: str) -> BackendError:
    return BackendError(f"a stored item is damaged, restore it from a copy: {damage}")


def _blobs(*texts: str) -> list[bytes]:
    return [to_blob(text) for text in texts]


def _text(blob: bytes) -> str:
    try:
        return blob.decode("utf-8", "surrogatepass")
    except (AttributeError, UnicodeDecodeError) as error:  # in a damaged file the value may have another type
        raise _damaged(repr(error)) from error
