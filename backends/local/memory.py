"""The storage of `Memory()`: partitions in a dict, each with its sort keys in a sorted list.

A view is the table itself while its lock is held. So a block costs one lock operation, and its changes become visible
together.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from threading import RLock
from typing import Any, Final, TypeAlias, cast

from odm.backends.local.log import Logged, logged
from odm.backends.local.ordered import Ordered
from odm.backends.local.storage import Change, Record, Rows, not_created, refuse_within, segment_of, span_of
from odm.errors import BackendError
from odm.protocol.requests import Key, Partitions, Position, Query, TableIdentity

_Kept: TypeAlias = bytes | tuple[bytes, *tuple[str, ...]]
"""A record in compact form: its data, followed by index name, partition and sort of each entry, if it has any."""


_NONE: Final[Mapping[str, Key]] = {}


class _Partition:
    """The records of one partition by sort key, and the sort keys in order."""

    __slots__ = ("name", "order", "records")

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: dict[str, _Kept] = {}
        self.order: Ordered[str] = Ordered()


class _IndexPartition:
    """The entries of one partition of an index: index sort key and item key."""

    __slots__ = ("name", "order")

    def __init__(self, name: str) -> None:
        self.name = name
        self.order: Ordered[tuple[str, ...]] = Ordered()


class MemoryLog:
    """The change log of a table.

    Args:
        seconds: how long a change is kept.
        clock: returns the time in seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.name = token_hex(4)
        self.seconds = seconds
        self.next = 1
        self._clock = clock
        self._rows: list[Logged] = []
        self._now = 0.0
        self._start = 1

    def begin(self) -> None:
        """Remember where the next changes are logged: `add` may be repeated."""
        self._start, self._now = self.next, self._clock()

    def add(self, changes: Sequence[Change]) -> None:
        """Log changes."""
        rows = logged(changes, self._start, self._now)
        while self._rows and self._rows[-1].number >= self._start:
            self._rows.pop()
        self._rows += rows
        self.next = self._start + len(rows)
        # Only when half of them are old, because removing some moves all others.
        if len(self._rows) > 1 and self._rows[len(self._rows) // 2].at <= self._now - self.seconds:
            late = next((n for n, row in enumerate(self._rows) if row.at > self._now - self.seconds), len(self._rows))
            del self._rows[: min(late, len(self._rows) - 1)]

    def after(self, number: int, limit: int) -> Sequence[Logged]:
        """See `View.logged`."""
        begin = max(0, number + 1 - self._rows[0].number) if self._rows else 0
        return self._rows[begin : begin + limit]


class MemoryTable:
    """One table, and a `View` of itself while its lock is held.

    An exception out of a signal handler, such as Ctrl-C in a notebook, can end any call between two steps of Python.
    So `apply` first stores its changes as a journal, which is one step, and then makes them. If it was interrupted, the
    next block makes them again from the start: each of its steps can be repeated.

    Text that many keys share, such as the name of a partition, is stored once.

    Attributes:
        block: the lock. It is the context manager itself, because no signal handler runs between its C code and the
            ``with`` statement; a method in Python could be interrupted when it has the lock already.
    """

    def __init__(self) -> None:
        self.block = RLock()
        self.owned: Callable[[], bool] = cast(Any, self.block)._is_owned  # `threading.Condition` needs it of a lock too
        self._partitions: dict[str, _Partition] = {}
        self._names: Ordered[str] = Ordered()
        self._indexes: dict[str, dict[str, _IndexPartition]] = {}
        self._journal: Sequence[Change] = ()
        self.log: MemoryLog | None = None

    def free(self) -> None:
        """Release the lock that an interrupted block of this thread kept.

        Raises:
            BackendError: the block is not at its end: a signal handler or finalizer interrupted it and uses the table.
        """
        refuse_within(self.block)
        while self.owned():
            self.block.release()

    @property
    def indexes(self) -> Collection[str]:
        return self._indexes.keys()

    @property
    def feed(self) -> str | None:
        return None if self.log is None else self.log.name

    def logged(self, after: int, limit: int) -> Sequence[Logged]:
        if self._journal:
            self._finish()
        return () if self.log is None else self.log.after(after, limit)

    def add_indexes(self, names: Collection[str]) -> None:
        for name in names:
            self._indexes.setdefault(name, {})

    def get(self, key: Key) -> bytes | None:
        kept = self._kept(key)
        return None if kept is None else _data(kept)

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def record(self, key: Key) -> Record | None:
        kept = self._kept(key)
        if kept is None:
            return None
        return Record(kept, _NONE) if isinstance(kept, bytes) else Record(kept[0], _entries(kept))

    def apply(self, changes: Sequence[Change]) -> None:
        if self._journal:
            self._finish()
        if self.log is not None:
            self.log.begin()
        self._journal = changes
        self._finish()

    def _finish(self) -> None:
        """Make the changes of the journal. Every step can be repeated, so it does not matter how many were made."""
        for key, old, new, _, _ in self._journal:
            before = old.entries if old is not None else _NONE
            now = new.entries if new is not None else _NONE
            if before != now:
                self._relink(key, before, now)
            if new is old:
                continue
            if new is None:
                self._delete(key)
                continue
            partition = self._partition(key.partition)
            if key.sort not in partition.records:
                partition.order.add(key.sort)
            partition.records[key.sort] = self._compact(new)
        if self.log is not None:
            self.log.add(self._journal)
        self._journal = ()

    def _delete(self, key: Key) -> None:
        partition = self._partitions.get(key.partition)
        if partition is None:
            return
        partition.order.discard(key.sort)
        partition.records.pop(key.sort, None)
        if not partition.records:
            self._names.discard(key.partition)
            del self._partitions[key.partition]

    def _relink(self, key: Key, before: Mapping[str, Key], now: Mapping[str, Key]) -> None:
        for index, index_key in before.items() - now.items():
            self._unlink(index, index_key, key)
        for index, index_key in now.items() - before.items():
            self._link(index, index_key, key)

    def _link(self, index: str, index_key: Key, key: Key) -> None:
        partitions = self._indexes[index]
        partition = partitions.get(index_key.partition)
        if partition is None:
            partition = partitions[index_key.partition] = _IndexPartition(index_key.partition)
        # A missing record is put by the same change, so its partition can be created here.
        partition.order.add((index_key.sort, self._partition(key.partition).name, key.sort))

    def _unlink(self, index: str, index_key: Key, key: Key) -> None:
        partitions = self._indexes[index]
        partition = partitions.get(index_key.partition)
        if partition is None:
            return
        partition.order.discard((index_key.sort, *key))
        if not partition.order:
            del partitions[index_key.partition]

    def size(self) -> tuple[int, int]:
        if self._journal:
            self._finish()
        kept = [_data(record) for partition in self._partitions.values() for record in partition.records.values()]
        return len(kept), sum(map(len, kept))

    def rows(self, query: Query) -> Rows:
        if self._journal:
            self._finish()
        return self._items(query) if query.index is None else self._entries(query, query.index)

    def scan(
        self, after: Key | None, segment: tuple[int, int] | None = None, partitions: Partitions | None = None
    ) -> Rows:
        if self._journal:
            self._finish()
        number, of = segment or (0, 1)
        low, high = partitions or Partitions("", None)
        begin = low if after is None else max(low, after.partition)
        for name in self._names.between(begin, high, behind=False, reverse=False):
            if of > 1 and segment_of(name, of) != number:
                continue
            begun = after is not None and after.partition == name
            items = self._items(Query(name, after=Position(after) if after is not None and begun else None))
            for row in items:
                yield row[0], name, row[1]

    def _items(self, query: Query) -> Rows:
        partition = self._partitions.get(query.partition)
        if partition is None:
            return
        low, behind, high = query.lo, False, query.hi  # as `span_of`, but sort keys alone need no tuples
        if query.after is not None:
            sort = query.after.key.sort
            low, high, behind = (low, sort, False) if query.reverse else (sort, high, True)
        records = partition.records
        sorts = partition.order.between(low, high, behind=behind, reverse=query.reverse)
        for sort in sorts:
            yield _data(records[sort]), sort

    def _entries(self, query: Query, index: str) -> Rows:
        found = self._indexes[index].get(query.partition)
        if found is None:
            return
        low, behind, high = span_of(query)
        partitions = self._partitions
        for entry in found.order.between(low, high, behind=behind, reverse=query.reverse):
            index_sort, partition, sort = entry
            yield _data(partitions[partition].records[sort]), index_sort, partition, sort

    def _kept(self, key: Key) -> _Kept | None:
        if self._journal:
            self._finish()
        partition = self._partitions.get(key.partition)
        return None if partition is None else partition.records.get(key.sort)

    def _partition(self, name: str) -> _Partition:
        partition = self._partitions.get(name)
        if partition is None:
            self._names.add(name)
            partition = self._partitions[name] = _Partition(name)
        return partition

    def _compact(self, record: Record) -> _Kept:
        if not record.entries:
            return record.data
        texts: list[str] = []
        for index, (partition, sort) in record.entries.items():
            linked = self._indexes[index].get(partition)
            texts += (index, partition if linked is None else linked.name, sort)
        return record.data, *texts


def _data(kept: _Kept) -> bytes:
    return kept if isinstance(kept, bytes) else kept[0]


def _entries(kept: _Kept) -> Mapping[str, Key]:
    if isinstance(kept, bytes):
        return _NONE
    texts = iter(kept[1:])
    return {index: Key(partition, sort) for index, partition, sort in zip(texts, texts, texts, strict=True)}


class MemoryStorage:
    """One table of a `Memory()`.

    Args:
        tables: all tables, by name.
        name: the name of this table.
        make: creates a table.
        changes: how long to keep changes, in seconds; None: no log.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        tables: dict[str, MemoryTable],
        name: str,
        make: Callable[[], MemoryTable] = MemoryTable,
        changes: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tables = tables
        self._name = name
        self._make = make
        self._changes = changes
        self._clock = clock

    def reading(self) -> MemoryTable:
        try:
            table = self._tables[self._name]
        except KeyError:
            raise not_created(self._name) from None
        if table.owned():
            table.free()
        return table

    def writing(self) -> MemoryTable:
        return self.reading()

    def create(self, indexes: Collection[str]) -> None:
        self._tables.setdefault(self._name, self._make())
        view = self.writing()
        with view.block:
            view.add_indexes(indexes)
            if self._changes is not None and view.log is None:
                view.log = MemoryLog(self._changes, self._clock)

    def drop(self) -> None:
        self._tables.pop(self._name, None)

    def names(self) -> Collection[str]:
        return tuple(self._tables)

    def identity(self, *, assign: bool) -> TableIdentity:
        """The table by its name alone: its data is lost with the process."""
        return TableIdentity({"backend": "memory", "table": self._name}, place="memory")

    def recover(self) -> None:
        table = self._tables.get(self._name)
        if table is not None and table.owned():
            with suppress(BackendError):  # a block that is not at its end goes on after the interruption
                table.free()

    def close(self) -> None:
        """Does nothing: the data stays in the `Memory()`."""
