"""Driving generators of requests to their end, sync and async: the one place where the two differ below a store."""

import time
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from odm.protocol.requests import Failed, Gather, Request, Sleep

if TYPE_CHECKING:
    from odm.protocol.connection import Connection

R = TypeVar("R")
Y = TypeVar("Y")

Watch: TypeAlias = Callable[[Request, Generator[Any, Any, Any]], Generator[Any, Any, Any]]
"""Follows the steps of a request, whatever its native requests are: a generator around them, of the same result."""


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


def perform(connection: "Connection[Any]", request: Request | Gather | Sleep, watch: Watch | None = None) -> Any:
    """Answer one request of the core; the requests of a `Gather` run in threads. ``watch`` follows its steps."""
    if isinstance(request, Gather):
        return _gathered(connection, request, watch)
    if isinstance(request, Sleep):
        return time.sleep(request.seconds)
    if watch is None:
        return connection.answer(request)
    return run(watch(request, connection.steps(request)), connection.call)


def _gathered(connection: "Connection[Any]", gather: Gather, watch: Watch | None) -> tuple[Any, ...]:
    send = _kept if gather.keep else perform
    if connection.in_process:
        return tuple(send(connection, one, watch) for one in gather.requests)
    from concurrent.futures import ThreadPoolExecutor  # as asyncio below: slow to import, and few need it

    with ThreadPoolExecutor(max_workers=max(1, min(len(gather.requests), 16))) as pool:
        return tuple(pool.map(lambda one: send(connection, one, watch), gather.requests))


async def aperform(connection: "Connection[Any]", request: Request | Gather | Sleep, watch: Watch | None = None) -> Any:
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


def _kept(connection: "Connection[Any]", request: Request, watch: Watch | None = None) -> Any:
    try:
        return perform(connection, request, watch)
    except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
        return Failed(error)


async def _akept(connection: "Connection[Any]", request: Request, watch: Watch | None = None) -> Any:
    try:
        return await aperform(connection, request, watch)
    except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
        return Failed(error)
