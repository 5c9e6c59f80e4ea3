"""Rows, cells and messages of reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.cloud.bigtable.data import BigtableDataClient, ReadRowsQuery, SetCell

from odm.backends.bigtable.emulator import Emulator
from tests.backends.bigtable.emulator.raw import INSTANCE, Raw, rows_of, set_cell

CASES = Path(__file__).parents[5] / "shared" / "conformance" / "readrows.json"


def write(raw: Raw, table: str, *keys: bytes, value: bytes = b"1") -> None:
    for key in keys:
        raw.call("MutateRow", table_name=table, row_key=key, mutations=[set_cell("d", b"a", value)])


def keys(raw: Raw, table: str, **request: Any) -> list[bytes]:
    return [key for key, _ in raw.rows(table, **request)]


def test_keys_and_ranges_are_sorted_and_each_row_comes_once(raw: Raw, table: str) -> None:
    write(raw, table, b"a", b"b", b"b\0", b"c", b"d")
    ranges = [{"start_key_open": b"b", "end_key_closed": b"c"}, {"start_key_closed": b"b", "end_key_open": b"b\0"}]
    rows = {"row_keys": [b"d", b"a", b"c", b"x", b"d"], "row_ranges": ranges}
    assert keys(raw, table, rows=rows) == [b"a", b"b", b"b\0", b"c", b"d"]
    assert keys(raw, table, rows=rows, reversed=True) == [b"d", b"c", b"b\0", b"b", b"a"]
    assert keys(raw, table, rows=rows, reversed=True, rows_limit=2) == [b"d", b"c"]
    assert keys(raw, table, rows={"row_ranges": [{"end_key_open": b"b"}, {"start_key_closed": b"d"}]}) == [b"a", b"d"]


def test_many_rows_come_in_few_messages_and_in_order(raw: Raw, table: str) -> None:
    names = [b"%04d" % number for number in range(1000)]
    entries = [{"row_key": name, "mutations": [set_cell("d", b"a", name)]} for name in names]
    raw.call("MutateRows", table_name=table, entries=entries)
    answers = raw.call("ReadRows", table_name=table)
    assert len(answers) == 10
    assert [key for key, _ in rows_of(answers)] == names
    assert keys(raw, table, reversed=True) == names[::-1]
    assert keys(raw, table, rows_limit=150) == names[:150]


def test_a_long_value_comes_in_parts(raw: Raw, table: str) -> None:
    value = bytes(range(256)) * 20_000
    write(raw, table, b"a", b"b", value=value)
    answers = raw.call("ReadRows", table_name=table)
    assert max(one.ByteSize() for one in answers) < 2**22
    assert [cells for _, cells in rows_of(answers)] == [[("d", b"a", 1000, value, ())]] * 2


def test_rows_without_cells_are_reported_to_clients_that_ask_for_it(raw: Raw, table: str) -> None:
    write(raw, table, b"a", b"b", b"c")
    wanted = {"row_key_regex_filter": b"a"}
    answers = raw.call("ReadRows", table_name=table, filter=wanted)
    assert [one.last_scanned_row_key for one in answers] == [b"", b"c"]
    (answer,) = raw.call("ReadRows", (), table_name=table, filter=wanted)
    assert not answer.last_scanned_row_key


def test_statistics(raw: Raw, table: str) -> None:
    write(raw, table, b"a", b"b")
    *_, last = raw.call("ReadRows", table_name=table, request_stats_view=2, filter={"row_key_regex_filter": b"a"})
    stats = last.request_stats.full_read_stats_view.read_iteration_stats
    assert (stats.rows_seen_count, stats.rows_returned_count) == (2, 1)
    assert (stats.cells_seen_count, stats.cells_returned_count) == (2, 1)


def test_sinks_labels_and_bits(raw: Raw, table: str) -> None:
    cells = [set_cell("d", b"a", b"\5"), set_cell("d", b"b", b"\2"), set_cell("d", b"c", b"\5\5")]
    raw.call("MutateRow", table_name=table, row_key=b"k", mutations=cells)
    assert [one[1] for one in _cells(raw, table, {"value_bitmask_filter": {"mask": b"\4"}})] == [b"a"]
    labelled = {"chain": {"filters": [{"column_qualifier_regex_filter": b"a"}, {"apply_label_transformer": "x"}]}}
    assert _cells(raw, table, labelled) == [("d", b"a", 1000, b"\5", ("x",))]
    sunk = {"chain": {"filters": [{"column_qualifier_regex_filter": b"b"}, {"sink": True}]}}
    only = {"chain": {"filters": [{"interleave": {"filters": [labelled, sunk]}}, {"strip_value_transformer": True}]}}
    assert _cells(raw, table, only) == [("d", b"a", 1000, b"", ("x",)), ("d", b"b", 1000, b"\2", ())]


def test_many_versions_of_a_cell(raw: Raw, table: str) -> None:
    """In any order, one of them twice."""
    stamps = [number * 7919 % 20_000 * 1000 for number in range(20_000)]
    cells = [set_cell("d", b"a", b"%d" % at, at) for at in (*stamps, 5000)]
    raw.call("MutateRow", table_name=table, row_key=b"k", mutations=cells)
    found = _cells(raw, table)
    assert [cell[2] for cell in found] == sorted(stamps, reverse=True)


def test_samples_of_rows(raw: Raw, table: str) -> None:
    write(raw, table, *(b"%03d" % number for number in range(200)))
    found = keys(raw, table, filter={"row_sample_filter": 0.3})
    assert 30 < len(found) < 90


def test_aggregates(raw: Raw, table: str) -> None:
    def add(family: str, value: int) -> dict[str, Any]:
        place = {"family_name": family, "column_qualifier": {"raw_value": b"n"}}
        return {"add_to_cell": place | {"timestamp": {"raw_timestamp_micros": 0}, "input": {"int_value": value}}}

    added = [add(family, value) for family in ("sum", "least", "most") for value in (5, -3, 9, 4)]
    raw.call("MutateRow", table_name=table, row_key=b"k", mutations=added)
    found = {family: int.from_bytes(value, "big", signed=True) for family, _, _, value, _ in _cells(raw, table)}
    assert found == {"sum": 15, "least": -3, "most": 9}


def test_keys_to_divide_a_table(raw: Raw) -> None:
    table = raw.create("split", "d")
    made = raw.call("CreateTable", parent=INSTANCE, table_id="s", initial_splits=[{"key": b"m"}]).name
    write(raw, table, *(b"%03d" % number for number in range(250)))
    sampled = raw.call("SampleRowKeys", table_name=table)
    assert [one.row_key for one in sampled] == [b"099", b"199", b""]
    assert [one.row_key for one in raw.call("SampleRowKeys", table_name=made)] == [b"m", b""]
    for start, end, found in ((b"a", b"z", [b"m", b"z"]), (b"m", b"z", [b"z"]), (b"a", b"m", [b"m"])):
        span = {"start_key_closed": start, "end_key_open": end}
        assert [one.row_key for one in raw.call("SampleRowKeys", table_name=made, row_range=span)] == found
    span = {"start_key_closed": b"q", "end_key_open": b"q"}
    assert [one.row_key for one in raw.call("SampleRowKeys", table_name=made, row_range=span)] == [b"q"]
    both = raw.call("CreateTable", parent=INSTANCE, table_id="b", initial_splits=[{"key": b"099"}]).name
    raw.family(both, "d")
    write(raw, both, *(b"%03d" % number for number in range(150)))
    assert [one.row_key for one in raw.call("SampleRowKeys", table_name=both)] == [b"099", b""]
    span = {"start_key_closed": b"100"}
    assert [one.row_key for one in raw.call("SampleRowKeys", table_name=table, row_range=span)] == [b"199", b""]


def _cells(raw: Raw, table: str, wanted: Any = None) -> list[Any]:
    ((_, cells),) = raw.rows(table, **({} if wanted is None else {"filter": wanted}))
    return cells


def cell(key: str, column: str, micros: int = 0, value: str = "") -> dict[str, str]:
    """A result in the form of the published cases."""
    family, _, qualifier = column.partition(":")
    return {
        "rowKey": key,
        "familyName": family,
        "qualifier": qualifier,
        "timestampMicros": str(micros),
        "value": value,
    }


CELLS = {
    "versions of a cell": [cell("r", "x:q", 7, "new"), cell("r", "x:q", 3, "old"), cell("r", "x:q", 0, "first")],
    "an empty qualifier and an empty value": [cell("r", "x:", 1), cell("r", "x:q", 1, "v")],
    "the same column in two families": [cell("r", "x:q", 1, "of x"), cell("r", "y:q", 1, "of y")],
    "two rows that begin alike": [cell("r", "x:q", 1, "v"), cell("r1", "x:q", 1, "v"), cell("r1", "y:p", 2, "w")],
}


def _results() -> list[Any]:
    """Some results of reads, and those of the published cases of ReadRows that return rows, where these are."""
    cases = json.loads(CASES.read_text())["readRowsTests"] if CASES.exists() else []
    published = {
        case["description"]: case["results"]
        for case in cases
        if case.get("results") and not any(one.get("error") for one in case["results"])
    }
    return [pytest.param(results, id=name) for name, results in (CELLS | published).items()]


@pytest.mark.parametrize("results", _results())
def test_results_are_read_by_googles_client(
    running: Emulator, raw: Raw, results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a case, written and read; labels are not written."""
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", running.address)
    raw.create("published", *sorted({one["familyName"] for one in results}), granularity="MICROS")
    expected = [
        (
            one["rowKey"].encode(),
            one["familyName"],
            one.get("qualifier", "").encode(),
            int(one.get("timestampMicros", 0)),
            one.get("value", "").encode(),
        )
        for one in results
    ]
    with BigtableDataClient(project="p") as client:
        table = client.get_table("i", "published")
        for key, family, qualifier, stamp, value in expected:
            table.mutate_row(key, SetCell(family, qualifier, value, stamp))
        found = [
            (row.row_key, cell.family, cell.qualifier, cell.timestamp_micros, cell.value)
            for row in table.read_rows(ReadRowsQuery())
            for cell in row
        ]
    assert found == sorted({one[:4]: one for one in expected}.values(), key=lambda one: (*one[:3], -one[3]))
