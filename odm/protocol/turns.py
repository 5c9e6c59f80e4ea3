"""Turns of the writers of one process: a writer that another one was faster than waits until it is the next.

Without turns, a hundred tasks that change one item all read it, one of them writes it, and the others have to read it
again, round after round. A turn is advice and not a lock: a write is correct without one, because its condition is that
the item is unchanged. So a writer that has waited for `LONGEST_SECONDS` goes on without one.
"""

from collections import deque
from contextlib import suppress
from os import getpid
from threading import RLock
from typing import TYPE_CHECKING, Final, Self
from weakref import ref

from odm.protocol.requests import Wait

if TYPE_CHECKING:
    from concurrent.futures import Future

LONGEST_SECONDS: Final = 60.0
"""After waiting for so long, a writer goes on without a turn."""


class Turns:
    """The writers that wait for each other, in the order in which they came: threads, and tasks of any event loop."""

    def __init__(self) -> None:
        self._start()

    def join(self, turn: "Turn") -> None:
        """Take the place behind all others."""
        if self._process != getpid():  # after a fork, the threads of the parent do not exist here
            self._start()
        with self._lock:
            self._places.append(ref(turn, self._call))
            self._call()

    def leave(self, turn: "Turn") -> None:
        """Give up the turn, or the place. Idempotent."""
        with self._lock:
            with suppress(ValueError):
                self._places.remove(ref(turn))
            self._call()

    def _start(self) -> None:
        self._process = getpid()
        self._lock = RLock()
        self._places: deque[ref[Turn]] = deque()  # a turn that an interrupted call has lost ends when it is collected

    def _call(self, _: object = None) -> None:
        """Let the first begin."""
        with self._lock:
            while self._places:
                first = self._places[0]()
                if first is not None:
                    first.begin()
                    break
                self._places.popleft()


class Turn(Wait):
    """The place of one writer, which the `with` block gives up; also the request of the core to wait for its turn.

    Args:
        turns: the writers that wait for each other; None: there are no turns.
    """

    __slots__ = ("__weakref__", "_begun", "_turns")

    def __init__(self, turns: Turns | None) -> None:
        self._turns = turns
        self._begun: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._turns is not None and self._begun is not None:
            self._turns.leave(self)

    @property
    def open(self) -> bool:
        """Whether it can be waited for: there are turns, and it did not wait yet."""
        return self._turns is not None and self._begun is None

    def begin(self) -> None:
        """End the waiting; called by `Turns`."""
        begun = self._begun
        if begun is not None and not begun.done() and begun.set_running_or_notify_cancel():
            begun.set_result(None)

    def wait(self) -> None:
        try:
            self._join().result(LONGEST_SECONDS)
        except TimeoutError:
            self.__exit__()

    async def wait_async(self) -> None:
        import asyncio  # slow to import, and few programs need it

        try:
            await asyncio.wait_for(asyncio.wrap_future(self._join()), LONGEST_SECONDS)
        except TimeoutError:
            self.__exit__()

    def _join(self) -> "Future[None]":
        from concurrent.futures import Future  # slow to import

        begun = self._begun = Future()
        assert self._turns is not None
        self._turns.join(self)
        return begun
