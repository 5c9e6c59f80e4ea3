"""Requests of the core and of backends that no backend answers: pauses, and reports to meters."""

import time
from abc import abstractmethod
from typing import Literal

from odm.immutable import Immutable


class Wait:  # without ABC's metaclass, whose isinstance() every request would pay
    """A request of the core that no backend gets: the caller waits for it."""

    __slots__ = ()

    @abstractmethod
    def wait(self) -> object:
        """Wait, blocking. Returns the response."""

    @abstractmethod
    async def wait_async(self) -> object:
        """Wait without blocking the event loop. Returns the response."""


class Notice(Immutable):
    """What happened to a write, for meters. A native request that is not sent; the response is None.

    ``kind``: "aborted": an attempt at a transaction was given up, because of other writers, and is made again.
    "waited": a write waited for a transaction of another writer. "resolved": a lock of another writer was resolved.
    """

    kind: Literal["aborted", "waited", "resolved"]


class Sleep(Wait, Immutable):
    """A pause before a retry, as a native request or as a request of the core."""

    seconds: float

    def wait(self) -> None:
        time.sleep(self.seconds)

    async def wait_async(self) -> None:
        import asyncio  # slow to import, and few programs need it

        await asyncio.sleep(self.seconds)

    def __str__(self) -> str:
        return f"sleep {self.seconds:.3f}s"
