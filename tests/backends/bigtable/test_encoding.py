"""What is encoded by hand is what Google's message classes make of the same requests."""

from typing import Any

import pytest
from google.cloud.bigtable_v2 import types
from hypothesis import given
from hypothesis import strategies as st

from odm.backends.bigtable.client import filters
from odm.backends.bigtable.client.encoding import filter_of, mutations_of, varint
from odm.backends.bigtable.client.filters import Chain, Filter, Unless
from odm.backends.bigtable.client.native import (
    SERVER_TIME,
    AddToCell,
    AppendValue,
    Begin,
    CheckAndMutateRow,
    DataCall,
    DeleteColumn,
    DeleteFamily,
    Entry,
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
    Token,
)
from odm.backends.bigtable.client.wire import Wire
from tests.backends.bigtable import spelled

SHORT = st.text(max_size=5)
TIMES = st.sampled_from([SERVER_TIME, 0, 1, 127, 128, 1000, 1_700_000_000_000_000, 2**63 - 1])
BYTES = st.binary(max_size=5) | st.integers(0, 300).map(bytes) | st.sampled_from([16_383, 16_384, 70_000]).map(bytes)
FEW = st.integers(0, 300)
MUTATIONS = st.one_of(
    st.builds(DeleteFamily, SHORT),
    st.builds(DeleteColumn, SHORT, SHORT, st.none() | st.sampled_from([1, 2**40])),
    st.builds(SetCell, SHORT, BYTES, TIMES, SHORT),
    st.builds(AddToCell, SHORT, st.integers(-(2**63), 2**63 - 1), SHORT, TIMES),
)
SIMPLE: st.SearchStrategy[Filter] = st.one_of(
    st.builds(filters.Newest),
    st.builds(filters.Column, SHORT, SHORT),
    st.builds(filters.ColumnRange, SHORT, SHORT, SHORT),
    st.builds(filters.Family, SHORT),
    st.builds(filters.AnyFamily, st.lists(SHORT, max_size=3).map(tuple)),
    st.builds(filters.ValueRange, BYTES, st.none() | BYTES, st.booleans()),
    st.builds(filters.ValueIs, BYTES),
    st.builds(filters.ValueMatches, BYTES),
    st.builds(filters.Before, TIMES),
    st.builds(filters.First, FEW),
    st.builds(filters.Behind, FEW),
    st.builds(filters.Stripped),
    st.builds(filters.Nothing),
)


def compound(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(Chain, several), st.builds(filters.Interleave, several), st.builds(Unless, parts, parts))


FILTERS = st.recursive(SIMPLE, compound, max_leaves=5)
KEYS = SHORT | st.just("a\udcff") | st.just("k" * 200)
ROWS = st.lists(MUTATIONS, max_size=3).map(tuple)
ENTRIES = st.builds(Entry, KEYS, ROWS)
RANGES = st.builds(RowRange, KEYS, st.none() | KEYS, st.booleans())
RULES = st.builds(Increment, SHORT, st.integers(-(2**63), 2**63 - 1)) | st.builds(AppendValue, SHORT, BYTES, SHORT)
SPANS = st.builds(Span, BYTES, BYTES)
TOKENS = st.lists(st.builds(Token, SPANS, SHORT), max_size=3).map(tuple)
BEGINS = st.builds(Begin, TOKENS, st.integers(0, 2**50))
CALLS: st.SearchStrategy[DataCall] = st.one_of(
    st.builds(ReadRows, SHORT, st.lists(KEYS, max_size=3).map(tuple), RANGES, st.none() | FEW, st.booleans(), FILTERS),
    st.builds(MutateRow, SHORT, ENTRIES),
    st.builds(MutateRows, SHORT, st.lists(ENTRIES, max_size=3).map(tuple)),
    st.builds(CheckAndMutateRow, SHORT, KEYS, st.none() | FILTERS, ROWS, ROWS),
    st.builds(ReadModifyWriteRow, SHORT, KEYS, st.lists(RULES, max_size=3).map(tuple)),
    st.builds(SampleRowKeys, SHORT),
    st.builds(GenerateInitialChangeStreamPartitions, SHORT),
    st.builds(ReadChangeStream, SHORT, SPANS, BEGINS, st.integers(0, 9)),
)
INSTANCE = "projects/p/instances/i"


def parsed(call: DataCall, encoded: bytes) -> Any:
    return spelled.REQUESTS[type(call)].pb().FromString(encoded)


@given(CALLS, st.sampled_from(["", "one"]))
def test_requests(call: DataCall, app_profile: str) -> None:
    message = Wire(INSTANCE, app_profile).message(call)
    assert parsed(call, message.request) == spelled.request(call, INSTANCE, app_profile)
    assert (message.service, message.method) == ("data", type(call).__name__)


@given(FILTERS)
def test_a_filter_is_encoded_once(wanted: Filter) -> None:
    expected = types.RowFilter.pb()()
    spelled.spell(wanted, expected)
    encoded = filter_of(wanted)
    assert types.RowFilter.pb().FromString(encoded) == expected
    assert filter_of(wanted) == encoded
    if isinstance(wanted, Chain | filters.Interleave | Unless):
        assert filter_of(wanted) is encoded


def test_a_kept_message_is_no_part_of_a_filter() -> None:
    one, other = (Chain((filters.Newest(), filters.First(2))) for _ in range(2))
    filter_of(one)
    assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))


@given(st.lists(MUTATIONS, max_size=4).map(tuple), st.sampled_from([2, 3]))
def test_mutations(mutations: tuple[Mutation, ...], number: int) -> None:
    encoded = mutations_of(number, mutations)
    if number == 3:
        message = types.MutateRowRequest.pb().FromString(encoded)
    else:
        message = types.MutateRowsRequest.Entry.pb().FromString(encoded)
    assert list(message.mutations) == list(map(spelled.mutation, mutations))


@pytest.mark.parametrize("length", range(80, 140))
def test_cells_around_the_longest_length_of_one_byte(length: int) -> None:
    mutations = (SetCell("q", bytes(length), 1_700_000_000_000_000), SetCell("q", b"1", 5))
    message = types.MutateRowRequest.pb().FromString(mutations_of(3, mutations))
    assert list(message.mutations) == list(map(spelled.mutation, mutations))


@pytest.mark.parametrize(
    ("number", "wire"),
    [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (150, b"\x96\1"), (-1, b"\xff" * 9 + b"\1")],
)
def test_varints(number: int, wire: bytes) -> None:
    """150 is the example of protobuf's own documentation."""
    assert varint(number) == wire
