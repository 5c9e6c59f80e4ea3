"""Every request of the core on moto's DynamoDB server, sync and async."""

import asyncio
import subprocess
import sys
from decimal import Decimal
from typing import Any

import boto3
import pytest
from moto import mock_aws

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Call, Native
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.errors import BackendError, BadValue
from odm.expressions.nodes import (
    AddTo,
    Append,
    Between,
    Compare,
    Const,
    Contains,
    DiscardFrom,
    Exists,
    Increment,
    IsIn,
    Missing,
    Not,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
    Size,
    StartsWith,
)
from odm.protocol.connection import aperform, perform, run
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
    Request,
    Scan,
    Update,
    Written,
)
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema
from tests.backends.dynamodb.conftest import Ask

KEY, TAG, N = Key("C#1", "O#1"), Path(("_t",)), Path(("n",))
RICH = {
    "_t": "Order",
    "text": "ü",
    "empty": "",
    "none": None,
    "yes": True,
    "n": 5,
    "price": Decimal("1.25"),
    "raw": b"\x00\xff",
    "lines": [{"sku": "a", "count": 2}, []],
    "meta": {"a.b": {"c": 1}},
    "tags": frozenset({"x", "y"}),
    "sizes": frozenset({1, Decimal("2.5")}),
    "blobs": frozenset({b"1"}),
}


async def test_a_stored_item_is_read_back_unchanged(ask: Ask) -> None:
    assert await ask(Get(KEY)) is None
    assert await ask(Put(KEY, RICH, {"by_email": Key("E#a", "Order")})) == Written()
    assert await ask(Get(KEY)) == RICH
    assert await ask(Get(KEY, consistent=False)) == RICH


async def test_a_put_replaces_the_whole_item_and_its_entries(ask: Ask) -> None:
    await ask(Put(KEY, {"a": 1}, {"by_email": Key("E#a", "x")}))
    await ask(Put(KEY, {"b": 1}))
    assert await ask(Get(KEY)) == {"b": 1}
    assert (await ask(Query("E#a", index="by_email"))).items == ()


async def test_a_refused_write_returns_the_stored_item(ask: Ask) -> None:
    assert await ask(Put(KEY, {"_t": "A"}, condition=Missing(TAG))) == Written()
    assert await ask(Put(KEY, {"_t": "B"}, condition=Missing(TAG))) == Refused({"_t": "A"})
    assert await ask(Update(KEY, (Set(N, 1),), condition=Exists(N))) == Refused({"_t": "A"})
    assert await ask(Delete(KEY, Exists(N))) == Refused({"_t": "A"})
    assert await ask(Get(KEY)) == {"_t": "A"}


async def test_a_refused_write_of_a_missing_item_returns_none(ask: Ask) -> None:
    assert await ask(Update(KEY, (Set(N, 1),), condition=Exists(TAG))) == Refused(None)
    assert await ask(Put(KEY, {}, condition=Exists(TAG))) == Refused(None)
    assert await ask(Delete(KEY, Exists(TAG))) == Refused(None)
    assert await ask(Get(KEY)) is None


async def test_a_delete_reports_whether_the_item_existed(ask: Ask) -> None:
    await ask(Put(KEY, {"n": 1}))
    assert await ask(Delete(KEY)) == Written(existed=True)
    assert await ask(Delete(KEY)) == Written(existed=False)


async def test_all_actions(ask: Ask) -> None:
    await ask(Put(KEY, {"n": 1, "list": ["b"], "tags": frozenset({"a", "b"}), "last": frozenset({1}), "m": {"k": 1}}))
    actions = (
        Set(Path(("m", "k")), 2),
        SetIfMissing(N, 9),
        SetIfMissing(Path(("new",)), 9),
        Increment(Path(("count",)), 2, start=10),
        Append(Path(("list",)), ("c", "d")),
        Prepend(Path(("other",)), ("z",)),
        AddTo(Path(("tags",)), frozenset({"c"})),
        DiscardFrom(Path(("last",)), frozenset({1})),
    )
    after = {
        "n": 1,
        "new": 9,
        "count": 12,
        "list": ["b", "c", "d"],
        "other": ["z"],
        "tags": frozenset({"a", "b", "c"}),
        "m": {"k": 2},
    }
    assert await ask(Update(KEY, actions, returning="new")) == Written(after)
    assert await ask(
        Update(KEY, (Remove(Path(("m", "k"))), Increment(N, Decimal("-0.5"))), returning="old")
    ) == Written(after)
    assert await ask(Update(KEY, (Remove(Path(("list", 0))),))) == Written()
    found = await ask(Get(KEY))
    assert found == {**after, "m": {}, "n": Decimal("0.5"), "list": ["c", "d"]}


async def test_a_set_under_a_missing_parent_is_a_bad_value(ask: Ask) -> None:
    await ask(Put(KEY, {"n": 1}))
    with pytest.raises(BadValue, match="parent of the path"):
        await ask(Update(KEY, (Set(Path(("address", "city")), "Rome"),)))


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (Compare("=", N, Const(1)), {1}),
        (Compare("<>", N, Const(1)), {2, 3, 4}),
        # moto treats an absent attribute as NULL, AWS does not
        (Compare("=", Path(("maybe",)), Const(None)) & Exists(Path(("maybe",))), {2}),
        (Compare("<", Const(2), N), {3, 4}),
        # moto fails on the size of an absent attribute; on AWS the comparison is false
        (Exists(Path(("text",))) & Compare(">", Size(Path(("text",))), Const(2)), {3}),
        (Between(N, Const(2), Const(3)), {2, 3}),
        (Between(N, Const(3), Const(2)), set()),
        (IsIn(N, (Const(1), Const(4))), {1, 4}),
        (IsIn(N, tuple(map(Const, range(4, 204)))), {4}),
        (Not(IsIn(N, ())), {1, 2, 3, 4}),
        (StartsWith(Path(("text",)), Const("ab")), {2, 3}),
        (Contains(Path(("tags",)), Const("x")), {4}),
        (Exists(Path(("maybe",))), {2}),
        (Missing(Path(("text",))), {4}),
        (Exists(Path(("lines", 0, "a.b"))), {1}),
        (Compare("=", N, Const(1)) | Compare("=", N, Const(2)) & Missing(Path(("maybe",))), {1}),
        (Not(Compare("=", N, Const(1)) | Compare("=", N, Const(2))), {3, 4}),
    ],
)
async def test_filters(connection: DynamoDBConnection, condition: Any, found: set[int]) -> None:
    items: list[dict[str, Any]] = [
        {"n": 1, "text": "a", "lines": [{"a.b": 1}]},
        {"n": 2, "text": "ab", "maybe": None},
        {"n": 3, "text": "abc"},
        {"n": 4, "tags": frozenset({"x"})},
    ]
    perform(connection, CreateTables())
    perform(connection, BatchWrite(tuple(Put(Key("p", str(item["n"])), item) for item in items)))
    page = perform(connection, Query("p", filter=condition))
    assert {item["n"] for item in page.items} == found


def _numbers(page: Page) -> list[int]:
    return [item["n"] for item in page.items]


async def _fill(ask: Ask) -> None:
    """Put ten items in one partition of the table, in reverse order in one partition of the index."""
    puts = [Put(Key("p", f"s{n}"), {"n": n}, {"by_email": Key("e", f"x{9 - n}")}) for n in range(10)]
    await ask(BatchWrite((*puts, Put(Key("q", "s1"), {"n": 99}))))


@pytest.mark.parametrize(
    ("lo", "hi", "found"),
    [
        ("", None, list(range(10))),
        ("s3", None, [3, 4, 5, 6, 7, 8, 9]),
        ("", "s3", [0, 1, 2]),
        ("s3", "s5", [3, 4]),
        ("s3\0", "s5\0", [4, 5]),
        ("s3", "s3\0", [3]),
        ("s", "t", list(range(10))),
        ("t", None, []),
    ],
)
async def test_ranges(ask: Ask, lo: str, hi: str | None, found: list[int]) -> None:
    await _fill(ask)
    assert _numbers(await ask(Query("p", lo, hi))) == found
    assert _numbers(await ask(Query("p", lo, hi, reverse=True))) == found[::-1]
    assert (await ask(Query("p", lo, hi, count=True))).count == len(found)


async def test_a_page_has_the_position_of_each_item(ask: Ask) -> None:
    await _fill(ask)
    page = await ask(Query("p", "s1", "s3"))
    assert page.positions == (Position(Key("p", "s1")), Position(Key("p", "s2")))
    page = await ask(Query("e", "x1", "x2", index="by_email"))
    assert page.items == ({"n": 8},)
    assert page.positions == (Position(Key("p", "s8"), Key("e", "x1")),)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize(("partition", "index"), [("p", None), ("e", "by_email")])
async def test_a_page_begins_where_the_last_one_ended(
    ask: Ask, partition: str, index: str | None, filtered: bool, reverse: bool
) -> None:
    await _fill(ask)
    keep = Not(IsIn(N, (Const(2), Const(3)))) if filtered else None
    query = Query(partition, index=index, filter=keep, reverse=reverse)
    whole = _numbers(await ask(query))
    assert len(whole) == (8 if filtered else 10)
    found: list[int] = []
    after: Position | None = None
    for _ in range(10):
        page = await ask(Query(partition, index=index, filter=keep, reverse=reverse, limit=3, after=after))
        assert len(page.items) <= 3
        found += _numbers(page)
        after = page.next
        if after is None:
            break
    assert after is None
    assert found == whole


async def test_scans(ask: Ask) -> None:
    await _fill(ask)
    found: list[int] = []
    after: Position | None = None
    while True:
        page = await ask(Scan(limit=4, after=after))
        found += _numbers(page)
        after = page.next
        if after is None:
            break
    assert sorted(found) == [*range(10), 99]
    assert (await ask(Scan(count=True))).count == 11
    assert _numbers(await ask(Scan(filter=Compare("=", N, Const(4))))) == [4]


async def test_batches_larger_than_one_request(ask: Ask) -> None:
    keys = tuple(Key(f"p{n}", "s") for n in range(130))
    await ask(BatchWrite(tuple(Put(key, {"n": n}) for n, key in enumerate(keys))))
    await ask(BatchWrite((Delete(keys[7]), Put(keys[8], {"n": -8}))))
    found = await ask(BatchGet((*keys, Key("none", "s"))))
    assert [item and item["n"] for item in found] == [*range(7), None, -8, *range(9, 130), None]


async def test_a_request_of_more_than_a_megabyte(ask: Ask) -> None:
    """aiohttp warns about long bodies that are sent in one piece, and warnings are errors here."""
    items = [Put(Key("C#1", f"O#{n}"), {"text": "x" * 300_000}) for n in range(5)]
    await ask(BatchWrite(tuple(items)))
    assert await ask(Get(Key("C#1", "O#4"))) == items[4].item


async def test_an_update_moves_the_item_in_its_index_and_out_of_it(ask: Ask) -> None:
    await ask(Put(KEY, {"n": 1}, {"by_email": Key("E#a", "x")}))
    await ask(Update(KEY, (), {"by_email": Key("E#b", "y")}))
    assert (await ask(Query("E#a", index="by_email"))).items == ()
    page = await ask(Query("E#b", index="by_email"))
    assert page.positions == (Position(KEY, Key("E#b", "y")),)
    await ask(Update(KEY, (), {"by_email": None}))
    assert (await ask(Query("E#b", index="by_email"))).items == ()
    assert await ask(Get(KEY)) == {"n": 1}


async def test_tables_can_be_created_and_removed_repeatedly(send: Ask) -> None:
    await send(DropTables())
    await send(CreateTables())
    await send(Put(KEY, {"n": 1}))
    await send(CreateTables())
    assert await send(Get(KEY)) == {"n": 1}
    await send(DropTables())
    await send(CreateTables())
    assert await send(Get(KEY)) is None


async def test_an_index_that_came_later_is_added_to_the_table(backend: DynamoDB, schema: Schema, ask: Ask) -> None:
    await ask(Put(KEY, {"n": 1}))
    later = Schema(schema.name, {}, {name: IndexSchema(name, ()) for name in ("by_email", "by_who", "by_date")})
    connection = backend.connect(later)
    for index in ("by_who", "by_date"):
        with pytest.raises(BackendError, match=f"index {index!r} of table .* does not exist: call store.create()"):
            await aperform(connection, Query("W#a", index=index))
    await aperform(connection, CreateTables())
    await aperform(connection, CreateTables())
    for index in ("by_email", "by_who", "by_date"):
        assert (await aperform(connection, Query("W#a", index=index))).items == ()
    await aperform(connection, Put(KEY, {"n": 2}, {"by_who": Key("W#a", "x")}))
    assert (await aperform(connection, Query("W#a", index="by_who"))).items == ({"n": 2},)
    await connection.aclose()


@pytest.mark.usefixtures("ask")
async def test_a_table_with_another_key_is_refused(backend: DynamoDB, schema: Schema) -> None:
    for other, found, needed in [
        (Schema(schema.name, {}, {}, keys=("PK", "SK")), "pk (HASH, S), sk (RANGE, S)", "PK (HASH, S), SK (RANGE, S)"),
        (Schema(schema.name, {}, {}, hash_only=True), "pk (HASH, S), sk (RANGE, S)", "pk (HASH, S)"),
    ]:
        connection = backend.connect(other)
        with pytest.raises(BackendError) as caught:
            await aperform(connection, CreateTables())
        assert f"table {schema.name!r} exists with the key {found}, but the models need {needed}: " in str(caught.value)
        await connection.aclose()


@mock_aws
def test_keys_of_another_type_and_indexes_with_another_key_are_refused() -> None:
    client = boto3.client("dynamodb", region_name="eu-west-1")
    for table, kind in (("numbers", "N"), ("texts", "S")):
        client.create_table(
            TableName=table,
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "N" if kind == "N" else "S"},
                {"AttributeName": "who", "AttributeType": "S"},
            ],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "by_who",
                    "KeySchema": [{"AttributeName": "who", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )
    backend = DynamoDB(boto3.Session("key", "secret"), region="eu-west-1")
    with pytest.raises(BackendError, match=r"'numbers' exists with the key pk \(HASH, S\), sk \(RANGE, N\), but"):
        perform(backend.connect(Schema("numbers", {}, {})), CreateTables())
    perform(backend.connect(Schema("texts", {}, {})), CreateTables())  # other programs' indexes do not matter
    with pytest.raises(BackendError, match=r"'by_who' of table 'texts' exists with the key who \(HASH, S\), but"):
        perform(backend.connect(Schema("texts", {}, {"by_who": IndexSchema("by_who", ())})), CreateTables())


async def test_a_table_without_sort_key(backend: DynamoDB, schema: Schema) -> None:
    connection = backend.connect(Schema(schema.name, {}, {}, hash_only=True))
    requests: list[Request] = [CreateTables(), Put(Key("a"), {"n": 1}), Put(Key("b"), {"n": 2})]
    for request in requests:
        await aperform(connection, request)
    assert await aperform(connection, Get(Key("a"))) == {"n": 1}
    assert await aperform(connection, Query("b")) == Page(({"n": 2},), (Position(Key("b")),))
    assert await aperform(connection, BatchGet((Key("b"), Key("c")))) == ({"n": 2}, None)
    await connection.aclose()


async def test_concurrent_async_calls(connection: DynamoDBConnection) -> None:
    perform(connection, CreateTables())
    puts = Gather(tuple(Put(Key("p", str(n)), {"n": n}) for n in range(20)))
    assert perform(connection, puts) == (Written(),) * 20
    gets = Gather(tuple(Get(Key("p", str(n))) for n in range(20)))
    assert await aperform(connection, gets) == tuple({"n": n} for n in range(20))


async def test_a_connection_can_be_closed_twice_and_used_again(connection: DynamoDBConnection) -> None:
    perform(connection, CreateTables())
    connection.close()
    connection.close()
    perform(connection, Put(KEY, {"n": 1}))
    assert await aperform(connection, Get(KEY)) == {"n": 1}
    await connection.aclose()
    await connection.aclose()
    assert await aperform(connection, Get(KEY)) == {"n": 1}


def test_each_event_loop_has_a_client_of_its_own(backend: DynamoDB, schema: Schema) -> None:
    connection = backend.connect(schema)

    async def main() -> Any:
        await aperform(connection, CreateTables())
        try:
            return await aperform(connection, Get(KEY))
        finally:
            await connection.aclose()

    assert asyncio.run(main()) is None
    assert asyncio.run(main()) is None


@mock_aws
def test_ttl_is_enabled_even_if_the_creation_was_interrupted() -> None:
    class Expiring(Schema):
        @property
        def has_ttl(self) -> bool:
            return True

    client = boto3.client("dynamodb", region_name="eu-west-1")
    backend = DynamoDB(boto3.Session("key", "secret"), region="eu-west-1")
    perform(backend.connect(Schema("shop", {}, {})), CreateTables())
    assert client.describe_time_to_live(TableName="shop")["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED"
    for switched in (["update_time_to_live"], []):
        connection = backend.connect(Expiring("shop", {}, {}))
        made: list[str] = []

        def call(native: Native, connection: DynamoDBConnection = connection, made: list[str] = made) -> Any:
            assert isinstance(native, Call)
            made.append(native.operation)
            return connection.call(native)

        run(connection.steps(CreateTables()), call)
        assert [operation for operation in made if operation.startswith("update")] == switched
        assert client.describe_time_to_live(TableName="shop")["TimeToLiveDescription"] == {
            "TimeToLiveStatus": "ENABLED",
            "AttributeName": "_ttl",
        }


@mock_aws
def test_the_table_is_on_demand_with_its_indexes() -> None:
    schema = Schema("shop", {}, {name: IndexSchema(name, ()) for name in ("by_email", "by_date")})
    perform(DynamoDB(boto3.Session("key", "secret"), region="eu-west-1").connect(schema), CreateTables())
    table = boto3.client("dynamodb", region_name="eu-west-1").describe_table(TableName="shop")["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert {index["IndexName"] for index in table["GlobalSecondaryIndexes"]} == {"by_email", "by_date"}


def test_boto3_is_not_loaded_before_the_first_call() -> None:
    code = (
        "import sys; from odm.backends.dynamodb import DynamoDB; from odm.protocol.requests import Get; "
        "from odm.schema.model import Key, Schema; "
        "print(next(DynamoDB().connect(Schema('shop', {}, {})).steps(Get(Key('p', 's'))))); "
        "sys.exit(any(name.startswith(('boto', 'aioboto')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("get_item(")
