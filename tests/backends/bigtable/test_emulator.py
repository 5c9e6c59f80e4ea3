"""Round trips against the real emulator, through the sync and the async clients."""

import asyncio
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any
from unittest.mock import ANY

import grpc
import pytest
from google.cloud.bigtable_v2 import BigtableClient
from google.cloud.bigtable_v2.services.bigtable.transports import BigtableGrpcTransport

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.clients import Clients
from odm.errors import BackendError, ItemTooLarge
from odm.expressions.nodes import Compare, Const, Exists, Missing, Path
from odm.protocol.connection import Connection, aperform, perform
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    DropTables,
    Gather,
    Get,
    Page,
    Position,
    Put,
    Query,
    Refused,
    Scan,
    Written,
)
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.conftest import Ask

EXISTS, ABSENT = Exists(Path(("_t",))), Missing(Path(("_t",)))
HAT = Key("hats", "fedoras#brandA")
WIDE = {
    "_t": "Hat",
    "name": "Fedora é #1",
    "price": Decimal("12.5"),
    "stock": -3,
    "huge": 10**38 - 1,
    "sold_out": False,
    "note": None,
    "text_of_one": "1",
    "raw": b"\x00\xff1",
    "sizes": [{"cm": 57, "of": None}, b"x"],
    "tags": frozenset({"felt", "wool"}),
    "empty": "",
    "": {"$set": [True]},
}


def pet(number: int) -> dict[str, Any]:
    return {"_t": "Pet", "number": number}


async def fill(ask: Ask, *keys: Key) -> None:
    await ask(BatchWrite(tuple(Put(key, pet(number)) for number, key in enumerate(keys))))


async def pages(ask: Ask, query: Query | Scan) -> list[Page]:
    """All pages, each read after the previous one."""
    found: list[Page] = []
    following: Position | None = query.after
    while True:
        if isinstance(query, Query):
            again: Query | Scan = Query(
                query.partition, query.lo, query.hi, reverse=query.reverse, limit=query.limit, after=following
            )
        else:
            again = Scan(limit=query.limit, after=following)
        found.append(await ask(again))
        following = found[-1].next
        if following is None:
            return found


def sorts(found: list[Page]) -> list[list[str]]:
    return [[position.key.sort for position in page.positions] for page in found]


async def test_an_item_comes_back(ask: Ask) -> None:
    assert await ask(Get(HAT)) is None
    assert await ask(Put(HAT, WIDE)) == Written()
    item = await ask(Get(HAT))
    assert item == WIDE
    assert {name: type(value) for name, value in item.items()} == {name: type(value) for name, value in WIDE.items()}


async def test_the_row_is_as_the_vendors_client_sees_it(ask: Ask, bigtable_emulator: str, schema: Schema) -> None:
    await ask(Put(Key("NASDAQ#ZXZZT", "1426535612156"), {"_t": "Quote", "bid": Decimal("10.5")}))
    cells = read_raw(bigtable_emulator, schema.name)
    assert cells == {b"NASDAQ#ZXZZT#1426535612156": {b"_t": [b"Quote"], b"bid": [b"10.5"], b"~r": [ANY]}}


def raw_client(channel: grpc.Channel) -> BigtableClient:
    return BigtableClient(transport=BigtableGrpcTransport(channel=channel))


def table_path(table: str) -> str:
    return f"projects/project/instances/instance/tables/{table}"


def read_raw(address: str, table: str) -> dict[bytes, dict[bytes, list[bytes]]]:
    found: dict[bytes, dict[bytes, list[bytes]]] = {}
    row: dict[bytes, list[bytes]] = {}
    column: list[bytes] = []
    with grpc.insecure_channel(address) as channel:
        for response in raw_client(channel).read_rows(table_name=table_path(table)):
            for chunk in response.chunks:
                if chunk.row_key:
                    row = found.setdefault(chunk.row_key, {})
                qualifier: Any = chunk.qualifier
                if qualifier is not None:
                    column = row.setdefault(qualifier, [])
                column.append(chunk.value)
    return found


async def test_the_newest_cell_counts(ask: Ask, bigtable_emulator: str, schema: Schema) -> None:
    """Other programs may leave older cells, which exist until garbage collection."""
    cells: list[Any] = [
        {"set_cell": {"family_name": "d", "column_qualifier": name, "value": value, "timestamp_micros": micros}}
        for name, value, micros in (
            (b"x", b"newest", 3000),
            (b"x", b"oldest", 1000),
            (b"x", b"older", 2000),
            (b"_t", b"Hat", 1000),
        )
    ]
    with grpc.insecure_channel(bigtable_emulator) as channel:
        raw_client(channel).mutate_row(table_name=table_path(schema.name), row_key=b"p#a", mutations=cells)
    assert read_raw(bigtable_emulator, schema.name)[b"p#a"][b"x"] == [b"newest", b"older", b"oldest"]
    assert await ask(Get(Key("p", "a"))) == {"_t": "Hat", "x": "newest"}
    assert (await ask(Query("p"))).items == ({"_t": "Hat", "x": "newest"},)


async def test_a_put_replaces_the_whole_item_and_leaves_no_old_cells(
    ask: Ask, bigtable_emulator: str, schema: Schema
) -> None:
    await ask(Put(HAT, WIDE))
    await ask(Put(HAT, pet(1)))
    await ask(Put(HAT, pet(2)))
    assert await ask(Get(HAT)) == pet(2)
    assert read_raw(bigtable_emulator, schema.name)[b"hats#fedoras#brandA"] == {
        b"_t": [b"Pet"],
        b"number": [b"2"],
        b"~r": [ANY],
    }


async def test_put_if_absent(ask: Ask) -> None:
    assert await ask(Put(HAT, pet(1), condition=ABSENT)) == Written()
    assert await ask(Put(HAT, pet(2), condition=ABSENT)) == Refused(pet(1))
    assert await ask(Get(HAT)) == pet(1)


async def test_put_if_present(ask: Ask) -> None:
    assert await ask(Put(HAT, pet(1), condition=EXISTS)) == Refused(None)
    assert await ask(Get(HAT)) is None
    await ask(Put(HAT, WIDE))
    assert await ask(Put(HAT, pet(2), condition=EXISTS)) == Written()
    assert await ask(Get(HAT)) == pet(2)


async def test_delete(ask: Ask) -> None:
    assert await ask(Delete(HAT)) == Written(existed=False)
    await ask(Put(HAT, pet(1)))
    assert await ask(Delete(HAT, ABSENT)) == Refused(pet(1))
    assert await ask(Delete(HAT, EXISTS)) == Written(existed=True)
    assert await ask(Get(HAT)) is None
    assert await ask(Delete(HAT, EXISTS)) == Refused(None)
    assert await ask(Delete(HAT, ABSENT)) == Written(existed=False)


async def test_batches(ask: Ask) -> None:
    keys = tuple(Key(f"p{number % 7}", f"{number:04}") for number in range(1500))
    await fill(ask, *keys)
    wanted = (keys[1400], Key("p0", "none"), keys[3])
    assert await ask(BatchGet(wanted)) == (pet(1400), None, pet(3))
    assert None not in await ask(BatchGet(keys))
    await ask(BatchWrite((Delete(keys[3]), Put(keys[4], pet(-1)), Delete(Key("p0", "none")))))
    assert await ask(BatchGet((keys[3], keys[4], keys[5]))) == (None, pet(-1), pet(5))


async def test_batches_of_nothing(ask: Ask) -> None:
    assert await ask(BatchGet(())) == ()
    assert await ask(BatchWrite(())) is None


@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
async def test_query(ask: Ask, reverse: bool) -> None:
    names = ["", "A", "B", "B\0", "B#1", "C", "é", "\U0001f600"]
    await fill(ask, *(Key("p", name) for name in names), Key("o", "x"), Key("p!", "x"), Key("p$", "x"), Key("q", "x"))

    async def found(lo: str = "", hi: str | None = None, **more: Any) -> list[list[str]]:
        return sorts(await pages(ask, Query("p", lo, hi, reverse=reverse, **more)))

    def ordered(*wanted: str) -> list[str]:
        return list(reversed(wanted)) if reverse else list(wanted)

    assert await found() == [ordered(*sorted(names))]
    assert await found("B") == [ordered("B", "B\0", "B#1", "C", "é", "\U0001f600")]
    assert await found("B", "C") == [ordered("B", "B\0", "B#1")]
    assert await found("B", "B\0") == [["B"]]
    assert await found("D", "E") == [[]]
    flat = ordered(*sorted(names))
    assert await found(limit=3) == [flat[:3], flat[3:6], flat[6:]]
    assert await found(limit=4) == [flat[:4], flat[4:], []]
    after = Position(Key("p", "B"))
    assert await found(after=after) == [ordered("B\0", "B#1", "C", "é", "\U0001f600") if not reverse else ["A", ""]]
    assert await found("B", "C", after=after) == [["B\0", "B#1"] if not reverse else []]
    assert await found("B", "B\0", after=after) == [[]]


async def test_query_with_a_filter(ask: Ask) -> None:
    await fill(ask, *(Key("p", f"{number:04}") for number in range(2500)))
    late = Compare(">=", Path(("number",)), Const(1998))
    page = await ask(Query("p", filter=late, limit=3))
    assert [item["number"] for item in page.items] == [1998, 1999, 2000]
    assert page.next == Position(Key("p", "2000"))
    assert (await ask(Query("p", filter=late, limit=3, reverse=True))).positions[-1] == Position(Key("p", "2497"))
    first = await ask(Query("p", filter=late))
    assert (first.items, first.next) == ((), Position(Key("p", "0999")))


async def test_count(ask: Ask) -> None:
    await fill(ask, *(Key("p", f"{number:04}") for number in range(1200)))
    first = await ask(Query("p", count=True))
    assert (first.items, first.count, first.next) == ((), 1000, Position(Key("p", "0999")))
    assert (await ask(Query("p", count=True, after=first.next))).count == 200
    assert (await ask(Query("p", count=True, limit=7))).count == 7
    small = Compare("<", Path(("number",)), Const(5))
    assert (await ask(Query("p", count=True, filter=small))).count == 5


async def test_scan(ask: Ask) -> None:
    keys = [Key("a", "1"), Key("b#c", "1"), Key("b", "d"), Key("c", "")]
    await fill(ask, *keys)
    found = await pages(ask, Scan(limit=3))
    assert [len(page.items) for page in found] == [3, 1]
    assert sorted(item["number"] for page in found for item in page.items) == [0, 1, 2, 3]
    assert (await ask(Scan(count=True))).count == 4
    odd = Compare("=", Path(("number",)), Const(1))
    assert [item["number"] for item in (await ask(Scan(filter=odd, limit=1))).items] == [1]


async def test_a_partition_is_deleted_by_the_positions_of_its_query(ask: Ask) -> None:
    await fill(ask, *(Key("video#1", f"c{number}") for number in range(5)), Key("video#2", "c"))
    page = await ask(Query("video#1"))
    await ask(BatchWrite(tuple(Delete(position.key) for position in page.positions)))
    assert await ask(Query("video#1")) == Page()
    assert len((await ask(Scan())).items) == 1


async def test_a_large_item_comes_back(ask: Ask) -> None:
    item = {"_t": "Blob", "data": b"x" * (5 * 1024 * 1024)}  # more than gRPC allows in a message by default
    await ask(Put(HAT, item))
    assert await ask(Get(HAT)) == item


async def test_create_and_drop_again(ask: Ask) -> None:
    await ask(Put(HAT, pet(1)))
    await ask(CreateTables())
    assert await ask(Get(HAT)) == pet(1)
    await ask(DropTables())
    await ask(DropTables())
    with pytest.raises(BackendError, match=r"'shop\d+': NOT_FOUND.*store\.create\(\)"):
        await ask(Get(HAT))
    with pytest.raises(BackendError, match=r"store\.create\(\)"):
        await ask(Put(HAT, pet(1)))
    with pytest.raises(BackendError, match=r"store\.create\(\)"):
        await ask(BatchWrite((Put(HAT, pet(1)),)))
    with pytest.raises(BackendError, match=r"store\.create\(\)"):
        await ask(Delete(HAT))


async def test_requests_run_together(ask: Ask) -> None:
    await ask(Gather(tuple(Put(Key("p", str(number)), pet(number)) for number in range(20))))
    items = await ask(Gather(tuple(Get(Key("p", str(number))) for number in range(20))))
    assert items == tuple(pet(number) for number in range(20))


async def test_one_of_many_inserts_wins(ask: Ask) -> None:
    answers = await ask(Gather(tuple(Put(HAT, pet(number), condition=ABSENT) for number in range(20))))
    assert sum(isinstance(answer, Written) for answer in answers) == 1


async def test_a_key_too_long_is_refused_before_anything_is_sent(ask: Ask) -> None:
    await ask(DropTables())
    with pytest.raises(ItemTooLarge):
        await ask(Put(Key("p", "x" * 4096), pet(1)))


@pytest.fixture
def hash_only(bigtable_emulator: str, schema: Schema) -> Connection[Any]:
    lonely = Schema(name=f"{schema.name}h", entities={}, indexes={}, hash_only=True)
    return Bigtable("project", "instance", endpoint=bigtable_emulator).connect(lonely)


def test_a_table_without_sort_keys(hash_only: Connection[Any]) -> None:
    perform(hash_only, CreateTables())
    for name in ("s", "s1", "s#1"):
        perform(hash_only, Put(Key(name), {"_t": name}))
    assert perform(hash_only, Get(Key("s1"))) == {"_t": "s1"}
    assert perform(hash_only, Query("s", reverse=True)) == Page(({"_t": "s"},), (Position(Key("s")),))
    found = perform(hash_only, Scan(limit=1))
    assert perform(hash_only, Scan(after=found.next)).positions == (Position(Key("s#1")), Position(Key("s1")))
    hash_only.close()


def test_threads_share_a_connection(connection: Connection[Any]) -> None:
    perform(connection, CreateTables())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: perform(connection, Put(Key("p", f"{number}"), pet(number))), range(100)))
    assert len(perform(connection, Query("p")).items) == 100
    connection.close()


def test_a_connection_lives_through_several_event_loops(connection: Connection[Any]) -> None:
    async def one(number: int) -> Any:
        await aperform(connection, CreateTables())
        await aperform(connection, Put(HAT, pet(number)))
        return await aperform(connection, Get(HAT))

    assert [asyncio.run(one(number)) for number in range(3)] == [pet(0), pet(1), pet(2)]


def test_clients_of_closed_event_loops_are_removed(bigtable_emulator: str) -> None:
    clients = Clients(bigtable_emulator, None)

    async def opened() -> list[weakref.ref[Any]]:
        # The clients, not the loops: gRPC itself keeps every loop as long as the process has any channel of asyncio.
        return [weakref.ref(clients.of_loop("data")), weakref.ref(clients.of_loop("admin"))]

    made = [asyncio.run(opened()) for _ in range(3)]
    gc.collect()
    assert [[client() is None for client in pair] for pair in made] == [[True, True], [True, True], [False, False]]


async def test_closing_twice_and_using_it_again(connection: Connection[Any]) -> None:
    perform(connection, CreateTables())
    connection.close()
    connection.close()
    assert perform(connection, Get(HAT)) is None
    connection.close()
    assert await aperform(connection, Get(HAT)) is None
    await connection.aclose()
    await connection.aclose()


def test_the_environment_names_the_emulator(
    bigtable_emulator: str, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    connection = Bigtable("project", "instance").connect(schema)
    perform(connection, CreateTables())
    assert perform(connection, Get(HAT)) is None
    connection.close()
