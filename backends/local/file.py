"""The storage of `LocalFile(path)`: one SQLite file for all its tables, shared by threads and processes.

It uses a write-ahead log with ``synchronous=FULL``: when a `writing` block has ended, its changes are on the disk.
Readers neither wait nor make others wait; writers and checkpoints wait in turn for the `WriterLock`. Keys are stored as
UTF-8 blobs, which sort in the order of the keys. Each block has a connection of its own.
"""

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from pydantic_core import from_json, to_json

from odm.backends.local.clients import Connections
from odm.backends.local.opening import Connection, roll_back
from odm.backends.local.storage import Record, Rows, not_created, span_of, to_blob
from odm.errors import BackendError
from odm.protocol.requests import Key, Query

_NO_ENTRIES: Final = b"{}"

_BASE: Final = ""
"""The name in ``spaces`` of a table's own space; those of indexes have the index name."""


class FileTable:
    """One table on one connection: a `View`, and a context manager for its block.

    Args:
        connection: a connection to the file.
        table: the table's name.
        give: gives the connection back to the pool at the end of the block.
    """

    def __init__(self, connection: Connection, table: str, give: Callable[[Connection], None] | None = None) -> None:
        self.connection = connection
        self._execute = connection.execute
        self._table = table
        self._give = give
        self._looked = False
        _, self._spaces = connection.spaces.get(table, (0, {}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._give is not None:
            self._give(self.connection)

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
        known = self.connection.spaces.get(self._table)
        if known is None or known[0] != version:
            spaces = dict(self._execute('SELECT "index", id FROM spaces WHERE "table" = ?', (self._table,)))
            known = self.connection.spaces[self._table] = version, spaces
        self._spaces = known[1]
        if _BASE not in self._spaces:
            raise not_created(self._table)
        self._looked = True

    def create(self, indexes: Collection[str]) -> None:
        for index in (_BASE, *indexes):
            self._execute('INSERT OR IGNORE INTO spaces ("table", "index") VALUES (?, ?)', (self._table, index))
        self.connection.spaces.pop(self._table, None)

    def drop(self) -> None:
        ours = '(SELECT id FROM spaces WHERE "table" = ?)'
        self._execute(f"DELETE FROM items WHERE space IN {ours}", (self._table,))
        self._execute(f"DELETE FROM entries WHERE space IN {ours}", (self._table,))
        self._execute('DELETE FROM spaces WHERE "table" = ?', (self._table,))
        self.connection.spaces.pop(self._table, None)

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
            with closing(self._execute(sql, (base, *bounds))) as cursor:
                for sort, data in cursor:
                    yield _item(data), _text(sort)
        else:
            sql = _entries_sql(behind, high is not None, query.reverse)
            with closing(self._execute(sql, (base, self._spaces[query.index], *bounds))) as cursor:
                for index_sort, partition, sort, data in cursor:
                    yield _item(data), _text(index_sort), _text(partition), _text(sort)

    def scan(self, after: Key | None, segment: tuple[int, int] | None = None) -> Rows:
        self.look()
        number, of = segment or (0, 1)
        chosen = "AND crc32(partition) % ? = ?" if of > 1 else ""
        sql = (
            f"SELECT partition, sort, data FROM items WHERE space = ? AND (partition, sort) > (?, ?) {chosen}"
            " ORDER BY partition, sort"
        )
        bounds = (self._spaces[_BASE], *_blobs(*(after or Key(""))))
        with closing(self._execute(sql, (*bounds, of, number) if chosen else bounds)) as cursor:
            for partition, sort, data in cursor:
                yield _item(data), _text(partition), _text(sort)


class FileStorage:
    """One table of a file, which is opened at the first request.

    Args:
        path: absolute path of the file.
        table: the table's name.
        timeout: how long to wait for other writers, in seconds.
    """

    def __init__(self, path: Path, table: str, timeout: float) -> None:
        self._table = table
        self._connections = Connections(path, timeout)
        # Closes the connections of a store that was not closed, when it is collected or the process ends.
        weakref.finalize(self, self._connections.close)

    def reading(self) -> FileTable:
        return FileTable(self._connections.take(), self._table, self._connections.give)

    @contextmanager
    def writing(self) -> Iterator[FileTable]:
        with self._transaction() as table:
            table.look()
            yield table

    def create(self, indexes: Collection[str]) -> None:
        with self._transaction(create=True) as table:
            table.create(indexes)

    def drop(self) -> None:
        if self._connections.path.exists():
            with self._transaction(create=True) as table:
                table.drop()

    def close(self) -> None:
        self._connections.close()

    @contextmanager
    def _transaction(self, *, create: bool = False) -> Iterator[FileTable]:
        with self._connections.writing(create=create) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield FileTable(connection, self._table)
                connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise


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


def _damaged(what: str) -> BackendError:
    return BackendError(f"a stored item is damaged, restore it from a copy: {what}")


def _blobs(*texts: str) -> list[bytes]:
    return [to_blob(text) for text in texts]


def _text(blob: bytes) -> str:
    try:
        return blob.decode("utf-8", "surrogatepass")
    except (AttributeError, UnicodeDecodeError) as error:  # in a damaged file the value may have another type
        raise _damaged(repr(error)) from error
