"""The questions of the demo, in the order in which they are asked.

Each function is a question: the first line of its docstring says it in plain words, the rest is a remark, and its body
is the Python that the demo shows. The last one changes an item, which is changed back afterwards, so that every run has
the same answers.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Literal

from msgspec import Struct

from odm import Entity, Query, Store, collection, select, set_, starts_with
from odm.cli.demo.models import Airport, Customer, Order
from odm.results import Explanation


class Question(Struct, frozen=True):
    """A query and how it is sent.

    Attributes:
        query: makes the query; its docstring is the question and a remark.
        send: the method of the store that the query is given to.
    """

    query: Callable[[], Query[Any]]
    send: Literal["query", "page", "count"] = "query"


class Answer(Struct, frozen=True):
    """What the store answered.

    Attributes:
        plan: what `Store.explain` said of it beforehand.
        parts: the items, each group with a caption ("" where there is one group only).
        total: how many items there are; for a count, the count.
        seconds: how long the store took.
    """

    plan: Explanation
    parts: Sequence[tuple[str, Sequence[Entity]]]
    total: int
    seconds: float


PAGE_SIZE = 5


def airports_of_a_country() -> Query[Airport]:
    """Which airports are in the USA?"""
    return Airport.primary(country="USA")


def airports_of_a_state() -> Query[Airport]:
    """Which airports are in Hawaii?"""
    return Airport.primary(country="USA", state="HI")


def airports_of_a_city() -> Query[Airport]:
    """Which airports does Houston, Texas have?"""
    return Airport.primary(country="USA", state="TX", city="Houston")


def cities_that_begin_with() -> Query[Airport]:
    """Which airports are in the cities of California called "San ..."?

    A prefix of a field in the key is a range of keys.
    """
    california = Airport.primary(country="USA", state="CA")
    return california.where(starts_with(Airport.city, "San "))


def one_airport() -> Query[Airport]:
    """Which airport has the code SFO?"""
    return Airport.by_iata(iata="SFO")


def number_of_airports() -> Query[Airport]:
    """How many airports does Alaska have?"""
    return Airport.primary(country="USA", state="AK")


def pages_of_airports() -> Query[Airport]:
    """What are the airports of Texas, five to a page?"""
    return Airport.primary(country="USA", state="TX")


def customers_by_name() -> Query[Customer]:
    """Which Spanish customers have a name that begins with "Studio #"?

    Keys hold "#" and spaces of values escaped, as $S and $P, so a value cannot pass for another key.
    """
    spanish = Customer.by_name(country="ES")
    return spanish.where(starts_with(Customer.name, "Studio #"))


def newest_orders() -> Query[Order]:
    """What are the five newest orders of customer C007?"""
    return Order.by_date(customer_id="C007").reverse().limit(5)


def orders_between_dates() -> Query[Order]:
    """What did customer C007 order in the first quarter of 2026?

    This query names no access pattern: odm picks the one that serves it.
    """
    january = datetime(2026, 1, 1, tzinfo=UTC)
    april = datetime(2026, 4, 1, tzinfo=UTC)
    orders = select(Order).where(Order.customer_id == "C007")
    return orders.where(Order.placed_at >= january, Order.placed_at < april)


def large_orders() -> Query[Order]:
    """Which orders of customer C007 were over 500?

    No key holds the total, so it is a filter: all orders of the customer are read.
    """
    return Order.by_date(customer_id="C007").where(Order.total > 500)


def customer_with_orders() -> Query[Any]:
    """Who is customer C007, and what are the four newest orders?

    Two entities in one request: they are stored in the same partition.
    """
    everything = collection(Customer.primary(customer_id="C007"))
    return everything.reverse().limit(5)


def open_orders() -> Query[Order]:
    """Which orders are still open in the warehouse in Oslo, oldest first?

    The index is sparse: only open orders are in it.
    """
    return Order.open_orders(warehouse="Oslo")


QUESTIONS = (
    Question(airports_of_a_country),
    Question(airports_of_a_state),
    Question(airports_of_a_city),
    Question(cities_that_begin_with),
    Question(one_airport),
    Question(number_of_airports, "count"),
    Question(pages_of_airports, "page"),
    Question(customers_by_name),
    Question(newest_orders),
    Question(orders_between_dates),
    Question(large_orders),
    Question(customer_with_orders),
    Question(open_orders),
)


FIRST = (Question(airports_of_a_state), Question(newest_orders), Question(open_orders))
"""Those that are shown without ``--all``: a hierarchical key, an index, and a sparse index."""


def ship(db: Store, order: Order) -> None:
    """Ship the oldest open order in Oslo: does it leave the index?

    The write that changes the status takes the order out of the index.
    """
    db.update(order, set_(Order.status, "shipped"), when=Order.status == "open")


def ask(db: Store, question: Question) -> Answer:
    """Send a question's query, and take the time."""
    query = question.query()
    plan = db.explain(query)
    start = perf_counter()
    match question.send:
        case "query":
            items = list(db.query(query))
            return Answer(plan, [("", items)], len(items), perf_counter() - start)
        case "count":
            return Answer(plan, [], db.count(query), perf_counter() - start)
        case "page":
            first = db.page(query, size=PAGE_SIZE)
            second = db.page(query, size=PAGE_SIZE, after=first.cursor)
            seconds = perf_counter() - start
            parts = [("page 1", first.items), (f"page 2, after {_shortened(first.cursor)}", second.items)]
            return Answer(plan, parts, len(first.items) + len(second.items), seconds)


def ask_to_ship(db: Store) -> Answer:
    """Ship an order and look at the index before and after; the order is open again at the end."""
    before = list(db.query(open_orders()))
    order = before[0]
    plan = db.explain(order, set_(Order.status, "shipped"), when=Order.status == "open")
    try:
        start = perf_counter()
        ship(db, order)
        seconds = perf_counter() - start
        after = list(db.query(open_orders()))
    finally:
        db.update(order, set_(Order.status, "open"))
    return Answer(plan, [(f"before: {len(before)} open", before), (f"after: {len(after)} open", after)], 1, seconds)


def _shortened(cursor: str | None) -> str:
    return f'cursor "{cursor[:24]}..."' if cursor else "no cursor"
