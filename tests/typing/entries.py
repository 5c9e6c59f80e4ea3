"""What type checkers know of every public entry; read by them, never run. See test_checkers.py."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Annotated, Any, assert_type

from pydantic import TypeAdapter

import odm
from odm import (
    AUTO,
    AccessPattern,
    AsyncBatch,
    AsyncStore,
    AsyncTransaction,
    Batch,
    Compressed,
    Condition,
    CreatedAt,
    Entity,
    Grouped,
    Id,
    Page,
    PrimaryKey,
    Query,
    Revision,
    Shards,
    Store,
    Table,
    Transaction,
    UpdatedAt,
    add_to,
    add_value,
    append,
    between,
    collection,
    contains,
    discard_from,
    exists,
    field,
    increment,
    is_in,
    missing,
    not_,
    prepend,
    remove,
    select,
    set_,
    set_if_missing,
    size,
    some,
    starts_with,
    upgrade,
)
from odm import Calls as CallsOfOdm
from odm import Explanation as ExplanationOfOdm
from odm import GCRule as GCRuleOfOdm
from odm import Inserted as InsertedOfOdm
from odm.backends.bigtable import GCRule
from odm.backends.local import Compaction, Faults, Happened, LocalFile, Memory
from odm.changes import Inserted
from odm.expressions.nodes import Action
from odm.extend import Calls, Gen, primary_key
from odm.patterns.adjacency_list import AdjacencyList, edge
from odm.patterns.graph import Walk, walk
from odm.patterns.pointer import Pointer
from odm.patterns.unique import Unique
from odm.patterns.versioned import Versioned
from odm.results import Backfilled, CellVersion, Explanation, Meter, Partial, RequestInfo, Usage
from odm.schema.model import Schema
from odm.testing import Clock, Ids, OpenStore


def moved(do: CallsOfOdm, explained: ExplanationOfOdm, rule: GCRuleOfOdm, change: "InsertedOfOdm[Order]") -> None:
    """Names that `odm` had before keep their types there."""
    assert_type(do, Calls)
    assert_type(explained, Explanation)
    assert_type(rule, GCRule)
    assert_type(change, Inserted[Order])
    assert_type(odm.extend.compiled(Order), odm.extend.EntityView)


def slow(info: RequestInfo) -> None:
    assert_type(info.operation, str)
    assert_type(info.seconds, float)
    assert_type(info.units, float | None)
    assert_type(info.error, Exception | None)


shop = Table("shop", keys=("PK", "SK"), row_key_join="##")
quotes = Table("quotes", row_style="verbatim", row_key_join="/")


class Order(Entity, table=shop, tag="o"):
    customer_id: str
    order_id: str
    placed_at: datetime
    total: Decimal = Decimal(0)
    note: str | None = None
    lines: list[str] = []
    tags: set[str] = set()

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_date = AccessPattern("CUSTOMER#{customer_id}", "{placed_at}", index="gsi1", when=field("total") > 0)
    spread = AccessPattern("ALL", "{placed_at}", shards=Shards(8, by="order_id"))
    by_total = AccessPattern("CUSTOMER#{customer_id}", "{placed_at}", local=True)


class Ticket(Entity, table=shop):
    ticket_id: Annotated[str, Id()] = AUTO
    title: str
    body: Annotated[str, Compressed("gzip")] = ""
    created_at: Annotated[datetime, CreatedAt] = AUTO
    updated_at: Annotated[datetime, UpdatedAt] = AUTO

    primary = PrimaryKey("TICKET#{ticket_id}")


class Visit(Entity, table=shop, version=3, keep=5):
    page: str
    number: int
    seen: int = 0

    primary = PrimaryKey("VISITS#{page}", "{number}")

    @upgrade(from_=1)
    @staticmethod
    def number_it(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "number": 0}

    @upgrade(from_=2)
    @classmethod
    def name_it(cls, item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "page": cls.__name__}


assert_type(Visit.number_it({}), dict[str, Any])
assert_type(Visit.name_it({}), dict[str, Any])

NOW = datetime.now(UTC)
order = Order(customer_id="c", order_id="o", placed_at=NOW)
assert_type(shop.compile(), Schema)

# Field references have the types of their fields.
assert_type(Order.total, Decimal)
assert_type(Order.note, str | None)
assert_type(some(Order.note), str)
assert_type(size(Order.lines), int)
assert_type(order.total, Decimal)

# Conditions and actions.
assert_type(between(Order.total, Decimal(1), Decimal(2)), Condition)
assert_type(starts_with(Order.note, "a"), Condition)
assert_type(contains(Order.tags, "a"), Condition)
assert_type(exists(Order.note), Condition)
assert_type(missing(Order.note), Condition)
assert_type(is_in(Order.order_id, ["a", "b"]), Condition)
assert_type(not_(Order.total > 5), Condition)
assert_type(exists(Order.note) & missing(Order.note) | exists(Order.note), Condition)
assert_type(set_(Order.total, Decimal(1)), Action)
assert_type(set_(Order.note, None), Action)
assert_type(set_if_missing(Order.note, "a"), Action)
assert_type(remove(Order.note), Action)
assert_type(increment(Order.total, 2), Action)
assert_type(append(Order.lines, "a", "b"), Action)
assert_type(prepend(Order.lines, "a"), Action)
assert_type(add_to(Order.tags, "a"), Action)
assert_type(discard_from(Order.tags, "a"), Action)

# Queries.
key = Order.primary(customer_id="c", order_id="o")
assert_type(key, Query[Order])
assert_type(Order.by_date(customer_id="c"), Query[Order])
assert_type(select(Order).where(Order.total > 5, exists(Order.note)).reverse().limit(3), Query[Order])
assert_type(collection(key, prefix=True), Query[Entity])
assert_type(collection(key, Order), Query[Order])
assert_type(collection(key, Order, Ticket, prefix=True), Query[Order | Ticket])
assert_type(collection(key, Order, Ticket, Visit).where(Order.total > 5), Query[Order | Ticket | Visit])


def automatic(db: Store) -> None:
    assert_type(db.put(Ticket(title="t")).created_at, datetime)
    assert_type(db.put(Ticket(title="t", ticket_id="x", body="text")).body, str)


def pages(page: Page[Order]) -> None:
    assert_type(page.items, Sequence[Order])
    assert_type(TypeAdapter(Page[Order]).validate_json(""), Page[Order])


def blocking(db: Store) -> None:
    assert_type(db.create(), None)
    assert_type(db.get(Order, customer_id="c", order_id="o"), Order | None)
    assert_type(db.get(key, consistent=False), Order | None)
    assert_type(db.one(Order, customer_id="c", order_id="o"), Order)
    assert_type(db.one(key), Order)
    assert_type(db.get_many([key, key]), list[Order | None])
    assert_type(db.exists(key), bool)
    assert_type(db.exists(Order, customer_id="c", order_id="o"), bool)
    assert_type(db.put(order, when=missing(Order.note)), Order)
    assert_type(db.insert(order), Order)
    assert_type(db.update(order, set_(Order.total, Decimal(1))), None)
    assert_type(db.update(key, remove(Order.note), returning="none"), None)
    assert_type(db.with_options(retry_safe=True).update(key, remove(Order.note)), None)
    assert_type(db.update(key, remove(Order.note), returning="new", when=Order.total > 5), Order)
    assert_type(db.update(key, remove(Order.note), returning="old", upsert=True), Order | None)
    assert_type(db.delete(order), bool)
    assert_type(db.delete(key, when=Order.total > 5), bool)
    assert_type(db.delete(Order, customer_id="c", order_id="o"), bool)
    assert_type(db.delete_all(collection(key)), int)
    assert_type(db.query(key), Iterator[Order])
    assert_type(db.query(collection(key)), Iterator[Entity])
    assert_type(db.page(key, size=5, after=None), Page[Order])
    assert_type(db.page(key).items, Sequence[Order])
    assert_type(db.page(key).cursor, str | None)
    assert_type(db.first(select(Order)), Order | None)
    assert_type(db.count(key), int)
    assert_type(db.scan(Order, Order.total > 5), Iterator[Order])
    assert_type(db.scan(), Iterator[Entity])
    assert_type(db.scan(Order, segments=4), Iterator[Order])
    assert_type(db.scan(segment=(0, 4)), Iterator[Entity])
    assert_type(db.explain(key), Explanation)
    assert_type(db.explain(order, set_(Order.note, None)), Explanation)
    assert_type(db.explain(order, write="insert"), Explanation)
    with db.batch() as batch:
        assert_type(batch, Batch)
        assert_type(batch.put(order), Order)
        assert_type(batch.delete(key), None)
        assert_type(batch.delete(Order, customer_id="c", order_id="o"), None)
    with db as same:
        assert_type(same, Store)


def collecting(db: Store) -> None:
    assert_type(db.query(collection(key, Order, Ticket)), Iterator[Order | Ticket])
    assert_type(db.page(collection(key, Order, Ticket)), Page[Order | Ticket])
    assert_type(db.first(collection(key, Order, Ticket)), Order | Ticket | None)
    assert_type(Grouped(db.query(collection(key)))[Order], list[Order])


async def backfilling(db: Store, other: AsyncStore) -> None:
    assert_type(db.backfill(Order.by_date, rate=5, on_progress=lambda far: far.cursor), Backfilled)
    assert_type(await other.backfill(Order), Backfilled)


def metering(db: Store, other: AsyncStore) -> None:
    with db.meter() as meter, other.meter() as another:
        assert_type(meter, Meter)
        assert_type(another, Meter)
    assert_type(meter.calls, int)
    assert_type(meter.read_units, float)
    assert_type(meter.write_units, float)
    assert_type(meter.by_pattern, Mapping[str, Usage])
    assert_type(meter.by_index[None].read_units, float)


def transacting(db: Store) -> None:
    with db.transaction() as tx:
        assert_type(tx, Transaction)
        assert_type(tx.put(order, when=missing(Order.note)), Order)
        assert_type(tx.insert(order), Order)
        assert_type(tx.update(key, set_(Order.total, Decimal(1)), when=Order.total > 1, upsert=True), None)
        assert_type(tx.update(order, set_(Order.total, Decimal(1)), returning="new"), Order)
        assert_type(tx.delete(Order, customer_id="c", order_id="o"), None)
        assert_type(tx.delete(order, when=Order.total > 1), None)
        assert_type(tx.check(Order, customer_id="c", order_id="o"), None)
        assert_type(tx.check(key, when=exists(Order.note)), None)


async def awaiting(db: AsyncStore) -> None:
    assert_type(await db.create(), None)
    assert_type(await db.get(Order, customer_id="c", order_id="o"), Order | None)
    assert_type(await db.get(key, consistent=False), Order | None)
    assert_type(await db.one(Order, customer_id="c", order_id="o"), Order)
    assert_type(await db.one(key), Order)
    assert_type(await db.get_many([key, key]), list[Order | None])
    assert_type(await db.exists(key), bool)
    assert_type(await db.put(order, when=missing(Order.note)), Order)
    assert_type(await db.insert(order), Order)
    assert_type(await db.update(order, set_(Order.total, Decimal(1))), None)
    assert_type(await db.update(key, remove(Order.note), returning="new"), Order)
    assert_type(await db.update(key, remove(Order.note), returning="old"), Order | None)
    assert_type(await db.delete(order), bool)
    assert_type(await db.delete_all(collection(key)), int)
    assert_type(db.query(key), AsyncIterator[Order])
    assert_type(await db.page(key, size=5, after=None), Page[Order])
    assert_type(await db.first(select(Order)), Order | None)
    assert_type(await db.count(key), int)
    assert_type(db.scan(Order, Order.total > 5), AsyncIterator[Order])
    assert_type(db.scan(), AsyncIterator[Entity])
    assert_type(db.scan(Order, segments=4), AsyncIterator[Order])
    assert_type(db.scan(segment=(0, 4)), AsyncIterator[Entity])
    assert_type(db.explain(key), Explanation)
    async with db.transaction() as tx:
        assert_type(tx, AsyncTransaction)
        assert_type(tx.put(order), Order)
        assert_type(tx.check(key), None)
    async with db.batch() as batch:
        assert_type(batch, AsyncBatch)
        assert_type(await batch.put(order), Order)
        assert_type(await batch.delete(key), None)
        assert_type(await batch.delete(Order, customer_id="c", order_id="o"), None)
    async with db as same:
        assert_type(same, AsyncStore)
    assert_type([found async for found in db.query(key)], list[Order])


class Knows(Entity, table=shop):
    one: str
    other: str
    since: datetime

    primary, out, into = edge("CUSTOMER#{one}", "KNOWS", "CUSTOMER#{other}", sort="{since}")


class Bought(Entity, table=shop):
    who: str
    sku: str

    primary, into = edge("CUSTOMER#{who}", "BOUGHT", "PRODUCT#{sku}")


async def adjacency_lists(db: Store, adb: AsyncStore) -> None:
    assert_type(Knows.out(one="a"), Query[Knows])
    assert_type(Bought.into(sku="s"), Query[Bought])
    assert_type(Bought.primary(who="a"), Query[Bought])
    circle = AdjacencyList(Knows, Bought)
    assert_type(db.run(circle.neighbours(Knows.out(one="a"))), list[tuple[Knows, Any]])
    assert_type(await adb.run(circle.remove_node(key)), bool)
    assert_type(await adb.run(walk(circle, key, out=[Knows], depth=1, most=1)), Walk)


class Account(Entity, table=shop):
    account_id: str
    email: str
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("ACCOUNT#{account_id}", "v0")
    unique_email = Unique("email")
    newest = Pointer("NEWEST", tracks="account_id")
    history = Versioned("ACCOUNT#{account_id}", "v{version}")


def adding(db: Store) -> None:
    assert_type(add_value(Visit.seen, 3), Action)
    assert_type(db.update(Visit.primary(page="p", number=1), add_value(Visit.seen, 3)), None)


async def former_values(db: Store, adb: AsyncStore) -> None:
    assert_type(db.cell_versions(key, Order.total), list[CellVersion[Decimal]])
    assert_type(await adb.cell_versions(order, Order.note), list[CellVersion[str | None]])
    assert_type(db.cell_versions(order, Order.total)[0].at, datetime)


async def companions(db: Store, adb: AsyncStore) -> None:
    assert_type(db.get(Account.unique_email(email="a")), Account | None)
    assert_type(await adb.one(Account.unique_email(email="a")), Account)
    assert_type(db.get(Account.newest()), Account | None)
    assert_type(await adb.one(Account.newest()), Account)
    assert_type(Account.history(account_id="a").reverse(), Query[Account])
    assert_type(db.query(Account.history(account_id="a")), Iterator[Account])
    assert_type(db.get(Account.history.version(1, account_id="a")), Account | None)
    assert_type(await adb.run(Account.history.revert(to=1, account_id="a")), Account)
    assert_type(primary_key(Account), PrimaryKey)


def testing(odm_memory: OpenStore, faults: Faults, clock: Clock) -> None:
    assert_type(odm_memory(shop), Store)
    assert_type(odm_memory(shop, AsyncStore, cursor_secret="s"), AsyncStore)
    assert_type(faults.throttle("batch", done=3, times=None, on=order), None)
    assert_type(faults.happened, tuple[Happened, ...])
    assert_type(clock.now(), datetime)
    assert_type(Ids().text(), str)
    assert_type(Memory(clock=clock, index_lag=0.5, faults=faults, page_bytes=1), Memory)


assert_type(LocalFile("shop.db", timeout=5).compact(), Compaction)
assert_type(Store(shop, Memory()), Store)
assert_type(AsyncStore(shop, LocalFile("shop.db"), cursor_secret=b"secret"), AsyncStore)
assert_type(Store(shop, Memory(), prefix="p-", limits="native", on_unknown="skip", on_request=slow), Store)
assert_type(AsyncStore(shop, Memory(), on_request=print, clock=lambda: 0.5, random=Random(7)), AsyncStore)


def blocking_parts(db: Store) -> None:
    key = Order.primary(customer_id="c", order_id="o")
    only = [Order.total, Order.placed_at]
    assert_type(db.get(Order, customer_id="c", order_id="o", only=only), Partial[Order] | None)
    assert_type(db.get(key, only=[Order.total]), Partial[Order] | None)
    part = db.one(Order, customer_id="c", order_id="o", only=only)
    assert_type(part, Partial[Order])
    assert_type(db.one(key, only=only), Partial[Order])
    assert_type(part[Order.total], Decimal)
    assert_type(part.get(Order.placed_at), datetime | None)
    assert_type(part.key, Query[Order])
    assert_type(db.get_many([key, key], only=only), list[Partial[Order] | None])
    assert_type(db.query(key, only=only), Iterator[Partial[Order]])
    assert_type(db.page(key, only=only), Page[Partial[Order]])
    assert_type(db.first(key, only=only), Partial[Order] | None)
    assert_type(db.scan(Order, Order.total > 5, only=only, prefix={"customer_id": "c"}), Iterator[Partial[Order]])
    assert_type(db.scan(Order, start={"customer_id": "c"}, stop={"customer_id": "d"}, sample=0.1), Iterator[Order])
    assert_type(db.scan(sample=0.1), Iterator[Entity])


async def awaiting_parts(db: AsyncStore) -> None:
    key = Order.primary(customer_id="c", order_id="o")
    only = [Order.total, Order.placed_at]
    assert_type(await db.get(Order, customer_id="c", order_id="o", only=only), Partial[Order] | None)
    assert_type(await db.one(key, only=only), Partial[Order])
    assert_type(await db.get_many([key, key], only=only), list[Partial[Order] | None])
    assert_type(db.query(key, only=only), AsyncIterator[Partial[Order]])
    assert_type(await db.page(key, only=only), Page[Partial[Order]])
    assert_type(await db.first(key, only=only), Partial[Order] | None)
    assert_type(db.scan(Order, only=only, sample=0.1), AsyncIterator[Partial[Order]])


def parts(do: Calls) -> Gen[None]:
    key = Order.primary(customer_id="c", order_id="o")
    only = [Order.total]
    got = yield from do.get(Order, customer_id="c", order_id="o", only=only)
    assert_type(got, Partial[Order] | None)
    assert_type((yield from do.one(key, only=only)), Partial[Order])
    assert_type((yield from do.get_many([key], only=only)), list[Partial[Order] | None])
    assert_type((yield from do.query(key, only=only)), list[Partial[Order]])
    assert_type((yield from do.page(key, only=only)), Page[Partial[Order]])
    assert_type((yield from do.first(key, only=only)), Partial[Order] | None)
