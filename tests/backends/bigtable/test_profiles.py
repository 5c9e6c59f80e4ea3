"""Which requests use the app profile of reads, and which that of writes; on the emulator, which ignores profiles."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.cloud.bigtable_v2 import types

from odm import AccessPattern, Entity, PrimaryKey, Store, Table, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import Concurrent, ReadRows
from odm.backends.bigtable.client.wire import Wire
from odm.backends.bigtable.driver import BigtableConnection

shop = Table(f"t{uuid.uuid4().hex[:16]}")


class Order(Entity, table=shop, keep=2):
    customer: str
    number: int = 0
    status: str = "open"

    primary = PrimaryKey("CUSTOMER#{customer}", "{number}")
    by_status = AccessPattern("STATUS#{status}", "{number}")


ONE = Order.primary(customer="c", number=1)
ALL = Order.primary(customer="c")
OPEN = Order.by_status(status="open")

Calls = list[Any]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The native requests that are sent."""
    calls: Calls = []
    call = BigtableConnection.call

    def record(self: BigtableConnection, native: Any) -> Any:
        calls.extend(native.calls if isinstance(native, Concurrent) else (native,))
        return call(self, native)

    monkeypatch.setattr(BigtableConnection, "call", record)
    return calls


@pytest.fixture
def db(bigtable_emulator: str, sent: Calls) -> Iterator[Store]:
    backend = Bigtable("project", "instance", endpoint=bigtable_emulator, app_profile="w", read_app_profile="r")
    with Store(shop, backend) as store:
        store.create()
        for number in range(2):
            store.put(Order(customer="c", number=number))
        sent.clear()
        yield store
        store.drop()


LAGGING: dict[str, Callable[[Store], object]] = {
    "get": lambda db: db.get(ONE, consistent=False),
    "get_many": lambda db: db.get_many([ONE, Order.primary(customer="d", number=1)], consistent=False),
    "query": lambda db: [*db.query(ALL, consistent=False)],
    "page backwards": lambda db: db.page(ALL.reverse(), size=1, consistent=False),
    "count": lambda db: db.count(ALL, consistent=False),
    "scan": lambda db: [*db.scan(Order, consistent=False)],
}


@pytest.mark.parametrize("call", LAGGING)
def test_reads_that_may_lag_use_the_profile_of_reads(call: str, db: Store, sent: Calls) -> None:
    LAGGING[call](db)
    assert sent
    assert all(isinstance(native, ReadRows) and native.profile == "r" for native in sent)


def batch(db: Store) -> None:
    with db.batch() as one:
        one.put(Order(customer="c", number=7))


OTHERS: dict[str, Callable[[Store], object]] = {
    "get": lambda db: db.get(ONE),
    "query": lambda db: [*db.query(ALL)],
    "scan": lambda db: [*db.scan(Order)],
    "index": lambda db: [*db.query(OPEN)],
    "index that may lag": lambda db: [*db.query(OPEN, consistent=False)],
    "put": lambda db: db.put(Order(customer="c", number=1, status="sent")),
    "put over keep=": lambda db: db.put(Order(customer="c", number=9)),
    "update": lambda db: db.update(ONE, set_(Order.status, "sent")),
    "delete": lambda db: db.delete(ONE),
    "delete_all": lambda db: db.delete_all(ALL),
    "batch": batch,
}


@pytest.mark.parametrize("call", OTHERS)
def test_all_other_requests_use_the_profile_of_writes(call: str, db: Store, sent: Calls) -> None:
    OTHERS[call](db)
    assert sent
    assert not any(isinstance(native, ReadRows) and native.profile for native in sent)


def test_without_a_profile_of_reads_all_requests_use_the_one(bigtable_emulator: str, sent: Calls) -> None:
    with Store(shop, Bigtable("project", "instance", endpoint=bigtable_emulator, app_profile="w")) as store:
        store.create()
        store.get(ONE, consistent=False)
        store.drop()
    assert not any(isinstance(native, ReadRows) and native.profile for native in sent)


@pytest.mark.parametrize(("profile", "used"), [(None, "w"), ("r", "r")])
def test_a_request_is_routed_by_its_profile(profile: str | None, used: str) -> None:
    native = ReadRows("shop", keys=("a",), profile=profile)
    message = Wire("projects/p/instances/i", "w").message(native)
    assert types.ReadRowsRequest.deserialize(message.request).app_profile_id == used
    assert message.metadata[0][1].endswith(f"&app_profile_id={used}")
    assert str(native).endswith(" app-profile=r") is (profile is not None)
