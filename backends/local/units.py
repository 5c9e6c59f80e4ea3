"""The read and write capacity units that requests to the bundled engine would consume on DynamoDB, by item sizes.

The engine works as usual, on a storage that records which items it reads, and each item before and after a write.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from itertools import chain, islice
from typing import Any, NamedTuple

from msgspec import Struct, field

from odm.backends.local.codec import decode
from odm.backends.local.log import Logged
from odm.backends.local.requests import Engine, read_size
from odm.backends.local.storage import Change, Record, Row, Rows, Storage, View, position_of
from odm.expressions.nodes import Item, Value, roots_of
from odm.immutable import Immutable, evolve
from odm.protocol.capacity import TRANSACTION, Units, read_units, summed, write_units
from odm.protocol.limits import stored_size
from odm.protocol.requests import (
    Key,
    Page,
    Partitions,
    Query,
    Refusals,
    Refused,
    Request,
    Scan,
    TableIdentity,
    Transact,
)


class Measured(NamedTuple):
    """A response and its consumed units; None for a refused request, for which DynamoDB reports no units."""

    response: Any
    units: Units | None


def measured(engine: Engine, request: Request) -> Measured:
    """Perform a request and measure it."""
    tally = _Tally(request, engine)
    response = evolve(engine, storage=_TalliedStorage(engine.storage, tally)).perform(request)
    return Measured(response, None if isinstance(response, Refused | Refusals) else tally.units(response))


class _Copy(NamedTuple):
    """The projection of an item in an index, and the write units for it."""

    content: object
    units: float


class _Tally(Struct):
    """The items that a request read and wrote.

    Attributes:
        request: the request.
        engine: performs it.
        sizes: the bytes that it read, by item key; in an index, those of the projection.
        items: the bytes of the whole items, by item key.
        writes: the record before and after the request, by item key; the same if it changed nothing.
    """

    request: Request
    engine: Engine
    sizes: dict[Key, int] = field(default_factory=dict)
    items: dict[Key, int] = field(default_factory=dict)
    writes: dict[Key, tuple[Record | None, Record | None]] = field(default_factory=dict)

    @property
    def index(self) -> str | None:
        """The queried index, if any."""
        return self.request.index if isinstance(self.request, Query) else None

    @property
    def needs_items(self) -> bool:
        """Whether the filter uses attributes that the queried index does not project."""
        held, filter_ = self.engine.held.get(self.index or ""), getattr(self.request, "filter", None)
        return held is not None and filter_ is not None and not roots_of(filter_).issubset(held)

    def read(self, key: Key, record: Record | None) -> None:
        self.items[key] = self._size(key, record)
        self.sizes[key] = self._size(key, record, self.index)

    def units(self, response: Any) -> Units:
        request = self.request
        if isinstance(request, Query | Scan):
            return Units(self._of_page(request, response))
        consistent = getattr(request, "consistent", True)
        times = TRANSACTION if isinstance(request, Transact) or getattr(request, "atomic", False) else 1
        reads = {key: times * read_units(size, consistent=consistent) for key, size in self.sizes.items()}
        writes = {key: summed(self._written(key, old, new), times) for key, (old, new) in self.writes.items()}
        by_key = {**reads, **{key: sum(parts.values()) for key, parts in writes.items()}}
        written = summed(part for parts in writes.values() for part in parts.items())
        return Units({None: sum(reads.values())} if reads else {}, written, by_key)

    def _of_page(self, request: Query | Scan, page: Page) -> dict[str | None, float]:
        """A page is rounded up as a whole, but each item that is read because the index lacks attributes by itself."""
        index = self.index
        consistent = request.consistent and (index is None or index in self.engine.local)
        parts = [(index, read_units(sum(self.sizes.values()), consistent=consistent))]
        if index in self.engine.held:
            keys = () if request.count else [position.key for position in page.positions]
            fetched = self.items if self.needs_items else keys
            parts += [(None, read_units(self.items[key], consistent=consistent)) for key in fetched]
        return summed(parts)

    def _written(self, key: Key, old: Record | None, new: Record | None) -> Iterator[tuple[str | None, float]]:
        """The write units of a table and its indexes.

        A table counts the larger of the old and the new item. An index counts an added, changed or removed entry, and
        both entries if the index key changes.
        """
        yield None, write_units(max(self._size(key, old), self._size(key, new)))
        had, has = old.entries if old is not None else {}, new.entries if new is not None else {}
        for index in had.keys() | has.keys():
            was, now = had.get(index), has.get(index)
            before, after = self._copy(key, old, index), self._copy(key, new, index)
            if was == now:
                yield index, max(before.units, after.units) if before.content != after.content else 0.0
                continue
            if was is not None:
                yield index, before.units
            if now is not None:
                yield index, after.units

    def _copy(self, key: Key, record: Record | None, index: str) -> _Copy:
        if record is None:
            return _Copy(None, write_units(0))
        held, item = self.engine.held.get(index), decode(record.data)  # equal in any order of maps and sets
        content = (item, record.entries) if held is None else _part(item, held)
        return _Copy(content, write_units(self._size(key, record, index)))

    def _size(self, key: Key, record: Record | None, index: str | None = None) -> int:
        """The bytes of an item, or of its projection in an index."""
        if record is None:
            return 0
        item, entries = decode(record.data), record.entries
        held = None if index is None else self.engine.held.get(index)
        if held is not None:
            item, entries = _part(item, held), {name: key for name, key in entries.items() if name == index}
        return stored_size(item, key, entries, self.engine.local)


def _part(item: Item, names: Collection[str]) -> dict[str, Value]:
    return {name: item[name] for name in names if name in item}


class _TalliedView(Immutable):
    """A view that records reads and writes in a `_Tally`."""

    view: View
    tally: _Tally

    @property
    def block(self) -> AbstractContextManager[object]:
        return self.view.block

    @property
    def indexes(self) -> Collection[str]:
        return self.view.indexes

    @property
    def feed(self) -> str | None:
        return self.view.feed

    def logged(self, after: int, limit: int) -> Sequence[Logged]:
        return self.view.logged(after, limit)

    def size(self) -> tuple[int, int]:
        return self.view.size()

    def get(self, key: Key) -> bytes | None:
        record = self.view.record(key)
        self.tally.read(key, record)
        return None if record is None else record.data

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        keys_ = tuple(keys)
        records = self.view.get_many(keys_)
        for key, data in zip(keys_, records, strict=True):
            self.tally.read(key, self._record(key, data))
        return records

    def record(self, key: Key) -> Record | None:
        record = self.view.record(key)
        self.tally.writes[key] = record, record
        return record

    def apply(self, changes: Sequence[Change]) -> None:
        self.view.apply(changes)
        for change in changes:
            self.tally.writes[change.key] = self.tally.writes[change.key][0], change.new

    def rows(self, query: Query) -> Rows:
        return self._read(self.view.rows(query), query)

    def scan(
        self, after: Key | None, segment: tuple[int, int] | None = None, partitions: Partitions | None = None
    ) -> Rows:
        rows = self.view.scan(after, segment, partitions)
        # The creation of a table looks at an item; it has no units.
        return self._read(rows, self.tally.request) if isinstance(self.tally.request, Scan) else rows

    def _read(self, rows: Rows, request: Query | Scan) -> Generator[Row, None, None]:
        """The rows. A row counts as read when the engine continues after it."""
        read = examined = 0
        with closing(rows):
            for row in rows:
                try:
                    yield row
                except GeneratorExit:
                    if request.filter is not None and request.limit is not None and not self.tally.needs_items:
                        examine = request.examine
                        rest = chain((row,), rows)
                        self._read_on(
                            rest if examine is None else islice(rest, examine - examined),
                            request,
                            self.tally.engine.page_bytes - read,
                        )
                    raise
                read += read_size(self.tally.engine, request, row)
                examined += 1
                self._tell(row, request)

    def _read_on(self, rows: Iterable[Row], request: Query | Scan, left: int) -> None:
        """Read the rest of the page: DynamoDB applies Limit before the filter, so it does not stop at the last match.

        Args:
            rows: those that are not read yet, at most as many as the request examines.
            request: the request.
            left: the bytes that still fit on the page.
        """
        for row in rows:
            if left <= 0:
                break
            left -= read_size(self.tally.engine, request, row)
            self._tell(row, request)

    def _tell(self, row: Row, request: Query | Scan) -> None:
        key = position_of(request, row).key
        self.tally.read(key, self._record(key, row[0]))

    def _record(self, key: Key, data: bytes | None) -> Record | None:
        """The record of a row, with its index entries, which count in its size."""
        if data is None:
            return None
        record = self.view.record(key)
        return Record(data, {} if record is None else record.entries)


class _TalliedStorage(Immutable):
    """A storage whose views record reads and writes in a `_Tally`."""

    storage: Storage
    tally: _Tally

    def reading(self) -> View:
        return _TalliedView(self.storage.reading(), self.tally)

    def writing(self) -> View:
        return _TalliedView(self.storage.writing(), self.tally)

    def create(self, indexes: Collection[str]) -> None:
        self.storage.create(indexes)

    def drop(self) -> None:
        self.storage.drop()

    def names(self) -> Collection[str]:
        return self.storage.names()

    def identity(self, *, assign: bool) -> TableIdentity:
        return self.storage.identity(assign=assign)

    def recover(self) -> None:
        self.storage.recover()

    def close(self) -> None:
        self.storage.close()
