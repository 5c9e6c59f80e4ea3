"""Stores as objects: their arguments, batches outside of their block, closing."""

from threading import Barrier, Thread
from typing import Any

import pytest

from odm import AsyncStore, BackendError, BadValue, Store
from odm.backends.local import Memory
from odm.protocol.connection import Backend, ForwardingConnection
from odm.schema.model import Schema
from tests.shop import Customer, shop

CUSTOMER = Customer(customer_id="c1")
PARTS: dict[str, tuple[Any, Any]] = {
    "in the wrong order": (Memory(), shop),
    "a class for the backend": (shop, Memory),
    "a class for the table": (Customer, Memory()),
    "a name for the table": ("shop", Memory()),
    "a name for the backend": (shop, "memory"),
}


@pytest.mark.parametrize("store", [Store, AsyncStore])
@pytest.mark.parametrize(("table", "backend"), PARTS.values(), ids=PARTS)
def test_a_store_takes_a_table_and_a_backend(store: Any, table: Any, backend: Any) -> None:
    with pytest.raises(TypeError, match=rf"write {store.__name__}\(table, Memory\(\)\)"):
        store(table, backend)


def test_a_batch_works_only_inside_its_block() -> None:
    with Store(shop, Memory()) as db:
        db.create()
        batch = db.batch()
        with pytest.raises(BadValue, match=r"with db\.batch\(\) as batch"):
            batch.put(CUSTOMER)
        with batch:
            batch.put(CUSTOMER)
        with pytest.raises(BadValue, match=r"with db\.batch\(\) as batch"):
            batch.delete(CUSTOMER)
        assert list(db.scan()) == [CUSTOMER]


async def test_an_async_batch_works_only_inside_its_block() -> None:
    async with AsyncStore(shop, Memory()) as db:
        await db.create()
        batch = db.batch()
        with pytest.raises(BadValue, match=r"with db\.batch\(\) as batch"):
            await batch.put(CUSTOMER)
        async with batch:
            await batch.put(CUSTOMER)
        with pytest.raises(BadValue, match=r"with db\.batch\(\) as batch"):
            await batch.delete(CUSTOMER)
        assert [item async for item in db.scan()] == [CUSTOMER]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_calls_of_an_async_batch_that_are_not_awaited_are_not_lost_silently() -> None:
    async with AsyncStore(shop, Memory()) as db:
        await db.create()
        batch = db.batch()
        with pytest.raises(BadValue, match=r"1 of the calls of this batch was not awaited.* write await batch\.put"):
            async with batch:
                batch.put(CUSTOMER)  # type: ignore[unused-coroutine]
        async with batch:
            await batch.put(CUSTOMER)
        assert [item async for item in db.scan()] == [CUSTOMER]


def put_and_fail(batch: Any) -> None:
    with batch:
        batch.put(CUSTOMER)
        raise ZeroDivisionError


def test_what_a_failed_block_collected_is_discarded() -> None:
    with Store(shop, Memory()) as db:
        db.create()
        batch = db.batch()
        with pytest.raises(ZeroDivisionError):
            put_and_fail(batch)
        with batch:
            batch.put(Customer(customer_id="c2"))
        assert list(db.scan()) == [Customer(customer_id="c2")]


class Closing(Backend):
    """`Memory` that records closed connections, and can fail to close them."""

    name = "closing"

    def __init__(self, error: Exception | None = None) -> None:
        self.closed: list[str] = []
        self._error = error

    def connect(self, schema: Schema) -> "ClosingConnection":
        return ClosingConnection(Memory().connect(schema), self.closed, self._error)


class ClosingConnection(ForwardingConnection[Any]):
    closed: list[str]
    error: Exception | None

    def close(self) -> None:
        self.closed.append("close")
        if self.error is not None:
            raise self.error

    async def aclose(self) -> None:
        self.close()


def test_many_may_close_a_store_and_its_connection_is_closed_once() -> None:
    backend = Closing()
    db = Store(shop, backend)
    db.create()
    barrier = Barrier(8)

    def close() -> None:
        barrier.wait()
        db.close()

    threads = [Thread(target=close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert backend.closed == ["close"]


async def test_a_connection_that_fails_to_close_is_not_used_again() -> None:
    backend = Closing(OSError("gone"))
    db, adb = Store(shop, backend), AsyncStore(shop, backend)
    db.create()
    await adb.create()
    with pytest.raises(OSError, match="gone"):
        db.close()
    with pytest.raises(OSError, match="gone"):
        await adb.aclose()
    db.close()
    await adb.aclose()
    assert backend.closed == ["close", "close"]


def customers(number: int) -> list[Customer]:
    return [Customer(customer_id=str(n)) for n in range(number)]


async def test_an_iterator_reads_no_page_after_its_store_was_closed() -> None:
    backend = Memory(page_bytes=1)  # pages of one item
    with Store(shop, backend) as db:
        db.create()
        for customer in customers(3):
            db.put(customer)
        items = db.scan(Customer)
        next(items)
    with pytest.raises(BackendError, match="store of table 'shop' was closed"):
        list(items)
    async with AsyncStore(shop, backend) as adb:
        results = adb.scan(Customer)
        await anext(results)
    with pytest.raises(BackendError, match="store of table 'shop' was closed"):
        [item async for item in results]
