"""The protocol between the engine and a storage: ordered spaces of one table, without the semantics of requests.

A table has one space of records, ordered by key within a partition, and one space of entries per index, ordered by
index key and then by item key. An entry points to its record and contains no copy. The storage keeps the two
consistent: `View.apply` changes records and their entries together, and each request calls it once.
"""

import sys
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from zlib import crc32

from odm.errors import BackendError, TableNotFound
from odm.expressions.nodes import Item
from odm.protocol.requests import Key, Partitions, Position, Query, Scan, TableIdentity, Written

if TYPE_CHECKING:
    from odm.backends.local.log import Logged


class Record(NamedTuple):
    """A stored item: its bytes, and the index entries that point to it."""

    data: bytes
    entries: Mapping[str, Key]


class Change(NamedTuple):
    """The change of a record from ``old`` to ``new``; None means no record, and the same object no change.

    Attributes:
        key: the key of the record.
        old: the record before.
        new: the record after.
        item: the item that ``new`` encodes.
        answer: the response to the request that makes the change.
    """

    key: Key
    old: Record | None
    new: Record | None
    item: Item | None = None
    answer: Written = Written()


Row: TypeAlias = tuple[bytes, str, *tuple[str, ...]]
"""The bytes of an item, then its sort key (in a query), index sort key and key (of an index), or key (in a scan)."""

Rows: TypeAlias = Generator[Row, None, None]
"""Rows in order, read lazily; close it before the `View` ends."""


class View(Protocol):
    """A table within its ``block``; invalid outside of it."""

    @property
    def block(self) -> AbstractContextManager[object]:
        """Opens and closes the view; enter it once, with a ``with`` statement."""
        ...

    @property
    def indexes(self) -> Collection[str]:
        """The names of the indexes that were created."""
        ...

    @property
    def feed(self) -> str | None:
        """The name of the table's change log; None: it has none."""
        ...

    def logged(self, after: int, limit: int) -> "Sequence[Logged]":
        """The changes in the log after a number, at most ``limit``."""
        ...

    def size(self) -> tuple[int, int]:
        """The number of items, and the bytes that they are stored in."""
        ...

    def get(self, key: Key) -> bytes | None:
        """The bytes of the item with the key."""

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        """The bytes of several items in one snapshot: it contains a transaction completely or not at all."""
        ...

    def record(self, key: Key) -> Record | None:
        """The item with the key and its index entries, to be changed."""
        ...

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all changes, in order, or none, wherever an exception comes from, a signal handler included.

        The ``old`` record of each is the stored one, or that of an earlier change. Call it at most once in a block.
        """

    def rows(self, query: Query) -> Rows:
        """The rows in ``[lo, hi)`` of the query's partition, in the table or its index, after position ``after``.

        The engine applies filter, limit and count of the query.
        """
        ...

    def scan(
        self, after: Key | None, segment: tuple[int, int] | None = None, partitions: Partitions | None = None
    ) -> Rows:
        """All rows of the table after a key, in the order of their keys.

        ``segment`` is ``(number, of)``: only partitions whose `segment_of` is this number. ``partitions``: only these.
        """
        ...


class Storage(Protocol):
    """The storage of one table. Thread-safe."""

    def reading(self) -> View:
        """A view to read the table.

        Raises:
            BackendError: the table was not created; with a file, the first use of the view raises this.
        """
        ...

    def writing(self) -> View:
        """A view with exclusive write access to the table; its changes are stored when its block ends.

        Raises:
            BackendError: the table was not created.
        """
        ...

    def create(self, indexes: Collection[str]) -> None:
        """Create the table, the indexes and, if the storage is to keep changes, the log, unless they exist."""

    def drop(self) -> None:
        """Remove the table, its records and entries; a missing table is not an error."""

    def names(self) -> Collection[str]:
        """The names of all tables of the backend."""
        ...

    def identity(self, *, assign: bool) -> TableIdentity:
        """What distinguishes the table from those of other files; ``assign``: a file without an id gets one."""
        ...

    def recover(self) -> None:
        """Release what a block of this thread kept, because an exception of a signal handler interrupted its end."""

    def close(self) -> None:
        """Release open resources. Idempotent."""


class Span(NamedTuple):
    """The part of a partition that a query reads, as bounds of (sort,), or of (sort, item key) in an index.

    ``low`` is inclusive unless ``behind``; ``high`` is exclusive, and None is the end of the partition.
    """

    low: tuple[str, ...]
    behind: bool
    high: tuple[str, ...] | None


def position_of(request: Query | Scan, row: Row) -> Position:
    """The position of a row that was read for a request."""
    if isinstance(request, Scan):
        return Position(Key(*row[1:]))
    if len(row) == len(("item", "sort")):
        return Position(Key(request.partition, row[1]))
    return Position(Key(*row[2:]), Key(request.partition, row[1]))


def span_of(query: Query) -> Span:
    """The bounds of a query, narrowed by its start position."""
    rest = () if query.index is None else ("", "")
    low: tuple[str, ...] = (query.lo, *rest)
    high = None if query.hi is None else (query.hi, *rest)
    if query.after is None:
        return Span(low, behind=False, high=high)
    key, index_key = query.after
    place = (key.sort,) if index_key is None else (index_key.sort, *key)
    return Span(low, behind=False, high=place) if query.reverse else Span(place, behind=True, high=high)


def segment_of(partition: str, of: int) -> int:
    """The number of the scan segment that contains a partition; the same in every process."""
    return crc32(to_blob(partition)) % of


def to_blob(text: str) -> bytes:
    """A key as UTF-8 bytes, which sort in the order of the keys."""
    return text.encode("utf-8", "surrogatepass")  # the bound of a range may be a lone surrogate


def not_created(table: str, index: str | None = None) -> BackendError:
    """The error for a request on a table or index that does not exist."""
    if index is not None:
        return BackendError(f"index {index!r} of table {table!r} does not exist: call store.create() first")
    return TableNotFound(f"table {table!r} does not exist: call store.create() first")


def open_blocks() -> Iterator[object]:
    """The blocks that callers of this function have entered.

    They are read from the stack, because a call that an exception ended has certainly left that.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield getattr(frame.f_locals.get("view"), "block", None)
        frame = frame.f_back


def refuse_within(block: object) -> None:
    """Check that no caller of this function has entered a block, which then cannot be entered again.

    Raises:
        BackendError: a caller has.
    """
    if any(open_block is block for open_block in open_blocks()):
        raise BackendError(
            "a signal handler or finalizer called the store while it interrupted another call of the same thread "
            "on this table: let it only set a flag, and call the store later"
        )
