"""The semantics of each request of the core, on both storages."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from odm.backends.local import LocalFile, Memory
from odm.backends.local.codec import encode
from odm.backends.local.memory import MemoryTable
from odm.backends.local.requests import CHUNK, PAGE_BYTES
from odm.backends.local.storage import Change, Record
from odm.errors import BackendError, BadValue, ItemTooLarge
from odm.expressions.nodes import (
    AddTo,
    Append,
    Compare,
    Condition,
    Const,
    Exists,
    Increment,
    Missing,
    Path,
    Remove,
    Set,
)
from odm.protocol.connection import aperform, perform
from odm.protocol.limits import stored_size
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    DropTables,
    Gather,
    Get,
    Key,
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
from tests.backends.local.support import Send, schema_of

KEY = Key("p", "s")
ITEM: dict[str, Any] = {
    "_t": "Thing",
    "n": 1,
    "price": Decimal("1.5"),
    "data": b"\x00",
    "tags": frozenset({"a"}),
    "list": [1, {"deep": [None, True]}],
    "none": None,
}


def is_(name: str, value: Any) -> Condition:
    return Compare("=", Path((name,)), Const(value))


def names(send: Send, query: Query | Scan) -> list[str]:
    return [item["name"] for item in send(query).items]


def index_of(send: Send, partition: str, index: str = "by_x") -> list[tuple[str, Any]]:
    page = send(Query(partition, index=index))
    return [(position.index_key.sort, item) for position, item in zip(page.positions, page.items, strict=True)]


def test_put_and_get(send: Send) -> None:
    assert send(Get(KEY)) is None
    assert send(Put(KEY, ITEM)) == Written()
    assert send(Get(KEY)) == ITEM
    send(Put(KEY, {"other": 1}))
    assert send(Get(KEY)) == {"other": 1}
    assert send(Get(Key("p", "other"))) is None


def test_batch_get_answers_in_the_order_of_the_keys(send: Send) -> None:
    keys = [Key("p", str(n)) for n in range(5)]
    for n in (0, 2, 4):
        send(Put(keys[n], {"n": n}))
    assert send(BatchGet(tuple(reversed(keys)))) == ({"n": 4}, None, {"n": 2}, None, {"n": 0})
    assert send(BatchGet(())) == ()


def test_changing_passed_or_returned_objects_does_not_change_the_store(send: Send) -> None:
    item: dict[str, Any] = {"list": [1], "map": {"a": [1]}}
    values: list[int] = [1]
    send(Put(KEY, item))
    send(Update(KEY, (Set(Path(("new",)), values),)))
    item["list"].append(2)
    item["map"]["a"].append(2)
    values.append(2)
    reads: list[Callable[[], Any]] = [
        lambda: send(Get(KEY)),
        lambda: send(BatchGet((KEY,)))[0],
        lambda: send(Query("p")).items[0],
        lambda: send(Scan()).items[0],
        lambda: send(Update(KEY, (), returning="old")).item,
        lambda: send(Update(KEY, (), returning="new")).item,
        lambda: send(Delete(KEY, Exists(Path(("gone",))))).item,
    ]
    for read in reads:
        seen = read()
        assert seen == {"list": [1], "map": {"a": [1]}, "new": [1]}
        seen["list"].append(3)
        seen["map"]["a"].clear()
        getattr(seen, "content", seen)["new"] = 3


def test_a_condition_is_evaluated_on_the_stored_item(send: Send) -> None:
    absent = Missing(Path(("n",)))
    assert send(Put(KEY, {"n": 1}, condition=is_("n", 1))) == Refused(None)
    assert send(Put(KEY, {"n": 1}, condition=absent)) == Written()
    assert send(Put(KEY, {"n": 2}, condition=absent)) == Refused({"n": 1})
    assert send(Update(KEY, (Set(Path(("n",)), 3),), condition=is_("n", 2))) == Refused({"n": 1})
    assert send(Delete(KEY, condition=is_("n", 2))) == Refused({"n": 1})
    assert send(Get(KEY)) == {"n": 1}
    assert send(Delete(KEY, condition=is_("n", 1))) == Written(existed=True)
    assert send(Delete(KEY, condition=is_("n", 1))) == Refused(None)
    assert send(Delete(KEY)) == Written(existed=False)


def test_update_returns_the_requested_item(send: Send) -> None:
    add = (Increment(Path(("n",)), 1),)
    send(Put(KEY, {"n": 1, "s": "x"}))
    assert send(Update(KEY, add)) == Written()
    assert send(Update(KEY, add, returning="old")) == Written({"n": 2, "s": "x"})
    assert send(Update(KEY, add, returning="new")) == Written({"n": 4, "s": "x"})
    assert send(Update(Key("p", "new"), add, returning="new")) == Written({"n": 1})
    assert send(Update(Key("p", "newer"), add, returning="old")) == Written(None)


def test_an_update_that_does_not_fit_changes_nothing(send: Send) -> None:
    send(Put(KEY, {"s": "x"}, {"by_x": Key("X", "1")}))
    for action in (Increment(Path(("s",)), 1), Set(Path(("gone", "a")), 1), AddTo(Path(("s",)), frozenset({1}))):
        with pytest.raises(BadValue):
            send(Update(KEY, (Set(Path(("n",)), 1), action), {"by_x": None}))
    with pytest.raises(ItemTooLarge, match="409600 are the most"):
        send(Update(KEY, (Append(Path(("list",)), ("x" * 410_000,)),), {"by_x": None}))
    assert send(Get(KEY)) == {"s": "x"}
    assert index_of(send, "X") == [("1", {"s": "x"})]


def test_put_replaces_the_entries_of_the_item(send: Send) -> None:
    send(Put(KEY, {"n": 1}, {"by_x": Key("X", "1"), "by_y": Key("Y", "1")}))
    assert index_of(send, "X") == index_of(send, "Y", "by_y") == [("1", {"n": 1})]
    send(Put(KEY, {"n": 2}, {"by_x": Key("X", "2")}))
    assert index_of(send, "X") == [("2", {"n": 2})]
    assert index_of(send, "Y", "by_y") == []
    send(Put(KEY, {"n": 3}, {"by_x": Key("X", "2"), "by_y": Key("Y", "3")}))
    assert index_of(send, "X") == [("2", {"n": 3})]
    assert index_of(send, "Y", "by_y") == [("3", {"n": 3})]
    send(Put(KEY, {"n": 4}))
    assert index_of(send, "X") == []


def test_update_changes_the_entries_that_it_names(send: Send) -> None:
    send(Put(KEY, {"n": 1}, {"by_x": Key("X", "1"), "by_y": Key("Y", "1")}))
    send(Update(KEY, (Set(Path(("n",)), 2),)))
    assert index_of(send, "X") == index_of(send, "Y", "by_y") == [("1", {"n": 2})]
    send(Update(KEY, (Set(Path(("n",)), 3),), {"by_x": Key("X2", "2"), "by_y": None}))
    assert index_of(send, "X") == index_of(send, "Y", "by_y") == []
    assert index_of(send, "X2") == [("2", {"n": 3})]
    send(Update(KEY, (), {"by_y": Key("Y", "9"), "by_x": None}))
    assert index_of(send, "Y", "by_y") == [("9", {"n": 3})]
    assert index_of(send, "X2") == []
    send(Update(KEY, (Remove(Path(("n",))),), {"by_y": None}))
    assert send(Get(KEY)) == {}


def test_delete_removes_the_entries(send: Send) -> None:
    send(Put(KEY, {"n": 1}, {"by_x": Key("X", "1")}))
    send(Put(Key("p", "other"), {"n": 2}, {"by_x": Key("X", "1")}))
    send(Delete(KEY))
    assert index_of(send, "X") == [("1", {"n": 2})]
    send(BatchWrite((Delete(Key("p", "other")),)))
    assert index_of(send, "X") == []


def test_a_refused_write_does_not_change_the_entries(send: Send) -> None:
    send(Put(KEY, {"n": 1}, {"by_x": Key("X", "1")}))
    no = Exists(Path(("gone",)))
    for write in (
        Put(KEY, {}, {"by_x": Key("X", "2")}, no),
        Update(KEY, (), {"by_x": None}, no),
        Delete(KEY, no),
    ):
        assert isinstance(send(write), Refused)
    assert index_of(send, "X") == [("1", {"n": 1})]


def test_an_index_of_a_later_schema_needs_create(backend: Memory | LocalFile) -> None:
    old = backend.connect(schema_of(indexes=("by_x",)))
    perform(old, CreateTables())
    perform(old, Put(KEY, {"n": 1}, {"by_x": Key("X")}))
    new = backend.connect(schema_of(indexes=("by_x", "by_z")))
    put = Put(KEY, {"n": 2}, {"by_z": Key("Z")})
    for request in (put, Query("Z", index="by_z"), Update(KEY, (), {"by_z": Key("Z")}), BatchWrite((put,))):
        with pytest.raises(BackendError, match=r"index 'by_z' of table 'shop' does not exist: call store.create"):
            perform(new, request)
    assert perform(new, Query("X", index="by_x")).items == ({"n": 1},)
    perform(new, CreateTables())
    assert perform(new, put) == Written()
    assert perform(old, Query("X", index="by_x")).items == ()
    assert perform(new, Query("Z", index="by_z")).items == ({"n": 2},)
    old.close()
    new.close()


def test_batch_write_applies_all_operations(send: Send) -> None:
    send(Put(KEY, {"n": 1}, {"by_x": Key("X")}))
    many = [Put(Key("many", f"{n:05}"), {"n": n}, {"by_x": Key("M", f"{n:05}")}) for n in range(2 * CHUNK + 1)]
    assert send(BatchWrite((*many, Delete(KEY), Delete(Key("not", "there"))))) is None
    assert send(Query("many")).items == send(Query("M", index="by_x")).items == tuple(put.item for put in many)
    assert send(Get(KEY)) is None
    assert index_of(send, "X") == []


@pytest.fixture
def five(send: Send) -> Send:
    for n in range(5):
        key = Key("p", str(n))
        send(Put(key, {"name": str(n), "even": n % 2 == 0}, {"by_x": Key("X", "zyxwv"[n])}))
    send(Put(Key("p2", "0"), {"name": "other", "even": True}))
    return send


def at(n: int) -> Position:
    return Position(Key("p", str(n)))


EVEN, ODD, NONE = is_("even", True), is_("even", False), is_("even", 5)


@pytest.mark.parametrize(
    ("query", "expected", "next_"),
    [
        (Query("p"), "01234", None),
        (Query("p", reverse=True), "43210", None),
        (Query("p", "1", "4"), "123", None),
        (Query("p", "1", "4", reverse=True), "321", None),
        (Query("p", "4", "1"), "", None),
        (Query("gone"), "", None),
        (Query("p", limit=2), "01", 1),
        (Query("p", limit=2, after=at(1)), "23", 3),
        (Query("p", limit=2, after=at(3)), "4", None),
        (Query("p", limit=5), "01234", None),
        (Query("p", "1", "4", limit=3), "123", None),
        (Query("p", limit=2, reverse=True), "43", 3),
        (Query("p", limit=3, reverse=True, after=at(3)), "210", None),
        (Query("p", "1", reverse=True, after=at(3)), "21", None),
        (Query("p", filter=EVEN), "024", None),
        (Query("p", filter=EVEN, limit=2), "02", 3),
        (Query("p", filter=EVEN, limit=3), "024", None),
        (Query("p", filter=ODD, limit=2), "13", None),
        (Query("p", filter=ODD, limit=1, reverse=True), "3", 2),
        (Query("p", filter=NONE, limit=1), "", None),
        (Query("p", filter=EVEN, limit=2, examine=2), "0", 1),
        (Query("p", filter=ODD, limit=2, examine=1), "", 0),
        (Query("p", filter=EVEN, limit=2, examine=3, reverse=True), "42", 2),
        (Query("p", filter=EVEN, limit=9, examine=9), "024", None),
    ],
)
def test_query(five: Send, query: Query, expected: str, next_: int | None) -> None:
    page = five(query)
    assert "".join(item["name"] for item in page.items) == expected
    assert list(page.positions) == [at(int(name)) for name in expected]
    assert page.next == (None if next_ is None else at(next_))
    assert page.count == len(expected)
    counted = five(Query(**{field: getattr(query, field) for field in ("partition", "lo", "hi", "filter")}, count=True))
    whole = five(Query(**{field: getattr(query, field) for field in ("partition", "lo", "hi", "filter")}))
    assert (counted.count, counted.items) == (len(whole.items), ())


def test_count_counts_a_page(five: Send) -> None:
    # the schema has no entities, so all items count as foreign
    assert five(Query("p", count=True, limit=2)) == Page((), (), at(1), 2, strangers=2)
    assert five(Query("p", count=True, limit=2, filter=ODD)) == Page((), (), None, 2, strangers=2)
    assert five(Scan(count=True)).count == 6


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("condition", [None, EVEN, ODD])
def test_pages_of_an_index_together_have_all_items(five: Send, limit: int, reverse: bool, condition: Any) -> None:
    whole = names(five, Query("X", index="by_x", reverse=reverse, filter=condition))
    assert whole == sorted(whole, reverse=not reverse)
    joined: list[str] = []
    after: Position | None = None
    while True:
        page = five(Query("X", index="by_x", reverse=reverse, filter=condition, limit=limit, after=after))
        assert 1 <= len(page.items) <= limit
        joined += [item["name"] for item in page.items]
        after = page.next
        if after is None:
            break
    assert joined == whole


@pytest.mark.parametrize("limit", [1, 2, 4, 6])
def test_pages_of_a_scan_together_have_all_items(five: Send, limit: int) -> None:
    joined: list[str] = []
    page = five(Scan(limit=limit))
    joined += [item["name"] for item in page.items]
    while page.next is not None:
        page = five(Scan(limit=limit, after=page.next))
        joined += [item["name"] for item in page.items]
    assert sorted(joined) == ["0", "1", "2", "3", "4", "other"]
    assert sorted(names(five, Scan(filter=EVEN))) == ["0", "2", "4", "other"]
    page, examined = five(Scan(EVEN, examine=limit)), 0
    while page.next is not None:
        assert page.examined == limit
        examined += limit
        page = five(Scan(EVEN, examine=limit, after=page.next))
    assert examined + page.examined == 6


def test_a_page_ends_after_a_megabyte(send: Send) -> None:
    for n in range(7):
        send(Put(Key("p", str(n)), {"name": str(n), "text": "x" * 300_000}))
    first = send(Query("p"))
    assert len(first.items) == -(-PAGE_BYTES // 300_000) == 4
    assert first.next == at(3)
    last = send(Query("p", after=first.next))
    assert [item["name"] for item in last.items] == ["4", "5", "6"]
    assert last.next is None
    empty = send(Query("p", filter=is_("name", "6"), limit=1))
    assert (empty.items, empty.next) == ((), at(3))


def test_tables_are_separate_and_shared_by_connections(backend: Memory | LocalFile) -> None:
    shop, again, other = (backend.connect(schema_of(name)) for name in ("shop", "shop", "Shop"))
    for connection in (shop, other):
        perform(connection, CreateTables())
    perform(shop, Put(KEY, {"n": 1}, {"by_x": Key("X")}))
    assert perform(again, Get(KEY)) == {"n": 1}
    assert perform(other, Get(KEY)) is None
    assert perform(other, Query("X", index="by_x")).items == ()
    perform(other, DropTables())
    assert perform(again, Query("X", index="by_x")).items == ({"n": 1},)
    shop.close()
    assert perform(again, Get(KEY)) == {"n": 1}
    again.close()
    other.close()


REQUESTS: list[Request] = [
    Get(KEY),
    BatchGet((KEY,)),
    Put(KEY, {}),
    Update(KEY, ()),
    Delete(KEY),
    BatchWrite((Put(KEY, {}),)),
    Query("p"),
    Query("X", index="by_x"),
    Scan(),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_a_table_must_be_created(backend: Memory | LocalFile, request_: Request) -> None:
    connection = backend.connect(schema_of())
    with pytest.raises(BackendError, match=r"does not exist: call store.create\(\) first"):
        perform(connection, request_)
    perform(connection, CreateTables())
    perform(connection, request_)
    perform(connection, DropTables())
    with pytest.raises(BackendError, match="does not exist"):
        perform(connection, request_)
    connection.close()


def test_a_dropped_table_is_empty_when_created_again(send: Send) -> None:
    send(Put(KEY, {"n": 1}, {"by_x": Key("X")}))
    send(DropTables())
    send(DropTables())
    send(CreateTables())
    assert send(Scan()) == Page()
    assert send(Query("X", index="by_x")) == Page()
    send(Put(KEY, {"n": 2}, {"by_x": Key("X")}))
    send(CreateTables())
    assert index_of(send, "X") == [("", {"n": 2})]


async def test_async_requests(backend: Memory | LocalFile) -> None:
    connection = backend.connect(schema_of())
    await aperform(connection, CreateTables())
    writes = tuple(Put(Key("p", str(n)), {"n": n}) for n in range(8))
    assert await aperform(connection, Gather(writes)) == (Written(),) * 8
    assert (await aperform(connection, Query("p"))).items == tuple(put.item for put in writes)
    with pytest.raises(BackendError, match="index 'gone'"):
        await aperform(connection, Query("p", index="gone"))
    await connection.aclose()
    await connection.aclose()


def test_a_closed_connection_raises(backend: Memory | LocalFile) -> None:
    connection = backend.connect(schema_of())
    perform(connection, CreateTables())
    connection.close()
    connection.close()
    with pytest.raises(BackendError, match="connection to table 'shop' was closed"):
        perform(connection, Get(KEY))


def test_a_native_request_prints(backend: Memory | LocalFile) -> None:
    connection = backend.connect(schema_of())
    assert repr(next(connection.steps(Get(KEY)))) == repr(Get(KEY))
    connection.close()


def test_a_page_ends_when_it_has_its_bytes() -> None:
    large = {**ITEM, "data": b"x" * 3000}  # not estimated
    size = stored_size(large, Key("p", "a"), {})
    assert size < len(encode(large))  # as base64
    for page_bytes, most in ((size - 1, 1), (size, 1), (size + 1, 2), (2 * size, 2), (2 * size + 1, 3)):
        connection = Memory(page_bytes=page_bytes).connect(schema_of("things"))
        perform(connection, CreateTables())
        for sort in "abcd":
            perform(connection, Put(Key("p", sort), large, {}))
        assert len(perform(connection, Query("p")).items) == most


def test_memory_keeps_nothing_of_partitions_without_items() -> None:
    table, key = MemoryTable(), Key("p", "s")
    table.add_indexes(["by_x"])
    stored = Record(encode(ITEM), {"by_x": Key("x")})
    with table.block:
        table.apply((Change(key, None, stored), Change(key, stored, None)))
    assert not table._partitions
    assert not table._names
    assert table._indexes == {"by_x": {}}
