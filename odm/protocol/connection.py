"""The contract of a backend: `Backend` opens a `Connection`, which answers the requests of the core.

A connection separates I/O from logic: `Connection.steps` turns a request into a generator of *native* requests, and
only `call` and `acall` do I/O. A feature that only some backends have is a method or property with a default here: a
backend overrides it, and callers never test for it. `run` and `arun` drive the generators of the core and of the
backends, sync and async.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast

from odm._published import public
from odm.concurrency import Background, in_tasks, in_threads
from odm.errors import Unsupported
from odm.immutable import Abstract, Immutable, evolve
from odm.protocol.capacity import Units
from odm.protocol.limits import PORTABLE, Limits
from odm.protocol.requests import Failed, Gather, Query, Request, Response, Wait
from odm.protocol.turns import Turns
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
"""The response to a native request, of a type of the service's client library, which may not be installed."""

CoreGen: TypeAlias = Generator[Request | Gather | Wait, Response, R]
"""Steps of the core: yields its requests, is sent their responses, and returns a result. It does no I/O itself."""

NativeGen: TypeAlias = Generator[N, NativeResponse, R]
"""Steps of a backend whose native requests are ``N``: yields them, is sent their responses, and returns a result."""


class Later(Immutable, Generic[N], eq=False):
    """Steps to run after the answer: nobody waits for their result. As a native request; the response is None.

    The steps handle the errors of the service. Closing the connection waits for them.
    """

    steps: "NativeGen[N, None]"
    background: Background


class RetryPolicy(Immutable, cache_hash=True):
    """When a store gives up a request over a network or retries it; None: the setting of the backend.

    Attributes:
        timeout: the deadline of each attempt, in seconds.
        retries: the number of retries of a request.
    """

    timeout: float | None = None
    retries: int | None = None


DEFAULT_POLICY = RetryPolicy()
"""The policy of a store without ``timeout=`` and ``retries=``."""


class Rehearsal(Immutable):
    """What a write would do if there is no item under its key, without sending it.

    Attributes:
        sent: its native requests, up to the one that writes the item.
        most: the most requests for any stored item; None: it depends on the stored item.
        stored: the rows that they write, in the format of the service's command-line tool.
        costs: which requests it sends, in words, if their number depends on the stored items.
    """

    sent: tuple[object, ...]
    most: int | None
    stored: str = ""
    costs: str = ""


def foreign_loop() -> Unsupported:
    """The error of a call in an event loop that a process before a fork used: its connections are the parent's."""
    return Unsupported(
        "this event loop was used before the process was forked, so its connections are those of the parent process: "
        "start another loop in the child, with asyncio.run(...)"
    )


def run(steps: Generator[Y, Any, R], send: Callable[[Y], Any]) -> R:
    """Drive a generator to its end, answering each request with ``send``."""
    try:
        request = next(steps)
        while True:
            try:
                if type(request) is Later:
                    later = cast("Later[Y]", request)
                    later.background.start(partial(run, later.steps, send))
                    response = None
                else:
                    response = send(request)
            except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
                request = steps.throw(error)
            else:
                request = steps.send(response)
    except StopIteration as done:
        result: R = done.value
        return result
    except BaseException:  # such as Ctrl-C or a cancellation: a debugger may keep the generator, but not its turn
        steps.close()
        raise


async def arun(steps: Generator[Y, Any, R], send: Callable[[Y], Awaitable[Any]]) -> R:
    """Drive a generator to its end, awaiting ``send`` for each request."""
    try:
        request = next(steps)
        while True:
            try:
                if type(request) is Later:
                    later = cast("Later[Y]", request)
                    later.background.start_task(arun(later.steps, send))
                    response = None
                else:
                    response = await send(request)
            except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
                request = steps.throw(error)
            else:
                request = steps.send(response)
    except StopIteration as done:
        result: R = done.value
        return result
    except BaseException:  # such as Ctrl-C or a cancellation: a debugger may keep the generator, but not its turn
        steps.close()
        raise


class Connection(ABC, Generic[N]):
    """One table on one backend: schema checked, codecs compiled, ready for requests. Thread-safe.

    ``N`` is the type of its native requests: printable values, of which `Store.explain` shows the first. A backend
    implements the five abstract methods. The others are optional: their defaults suit a backend that answers each
    request as its docstring says. `samples`, `adds_values` and the reasons say what it does not answer.
    """

    @property
    def fetches(self) -> bool:
        """Whether a page of an index takes two requests, its entries and then their items; `Store.explain` shows it."""
        return False

    @property
    def reads_backwards(self) -> bool:
        """Whether a query of the table in descending order reads only what it returns; `Store.explain` shows it."""
        return True

    @property
    def in_process(self) -> bool:
        """Whether no request waits for a network; then those of a `Gather` run one after another, without threads."""
        return False

    @property
    def merges_together(self) -> bool:
        """Whether it answers a `BatchMerge`; if not, the merges of a batch are sent one by one, concurrently."""
        return False

    @property
    def merge_unsupported_reason(self) -> str | None:
        """Why parts of items cannot be written without a read, and what to do; None: they can."""
        return None

    @property
    def samples(self) -> bool:
        """Whether it draws the items of a `Scan` with a ``sample``; if not, the core reads random segments instead."""
        return True

    @property
    def range_unsupported_reason(self) -> str | None:
        """Why a `Scan` cannot have ``partitions``, and what to do; None: it can."""
        return None

    @property
    def adds_values(self) -> bool:
        """Whether an `Update` can have an `AddValue`; otherwise the core sends a `Set`, and a condition with it."""
        return True

    @property
    def turns(self) -> Turns | None:
        """The turns of writers of its table, if connections share them; None: each store has its own."""
        return None

    @abstractmethod
    def steps(self, request: Request) -> NativeGen[N, Response]:
        """Turn a request into native requests: yields them, is sent native responses, returns the request's response.

        A native failure is thrown into the generator, which turns it into an error of `odm.errors`. A request to a
        table that was not created raises `odm.TableNotFound`. The items of a response are not changed afterwards.
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

    def item_of(self, part: object) -> "Item | None":
        """The item of a part of one of its pages, see `odm.codec.NativeItems`; None: the part is of another backend."""
        return None

    def encode(self, codec: "EntityCodec", entity: "Entity") -> "Item":
        """Make the item of an entity for a `Put`. A backend may encode it in its native form at once.

        Args:
            codec: the codec of the entity's class.
            entity: the entity.

        Returns:
            The result of `EntityCodec.encode`, or an `odm.codec.Draft` that reads as the same item.

        Raises:
            BadValue: a value cannot be stored.
        """
        return codec.encode(entity)

    def rehearse(self, request: Request) -> Rehearsal:
        """What a write would send and store, for `Store.explain`; by default it is one native request."""
        return Rehearsal((self.preview(request),), 1)

    def preview(self, request: Request) -> N | None:
        """The native request that begins to answer a request, for `Store.explain`; None if none is needed."""
        steps = self.steps(request)
        first = next(steps, None)
        steps.close()
        return first

    def transaction_unsupported_reason(self, keys: Sequence[Key]) -> str | None:
        """Why the items under these keys cannot be written in one transaction, and what to do; None: they can.

        Args:
            keys: the keys of the transaction so far, the newest last; called for each key that is added.
        """
        return None

    def with_retry_policy(self, policy: RetryPolicy) -> "Connection[N]":
        """A copy with another policy and the same clients: closing one closes both. Without a network, itself.

        Raises:
            Unsupported: requests use a network, and the backend has no settings for timeouts and retries.
        """
        raise Unsupported(f"{type(self).__name__} takes no timeout= or retries= of a store: leave them out")

    def metered(self) -> "Connection[N]":
        """A copy with the same clients whose requests are measured; by default itself."""
        return self

    def units(self, native: N, response: NativeResponse) -> Units | None:
        """The capacity units that a native request used; None: the response does not report them.

        Then they are computed from the request and its response.
        """
        return None

    def index_of(self, request: Request, native: N) -> str | None:
        """The index that a native request of a request reads or writes; None: the table itself."""
        return request.index if isinstance(request, Query) else None

    def calls_of(self, native: N) -> Sequence[N] | None:
        """The native requests that a native request sends concurrently; None: it is a single request.

        The response to several is a sequence with the response, or the exception, of each.
        """
        return None

    def failure_of(self, response: NativeResponse) -> Exception | None:
        """The error that ended a response of which only a part arrived; None: the response is complete."""
        return None


class ForwardingConnection(Connection[N], Abstract):
    """A connection that forwards everything to another one: the base of all wrappers.

    A wrapper overrides only what it changes. `answer` uses the wrapper's own `steps` and `call`, so it cannot bypass
    them; a wrapper that changes neither can forward it.
    """

    inner: Connection[N]

    @property
    def fetches(self) -> bool:
        return self.inner.fetches

    @property
    def reads_backwards(self) -> bool:
        return self.inner.reads_backwards

    @property
    def in_process(self) -> bool:
        return self.inner.in_process

    @property
    def merges_together(self) -> bool:
        return self.inner.merges_together

    @property
    def merge_unsupported_reason(self) -> str | None:
        return self.inner.merge_unsupported_reason

    @property
    def samples(self) -> bool:
        return self.inner.samples

    @property
    def range_unsupported_reason(self) -> str | None:
        return self.inner.range_unsupported_reason

    @property
    def adds_values(self) -> bool:
        return self.inner.adds_values

    @property
    def turns(self) -> Turns | None:
        return self.inner.turns

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

    def item_of(self, part: object) -> "Item | None":
        return self.inner.item_of(part)

    def encode(self, codec: "EntityCodec", entity: "Entity") -> "Item":
        return self.inner.encode(codec, entity)

    def rehearse(self, request: Request) -> Rehearsal:
        return self.inner.rehearse(request)

    def preview(self, request: Request) -> N | None:
        return self.inner.preview(request)

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


@public
class Backend(ABC):
    """A service that stores tables. It only holds settings; `connect` opens a connection.

    Attributes:
        name: the name in messages and in conformance flags.
        clock: returns the seconds since the epoch, for the expiry of items.
        limits: the limits of ``Store(limits="native")``.
    """

    name: str
    clock: Callable[[], float] = time.time
    limits: Limits = PORTABLE

    @abstractmethod
    def connect(self, schema: Schema) -> Connection[Any]:  # only the backend knows the type of its native requests
        """Check that this backend supports the schema, and open a connection; no request is sent yet.

        Raises:
            Unsupported: the backend does not support a feature of the schema.
            SchemaError: the backend does not allow a name in the schema.
        """


Watch: TypeAlias = Callable[[Request, NativeGen[Any, Response]], NativeGen[Any, Response]]
"""Observes the steps of a request: a generator around them, with the same native requests and result."""


def perform(connection: Connection[Any], request: Request | Gather | Wait, watch: Watch | None = None) -> Response:
    """Answer one request of the core; the requests of a `Gather` run in threads. ``watch`` observes its steps."""
    if isinstance(request, Gather):
        return _gathered(connection, request, watch)
    if isinstance(request, Wait):
        return request.wait()
    if watch is None:
        return connection.answer(request)
    return run(watch(request, connection.steps(request)), connection.call)


def _gathered(connection: Connection[Any], gather: Gather, watch: Watch | None) -> tuple[Response, ...]:
    send = _kept if gather.keep else perform
    if connection.in_process:
        return tuple(send(connection, request, watch) for request in gather.requests)
    return tuple(in_threads([partial(send, connection, request, watch) for request in gather.requests]))


async def aperform(
    connection: Connection[Any], request: Request | Gather | Wait, watch: Watch | None = None
) -> Response:
    """Answer one request of the core; the requests of a `Gather` run concurrently. ``watch`` observes its steps."""
    if isinstance(request, Wait):
        return await request.wait_async()
    if isinstance(request, Gather):
        send = _akept if request.keep else aperform
        return tuple(await in_tasks([send(connection, part, watch) for part in request.requests]))
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
