"""Runs several calls concurrently: blocking calls in threads, coroutines in tasks. Limits the rate of calls."""

import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from threading import Lock
from typing import Any, TypeVar

R = TypeVar("R")

WAKE = 0.2
"""How often a thread that waits for others looks for signals, in seconds."""

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

    pool = ThreadPoolExecutor(max(1, min(len(calls), most)))
    try:  # begins before the first call does: an interrupt that came between would wait for all calls to end
        futures = [pool.submit(copy_context().run, call) for call in calls]
        left = set(futures)
        while left:  # in a wait without a timeout, the main thread would not notice a signal given to another thread
            done, left = wait(left, WAKE, FIRST_EXCEPTION)
            for future in done:
                future.result()
        return [future.result() for future in futures]
    except BaseException:
        stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


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


class Bucket:
    """A token bucket that limits the items per second.

    Args:
        rate: items per second, more than 0; None: no limit.
        clock: returns monotonic seconds.
    """

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = Lock()
        self._free = clock()

    def page(self, size: int) -> int:
        """The number of items to read at once: at most those of one second."""
        return size if self._rate is None else max(1, min(size, int(self._rate)))

    def take(self, items: int) -> float:
        """Take tokens. Returns the seconds to wait before the items may be written."""
        if self._rate is None:
            return 0.0
        with self._lock:
            now = self._clock()
            begin = max(self._free, now)
            self._free = begin + items / self._rate
            return begin - now
