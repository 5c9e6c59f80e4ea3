"""The meter of a store: what belongs to its block, and what is computed if a backend reports nothing."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event as Go
from threading import Thread
from typing import Any

import pytest

from odm import AccessPattern, AsyncStore, BackendError, Entity, PrimaryKey, Shards, Store, Table, increment
from odm.backends.local import Faults, LocalFile, Memory
from odm.concurrency import Background
from odm.observe.events import Observer
from odm.observe.meter import UNANSWERED, Sent
from odm.protocol.capacity import Units, computed, read_units, write_units
from odm.protocol.connection import Connection, ForwardingConnection, Later, NativeGen, aperform, perform
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    Check,
    CreateTables,
    Delete,
    Get,
    Page,
    Position,
    Put,
    Query,
    Refusals,
    Refused,
    Request,
    Scan,
    Sleep,
    Transact,
    Update,
    Written,
)
from odm.results import Meter, RequestInfo, Usage
from odm.schema.entity import Key
from tests.shop import Counting, Customer, Order, shop

table = Table("meters")


class Event(Entity, table=table):
    day: str
    number: int

    primary = PrimaryKey("DAY#{day}", "{number}")
    spread = AccessPattern("ALL", "{number}", shards=Shards(4, by="number"))


CUSTOMER = Customer(customer_id="c", email="c@x")
KEY = Key("p", "s")
BIG = {"text": "x" * 5000}


@pytest.fixture
def db() -> Store:
    db = Store(shop, Memory())
    db.create()
    return db


@pytest.mark.parametrize(
    ("size", "consistent", "inconsistent", "written"),
    [(0, 1, 0.5, 1), (1, 1, 0.5, 1), (1024, 1, 0.5, 1), (1025, 1, 0.5, 2), (4096, 1, 0.5, 4), (4097, 2, 1, 5)],
)
def test_sizes_are_rounded_up(size: int, consistent: float, inconsistent: float, written: float) -> None:
    assert read_units(size, consistent=True) == consistent
    assert read_units(size, consistent=False) == inconsistent
    assert write_units(size) == written


def channel(db: Store) -> tuple[Any, Any]:
    """The connection to which a call sends, and who watches it."""
    send: Any = db._call()[1]
    return send.args[0], send.keywords.get("watch")


def test_nothing_is_measured_where_nobody_asks(db: Store) -> None:
    connection, watch = channel(db)
    assert watch is None
    with db.meter():
        metered, watch = channel(db)
        assert watch is not None
        assert metered is not connection
    assert channel(db) == (connection, None)


def test_the_log_alone_measures_nothing(db: Store, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "odm"):
        assert channel(db)[0] is db._session.connection


def test_other_threads_are_not_counted_and_tasks_are() -> None:
    backend = Memory()
    db = Store(shop, backend)
    db.create()

    async def tasks() -> Meter:
        async with AsyncStore(shop, backend) as store:
            outside = asyncio.create_task(store.get(Customer, customer_id="c"))
            with store.meter() as meter:
                one = asyncio.create_task(store.get(Customer, customer_id="c"))
                await asyncio.gather(one, store.put(CUSTOMER), outside)
            await store.get(Customer, customer_id="c")
            return meter

    assert asyncio.run(tasks()).by_pattern["Customer.primary"].calls == 2
    with db.meter() as meter:
        thread = Thread(target=lambda: db.get(Customer, customer_id="c"))
        thread.start()
        thread.join()
        db.put(CUSTOMER)
    assert meter.calls == 1


def test_a_meter_may_be_opened_and_closed_in_different_contexts(db: Store) -> None:
    async def half(block: Any, step: str) -> Any:
        return getattr(block, step)(*() if step == "__enter__" else (None, None, None))

    block = db.meter()
    meter = asyncio.run(half(block, "__enter__"))
    asyncio.run(half(block, "__exit__"))
    db.put(CUSTOMER)
    assert meter.calls == 0


@pytest.mark.parametrize("make", [Memory, lambda: Memory(faults=Faults())])
def test_requests_that_are_sent_together_are_counted(make: Callable[[], Memory]) -> None:
    db = Store(table, make())
    db.create()
    with db.meter() as meter:
        for number in range(8):
            db.put(Event(day="d", number=number))
        assert len(list(db.query(Event.spread()))) == 8
    assert meter.by_pattern == {"Event.primary": Usage(8, 0.0, 16.0), "Event.spread": Usage(4, 2.0, 0.0)}
    assert meter.by_index == {None: Usage(8, 0.0, 8.0), "spread": Usage(12, 2.0, 8.0)}


def test_a_request_that_meets_a_fault_is_a_call_without_units() -> None:
    faults = Faults()
    db = Store(shop, Memory(faults=faults))
    db.create()
    faults.fail("put")
    with db.meter() as meter:
        with pytest.raises(BackendError):
            db.put(CUSTOMER)
        db.put(CUSTOMER)
    assert meter.by_pattern == {"Customer.primary": Usage(2, 0.0, meter.write_units)}
    assert meter.write_units == 1.0 + len(db.table.compile().entity(Customer).patterns)


def test_counts_on_after_an_exception_in_the_block(db: Store) -> None:
    with db.meter() as outer:
        with suppress(ZeroDivisionError), db.meter() as inner:
            db.put(CUSTOMER)
            raise ZeroDivisionError
        db.get(Customer, customer_id="c")
    assert (inner.calls, outer.calls) == (1, 2)


def test_making_tables_is_not_counted(db: Store) -> None:
    with db.meter() as meter:
        db.create()
        db.drop()
    assert (meter.calls, meter.by_pattern, meter.by_index) == (0, {}, {})


def test_an_update_that_reads_first_counts_both(db: Store) -> None:
    order = Order(customer_id="c", order_id="o")
    db.put(order)
    with db.meter() as meter:
        db.update(Order.primary(customer_id="c", order_id="o"), increment(Order.total))
    assert meter.by_pattern["Order.primary"].calls == meter.calls
    assert meter.write_units > 0


def test_a_file_is_measured_like_memory(tmp_path: Any) -> None:
    usage = []
    for backend in (Memory(), LocalFile(tmp_path / "x.db")):
        with Store(table, backend) as db:
            db.create()
            with db.meter() as meter:
                for number in (1, 2, 3):
                    db.put(Event(day="d", number=number))
                assert len(list(db.query(Event.spread().limit(2)))) == 2
                assert len(db.get_many([Event.primary(day="d", number=number) for number in (1, 4)])) == 2
                db.delete_all(Event.primary(day="d"))
        usage.append((meter.by_pattern, meter.by_index))
    assert usage[0] == usage[1]


def test_a_connection_that_does_not_measure_is_computed() -> None:
    db = Store(shop, Counting())
    db.create()
    with db.meter() as meter:
        db.put(CUSTOMER)
        db.get(Customer, customer_id="c")
        db.get(Customer, customer_id="absent")
    patterns = db.table.compile().entity(Customer).patterns
    assert meter.by_pattern == {"Customer.primary": Usage(3, 2.0, 1.0 + len(patterns))}


PUT = Put(KEY, BIG, {"i": Key("a", "b")}, pattern="P")
PAGE = Page((BIG, BIG), (Position(KEY), Position(KEY)))


@pytest.mark.parametrize(
    ("request_", "answer", "units"),
    [
        (Get(KEY), BIG, Units(read={None: 2.0})),
        (Get(KEY, consistent=False), None, Units(read={None: 0.5})),
        (BatchGet((KEY, Key("q"))), (BIG, None), Units(read={None: 3.0})),
        (Query("p", index="i", consistent=False), PAGE, Units(read={"i": 1.5})),
        (Scan(), PAGE, Units(read={None: 3.0})),
        (Scan(), Page(count=7), Units(read={None: 1.0})),
        (PUT, Written(), Units(write={None: 5.0, "i": 5.0})),
        (PUT, Refused(), None),
        (Update(KEY, (), {"i": None}), Written(), Units(write={None: 1.0, "i": 1.0})),
        (Delete(KEY), Written(), Units(write={None: 1.0})),
        (BatchWrite((PUT, Delete(Key("q")))), None, Units(write={None: 6.0, "i": 5.0})),
        (Transact((PUT, Check(Key("q")))), Written(), Units(write={None: 12.0, "i": 5.0})),
        (Transact((PUT,)), Refusals((None,)), None),
        (CreateTables(), None, None),
    ],
)
def test_what_is_computed_from_request_and_answer(request_: Request, answer: Any, units: Units | None) -> None:
    assert computed(request_, answer) == units


def test_a_batch_is_split_by_the_sizes_of_its_items() -> None:
    small = Put(Key("q"), {}, pattern="Q")
    meter = Meter()
    whole = Sent(Units(write={None: 22.0}))  # which is all that the answer has
    meter.count(BatchWrite((PUT, small)), (whole,), None)
    assert meter.by_pattern == {"P": Usage(1, 0.0, 20.0), "Q": Usage(1, 0.0, 2.0)}
    meter = Meter()
    get = BatchGet((KEY, Key("q")), patterns=("P", "Q"))
    meter.count(get, (Sent(Units(read={None: 3.0})),), (BIG, None))
    assert meter.by_pattern == {"P": Usage(1, 2.0, 0.0), "Q": Usage(1, 1.0, 0.0)}
    meter.count(get, (Sent(),), UNANSWERED)
    assert meter.by_pattern == {"P": Usage(2, 2.0, 0.0), "Q": Usage(2, 1.0, 0.0)}


def test_requests_that_differ_in_their_pattern_alone_are_equal() -> None:
    assert Get(KEY, pattern="a") == Get(KEY, pattern="b")
    assert str(Get(KEY, pattern="a")) == str(Get(KEY))
    assert repr(BatchGet((KEY,), patterns=("a",))) == repr(BatchGet((KEY,)))


def test_repr(db: Store) -> None:
    with db.meter() as meter:
        db.get(Customer, customer_id="c")
    assert repr(meter) == "<Meter: 1 calls, 1 read units, 0 write units>"


def test_requests_sent_at_one_time_are_calls_each_and_told_each() -> None:
    """Of a backend whose indexes have requests of their own, and whose answers have no units."""

    class Pairs(ForwardingConnection[Any]):
        def calls_of(self, native: object) -> Sequence[object] | None:
            return ("read item", "read i") if native == "a pair" else None

        def index_of(self, request: Request, native: object) -> str | None:
            return "i" if native == "read i" else None

    def steps() -> NativeGen[str | Sleep, tuple[None, ...]]:
        yield Sleep(0.1)
        yield "a pair"
        with suppress(OSError):
            yield "a pair"
        return (None, None)

    told: list[RequestInfo] = []
    meter = Meter()
    observer = Observer("t", Pairs(Memory().connect(table.compile())), told.append, (meter,))
    watched = observer(BatchGet((KEY, Key("q")), patterns=("P", "P")), steps())
    next(watched)
    watched.send(None)
    watched.send(("an item", ValueError("busy")))
    with pytest.raises(StopIteration):
        watched.throw(OSError())
    assert [(info.native, type(info.error)) for info in told] == [
        ("read item", type(None)),
        ("read i", ValueError),
        ("read item", OSError),
        ("read i", OSError),
    ]
    assert meter.by_pattern == {"P": Usage(4, 2.0, 0.0)}
    assert meter.by_index == {None: Usage(2, 2.0, 0.0), "i": Usage(2)}


class Both(Connection[Any]):
    """A write with one native request before its answer, and with two after it, of which the first fails."""

    def __init__(self) -> None:
        self.background = Background()
        self.go = Go()

    def steps(self, request: Request) -> NativeGen[Any, Written]:
        yield "commit"
        yield Later(self.later(), self.background)
        return Written()

    def later(self) -> NativeGen[Any, None]:
        yield Sleep(0)
        try:
            yield "clean"
        except OSError:
            yield "clean again"

    def call(self, native: Any) -> None:
        if native != "commit":
            self.go.wait()
        if native == "clean":
            raise OSError("down")

    async def acall(self, native: Any) -> None:
        self.call(native)

    def index_of(self, request: Request, native: str) -> str | None:
        return "i" if native.startswith("clean") else None

    def close(self) -> None:
        self.background.wait()

    async def aclose(self) -> None:
        await self.background.wait_async()


def test_calls_after_the_answer_are_counted_and_told_when_they_have_been_made(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "odm")
    told: list[RequestInfo] = []
    meter, connection = Meter(), Both()
    observer = Observer("t", connection, told.append, (meter,))
    request = Put(KEY, {"_t": "T"}, {}, pattern="P")
    assert perform(connection, request, observer) == Written()
    assert meter.by_pattern == {"P": Usage(1, 0.0, 1.0)}
    connection.go.set()
    connection.close()
    assert [(info.operation, info.native, type(info.error)) for info in told] == [
        ("Put", "commit", type(None)),
        ("Put", "clean", OSError),
        ("Put", "clean again", type(None)),
    ]
    assert len(caplog.records) == 3
    assert meter.by_pattern == {"P": Usage(3, 0.0, 1.0)}, "the units of the write are not counted again"
    assert meter.by_index == {None: Usage(1, 0.0, 1.0), "i": Usage(2)}


async def test_calls_of_a_task_after_the_answer_are_counted_when_they_have_been_made() -> None:
    meter, connection = Meter(), Both()
    connection.go.set()
    request = Put(KEY, {"_t": "T"}, {}, pattern="P")
    assert await aperform(connection, request, Observer("t", connection, None, (meter,))) == Written()
    assert meter.calls == 1
    await connection.aclose()
    assert meter.by_pattern == {"P": Usage(3, 0.0, 1.0)}


def test_no_calls_after_the_answer_count_as_nothing() -> None:
    meter, connection = Meter(), Both()
    watched = Observer("t", connection, None, (meter,))(
        Put(KEY, {"_t": "T"}, {}, pattern="P"), connection.steps(Get(KEY))
    )
    next(watched)
    watched.send(None).steps.close()
    with pytest.raises(StopIteration):
        watched.send(None)
    assert meter.calls == 1
