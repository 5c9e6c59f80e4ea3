"""Steps between several stores, written once and run sync and async: for copies, change feeds and others.

A procedure runs on one store. Work on several stores is a generator that yields steps: a procedure and the store to run
it on, a call of a store, a pause, a function to call, or several generators to run concurrently. The error of a step is
raised in the generator, at its ``yield``.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from functools import partial
from inspect import isawaitable, iscoroutine
from threading import Event
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from odm import AsyncStore, BadValue, Page, Query, Store
from odm.extend import Calls, Gen, Procedure, RateLimit, in_tasks, in_threads, procedure
from odm.results import RawItem

R = TypeVar("R")

Either: TypeAlias = Store | AsyncStore


@frozen
class On:
    """Run a procedure on a store; the answer is its result."""

    store: Either
    procedure: Procedure[Any]


@frozen
class Ask:
    """Call a function that may be async if the stores are, such as ``store.create``; the answer is its result."""

    call: Callable[[], Any]


@frozen
class Pause:
    """Wait for a number of seconds."""

    seconds: float


@frozen
class Call:
    """Call a function that may block briefly, such as one that writes a small file."""

    function: Callable[[], object]


@frozen
class Concurrent:
    """Run generators of steps concurrently; the answer is the list of their results."""

    steps: Sequence["Steps[Any]"]


Step: TypeAlias = On | Ask | Pause | Call | Concurrent
Steps: TypeAlias = Generator[Step, Any, R]


def run(steps: Steps[R], stop: Event | None = None) -> R:
    """Run steps, blocking; concurrent steps run in threads.

    When one thread fails, or the program is interrupted, the others stop after their current step.
    """
    stop = stop or Event()
    try:
        step = None if stop.is_set() else next(steps)
        while step is not None and not stop.is_set():
            try:
                answer = _done(step, stop)
            except Exception as error:  # noqa: BLE001  # the steps decide what a failure means
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as ended:
        result: R = ended.value
        return result
    steps.close()
    raise _Stopped


def _done(step: Step, stop: Event) -> Any:
    match step:
        case On(store, operation):
            return store.run(operation)
        case Ask(call):
            return _not_async(call())
        case Pause(seconds):
            return stop.wait(seconds)
        case Call(function):
            return function()
        case Concurrent(steps):
            return in_threads([partial(run, branch, stop) for branch in steps], len(steps), stop.set)


def _not_async(result: object) -> object:
    if isawaitable(result):
        if iscoroutine(result):
            result.close()
        raise BadValue("a function is async, and this call cannot await it: use the async one, or pass a sync function")
    return result


class _Stopped(Exception):
    """Stops the other threads when one has failed; the caller sees only that failure."""


async def arun(steps: Steps[R]) -> R:
    """Run steps without blocking the event loop; concurrent steps run in tasks."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await _adone(step)
            except Exception as error:  # noqa: BLE001  # the steps decide what a failure means
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as ended:
        result: R = ended.value
        return result
    finally:
        steps.close()


async def _adone(step: Step) -> Any:
    match step:
        case On(store, operation):
            return await store.run(operation)
        case Ask(call):
            result = call()
            return await result if isawaitable(result) else result
        case Pause(seconds):
            return await asyncio.sleep(seconds)
        case Call(function):
            work = asyncio.create_task(asyncio.to_thread(function))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # A thread cannot be stopped: wait, so that it does not write after the next copy has begun.
                await asyncio.wait([work])
                raise
        case Concurrent(steps):
            return await in_tasks([arun(branch) for branch in steps])


def name_of_store(store: Either) -> str:
    """How a state names a store."""
    return f"{store.name} on {store.backend!r}"


def rate_limit(rate: float | None) -> RateLimit:
    """The limit of so many items per second; None: no limit.

    Raises:
        BadValue: the rate is not a positive number.
    """
    if rate is not None and not 0 < rate < float("inf"):
        raise BadValue(f"rate={rate!r}: give items per second, more than 0")
    return RateLimit(rate)


@procedure
def parts(do: Calls, number: int) -> Gen[list[str]]:
    """The cursors at which the parts of a table begin."""
    return (yield from do.parts(number))


@procedure
def page(
    do: Calls, after: str | None, *, size: int, expired: bool = False, where: Query[Any] | None = None
) -> Gen[Page[RawItem]]:
    """A page of a part of a table."""
    return (yield from do.scan_page(after, size=size, expired=expired, where=where))


@procedure
def write(do: Calls, items: Sequence[RawItem]) -> Gen[None]:
    """Write items unchanged."""
    yield from do.put_raw(items)


@procedure
def now(do: Calls) -> Gen[float]:
    """The time by a store's clock."""
    yield from ()
    return do.now()
