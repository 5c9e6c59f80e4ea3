"""The protocol of a backend, and how generators of requests are run in both colours.

A backend joins with a class that has ``connect(schema)``. The `Connection` it returns is sans-I/O inside: `steps` turns
a request into a generator of *native* requests, and the two methods `call` and `acall` are the only places
where I/O happens. Everything above the connection is generators of `Request`, run by `run` and `arun`.
"""

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from attrs import frozen

from odm.operations.ir import Failed, Gather, Request
from odm.schema.model import Schema

R = TypeVar("R")

Gen: TypeAlias = Generator[Any, Any, R]
"""A procedure: yields requests, is sent their responses, and returns its result. It does no I/O itself."""


Watch: TypeAlias = Callable[[Request, Gen[Any]], Gen[Any]]
"""Follows the steps of a request: a generator around them, of the same native requests and result."""


@frozen
class Sleep:
    """A request for nothing but a pause, native or of the core: before something is tried again."""

    seconds: float

    def __str__(self) -> str:
        return f"sleep {self.seconds:.3f}s"


@frozen(cache_hash=True)
class Patience:
    """What a store says of requests over a network; None: what its backend does by default.

    Attributes:
        timeout: so many seconds the service may be silent: until there is a connection, and while an answer is awaited.
        retries: how often a request is sent again.
    """

    timeout: float | None = None
    retries: int | None = None


PATIENCE = Patience()
"""That of a store that says nothing."""


@frozen
class Rehearsal:
    """What a write would do where no item has its key, without sending it.

    Attributes:
        sent: its native requests, up to the one that writes the item.
        most: at most how many it takes, whatever is there; None: that depends on it.
        stored: the rows that they write, as the service's own tool prints them.
    """

    sent: tuple[Any, ...]
    most: int | None
    stored: str = ""


class Connection(Protocol):
    """One table on one backend: schema checked, codecs compiled, ready for requests. Thread-safe.

    It may have a method ``metered()``: a twin of itself on the same clients, for a store whose requests are measured.
    The twin has a method ``units(native, response)``: the capacity units that a native request has used, as
    `odm.operations.units.Units`, or None where the response does not tell. Without a twin, they are computed from the
    request and its answer.

    One whose indexes have requests of their own has a method ``index_of(native)``: the name of the index that a native
    request is for, or None for the table itself.

    Native requests that are sent at one time may be yielded as one, which has them in an attribute ``calls``. Its
    response is a sequence of what each brought, a response or its failure.

    A native response that is a part, followed by an error, has that error in an attribute ``failure``.

    It may have a method ``encode(codec, entity)``, in place of `EntityCodec.encode`: it makes an item in the form in
    which it is sent (`odm.codec.Draft`), and comes back in a `Put`.

    One that can not write any items together has a method ``apart(keys)``, which is given the keys of a transaction
    each time when one joins them, the newest last: why they can not be written in one, and what to do, or None.

    One that reads a page of an index by two requests, its entries and then their items, has an attribute ``fetches``
    that is True: `Store.explain` says so.

    One whose requests may wait or fail on a network has a method ``patient(patience)``: a twin of itself on the same
    connections with another `Patience`, which closes them too. Without a network, it is the connection itself.

    One whose writes take several native requests, or whose service has a tool that prints what is stored, may have a
    method ``rehearse(request)``: the `Rehearsal` of a write, for `Store.explain`.

    One that answers every request with one call may have a method ``answer(request)``, which does what running its
    `steps` with `call` does, only sooner.
    """

    def steps(self, request: Request) -> Gen[Any]:
        """Turn a request into native requests: yields them, is sent native responses, returns the IR response.

        A native request is a printable value: `Store.explain` shows the first one. A native failure is thrown
        into the generator, which turns it into an error of `odm.errors`.
        """
        ...

    def call(self, native: Any) -> Any:
        """Perform one native request and return the native response, blocking."""

    async def acall(self, native: Any) -> Any:
        """Perform one native request and return the native response without blocking the event loop."""

    def close(self) -> None:
        """Release sync resources; a connection can be closed twice."""

    async def aclose(self) -> None:
        """Release async resources; a connection can be closed twice."""


class Backend(Protocol):
    """Where tables live: settings only until `connect`.

    It may have the attributes ``clock``, a callable for the seconds since the epoch by which its stores judge expiry,
    and ``limits``, the `odm.operations.limits.Limits` of ``Store(limits="native")``.
    """

    @property
    def name(self) -> str:
        """The backend's name, for messages and for conformance flags."""
        ...

    def connect(self, schema: Schema) -> Connection:
        """Check what this backend can not do for this schema (`Unsupported`, `SchemaError`) and open a connection.

        No request is sent yet.
        """
        ...


def run(steps: Gen[R], send: Callable[[Any], Any]) -> R:
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


async def arun(steps: Gen[R], send: Callable[[Any], Awaitable[Any]]) -> R:
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


def perform(connection: Connection, request: Request | Gather | Sleep, watch: Watch | None = None) -> Any:
    """Answer one request of the core; the requests of a `Gather` run in threads. ``watch`` follows its steps."""
    if isinstance(request, Sleep):
        return time.sleep(request.seconds)
    answer: Callable[[Request], Any] | None = getattr(connection, "answer", None)
    if isinstance(request, Gather):
        send = _kept if request.keep else perform
        if answer is not None and watch is None:  # at once: threads would only take time
            return tuple(send(connection, one) for one in request.requests)
        from concurrent.futures import ThreadPoolExecutor  # as asyncio below: slow to import, and few need it

        with ThreadPoolExecutor(max_workers=max(1, min(len(request.requests), 16))) as pool:
            return tuple(pool.map(lambda one: send(connection, one, watch), request.requests))
    if answer is not None and watch is None:
        return answer(request)
    steps = connection.steps(request)
    return run(steps if watch is None else watch(request, steps), connection.call)


async def aperform(connection: Connection, request: Request | Gather | Sleep, watch: Watch | None = None) -> Any:
    """Answer one request of the core; the requests of a `Gather` run concurrently. ``watch`` follows its steps."""
    if isinstance(request, Sleep):
        import asyncio

        return await asyncio.sleep(request.seconds)
    if isinstance(request, Gather):
        import asyncio

        send = _akept if request.keep else aperform
        return tuple(await asyncio.gather(*(send(connection, one, watch) for one in request.requests)))
    steps = connection.steps(request)
    return await arun(steps if watch is None else watch(request, steps), connection.acall)


def _kept(connection: Connection, request: Request, watch: Watch | None = None) -> Any:
    try:
        return perform(connection, request, watch)
    except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
        return Failed(error)


async def _akept(connection: Connection, request: Request, watch: Watch | None = None) -> Any:
    try:
        return await aperform(connection, request, watch)
    except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
        return Failed(error)
