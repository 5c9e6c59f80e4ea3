"""Change streams: ReadChangeStream over the log of a table."""

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from google.cloud.bigtable_v2 import types

from odm.backends.bigtable.emulator.calls import CallInfo
from odm.backends.bigtable.emulator.log import Change
from odm.backends.bigtable.emulator.reading import Interval, intervals_of
from odm.backends.bigtable.emulator.refusals import Refused, invalid
from odm.backends.bigtable.emulator.tables import Table, Tables

HEARTBEAT: Final = 5.0
"""The default seconds between heartbeats (google.bigtable.v2, ReadChangeStreamRequest.heartbeat_duration)."""

CLUSTER: Final = "emulator"

_WAKE: Final = 0.1
"""How often a stream that waits looks whether its client still does, in seconds."""


class Streams:
    """Reads change streams.

    Attributes:
        stopped: the emulator ends: so do its streams.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.stopped = False

    def partitions(self, request: Any, call: CallInfo) -> Iterator[Any]:
        """The partitions of a table: its parts between the keys at which it was divided."""
        table = self._streaming(request.table_name)
        bounds = [b"", *table.splits, b""]
        for start, end in pairwise(bounds):
            answer = types.GenerateInitialChangeStreamPartitionsResponse.pb()()
            answer.partition.row_range.start_key_closed = start
            answer.partition.row_range.end_key_open = end
            yield answer

    def read(self, request: Any, call: CallInfo) -> Iterator[Any]:
        """The changes of a partition, then heartbeats and further changes, until the end time if there is one."""
        table = self._streaming(request.table_name)
        starts = _starts(table, request)
        at = min(place for _, place in starts)
        end = _micros(request, "end_time")
        heartbeat = request.heartbeat_duration
        pause = heartbeat.ToMicroseconds() / 1e6 if request.HasField("heartbeat_duration") else HEARTBEAT
        beat = time.monotonic()
        while call.is_active() and not self.stopped:
            with table.held():
                table.collect()
                if not table.streams:
                    raise _not_enabled(table.name)
                new, now = table.log.changes[at:], table.micros()
            for number, change in enumerate(new, at):
                if end is not None and change.at > end:
                    break
                if any(number >= place and _holds(span, change.key) for span, place in starts):
                    yield _data(change, number)
            at += len(new)
            if end is not None and (now > end or any(change.at > end for change in new)):
                yield _closed()
                return
            if time.monotonic() >= beat:
                yield _heartbeat(request.partition, at, now)
                beat = time.monotonic() + pause
            with table.changed:
                if at == len(table.log.changes):
                    table.changed.wait(_WAKE)

    def _streaming(self, name: str) -> Table:
        table = self._tables.get(name)
        if not table.streams:
            raise _not_enabled(name)
        return table


def _not_enabled(name: str) -> Refused:
    return Refused("FAILED_PRECONDITION", f"the change stream of table {name!r} is not enabled")


def _starts(table: Table, request: Any) -> list[tuple[Interval, int]]:
    """The intervals of keys to read, each with the place of its first change."""
    kind, span = request.WhichOneof("start_from"), _span(request.partition)
    with table.held():
        changes = table.log.changes
        if kind != "continuation_tokens":
            since = _micros(request, "start_time")
            if since is not None and since > table.micros():
                raise invalid("start_time must not be in the future")
            places = (place for place, change in enumerate(changes) if since is not None and change.at >= since)
            return [(span, next(places, len(changes)))]
        tokens = request.continuation_tokens.tokens
        parts_ = sorted((_span(token.partition), _place(token.token, len(changes))) for token in tokens)
    if not parts_ or not _covers([each for each, _ in parts_], span):
        raise invalid("the partitions of the continuation tokens must be exactly that of the request")
    return parts_


def _covers(parts: Sequence[Interval], whole: Interval) -> bool:
    """Whether intervals, in order, are exactly one."""
    joined = all(part.end == other.start for part, other in pairwise(parts))
    return joined and parts[0].start == whole.start and parts[-1].end == whole.end


def _span(partition: Any) -> Interval:
    intervals = intervals_of(types.RowSet.pb()(row_ranges=[partition.row_range]))
    if not intervals:
        raise invalid("a partition must not be empty")
    return intervals[0]


def _place(token: str, most: int) -> int:
    if not token.isascii() or not token.isdigit() or len(token) > len(str(most)) or int(token) > most:
        raise invalid(f"{token!r} is not a continuation token of this table")
    return int(token)


def _micros(request: Any, name: str) -> int | None:
    """A time of a request, in microseconds; None: it has none."""
    if not request.HasField(name):
        return None
    try:
        return int(getattr(request, name).ToMicroseconds())
    except ValueError as error:
        raise invalid(f"{name}: {error}") from error


def _holds(span: Interval, key: bytes) -> bool:
    return span.start <= key and (span.end is None or key < span.end)


def _data(change: Change, place: int) -> Any:
    answer = types.ReadChangeStreamResponse.pb()()
    data = answer.data_change
    kinds = types.ReadChangeStreamResponse.DataChange.Type
    data.type_ = kinds.GARBAGE_COLLECTION if change.collected else kinds.USER
    if not change.collected:
        data.source_cluster_id = CLUSTER
    data.row_key = change.key
    data.commit_timestamp.FromMicroseconds(change.at)
    _add_chunks(data, change.mutations)
    data.done = True
    data.token = str(place + 1)
    data.estimated_low_watermark.FromMicroseconds(change.at)
    return answer


def _add_chunks(data: Any, mutations: Sequence[Any]) -> None:
    for mutation in mutations:
        data.chunks.add().mutation.CopyFrom(mutation)


def _heartbeat(partition: Any, place: int, now: int) -> Any:
    answer = types.ReadChangeStreamResponse.pb()()
    token = answer.heartbeat.continuation_token
    token.partition.CopyFrom(partition)
    token.token = str(place)
    answer.heartbeat.estimated_low_watermark.FromMicroseconds(now)
    return answer


def _closed() -> Any:
    """The end of a stream whose end time is over; it has no tokens, because nothing is left."""
    answer = types.ReadChangeStreamResponse.pb()()
    answer.close_stream.status.SetInParent()
    return answer
