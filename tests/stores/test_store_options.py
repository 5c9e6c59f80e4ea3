"""Options of a store on every backend: invalid values, native limits, clock, log, the hook."""

import asyncio
import logging
import random
from threading import get_ident
from typing import Any

import pytest

from odm import AsyncStore, BadCursor, BadValue, ItemTooLarge, SchemaError, Store, Unsupported, append, is_in, set_
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import backoff
from odm.backends.local import LocalFile, Memory
from odm.extend import Limits
from odm.observe.events import Observer
from odm.procedures.calls import Calls
from odm.protocol import requests as req
from odm.protocol.capacity import Units
from odm.protocol.connection import Backend, Connection, NativeGen, aperform, perform, run
from odm.protocol.limits import PORTABLE, check_keys
from odm.protocol.requests import Sleep
from odm.protocol.turns import Turn
from odm.results import RequestInfo
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.shop import Customer, Note, Order, notes, shop


async def ahook(info: RequestInfo) -> None:
    """Not a plain function."""


OPTIONS: dict[str, dict[str, Any]] = {
    "on_request": {"on_request": 5},
    "on_request ": {"on_request": ahook},
    "clock": {"clock": 12.5},
    "random": {"random": random},
    "limits": {"limits": "none"},
    "on_unknown": {"on_unknown": "warn"},
    "on_invalid": {"on_invalid": "warn"},
    "prefix": {"prefix": "prod/"},
    "cursor_secret": {"cursor_secret": ""},
    "cursor_secret ": {"cursor_secret": b""},
    "cursor_secret  ": {"cursor_secret": 7},
}


@pytest.mark.parametrize("store", [Store, AsyncStore])
@pytest.mark.parametrize(("name", "options"), OPTIONS.items(), ids=OPTIONS)
def test_an_invalid_option_is_refused(store: Any, name: str, options: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=f"^{name.strip()}="):
        store(notes, Memory(), **options)


def test_native_limits_take_an_item_of_any_size() -> None:
    db, portable = Store(notes, backend := Memory(), limits="native"), Store(notes, backend)
    db.create()
    large = "x" * 300_000
    note = db.put(Note(note_id="n", text=large, parts=[large]))
    assert db.one(Note, note_id="n") == note
    db.update(note, append(Note.parts, large))
    assert db.one(Note, note_id="n").parts == [large, large]
    with pytest.raises(ItemTooLarge, match="409600 are the most"):
        portable.put(note)
    with pytest.raises(ItemTooLarge, match="409600 are the most"):
        portable.update(note, append(Note.parts, large))
    upserted = db.update(Note.primary(note_id="m"), set_(Note.parts, [large, large]), upsert=True, returning="new")
    assert upserted == Note(note_id="m", parts=[large, large])


def test_native_limits_of_the_bundled_engine_take_any_condition() -> None:
    db = Store(notes, Memory(), limits="native")
    db.create()
    note = db.put(Note(note_id="n", text="x"))
    condition = is_in(Note.text, [str(n) for n in range(2000)]) | (Note.text == "x")
    assert list(db.query(Note.primary(note_id="n").where(condition))) == [note]
    assert db.put(note, when=condition) == note


def test_each_backend_has_its_own_limits() -> None:
    assert Memory.limits == Limits(None, None, None, None, None, None, map_key_bytes=None, expressions=False)
    assert LocalFile.limits.item_bytes == 128 * 1024 * 1024
    assert DynamoDB().limits == Limits(entry_bytes=None)
    bigtable = Bigtable("p", "i").limits
    check_keys(Key("p" * 2000, "s" * 2094), {}, None, bigtable)
    with pytest.raises(ItemTooLarge, match="4095 bytes, and 4094"):
        check_keys(Key("p" * 2000, "s" * 2095), {}, None, bigtable)
    assert (bigtable.actions, bigtable.transaction_bytes) == (None, None)  # the backend refuses a second operation
    assert Limits(2048, 1024, 4090, 409600, 100, 4194304) == PORTABLE


def test_the_clock_is_the_backends_unless_another_is_given() -> None:
    assert Store(notes, Memory())._session.context.now().seconds > 10**9
    backend = Memory(clock=lambda: 7.5)
    assert Store(notes, backend)._session.context.now().seconds == 7
    assert Store(notes, backend, clock=lambda: 9.0)._session.context.now().seconds == 9


def test_random_is_what_was_given() -> None:
    assert Store(notes, Memory(), random=random.Random(7))._session.context.random.random() == random.Random(7).random()
    assert 0 <= Store(notes, Memory())._session.context.random.random() < 1


def test_a_store_with_a_prefix_knows_the_classes_of_its_table() -> None:
    db = Store(notes, Memory(), prefix="p-")
    with pytest.raises(SchemaError, match="Customer belongs to table 'shop', not 'notes'"):
        db.get(Customer, customer_id="c")


class Answers(Connection[Any]):
    """A connection with two native requests per operation, the first of which fails."""

    def steps(self, request: req.Request) -> NativeGen[Any, Any]:
        try:
            yield f"first {request.key.partition}"  # type: ignore[union-attr]
        except OSError:
            yield Sleep(0)
        return (yield "second")

    def call(self, native: Any) -> Any:
        if str(native).startswith("first"):
            raise OSError("down")
        return native

    async def acall(self, native: Any) -> Any:
        return self.call(native)

    def units(self, native: Any, response: Any) -> Units:
        assert native == response
        return Units(read={None: 2.0, "by": 0.5})

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_hook_receives_each_native_request_but_not_pauses(mode: str) -> None:
    told: list[RequestInfo] = []
    connection, threads = Answers(), set[int]()

    def hook(info: RequestInfo) -> None:
        told.append(info)
        threads.add(get_ident())

    watch = Observer("t", connection, hook)
    both = req.Gather((req.Get(Key("a")), req.Get(Key("b"))))
    if mode == "sync":
        assert perform(connection, both, watch) == ("second", "second")
        assert get_ident() not in threads
    else:
        assert asyncio.run(aperform(connection, both, watch)) == ("second", "second")
    assert sorted((str(info.native), info.units, type(info.error)) for info in told) == [
        ("first a", None, OSError),
        ("first b", None, OSError),
        ("second", 2.5, type(None)),
        ("second", 2.5, type(None)),
    ]
    assert {(info.operation, info.table) for info in told} == {("Get", "t")}


def test_an_observed_procedure_raises_its_own_error() -> None:
    def failing(_: Any) -> Any:
        raise KeyError("x")

    def steps() -> NativeGen[str, None]:
        yield "native"

    told: list[RequestInfo] = []
    with pytest.raises(KeyError, match="x"):
        run(Observer("t", Answers(), told.append)(req.Get(Key("a")), steps()), failing)
    assert isinstance(told[0].error, KeyError)


def test_retries_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "odm"):
        backoff(2)
    assert "failure 2 in a row" in caplog.text


def channel(db: Store) -> tuple[Any, Any]:
    """The connection of a call, and its observer."""
    send: Any = db._call()[1]
    return send.args[0], send.keywords.get("watch")


def test_there_is_no_observer_by_default() -> None:
    db = Store(shop, Memory())
    assert channel(db)[1] is None
    logging.getLogger("odm").setLevel(logging.DEBUG)
    try:
        assert channel(db)[1] is not None
    finally:
        logging.getLogger("odm").setLevel(logging.NOTSET)


def test_a_lost_race_is_logged_without_values(caplog: pytest.LogCaptureFixture) -> None:
    key = Order.primary(customer_id="secret", order_id="secret")
    steps = Calls(Store(shop, Memory())._session).update(key, set_(Order.region, "secret"))
    assert isinstance(next(steps), req.Get)
    stored = shop.compile().entity(Order).codec.encode(Order(customer_id="secret", order_id="secret"))
    assert isinstance(steps.send(stored), req.Update)
    with caplog.at_level(logging.DEBUG, "odm"):
        assert isinstance(steps.send(req.Refused({**stored, "status": "shipped"})), Turn)
        assert isinstance(next(steps), req.Update)
    assert [record.message for record in caplog.records] == [
        "update of Order: another writer changed the item; retrying"
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"timeout": -1.0},
        {"timeout": float("inf")},
        {"timeout": True},
        {"timeout": "2"},
        {"retries": -1},
        {"timeout": 1e30},  # larger than a timeout can be
        {"timeout": 10**400},
        {"retries": 1.5},
        {"retries": True},
    ],
)
def test_an_invalid_timeout_or_number_of_retries(wrong: dict[str, Any]) -> None:
    says = f"{next(iter(wrong))}="
    with pytest.raises(BadValue, match=says):
        Store(notes, Memory(), **wrong)
    with pytest.raises(BadValue, match=says):
        Store(notes, Memory()).with_options(**wrong)


def test_the_engine_ignores_timeout_and_retries() -> None:
    with Store(notes, Memory(), prefix="p-", timeout=1, retries=0) as db:
        db.create()
        db.put(Note(note_id="n"))
        twin = db.with_options(timeout=0.5)
        assert isinstance(twin, Store)
        assert twin.prefix == "p-"
        assert twin.get(Note, note_id="n") == Note(note_id="n")
        with db.meter() as meter, twin.batch() as batch:
            batch.delete(Note, note_id="n")
        assert meter.calls == 2
        assert not db.exists(Note, note_id="n")


async def test_with_options_of_an_async_store_is_async() -> None:
    db = AsyncStore(notes, Memory())
    await db.create()
    twin = db.with_options(retries=0).with_options(timeout=3)
    assert isinstance(twin, AsyncStore)
    assert await twin.get(Note, note_id="n") is None
    await twin.aclose()


def test_a_backend_without_timeout_and_retries_raises() -> None:
    class Impatient(Backend):
        name = "hasty"

        def connect(self, schema: Schema) -> Connection[Any]:
            return Answers()

    db = Store(notes, Impatient())
    with pytest.raises(Unsupported, match="Answers takes no timeout"):
        db.with_options(timeout=1).get(Note, note_id="n")
    with pytest.raises(Unsupported, match="Answers takes no timeout"):
        Store(notes, db.backend, retries=1).get(Note, note_id="n")


def test_sealed_values_are_opened_by_stores_with_the_same_secret_only() -> None:
    plain, signed, other = (Store(shop, Memory(), cursor_secret=secret) for secret in (None, "s", b"t"))
    value = {"period": "2026-11-01", "left": [1, None, "é"]}
    for store in (plain, signed, other):
        assert Store(shop, Memory(), cursor_secret=store._secret).unseal(store.seal(value)) == value
    for store, text in ((plain, signed.seal(value)), (signed, plain.seal(value)), (other, signed.seal(value))):
        with pytest.raises(BadCursor):
            store.unseal(text)
    with plain as db:
        db.create()
        db.put(Customer(customer_id="c"))
        start = db.start(Customer.primary(customer_id="c"))
        for wrong in (start, "", None, 5, plain.seal(value)[1:], "é"):
            with pytest.raises(BadCursor):
                db.unseal(wrong)  # type: ignore[arg-type]
        with pytest.raises(BadCursor):
            db.page(Customer.primary(customer_id="c"), after=db.seal(value))


@pytest.mark.parametrize("name", ["", "ab", "a b", 5, "n" * 256])
def test_a_name_that_no_table_can_have(name: Any) -> None:
    with pytest.raises(BadValue, match="name="):
        Store(shop, Memory(), name=name)
    with pytest.raises(BadValue, match="prefix="):
        Store(shop, Memory(), name="n" * 250, prefix="p" * 10)
