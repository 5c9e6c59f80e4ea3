"""Pointers to the newest of many items: every write may move them forward, and nothing moves them back."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from types import new_class
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

import pytest
from pydantic import Field, field_validator

from odm import (
    TTL,
    AccessPattern,
    BadValue,
    ConditionFailed,
    Entity,
    ItemExists,
    ItemNotFound,
    ItemTooLarge,
    PrimaryKey,
    Query,
    Store,
    Table,
    collection,
    set_,
)
from odm.patterns.pointer import Pointer
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.stores import Stores
from odm.testing.suite.helpers import PAST, at

shop, visits, bare, kinds = Table("pointed"), Table("visited"), Table("pointed-bare"), Table("pointed-kinds")


class Order(Entity, table=shop):
    """Its pointer is repaired by the primary key."""

    customer_id: str
    order_id: str
    note: str = ""

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    latest = Pointer("LAST_ORDER#{customer_id}", tracks="order_id")

    @field_validator("customer_id")
    @classmethod
    def _lower(cls, value: str) -> str:
        return value.lower()


class Visit(Entity, table=visits):
    """Its pointer shares the partition of an index, tracks a field that changes, and is repaired with the index."""

    number: int
    place: str | None = "p"
    guest: str = "g"
    seen: datetime | None = None
    gone: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("VISIT#{number}")
    by_seen = AccessPattern("PLACE#{place}", "{seen:desc}#{number}")
    last = Pointer("PLACE#{place}", "LAST#{guest}", tracks="seen")


class Reading(Entity, table=bare):
    """Has a pointer per day, and no pattern that could find the newest reading of a day."""

    sensor: str
    moment: datetime

    primary = PrimaryKey("READING#{sensor}#{moment}")
    of_day = Pointer("DAY#{moment:%Y%m%d}", tracks="moment")


class Grade(Enum):
    """Ordered by its values, as text."""

    LOW = "b"
    HIGH = "c"
    LOWEST = "a"


KINDS: Sequence[tuple[str, Any, Sequence[Any]]] = [
    ("Str", str, ["A", "a", "a b", "a#", "aé", "b", "é", "\uffee", "\U0001f600"]),
    ("Int", int, [-100, -99, -9, 0, 9, 10, 10**25]),
    ("Bounded", Annotated[int, Field(ge=-5, lt=100)], [-5, -1, 0, 9, 10]),
    ("Decimal", Annotated[Decimal, Field(decimal_places=2)], [Decimal(n) for n in ("-10", "-9.99", "0", "2.5", "10")]),
    ("Float", float, [-1e20, -2.5, 0.0, 1e-5, 3.0, 1e20]),
    ("Moment", datetime, [datetime(1, 1, 2, tzinfo=UTC), at(9), at(9, micro=1), at(10).astimezone(), at(9, day=2)]),
    ("Day", date, [date(33, 1, 1), date(2023, 12, 31), date(2024, 1, 1)]),
    ("Uuid", UUID, [UUID(int=1), UUID(int=2**100), UUID(int=2**127)]),
    ("Bytes", bytes, [b"\0", b"\0\0", b"a", b"\xff"]),
    ("Literal", Literal["b", "a", "c"], ["a", "b", "c"]),
    ("Grade", Grade, [Grade.LOWEST, Grade.LOW, Grade.HIGH]),
]


def _kind(name: str, kind: Any) -> Any:
    body = {
        "__module__": __name__,
        "__annotations__": {"group": str, "value": kind},
        "primary": PrimaryKey(f"{name}#{{group}}", "{value}"),
        "last": Pointer(f"LAST_{name}#{{group}}", tracks="value"),
    }
    return new_class(name, (Entity,), {"table": kinds}, lambda space: space.update(body))


TRACKED: Sequence[tuple[Any, Sequence[Any]]] = [(_kind(name, kind), values) for name, kind, values in KINDS]
Call: TypeAlias = Callable[[Store], object]


COSTS: Sequence[Call] = [
    lambda db: db.put(order("o5")),
    lambda db: db.put(order("o3")),
    lambda db: db.insert(order("o7")),
    lambda db: db.insert(order("o6")),
    lambda db: db.get(Order.latest(customer_id="c1")),
    lambda db: db.run(Order.latest.value(customer_id="c1")),
]
"""A put and an insert, each of a newest and of an older order; then both reads."""


def order(order_id: str, customer_id: str = "c1") -> Order:
    """An order of a customer."""
    return Order(customer_id=customer_id, order_id=order_id)


def value(db: Store, customer_id: str = "c1") -> Any:
    """The value that the pointer tracks."""
    return db.run(Order.latest.value(customer_id=customer_id))


def latest(db: Store, customer_id: str = "c1") -> str | None:
    """The newest order."""
    newest = db.get(Order.latest(customer_id=customer_id))
    return None if newest is None else newest.order_id


def kept(db: Store) -> dict[str, str]:
    """The stored pointers."""
    return {pointer.customer_id: pointer.order_id for pointer in db.scan(Order.latest.items)}


def visit(number: int, hour: int | None, place: str | None = "p", **other: Any) -> Visit:
    """A visit to a place."""
    return Visit(number=number, place=place, seen=None if hour is None else at(hour), **other)


def last(db: Store, place: str = "p", guest: str = "g") -> int | None:
    """The number of the last visit."""
    newest = db.get(Visit.last(place=place, guest=guest))
    return None if newest is None else newest.number


@pytest.fixture
def pointed(stores: Stores) -> Store:
    """A store of orders."""
    return stores.open(shop)


@pytest.fixture
def visited(stores: Stores) -> Store:
    """A store of visits."""
    return stores.open(visits)


@needs("conditions")
class TestPointer:
    def test_moves_forward_only(self, pointed: Store) -> None:
        assert (value(pointed), latest(pointed)) == (None, None)
        highest = ""
        for order_id in ("o3", "o1", "o3", "o5", "o4", "o5", "o9"):
            pointed.put(order(order_id))
            highest = max(highest, order_id)
            assert (value(pointed), latest(pointed)) == (highest, highest)
        pointed.put(order("o2", "c2"))
        assert kept(pointed) == {"c1": "o9", "c2": "o2"}
        assert pointed.one(Order.latest(customer_id="c2")) == order("o2", "c2")
        assert pointed.count(Order.primary(customer_id="c1")) == 5

    def test_is_asked_for_as_the_entity_holds_its_fields(self, pointed: Store) -> None:
        pointed.put(order("o1", "C1"))
        assert latest(pointed, "C1") == "o1"

    def test_of_every_type_moves_as_its_values_are_ordered(self, stores: Stores) -> None:
        db = stores.open(kinds)
        for entity, values in TRACKED:
            for tracked in values:
                db.put(entity(group="g", value=tracked))
                assert db.run(entity.last.value(group="g")) == tracked
            for tracked in values[:-1]:
                db.put(entity(group="g", value=tracked))
            assert db.get(entity.last(group="g")).value == values[-1]

    def test_moves_with_every_write_that_is_applied(self, pointed: Store) -> None:
        pointed.insert(order("o5"))
        with pytest.raises(ConditionFailed):
            pointed.put(order("o6"), when=Order.note == "x")
        with pytest.raises(ItemExists):
            pointed.insert(order("o5"))
        assert value(pointed) == "o5"
        with pointed.transaction() as tx:
            tx.insert(order("o7"))
        assert (value(pointed), latest(pointed)) == ("o7", "o7")

    def test_stays_where_it_is_after_a_delete(self, pointed: Store) -> None:
        for order_id in ("o1", "o2"):
            pointed.put(order(order_id))
        assert pointed.delete(order("o2")) is True
        assert (value(pointed), latest(pointed)) == ("o2", None)
        with pytest.raises(ItemNotFound, match="c1"):
            pointed.one(Order.latest(customer_id="c1"))
        pointed.put(order("o1"))
        assert latest(pointed) is None
        pointed.put(order("o3"))
        assert latest(pointed) == "o3"

    def test_is_not_moved_back_by_a_faster_writer(self, pointed: Store, stores: Stores) -> None:
        pointed.put(order("o1"))
        faster = Order.latest.items(customer_id="c1", order_id="o9")
        stores.rival_puts(faster, faster)
        pointed.put(order("o5"))
        assert kept(pointed) == {"c1": "o9"}
        assert pointed.exists(order("o5").primary(customer_id="c1", order_id="o5"))

    def test_stopped_anywhere_is_right_when_it_is_read(self, pointed: Store, stores: Stores) -> None:
        pointed.put(order("o0"))
        reads: list[Call] = [value, latest]
        for number, read in enumerate(reads, 1):
            work, before, after = partial(pointed.put, order(f"o{number}")), latest(pointed), 0
            while stores.stopped(work, after=after):
                stored = pointed.get(Order, customer_id="c1", order_id=f"o{number}")
                assert read(pointed) == (before if stored is None else f"o{number}")
                assert kept(pointed)["c1"] == read(pointed)
                pointed.delete(order(f"o{number}"))
                pointed.delete(Order.latest.items.primary(customer_id="c1"))
                pointed.put(order(str(before)))
                after += 1
            assert after
            assert kept(pointed) == {"c1": f"o{number}"}

    def test_stopped_while_it_is_repaired_is_right_the_next_time(self, pointed: Store, stores: Stores) -> None:
        work = partial(pointed.put, order("o1"))
        if not stores.stopped(work, after=1):  # one request writes everything, so there is nothing to repair
            assert kept(pointed) == {"c1": "o1"}
            return
        assert kept(pointed) == {}
        after = 0
        while stores.stopped(partial(latest, pointed), after=after):
            after += 1
        assert after == 3
        assert (latest(pointed), kept(pointed)) == ("o1", {"c1": "o1"})

    def test_another_writer_may_move_it_while_it_is_repaired(self, pointed: Store, stores: Stores) -> None:
        pointed.put(order("o0"))
        if stores.stopped(partial(pointed.put, order("o1")), after=1):
            stores.rival_puts(Order.latest.items(customer_id="c1", order_id="o2"))
            assert latest(pointed) == "o1"
            assert kept(pointed) == {"c1": "o2"}

    def test_that_cannot_be_stored_prevents_the_put_of_its_item(self, pointed: Store, stores: Stores) -> None:
        with pytest.raises(ItemTooLarge, match="customer_id"):
            pointed.put(order("o1", "c" * 2038))
        assert stores.requests == []

    def test_is_refused_by_batches(self, pointed: Store) -> None:
        with pytest.raises(BadValue, match="latest"), pointed.batch() as batch:
            batch.put(order("o1"))

    def test_sends_what_it_says(self, pointed: Store, stores: Stores, capabilities: Capabilities) -> None:
        moves = capabilities.transaction_calls(2, spread=True)
        together: Sequence[tuple[list[str], int]] = [
            (["Transact"], moves),
            (["Transact", "Put"], 2),
            (["Transact"], moves),
            (["Transact", "Put"], 3 if capabilities.locks else 2),  # reads the pointer, then what it would insert
            (["Get", "Get"], 2),
            (["Get"], 1),
        ]
        puts = (3, 2, 3, 2) if capabilities.reads_first else (2, 3, 2, 3)
        apart = [(["Put", "Put"], calls) for calls in puts] + [(["Get", "Query"], 2)] * 2
        for call, expected in zip(COSTS, together if capabilities.transactions is True else apart, strict=True):
            stores.forget()
            with capabilities.whole(pointed) as meter:
                call(pointed)
            assert ([type(request).__name__ for request in stores.requests], meter.calls) == expected

    def test_costs_the_units_that_it_says(self, pointed: Store, capabilities: Capabilities) -> None:
        for call, expected in zip(COSTS, [(0, 4), (0, 1), (0, 4), (0, 1), (2, 0), (1, 0)], strict=True):
            with pointed.meter() as meter:
                call(pointed)
            assert (meter.read_units, meter.write_units) == expected or not capabilities.units

    def test_of_a_deleted_item_costs_one_request_more_to_repair(
        self, pointed: Store, stores: Stores, capabilities: Capabilities
    ) -> None:
        pointed.put(order("o1"))
        pointed.delete(order("o1"))
        stores.forget()
        assert latest(pointed) is None
        assert len(stores.requests) == (2 if capabilities.transactions is True else 3)


@needs("conditions", "indexes", "updates")
class TestPointerAtChangingFields:
    def test_moves_forward_with_updates(self, visited: Store, stores: Stores, capabilities: Capabilities) -> None:
        visited.put(visit(1, 8))
        visited.put(visit(2, 9))
        visited.update(Visit.primary(number=1), set_(Visit.seen, at(10)))
        assert last(visited) == 1
        visited.update(visit(1, 10), set_(Visit.seen, at(7)))
        newest = visited.get(Visit.last(place="p", guest="g"))
        assert newest == visit(1, 7)
        assert visited.run(Visit.last.value(place="p", guest="g")) == at(10)
        visited.update(Visit.primary(number=3), set_(Visit.seen, at(11)), upsert=True)
        assert last(visited) == 3
        stores.forget()
        visited.update(Visit.primary(number=3), set_(Visit.gone, None))
        assert "Transact" not in [type(request).__name__ for request in stores.requests]

    def test_stopped_anywhere_in_an_update_is_right_when_it_is_read(self, visited: Store, stores: Stores) -> None:
        after, stopped = 0, True
        while stopped:
            place = f"p{after}"
            for number in (1, 2):
                visited.put(visit(number, 7 + number, place))
            update = partial(visited.update, Visit.primary(number=1), set_(Visit.seen, at(10)))
            stopped = stores.stopped(update, after=after)
            moved = visited.one(Visit, number=1).seen == at(10)
            assert moved or stopped
            assert last(visited, place) == (1 if moved else 2)
            after += 1
        assert after > 1

    def test_is_of_the_item_only_while_that_belongs_to_it(self, visited: Store) -> None:
        visited.put(visit(1, 8))
        visited.update(Visit.primary(number=1), set_(Visit.place, "q"))
        assert (last(visited, "p"), last(visited, "q")) == (None, 1)
        visited.update(Visit.primary(number=1), set_(Visit.place, None))
        assert last(visited, "q") is None

    def test_is_not_moved_by_what_has_none(self, visited: Store) -> None:
        for other in (visit(1, None), visit(2, 9, None)):
            visited.put(other)
        assert last(visited) is None
        visited.put(visit(3, 8))
        visited.put(visit(3, None))
        assert [pointer.seen for pointer in visited.scan(Visit.last.items)] == [at(8)]

    def test_of_two_with_one_value_keeps_the_first(self, visited: Store) -> None:
        for number in (2, 1, 3):
            visited.put(visit(number, 8))
        assert last(visited) == 2

    def test_distinguishes_what_its_pattern_does_not(self, visited: Store, stores: Stores) -> None:
        visited.put(visit(1, 8))
        visited.put(visit(2, 9, guest="h"))
        assert (last(visited, guest="g"), last(visited, guest="h")) == (1, 2)
        for hour, guest in ((10, "g"), (11, "h")):
            stores.stopped(partial(visited.put, visit(hour, hour, guest=guest)), after=1)
        for guest in "gh":
            newest = visited.first(Visit.by_seen(place="p").where(Visit.guest == guest))
            assert newest is not None
            assert last(visited, guest=guest) == newest.number

    def test_points_at_nothing_when_the_item_has_expired(self, visited: Store) -> None:
        visited.put(visit(1, 8))
        visited.put(visit(2, 9, gone=PAST))
        assert last(visited) is None

    def test_may_be_read_with_other_items_of_its_partition(self, visited: Store) -> None:
        visited.put(visit(1, 8))
        query: Query[Any] = collection(Visit.last.items.primary(place="p"))
        assert [entity.number for entity in visited.query(query)] == [1]


@needs("conditions", "transactions")
class TestPointerTogether:
    def test_is_moved_by_the_highest_of_a_transaction(self, pointed: Store, stores: Stores) -> None:
        pointed.put(order("o2"))
        stores.forget()
        with pointed.transaction() as tx:
            for order_id in ("o3", "o5", "o4", "o1"):
                tx.put(order(order_id))
            tx.put(order("o8", "c2"))
        (request,) = stores.requests
        assert isinstance(request, req.Transact)
        assert len(request.operations) == 7
        assert kept(pointed) == {"c1": "o5", "c2": "o8"}
        with pointed.transaction() as tx:
            for order_id in ("o0", "o4"):
                tx.put(order(order_id))
        assert kept(pointed)["c1"] == "o5"
        assert pointed.count(Order.primary(customer_id="c1")) == 6

    def test_needs_no_pattern(self, stores: Stores) -> None:
        db = stores.open(bare)
        for hour in (8, 10, 9):
            db.put(Reading(sensor="s", moment=at(hour)))
        db.put(Reading(sensor="s", moment=at(7, day=2)))
        newest = [db.get(Reading.of_day(moment=at(0) + timedelta(days=n))) for n in range(3)]
        assert [entity and entity.moment for entity in newest] == [at(10), at(7, day=2), None]

    def test_is_moved_by_the_highest_of_every_type(self, stores: Stores) -> None:
        db = stores.open(kinds)
        with db.transaction() as tx:
            for entity, values in TRACKED:
                for tracked in (values[1], values[0]):
                    tx.put(entity(group="g", value=tracked))
        for entity, values in TRACKED:
            assert db.run(entity.last.value(group="g")) == values[1]
