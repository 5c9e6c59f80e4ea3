"""What a call costs in addition to its item: calls of one item in `Memory`, and native requests, each next to `get`."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from benchmarks.command import Run
from benchmarks.report import Row
from benchmarks.timing import Racer
from odm import AccessPattern, Entity, PrimaryKey, Store, Table, set_
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.immutable import field
from odm.protocol.connection import Backend, ForwardingConnection
from odm.protocol.requests import Request

GET: Final = "get"

_table: Final = Table("calls")
_ORDERS: Final = 10


class Order(Entity, table=_table):
    """It has one pattern next to the primary key."""

    customer: str
    number: int
    status: str = "open"
    total: int = 0
    note: str = ""

    primary = PrimaryKey("CUSTOMER#{customer}", "ORDER#{number}")
    by_status = AccessPattern("STATUS#{status}", "{total}")


def rows(run: Run) -> Iterator[Row]:
    """The times of calls, each in turns with `get`. Queries, conditions and actions are made for each call."""
    with Store(_table, Memory()) as db:
        db.create()
        for number in range(_ORDERS):
            db.put(_order(number))
        get = _racer(lambda number: db.get(Order, customer="c1", number=number))
        for call, made in _calls(db).items():
            yield Row(
                "Calls of one item, microseconds of CPU", call, run.race(call, {GET: get, call: _racer(made)}), call
            )


def native_rows(run: Run) -> Iterator[Row]:
    """The times in which a backend makes the first native request of a call, from the request of the core."""
    memory = _Recorder()
    backends: dict[str, Backend] = {
        "DynamoDB": DynamoDB(region="eu-west-1"),
        "Bigtable": Bigtable("project", "instance", endpoint="localhost:1"),
    }
    with Store(_table, memory) as db:
        db.create()
        for number in range(_ORDERS):
            db.put(_order(number))
        get, calls = _racer(lambda number: db.get(Order, customer="c1", number=number)), _calls(db)
        for native, (backend, call, _) in NATIVE.items():
            racer = Racer(_first_native(backends[backend]), partial(memory.requests, calls[call]))
            yield Row(
                "Native requests, microseconds of CPU", native, run.race(native, {GET: get, native: racer}), native
            )


def _first_native(backend: Backend) -> Callable[[Request], Any]:
    connection = backend.connect(_table.compile())
    return lambda request: next(connection.steps(request))


class _Recording(ForwardingConnection[Any]):
    """Keeps the first request of a call."""

    kept: list[Request] = field(factory=list)

    def steps(self, request: Request) -> Any:
        self.kept.append(request)
        return super().steps(request)


class _Recorder(Memory):
    """Its connection keeps requests."""

    connection: _Recording

    def connect(self, schema: Any) -> Any:
        self.connection = _Recording(super().connect(schema))
        return self.connection

    def requests(self, call: Callable[[int], Any], calls: int, _: int) -> list[Request]:
        """The first request of each of so many calls."""
        firsts = []
        for number in range(calls):
            self.connection.kept.clear()
            call(number % _ORDERS)
            firsts.append(self.connection.kept[0])
        return firsts


def _order(number: int) -> Order:
    return Order(customer="c1", number=number, status=f"s{number}", total=number)


def _racer(call: Callable[[int], Any]) -> Racer:
    return Racer(call, lambda calls, _: [number % _ORDERS for number in range(calls)])


def _calls(db: Store) -> dict[str, Callable[[int], Any]]:
    orders = [_order(number) for number in range(_ORDERS)]
    totals = iter(range(10**9))

    def key(number: int) -> Any:
        return Order.primary(customer="c1", number=number)

    def transaction(number: int) -> None:
        with db.transaction() as tx:
            tx.put(orders[number])

    return {
        "query": lambda number: list(db.query(key(number))),
        "query with a filter": lambda number: list(db.query(key(number).where(Order.note == ""))),
        "query of an index range": lambda number: list(
            db.query(Order.by_status(status=f"s{number}").where(Order.total >= 0))
        ),
        "count": lambda number: db.count(key(number)),
        "page": lambda number: db.page(key(number), size=10),
        "update of a field": lambda number: db.update(key(number), set_(Order.note, "")),
        "update with when=": lambda number: db.update(key(number), set_(Order.note, ""), when=Order.number == number),
        "update of an index key": lambda number: db.update(key(number), set_(Order.total, next(totals))),
        "put": lambda number: db.put(orders[number]),
        "transaction of one put": transaction,
    }


TARGETS: Final = {
    "query": 2.2,
    "query with a filter": 3.4,
    "query of an index range": 3.4,
    "update of a field": 2.0,
    "update with when=": 2.4,
    "update of an index key": 2.8,
    "transaction of one put": 2.8,
}
"""How many times a `get` each may take. They are goals of the compiled calls, which are not all met yet."""

NATIVE: Final = {
    "DynamoDB request of a filtered query": ("DynamoDB", "query with a filter", 1.0),
    "DynamoDB request of an update": ("DynamoDB", "update of a field", 1.4),
    "DynamoDB request of an update with when=": ("DynamoDB", "update with when=", 1.4),
    "Bigtable request of an update": ("Bigtable", "update of a field", 2.7),
    "Bigtable request of an update with when=": ("Bigtable", "update with when=", 2.7),
}
"""Native requests: the backend, the call, and how many times a `get` its request may take."""
