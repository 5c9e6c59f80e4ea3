"""Change streams."""

from itertools import count
from typing import Any

import grpc
import pytest

from odm.backends.bigtable.emulator import Emulator
from odm.testing import Clock
from tests.backends.bigtable.emulator.raw import INSTANCE, Raw, set_cell

STREAM = {"change_stream_config": {"retention_period": {"seconds": 86_400}}}


def streaming(raw: Raw, **rules: Any) -> str:
    families = {name: {"gc_rule": rule} for name, rule in ({"d": {}} | rules).items()}
    settings = {"column_families": families, **STREAM}
    splits = [{"key": b"m"}]
    return str(raw.call("CreateTable", parent=INSTANCE, table_id="s", table=settings, initial_splits=splits).name)


def seconds(clock: Clock) -> dict[str, int]:
    return {"seconds": int(clock())}


def changes(answers: Any) -> list[tuple[bytes, str, list[str]]]:
    """The key, the kind and the mutations of each change."""
    data = [one.data_change for one in answers if one.HasField("data_change")]
    return [
        (one.row_key, one.Type.Name(one.type_), [chunk.mutation.WhichOneof("mutation") for chunk in one.chunks])
        for one in data
    ]


def read(raw: Raw, table: str, **request: Any) -> Any:
    whole = {"row_range": {"start_key_closed": b"", "end_key_open": b""}}
    return raw.call("ReadChangeStream", table_name=table, **{"partition": whole, **request})


def test_all_kinds_of_writes_until_an_end(raw: Raw, clock: Clock) -> None:
    table, start = streaming(raw), seconds(clock)
    cell = [set_cell("d", b"a", b"1", -1)]
    raw.call(
        "MutateRow", table_name=table, row_key=b"a", mutations=[*cell, {"delete_from_family": {"family_name": "d"}}]
    )
    raw.call("MutateRows", table_name=table, entries=[{"row_key": b"b", "mutations": cell}])
    raw.call("CheckAndMutateRow", table_name=table, row_key=b"c", true_mutations=cell)
    raw.call("CheckAndMutateRow", table_name=table, row_key=b"z", false_mutations=cell)
    rule = {"family_name": "d", "column_qualifier": b"a", "append_value": b"x"}
    raw.call("ReadModifyWriteRow", table_name=table, row_key=b"a", rules=[rule])
    clock.advance(10)
    answers = read(raw, table, start_time=start, end_time={"seconds": int(clock()) - 1})
    assert changes(answers) == [
        (b"a", "USER", ["set_cell", "delete_from_family"]),
        (b"b", "USER", ["set_cell"]),
        (b"z", "USER", ["set_cell"]),
        (b"a", "USER", ["set_cell"]),
    ]
    first = answers[0].data_change
    assert first.chunks[0].mutation.set_cell.timestamp_micros == start["seconds"] * 1_000_000
    assert first.done
    assert answers[-1].close_stream.status.code == 0
    assert not answers[-1].close_stream.continuation_tokens


def test_the_deletion_of_a_row_is_that_of_its_families(raw: Raw, clock: Clock) -> None:
    """And a timestamp that the server changes is that of the cell."""
    table, start = streaming(raw, e={}), seconds(clock)
    truncated = set_cell("d", b"a", b"1", 1234) | {"timestamp_origin": 2}
    raw.call("MutateRow", table_name=table, row_key=b"a", mutations=[truncated, {"delete_from_row": {}}])
    clock.advance(5)
    answers = read(raw, table, start_time=start, end_time={"seconds": int(clock()) - 1})
    assert changes(answers) == [(b"a", "USER", ["set_cell", "delete_from_family", "delete_from_family"])]
    assert answers[0].data_change.chunks[0].mutation.set_cell.timestamp_micros == 1000


def test_each_change_is_later_than_the_one_before(raw: Raw, clock: Clock) -> None:
    """Also if the clock stands still, so that the changes of a row have an order."""
    table, start = streaming(raw), seconds(clock)
    for value in (b"1", b"2", b"3"):
        raw.call("MutateRow", table_name=table, row_key=b"a", mutations=[set_cell("d", b"a", value)])
    clock.advance(5)
    answers = read(raw, table, start_time=start, end_time={"seconds": int(clock()) - 1})
    found = [one.data_change.commit_timestamp.ToMicroseconds() for one in answers if one.HasField("data_change")]
    assert found == sorted(set(found))
    assert len(found) == 3


def test_a_cell_has_the_timestamp_of_its_change() -> None:
    """Although the clock goes on while it is written."""
    ticks = count(1_700_000_000)
    with Emulator(clock=lambda: next(ticks)) as emulator:
        raw = Raw(emulator.address)
        table = streaming(raw)
        raw.call("MutateRow", table_name=table, row_key=b"a", mutations=[set_cell("d", b"a", b"1", -1)])
        ((_, [cell]),) = raw.rows(table)
        change = next(one for one in _endless(raw, table) if one.HasField("data_change")).data_change
        assert change.chunks[0].mutation.set_cell.timestamp_micros == cell[2]
        raw.close()


def _endless(raw: Raw, table: str) -> Any:
    whole = {"row_range": {"start_key_closed": b"", "end_key_open": b""}}
    return raw.start("ReadChangeStream", table_name=table, partition=whole, start_time={"seconds": 1_700_000_000})


def test_tokens_of_partitions_that_became_one(raw: Raw, clock: Clock) -> None:
    """Each partition is read from its own token on."""
    table = streaming(raw)
    for key in (b"x", b"a", b"y", b"b"):
        raw.call("MutateRow", table_name=table, row_key=key, mutations=[set_cell("d", b"a", b"1")])
    clock.advance(5)
    end = {"end_time": {"seconds": int(clock()) - 1}}
    parts = [one.partition for one in raw.call("GenerateInitialChangeStreamPartitions", table_name=table)]
    tokens = [{"partition": part, "token": token} for part, token in zip(parts, ("0", "3"), strict=True)]
    found = read(raw, table, continuation_tokens={"tokens": tokens}, **end)
    assert [key for key, *_ in changes(found)] == [b"a", b"b"]
    whole = {"row_range": {"start_key_closed": b"", "end_key_open": b""}}
    few = {"partition": whole, "continuation_tokens": {"tokens": tokens[:1]}}
    assert raw.code("ReadChangeStream", table_name=table, **few) == "INVALID_ARGUMENT"


def test_a_stream_ends_with_its_table(raw: Raw) -> None:
    table = streaming(raw)
    whole = {"row_range": {"start_key_closed": b"", "end_key_open": b""}}
    stream = raw.start("ReadChangeStream", table_name=table, partition=whole)
    next(stream)
    raw.call("DeleteTable", name=table)
    with pytest.raises(grpc.RpcError) as ended:
        list(stream)
    error: Any = ended.value
    assert error.code() is grpc.StatusCode.NOT_FOUND


def test_partitions_and_continuing_after_a_change(raw: Raw, clock: Clock) -> None:
    table, start = streaming(raw), seconds(clock)
    parts = [one.partition for one in raw.call("GenerateInitialChangeStreamPartitions", table_name=table)]
    assert [(one.row_range.start_key_closed, one.row_range.end_key_open) for one in parts] == [(b"", b"m"), (b"m", b"")]
    for key in (b"a", b"x", b"b", b"y"):
        raw.call("MutateRow", table_name=table, row_key=key, mutations=[set_cell("d", b"a", b"1")])
    clock.advance(5)
    end = {"end_time": {"seconds": int(clock()) - 1}}
    found = [read(raw, table, partition=part, start_time=start, **end) for part in parts]
    assert [[key for key, *_ in changes(one)] for one in found] == [[b"a", b"b"], [b"x", b"y"]]
    token = found[0][0].data_change.token
    again = {"tokens": [{"partition": parts[0], "token": token}]}
    assert [key for key, *_ in changes(read(raw, table, partition=parts[0], continuation_tokens=again, **end))] == [
        b"b"
    ]
    wrong = {"tokens": [{"partition": parts[0], "token": "x"}]}
    request = {"table_name": table, "partition": parts[0], "continuation_tokens": wrong}
    assert raw.code("ReadChangeStream", **request) == "INVALID_ARGUMENT"


def test_garbage_collection_is_a_change(raw: Raw, running: Emulator, clock: Clock) -> None:
    table, start = streaming(raw, two={"max_num_versions": 1}), seconds(clock)
    cells = [set_cell("two", b"a", b"1", at) for at in (1000, 2000)]
    raw.call("MutateRow", table_name=table, row_key=b"a", mutations=cells)
    running.collect_garbage()
    clock.advance(5)
    *_, last = changes(read(raw, table, start_time=start, end_time={"seconds": int(clock()) - 1}))
    assert last == (b"a", "GARBAGE_COLLECTION", ["delete_from_column"])


def test_a_stream_goes_on_until_it_is_cancelled(raw: Raw, clock: Clock) -> None:
    table = streaming(raw)
    whole = {"row_range": {"start_key_closed": b"", "end_key_open": b""}}
    stream = raw.start("ReadChangeStream", table_name=table, partition=whole, heartbeat_duration={"nanos": 100_000_000})
    assert next(stream).HasField("heartbeat")
    raw.call("MutateRow", table_name=table, row_key=b"a", mutations=[set_cell("d", b"a", b"1")])
    for kind in ("data_change", "heartbeat"):  # after any number of heartbeats
        while next(stream).WhichOneof("stream_record") != kind:
            pass
    stream.cancel()


def test_a_table_without_a_stream(raw: Raw, table: str) -> None:
    whole = {"row_range": {"start_key_closed": b"", "end_key_open": b""}}
    assert raw.code("ReadChangeStream", table_name=table, partition=whole) == "FAILED_PRECONDITION"
    assert raw.code("GenerateInitialChangeStreamPartitions", table_name=table) == "FAILED_PRECONDITION"
