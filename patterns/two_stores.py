"""Steps between two stores, written once and run sync and async, for `odm.patterns.copy` and `odm.patterns.verify`.

A procedure runs on one store. Work on two stores is a generator that yields steps: a procedure and the store to run it
on, a pause, a function to call, or several generators to run concurrently.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from functools import partial
from threading import Event
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from odm import AsyncStore, BadValue, Calls, Gen, Page, Procedure, Query, RawItem, Store, procedure
from odm.concurrency import Bucket, in_tasks, in_threads

R = TypeVar("R")

Either: TypeAlias = Store | AsyncStore


@frozen
class On:
    """Run a procedure on a store; the answer is its result."""

    store: Either
    procedure: Procedure[Any]


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


Step: TypeAlias = On | Pause | Call | Concurrent
Steps: TypeAlias = Generator[Step, Any, R]


def run(steps: Steps[R], stop: Event | None = None) -> R:
    """Run steps, blocking; concurrent steps run in threads.

    When one thread fails, or the program is interrupted, the others stop after their current step.
    """
    stop = stop or Event()
    answer: Any = None
    try:
        while not stop.is_set():
            answer = _done(steps.send(answer), stop)
    except StopIteration as ended:
        result: R = ended.value
        return result
    steps.close()
    raise _Stopped


def _done(step: Step, stop: Event) -> Any:
    match step:
        case On(store, made):
            return store.run(made)
        case Pause(seconds):
            return stop.wait(seconds)
        case Call(function):
            return function()
        case Concurrent(steps):
            return in_threads([partial(run, one, stop) for one in steps], len(steps), stop.set)


class _Stopped(Exception):
    """Stops the other threads when one has failed; the caller sees only that failure."""


async def arun(steps: Steps[R]) -> R:
    """Run steps without blocking the event loop; concurrent steps run in tasks."""
    answer: Any = None
    try:
        while True:
            answer = await _adone(steps.send(answer))
    except StopIteration as ended:
        result: R = ended.value
        return result
    finally:
        steps.close()


async def _adone(step: Step) -> Any:
    match step:
        case On(store, made):
            return await store.run(made)
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
            return await in_tasks([arun(one) for one in steps])


def name_of_store(store: Either) -> str:
    """How a state names a store."""
    return f"{store.prefix}{store.table.name} on {store.backend!r}"


def bucket(rate: float | None) -> Bucket:
    """A token bucket.

    Raises:
        BadValue: the rate is not a positive number.
    """
    if rate is not None and not 0 < rate < float("inf"):
        raise BadValue(f"rate={rate!r}: give items per second, more than 0")
    return Bucket(rate)


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
