"""The contract of a backend: `Backend` opens a `Connection`, which answers the requests of the core.

A connection is sans-I/O inside: `Connection.steps` turns a request into a generator of *native* requests, and `call`
and `acall` are the only places where I/O happens. What only some backends can do is a method or property with a
default here: a backend overrides what differs, and callers never test for it. `run` and `arun` drive the
generators of both kinds, the core's and the backends', sync and async.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from attrs import evolve, frozen

from odm.concurrency import in_tasks, in_threads
from odm.errors import Unsupported
from odm.protocol.capacity import Units
from odm.protocol.limits import PORTABLE, Limits
from odm.protocol.requests import Failed, Gather, Query, Request, Response, Sleep
from odm.schema.entity import Key
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.codec import EntityCodec
    from odm.entities.entity import Entity
    from odm.expressions.nodes import Item

R = TypeVar("R")
N = TypeVar("N")
Y = TypeVar("Y")


NativeResponse: TypeAlias = Any
"""What a native request brings: the service's own answer, of a type of its client, which may not be installed."""

CoreGen: TypeAlias = Generator[Request | Gather | Sleep, Response, R]
"""Steps of the core: yields its requests, is sent their responses, and returns a result. It does no I/O itself."""

NativeGen: TypeAlias = Generator[N, NativeResponse, R]
"""Steps of a backend whose native requests are ``N``: yields them, is sent their responses, and returns a result."""


@frozen(cache_hash=True)
class RetryPolicy:
    """How a store wants requests over a network retried; None: as its backend does by default.

    Attributes:
        timeout: seconds for which the service may be silent: until there is a connection, and until it answers.
        retries: how often a request is sent again.
    """

    timeout: float | None = None
    retries: int | None = None


DEFAULT_POLICY = RetryPolicy()
"""The policy of a store that sets none."""


@frozen
class Rehearsal:
    """What a write would do if no item had its key, without sending it.

    Attributes:
        sent: its native requests, up to the one that writes the item.
        most: the maximum number of requests, whatever is stored; None: it depends on what is stored.
        stored: the rows that they write, as the service's own command line prints them.
    """

    sent: tuple[object, ...]
    most: int | None
    stored: str = ""


def run(steps: Generator[Y, Any, R], send: Callable[[Y], Any]) -> R:
    """Drive a generator to its end, answering each request with ``send``."""
    try:
        request = next(steps)
        while True:
            try:
                response = send(request)
            except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
                request = steps.throw(error)
            else:
                request = steps.send(response)
    except StopIteration as done:
        result: R = done.value
        return result


async def arun(steps: Generator[Y, Any, R], send: Callable[[Y], Awaitable[Any]]) -> R:
    """Drive a generator to its end, awaiting ``send`` for each request."""
    try:
        request = next(steps)
        while True:
            try:
                response = await send(request)
            except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
                request = steps.throw(error)
            else:
                request = steps.send(response)
    except StopIteration as done:
        result: R = done.value
        return result


class Connection(ABC, Generic[N]):
    """One table on one backend: schema checked, codecs compiled, ready for requests. Thread-safe.

    ``N`` are its native requests: printable values, of which `Store.explain` shows the first. A backend implements the
    five abstract methods; every other one is optional, with a default for a backend that has nothing of the kind.

    """

    @property
    def fetches(self) -> bool:
        """Whether a page of an index takes two requests, its entries and then their items; `Store.explain` shows it."""
        return False

    @property
    def in_process(self) -> bool:
        """Whether requests wait for no network: those of a `Gather` run one after another, without threads."""
        return False

    @abstractmethod
    def steps(self, request: Request) -> NativeGen[N, Response]:
        """Turn a request into native requests: yields them, is sent native responses, returns the request's response.

        A native failure is thrown into the generator, which turns it into an error of `odm.errors`.
        """

    @abstractmethod
    def call(self, native: N) -> NativeResponse:
        """Perform one native request and return the native response, blocking."""

    @abstractmethod
    async def acall(self, native: N) -> NativeResponse:
        """Perform one native request and return the native response without blocking the event loop."""

    @abstractmethod
    def close(self) -> None:
        """Release sync resources; a connection can be closed twice."""

    @abstractmethod
    async def aclose(self) -> None:
        """Release async resources; a connection can be closed twice."""

    def answer(self, request: Request) -> Response:
        """The response to a request, blocking: runs its `steps` with `call`, or does the same in one call."""
        return run(self.steps(request), self.call)

    def encode(self, codec: "EntityCodec", entity: "Entity") -> "Item":
        """Make the item of an entity for a `Put`, in the form in which it is sent where that saves a step.

        Args:
            codec: of the entity's class.
            entity: the entity.

        Returns:
            What `EntityCodec.encode` gives, or an `odm.codec.Draft` that reads as the same item.

        Raises:
            BadValue: a value cannot be stored.
        """
        return codec.encode(entity)

    def rehearse(self, request: Request) -> Rehearsal:
        """What a write would send and store, for `Store.explain`; by default it is one native request."""
        steps = self.steps(request)
        first = next(steps, None)
        steps.close()
        return Rehearsal((first,), 1)

    def transaction_unsupported_reason(self, keys: Sequence[Key]) -> str | None:
        """Why the items under these keys cannot be written in one transaction, and what to do; None: they can.

        Args:
            keys: those of a transaction, each time that one joins them, the newest last.
        """
        return None

    def with_retry_policy(self, policy: RetryPolicy) -> "Connection[N]":
        """A twin on the same clients with another policy, closing of which closes both; itself without a network.

        Raises:
            Unsupported: requests wait on a network, and the backend has no settings for that.
        """
        raise Unsupported(f"{type(self).__name__} takes no timeout= or retries= of a store: leave them out")

    def metered(self) -> "Connection[N]":
        """A twin on the same clients whose requests are measured; by default itself."""
        return self

    def units(self, native: N, response: NativeResponse) -> Units | None:
        """The capacity units that a native request has used; None: the response does not report them.

        Without, they are computed from the request and its answer.
        """
        return None

    def index_of(self, request: Request, native: N) -> str | None:
        """The index that a native request of a request reads or writes; None: the table itself."""
        return request.index if isinstance(request, Query) else None

    def calls_of(self, native: N) -> Sequence[N] | None:
        """The native requests that one stands for which sends several at the same time; None: it is one.

        The response to such a one is a sequence of what each brought: a response, or its failure.
        """
        return None

    def failure_of(self, response: NativeResponse) -> Exception | None:
        """The error that followed a response of which only a part arrived; None: it is whole."""
        return None


@frozen
class ForwardingConnection(Connection[N]):
    """A connection that forwards everything to another one: the base of all wrappers.

    A wrapper overrides only what it changes. `answer` goes through the wrapper's own `steps` and
    `call`, so that it cannot bypass them; a wrapper that changes neither can forward it.
    """

    inner: Connection[N]

    @property
    def fetches(self) -> bool:
        return self.inner.fetches

    @property
    def in_process(self) -> bool:
        return self.inner.in_process

    def steps(self, request: Request) -> NativeGen[N, Response]:
        return self.inner.steps(request)

    def call(self, native: N) -> NativeResponse:
        return self.inner.call(native)

    async def acall(self, native: N) -> NativeResponse:
        return await self.inner.acall(native)

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner.aclose()

    def encode(self, codec: "EntityCodec", entity: "Entity") -> "Item":
        return self.inner.encode(codec, entity)

    def rehearse(self, request: Request) -> Rehearsal:
        return self.inner.rehearse(request)

    def transaction_unsupported_reason(self, keys: Sequence[Key]) -> str | None:
        return self.inner.transaction_unsupported_reason(keys)

    def with_retry_policy(self, policy: RetryPolicy) -> Self:
        return evolve(self, inner=self.inner.with_retry_policy(policy))

    def metered(self) -> Self:
        return evolve(self, inner=self.inner.metered())

    def units(self, native: N, response: NativeResponse) -> Units | None:
        return self.inner.units(native, response)

    def index_of(self, request: Request, native: N) -> str | None:
        return self.inner.index_of(request, native)

    def calls_of(self, native: N) -> Sequence[N] | None:
        return self.inner.calls_of(native)

    def failure_of(self, response: NativeResponse) -> Exception | None:
        return self.inner.failure_of(response)


class Backend(ABC):
    """Where tables live: settings only until `connect`.

    Attributes:
        name: for messages, and for conformance flags.
        clock: gives the seconds since the epoch by which its stores judge expiry.
        limits: those of ``Store(limits="native")``.
    """

    name: str
    clock: Callable[[], float] = time.time
    limits: Limits = PORTABLE

    @abstractmethod
    def connect(self, schema: Schema) -> Connection[Any]:  # native requests are the backend's own business
        """Check what this backend cannot do for this schema and open a connection; no request is sent yet.

        Raises:
            Unsupported: it cannot do what the schema asks for.
            SchemaError: it does not allow a name in the schema.
        """


Watch: TypeAlias = Callable[[Request, NativeGen[Any, Response]], NativeGen[Any, Response]]
"""Follows the steps of a request, whatever its native requests are: a generator around them, of the same result."""


def perform(connection: Connection[Any], request: Request | Gather | Sleep, watch: Watch | None = None) -> Response:
    """Answer one request of the core; the requests of a `Gather` run in threads. ``watch`` follows its steps."""
    if isinstance(request, Gather):
        return _gathered(connection, request, watch)
    if isinstance(request, Sleep):
        return time.sleep(request.seconds)
    if watch is None:
        return connection.answer(request)
    return run(watch(request, connection.steps(request)), connection.call)


def _gathered(connection: Connection[Any], gather: Gather, watch: Watch | None) -> tuple[Response, ...]:
    send = _kept if gather.keep else perform
    if connection.in_process:
        return tuple(send(connection, one, watch) for one in gather.requests)
    return tuple(in_threads([partial(send, connection, one, watch) for one in gather.requests]))


async def aperform(
    connection: Connection[Any], request: Request | Gather | Sleep, watch: Watch | None = None
) -> Response:
    """Answer one request of the core; the requests of a `Gather` run concurrently. ``watch`` follows its steps."""
    if isinstance(request, Sleep):
        import asyncio  # slow to import, and few need it

        return await asyncio.sleep(request.seconds)
    if isinstance(request, Gather):
        send = _akept if request.keep else aperform
        return tuple(await in_tasks([send(connection, one, watch) for one in request.requests]))
    steps = connection.steps(request)
    return await arun(steps if watch is None else watch(request, steps), connection.acall)


def _kept(connection: Connection[Any], request: Request, watch: Watch | None = None) -> Response:
    try:
        return perform(connection, request, watch)
    except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
        return Failed(error)


async def _akept(connection: Connection[Any], request: Request, watch: Watch | None = None) -> Response:
    try:
        return await aperform(connection, request, watch)
    except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
        return Failed(error)
