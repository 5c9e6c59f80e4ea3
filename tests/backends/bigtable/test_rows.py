import json
from pathlib import Path
from typing import Any

import pytest
from google.cloud.bigtable_v2 import types
from google.protobuf.json_format import ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st

from odm.backends.bigtable.client import read_rows as reading
from odm.backends.bigtable.client.native import Cell, Column, Read, ReadRows, Row
from odm.backends.bigtable.client.read_rows import RowMerger
from odm.backends.bigtable.client.wire import ReadRowsResponse
from odm.errors import BackendError
from tests.effort import times

CASES = Path(__file__).parents[4] / "shared" / "conformance" / "readrows.json"


def published() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(CASES.read_text())["readRowsTests"] if CASES.exists() else []
    return found


def vendor_response(*chunks: dict[str, Any], scanned: bytes = b"") -> Any:
    """Google's own message of chunks in the JSON of protobuf."""
    message = types.ReadRowsResponse.pb()(last_scanned_row_key=scanned)
    for chunk in chunks:
        ParseDict(chunk, message.chunks.add())
    return message


def response(*chunks: dict[str, Any], scanned: bytes = b"") -> bytes:
    """The same as a message of the stream."""
    return bytes(vendor_response(*chunks, scanned=scanned).SerializeToString())


def expected_cells(case: dict[str, Any]) -> list[tuple[bytes, str, bytes, bytes, int]]:
    """The cells of a published case: row key, family, qualifier, value, timestamp."""
    return [
        (
            result["rowKey"].encode(),
            result.get("familyName", ""),
            result.get("qualifier", "").encode(),
            result.get("value", "").encode(),
            int(result.get("timestampMicros", 0)),
        )
        for result in case.get("results", [])
        if not result.get("error")
    ]


def chunk(key: str = "", value: str = "", **more: Any) -> dict[str, Any]:
    """A chunk in the JSON of protobuf, whose bytes are base64; "QQ==" is A, "Qg==" B, "Qw==" C."""
    column = {"familyName": "d", "qualifier": "cQ=="} if key else {}
    return {"rowKey": key, "value": value, **column, **more}


A, B, C = "QQ==", "Qg==", "Qw=="
COMMIT: dict[str, Any] = {"commitRow": True}


def row(key: bytes, *values: bytes) -> Row:
    return Row(key, tuple(Cell("d", b"q", value) for value in values))


def merged(*responses: bytes, reverse: bool = False) -> Read:
    merger = RowMerger(ReadRows("t", reverse=reverse))
    for one in responses:
        merger.feed(one)
    return merger.finish()


def test_the_published_cases_are_all_there() -> None:
    if not CASES.exists():
        pytest.skip("the published acceptance cases are not next to this repository")
    assert len(published()) == 48


@pytest.mark.parametrize("case", published(), ids=lambda case: str(case["description"]))
@pytest.mark.parametrize("together", [True, False], ids=["one response", "a response a chunk"])
def test_published_case(case: dict[str, Any], together: bool) -> None:
    merger = RowMerger(ReadRows("t"))
    chunks = case.get("chunks", [])
    failed = False
    try:
        for one in [response(*chunks)] if together else [response(piece) for piece in chunks]:
            merger.feed(one)
        merger.finish()
    except BackendError:
        failed = True
    assert failed == any(result.get("error") for result in case.get("results", []))
    assert [(row.key, *cell) for row in merger.rows for cell in row.cells] == expected_cells(case)


def test_omitted_fields_repeat_the_previous_cell() -> None:
    read = merged(response(chunk(A, A), {"value": B}, {"value": C, **COMMIT}), response(chunk(B, A, **COMMIT)))
    assert read == Read((row(b"A", b"A", b"B", b"C"), row(b"B", b"A")), "B")


def test_a_value_is_split_over_responses() -> None:
    read = merged(response(chunk(A, A, valueSize=3)), response({"value": B, "valueSize": 3}, {"value": C, **COMMIT}))
    assert read.rows == (row(b"A", b"ABC"),)


def test_a_reset_row_starts_again() -> None:
    read = merged(response(chunk(A, A), {"value": B, "valueSize": 2}, {"resetRow": True}, chunk(A, C, **COMMIT)))
    assert read.rows == (row(b"A", b"C"),)


def test_a_reverse_read() -> None:
    read = merged(response(chunk(B, A, **COMMIT), chunk(A, A, **COMMIT)), reverse=True)
    assert [one.key for one in read.rows] == [b"B", b"A"]
    assert read.scanned == "A"


def test_the_position_moves_without_rows() -> None:
    assert merged(response(chunk(A, A, **COMMIT), scanned=b"K"), response(scanned=b"K")).scanned == "K"


def test_a_failure_keeps_whole_rows_and_drops_the_current_one() -> None:
    failure = ConnectionError()
    merger = RowMerger(ReadRows("t"))
    merger.feed(response(chunk(A, A, **COMMIT), chunk(B, A)))
    assert merger.finish(failure) == Read((row(b"A", b"A"),), "A", failure)


@pytest.mark.parametrize(
    ("responses", "reverse", "rule"),
    [
        ([response(chunk(B, A, **COMMIT), chunk(A, A, **COMMIT))], False, "out of order: the keys must be increasing"),
        ([response(chunk(A, A, **COMMIT), chunk(B, A, **COMMIT))], True, "out of order: the keys must be decreasing"),
        ([response(chunk(A, A, **COMMIT), scanned=b"K"), response(chunk(B, A, **COMMIT))], False, "out of order"),
        ([response(scanned=b"K"), response(scanned=b"A")], False, "moves back"),
        ([response(chunk(A, A), scanned=b"A")], False, "last_scanned_row_key inside a row"),
        ([response(chunk(A, A, valueSize=2), {**COMMIT, "valueSize": 1})], False, "inside a cell"),
        ([response(chunk(A, A, valueSize=2), chunk(A, A, **COMMIT))], False, "begins inside another"),
        ([response({"rowKey": A, "value": A, **COMMIT})], False, "has no column"),
        ([response({"resetRow": True})], False, "outside of a row"),
        ([response(chunk(A, A), {"resetRow": True, "value": B})], False, "a reset with data"),
        ([response(chunk(A, A), {"familyName": "e", "value": B, **COMMIT})], False, "without a qualifier"),
        ([response(chunk(A, A), chunk(B, A, **COMMIT))], False, "without a commit"),
        ([response(chunk(A, A))], False, "ends inside the row"),
        ([response({"value": A, **COMMIT})], False, "without a row key"),
    ],
)
def test_a_broken_rule_is_an_error(responses: list[bytes], reverse: bool, rule: str) -> None:
    with pytest.raises(BackendError, match=rule):
        merged(*responses, reverse=reverse)


def column_row(*names: bytes) -> bytes:
    """A message with one row, which has a cell in each of these columns."""
    message = types.ReadRowsResponse.pb()()
    for at, name in enumerate(names):
        added = message.chunks.add(row_key=b"" if at else b"A", commit_row=at == len(names) - 1)
        added.qualifier.value = name
        if not at:
            added.family_name.value = "d"
    return bytes(message.SerializeToString())


def test_responses_share_the_columns_of_their_rows() -> None:
    one, other = (merged(column_row(b"a", b"b")).rows[0].columns for _ in range(2))
    assert one is other


def test_the_shared_columns_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[Any, Any] = {}
    monkeypatch.setattr(reading, "_KNOWN", known)
    for number in range(3000):
        (read,) = merged(column_row(b"%d" % number)).rows
        assert read.columns == (Column("d", b"%d" % number),)
        assert len(known) <= 1024
    known.clear()
    large = merged(column_row(b"x" * 20_000)).rows[0].columns
    assert large == (Column("d", b"x" * 20_000),)
    assert not known


class Unusual(reading.Patterns):
    """Leaves every row to be parsed."""

    def row(self, chunks: list[bytes], at: int) -> Row | None:
        return None


def parsing() -> RowMerger:
    """A merger that parses every chunk."""
    merger = RowMerger(ReadRows("t"))
    merger._patterns = Unusual()
    return merger


NAMES = st.sampled_from([b"", b"_t", b"at", b"kwh", b"x" * 130])
MICROS = st.sampled_from([0, 5, 10**15, 10**15 + 1000, 1_764_036_000_123_000, 2**56, -1])
LONG = st.sampled_from([b"x" * 127, b"y" * 128, b"z" * 20_000])
CONTENT = st.binary(max_size=5) | st.sampled_from([b"", b"Order", b"H\1", b"2\0"]) | LONG
CHUNKS = st.fixed_dictionaries(
    {"family": st.sampled_from([None, None, "d", "c"]), "name": NAMES, "micros": MICROS, "value": CONTENT}
)
SETS = st.sampled_from(["ab", "abc", "b", "ac"])


@st.composite
def usual_rows_of(draw: st.DrawFn) -> list[bytes]:
    """The chunks of rows of few sets of columns, with few timestamps."""
    chunks, repeats, prefix = [], draw(st.booleans()), draw(st.sampled_from([b"row ", b"r" * 127, b"r" * 300]))
    for number in range(draw(st.integers(1, 5))):
        names, micros = draw(SETS), draw(MICROS)
        for at, name in enumerate(names):
            chunk = types.ReadRowsResponse.CellChunk.pb()(value=draw(CONTENT), timestamp_micros=micros)
            chunk.qualifier.value = name.encode()
            if draw(st.integers(0, 9)) == 0:
                chunk.timestamp_micros = draw(MICROS)
            if at == 0 or repeats:
                chunk.row_key = b"%b%d" % (prefix, number)
            if at == 0:
                chunk.family_name.value = "d"
            chunk.commit_row = at == len(names) - 1
            chunks.append(chunk.SerializeToString())
    return chunks


@st.composite
def any_rows(draw: st.DrawFn) -> list[bytes]:
    """Chunks of all kinds, in any order."""
    chunks = []
    for number in range(draw(st.integers(1, 6))):
        said = draw(CHUNKS)
        chunk = types.ReadRowsResponse.CellChunk.pb()(value=said["value"], timestamp_micros=said["micros"])
        if draw(st.integers(0, 3)):
            chunk.qualifier.value = said["name"]
        if said["family"]:
            chunk.family_name.value = said["family"]
        if draw(st.booleans()):
            chunk.row_key = b"k" * draw(st.sampled_from([1, 127, 128])) + b"%d" % number
        chunk.commit_row = draw(st.booleans())
        chunk.reset_row = draw(st.integers(0, 9)) == 0
        chunk.value_size = 3 if draw(st.integers(0, 9)) == 0 else 0
        chunks.append(chunk.SerializeToString())
    return chunks


@st.composite
def damaged(draw: st.DrawFn) -> list[bytes]:
    """Chunks with some bytes replaced, added or removed, which may still be messages, with other fields."""
    chunks = draw(usual_rows_of())
    for _ in range(draw(st.integers(1, 3))):
        which = draw(st.integers(0, len(chunks) - 1))
        chunk = chunks[which]
        start = draw(st.integers(0, min(len(chunk), 60)))
        end = start + draw(st.integers(0, 2))
        chunks[which] = chunk[:start] + draw(st.binary(max_size=2)) + chunk[end:]
    return chunks


def outcome(merger: RowMerger, messages: list[bytes]) -> Any:
    """The rows, with each error as True."""
    try:
        for message in messages:
            merger.feed(message)
        merger.finish()
    except BackendError:
        return merger.rows, True
    return merger.rows, False


@settings(max_examples=times(300, 1000), deadline=None)
@given(usual_rows_of() | any_rows() | damaged(), st.integers(1, 20))
def test_usual_rows_are_what_parsing_finds(chunks: list[bytes], together: int) -> None:
    messages = [
        ReadRowsResponse(chunks=chunks[at : at + together]).SerializeToString()
        for at in range(0, len(chunks), together)
    ]
    assert outcome(RowMerger(ReadRows("t")), messages) == outcome(parsing(), messages)


def test_usual_rows_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(RowMerger, "_take", lambda *fields: taken.append(fields))
    message = types.ReadRowsResponse.pb()()
    for number in range(10):
        for at, name in enumerate([b"_t", b"at", b"~r"][: 2 + number % 2]):
            micros = 1_764_036_000_123_000 + number // 4 + (at == 1 and number % 3 == 0)
            chunk = message.chunks.add(value=b"x" * 100 * number or b"0", timestamp_micros=micros)
            chunk.qualifier.value = name
            if at == 0:
                chunk.row_key, chunk.family_name.value = b"%d" % number, "d"
        message.chunks[-1].commit_row = True
    read = merged(message.SerializeToString())
    assert len(read.rows) == 10
    assert not taken


@pytest.mark.parametrize("message", [b"\xff", b"\x0a\x02\x0a\x09"])
def test_a_message_that_cannot_be_parsed(message: bytes) -> None:
    with pytest.raises(BackendError, match="cannot be parsed"):
        merged(message)
