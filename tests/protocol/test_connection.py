"""The contract of a connection: a wrapper hides nothing of what the connection behind it can do."""

from collections.abc import Sequence
from inspect import getmembers
from typing import Any

import pytest

from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.codec import Draft, EntityCodec
from odm.errors import Unsupported
from odm.expressions.nodes import Item
from odm.protocol.capacity import Units
from odm.protocol.connection import Backend, Connection, ForwardingConnection, NativeGen, Rehearsal, RetryPolicy
from odm.protocol.requests import Get, Query, Request
from odm.protocol.turns import Turns
from odm.schema.entity import Key
from odm.stores.sync import Store
from odm.testing.stores import Stores, Watched
from tests.shop import Customer, shop

GET = Get(Key("p", "s"))
TURNS = Turns()


class Plain(Connection[str]):
    """A connection with nothing but what each must have."""

    def steps(self, request: Request) -> NativeGen[str, Any]:
        return (yield f"native {type(request).__name__}")

    def call(self, native: str) -> Any:
        return f"answer to {native}"

    async def acall(self, native: str) -> Any:
        return self.call(native)

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


class Able(Plain):
    """One that overrides all the rest, each with something else than the default."""

    def __init__(self, twin: str = "") -> None:
        self.twin = twin

    @property
    def fetches(self) -> bool:
        return True

    @property
    def in_process(self) -> bool:
        return True

    @property
    def turns(self) -> Turns:
        return TURNS

    def encode(self, codec: EntityCodec, entity: Any) -> Item:
        return {"made by": "Able"}

    def rehearse(self, request: Request) -> Rehearsal:
        return Rehearsal(("rehearsed",), 7)

    def transaction_unsupported_reason(self, keys: Sequence[Key]) -> str | None:
        return "one by one"

    def with_retry_policy(self, policy: RetryPolicy) -> "Able":
        return Able(f"{policy.retries} retries")

    def metered(self) -> "Able":
        return Able("metered")

    def units(self, native: str, response: Any) -> Units | None:
        return Units(read={None: 3.0})

    def index_of(self, request: Request, native: str) -> str | None:
        return "by_able"

    def calls_of(self, native: str) -> Sequence[str] | None:
        return [native, native]

    def failure_of(self, response: Any) -> Exception | None:
        return OSError(response)


POWERS = [name for name, _ in getmembers(Connection) if not name.startswith("_")]


def seen(connection: Connection[str]) -> dict[str, Any]:
    """What each optional part of the contract gives."""
    nothing: Any = None
    return {
        "fetches": connection.fetches,
        "in_process": connection.in_process,
        "turns": connection.turns,
        "encode": connection.encode(nothing, nothing),
        "rehearse": connection.rehearse(GET),
        "transaction_unsupported_reason": connection.transaction_unsupported_reason([]),
        "units": connection.units("native", "response"),
        "index_of": connection.index_of(GET, "native"),
        "calls_of": connection.calls_of("native"),
        "failure_of": repr(connection.failure_of("response")),
    }


def test_a_wrapper_forwards_all_that_a_connection_can() -> None:
    assert {*seen(Able())} < {*POWERS}
    hidden = [name for name in POWERS if name not in vars(ForwardingConnection)]
    assert hidden == ["answer"]  # which goes through the steps and calls of the wrapper
    assert seen(ForwardingConnection(Able())) == seen(Able())


def test_the_twins_of_a_wrapper_are_wrapped() -> None:
    wrapper = ForwardingConnection(Able())
    for twin in (wrapper.metered(), wrapper.with_retry_policy(RetryPolicy(retries=3))):
        assert isinstance(twin, ForwardingConnection)
        assert isinstance(twin.inner, Able)
        assert twin.inner.twin in ("metered", "3 retries")


def test_what_a_wrapper_overrides_is_not_bypassed() -> None:
    class Loud(ForwardingConnection[str]):
        def steps(self, request: Request) -> NativeGen[str, Any]:
            return f"loud {(yield from self.inner.steps(request))}"

        def call(self, native: str) -> Any:
            return f"{self.inner.call(native)}!"

    assert Loud(Able()).answer(GET) == "loud answer to native Get!"


def test_the_defaults() -> None:
    connection = Plain()
    assert (connection.fetches, connection.in_process, connection.turns) == (False, False, None)
    assert connection.answer(GET) == "answer to native Get"
    assert connection.rehearse(GET) == Rehearsal(("native Get",), 1)
    assert connection.transaction_unsupported_reason([Key("a"), Key("b")]) is None
    assert connection.metered() is connection
    assert connection.units("native", "response") is None
    assert connection.index_of(Query("p", index="by_name"), "native") == "by_name"
    assert connection.index_of(GET, "native") is None
    assert connection.calls_of("native") is None
    assert connection.failure_of("response") is None
    with pytest.raises(Unsupported, match="Plain takes no timeout= or retries="):
        connection.with_retry_policy(RetryPolicy(retries=3))


@pytest.mark.parametrize(
    ("backend", "made"),
    [
        (DynamoDB(endpoint_url="http://localhost:1", region="local"), Draft),
        (Bigtable("p", "i", endpoint="localhost:1"), Draft),
        (Memory(), Draft),
    ],
    ids=["dynamodb", "bigtable", "memory"],
)
def test_the_suite_runs_the_encoder_of_the_backend(backend: Backend, made: type) -> None:
    """Through its wrapper, a put makes the same item as in a store of the backend itself."""
    customer = Customer(customer_id="c")
    codec = shop.compile().by_class[Customer].codec
    for given in (backend, Watched(backend, "suite")):
        context = Store(shop, given)._session.context
        assert type(context.encode(codec, customer)) is made


def test_the_suite_answers_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the backend does, so does its wrapper, and takes note of the request."""
    from odm.backends.local.driver import LocalConnection

    asked: list[Request] = []
    answer = LocalConnection.answer

    def noted(connection: LocalConnection, request: Request) -> Any:
        asked.append(request)
        return answer(connection, request)

    monkeypatch.setattr(LocalConnection, "answer", noted)
    with Stores(Memory(), "sync") as stores:
        db = stores.open(shop)
        db.put(Customer(customer_id="c"))
        assert db.get(Customer, customer_id="c") == Customer(customer_id="c")
        assert [type(one).__name__ for one in asked] == ["CreateTables", "Put", "Get"]
        assert list(stores.requests) == asked[1:]
