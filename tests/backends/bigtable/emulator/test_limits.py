"""What production refuses is refused, with the status of production where it is known, and nothing is applied."""

from typing import Any

import grpc
import pytest

from odm.backends.bigtable.emulator import limits
from tests.backends.bigtable.emulator.raw import INSTANCE, Raw, set_cell

INVALID, MISSING = "INVALID_ARGUMENT", "NOT_FOUND"
STRIP = {"strip_value_transformer": True}
SINK = {"sink": True}
LABEL = {"apply_label_transformer": "a"}


def deep(depth: int) -> dict[str, Any]:
    """A filter of this depth."""
    return STRIP if depth == 1 else {"chain": {"filters": [deep(depth - 1), STRIP]}}


def added(family: str, kind: str = "add_to_cell", at: int = 1000, **value: Any) -> dict[str, Any]:
    place = {"family_name": family, "column_qualifier": {"raw_value": b"n"}}
    return {kind: place | {"timestamp": {"raw_timestamp_micros": at}, "input": value or {"int_value": 1}}}


def deleted(start: int, end: int) -> dict[str, Any]:
    span = {"start_timestamp_micros": start, "end_timestamp_micros": end}
    return {"delete_from_column": {"family_name": "d", "column_qualifier": b"a", "time_range": span}}


MUTATIONS: dict[str, tuple[list[Any], str]] = {
    "none": ([], INVALID),
    "too many": ([{"delete_from_row": {}}] * 101, INVALID),
    "empty": ([{}], INVALID),
    "unknown family": ([set_cell("x", b"a", b"")], MISSING),
    "unknown family to delete": ([{"delete_from_family": {"family_name": "x"}}], MISSING),
    "microseconds": ([set_cell("d", b"a", b"", 1)], INVALID),
    "before 1970": ([set_cell("d", b"a", b"", -1000)], INVALID),
    "long qualifier": ([set_cell("d", b"a" * 16_385, b"")], INVALID),
    "large cell": ([set_cell("d", b"a", bytes(100 * 2**20 + 1))], INVALID),
    "set in an aggregate": ([set_cell("sum", b"a", b"\0" * 8)], INVALID),
    "add to plain bytes": ([added("d")], INVALID),
    "add bytes": ([added("sum", raw_value=b"\0" * 8)], INVALID),
    "merge a number": ([added("sum", "merge_to_cell")], INVALID),
    "merge few bytes": ([added("sum", "merge_to_cell", raw_value=b"\0")], INVALID),
    "add in microseconds": ([added("sum", at=1)], INVALID),
    "a sketch": ([added("sketch", raw_value=b"x")], "UNIMPLEMENTED"),
    "deleted range in microseconds": ([deleted(1, 2000)], INVALID),
    "inverted range": ([deleted(2000, 1000)], INVALID),
}

FILTERS: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({}, INVALID),
    "large": ({"value_regex_filter": b"a" * 20_481}, INVALID),
    "deep": (deep(21), INVALID),
    "chain of one": ({"chain": {"filters": [STRIP]}}, INVALID),
    "interleave of one": ({"interleave": {"filters": [STRIP]}}, INVALID),
    "condition without predicate": ({"condition": {"true_filter": STRIP}}, INVALID),
    "sink in a condition": ({"condition": {"predicate_filter": STRIP, "true_filter": SINK}}, INVALID),
    "false flag": ({"pass_all_filter": False}, INVALID),
    "broken expression": ({"value_regex_filter": b"("}, INVALID),
    "expression that RE2 lacks": ({"value_regex_filter": b"(?=a)"}, INVALID),
    "repeated too often": ({"value_regex_filter": b"a{1001}"}, INVALID),
    "no cells": ({"cells_per_column_limit_filter": 0}, INVALID),
    "no cells of a row": ({"cells_per_row_limit_filter": 0}, INVALID),
    "negative offset": ({"cells_per_row_offset_filter": -1}, INVALID),
    "sample of all": ({"row_sample_filter": 1.0}, INVALID),
    "range without family": ({"column_range_filter": {}}, INVALID),
    "inverted range": ({"value_range_filter": {"start_value_closed": b"b", "end_value_open": b"a"}}, INVALID),
    "microseconds": ({"timestamp_range_filter": {"start_timestamp_micros": 1}}, INVALID),
    "negative time": ({"timestamp_range_filter": {"end_timestamp_micros": -1000}}, INVALID),
    "long label": ({"apply_label_transformer": "a" * 16}, INVALID),
    "two labels": ({"chain": {"filters": [{"apply_label_transformer": "a"}] * 2}}, INVALID),
    "two labels, one in a predicate": (
        {"chain": {"filters": [LABEL, {"condition": {"predicate_filter": LABEL}}]}},
        INVALID,
    ),
    "unknown family": ({"family_name_regex_filter": "x"}, MISSING),
    "range of unknown family": ({"column_range_filter": {"family_name": "x"}}, MISSING),
}

READS: dict[str, tuple[dict[str, Any], str]] = {
    "missing table": ({"table_name": f"{INSTANCE}/tables/missing"}, MISSING),
    "negative limit": ({"rows_limit": -1}, INVALID),
    "empty key": ({"rows": {"row_keys": [b""]}}, INVALID),
    "long key": ({"rows": {"row_keys": [b"a" * 4097]}}, INVALID),
    "inverted keys": ({"rows": {"row_ranges": [{"start_key_closed": b"b", "end_key_open": b"a"}]}}, INVALID),
    "large request": ({"rows": {"row_keys": [b"%07d" % n for n in range(60_000)]}}, INVALID),
    "view": ({"authorized_view_name": "v"}, "UNIMPLEMENTED"),
    "only a view": ({"table_name": "", "materialized_view_name": "v"}, "UNIMPLEMENTED"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation(raw: Raw, table: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the mutations is applied, nor are those before it; the other entries of a batch are."""
    monkeypatch.setattr("odm.backends.bigtable.emulator.limits.MUTATIONS", 100)
    mutations, code = MUTATIONS[name]
    first = [set_cell("d", b"first", b"1")] if mutations else []
    request = {"row_key": b"k", "mutations": [*first, *mutations]}
    assert raw.code("MutateRow", table_name=table, **request) == code
    if mutations:
        branch = {"row_key": b"k", "false_mutations": [*first, *mutations]}
        assert raw.code("CheckAndMutateRow", table_name=table, **branch) == code
    assert raw.rows(table) == []
    if 0 < len(mutations) < 100 and name != "large cell":
        good = {"row_key": b"good", "mutations": [set_cell("d", b"a", b"1")]}
        (answer,) = raw.call("MutateRows", table_name=table, entries=[request, good])
        assert [bool(one.status.code) for one in answer.entries] == [True, False]
        assert [key for key, _ in raw.rows(table)] == [b"good"]


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter(raw: Raw, table: str, name: str) -> None:
    """Although the table is empty."""
    wanted, code = FILTERS[name]
    assert raw.code("ReadRows", table_name=table, filter=wanted) == code
    branch = {"row_key": b"k", "false_mutations": [set_cell("d", b"a", b"1")]}
    assert raw.code("CheckAndMutateRow", table_name=table, predicate_filter=wanted, **branch) == code
    assert raw.rows(table) == []


FAR = {"seconds": 2**62}
WHOLE = {"row_range": {"start_key_closed": b"", "end_key_open": b""}}
STREAMS: dict[str, dict[str, Any]] = {
    "empty partition": {"partition": {"row_range": {"start_key_closed": b"a", "end_key_open": b"a"}}},
    "no tokens": {"partition": WHOLE, "continuation_tokens": {"tokens": []}},
    "wrong token": {"partition": WHOLE, "continuation_tokens": {"tokens": [{"partition": WHOLE, "token": "1" * 5000}]}},
    "far start": {"partition": WHOLE, "start_time": FAR},
    "far end": {"partition": WHOLE, "end_time": FAR},
    "strange nanoseconds": {"partition": WHOLE, "start_time": {"nanos": -5}},
    "start in the future": {"partition": WHOLE, "start_time": {"seconds": 250_000_000_000}},
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream(raw: Raw, name: str) -> None:
    settings = {"change_stream_config": {"retention_period": {"seconds": 86_400}}}
    table = raw.create("streams", "d", **settings)
    assert raw.code("ReadChangeStream", table_name=table, **STREAMS[name]) == INVALID


@pytest.mark.parametrize("features", ["////", "CP8=", "!", ""])
def test_features_that_cannot_be_read_are_ignored(raw: Raw, table: str, features: str) -> None:
    assert raw.code("ReadRows", metadata=(("bigtable-features", features),), table_name=table) == "OK"


def test_a_long_message_is_cut(raw: Raw, table: str) -> None:
    """A client takes one that is too long for throttling."""
    assert raw.code("ReadRows", table_name=table, filter={"value_regex_filter": b"(" * 18_000}) == INVALID
    assert raw.code("ReadRows", table_name=table, filter={"value_regex_filter": b"\xff("}) == INVALID


def test_only_fields_of_the_mask_are_checked(raw: Raw, table: str) -> None:
    schema = {"row_key_schema": {"fields": [ONE], "encoding": DELIMITED}}
    raw.call("UpdateTable", table={"name": table, **schema}, update_mask={"paths": ["row_key_schema"]})
    found = raw.call("GetTable", name=table)
    found.deletion_protection = True
    assert raw.code("UpdateTable", table=found, update_mask={"paths": ["deletion_protection"]}) == "OK"
    family = [{"id": "one", "create": {}}]
    assert raw.code("ModifyColumnFamilies", name=table, modifications=family) == INVALID


@pytest.mark.parametrize("name", READS)
def test_a_read(raw: Raw, table: str, name: str) -> None:
    request, code = READS[name]
    assert raw.code("ReadRows", **{"table_name": table, **request}) == code


def test_what_just_fits(raw: Raw, table: str) -> None:
    assert limits.MUTATIONS == 100_000
    cells = [set_cell("d", b"q" * 16_384, b"v" * 2**20), set_cell("d", b"", b"", 9_000_000_000_000_000_000)]
    raw.call("MutateRow", table_name=table, row_key=b"k" * 4096, mutations=cells)
    many = [set_cell("e", b"%d" % number, b"") for number in range(2000)]
    raw.call("MutateRow", table_name=table, row_key=b"many", mutations=many)
    rows = dict(raw.rows(table, filter=deep(20)))
    assert [len(cells) for cells in rows.values()] == [2, 2000]


def test_keys_and_rules_of_writes(raw: Raw, table: str) -> None:
    cell = [set_cell("d", b"a", b"1")]
    for key in (b"", b"k" * 4097):
        assert raw.code("MutateRow", table_name=table, row_key=key, mutations=cell) == INVALID
        assert raw.code("CheckAndMutateRow", table_name=table, row_key=key, true_mutations=cell) == INVALID
    assert raw.code("CheckAndMutateRow", table_name=table, row_key=b"k") == INVALID
    raw.call("MutateRow", table_name=table, row_key=b"k", mutations=cell)
    place = {"family_name": "d", "column_qualifier": b"a"}
    other = {"family_name": "d", "column_qualifier": b"b", "append_value": b"x"}
    for rules in ([], [other, place | {"increment_amount": 1}], [{**other, "family_name": "sum"}], [place]):
        assert raw.code("ReadModifyWriteRow", table_name=table, row_key=b"k", rules=rules) == INVALID
    assert raw.rows(table) == [(b"k", [("d", b"a", 1000, b"1", ())])]


def test_a_reverse_scan_needs_the_feature(raw: Raw, table: str) -> None:
    assert raw.code("ReadRows", table_name=table, reversed=True) == "OK"
    assert raw.code("ReadRows", metadata=(), table_name=table, reversed=True) == "UNIMPLEMENTED"


def test_a_row_that_is_too_large_to_read(raw: Raw, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows before it are returned."""
    monkeypatch.setattr("odm.backends.bigtable.emulator.limits.ROW", 1000)
    for key, size in ((b"a", 1), (b"k", 1001)):
        raw.call("MutateRow", table_name=table, row_key=key, mutations=[set_cell("d", b"a", b"1" * size)])
    found = list[Any]()
    with pytest.raises(grpc.RpcError) as refused:
        found.extend(raw.start("ReadRows", table_name=table))
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert [chunk.row_key for one in found for chunk in one.chunks] == [b"a"]
    assert len(raw.rows(table, filter=STRIP)) == 2


def test_tables_and_families(raw: Raw, table: str) -> None:
    for name in ("", "a" * 51, "-a", "a/b"):
        assert raw.code("CreateTable", parent=INSTANCE, table_id=name) == INVALID
    assert raw.code("CreateTable", parent="", table_id="a") == INVALID
    assert raw.code("CreateTable", parent=INSTANCE, table_id="a", table={"granularity": 99}) == INVALID
    assert raw.code("ListTables", parent=INSTANCE, page_size=-1) == INVALID
    assert raw.code("CreateTable", parent=INSTANCE, table_id="a", table={"column_families": {"a b": {}}}) == INVALID
    modify = "ModifyColumnFamilies"
    for changes, code in (
        ([{"id": "n", "create": {}}, {"id": "d", "create": {}}], "ALREADY_EXISTS"),
        ([{"id": "n", "create": {}}, {"id": "x", "drop": True}], MISSING),
        ([{"id": "n", "create": {}}, {"id": "x", "update": {}}], MISSING),
        ([{"id": "n", "create": {}}, {"id": "d"}], INVALID),
        ([{"id": "n", "create": {"gc_rule": {"max_num_versions": -1}}}], INVALID),
        ([{"id": "d", "update": {}, "update_mask": {"paths": ["x"]}}], INVALID),
    ):
        assert raw.code(modify, name=table, modifications=changes) == code
    assert "n" not in raw.call("GetTable", name=table).column_families
    change = {"id": "sum", "update": {"value_type": {"string_type": {}}}, "update_mask": {"paths": ["value_type"]}}
    assert raw.code(modify, name=table, modifications=[change]) == INVALID


DELIMITED = {"delimited_bytes": {"delimiter": b"#"}}
TEXT: dict[str, Any] = {"string_type": {"encoding": {"utf8_bytes": {}}}}
ONE = {"field_name": "one", "type_": TEXT}
SETTINGS: list[dict[str, Any]] = [
    {"change_stream_config": {"retention_period": {"seconds": 3600}}},
    {"change_stream_config": {"retention_period": {"seconds": 8 * 86_400}}},
    {"row_key_schema": {"fields": [ONE]}},
    {"row_key_schema": {"fields": [ONE], "encoding": {"delimited_bytes": {}}}},
    {"row_key_schema": {"fields": [ONE, ONE], "encoding": {"singleton": {}}}},
    {"row_key_schema": {"fields": [ONE | {"field_name": "d"}], "encoding": DELIMITED}},
]


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_settings(raw: Raw, table: str, number: int) -> None:
    settings = SETTINGS[number]
    mask = {"paths": [*settings]}
    made = {"column_families": {"d": {}}, **settings}
    assert raw.code("CreateTable", parent=INSTANCE, table_id="refused", table=made) == INVALID
    assert raw.code("UpdateTable", table={"name": table, **settings}, update_mask=mask) == INVALID


def test_a_schema_of_keys_is_removed_before_another_is_set(raw: Raw, table: str) -> None:
    mask = {"paths": ["row_key_schema"]}
    schema = {"row_key_schema": {"fields": [ONE], "encoding": DELIMITED}}
    codes = [raw.code("UpdateTable", table={"name": table, **schema}, update_mask=mask) for _ in range(2)]
    assert codes == ["OK", INVALID]
    assert raw.code("UpdateTable", table={"name": table}, update_mask=mask) == "OK"


def test_methods_that_the_emulator_lacks_are_named(raw: Raw) -> None:
    for method in ("ExecuteQuery", "ListBackups"):
        with pytest.raises(grpc.RpcError) as refused:
            raw.call(method)
        error: Any = refused.value
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        assert method in error.details()
