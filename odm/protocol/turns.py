"""Turns of the writers of one process that change the same items: the one that came first writes first.

Without turns, a hundred tasks that change one item all read it, one of them writes it, and the others have to read it
again, round after round. So a writer that another one was faster than waits until it is the next, and a writer that
comes while others wait for one of its items waits behind them. Writers of other items do not wait.

A turn is advice and not a lock: a write is correct without one, because its condition is that the item is unchanged. So
a writer that has waited for `contention.LONGEST_SECONDS` goes on without one.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from os import getpid
from threading import RLock
from typing import TYPE_CHECKING, Self
from weakref import ref

from odm.protocol import contention
from odm.protocol.requests import Wait
from odm.schema.entity import Key

if TYPE_CHECKING:
    from concurrent.futures import Future


class Turns:
    """The writers that wait for each other, in the order in which they came: threads, and tasks of any event loop.

    A writer of several items has a place at each of them, and its turn when it is the first at all. It takes all its
    places at once, so no two writers wait for each other.
    """

    def __init__(self) -> None:
        self._start()

    def any_at(self, keys: Sequence[Key]) -> bool:
        """Whether a writer of one of these items has, or waits for, its turn. It takes no lock."""
        return bool(self._queues) and any(key in self._queues for key in keys)

    def join(self, turn: "Turn") -> "Place":
        """Take the places behind all others."""
        place = Place(turn, self.leave)
        place.keys = tuple(dict.fromkeys(turn.keys))
        self._check_process()
        with self._lock:
            for key in place.keys:
                queue = self._queues.get(key) or deque()
                queue.append(place)
                self._queues[key] = queue  # again: another turn that is collected meanwhile may remove an empty queue
            self._call(place)
        return place

    def leave(self, place: "ref[Turn]") -> None:
        """Give up the turn, or the places. Idempotent; also called for a turn that an interrupted call has lost."""
        assert isinstance(place, Place)
        self._check_process()
        with self._lock:
            for key in place.keys:
                queue = self._queues.get(key)
                if queue is None:
                    continue
                with suppress(ValueError):  # it has been given up before
                    queue.remove(place)
                if queue:
                    self._call(queue[0])
                else:
                    self._queues.pop(key, None)

    def _start(self) -> None:
        self._lock = RLock()
        self._queues: dict[Key, deque[Place]] = {}
        self._process = getpid()

    def _check_process(self) -> None:
        if self._process != getpid():  # after a fork, the threads of the parent do not exist here
            self._start()

    def _call(self, place: "Place") -> None:
        """Let a writer begin if it is the first at all its items."""
        turn = place()
        if turn is not None and all(self._queues[key][0] is place for key in place.keys):
            turn.begin()


class Place(ref["Turn"]):
    """The place of a turn at each of its items. Python removes it when the turn is collected."""

    __slots__ = ("keys",)

    keys: tuple[Key, ...]


class Turn(Wait):
    """The place of one writer, which the `with` block gives up; also the request of the core to wait for its turn.

    Args:
        turns: the writers that wait for each other.
        keys: the keys of the items that the writer changes; none after the block.
    """

    __slots__ = ("__weakref__", "_begun", "_place", "_turns", "keys", "open")

    def __init__(self, turns: Turns, keys: Sequence[Key]) -> None:
        self._turns = turns
        self._begun: Future[None] | None = None
        self._place: Place | None = None
        self.keys = keys
        self.open = True
        """Whether the writer can wait for its turn: it did not yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open = False
        self.keys = ()
        if self._place is not None:
            self._turns.leave(self._place)

    @property
    def behind_others(self) -> bool:
        """Whether writers of its items have or wait for their turn."""
        return self._turns.any_at(self.keys)

    def begin(self) -> None:
        """End the waiting; called by `Turns`."""
        begun = self._begun
        if begun is not None and not begun.done() and begun.set_running_or_notify_cancel():
            begun.set_result(None)

    def forgo(self) -> None:
        """Go on without a turn, because nobody can wait for it here."""
        self.open = False

    def wait(self) -> None:
        try:
            self._join().result(contention.LONGEST_SECONDS)
        except TimeoutError:
            self.__exit__()

    async def wait_async(self) -> None:
        import asyncio  # slow to import, and few programs need it

        try:
            await asyncio.wait_for(asyncio.wrap_future(self._join()), contention.LONGEST_SECONDS)
        except TimeoutError:
            self.__exit__()

    def _join(self) -> "Future[None]":
        from concurrent.futures import Future  # slow to import

        begun = self._begun = Future()
        self.open = False
        self._place = self._turns.join(self)
        return begun
