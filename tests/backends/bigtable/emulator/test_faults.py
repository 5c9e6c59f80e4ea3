"""A program shows that it survives faults: odm, and Google's client."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import ServiceUnavailable
from google.cloud.bigtable.data import BigtableDataClient, MutationsExceptionGroup, RowMutationEntry, SetCell
from google.rpc.status_pb2 import Status

from odm import BadValue, Entity, PrimaryKey, Store, Table
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.emulator import Emulator, Faults
from tests.backends.bigtable.emulator.raw import FEATURES, Raw, rows_of, set_cell

shop = Table("faults")


class Item(Entity, table=shop):
    name: str
    value: int = 0

    primary = PrimaryKey("ITEM#{name}")


@pytest.fixture
def db(running: Emulator) -> Iterator[Store]:
    with Store(shop, Bigtable("p", "i", endpoint=running.address)) as store:
        store.create()
        for number in range(3):
            store.put(Item(name=f"{number}"))
        yield store


@pytest.fixture
def faults(running: Emulator) -> Faults:
    return running.faults


def happened(faults: Faults) -> list[tuple[str, str]]:
    return [(one.fault, one.method) for one in faults.happened]


def test_reads_that_fail_are_repeated(db: Store, faults: Faults) -> None:
    faults.fail("ReadRows")
    faults.throttle("ReadRows", retry_after=0.01)
    faults.cut(chunks=2)
    assert len(list(db.scan(Item))) == 3
    assert happened(faults) == [("fail", "ReadRows"), ("throttle", "ReadRows"), ("cut", "ReadRows")]


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_answer_to_an_insert_is_found_out(db: Store, faults: Faults, applied: bool) -> None:
    faults.lose("CheckAndMutateRow", applied=applied)
    db.insert(Item(name="new"))
    assert db.get(Item, name="new") is not None
    assert happened(faults) == [("lose", "CheckAndMutateRow")]


def test_an_entry_that_is_refused_is_repeated_alone(raw: Raw, table: str, faults: Faults) -> None:
    faults.refuse(1, code="UNAVAILABLE")
    entries = [{"row_key": key, "mutations": [set_cell("d", b"a", b"1")]} for key in (b"a", b"b", b"c")]
    (answer,) = raw.call("MutateRows", table_name=table, entries=entries)
    assert [one.status.code for one in answer.entries] == [0, 14, 0]
    assert [key for key, _ in raw.rows(table)] == [b"a", b"c"]


def test_a_stream_is_cut_in_the_middle_of_a_row(raw: Raw, table: str, faults: Faults) -> None:
    cells = [set_cell("d", b"%d" % number, b"1") for number in range(4)]
    for key in (b"a", b"b"):
        raw.call("MutateRow", table_name=table, row_key=key, mutations=cells)
    faults.cut(chunks=6)
    stream = raw.start("ReadRows", table_name=table)
    answers: list[Any] = []
    with pytest.raises(grpc.RpcError):
        answers.extend(stream)
    chunks = [chunk for one in answers for chunk in one.chunks]
    assert [chunk.commit_row for chunk in chunks] == [False] * 3 + [True] + [False] * 2


def test_retry_info_and_cookies_go_to_clients_that_take_them(raw: Raw, table: str, faults: Faults) -> None:
    cookies = {"x-goog-cbt-cookie-a": "1"}
    faults.fail("MutateRow", retry_after=1.5, cookies=cookies, times=2)
    request = {"table_name": table, "row_key": b"a", "mutations": [set_cell("d", b"a", b"1")]}
    sent = []
    for metadata in ((FEATURES,), ()):
        with pytest.raises(grpc.RpcError) as refused:
            raw.call("MutateRow", metadata, **request)
        error: Any = refused.value
        sent.append(dict(error.trailing_metadata()))
    assert sent[0]["x-goog-cbt-cookie-a"] == "1"
    status = Status.FromString(sent[0]["grpc-status-details-bin"])
    assert status.details[0].type_url.endswith("RetryInfo")
    assert sent[1] == {}


def test_which_calls_a_fault_applies_to(raw: Raw, table: str, faults: Faults) -> None:
    faults.fail("MutateRow", on=b"b", after=1, times=1)
    faults.fail("ReadRows", "ABORTED", on=lambda key: key.startswith(b"x"))
    codes = [
        raw.code("MutateRow", table_name=table, row_key=key, mutations=[set_cell("d", b"a", b"1")])
        for key in (b"a", b"b", b"b", b"b")
    ]
    assert codes == ["OK", "OK", "UNAVAILABLE", "OK"]
    assert raw.code("ReadRows", table_name=table, rows={"row_keys": [b"xx"]}) == "ABORTED"
    assert [one.keys for one in faults.happened] == [(b"b",), (b"xx",)]
    assert {one.table for one in faults.happened} == {table}


def test_delays_are_given_to_the_function(table: str, raw: Raw, faults: Faults) -> None:
    waited = list[float]()
    faults.sleep = waited.append
    faults.delay("ReadRows", 2.5)
    raw.rows(table)
    raw.rows(table)
    assert waited == [2.5, 2.5]


def test_a_competitor_writes_before_a_call(raw: Raw, table: str, faults: Faults) -> None:
    def write() -> None:
        raw.call("MutateRow", table_name=table, row_key=b"a", mutations=[set_cell("d", b"a", b"theirs")])

    faults.before("CheckAndMutateRow", write)
    mine: dict[str, Any] = {"row_key": b"a", "false_mutations": [set_cell("d", b"a", b"mine")]}
    assert raw.call("CheckAndMutateRow", table_name=table, **mine).predicate_matched
    assert raw.rows(table)[0][1][0][3] == b"theirs"


WRONG: list[Callable[[Faults], object]] = [
    lambda faults: faults.fail("Read"),
    lambda faults: faults.fail("ReadRows", "OK"),
    lambda faults: faults.fail("ReadRows", "SLEEPY"),
    lambda faults: faults.fail("ReadRows", cookies={"a": "b"}),
    lambda faults: faults.fail("ReadRows", chance=2),
    lambda faults: faults.lose("ReadRows"),
    lambda faults: faults.delay("ReadRows", -1),
    lambda faults: faults.cut(chunks=-1),
    lambda faults: faults.refuse(),
    lambda faults: faults.refuse(-1),
    lambda faults: faults.fail("ReadRows", times=-1),
    lambda faults: faults.fail("ReadRows", after=-1),
    lambda faults: faults.fail("ReadRows", on="a"),  # type: ignore[arg-type]
    lambda faults: faults.fail("ReadRows", retry_after=float("inf")),
    lambda faults: faults.fail("ReadRows", cookies={"x-goog-cbt-cookie-A": "b"}),
    lambda faults: faults.fail("ReadRows", cookies={"x-goog-cbt-cookie-a": "b\n"}),
    lambda faults: faults.before("ReadRows", None),  # type: ignore[arg-type]
]


def test_faults_that_cannot_be() -> None:
    for wrong in WRONG:
        with pytest.raises(BadValue):
            wrong(Faults())


def test_googles_client_meets_them_too(
    running: Emulator, raw: Raw, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", running.address)
    with BigtableDataClient(project="p") as client:
        rows = client.get_table("i", table.rsplit("/", 1)[1])
        running.faults.fail("MutateRow")
        rows.mutate_row("a", SetCell("d", "a", b"1", timestamp_micros=1000))
        running.faults.lose("ReadModifyWriteRow")
        with pytest.raises(ServiceUnavailable):
            rows.read_modify_write_row("a", [_append()])
        running.faults.refuse(0, code="INVALID_ARGUMENT", times=None)
        with pytest.raises(MutationsExceptionGroup):
            rows.bulk_mutate_rows([RowMutationEntry("b", SetCell("d", "a", b"1", timestamp_micros=1000))])
    ((key, cells),) = rows_of(raw.call("ReadRows", table_name=table, filter={"cells_per_column_limit_filter": 1}))
    assert (key, cells[0][3]) == (b"a", b"1x")


def _append() -> Any:
    from google.cloud.bigtable.data.read_modify_write_rules import AppendValueRule

    return AppendValueRule("d", "a", "x")
