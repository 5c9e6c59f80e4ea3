"""What the engine asks of a storage: ordered spaces of one table, and nothing of what a request means.

A table has one space of records, ordered by key within a partition, and one space of entries per index, ordered by
index key and then by item key. An entry points to its record and holds no copy. The engine keeps the two in step: it
links and unlinks inside the same `writing` block that changes the record.
"""

from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias
from zlib import crc32

from odm.errors import BackendError
from odm.protocol.requests import Key, Position, Query, Scan


class Record(NamedTuple):
    """An item as it is kept: its bytes, and the index entries that point to it."""

    data: bytes
    entries: Mapping[str, Key]


Row: TypeAlias = tuple[bytes, str, *tuple[str, ...]]
"""The bytes of an item and its place: its sort key; in an index, its index sort key and its key; in a scan, its key."""

Rows: TypeAlias = Generator[Row, None, None]
"""Rows in order, read as they are asked for; close it before the `View` ends."""


class View(Protocol):
    """A table within one `Storage.reading` or `Storage.writing` block; not valid outside of it."""

    @property
    def indexes(self) -> Collection[str]:
        """The names of the indexes that were created."""
        ...

    def get(self, key: Key) -> bytes | None:
        """The bytes of the item under the key."""

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        """As `get`, of several items at one moment: of a transaction all is seen, or nothing."""
        ...

    def record(self, key: Key) -> Record | None:
        """The item under the key with its entries, to be changed."""
        ...

    def put(self, key: Key, record: Record) -> None:
        """Keep the record under the key, over whatever is there."""

    def delete(self, key: Key) -> None:
        """Take away the record, which is there."""

    def link(self, index: str, index_key: Key, key: Key) -> None:
        """Add an entry of the index that points to the record under ``key``."""

    def unlink(self, index: str, index_key: Key, key: Key) -> None:
        """Take away an entry, which is there."""

    def rows(self, query: Query) -> Rows:
        """The rows in ``[lo, hi)`` of the query's partition of the table, or of its index, behind ``after``.

        Filter, limit and count of the query are the engine's.
        """
        ...

    def scan(self, after: Key | None, segment: tuple[int, int] | None = None) -> Rows:
        """All rows of the table behind a key, in an order that stays the same while rows come and go.

        ``segment`` ``(number, of)``: only those with this `segment_of` their partition.
        """
        ...


class Storage(Protocol):
    """One table's place. All methods may be called from any thread."""

    def reading(self) -> AbstractContextManager[View]:
        """A block in which the table is read.

        Raises:
            BackendError: the table was not created; a file finds it out when the view is used.
        """
        ...

    def writing(self) -> AbstractContextManager[View]:
        """A block in which nobody else changes the table; what was changed is kept when it ends.

        A file forgets the changes of a block that raises. Memory does not: raise before the first change.

        Raises:
            BackendError: the table was not created.
        """
        ...

    def create(self, indexes: Collection[str]) -> None:
        """Create the table and those of the indexes that are not there yet."""

    def drop(self) -> None:
        """Remove the table, its records and entries; no error when it is absent."""

    def close(self) -> None:
        """Release what is held open; may be called twice."""


class Span(NamedTuple):
    """The part of a partition that a query reads, as bounds of (sort,), or of (sort, item key) in an index.

    ``low`` is included unless ``behind``; ``high`` is not included, and None is the end.
    """

    low: tuple[str, ...]
    behind: bool
    high: tuple[str, ...] | None


def position_of(request: Query | Scan, row: Row) -> Position:
    """The position of a row that was read for a request."""
    match request, row[1:]:
        case Query(partition=partition), (sort,):
            return Position(Key(partition, sort))
        case Query(partition=partition), (index_sort, *key):
            return Position(Key(*key), Key(partition, index_sort))
        case _, key:
            return Position(Key(*key))


def span_of(query: Query) -> Span:
    """The bounds of a query with its position taken in."""
    rest = () if query.index is None else ("", "")
    low: tuple[str, ...] = (query.lo, *rest)
    high = None if query.hi is None else (query.hi, *rest)
    if query.after is None:
        return Span(low, behind=False, high=high)
    key, index_key = query.after
    place = (key.sort,) if index_key is None else (index_key.sort, *key)
    return Span(low, behind=False, high=place) if query.reverse else Span(place, behind=True, high=high)


def segment_of(partition: str, of: int) -> int:
    """The number of the segment that holds a partition, the same in every process."""
    return crc32(to_blob(partition)) % of


def to_blob(text: str) -> bytes:
    """A key's text as UTF-8, in whose order it sorts."""
    return text.encode("utf-8", "surrogatepass")  # the bound of a range may be half a surrogate pair


def not_created(table: str, index: str | None = None) -> BackendError:
    """The error for a request on a table, or an index of it, that is not there."""
    what = f"table {table!r}" if index is None else f"index {index!r} of table {table!r}"
    return BackendError(f"{what} does not exist: call store.create() first")
