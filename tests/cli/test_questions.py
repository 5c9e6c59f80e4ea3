"""The demo's answers, each against a plain computation over the same source data."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from odm import Entity, Store
from odm.backends.local import LocalFile
from odm.cli.demo.load import Loaded, load, loaded, make_shop, read_airports
from odm.cli.demo.models import Airport, Customer, Order, demo
from odm.cli.demo.questions import PAGE_SIZE, QUESTIONS, Answer, ask, ask_to_ship

AIRPORTS = read_airports()
CUSTOMERS, ORDERS = make_shop()
BY_DATE = [order for order in ORDERS if order.customer_id == "C007"]
OPEN_IN_OSLO = [order for order in ORDERS if order.warehouse == "Oslo" and order.status == "open"]


def airports(*, country: str = "USA", state: str | None = None, city: str = "") -> list[Airport]:
    found = [a for a in AIRPORTS if a.country == country and a.state == (state or a.state) and a.city.startswith(city)]
    return sorted(found, key=lambda a: (a.state, a.city, a.name, a.iata))


def spanish_customers(begin: str) -> list[Customer]:
    return sorted((c for c in CUSTOMERS if c.country == "ES" and c.name.startswith(begin)), key=lambda c: c.name)


TEXAS = airports(state="TX")

EXPECTED: dict[str, Sequence[Entity]] = {
    "airports_of_a_country": airports(),
    "airports_of_a_state": airports(state="HI"),
    "airports_of_a_city": [a for a in TEXAS if a.city == "Houston"],
    "cities_that_begin_with": airports(state="CA", city="San "),
    "one_airport": [a for a in AIRPORTS if a.iata == "SFO"],
    "pages_of_airports": TEXAS[: 2 * PAGE_SIZE],
    "customers_by_name": spanish_customers("Studio #"),
    "newest_orders": BY_DATE[:-6:-1],
    "orders_between_dates": [
        o for o in BY_DATE if datetime(2026, 1, 1, tzinfo=UTC) <= o.placed_at < datetime(2026, 4, 1, tzinfo=UTC)
    ],
    "large_orders": [order for order in BY_DATE if order.total > 500],
    "customer_with_orders": [*(c for c in CUSTOMERS if c.customer_id == "C007"), *BY_DATE[:-5:-1]],
    "open_orders": OPEN_IN_OSLO,
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(demo, LocalFile(tmp_path_factory.mktemp("demo") / "demo.db")) as store:
        load(store, lambda items, _: items)
        yield store


def items_of(answer: Answer) -> list[Entity]:
    return [item for _, items in answer.parts for item in items]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.query.__name__)
def test_the_answer_to(question: Any, db: Store) -> None:
    answer = ask(db, question)
    if question.send == "count":
        assert answer.total == len(airports(state="AK")) == 263
    else:
        expected = EXPECTED[question.query.__name__]
        assert expected
        assert items_of(answer) == list(expected)
        assert answer.total == len(expected)


def test_everything_is_stored_once(db: Store) -> None:
    assert len(AIRPORTS) == 3376
    assert {a.iata: a for a in db.scan(Airport)} == {a.iata: a for a in AIRPORTS}
    assert {c.customer_id: c for c in db.scan(Customer)} == {c.customer_id: c for c in CUSTOMERS}
    assert {o.order_id: o for o in db.scan(Order)} == {o.order_id: o for o in ORDERS}
    assert loaded(db) == Loaded(version=1, airports=3376, customers=len(CUSTOMERS), orders=len(ORDERS))


def test_the_plans_say_what_they_are_shown_for(db: Store) -> None:
    plans = {question.query.__name__: ask(db, question).plan for question in QUESTIONS}
    assert plans["one_airport"].index == "by_iata"
    assert plans["orders_between_dates"].index == "by_date"
    assert plans["open_orders"].index == "open_orders"
    assert plans["customer_with_orders"].index is None
    assert {name: str(plan.filter) for name, plan in plans.items() if plan.filter is not None} == {
        "large_orders": "total > 500"
    }


def test_shipping_moves_the_order_out_of_the_index_and_back(db: Store) -> None:
    for _ in range(2):
        answer = ask_to_ship(db)
        [(_, before), (_, after)] = answer.parts
        assert list(before) == OPEN_IN_OSLO
        assert list(after) == OPEN_IN_OSLO[1:]
    assert {o.order_id: o for o in db.scan(Order)} == {o.order_id: o for o in ORDERS}


def test_shipping_is_undone_when_it_is_interrupted(db: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def interrupted(store: Store, order: Order) -> None:
        asked.append(order)
        raise KeyboardInterrupt

    monkeypatch.setattr("odm.cli.demo.questions.ship", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask_to_ship(db)
    assert asked == OPEN_IN_OSLO[:1]
    assert db.get(Order, customer_id=asked[0].customer_id, order_id=asked[0].order_id) == asked[0]


def test_a_load_that_was_cut_short_begins_again(tmp_path: Path) -> None:
    def interrupted(items: Sequence[Entity], name: str) -> Iterator[Entity]:
        if name == "orders":
            yield items[0]
            raise KeyboardInterrupt
        yield from items

    with Store(demo, LocalFile(tmp_path / "demo.db")) as db:
        with pytest.raises(KeyboardInterrupt):
            load(db, interrupted)
        assert db.first(Airport.by_iata(iata="SFO")) is not None
        assert loaded(db) is None
        db.put(ORDERS[0].model_copy(update={"order_id": "left over"}))
        load(db, lambda items, _: items)
        assert loaded(db) is not None
        assert db.count(Order.by_date(customer_id="C007")) == len(BY_DATE)
        assert "left over" not in {order.order_id for order in db.scan(Order)}


def test_the_shop_is_awkward_on_purpose() -> None:
    names = "".join(customer.name for customer in CUSTOMERS)
    assert {"#", '"', "'", " ", "é", "ø", "Ç"} <= set(names)
    assert make_shop() == (CUSTOMERS, ORDERS)
