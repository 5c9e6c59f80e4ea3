"""Consumed capacity: requested and read, and the bundled engine's computation compared with DynamoDB Local's report."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import boto3
import pytest

from odm import AccessPattern, Entity, PrimaryKey, Store, Table, collection, increment, missing, remove, set_
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Call
from odm.backends.dynamodb.client.units import asking, units_of
from odm.backends.local import Memory
from odm.protocol.capacity import Units
from odm.protocol.requests import Sleep
from odm.results import Usage
from odm.testing.suite.helpers import fill

table = Table("units", exclusive=True)  # DynamoDB Local reports no units for a batch read that finds nothing


class Customer(Entity, table=table):
    customer_id: str
    email: str
    visits: int = 0
    note: str = ""

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")
    by_email = AccessPattern("EMAIL#{email}")


class Order(Entity, table=table):
    customer_id: str
    order_id: str
    status: str | None = "open"
    note: str = ""

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_status = AccessPattern("STATUS#{status}")
    ranked = AccessPattern("CUSTOMER#{customer_id}", "RANK#{status}", local=True)


ORDERS = Order.primary(customer_id="1")
FIRST = Order.primary(customer_id="1", order_id="01")


def order(number: int, status: str | None = "open") -> Order:
    return Order(customer_id="1", order_id=f"{number:02}", status=status, note="n" * 1500)


def _batch(db: Store) -> None:
    with db.batch() as batch:
        for number in range(20):
            batch.put(order(number, "shipped" if number % 2 else "open"))
        batch.put(Customer(customer_id="2", email="z"))


def _transaction(db: Store) -> None:
    with db.transaction() as tx:
        tx.update(Customer.primary(customer_id="2"), increment(Customer.visits), set_(Customer.email, "y"))
        tx.delete(order(3))


CALLS: dict[str, Callable[[Store], Any]] = {
    "new": lambda db: db.put(Customer(customer_id="1", email="a")),
    "same": lambda db: db.put(Customer(customer_id="1", email="a")),
    "entry moved, larger": lambda db: db.put(Customer(customer_id="1", email="b", note="n" * 5000)),
    "changed": lambda db: db.update(Customer.primary(customer_id="1"), increment(Customer.visits)),
    "get": lambda db: db.get(Customer, customer_id="1"),
    "get inconsistently": lambda db: db.get(Customer.primary(customer_id="1"), consistent=False),
    "get absent": lambda db: db.get(Customer, customer_id="3"),
    "batch": _batch,
    "get many": lambda db: db.get_many(
        [Customer.primary(customer_id="1"), Order.primary(customer_id="1", order_id="01")]
    ),
    "query an index": lambda db: list(db.query(Order.by_status(status="open"))),
    "query a local index": lambda db: list(db.query(Order.ranked(customer_id="1"))),
    "query with a filter": lambda db: list(db.query(ORDERS.where(Order.note == ""))),
    "limit": lambda db: list(db.query(ORDERS.limit(3))),
    "limit and filter": lambda db: list(db.query(ORDERS.where(Order.status == "shipped").limit(1))),
    "count": lambda db: db.count(ORDERS),
    "first": lambda db: db.first(ORDERS.reverse()),
    "collection": lambda db: list(db.query(collection(Customer.primary(customer_id="1")))),
    "scan": lambda db: list(db.scan(Order, consistent=False)),
    "scan in parts": lambda db: list(db.scan(segments=2)),
    "update moves entries": lambda db: db.update(order(1), set_(Order.status, "sent")),
    "update leaves indexes": lambda db: db.update(order(2), remove(Order.status)),
    "delete": lambda db: db.delete(Customer, customer_id="1"),
    "delete absent": lambda db: db.delete(Customer, customer_id="1"),
}


def _used(db: Store, call: Callable[[Store], Any]) -> list[object]:
    with db.meter() as meter:
        call(db)
    return [meter.calls, meter.read_units, meter.write_units, meter.by_index]


def _local(endpoint: str) -> DynamoDB:
    session = boto3.Session(aws_access_key_id=uuid4().hex, aws_secret_access_key="x", region_name="eu-west-1")
    return DynamoDB(session, endpoint_url=endpoint)


def test_the_engine_computes_what_dynamodb_local_reports(dynamodb_local: str) -> None:
    with Store(table, Memory()) as engine, Store(table, _local(dynamodb_local)) as service:
        for db in (engine, service):
            db.create()
        for name, call in CALLS.items():
            assert (name, _used(engine, call)) == (name, _used(service, call))


TRANSACTIONS: dict[str, Callable[[Store], Any]] = {
    "an update that moves an entry, and a delete": _transaction,
    "an insert": lambda db: _together(db, lambda tx: tx.insert(Customer(customer_id="9", email="n"))),
    "an insert with a local index": lambda db: _together(db, lambda tx: tx.insert(order(4))),
    "a check": lambda db: _together(db, lambda tx: tx.check(FIRST, when=missing(Order.note))),
    "get_many": lambda db: db.get_many([Order.primary(customer_id="1", order_id="04")], atomic=True),
    "retry_safe": lambda db: db.with_options(retry_safe=True).update(
        Customer.primary(customer_id="9"), increment(Customer.visits)
    ),
}


def _together(db: Store, call: Callable[[Any], Any]) -> None:
    with db.transaction() as tx:
        call(tx)


def test_the_engine_computes_transactions_like_dynamodb(dynoxide: str) -> None:
    with Store(table, Memory()) as engine, Store(table, _local(dynoxide)) as service:
        for db in (engine, service):
            db.create()
            fill(db, [order(3), Customer(customer_id="2", email="z")])
        used = {}
        for name, call in TRANSACTIONS.items():
            used[name] = _used(engine, call)
            assert (name, used[name]) == (name, _used(service, call))
    # A transaction doubles the units of the table, and not those of its indexes.
    assert used["an insert"][2:] == [3.0, {None: Usage(1, 0.0, 2.0), "by_email": Usage(1, 0.0, 1.0)}]
    assert used["an update that moves an entry, and a delete"][1:3] == [0.0, 12.0]


def test_a_store_with_another_retry_policy_is_counted_with_its_origin(dynamodb_local: str) -> None:
    with Store(table, _local(dynamodb_local)) as db:
        db.create()
        with db.meter() as meter:
            db.with_options(timeout=30).get(FIRST)
        with db.with_options(retries=2).meter() as other:
            db.get(FIRST)
    assert meter.by_pattern == other.by_pattern == {"Order.primary": Usage(1, 1.0, 0.0)}


thin = Table("thin", exclusive=True)


class Thin(Entity, table=thin):
    thin_id: str
    group: str
    rank: int = 0
    note: str = ""

    primary = PrimaryKey("THIN#{thin_id}", "X")
    keys_alone = AccessPattern("KEYS#{group}", "{thin_id}", projection="keys")
    with_rank = AccessPattern("RANK#{group}", "{thin_id}", projection=["rank"])


def test_an_index_that_projects_less_costs_less_to_write_and_more_to_read(dynamodb_local: str) -> None:
    def thing(number: int, **values: Any) -> Thin:
        return Thin(thin_id=str(number), group="g", note="n" * 5000, **values)

    calls: list[Callable[[Store], Any]] = [
        lambda db: fill(db, map(thing, range(5))),
        lambda db: db.put(thing(1, rank=2)),
        lambda db: db.update(Thin.primary(thin_id="1"), set_(Thin.note, "n" * 3000)),
        lambda db: db.update(Thin.primary(thin_id="1"), set_(Thin.group, "h")),
        lambda db: list(db.query(Thin.keys_alone(group="g"))),
        lambda db: list(db.query(Thin.with_rank(group="g"))),
        lambda db: list(db.query(Thin.with_rank(group="g").where(Thin.rank == 0))),
        lambda db: list(db.query(Thin.with_rank(group="g").where(Thin.note == ""))),
        lambda db: db.count(Thin.with_rank(group="g").where(Thin.rank == 2)),
        lambda db: db.delete(Thin, thin_id="2"),
    ]
    with Store(thin, Memory()) as engine, Store(thin, _local(dynamodb_local)) as service:
        for db in (engine, service):
            db.create()
        for number, call in enumerate(calls):
            assert (number, _used(engine, call)[1:3]) == (number, _used(service, call)[1:3])


@pytest.mark.parametrize("operation", ["get_item", "query", "batch_write_item", "transact_write_items"])
def test_requests_ask_for_capacity(operation: str) -> None:
    assert asking(Call(operation, {"TableName": "t"}, once=True)) == Call(
        operation, {"TableName": "t", "ReturnConsumedCapacity": "INDEXES"}, once=True
    )


@pytest.mark.parametrize("native", [Call("create_table", {"TableName": "t"}), Sleep(1)])
def test_requests_without_capacity_are_sent_unchanged(native: Call | Sleep) -> None:
    assert asking(native) is native


@pytest.mark.parametrize(
    ("operation", "told", "units"),
    [
        ("get_item", None, None),
        ("get_item", {"CapacityUnits": 0.5}, Units(read={None: 0.5})),  # of a service that reports no indexes
        (
            "query",
            {"CapacityUnits": 2, "Table": {"CapacityUnits": 0}, "GlobalSecondaryIndexes": {"g": {"CapacityUnits": 2}}},
            Units(read={"g": 2.0}),
        ),
        (
            "put_item",
            {
                "CapacityUnits": 6,
                "Table": {"CapacityUnits": 1},
                "GlobalSecondaryIndexes": {"g": {"CapacityUnits": 2}},
                "LocalSecondaryIndexes": {"l": {"CapacityUnits": 3}},
            },
            Units(write={None: 1.0, "g": 2.0, "l": 3.0}),
        ),
        (
            "transact_write_items",
            [{"CapacityUnits": 4, "WriteCapacityUnits": 4, "Table": {"CapacityUnits": 4, "WriteCapacityUnits": 4}}],
            Units(write={None: 4.0}),
        ),
        (
            "transact_write_items",
            [{"CapacityUnits": 2, "ReadCapacityUnits": 2, "Table": {"CapacityUnits": 2, "ReadCapacityUnits": 2}}],
            Units(read={None: 2.0}),
        ),
    ],
)
def test_units_of_an_answer(operation: str, told: Any, units: Units | None) -> None:
    response = {} if told is None else {"ConsumedCapacity": told}
    assert units_of(Call(operation, {}), response) == units
