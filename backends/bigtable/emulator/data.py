"""The data service: google.bigtable.v2.Bigtable."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import grpc
from google.cloud.bigtable_v2 import types
from google.rpc.status_pb2 import Status

from odm.backends.bigtable.client.encoding import field as wire
from odm.backends.bigtable.emulator import limits, mutations
from odm.backends.bigtable.emulator.calls import CallInfo, Method
from odm.backends.bigtable.emulator.filters import read_filter
from odm.backends.bigtable.emulator.reading import Found, Reader, intervals_of, messages_of
from odm.backends.bigtable.emulator.refusals import Refused, invalid
from odm.backends.bigtable.emulator.streams import Streams
from odm.backends.bigtable.emulator.tables import Table, Tables, Writing

NAME: Final = "google.bigtable.v2.Bigtable"

SAMPLED: Final = 100
"""A key of so many is sampled."""


class DataService:
    """Reads and writes rows."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def methods(self, streams: Streams) -> dict[str, Method]:
        """The methods by name."""
        return {
            "ReadRows": Method(self.read_rows, types.ReadRowsRequest.pb(), streams=True),
            "SampleRowKeys": Method(self.sample, types.SampleRowKeysRequest.pb(), streams=True),
            "MutateRow": Method(self.mutate, types.MutateRowRequest.pb()),
            "MutateRows": Method(self.mutate_many, types.MutateRowsRequest.pb(), streams=True),
            "CheckAndMutateRow": Method(self.check_and_mutate, types.CheckAndMutateRowRequest.pb()),
            "ReadModifyWriteRow": Method(self.modify, types.ReadModifyWriteRowRequest.pb()),
            "PingAndWarm": Method(self.ping, types.PingAndWarmRequest.pb()),
            "GenerateInitialChangeStreamPartitions": Method(
                streams.partitions, types.GenerateInitialChangeStreamPartitionsRequest.pb(), streams=True
            ),
            "ReadChangeStream": Method(streams.read, types.ReadChangeStreamRequest.pb(), streams=True),
        }

    def ping(self, request: Any, call: CallInfo) -> Any:
        """Nothing: there are no connections to warm."""
        return types.PingAndWarmResponse.pb()()

    def read_rows(self, request: Any, call: CallInfo) -> Iterator[bytes]:
        """The rows of a request, as encoded responses."""
        features = call.features
        if request.reversed and not features.reverse_scans:
            raise Refused("UNIMPLEMENTED", "Client doesn't support reverse scans yet")
        table = self._table(request)
        left, stats = call.cut, types.FullReadStatsView.pb()()
        for found in Reader.of(table, request):
            _count(found, stats.read_iteration_stats)
            yield from messages_of(found.rows if left is None else _first(found.rows, left), divided=call.is_python)
            if left is not None:
                left -= sum(len(chunks) for _, chunks in found.rows)
                if left < 0:
                    break
            if found.scanned is not None and features.last_scanned_row_responses:
                yield wire(2, found.scanned)
            if not call.is_active():
                return
        if call.cut is not None:
            raise Refused("UNAVAILABLE", "the stream was cut by a fault")
        if request.request_stats_view == _FULL:
            stats.request_latency_stats.frontend_server_latency.FromMicroseconds(1)
            answer = types.ReadRowsResponse.pb()()
            answer.request_stats.full_read_stats_view.CopyFrom(stats)
            yield answer.SerializeToString()

    def sample(self, request: Any, call: CallInfo) -> Iterator[Any]:
        """Some keys that divide the table or a range; the last is the end of the range, empty for that of the table."""
        table = self._table(request)
        span = request.row_range
        rows = types.RowSet.pb()(row_ranges=[span] if request.HasField("row_range") else [])
        message, offset, sizes = types.SampleRowKeysResponse.pb(), 0, dict[bytes, int]()
        with table.held():
            for start, end in intervals_of(rows):
                splits = [split for split in table.splits if start < split and (end is None or split < end)]
                for number, key in enumerate(table.rows.irange(start, end, (True, False)), 1):
                    while splits and splits[0] <= key:
                        sizes[splits.pop(0)] = offset
                    offset += table.rows[key].size
                    if number % SAMPLED == 0:
                        sizes[key] = offset
                sizes |= dict.fromkeys(splits, offset)
        end_key = span.end_key_open or span.end_key_closed
        sizes.pop(end_key, None)
        for key, before in sizes.items():
            yield message(row_key=key, offset_bytes=before)
        yield message(row_key=end_key, offset_bytes=offset)

    def mutate(self, request: Any, call: CallInfo) -> Any:
        """Change a row."""
        table = self._table(request)
        limits.check_count("mutations", len(request.mutations))
        with table.held():
            writing = Writing(table)
            _write(writing, request.row_key, request.mutations)
            writing.commit()
        return types.MutateRowResponse.pb()()

    def mutate_many(self, request: Any, call: CallInfo) -> Iterator[Any]:
        """Change rows, each by itself."""
        table = self._table(request)
        limits.check_count("mutations", sum(len(entry.mutations) for entry in request.entries))
        answer = types.MutateRowsResponse.pb()()
        with table.held():
            writing = Writing(table)
            for number, entry in enumerate(request.entries):
                refused = _entry(writing, entry, call.refused.get(number))
                if refused is None:
                    answer.entries.add(index=number, status=_OK)
                else:
                    code = getattr(grpc.StatusCode, refused.code).value[0]
                    answer.entries.add(index=number, status=Status(code=code, message=refused.shown))
            writing.commit()
        yield answer

    def check_and_mutate(self, request: Any, call: CallInfo) -> Any:
        """Change a row, depending on whether a filter returns a cell of it."""
        table = self._table(request)
        for branch in (request.true_mutations, request.false_mutations):
            limits.check_most("mutations", len(branch))
        if not request.true_mutations and not request.false_mutations:
            raise invalid("No mutations provided: CheckAndMutateRow needs true_mutations or false_mutations")
        key = request.row_key
        limits.check_key(key)
        with table.held():
            cells = table.cells(table.rows.get(key))
            if request.HasField("predicate_filter"):
                predicate = read_filter(request.predicate_filter, table.families, table.unit)
                cells = [*table.evaluator.cells(predicate, key, cells)]
            matched, unmatched = (
                mutations.read(table, branch) for branch in (request.true_mutations, request.false_mutations)
            )
            writing = Writing(table)
            if matched and cells:
                mutations.apply(writing, key, matched, request.true_mutations)
            elif unmatched and not cells:
                mutations.apply(writing, key, unmatched, request.false_mutations)
            writing.commit()
        return types.CheckAndMutateRowResponse.pb()(predicate_matched=bool(cells))

    def modify(self, request: Any, call: CallInfo) -> Any:
        """Append to values of a row, and increment numbers; returns the new cells."""
        table = self._table(request)
        limits.check_key(request.row_key)
        limits.check_count("rules", len(request.rules))
        answer = types.ReadModifyWriteRowResponse.pb()()
        answer.row.key = request.row_key
        with table.held():
            writing = Writing(table)
            row = mutations.modify(writing, request.row_key, request.rules)
            writing.commit()
            order = table.evaluator.order
        for name in sorted(row.families, key=order.__getitem__):
            family = answer.row.families.add(name=name)
            for qualifier, ((timestamp, value),) in sorted(row.families[name].items()):
                column = family.columns.add(qualifier=qualifier)
                column.cells.add(timestamp_micros=timestamp, value=value)
        return answer

    def _table(self, request: Any) -> Table:
        for view in ("authorized_view_name", "materialized_view_name"):
            if getattr(request, view, ""):
                raise Refused("UNIMPLEMENTED", f"the emulator does not have views: {view}")
        table = self._tables.get(request.table_name)
        with table.held():
            table.collect()
        return table


def _first(rows: Iterable[tuple[bytes, list[bytes]]], count: int) -> Iterator[tuple[bytes, list[bytes]]]:
    """The first chunks of rows."""
    for key, chunks in rows:
        yield key, chunks[:count]
        count -= len(chunks[:count])


def _write(writing: Writing, key: bytes, changes: Sequence[Any]) -> None:
    limits.check_key(key)
    mutations.apply(writing, key, mutations.read(writing.table, changes), changes)


def _entry(writing: Writing, entry: Any, fault: str | None) -> Refused | None:
    """Write an entry of many. Returns why it is refused."""
    if fault is not None:
        return Refused(fault, "the entry was refused by a fault")
    try:
        limits.check_count("mutations", len(entry.mutations))
        _write(writing, entry.row_key, entry.mutations)
    except Refused as refused:
        return refused
    return None


def _count(found: Found, stats: Any) -> None:
    stats.rows_seen_count += found.seen
    stats.rows_returned_count += len(found.rows)
    stats.cells_seen_count += found.seen_cells
    stats.cells_returned_count += found.cells


_OK: Final = Status()

_FULL: Final = 2
"""google.bigtable.v2, ReadRowsRequest.RequestStatsView.REQUEST_STATS_FULL."""
