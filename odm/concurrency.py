"""Runs calls concurrently: blocking calls in threads, coroutines in tasks. Limits the rate of calls.

`in_threads` and `in_tasks` wait for the results; `Background` goes on after the answer of the call that began it.
"""

import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from odm._published import public_in

if TYPE_CHECKING:
    from asyncio import Task

R = TypeVar("R")
W = TypeVar("W")

_LOG: Final = logging.getLogger("odm")

WAKE = 0.2
"""How often a thread that waits for others looks for signals, in seconds."""

# concurrent.futures and asyncio are slow to import, and few programs need both, so each function imports its own.


@public_in("odm.extend")
def in_threads(calls: Sequence[Callable[[], R]], most: int = 16, stop: Callable[[], object] = lambda: None) -> list[R]:
    """Make blocking calls concurrently, each in a copy of the caller's context, in which a meter may be open.

    Args:
        calls: the functions to call.
        most: the most threads.
        stop: called when a call fails or the program is interrupted; should make the running calls return.

    If there can be no thread, it makes the calls one after the other.

    Returns:
        The result of each call, in order.

    Raises:
        Exception: the error of a call; the other calls have ended, or were not started.
    """
    try:
        from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
    except RuntimeError:  # the program has ended but for this thread of a `Background`
        return [call() for call in calls]

    pool = ThreadPoolExecutor(max(1, min(len(calls), most)))
    try:  # begins before the first call does: an interrupt that came between would wait for all calls to end
        try:
            futures = [pool.submit(copy_context().run, call) for call in calls[:1]]
        except RuntimeError:  # the same, or the system has no more threads
            return [call() for call in calls]
        futures += [pool.submit(copy_context().run, call) for call in calls[1:]]
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


@public_in("odm.extend")
async def in_tasks(coroutines: Sequence[Coroutine[Any, Any, R]]) -> list[R]:
    """Await coroutines concurrently.

    Returns:
        The result of each coroutine, in order.

    Raises:
        Exception: the error of a coroutine; the others were cancelled and have ended.
    """
    import asyncio

    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:  # also a cancellation, after which nobody would await the tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class Background:
    """Work that goes on after the answer of the call that began it. Thread-safe.

    Nobody gets its result. An exception is only logged.

    Args:
        most: the most threads; while all of them are at work, `start` does the work itself.
    """

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._lock = Lock()
        self._threads: set[Thread] = set()
        self._tasks: set[Task[object]] = set()
        self._waiting: set[object] = set()  # those of the threads and tasks that wait for the others

    def start(self, work: Callable[[], object]) -> None:
        """Do the work in a new thread, which a program that ends waits for; or at once, if there can be no thread."""
        if not self._has_started(Thread(target=self._work, args=(work,), daemon=False)):
            _logged(work)

    def start_task(self, work: Coroutine[Any, Any, object]) -> None:
        """Do the work in a task of the running loop. A loop that ends cancels it: `wait_async` before."""
        import asyncio

        task = asyncio.create_task(work)
        with self._lock:
            # a loop that ended calls no callback
            self._tasks = {one for one in self._tasks if not one.get_loop().is_closed()}
            self._tasks.add(task)  # a loop may forget its tasks
        task.add_done_callback(self._ended)

    def wait(self) -> None:
        """Wait until all threads have ended; in one of them, only for the others that do not wait for it."""
        here = current_thread()
        try:
            while threads := [one for one in self._others(self._threads, here) if one.is_alive()]:
                threads[0].join(WAKE)  # without a timeout, the main thread would not notice a signal of another thread
        finally:
            self._go_on(here)

    async def wait_async(self) -> None:
        """Wait until all tasks of the running loop have ended; in one of them, only for others, as in `wait`."""
        import asyncio

        here, loop = asyncio.current_task(), asyncio.get_running_loop()
        try:
            while tasks := [one for one in self._others(self._tasks, here) if one.get_loop() is loop]:
                await asyncio.wait(tasks)
        finally:
            self._go_on(here)

    def _has_started(self, thread: Thread) -> bool:
        with self._lock:
            self._threads = {one for one in self._threads if one.is_alive()}  # after a fork, none is
            if len(self._threads) >= self._most:
                return False
            self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends, or the system has no more threads
                self._threads.discard(thread)
                return False
            return True

    def _work(self, work: Callable[[], object]) -> None:
        try:
            _logged(work)
        except BaseException as error:  # noqa: BLE001  # nobody else would log it
            _log(error)
        finally:
            with self._lock:
                self._threads.discard(current_thread())

    def _ended(self, task: "Task[object]") -> None:
        with self._lock:
            self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log(error)

    def _others(self, group: set[W], here: object) -> list[W]:
        """The threads or tasks for which one waits."""
        with self._lock:
            if here not in group:
                return list(group)
            self._waiting.add(here)
            return [one for one in group if one not in self._waiting]

    def _go_on(self, here: object) -> None:
        with self._lock:
            self._waiting.discard(here)


def _logged(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:  # noqa: BLE001  # the caller has its answer
        _log(error)


def _log(error: BaseException) -> None:
    _LOG.error("work after an answer failed", exc_info=error)


@public_in("odm.extend")
class RateLimit:
    """A token bucket that limits the items per second. Thread-safe.

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
