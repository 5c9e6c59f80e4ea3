"""Pointers: invalid declarations, concurrent writers, and a pointer whose write fails."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from ipaddress import IPv4Address
from pathlib import Path
from random import Random
from types import new_class
from typing import Any
from uuid import uuid4

import boto3
import pytest
from attrs import define

from odm import (
    AccessPattern,
    AsyncStore,
    Backend,
    BackendError,
    BadValue,
    Entity,
    OdmError,
    OutcomeUnknown,
    PrimaryKey,
    SchemaError,
    Store,
    Table,
    Throttled,
    Unsupported,
    field,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.extend import Gen
from odm.immutable import evolve
from odm.patterns.pointer import Pointer
from odm.protocol import requests as req
from odm.protocol.connection import run
from odm.schema.model import Schema
from odm.testing.stores import Watched, WatchedConnection
from odm.testing.suite.pointers import Order, Reading, kept, latest, order, shop, value


def entity(pointer: Pointer, *patterns: AccessPattern, key: str = "EVENT#{event_id}", **fields: Any) -> Any:
    """An entity with a pointer, in its own table."""
    body = {
        "__module__": __name__,
        "__annotations__": {"event_id": str, "place": str, "at": datetime, **fields},
        "primary": PrimaryKey(key),
        "last": pointer,
        **{f"by_{n}": pattern for n, pattern in enumerate(patterns)},
    }
    return new_class("Event", (Entity,), {"table": Table("events")}, lambda names: names.update(body))


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (entity(Pointer("LAST#{plce}", tracks="at")), "'plce'; it has event_id, place, at"),
        (entity(Pointer("LAST#{place}", tracks="moment")), "'moment'"),
        (entity(Pointer("LAST#{place}", "{at}", tracks="at")), "every value would have its own pointer"),
        (entity(Pointer("LAST#{place", tracks="at")), "LAST#{place"),
        (entity(Pointer("LAST#{place}", tracks="ok"), ok=bool), "bool, which has no order"),
        (entity(Pointer("LAST#{place}", tracks="ip"), ip=IPv4Address), "sorts differently"),
        (entity(Pointer("LAST#{place}", tracks="tags"), tags=list[str]), "has no order"),
        (entity(Pointer("LAST#{place}", tracks="size"), size=int | str), "several types"),
        (entity(Pointer("EVENT#{event_id}", "Event", tracks="at")), "the same key"),
    ],
    ids=range(9),
)
def test_an_invalid_pointer_is_refused_when_the_table_compiles(made: Any, wrong: str) -> None:
    with pytest.raises(SchemaError, match=wrong):
        made.__odm_table__.compile()


FITS = "add by_at = AccessPattern"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (entity(Pointer("L#{place}", tracks="at")), f'{FITS}("L#{{place}}", "{{at}}#{{event_id}}")'),
        (entity(Pointer("L", "{place}", tracks="at")), f'{FITS}("L#{{place}}", "{{at}}#{{event_id}}")'),
        (entity(Pointer("L#{place}", tracks="at"), AccessPattern("E#{place}", "{event_id}#{at}")), FITS),
        (entity(Pointer("L#{place}", tracks="at"), AccessPattern("E#{place}", "{at:ms}")), FITS),
        (entity(Pointer("L#{place}", tracks="at"), AccessPattern("E#{place}#{event_id}", "{at}")), FITS),
        (entity(Pointer("L", tracks="at"), AccessPattern("E#{at:%Y}", "{at}")), FITS),
        (entity(Pointer("L", tracks="at"), AccessPattern("E", "{at}", when=field("place") == "p")), FITS),
        (entity(Pointer("L", tracks="at"), AccessPattern("E", "{at}#{note}"), note=str | None), FITS),
        (entity(Pointer("L#{d}", tracks="at"), AccessPattern("E#{d:%Y}", "{at}#{event_id}"), d=datetime), FITS),
        (Reading, "a field with the part of "),
        (entity(Pointer("L#{at:%Y}", tracks="at"), AccessPattern("E", "{at}")), "a field with the part of at in the"),
    ],
    ids=range(11),
)
def test_what_bigtable_cannot_repair_is_refused_when_a_store_connects(made: Any, wanted: str) -> None:
    with Store(made.__odm_table__, Bigtable("p", "i", endpoint="localhost:1")) as db:
        with pytest.raises(Unsupported) as refused:
            db.create()
        assert wanted in str(refused.value)
    with Store(made.__odm_table__, Memory()) as db:
        db.create()


@pytest.mark.parametrize(
    "made",
    [
        entity(Pointer("L#{place}", tracks="at"), AccessPattern("L#{place}", "{at}#{event_id}")),
        entity(Pointer("L#{place}", tracks="at"), AccessPattern("E", "{at:us:desc}")),
        entity(Pointer("L#{place}", tracks="note"), AccessPattern("E#{place}", "{note}"), note=str | None),
    ],
    ids=range(3),
)
def test_what_bigtable_can_repair_is_accepted(made: Any, bigtable_emulator: str) -> None:
    with Store(made.__odm_table__, Bigtable(f"p-{uuid4().hex[:8]}", "i", endpoint=bigtable_emulator)) as db:
        db.create()
        assert db.get(made.last(place="p")) is None


def test_an_abstract_base_gives_its_pointer_to_each_entity() -> None:
    table = Table("things")

    class Thing(Entity):
        group: str
        number: int
        latest = Pointer("LATEST#{group}", tracks="number")

    class Box(Thing, table=table):
        primary = PrimaryKey("BOX#{group}", "{number}")

    class Ball(Thing, table=table):
        primary = PrimaryKey("BALL#{group}", "{number}")

    with pytest.raises(SchemaError, match="no table="):
        Thing.latest(group="g")
    with Store(table, Memory()) as db:
        db.create()
        db.put(Box(group="g", number=3))
        db.put(Ball(group="g", number=2))
        assert (db.get(Box.latest(group="g")), db.get(Ball.latest(group="g"))) == (
            Box(group="g", number=3),
            Ball(group="g", number=2),
        )


def test_wrong_values_are_refused_before_anything_is_sent() -> None:
    for wrong in (
        {},
        {"customer_id": 3},
        {"customer_id": ""},
        {"customer": "c1"},
        {"customer_id": "c", "order_id": "o"},
    ):
        with pytest.raises(OdmError):
            Store(shop, Memory()).get(Order.latest(**wrong))


def test_a_pointer_is_not_a_key_or_a_query() -> None:
    db, latest = Store(shop, Memory()), Order.latest(customer_id="c1")
    calls: list[Callable[[Any], Any]] = [
        db.delete,
        db.exists,
        db.explain,
        db.first,
        db.query,
        lambda which: db.get_many([which]),
        lambda which: db.update(which, set_(Order.order_id, "o1")),
    ]
    for call in calls:
        with pytest.raises(BadValue, match=r"^Order\.latest\(customer_id='c1'\) .* pass it to get\(\) or one\(\)"):
            call(latest)


def test_a_pointer_must_be_called() -> None:
    with pytest.raises(BadValue, match=r"^Order\.latest is not a key: write Order\.latest\(\.\.\.\)"):
        Store(shop, Memory()).get(Order.latest)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_they_print() -> None:
    assert repr(Order.latest) == "Order.latest"
    assert repr(vars(Order)["latest"]) == 'Pointer("LAST_ORDER#{customer_id}", tracks="order_id")'
    assert repr(Order.latest(customer_id="c1")) == "Order.latest(customer_id='c1')"
    assert repr(Order.latest.value(customer_id="c1")) == "Order.latest.value(customer_id='c1')"
    assert repr(Pointer("A", "B#{b}", tracks="c")) == 'Pointer("A", "B#{b}", tracks="c")'


@define
class Failing(Watched):
    """A backend that fails at the second write, which writes the pointer."""

    error: OdmError | None = None

    def connect(self, schema: Schema) -> "FailingConnection":
        return FailingConnection(self.inner.connect(evolve(schema, name=f"{schema.name}-{self.suffix}")), self)


class FailingConnection(WatchedConnection):
    def steps(self, request: req.Request) -> Gen[Any]:
        error = getattr(self.watched, "error", None)
        written = [one for one in self.watched.requests if isinstance(one, req.Put)]
        if isinstance(request, req.Put) and len(written) % 2 and error is not None:
            self.watched.requests.clear()
            raise error
        return (yield from super().steps(request))

    def answer(self, request: req.Request) -> Any:
        return run(self.steps(request), self.call)


@pytest.mark.parametrize("error", [Throttled("busy"), OutcomeUnknown("lost"), BackendError("broken")], ids=repr)
def test_a_failed_write_of_a_pointer_is_repaired(error: OdmError, bigtable_emulator: str) -> None:
    backend = Failing(Bigtable("failing", "instance", endpoint=bigtable_emulator), uuid4().hex[:8], error=error)
    with Store(shop, backend) as db:
        db.create()
        db.insert(order("o1"))
        assert kept(db) == {}
        backend.error = None
        assert (latest(db), kept(db)) == ("o1", {"c1": "o1"})


THREADS, ORDERS = 8, 12


def in_threads(backend: Backend) -> None:
    """Every thread puts orders in its own sequence, some in several threads; no thread sees the pointer move back."""
    with Store(shop, backend) as db:
        db.create()
        customer = uuid4().hex  # the services keep items of earlier tests

        def work(seed: int) -> None:
            ids = [f"{n:03}" for n in range(ORDERS * 4)]
            seen = ""
            for order_id in Random(seed).sample(ids, ORDERS):
                db.put(order(order_id, customer))
                now, then = value(db, customer), latest(db, customer)
                assert max(seen, order_id) <= now <= str(then)
                seen = now

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        wanted = {f"{n:03}" for seed in range(THREADS) for n in Random(seed).sample(range(ORDERS * 4), ORDERS)}
        stored = [one.order_id for one in db.query(Order.primary(customer_id=customer))]
        assert stored == sorted(wanted)
        assert kept(db)[customer] == value(db, customer) == latest(db, customer) == stored[-1]


def test_threads_agree_in_memory() -> None:
    in_threads(Memory())


def test_threads_agree_in_a_file(tmp_path: Path) -> None:
    in_threads(LocalFile(tmp_path / "shop.db"))


def test_threads_agree_on_dynamodb_local(dynamodb_local: str) -> None:
    session = boto3.Session(aws_access_key_id="race", aws_secret_access_key="secret", region_name="eu-west-1")
    in_threads(DynamoDB(session, endpoint_url=dynamodb_local))


def test_threads_agree_on_bigtable(bigtable_emulator: str) -> None:
    in_threads(Bigtable("race", "instance", endpoint=bigtable_emulator))


async def tasks(backend: Backend) -> None:
    """Many tasks at the same time, each of which puts an order."""
    async with AsyncStore(shop, backend) as db:
        await db.create()
        ids = Random(1).sample(range(100, 1000), 60)
        await asyncio.gather(*(db.put(order(str(n))) for n in (*ids, *ids[:20])))
        newest = await db.one(Order.latest(customer_id="c1"))
        assert newest.order_id == str(max(ids))
        assert await db.run(Order.latest.value(customer_id="c1")) == str(max(ids))
        assert await db.count(Order.primary(customer_id="c1")) == 60


async def test_tasks_agree_in_memory() -> None:
    await tasks(Memory())


async def test_tasks_agree_on_bigtable(bigtable_emulator: str) -> None:
    await tasks(Bigtable("race-async", "instance", endpoint=bigtable_emulator))
