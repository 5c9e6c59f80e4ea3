"""One Ctrl-C ends calls that run in threads, wherever it reaches the program; and work that goes on after an answer."""

import asyncio
import gc
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Barrier, Event, Thread, get_ident
from types import FrameType
from typing import Any

import pytest

from odm import concurrency

LINES = 40
"""More lines than one run of `in_threads` executes."""


def interrupting(line: int) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that raises KeyboardInterrupt before the n-th line of `in_threads`, as a signal would."""
    left = [line]

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not concurrency.in_threads.__code__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize("line", range(1, LINES))
def test_one_interrupt_ends_all_calls(line: int) -> None:
    stopped, started, ended = Event(), [], []

    def call() -> None:
        started.append(1)
        stopped.wait(0.05)
        ended.append(1)

    before = sys.gettrace()
    sys.settrace(interrupting(line))
    try:
        with suppress(KeyboardInterrupt):
            concurrency.in_threads([call, call, call], 2, stopped.set)
    finally:
        sys.settrace(before)
    assert len(started) == len(ended)
    assert stopped.is_set() or len(started) in {0, 3}


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of a thread need a POSIX system")
@pytest.mark.usefixtures("interruptible")
def test_a_signal_that_the_system_gives_to_another_thread_ends_them() -> None:
    """Python handles it in the main thread, which the system does not wake for it."""
    stopped, ended = Event(), list[bool]()

    def call() -> None:
        stopped.wait(0.2)  # until the main thread waits
        signal.pthread_kill(get_ident(), signal.SIGINT)
        ended.append(stopped.wait(5))

    with pytest.raises(KeyboardInterrupt):
        concurrency.in_threads([call], 1, stopped.set)
    assert ended == [True]


def test_background_work_ends_after_wait() -> None:
    """`start` comes back before the work ends, and `wait` after it."""
    background, go, done = concurrency.Background(), Event(), list[int]()

    def work() -> None:
        go.wait()
        done.append(1)

    for _ in range(3):
        background.start(work)
    assert done == []
    go.set()
    background.wait()
    assert done == [1, 1, 1]


def test_background_does_the_work_itself_while_all_threads_are_in_use() -> None:
    background, go, where = concurrency.Background(2), Event(), list[int]()
    background.start(go.wait)
    background.start(go.wait)
    background.start(lambda: where.append(get_ident()))
    assert where == [get_ident()]
    go.set()
    background.wait()
    background.start(lambda: where.append(get_ident()))
    background.wait()
    assert len(set(where)) == 2


def test_background_does_the_work_itself_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    background, where = concurrency.Background(), list[int]()
    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", start)
        background.start(lambda: where.append(get_ident()))
    assert where == [get_ident()]
    background.wait()


AFTER_THE_END = """
import threading
{imports}
from odm.concurrency import Background, in_threads

def work():
    threading.main_thread().join()
    threading.Event().wait(0.05)  # until Python refuses new threads
    print(*in_threads([lambda: "a", lambda: "b"]))
    background.start(lambda: print("c"))

background = Background()
background.start(work)
"""


@pytest.mark.parametrize("imports", ["", "from concurrent.futures import ThreadPoolExecutor"], ids=("first", "again"))
def test_background_work_goes_on_when_python_starts_no_more_threads(imports: str) -> None:
    program = AFTER_THE_END.format(imports=imports)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("a b\nc\n", "")


@pytest.mark.parametrize("most", [16, 0], ids=("thread", "itself"))
@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit()], ids=("error", "exit"))
def test_an_exception_of_background_work_is_only_logged(
    caplog: pytest.LogCaptureFixture, most: int, error: BaseException
) -> None:
    def work() -> None:
        raise error

    background = concurrency.Background(most)
    if most or isinstance(error, Exception):
        background.start(work)
        background.wait()
        assert [(record.name, record.getMessage()) for record in caplog.records] == [
            ("odm", "work after an answer failed")
        ]
        assert caplog.records[0].exc_info is not None
    else:  # an interrupt in the caller's own thread is the caller's
        with pytest.raises(SystemExit):
            background.start(work)


def test_background_work_can_wait_for_the_rest() -> None:
    """As when a hook closes the store: neither waits for itself, nor two for one another."""
    background, both, done = concurrency.Background(), Barrier(3), list[int]()

    def work() -> None:
        both.wait()
        background.wait()
        done.append(1)

    def other() -> None:
        both.wait()
        done.append(0)

    background.start(work)
    background.start(other)
    background.start(work)
    background.wait()
    assert sorted(done) == [0, 1, 1]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of a thread need a POSIX system")
@pytest.mark.usefixtures("interruptible")
def test_one_interrupt_ends_the_wait_for_background_work() -> None:
    background, stopped = concurrency.Background(), Event()

    def work() -> None:
        stopped.wait(0.2)  # until the main thread waits
        signal.pthread_kill(get_ident(), signal.SIGINT)
        stopped.wait(5)

    background.start(work)
    with pytest.raises(KeyboardInterrupt):
        background.wait()
    stopped.set()
    background.wait()


def test_background_threads_of_a_fork_do_not_count() -> None:
    """A fork has none of its parent's threads, so their places are free, and nobody waits for them."""
    background = concurrency.Background(1)
    gone = Thread()
    background._threads.add(gone)
    background.wait()
    where = list[int]()
    background.start(lambda: where.append(get_ident()))
    background.wait()
    assert where != [get_ident()]


def test_background_tasks_end_after_wait() -> None:
    background, done = concurrency.Background(), list[int]()

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(1)
        await background.wait_async()

    async def program() -> None:
        background.start_task(work())
        background.start_task(work())
        gc.collect()
        assert done == []
        await background.wait_async()
        assert done == [1, 1]

    asyncio.run(program())
    asyncio.run(program_of_another_loop(background))


async def program_of_another_loop(background: concurrency.Background) -> None:
    await background.wait_async()


def test_an_exception_of_a_background_task_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("broken")

    async def program() -> None:
        background.start_task(work())
        await background.wait_async()

    background = concurrency.Background()
    asyncio.run(program())
    gc.collect()
    assert [(record.name, record.getMessage()) for record in caplog.records] == [("odm", "work after an answer failed")]


@pytest.mark.parametrize("begun", [False, True])
def test_a_loop_that_ends_cancels_background_tasks_silently(caplog: pytest.LogCaptureFixture, *, begun: bool) -> None:
    async def program() -> None:
        background.start_task(asyncio.sleep(60))
        if begun:
            await asyncio.sleep(0)

    background = concurrency.Background()
    asyncio.run(program())
    gc.collect()
    assert caplog.records == []
