"""Runs several calls concurrently: blocking calls in threads, coroutines in tasks."""

from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

R = TypeVar("R")

# concurrent.futures and asyncio are slow to import, and few programs need both, so each function imports its own.


def in_threads(calls: Sequence[Callable[[], R]], most: int = 16, stop: Callable[[], object] = lambda: None) -> list[R]:
    """Make blocking calls concurrently, each in a copy of the caller's context, in which a meter may be open.

    Args:
        calls: the functions to call.
        most: the most threads.
        stop: called when a call fails or the program is interrupted; should make the running calls return.

    Returns:
        The result of each call, in order.

    Raises:
        Exception: the error of a call; the other calls have ended, or were not started.
    """
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    with ThreadPoolExecutor(max(1, min(len(calls), most))) as pool:
        futures = [pool.submit(copy_context().run, call) for call in calls]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future.done():
                    future.result()
        except BaseException:
            stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


async def in_tasks(coroutines: Sequence[Coroutine[Any, Any, R]]) -> list[R]:
    """Await coroutines concurrently.

    Returns:
        The result of each coroutine, in order.

    Raises:
        Exception: the error of a coroutine; the others were cancelled and have ended.
    """
    import asyncio

    tasks = [asyncio.create_task(one) for one in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
