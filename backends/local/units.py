"""What requests to the bundled engine would cost on DynamoDB: read and write units, by the sizes of what they touch.

The engine works as ever, on a storage that takes down which items it read, and which it found and left where it wrote.
"""

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import chain
from typing import Any, NamedTuple

from attrs import define, evolve, field, frozen

from odm.backends.local.codec import decode
from odm.backends.local.engine import Engine
from odm.backends.local.storage import Record, Row, Rows, Storage, View, position_of
from odm.operations.ir import Key, Query, Refusals, Refused, Request, Scan, Transact
from odm.operations.limits import stored_size
from odm.operations.units import TRANSACTION, Units, read_units, summed, write_units


class Measured(NamedTuple):
    """The response to a request, and the units that it used; None where it was refused, as DynamoDB tells none."""

    response: Any
    units: Units | None


def measured(engine: Engine, request: Request) -> Measured:
    """Perform a request and measure it."""
    tally = _Tally(request, engine.local, engine.page_bytes)
    response = evolve(engine, storage=_TalliedStorage(engine.storage, tally)).perform(request)
    return Measured(response, None if isinstance(response, Refused | Refusals) else tally.units())


@define
class _Tally:
    """What a request read and wrote.

    Attributes:
        sizes: of the items that it read, in bytes, by key.
        writes: what it found and what it left, by key; the same where it has changed nothing.
    """

    request: Request
    local: Collection[str]
    page_bytes: int
    sizes: dict[Key, int] = field(factory=dict)
    writes: dict[Key, tuple[Record | None, Record | None]] = field(factory=dict)

    def read(self, key: Key, record: Record | None) -> None:
        self.sizes[key] = self._size(key, record)

    def units(self) -> Units:
        request = self.request
        if isinstance(request, Query | Scan):  # a page is rounded up as a whole
            index = request.index if isinstance(request, Query) else None
            consistent = request.consistent and (index is None or index in self.local)
            return Units({index: read_units(sum(self.sizes.values()), consistent=consistent)})
        consistent = getattr(request, "consistent", True)
        reads = {key: read_units(size, consistent=consistent) for key, size in self.sizes.items()}
        times = TRANSACTION if isinstance(request, Transact) else 1
        writes = {key: summed(self._written(key, old, new), times) for key, (old, new) in self.writes.items()}
        by_key = {**reads, **{key: sum(parts.values()) for key, parts in writes.items()}}
        written = summed(part for parts in writes.values() for part in parts.items())
        return Units({None: sum(reads.values())} if reads else {}, written, by_key)

    def _written(self, key: Key, old: Record | None, new: Record | None) -> Iterator[tuple[str | None, float]]:
        """Of the table the larger of two items; of an index what is new, changed or gone, and both for a new key."""
        before, after = write_units(self._size(key, old)), write_units(self._size(key, new))
        yield None, max(before, after)
        if old == new:
            return
        had, has = old.entries if old is not None else {}, new.entries if new is not None else {}
        for index in had.keys() | has.keys():
            was, now = had.get(index), has.get(index)
            if was == now:
                yield index, max(before, after)
                continue
            if was is not None:
                yield index, before
            if now is not None:
                yield index, after

    def _size(self, key: Key, record: Record | None) -> int:
        return 0 if record is None else stored_size(decode(record.data), key, record.entries, self.local)


@frozen
class _TalliedView:
    """A view that keeps a tally of what is read and written."""

    view: View
    tally: _Tally

    @property
    def indexes(self) -> Collection[str]:
        return self.view.indexes

    def get(self, key: Key) -> bytes | None:
        record = self.view.record(key)
        self.tally.read(key, record)
        return None if record is None else record.data

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        wanted = tuple(keys)
        found = self.view.get_many(wanted)
        for key, data in zip(wanted, found, strict=True):
            self.tally.read(key, self._record(key, data))
        return found

    def record(self, key: Key) -> Record | None:
        found = self.view.record(key)
        self.tally.writes[key] = found, found
        return found

    def put(self, key: Key, record: Record) -> None:
        self.view.put(key, record)
        self.tally.writes[key] = self.tally.writes[key][0], record

    def delete(self, key: Key) -> None:
        self.view.delete(key)
        self.tally.writes[key] = self.tally.writes[key][0], None

    def link(self, index: str, index_key: Key, key: Key) -> None:
        self.view.link(index, index_key, key)

    def unlink(self, index: str, index_key: Key, key: Key) -> None:
        self.view.unlink(index, index_key, key)

    def rows(self, query: Query) -> Rows:
        return self._read(self.view.rows(query), query)

    def scan(self, after: Key | None, segment: tuple[int, int] | None = None) -> Rows:
        assert isinstance(self.tally.request, Scan)
        return self._read(self.view.scan(after, segment), self.tally.request)

    def _read(self, rows: Rows, request: Query | Scan) -> Generator[Row, None, None]:
        """The rows; those behind which the engine went on have been read."""
        read = 0
        with closing(rows):
            for row in rows:
                try:
                    yield row
                except GeneratorExit:
                    if request.filter is not None and request.limit is not None:
                        self._read_on(row, rows, request, self.tally.page_bytes - read)
                    raise
                read += len(row[0])
                self._tell(row, request)

    def _read_on(self, row: Row, rows: Rows, request: Query | Scan, left: int) -> None:
        """Read the rest of the page: DynamoDB's own limit counts before the filter, so it is given none here."""
        for one in chain((row,), rows):
            if left <= 0:
                break
            left -= len(one[0])
            self._tell(one, request)

    def _tell(self, row: Row, request: Query | Scan) -> None:
        key = position_of(request, row).key
        self.tally.read(key, self._record(key, row[0]))

    def _record(self, key: Key, data: bytes | None) -> Record | None:
        """What was read, with the entries that the item has, which count with its size."""
        if data is None:
            return None
        found = self.view.record(key)
        return Record(data, {} if found is None else found.entries)


@frozen
class _TalliedStorage:
    """A storage whose views keep a tally."""

    storage: Storage
    tally: _Tally

    def reading(self) -> AbstractContextManager[View]:
        return self._tallied(self.storage.reading())

    def writing(self) -> AbstractContextManager[View]:
        return self._tallied(self.storage.writing())

    @contextmanager
    def _tallied(self, block: AbstractContextManager[View]) -> Iterator[View]:
        with block as view:
            yield _TalliedView(view, self.tally)

    def create(self, indexes: Collection[str]) -> None:
        self.storage.create(indexes)

    def drop(self) -> None:
        self.storage.drop()

    def close(self) -> None:
        self.storage.close()
