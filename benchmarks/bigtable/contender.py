"""What a contender is: one way to reach the readings of a table."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from benchmarks.timing import Racer

Call = Literal["get", "put", "batch", "scan"]


class Contender:
    """One way to reach readings. Subclasses have some of the calls, plain or ``async``, each given its number.

    Args:
        address: the "host:port" of the server.
        size: how many readings the table has.
    """

    runner: Callable[[Coroutine[Any, Any, Any]], Any] | None = None
    """Runs the coroutines of one that is async, in a loop of its own."""

    def __init__(self, address: str, size: int) -> None:
        self.address = address
        self.size = size
        self.connect()

    def connect(self) -> None:
        """Make the client, and what it writes."""
        raise NotImplementedError

    def plain(self, found: Any) -> dict[str, Any]:
        """The fields of what was read."""
        raise NotImplementedError

    def racer(self, name: Call) -> Racer | None:
        """The call, ready to be timed; None where the contender does not have it."""
        method: Callable[[int], Any] | None = getattr(self, name, None)
        items = self.size if name in ("batch", "scan") else 1
        return None if method is None else Racer(method, items, self.runner)

    def check(self, expected: Sequence[dict[str, Any]], calls: Sequence[Call]) -> None:
        """See that it gives back what was written, before anything is measured."""
        if "get" in calls and hasattr(self, "get"):
            assert self.plain(self.answer("get", 1)) == expected[1 % self.size], f"{type(self).__name__}: another item"
        if "scan" in calls and hasattr(self, "scan"):
            assert [self.plain(one) for one in self.answer("scan", 0)] == expected, f"{type(self).__name__}: others"

    def answer(self, name: Call, number: int) -> Any:
        """What a call gives."""
        given = getattr(self, name)(number)
        return given if self.runner is None else self.runner(given)

    def close(self) -> None:
        """Release what is held open."""


class Looped(Contender):
    """A contender that is async, in one event loop."""

    def __init__(self, address: str, size: int) -> None:
        self.loop = asyncio.Runner()
        self.runner = self.loop.run
        super().__init__(address, size)

    def close(self) -> None:
        self.loop.run(self.aclose())
        self.loop.close()

    async def aclose(self) -> None:
        """Release what the loop holds open."""
