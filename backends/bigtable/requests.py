"""From a request of the IR to native requests: every operation as a procedure without I/O.

A procedure yields native requests, is sent their responses, and returns the response that the request's docstring in
`odm.operations.ir` promises.

What is sent again after a lost answer: reads; `Put` without a condition, because it replaces the whole row (it takes
the old row away and sets every cell with a given timestamp, so applying it twice leaves what applying it once does; as
with any repeated put, one of another writer in between loses); batches; making and deleting tables. Never: conditional
puts and single deletes, whose answer can not be had a second time. They raise `OutcomeUnknown`.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from attrs import Factory, field, frozen

from odm.backends.bigtable.batches import read_many, write_all
from odm.backends.bigtable.codec import Form, replacement
from odm.backends.bigtable.entries import entry_range, entry_row
from odm.backends.bigtable.expressions import Presence, presence
from odm.backends.bigtable.index_pages import Entries
from odm.backends.bigtable.layout import Layout
from odm.backends.bigtable.loading import Loader
from odm.backends.bigtable.native import (
    CheckAndMutateRow,
    DeleteRow,
    Entry,
    MutateRow,
    ReadRows,
    RowRange,
    Sample,
    SampleRowKeys,
)
from odm.backends.bigtable.pages import Items, read_page
from odm.backends.bigtable.parts import TOGETHER_ONLY, cut
from odm.backends.bigtable.retry import Retry, once, read_all, until_answered
from odm.backends.bigtable.tables import create, drop
from odm.backends.bigtable.transactions import ONCE, apart
from odm.errors import Throttled, Unsupported
from odm.expressions.nodes import Item
from odm.operations.backend import Gen
from odm.operations.ir import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    DropTables,
    Get,
    Page,
    Part,
    Position,
    Put,
    Query,
    Refused,
    Request,
    Scan,
    Split,
    Transact,
    Update,
    Written,
)
from odm.schema.model import Key, Schema


def now_micros() -> int:
    """The time for cells: microseconds, in whole milliseconds as Bigtable wants them."""
    return time.time_ns() // 1_000_000 * 1000


def new_id() -> str:
    """The id of an attempt to write: random, so that nobody else's is equal."""
    return secrets.token_hex(10)


@frozen
class Procedures:
    """The procedures of one table.

    Attributes:
        schema: the table.
        retry: how long to try.
        now: the timestamp of the cells that are written, in microseconds.
        ids: makes the id that each attempt to write leaves in the row.
    """

    schema: Schema
    retry: Retry = Factory(Retry)
    now: Callable[[], int] = now_micros
    ids: Callable[[], str] = new_id
    form: Form = field(init=False, default=Factory(lambda self: Form.of(self.schema), takes_self=True))
    loader: Loader = field(
        init=False,
        default=Factory(lambda self: Loader(e.codec for e in self.schema.entities.values()), takes_self=True),
    )
    layout: Layout = field(
        init=False,
        default=Factory(lambda self: Layout(self.schema.row_key_join, self.schema.hash_only), takes_self=True),
    )

    def steps(self, request: Request) -> Gen[Any]:
        """The procedure for a request.

        Raises:
            Unsupported: it asks for what this backend does not do; raised here, before the first step.
        """
        match request:
            case Get():
                return self.get(request.key)
            case BatchGet():
                return self.batch_get(request.keys)
            case Put():
                return self.put(request, presence(request.condition))
            case Delete():
                return self.delete(request, presence(request.condition))
            case BatchWrite():
                return self.batch_write(request)
            case Query():
                return self.query(request)
            case Split():
                return self.split(request)
            case Scan(segment=None):
                return self.scan(request)
            case Scan():
                raise Unsupported(f"table {self.table!r}: {TOGETHER_ONLY}")
            case CreateTables():
                return create(self.schema, self.retry)
            case DropTables():
                return drop(self.schema, self.retry)
            case Update():
                raise Unsupported(
                    f"table {self.table!r}: the Bigtable backend does not do update() yet: get() the item, change it "
                    "and put() it back where nobody else writes it, or use another backend"
                )
            case Transact() if request.once:
                raise Unsupported(f"table {self.table!r}: {ONCE}")
            case Transact() if reason := self.apart([operation.key for operation in request.operations]):
                raise Unsupported(f"table {self.table!r}: no transaction of several items: {reason}")
            case Transact():
                raise Unsupported(
                    f"table {self.table!r}: the Bigtable backend does not do transactions yet: write the items one by "
                    "one, in an order in which a stop in between does no harm, or use another backend"
                )
            case _:
                assert_never(request)

    @property
    def table(self) -> str:
        """The table's name."""
        return self.schema.name

    def apart(self, keys: Sequence[Key]) -> str | None:
        """Why items can not be written in one transaction; see `odm.operations.backend.Connection`."""
        return apart(tuple(map(self.layout.row_key, keys)))

    def get(self, key: Key) -> Gen[Item | None]:
        """Read one row."""
        rows = yield from read_all(ReadRows(self.table, keys=(self.layout.row_key(key),)), self.retry)
        return self.loader.item(rows[0]) if rows else None

    def batch_get(self, keys: tuple[Key, ...]) -> Gen[tuple[Item | None, ...]]:
        """Read rows by key: one request unless the keys are very many."""
        row_keys = tuple(map(self.layout.row_key, keys))
        found = yield from read_many(self.table, row_keys, self.retry)
        return tuple(self.loader.item(found.get(row_key)) for row_key in row_keys)

    def put(self, request: Put, wanted: Presence | None) -> Gen[Written | Refused]:
        """Replace the row: in any case, or if it is or is not there."""
        entry = self._entry(request)
        if wanted is None:
            yield from until_answered(MutateRow(self.table, entry), self.retry)
            return Written()
        exists = yield from self._write_if(wanted, entry)
        if exists is (wanted == "present"):
            return Written()
        return (yield from self._refused(request.key, exists))

    def delete(self, request: Delete, wanted: Presence | None) -> Gen[Written | Refused]:
        """Remove the row and say whether it was there, in one step."""
        exists = yield from self._write_if(wanted or "present", self._entry(request))
        if wanted is None or exists is (wanted == "present"):
            return Written(existed=exists)
        return (yield from self._refused(request.key, exists))

    def _write_if(self, wanted: Presence, entry: Entry) -> Gen[bool]:
        """Write to the row if it is, or is not, there; gives whether it was."""
        present, absent = (entry.mutations, ()) if wanted == "present" else ((), entry.mutations)
        exists: bool = yield from once(CheckAndMutateRow(self.table, entry.key, None, present, absent))
        return exists

    def batch_write(self, request: BatchWrite) -> Gen[None]:
        """Write rows, each by itself, until all are done."""
        stuck = yield from write_all(self.table, tuple(map(self._entry, request.operations)), self.retry)
        if stuck is not None:
            operations = {self.layout.row_key(operation.key): operation for operation in request.operations}
            raise Throttled(
                f"table {self.table!r}: after all retries {len(stuck.left)} of {len(operations)} operations of the "
                f"batch are not known to be done ({stuck.reason}): they are attached as `left`, to be sent again",
                [operations[entry.key] for entry in stuck.left],
            )

    def query(self, request: Query) -> Gen[Page]:
        """A page of one partition, of the table or of an index."""
        if request.index is not None:
            return self._query_index(request, request.index)
        span = self.layout.range(request.partition, request.lo, request.hi)
        if request.after is not None:
            span = span.beyond(self.layout.row_key(request.after.key), reverse=request.reverse)
        return read_page(
            request, self._items(lambda row_key: self.layout.key(row_key, request.partition)), span, self.retry
        )

    def _query_index(self, request: Query, index: str) -> Gen[Page]:
        span = entry_range(request.partition, request.lo, request.hi)
        if request.after is not None and request.after.index_key is not None:
            span = span.beyond(entry_row(request.after.index_key, request.after.key), reverse=request.reverse)
        source = Entries(self.table, index, self.layout, self.retry, self.loader)
        return read_page(request, source, span, self.retry)

    def scan(self, request: Scan) -> Gen[Page]:
        """A page of the whole table.

        Where a row key parts into partition and sort can not be told without its entity, and to go on only the whole is
        needed: so the positions of a scan hold the row key as their partition, and no sort.
        """
        span = RowRange() if request.part is None else RowRange(*request.part)
        if request.after is not None:
            span = span.beyond(request.after.key.partition, reverse=False)
        return read_page(request, self._items(Key), span, self.retry)

    def _items(self, key: Callable[[str], Key]) -> Items:
        """Rows of items, with the keys that their row keys stand for."""
        return Items(self.table, lambda row_key: Position(key(row_key)), self.loader)

    def split(self, request: Split) -> Gen[tuple[Part, ...]]:
        """Cut the table into parts to scan."""
        samples: tuple[Sample, ...] = yield from until_answered(SampleRowKeys(self.table), self.retry)
        return cut(self.schema, samples, request.parts)

    def _entry(self, operation: Put | Delete) -> Entry:
        """What a write does to its row."""
        row_key = self.layout.row_key(operation.key)
        if isinstance(operation, Delete):
            return Entry(row_key, (DeleteRow(),))
        return Entry(row_key, replacement(operation.item, self.form, row_key, self.ids(), (), self.now()))

    def _refused(self, key: Key, exists: bool) -> Gen[Refused]:
        """The refusal with its item: the server only says that there is one, so it is read, and may have changed."""
        return Refused((yield from self.get(key)) if exists else None)
