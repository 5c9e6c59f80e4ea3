"""The change feed of a table, from its change stream.

A shard is a partition of the stream; see `odm.backends.bigtable.client.native` for its name and positions. Bigtable
reports the mutations of a row and not its content. So a page reads the items that the mutations touch, after the
changes have arrived, in one read: ``new`` is the stored item at that time, which may be newer than the change and is
never older. A change is "remove" if there is no item then, otherwise "modify", also of a new item.

Not delivered are changes of cells that no item has: locks of transactions, revisions, lists of index entries, cells of
other programs; and garbage collection. A deletion does not say whether there was an item. So a "remove" may be of a key
without an item before it.

A page ends at the next heartbeat, after about a second. It has no end time: a stream that ends at one has no token with
which to continue.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from grpc import StatusCode

from odm.backends.bigtable.client.errors import status, text_of, translate
from odm.backends.bigtable.client.native import (
    Begin,
    GenerateInitialChangeStreamPartitions,
    ReadChangeStream,
    RowChange,
    Span,
    Steps,
    Streamed,
    Token,
    begin_of,
    time_position,
)
from odm.backends.bigtable.client.native_admin import GetTable, TableInfo
from odm.backends.bigtable.client.retry import Retry, once, pause, until_answered
from odm.backends.bigtable.rows.items import ItemRows
from odm.backends.bigtable.rows.loading import Loader
from odm.codec import TAG
from odm.errors import BadCursor, Unsupported, brief
from odm.expressions.nodes import Item
from odm.immutable import Immutable, evolve
from odm.protocol.changes import ChangePage, ChangeRecord, ChangeShard, Kind
from odm.protocol.requests import ReadChanges
from odm.schema.entity import Key
from odm.schema.model import Schema

SECOND: Final = 1_000_000
"""In microseconds, as all times here."""

MARGIN: Final = 60 * SECOND
"""A new feed begins so much later than the retention allows: clocks differ, and a request takes time."""

BEHIND: Final = 5 * SECOND
"""A time that is surely not in the future by the server's clock."""

REFUSED: Final = frozenset({StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE, StatusCode.FAILED_PRECONDITION})
"""The statuses of a stream that cannot be read from a position on. Google does not document which one it has."""


class Feed(Immutable):
    """The change feed of one table.

    Attributes:
        schema: the schema of the table.
        places: where the items stand.
        loader: makes the items.
        retry: how long to retry.
        now: returns the time, in microseconds.
    """

    schema: Schema
    places: ItemRows
    loader: Loader
    retry: Retry
    now: Callable[[], int]

    @property
    def table(self) -> str:
        """The table's name."""
        return self.places.table

    def shards(self) -> Steps[tuple[ChangeShard, ...]]:
        """The partitions of the stream.

        Raises:
            Unsupported: the table has no change stream.
        """
        yield from self._retention()  # Google's emulator ends at the next call, and keeps no change stream
        spans: tuple[Span, ...] = yield from until_answered(
            GenerateInitialChangeStreamPartitions(self.table), self.retry
        )
        return tuple(ChangeShard(span.id) for span in spans)

    def page(self, request: ReadChanges) -> Steps[ChangePage]:
        """A page of changes. One change of a row may be of several items, of which all are in one page.

        Raises:
            BadCursor: the position is not one of this shard, or changes after it were lost.
            Unsupported: the table has no change stream.
        """
        span, position = Span.of(request.shard), request.after
        if span is None:
            raise BadCursor(f"{brief(request.shard)} is not a shard of the change stream of table {self.table!r}")
        if position is None:
            position = time_position(span, (yield from self._oldest(span)))
        begin = self._begin(position, span)
        if begin is None:
            return ChangePage(position=position)  # another parent has not been read to its end yet
        read = yield from self._read(ReadChangeStream(self.table, span, begin, request.limit))
        if read.failure is not None and read.token is None:
            raise (yield from self._lost(position, read.failure))
        records = yield from self._records(read.changes, span, position)
        return _page(records, read, span, position)

    def _retention(self) -> Steps[timedelta]:
        """How long changes are kept.

        Raises:
            Unsupported: the table has no change stream.
        """
        found: TableInfo = yield from until_answered(GetTable(self.table), self.retry)
        if found.settings.stream is None:
            raise Unsupported(
                f"table {self.table!r} has no change stream: open it with Bigtable(..., stream=timedelta(days=1)), and "
                "call store.create() or odm apply once. Google's emulator has no change streams: use odm's"
            )
        return found.settings.stream

    def _begin(self, position: str, span: Span) -> Begin | None:
        try:
            return begin_of(position, span)
        except ValueError as error:
            raise BadCursor(
                f"{brief(position)} is not a position of shard {span.id!r} of the change stream of table {self.table!r}"
            ) from error

    def _oldest(self, span: Span) -> Steps[int]:
        """The time of the oldest change that can be read, to a second.

        Changes of the retention can be read, and none from before the stream was created
        (google.bigtable.v2, ReadChangeStreamRequest.start_time); when that was, no call says. So if the server refuses
        the oldest time, this finds the first one that it accepts.
        """
        retention = yield from self._retention()
        late = self.now() - BEHIND
        early = late + BEHIND - int(retention.total_seconds()) * SECOND + MARGIN
        refusal = yield from self._refusal(span, early)
        if refusal is None:
            return early
        if (yield from self._refusal(span, late)) is not None:
            raise translate(refusal, ReadChangeStream(self.table, span, Begin(at=early), 0)) from refusal
        while late - early > SECOND:
            middle = (early + late) // 2
            if (yield from self._refusal(span, middle)) is None:
                late = middle
            else:
                early = middle
        return late

    def _refusal(self, span: Span, at: int) -> Steps[Exception | None]:
        """The failure with which the server refuses to read from a time on; None: it does not."""
        read = yield from self._read(ReadChangeStream(self.table, span, Begin(at=at), 0))
        return None if read.token is not None else read.failure

    def _read(self, call: ReadChangeStream) -> Steps[Streamed]:
        """Read the stream, until there is something to continue with, or the server refuses."""
        pauses = self.retry.pauses()
        while True:
            read: Streamed = yield from once(call)
            if read.failure is None or read.token is not None or status(read.failure) in REFUSED:
                return read
            call = yield from pause(pauses, read.failure, call)

    def _lost(self, position: str, failure: Exception) -> Steps[BadCursor]:
        yield from self._retention()  # another error if the stream was removed
        error = BadCursor(
            f"table {self.table!r}: Bigtable refused to continue its change stream at position {brief(position)} "
            f"({status(failure).name}, {text_of(failure)}): if the position is older than the retention of the stream, "
            "changes were lost: build what was made of the feed again from the table, and read the feed from its start"
        )
        error.__cause__ = failure
        return error

    def _records(self, changes: Sequence[RowChange], span: Span, position: str) -> Steps[list[ChangeRecord]]:
        """The changes of items, with the items that are stored now."""
        touched = [self.places.touched(_text(change.key), change.touched) for change in changes]
        ids = tuple(dict.fromkeys(id for several in touched for id in several))
        rows = (yield from self.places.read(ids, self.retry, self.places.current)) if ids else {}
        made: list[ChangeRecord] = []
        for change, several in zip(changes, touched, strict=True):
            behind = str(Token(span, change.token))
            found = [record for id in several if (record := self._record(change, id, self.loader.item(rows.get(id))))]
            made += [evolve(record, position=position) for record in found[:-1]]  # all of them are read again
            made += [evolve(record, position=behind) for record in found[-1:]]
            position = behind
        return made

    def _record(self, change: RowChange, id: str, item: Item | None) -> ChangeRecord | None:
        key = self._key(id, item)
        if key is None:
            return None
        native = {
            "row_key": change.key,
            "commit_timestamp": change.at,
            "tiebreaker": change.tiebreaker,
            "source_cluster_id": change.cluster,
            "token": change.token,
            "mutations": change.mutations,
        }
        kind: Kind = "remove" if item is None else "modify"
        return ChangeRecord(kind, key, None, item, change.at / SECOND, change.order, change.token, native=native)

    def _key(self, id: str, item: Item | None) -> Key | None:
        """The key of an item; None: it is gone, and no model makes such row keys."""
        if item is None:
            return self.places.row_keys.key_in(id)
        tag = item.get(TAG)
        row_keys = self.places.row_keys
        return row_keys.key_of(id, tag if isinstance(tag, str) else "") or row_keys.key_in(id) or Key(id)


def _page(records: list[ChangeRecord], read: Streamed, span: Span, before: str) -> ChangePage:
    position = before if read.token is None else str(Token(span, read.token))
    children: Mapping[str, str] = read.children
    if not children:
        return ChangePage(tuple(records), position)
    if children.keys() == {span.id}:  # it moved, and goes on
        return ChangePage(tuple(records), children[span.id])
    return ChangePage(tuple(records), None, children)


def _text(row_key: bytes) -> str:
    return row_key.decode("utf-8", "surrogateescape")
