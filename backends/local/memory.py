"""The storage of `Memory()`: partitions in a dict, each with its sort keys in a sorted list.

A view is the table itself while its lock is held. So a block costs one lock operation, and its changes become visible
together.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock
from typing import Self, TypeAlias

from sortedcontainers import SortedDict

from odm.backends.local.ordered import Ordered
from odm.backends.local.storage import Record, Rows, not_created, segment_of, span_of
from odm.protocol.requests import Key, Position, Query

_Kept: TypeAlias = bytes | tuple[bytes, *tuple[str, ...]]
"""A record in compact form: its data, followed by index name, partition and sort of each entry, if it has any."""


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


class MemoryTable:
    """One table, and a `View` of itself while its lock is held.

    Text that many keys share, such as the name of a partition, is stored once.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._partitions: SortedDict[str, _Partition] = SortedDict()
        self._indexes: dict[str, dict[str, _IndexPartition]] = {}

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
        kept = self._kept(key)
        return None if kept is None else _data(kept)

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def record(self, key: Key) -> Record | None:
        kept = self._kept(key)
        return None if kept is None else Record(_data(kept), _entries(kept))

    def put(self, key: Key, record: Record) -> None:
        partition = self._partition(key.partition)
        if key.sort not in partition.records:
            partition.order.add(key.sort)
        partition.records[key.sort] = self._compact(record)

    def delete(self, key: Key) -> None:
        partition = self._partitions[key.partition]
        del partition.records[key.sort]
        partition.order.remove(key.sort)
        if not partition.records:
            del self._partitions[key.partition]

    def link(self, index: str, index_key: Key, key: Key) -> None:
        partitions = self._indexes[index]
        partition = partitions.get(index_key.partition)
        if partition is None:
            partition = partitions[index_key.partition] = _IndexPartition(index_key.partition)
        # A missing record is put in the same block, so its partition can be created here.
        partition.order.add((index_key.sort, self._partition(key.partition).name, key.sort))

    def unlink(self, index: str, index_key: Key, key: Key) -> None:
        partitions = self._indexes[index]
        order = partitions[index_key.partition].order
        order.remove((index_key.sort, *key))
        if not order:
            del partitions[index_key.partition]

    def rows(self, query: Query) -> Rows:
        return self._items(query) if query.index is None else self._entries(query, query.index)

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
        records = partition.records
        sorts = partition.order.between(low[0], None if high is None else high[0], behind=behind, reverse=query.reverse)
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
        partition = self._partitions.get(key.partition)
        return None if partition is None else partition.records.get(key.sort)

    def _partition(self, name: str) -> _Partition:
        partition = self._partitions.get(name)
        if partition is None:
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
        return {}
    texts = iter(kept[1:])
    return {index: Key(partition, sort) for index, partition, sort in zip(texts, texts, texts, strict=True)}


class MemoryStorage:
    """One table of a `Memory()`.

    Args:
        tables: all tables, by name.
        name: the name of this table.
        make: creates a table.
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
        """Does nothing: the data stays in the `Memory()`."""
