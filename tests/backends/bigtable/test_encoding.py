"""Google's messages read what the hand-written encoding writes."""

from typing import Any

import pytest
from google.cloud.bigtable_v2 import types
from hypothesis import given
from hypothesis import strategies as st

from odm.backends.bigtable.encoding import mutations_of, varint
from odm.backends.bigtable.native import (
    SERVER_TIME,
    CheckAndMutateRow,
    DeleteColumn,
    DeleteFamily,
    Entry,
    MutateRow,
    MutateRows,
    Mutation,
    SetCell,
)
from odm.backends.bigtable.wire import Wire

SHORT = st.text(max_size=5)
TIMES = st.sampled_from([SERVER_TIME, 0, 1, 127, 128, 1000, 1_700_000_000_000_000, 2**63 - 1])
BYTES = st.binary(max_size=5) | st.integers(0, 300).map(bytes) | st.sampled_from([16_383, 16_384, 70_000]).map(bytes)
MUTATIONS = st.one_of(
    st.builds(DeleteFamily, SHORT),
    st.builds(DeleteColumn, SHORT, SHORT, st.none() | st.sampled_from([1, 2**40])),
    st.builds(SetCell, SHORT, BYTES, TIMES, SHORT),
)
WIRE = Wire("projects/p/instances/i", "one")


def read(mutation: Any) -> Mutation:
    """A mutation, from Google's message."""
    which = mutation.WhichOneof("mutation")
    if which == "delete_from_family":
        return DeleteFamily(mutation.delete_from_family.family_name)
    if which == "delete_from_column":
        column = mutation.delete_from_column
        before = column.time_range.end_timestamp_micros if column.HasField("time_range") else None
        return DeleteColumn(column.column_qualifier.decode(), column.family_name, before)
    assert which == "set_cell"
    cell = mutation.set_cell
    return SetCell(cell.column_qualifier.decode(), cell.value, cell.timestamp_micros, cell.family_name)


@given(st.lists(MUTATIONS, max_size=4).map(tuple))
def test_mutations(mutations: tuple[Mutation, ...]) -> None:
    message = types.MutateRowRequest.pb().FromString(mutations_of(3, mutations))
    assert tuple(map(read, message.mutations)) == mutations
    assert message == types.MutateRowRequest.pb()(mutations=message.mutations)


@pytest.mark.parametrize("length", range(80, 140))
def test_cells_around_the_longest_length_of_one_byte(length: int) -> None:
    mutations = (SetCell("q", bytes(length), 1_700_000_000_000_000), SetCell("q", b"1", 5))
    message = types.MutateRowRequest.pb().FromString(mutations_of(3, mutations))
    assert tuple(map(read, message.mutations)) == mutations


@given(st.lists(st.builds(Entry, SHORT, st.lists(MUTATIONS, max_size=3).map(tuple)), max_size=3).map(tuple))
def test_entries(entries: tuple[Entry, ...]) -> None:
    request = WIRE.message(MutateRows("t", entries)).request
    assert tuple(Entry(one.row_key.decode(), tuple(map(read, one.mutations))) for one in request.entries) == entries
    assert (request.table_name, request.app_profile_id) == ("projects/p/instances/i/tables/t", "one")


@given(MUTATIONS, MUTATIONS)
def test_requests_of_one_row(first: Mutation, second: Mutation) -> None:
    request = WIRE.message(MutateRow("t", Entry("k", (first, second)))).request
    assert (request.row_key, *map(read, request.mutations)) == (b"k", first, second)
    request = WIRE.message(CheckAndMutateRow("t", "k", None, (first,), (second,))).request
    assert (request.row_key, *map(read, [*request.true_mutations, *request.false_mutations])) == (b"k", first, second)


@pytest.mark.parametrize(
    ("number", "wire"),
    [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (150, b"\x96\1"), (-1, b"\xff" * 9 + b"\1")],
)
def test_varints(number: int, wire: bytes) -> None:
    """150 is the example of protobuf's own documentation."""
    assert varint(number) == wire
