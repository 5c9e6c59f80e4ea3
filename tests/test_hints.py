"""Mistakes of people who know another library: the error says what to write instead."""
# mypy: disable-error-code="arg-type, assignment, attr-defined, call-arg, call-overload, misc"
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportCallIssue=false
# ruff: noqa: PLW0108  # a mistake is made inside the test

import asyncio
import contextlib
import copy
import inspect
import pickle
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any

import pytest
from pydantic import ConfigDict, Field, PrivateAttr

from odm import AccessPattern, AsyncStore, Entity, PrimaryKey, SchemaError, Store, Stored, Table, set_
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.hints import (
    BATCH,
    BIGTABLE_OPTIONS,
    DYNAMODB_OPTIONS,
    ENTITY,
    KEY_OPTIONS,
    PAGE,
    PATTERN,
    QUERY,
    RESULTS,
    STORE,
    STORE_OPTIONS,
    TABLE_OPTIONS,
    TRANSACTION,
    hint,
)
from odm.stores.sync import Batch, Transaction
from tests.shop import Order, shop, store

ORDER = Order(customer_id="c", order_id="o")
QUERY_ = Order.by_date(customer_id="c")
KEY = Order.primary(customer_id="c", order_id="o")
db: Any = store(ORDER)
async_db: Any = AsyncStore(shop, Memory())


def batch(call: Callable[[Any], object]) -> None:
    with db.batch() as open_:
        call(open_)


def awaited(call: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], object]:
    return lambda: asyncio.run(call())


async def await_a_sync_get() -> None:
    await db.get(KEY)


async def await_a_sync_put() -> None:
    await db.put(ORDER)


async def await_a_sync_query() -> None:
    await db.query(QUERY_)


async def await_a_sync_create() -> None:
    await db.create()


async def loop_async_over_a_sync_query() -> list[object]:
    return [order async for order in db.query(QUERY_)]


async def loop_async_over_a_sync_scan() -> None:
    async for _ in db.scan(Order):
        raise AssertionError


async def await_an_async_query() -> None:
    await async_db.query(QUERY_)


async def loop_over_an_async_query() -> None:
    for _ in async_db.query(QUERY_):
        raise AssertionError


async def list_of_an_async_scan() -> None:
    list(async_db.scan(Order))


async def len_of_an_async_query() -> None:
    len(async_db.query(QUERY_))


async def part_of_an_async_query() -> None:
    async_db.query(QUERY_)[0]


async def truth_of_an_async_query() -> None:
    assert async_db.query(QUERY_)


async def put_what_was_not_awaited() -> None:
    await async_db.put(async_db.get(KEY))


def tx(call: Callable[[Any], object]) -> None:
    with db.transaction() as open_:
        call(open_)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "key by position": (lambda: db.get(Order, "c", "o"), r"give key fields by name: get\(Order, customer_id=\.\.\., "),
    "key in a dict": (lambda: db.one(Order, {"order_id": "o"}), r"give key fields by name: one\(Order, customer_id="),
    "delete by position": (lambda: db.delete(Order, "c"), r"give key fields by name: delete\(Order, customer_id="),
    "delete in a batch": (
        lambda: db.batch().delete(Order, "c"),
        r"give key fields by name: delete\(Order, customer_id=",
    ),
    "check by position": (lambda: db.transaction().check(Order, "c"), r"by name: check\(Order, customer_id=\.\.\., "),
    "exists by position": (lambda: db.exists(Order, "c"), r"give key fields by name: exists\(Order, customer_id="),
    "option by position": (lambda: db.get(KEY, False), r"give options by name, such as consistent=False"),
    "no key": (lambda: db.get(Order), r"Order alone is not a key: .* Order\.primary\(customer_id=\.\.\., order_id"),
    "get of an entity": (lambda: db.get(ORDER), r"takes a key, not an entity \(Order\): write Order\.primary\("),
    "values in an update": (lambda: db.update(ORDER, status="x"), r"write set_\(Order\.status, 'x'\), or \*set_fields"),
    "dict in an update": (lambda: db.update(ORDER, {"status": "x"}), r"write \*set_fields\(Order, changes\)"),
    "list in an update": (lambda: db.update(ORDER, [set_(Order.status, "open")]), r"put a \* in front of the list"),
    "key in an update": (lambda: db.update(Order, order_id="o"), r"write update\(Order\.primary\(customer_id=\.\.\., "),
    "values in tx.update": (lambda: tx(lambda tx: tx.update(KEY, status="x")), r"write set_\(Order\.status, 'x'\)"),
    "put of a dict": (lambda: db.put({"order_id": "o"}), r"make one of it, as in Order\(\*\*values\)"),
    "put of a list": (lambda: db.put([ORDER]), r"several with db\.batch\(\)"),
    "db.add": (lambda: db.add(ORDER), r"Store has no 'add': write db\.put\(entity\)"),
    "db.commit": (lambda: db.commit(), r"each call is sent at once"),
    "query.filter": (lambda: QUERY_.filter(total=1), r"write query\.where\(Order\.field > value\)"),
    "where(total=1)": (lambda: QUERY_.where(total=1), r"write where\(Order\.total == 1\)"),
    "query.all": (lambda: QUERY_.all(), r"write list\(db\.query\(query\)\)"),
    "query.order_by": (lambda: QUERY_.order_by(Order.total), r"write query\.reverse\(\)"),
    "no backend": (lambda: Store(shop), r"^Store\(table, backend\): the backend is missing; write Store\(table, Mem"),
    "no backend, async": (lambda: AsyncStore(shop), r"^AsyncStore\(table, backend\): the backend is missing; write As"),
    "no table": (lambda: Store(backend=Memory()), r"the table is missing; write Store\(table, Memory\(\)\)"),
    "len of results": (lambda: len(db.query(QUERY_)), r"have no length: write db\.count\(query\), or len\(list"),
    "part of results": (lambda: db.query(QUERY_)[0], r"have no positions: write db\.first\(query\), list"),
    "slice of results": (lambda: db.scan(Order)[:3], r"db\.page\(query, size=25\)\.items"),
    "truth of results": (lambda: bool(db.query(QUERY_)), r"no truth value: write db\.first\(query\) is not None"),
    "results.first": (lambda: db.query(QUERY_).first(), r"Results has no 'first': write db\.first\(query\)"),
    "results.all": (lambda: db.query(QUERY_).all(), r"write list\(db\.query\(query\)\)"),
    "results.count": (lambda: db.scan(Order).count(), r"write db\.count\(query\)"),
    "results.filter": (lambda: db.query(QUERY_).filter(total=1), r"belong to the query, before it is read"),
    "await of a sync get": (awaited(await_a_sync_get), r"^a Store is not async.* leave it out, or open an AsyncStore"),
    "await of a sync put": (awaited(await_a_sync_put), r"^a Store is not async"),
    "await of a sync query": (awaited(await_a_sync_query), r"^a Store is not async"),
    "await of a sync create": (awaited(await_a_sync_create), r"^a Store is not async"),
    "async for over a sync query": (awaited(loop_async_over_a_sync_query), r"take no async for: write for, or open an"),
    "async for over a sync scan": (awaited(loop_async_over_a_sync_scan), r"take no async for"),
    "await of an async query": (awaited(await_an_async_query), r"nothing to await: write async for, or \[x async for"),
    "for over an async query": (awaited(loop_over_an_async_query), r"are read async: write async for"),
    "list of an async scan": (awaited(list_of_an_async_scan), r"write async for, or \[x async for x in \.\.\.\]"),
    "len of an async query": (awaited(len_of_an_async_query), r"write await db\.count\(query\)"),
    "part of an async query": (awaited(part_of_an_async_query), r"write await db\.first\(query\)"),
    "truth of an async query": (awaited(truth_of_an_async_query), r"write await db\.first\(query\) is not None"),
    "put of a coroutine": (awaited(put_what_was_not_awaited), r"await it, as in entity = await db\.get"),
    "DynamoDB(region_name)": (
        lambda: DynamoDB(region_name="eu-west-1"),
        r"no option 'region_name': write region=",
    ),
    "DynamoDB(aws_access_key_id)": (
        lambda: DynamoDB(aws_access_key_id="x"),
        r"write DynamoDB\(boto3\.Session\(",
    ),
    "DynamoDB(profile_name)": (lambda: DynamoDB(profile_name="dev"), r"write profile=\.\.\."),
    "DynamoDB(endpoint)": (lambda: DynamoDB(endpoint="http://localhost:8000"), r"write endpoint_url=\.\.\."),
    "DynamoDB(host)": (lambda: DynamoDB(host="http://localhost:8000"), r"write endpoint_url=\.\.\."),
    "DynamoDB(table_name)": (
        lambda: DynamoDB(table_name="shop"),
        r"the name is that of the Table: write Table",
    ),
    "DynamoDB(read_capacity_units)": (lambda: DynamoDB(read_capacity_units=5), r"write billing=Provisioned\(read=5"),
    "Bigtable(project_id)": (lambda: Bigtable(project_id="p", instance_id="i"), r"write project=\.\.\."),
    "Bigtable(emulator_host)": (lambda: Bigtable("p", "i", emulator_host="localhost:1"), r"write endpoint='localhost"),
    "Store(region_name)": (lambda: Store(shop, region_name="x"), r"write Store\(table, DynamoDB\(region=\.\.\.\)\)"),
    "Store(table_name)": (lambda: Store(shop, Memory(), table_name="x"), r"write name=\.\.\."),
    "Table(hash_key)": (lambda: Table("hints", hash_key="id"), r"primary = PrimaryKey\('CUSTOMER#\{customer_id\}'"),
    "PrimaryKey(hash_key)": (
        lambda: PrimaryKey(hash_key="{a}"),
        r"partition key first: PrimaryKey\('CUSTOMER",
    ),
    "AccessPattern(sort_key)": (
        lambda: AccessPattern("A", sort_key="{a}"),
        r"sort key second: AccessPattern",
    ),
    "AccessPattern(index_name)": (lambda: AccessPattern("A", index_name="gsi1"), r"write index=\.\.\."),
    "loop over a page": (lambda: list(db.page(QUERY_)), r"loop over page\.items"),
    "part of a page": (lambda: db.page(QUERY_)[0], r"take page\.items\[0\]"),
    "len of a page": (lambda: len(db.page(QUERY_)), r"write len\(page\.items\)"),
    "page.next": (lambda: db.page(QUERY_).last_evaluated_key, r"write page\.cursor"),
    "order.save": (lambda: ORDER.save(), r"Order has no field or method 'save': write db\.save\(entity\) if you read"),
    "Order.objects": (lambda: Order.objects.all(), r"write db\.query\(Order\.by_\.\.\.\(\.\.\.\)\) with a pattern"),
    "Order.query": (lambda: Order.query("c"), r"db\.scan\(Order\) for all"),
    "Order.by_date.query": (lambda: Order.by_date.query("c"), r"call the pattern with values"),
    "Order.total.desc": (lambda: Order.total.desc(), r"write query\.reverse\(\)"),
    "Order.total.eq": (lambda: Order.total.eq(5), r"write Order\.total == value"),
    "batch.insert": (lambda: batch(lambda batch: batch.insert(ORDER)), r"a batch has no conditions: write batch\.put"),
    "tx.get": (lambda: tx(lambda tx: tx.get(KEY)), r"write db\.get\(\.\.\.\) before the block"),
    "with of an AsyncStore": (lambda: AsyncStore(shop, Memory()).__enter__(), r"is async: write async with"),
    "async with of a Store": (lambda: db.__aenter__().send(None), r"is not async: write with"),
}


@pytest.mark.parametrize(("use", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(use: Callable[[], object], says: str) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError), match=says):
        use()


class Open(Entity, table=Table("hints")):
    model_config = ConfigDict(extra="allow")

    objects: str = ""
    _seen: int = PrivateAttr(default=1)

    primary = PrimaryKey("OPEN#{objects}")


def test_names_that_exist_are_theirs() -> None:
    one = Open(objects="a", save="extra")
    assert (one.objects, one.save, one._seen, repr(Open.objects)) == ("a", "extra", 1, "Open.objects")
    page = db.page(QUERY_)
    for thing in (QUERY_, page, ORDER, one):
        assert copy.deepcopy(thing) == copy.copy(thing) == pickle.loads(pickle.dumps(thing)) == thing
        assert not hasattr(thing, "filter")
        assert not hasattr(thing, "nonsense")
    assert bool(page) is True
    assert (db.with_options(retries=1).one(KEY), hasattr(db, "add")) == (ORDER, False)
    with pytest.raises(AttributeError, match=r"^'Store' object has no attribute 'nonsense'$"):
        db.nonsense()


async def test_sync_calls_in_async_code_are_fine() -> None:
    first, orders = db.get(KEY), [one for one in db.query(QUERY_)]  # noqa: C416  # a loop in this code
    with db.batch() as batch:
        batch.put(ORDER)
    await asyncio.sleep(0)
    assert (first, orders, await asyncio.to_thread(db.get, KEY)) == (ORDER, [ORDER], ORDER)


async def test_results_are_iterators() -> None:
    with contextlib.closing(db.query(QUERY_)) as results:
        assert next(results) == ORDER
    assert list(results) == []
    await async_db.create()
    await async_db.put(ORDER)
    async with contextlib.aclosing(async_db.query(QUERY_)) as results:
        assert await anext(results) == ORDER
    assert [order async for order in results] == []
    for thing in (db.query(QUERY_), async_db.query(QUERY_), ORDER):  # templates and servers await what they can
        assert not inspect.isawaitable(thing)


def _reserved() -> None:
    class Fitted(Entity, table=Table("hints")):
        model_config: str
        model_id: str

        primary = PrimaryKey("MODEL#{model_id}")


def _conflicting() -> None:
    class Fitted(Entity, table=Table("hints")):
        model_dump: str  # pyright: ignore[reportIncompatibleMethodOverride]


def _hidden() -> None:
    table = Table("hints")
    with pytest.warns(UserWarning, match="shadows an attribute"):

        class Fitted(Entity, table=table):
            model_id: str
            model_fields_set: str  # pyright: ignore[reportIncompatibleMethodOverride]

            primary = PrimaryKey("MODEL#{model_id}")

    table.compile()


def _tablename() -> None:
    class Fitted(Entity):
        __tablename__ = "fitted"


def _meta() -> None:
    class Fitted(Entity):
        class Meta:
            table_name = "fitted"


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (_reserved, r"^Fitted\.model_config: pydantic uses the name 'model_config', .*Stored\(\"model_config\"\)"),
        (_conflicting, r"^Fitted\.model_dump: pydantic uses .*: rename it, and keep the stored name"),
        (_hidden, r"^Fitted\.model_fields_set: a field of this name is hidden by an attribute .*Rename the field"),
        (
            _tablename,
            r"^Fitted\.__tablename__ names no table here: write class Fitted\(Entity, table=T",
        ),
        (_meta, r"^Fitted\.Meta\.table_name names no table here: write class Fitted"),
    ],
)
def test_a_name_that_has_another_meaning_is_refused(declare: Callable[[], None], says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        declare()


def test_a_field_for_a_reserved_name_keeps_that_name_elsewhere() -> None:
    table = Table("hints")

    class Fitted(Entity, table=table):
        model_id: str
        config: Annotated[str, Stored("model_config")] = Field(alias="model_config")

        primary = PrimaryKey("MODEL#{model_id}")

    with Store(table, Memory()) as fitted:
        fitted.create()
        fitted.put(Fitted.model_validate({"model_id": "1", "model_config": "x"}))
        assert fitted.one(Fitted, model_id="1").model_dump(by_alias=True) == {"model_id": "1", "model_config": "x"}


OPTIONS: list[tuple[Any, dict[str, str]]] = [
    (Store, STORE_OPTIONS),
    (DynamoDB, DYNAMODB_OPTIONS),
    (Bigtable, BIGTABLE_OPTIONS),
    (Table, TABLE_OPTIONS),
    (PrimaryKey, KEY_OPTIONS),
    (AccessPattern, KEY_OPTIONS),
]


@pytest.mark.parametrize(("thing", "hints"), OPTIONS, ids=lambda one: getattr(one, "__name__", ""))
def test_no_hint_is_about_an_argument_that_exists(thing: Any, hints: Mapping[str, str]) -> None:
    assert not hints.keys() & inspect.signature(thing).parameters.keys()
    for name in hints:
        assert hint(hints, name, "Owner")  # its braces are formatted
        with pytest.raises(TypeError, match=f"has no option {name!r}: "):
            thing(**{name: None})


HINTS: list[tuple[Any, dict[str, str]]] = [
    (Store, STORE),
    (AsyncStore, STORE),
    (Batch, BATCH),
    (Transaction, TRANSACTION),
    (type(QUERY_), QUERY),
    (type(db.page(QUERY_)), PAGE),
    (type(db.query(QUERY_)), RESULTS),
    (type(async_db.query(QUERY_)), RESULTS),
    (Entity, ENTITY),
    (type(Order.by_date), PATTERN),
]


@pytest.mark.parametrize(("thing", "hints"), HINTS, ids=lambda one: getattr(one, "__name__", ""))
def test_no_hint_is_about_a_name_that_exists(thing: Any, hints: dict[str, str]) -> None:
    assert not [name for name in hints if hasattr(thing, name)]
