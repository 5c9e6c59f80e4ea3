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
        rows = types.RowSet.pb()(row_ranges=[request.partition.row_range])
        (span,) = intervals_of(rows)
        at = self._start(table, request)
        end = request.end_time.ToMicroseconds() if request.HasField("end_time") else None
        wanted = request.heartbeat_duration
        pause = wanted.ToMicroseconds() / 1e6 if request.HasField("heartbeat_duration") else HEARTBEAT
        beat = time.monotonic()
        while call.is_active() and not self.stopped:
            with table.lock:
                new = table.log.changes[at:]
                now = int(table.clock() * 1_000_000)
            for number, change in enumerate(new, at):
                if end is not None and change.at > end:
                    yield _closed(request.partition, number)
                    return
                if _holds(span, change.key):
                    yield _data(change, number)
            at += len(new)
            if end is not None and now > end:
                yield _closed(request.partition, at)
                return
            if time.monotonic() >= beat:
                yield _heartbeat(request.partition, at, now)
                beat = time.monotonic() + pause
            with table.lock:
                if at == len(table.log.changes):
                    table.lock.wait(_WAKE)

    def _streaming(self, name: str) -> Table:
        table = self._tables.get(name)
        if not table.streams:
            raise Refused("FAILED_PRECONDITION", f"the change stream of table {name!r} is not enabled")
        return table

    def _start(self, table: Table, request: Any) -> int:
        """The place of the first change."""
        kind = request.WhichOneof("start_from")
        with table.lock:
            changes = table.log.changes
            if kind == "continuation_tokens":
                return min(_place(one.token, len(changes)) for one in request.continuation_tokens.tokens)
            if kind == "start_time":
                since = request.start_time.ToMicroseconds()
                return next((place for place, one in enumerate(changes) if one.at >= since), len(changes))
            return len(changes)


def _place(token: str, most: int) -> int:
    if not token.isascii() or not token.isdigit() or int(token) > most:
        raise invalid(f"{token!r} is not a continuation token of this table")
    return int(token)


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
    for one in mutations:
        data.chunks.add().mutation.CopyFrom(one)


def _heartbeat(partition: Any, place: int, now: int) -> Any:
    answer = types.ReadChangeStreamResponse.pb()()
    token = answer.heartbeat.continuation_token
    token.partition.CopyFrom(partition)
    token.token = str(place)
    answer.heartbeat.estimated_low_watermark.FromMicroseconds(now)
    return answer


def _closed(partition: Any, place: int) -> Any:
    answer = types.ReadChangeStreamResponse.pb()()
    answer.close_stream.status.SetInParent()
    token = answer.close_stream.continuation_tokens.add()
    token.partition.CopyFrom(partition)
    token.token = str(place)
    return answer
