"""Requests built with Google's message classes, field by field: the reference for the encoding by hand."""

import re
from collections.abc import Mapping
from typing import Any, assert_never

from google.cloud.bigtable_v2 import types

from odm.backends.bigtable.client.filters import (
    AnyFamily,
    Before,
    Behind,
    Chain,
    Column,
    ColumnRange,
    Family,
    Filter,
    First,
    Interleave,
    Newest,
    Nothing,
    Sampled,
    Stripped,
    Unless,
    ValueIs,
    ValueMatches,
    ValueRange,
)
from odm.backends.bigtable.client.native import (
    AddToCell,
    CheckAndMutateRow,
    DataCall,
    DeleteColumn,
    DeleteFamily,
    GenerateInitialChangeStreamPartitions,
    Increment,
    MutateRow,
    MutateRows,
    Mutation,
    ReadChangeStream,
    ReadModifyWriteRow,
    ReadRows,
    RowRange,
    SampleRowKeys,
    SetCell,
    Span,
)

REQUESTS: Mapping[type, Any] = {
    ReadRows: types.ReadRowsRequest,
    MutateRow: types.MutateRowRequest,
    MutateRows: types.MutateRowsRequest,
    CheckAndMutateRow: types.CheckAndMutateRowRequest,
    ReadModifyWriteRow: types.ReadModifyWriteRowRequest,
    SampleRowKeys: types.SampleRowKeysRequest,
    GenerateInitialChangeStreamPartitions: types.GenerateInitialChangeStreamPartitionsRequest,
    ReadChangeStream: types.ReadChangeStreamRequest,
}
"""The message class of each native request."""


def request(call: DataCall, instance: str, app_profile: str) -> Any:
    """The message of a native request."""
    table = f"{instance}/tables/{call.table}"
    made = REQUESTS[type(call)].pb()(table_name=table, app_profile_id=app_profile)
    match call:
        case ReadRows():
            made.rows_limit, made.reversed = call.limit or 0, call.reverse
            spell(call.filter, made.filter)
            if call.keys:
                made.rows.row_keys.extend(map(key, call.keys))
            else:
                spell_range(call.range, made.rows.row_ranges.add())
        case MutateRow(_, entry):
            made.row_key = key(entry.key)
            made.mutations.extend(map(mutation, entry.mutations))
        case MutateRows(_, entries):
            for entry in entries:
                made.entries.add(row_key=key(entry.key), mutations=map(mutation, entry.mutations))
        case CheckAndMutateRow():
            made.row_key = key(call.key)
            if call.predicate is not None:
                spell(call.predicate, made.predicate_filter)
            made.true_mutations.extend(map(mutation, call.matched))
            made.false_mutations.extend(map(mutation, call.unmatched))
        case ReadModifyWriteRow():
            made.row_key = key(call.key)
            for rule in call.rules:
                added = made.rules.add(family_name=rule.family, column_qualifier=rule.qualifier.encode())
                if isinstance(rule, Increment):
                    added.increment_amount = rule.by
                else:
                    added.append_value = rule.value
        case SampleRowKeys() | GenerateInitialChangeStreamPartitions():
            pass
        case ReadChangeStream():
            made.partition.row_range.CopyFrom(spelled_span(call.span))
            for token in call.begin.tokens:
                added = made.continuation_tokens.tokens.add(token=token.token)
                added.partition.row_range.CopyFrom(spelled_span(token.span))
            if not call.begin.tokens:
                made.start_time.FromMicroseconds(call.begin.at)
            made.heartbeat_duration.FromMilliseconds(1000)
        case _:
            assert_never(call)
    return made


def key(row_key: str) -> bytes:
    return row_key.encode("utf-8", "surrogateescape")


def spelled_span(wanted: Span) -> Any:
    return types.RowRange.pb()(start_key_closed=wanted.start, end_key_open=wanted.end)


def spell_range(wanted: RowRange, target: Any) -> None:
    if wanted.open:
        target.start_key_open = key(wanted.start)
    elif wanted.start:
        target.start_key_closed = key(wanted.start)
    if wanted.end is not None:
        target.end_key_open = key(wanted.end)


def mutation(wanted: Mutation) -> Any:
    made = types.Mutation.pb()()
    if isinstance(wanted, DeleteFamily):
        made.delete_from_family.family_name = wanted.family
    elif isinstance(wanted, DeleteColumn):
        gone = made.delete_from_column
        gone.family_name, gone.column_qualifier = wanted.family, wanted.qualifier.encode()
        if wanted.before is not None:
            gone.time_range.end_timestamp_micros = wanted.before
    elif isinstance(wanted, AddToCell):
        added = made.add_to_cell
        added.family_name, added.column_qualifier.raw_value = wanted.family, wanted.qualifier.encode()
        added.timestamp.raw_timestamp_micros, added.input.int_value = wanted.timestamp, wanted.by
    else:
        assert isinstance(wanted, SetCell)
        cell = made.set_cell
        cell.family_name, cell.column_qualifier = wanted.family, wanted.qualifier.encode()
        cell.timestamp_micros, cell.value = wanted.timestamp, wanted.value
    return made


def spell(wanted: Filter, target: Any) -> None:
    """Fill in the message of a filter."""
    match wanted:
        case Newest():
            target.cells_per_column_limit_filter = 1
        case Column(family, qualifier):
            columns = target.column_range_filter
            columns.family_name = family
            columns.start_qualifier_closed = columns.end_qualifier_closed = qualifier.encode()
        case ColumnRange(family, start, end):
            columns = target.column_range_filter
            columns.family_name, columns.start_qualifier_closed = family, start.encode()
            if end:
                columns.end_qualifier_open = end.encode()
        case Family(name):
            target.family_name_regex_filter = re.escape(name)
        case AnyFamily(names):
            target.family_name_regex_filter = "|".join(map(re.escape, names))
        case ValueIs(value):
            target.value_range_filter.start_value_closed = target.value_range_filter.end_value_closed = value
        case ValueRange():
            spell_values(wanted, target.value_range_filter)
        case ValueMatches(pattern):
            target.value_regex_filter = pattern
        case Before(micros):
            target.timestamp_range_filter.end_timestamp_micros = micros
        case First(cells):
            target.cells_per_row_limit_filter = cells
        case Behind(cells):
            target.cells_per_row_offset_filter = cells
        case Stripped():
            target.strip_value_transformer = True
        case Sampled(share):
            target.row_sample_filter = share
        case Nothing():
            target.block_all_filter = True
        case Chain() | Interleave() | Unless():
            spell_compound(wanted, target)
        case _:
            assert_never(wanted)


def spell_values(wanted: ValueRange, target: Any) -> None:
    if wanted.open:
        target.start_value_open = wanted.start
    else:
        target.start_value_closed = wanted.start
    if wanted.end is not None:
        target.end_value_open = wanted.end


def spell_compound(wanted: Chain | Interleave | Unless, target: Any) -> None:
    match wanted:
        case Chain(filters):
            for part in filters:
                spell(part, target.chain.filters.add())
        case Interleave(filters):
            for part in filters:
                spell(part, target.interleave.filters.add())
        case Unless(condition, otherwise):
            spell(condition, target.condition.predicate_filter)
            target.condition.true_filter.block_all_filter = True
            spell(otherwise, target.condition.false_filter)
