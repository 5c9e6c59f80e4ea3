"""One Ctrl-C ends calls that run in threads, wherever it reaches the program."""

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Event, get_ident
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
