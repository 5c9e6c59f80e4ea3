"""The procedures for the core's requests: generators without I/O.

A procedure yields native requests, is sent their responses, and returns the response that the request's docstring in
`odm.protocol.requests` describes.

Reads and changes of tables are retried after a lost response. For writes, see `writes`, `commit`, `counters` and
`batches`.

Without ``transactions=True`` a write concerns one row: Bigtable itself is atomic for one row only.

**App profiles.** `Bigtable(read_app_profile=...)` names one whose clusters may lag behind the one that is written to.
Only reads of items with ``consistent=False`` use it. All other reads use the profile of writes: consistent reads, and
those that a write, a batch, a scrub or a plan makes to decide what to write. Pages of an index use that one, too: their
entries and the items that they name are rows of two tables, which another cluster may have in states of different
times, so that an item that changes its place in the index could be in neither.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, assert_never

from odm.backends.bigtable.admin.tables import create, drop, identify, measure, names, unaltered
from odm.backends.bigtable.client.filters import Filter
from odm.backends.bigtable.client.native import ITEM, Concurrent, Native, ReadRows, Sample, SampleRowKeys, Steps
from odm.backends.bigtable.client.native_admin import ABORT_AFTER, NO_OPTIONS, Options
from odm.backends.bigtable.client.retry import Retry, read_many, until_answered
from odm.backends.bigtable.feed import Feed
from odm.backends.bigtable.index.pages import Entries
from odm.backends.bigtable.rows.keys import RowKeys, entry_range, entry_row
from odm.backends.bigtable.rows.loading import Loader
from odm.backends.bigtable.rows.pages import CONCURRENT_ONLY, cut, read_page
from odm.backends.bigtable.writer import Writer, new_id, now_micros
from odm.backends.bigtable.writes.batches import batch_merge, batch_write
from odm.backends.bigtable.writes.single import ItemWrites
from odm.backends.bigtable.writes.transact import Transactions, transactions_of
from odm.backends.bigtable.writes.wide import writes_of
from odm.concurrency import Background
from odm.errors import Unsupported
from odm.expressions.nodes import Item
from odm.immutable import Immutable, evolve, field
from odm.protocol import requests as req
from odm.schema.entity import Key
from odm.schema.model import Schema


class Procedures(Immutable, dict=True):
    """The procedures of one table.

    Attributes:
        schema: the schema of the table.
        retry: how long to retry.
        now: returns the timestamp of written cells, in microseconds.
        ids: returns a new id for each attempt to write.
        options: of a table that `create` makes or completes.
        background: the work after the answers.
        abort_after: the age in seconds from which the lock of a transaction may be resolved by every writer.
        instance: what distinguishes the instance from others.
    """

    schema: Schema
    retry: Retry = field(factory=Retry)
    now: Callable[[], int] = now_micros
    ids: Callable[[], str] = new_id
    options: Options = NO_OPTIONS
    background: Background = field(factory=Background, repr=False)
    abort_after: float = ABORT_AFTER
    instance: Mapping[str, str] = field(factory=dict)

    @cached_property
    def writer(self) -> Writer:
        return Writer(self.schema, self.retry, self.now, self.ids, self.background, self.abort_after)

    @cached_property
    def writes(self) -> ItemWrites:
        """How items are written."""
        return writes_of(self.writer)

    @cached_property
    def transactions(self) -> Transactions:
        """How several items are written, or read, together."""
        return transactions_of(self.writes)

    @cached_property
    def loader(self) -> Loader:
        return self.writer.places.loader(entity.codec for entity in self.schema.entities.values())

    def steps(self, request: req.Request) -> Steps[Any]:
        """The procedure for a request.

        Raises:
            Unsupported: Bigtable does not support the request; raised before the first native request.
        """
        match request:
            case req.Get():
                return self.get(request)
            case req.BatchGet():
                if request.tags:
                    return self.read_tags(request)
                return self.batch_get(request.keys, self._wanted(request), atomic=request.atomic)
            case req.Put() | req.Update() | req.Delete():
                return self.writes.write(request)
            case req.BatchWrite():
                return batch_write(self.writer, request.operations)
            case req.Merge():
                return self.writes.merge(request)
            case req.BatchMerge():
                return batch_merge(self.writer, request.operations)
            case req.Query():
                return self.query(request)
            case req.Split():
                return self.split(request)
            case req.Scan(segment=None):
                return self.writer.places.scan(request, self.loader, self.retry)
            case req.Scan():
                raise Unsupported(f"table {self.table!r}: {CONCURRENT_ONLY}")
            case req.ListShards():
                return self._feed.shards()
            case req.ReadChanges():
                return self._feed.page(request)
            case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
                return self._administer(request)
            case req.IdentifyTable() | req.MeasureTable():
                return self._administer(request)
            case req.Transact():
                return self.transactions.transact(request)
            case _:
                assert_never(request)

    def _administer(self, request: req.AdminRequest) -> Steps[Any]:
        match request:
            case req.CreateTables():
                return create(self.schema, self.retry, self.options)
            case req.DropTables():
                return drop(self.schema, self.retry)
            case req.ListTables(beginning):
                return names(self.schema, self.retry, beginning)
            case req.AlterTables():
                return unaltered()
            case req.IdentifyTable():
                return identify(self.schema, self.instance)
            case req.MeasureTable():
                return measure(self.schema, self.retry)
            case _:
                assert_never(request)

    @property
    def _feed(self) -> Feed:
        return Feed(self.schema, self.writer.places, self.loader, self.retry, self.now)

    @property
    def table(self) -> str:
        """The table's name."""
        return self.schema.name

    @property
    def row_keys(self) -> RowKeys:
        """How the table's row keys are built."""
        return self.writer.row_keys

    def get(self, request: req.Get) -> Steps[Item | None]:
        """Read one item."""
        row_key = self.row_keys.row_key(request.key)
        rows = yield from self.writer.places.read((row_key,), self.retry, self._wanted(request))
        return self.loader.item(rows.get(row_key))

    def _wanted(self, request: req.Get | req.BatchGet) -> Filter:
        """The cells of the items that are needed."""
        if request.only is not None:
            return self.writer.places.selection(request.only)
        return ITEM if request.former else self.writer.places.current

    def batch_get(
        self, keys: Sequence[Key], wanted: Filter = ITEM, *, atomic: bool = False
    ) -> Steps[tuple[Item | None, ...]]:
        """Read items by key, in one request, unless there are very many; ``atomic``: those of a row at one instant."""
        row_keys = tuple(map(self.row_keys.row_key, keys))
        if atomic:
            rows = yield from self.transactions.read(keys, wanted)
        else:
            rows = yield from self.writer.places.read(row_keys, self.retry, wanted)
        return tuple(self.loader.item(rows.get(row_key)) for row_key in row_keys)

    def read_tags(self, request: req.BatchGet) -> Steps[tuple[Item | None, ...]]:
        """Read the tags of rows; if one tag is expected, only those of the rows that may not have it.

        The filter for these rows is not atomic (see `Owned.unexpected`), so they are read again without it.
        """
        owned, places = self.writer.form.owned, self.writer.places
        if request.expected is not None and all(places.surely_own(self.row_keys.row_key(key)) for key in request.keys):
            return (None,) * len(request.keys)
        cells = None if request.expected is None else places.tags_unless(request.expected)
        if cells is None:
            return (yield from self.batch_get(request.keys, owned.held))
        row_keys = tuple(map(self.row_keys.row_key, request.keys))
        others = yield from read_many(self.table, row_keys, self.retry, places.shown(cells))
        if not others:
            return (None,) * len(row_keys)
        found = yield from self.writer.places.read(tuple(others), self.retry, owned.held)
        return tuple(self.loader.item(found.get(row_key)) for row_key in row_keys)

    def query(self, request: req.Query) -> Steps[req.Page]:
        """Read a page of one partition, of the table or of an index."""
        if request.index is not None:
            return self._query_index(request, request.index)
        return self.writer.places.query(request, self.loader, self.retry)

    def _query_index(self, request: req.Query, index: str) -> Steps[req.Page]:
        span = entry_range(request.partition, request.lo, request.hi)
        if request.after is not None and request.after.index_key is not None:
            span = span.beyond(entry_row(request.after.index_key, request.after.key), reverse=request.reverse)
        source = Entries(request, self.writer.places, index, self.retry, self.loader)
        return read_page(request, source, span, self.retry)

    def split(self, request: req.Split) -> Steps[tuple[req.Part, ...]]:
        """Divide the table into parts to scan."""
        samples: tuple[Sample, ...] = yield from until_answered(SampleRowKeys(self.table), self.retry)
        return cut(self.row_keys, samples, request.parts)


def may_lag(request: req.Request) -> bool:
    """Whether a request may be answered by a cluster that lags behind."""
    match request:
        case req.Get() | req.Scan():
            return not request.consistent
        case req.BatchGet():
            return not request.consistent and not request.tags  # a batch of writes asks for tags
        case req.Query():
            return not request.consistent and request.index is None
        case (
            req.Put() | req.Update() | req.Delete() | req.Transact() | req.BatchWrite() | req.Merge() | req.BatchMerge()
        ):
            return False
        case req.Split() | req.ListShards() | req.ReadChanges():
            return False
        case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
            return False
        case req.IdentifyTable() | req.MeasureTable():
            return False
        case _:
            assert_never(request)


def reading_from(profile: str, steps: Steps[Any]) -> Steps[Any]:
    """The same steps, with reads that use an app profile."""
    try:
        native = next(steps)
        while True:
            try:
                response = yield _of_profile(native, profile)
            except Exception as failure:  # noqa: BLE001  # the steps decide about it
                native = steps.throw(failure)
            else:
                native = steps.send(response)
    except StopIteration as end:
        return end.value


def _of_profile(native: Native, profile: str) -> Native:
    match native:
        case ReadRows():
            return evolve(native, profile=profile)
        case Concurrent(calls):
            reads = (evolve(call, profile=profile) if isinstance(call, ReadRows) else call for call in calls)
            return Concurrent(tuple(reads))
        case _:
            return native
