"""Reads the table's stream as a change feed: its shards, and pages of their records.

**Positions.** ``<label>/after/<number>`` is behind the record with this sequence number; the label is that of the
stream. ``<label>/since/<time>`` is the start of a shard of which nothing was read, and when that was, in seconds since
the epoch: 24 hours later, changes may be gone that were never read.

**Empty answers.** Records are spread over a shard, and GetRecords passes over a part of it at a time, so it returns no
records where there are none, with an iterator that continues behind that part. A position names a record and not such a
part. So the iterator of each position is kept in memory: the next request for the position continues with it, and sends
GetRecords once. Without it (in another process, or 15 minutes later) a new iterator begins at the position, and the
request passes over up to `EMPTY` empty answers.
"""

import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from odm.backends.dynamodb.client.errors import CHANGES_LOST, CHANGES_TRIMMED, ITERATOR_EXPIRED, TABLE_MISSING, code_of
from odm.backends.dynamodb.client.native import Call, Steps
from odm.backends.dynamodb.items.layout import Layout
from odm.backends.dynamodb.stream_records import read_record
from odm.errors import BadCursor, Unsupported, brief
from odm.immutable import Immutable, evolve
from odm.protocol.changes import ChangePage, ChangeShard
from odm.protocol.requests import ReadChanges

MOST_RECORDS: Final = 1000
"""The most records in a response of GetRecords."""

RETENTION: Final = 24 * 3600
"""How long a stream keeps its records, in seconds."""

EMPTY: Final = 10
"""The most empty answers that a request with a new iterator passes over: DynamoDB may return no records although more
follow."""

_ITERATORS: Final = 10_000
"""The most iterators that are kept. Readers that stop leave theirs."""

_RENEWALS: Final = 3
"""The most new iterators in a request in which one expired, or the oldest records were deleted."""


def list_shards(layout: Layout) -> Steps[tuple[ChangeShard, ...]]:
    """The shards of the stream, parents before their children.

    Raises:
        Unsupported: the table has no stream.
    """
    arn = yield from _latest(layout)
    parents: dict[str, str | None] = {}
    arguments = {"StreamArn": arn}
    while True:
        response = yield Call("describe_stream", arguments)
        described = response["StreamDescription"]
        parents.update((shard["ShardId"], shard.get("ParentShardId")) for shard in described["Shards"])
        last = described.get("LastEvaluatedShardId")
        if last is None:
            return tuple(_in_order(parents))
        arguments = {"StreamArn": arn, "ExclusiveStartShardId": last}


def _in_order(parents: Mapping[str, str | None]) -> list[ChangeShard]:
    """The shards, parents first. A parent that is not listed was deleted: all its records are older than 24 hours."""
    depths: dict[str, int] = {}
    for shard in parents:
        line = [shard]
        while line[-1] not in depths and (parent := parents[line[-1]]) in parents and parent is not None:
            line.append(parent)
        start = depths.get(line[-1], 0)
        depths.update((one, start + height) for height, one in enumerate(reversed(line)))
    found = [ChangeShard(shard, parent) for shard, parent in parents.items()]
    return sorted(found, key=lambda shard: depths[shard.id])


def read_changes(layout: Layout, request: ReadChanges) -> Steps[ChangePage]:
    """A page of a shard.

    Raises:
        Unsupported: the table has no stream.
        BadCursor: the position is not one of the stream, or changes behind it were lost.
    """
    place = _place(layout.stream.arn, request)
    if place is None:
        place = _place((yield from _latest(layout)), request)
    if place is None:
        raise BadCursor(
            f"{brief(request.after)} is not a position of the stream of table {layout.table!r}. If it is one of "
            "an earlier "
            f"stream, {_NOT_RECORDED}"
        )
    try:
        return (yield from _page(layout, request, place))
    except Exception as error:
        if code_of(error) != TABLE_MISSING:
            raise
        layout.stream.arn = None
        raise BadCursor(
            f"shard {brief(request.shard)} is no longer in the stream of table {layout.table!r}: if it was not "
            "read to its "
            f"end, {CHANGES_LOST}"
        ) from error


_NOT_RECORDED: Final = (
    "changes were not recorded while there was none: build what was made of the feed again from the table, and read "
    "the feed from its start"
)


class _Place(Immutable):
    """Where a page begins.

    Attributes:
        arn: the ARN of the stream.
        number: the sequence number of the record before it; None: the start of the shard.
        since: when the shard was first read, in seconds since the epoch.
    """

    arn: str
    number: str | None
    since: int

    @property
    def label(self) -> str:
        """The StreamLabel."""
        return _label(self.arn)


def _label(arn: str) -> str:
    return arn.rpartition("/stream/")[2]


def _place(arn: str | None, request: ReadChanges) -> _Place | None:
    """The place of a position; None: it is not one of this stream."""
    if arn is None:
        return None
    if request.after is None:
        return _Place(arn, None, int(time.time()))
    rest = request.after.removeprefix(f"{_label(arn)}/")
    kind, _, number = rest.partition("/")
    if rest == request.after or not (number.isascii() and number.isdigit()):
        return None
    if kind == "since":
        return _Place(arn, None, int(number))
    return _Place(arn, number, 0) if kind == "after" else None


def _latest(layout: Layout) -> Steps[str]:
    """The ARN of the table's stream.

    Raises:
        Unsupported: it has none.
    """
    response = yield Call("describe_table", {"TableName": layout.table})
    table = response["Table"]
    if not table.get("StreamSpecification", {}).get("StreamEnabled"):
        layout.stream.arn = None
        raise Unsupported(
            f"table {layout.table!r} has no stream: open the store with DynamoDB(stream='new_and_old_images'), and "
            "call store.create() once"
        )
    arn: str = table["LatestStreamArn"]
    layout.stream.arn = arn
    return arn


_Answer: TypeAlias = tuple[list[dict[str, Any]], str | None]
"""The records of a response, and the iterator that continues behind them; None: the shard has ended."""


def _page(layout: Layout, request: ReadChanges, place: _Place) -> Steps[ChangePage]:
    iterators = layout.stream.iterators
    kept = None if request.after is None else iterators.get((request.shard, request.after))
    records, following = yield from _answer(layout, request, place, kept)
    iterators.pop((request.shard, request.after or ""), None)
    position = request.after or f"{place.label}/since/{place.since}"
    found = []
    for native in records:
        record = read_record(layout, native)
        position = f"{place.label}/after/{record.sequence}"
        found.append(evolve(record, position=position))
    if following is None:
        return ChangePage(tuple(found), None)
    if len(iterators) >= _ITERATORS:
        iterators.clear()  # each shard then takes a new one
    iterators[request.shard, position] = following
    return ChangePage(tuple(found), position)


def _answer(layout: Layout, request: ReadChanges, place: _Place, iterator: str | None) -> Steps[_Answer]:
    """The next records of a shard, beginning with a kept iterator or a new one."""
    left, renewals = 1 if iterator else EMPTY, 0
    while True:
        if iterator is None:
            iterator = yield from _iterator(layout, request, place)
        call = Call("get_records", {"ShardIterator": iterator, "Limit": min(request.limit, MOST_RECORDS)})
        try:
            response = yield call
        except Exception as error:
            renewals += 1
            if renewals > _RENEWALS or not _needs_iterator(error, place):
                raise
            iterator, left = None, EMPTY
            continue
        records, iterator = response["Records"], response.get("NextShardIterator")
        left -= 1
        if records or iterator is None or not left:
            return records, iterator


def _needs_iterator(error: Exception, place: _Place) -> bool:
    """Whether GetRecords failed only because of the age of the iterator: it expired, or the shard now starts later."""
    code = code_of(error)
    return code == ITERATOR_EXPIRED or (code == CHANGES_TRIMMED and place.number is None)


def _iterator(layout: Layout, request: ReadChanges, place: _Place) -> Steps[str]:
    """A new iterator at a place.

    Raises:
        BadCursor: nothing of the shard was read within 24 hours.
    """
    arguments = {"StreamArn": place.arn, "ShardId": request.shard}
    if place.number is not None:
        arguments |= {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": place.number}
    elif time.time() - place.since < RETENTION:
        arguments["ShardIteratorType"] = "TRIM_HORIZON"
    else:
        raise BadCursor(f"shard {brief(request.shard)} of the stream of table {layout.table!r}: {CHANGES_LOST}")
    response = yield Call("get_shard_iterator", arguments)
    iterator: str = response["ShardIterator"]
    return iterator
