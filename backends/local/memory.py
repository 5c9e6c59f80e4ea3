"""The storage of `Memory()`: partitions in a dict, each with its sort keys in a sorted list.

A view is the table itself, held by its lock, so a block costs one lock operation and what it does is seen as a whole.
"""

from collections.abc import Callable, Collection, Iterable
from threading import Lock
from typing import Self

from sortedcontainers import SortedDict, SortedList

from odm.backends.local.storage import Record, Rows, not_created, segment_of, span_of
from odm.operations.ir import Key, Position, Query


class _Partition:
    """The records of one partition: found by sort key, and their sort keys in order."""

    __slots__ = ("order", "records")

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.order: SortedList[str] = SortedList()


class MemoryTable:
    """One table; a `View` of itself while its lock is held."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._partitions: SortedDict[str, _Partition] = SortedDict()
        self._indexes: dict[str, dict[str, SortedList[tuple[str, ...]]]] = {}

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def indexes(self) -> Collection[str]:
        return self._indexes.keys()

    def add_indexes(self, names: Collection[str]) -> None:
        for name in names:
            self._indexes.setdefault(name, {})

    def get(self, key: Key) -> bytes | None:
        record = self.record(key)
        return None if record is None else record.data

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def record(self, key: Key) -> Record | None:
        partition = self._partitions.get(key.partition)
        return None if partition is None else partition.records.get(key.sort)

    def put(self, key: Key, record: Record) -> None:
        partition = self._partitions.get(key.partition)
        if partition is None:
            partition = self._partitions[key.partition] = _Partition()
        if key.sort not in partition.records:
            partition.order.add(key.sort)
        partition.records[key.sort] = record

    def delete(self, key: Key) -> None:
        partition = self._partitions[key.partition]
        del partition.records[key.sort]
        partition.order.remove(key.sort)
        if not partition.records:
            del self._partitions[key.partition]

    def link(self, index: str, index_key: Key, key: Key) -> None:
        partitions = self._indexes[index]
        if index_key.partition not in partitions:
            partitions[index_key.partition] = SortedList()
        partitions[index_key.partition].add((index_key.sort, *key))

    def unlink(self, index: str, index_key: Key, key: Key) -> None:
        partitions = self._indexes[index]
        partitions[index_key.partition].remove((index_key.sort, *key))
        if not partitions[index_key.partition]:
            del partitions[index_key.partition]

    def rows(self, query: Query) -> Rows:
        if query.index is None:
            return self._items(query)
        return self._entries(query, self._indexes[query.index].get(query.partition, SortedList()))

    def scan(self, after: Key | None, segment: tuple[int, int] | None = None) -> Rows:
        number, of = segment or (0, 1)
        for name in self._partitions.irange(None if after is None else after.partition):
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
        low, behind, high = span_of(query)
        bounds = (low[0], None if high is None else high[0], (not behind, False), query.reverse)
        records = partition.records
        for sort in partition.order.irange(*bounds):
            yield records[sort].data, sort

    def _entries(self, query: Query, order: SortedList[tuple[str, ...]]) -> Rows:
        low, behind, high = span_of(query)
        partitions = self._partitions
        for entry in order.irange(low, high, (not behind, False), query.reverse):
            index_sort, partition, sort = entry
            yield partitions[partition].records[sort].data, index_sort, partition, sort


class MemoryStorage:
    """One table by name among the tables of a `Memory()`.

    Args:
        tables: all tables, by name.
        name: of this one.
        make: makes a table.
    """

    def __init__(
        self, tables: dict[str, MemoryTable], name: str, make: Callable[[], MemoryTable] = MemoryTable
    ) -> None:
        self._tables = tables
        self._name = name
        self._make = make

    def reading(self) -> MemoryTable:
        try:
            return self._tables[self._name]
        except KeyError:
            raise not_created(self._name) from None

    def writing(self) -> MemoryTable:
        return self.reading()

    def create(self, indexes: Collection[str]) -> None:
        with self._tables.setdefault(self._name, self._make()) as table:
            table.add_indexes(indexes)

    def drop(self) -> None:
        self._tables.pop(self._name, None)

    def close(self) -> None:
        """Nothing is held open; the data stays with the `Memory()`."""
