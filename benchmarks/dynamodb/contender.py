"""What a contender is: one way to reach the items of a page, with models in and out."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from benchmarks.dynamodb.answers import Item, Wire
from benchmarks.dynamodb.pages import Page
from benchmarks.timing import Racer

Call = Literal["query", "get", "put"]


class Contender:
    """One way to reach a page. Subclasses have the calls, plain or ``async``: ``query()``, ``get()``, ``put(model)``.

    Args:
        page: what is read and written.
        wire: what answers.
        items: the page in odm's stored form; a contender with a form of its own loads that instead.
    """

    def __init__(self, page: Page, wire: Wire, items: Sequence[Item] = ()) -> None:
        self.page = page
        self.wire = wire
        self.models = [self.model(tag, values) for tag, values in page.rows]
        self.connect()
        self.load(items)

    def connect(self) -> None:
        """Make the client."""
        raise NotImplementedError

    def load(self, items: Sequence[Item]) -> None:
        """Let the wire hold the page."""
        self.wire.load(items)

    def model(self, tag: str, values: dict[str, Any]) -> Any:
        """An item as this library has it."""
        return self.page.models[tag](**values)

    def plain(self, found: Any) -> dict[str, Any]:
        """The fields of what was found."""
        shown: dict[str, Any] = found.model_dump()
        return shown

    def racer(self, name: Call) -> Racer | None:
        """The call, ready to be timed and seen to be right; None where the library does not have it."""
        method: Callable[..., Any] | None = getattr(self, name, None)
        if method is None:
            return None
        items = self.page.size if name == "query" else 1
        return Racer(lambda number: method(*self._arguments(name, number)), items, self.runner)

    def _arguments(self, name: Call, number: int) -> tuple[Any, ...]:
        return (self.models[number % len(self.models)],) if name == "put" else ()

    runner: Callable[[Coroutine[Any, Any, Any]], Any] | None = None
    """Runs the coroutines of one that is async, in a loop of its own."""

    def check(self) -> None:
        """See that it gives the page back, before anything is measured."""
        expected = self.page.expected
        found = [self.plain(each) for each in self.answer("query")]
        assert found == expected, f"{type(self).__name__} gives other items back for {self.page.name}"
        if hasattr(self, "get"):
            assert self.plain(self.answer("get")) == expected[0], f"{type(self).__name__} gives another item back"

    def answer(self, name: Call) -> Any:
        """What a call gives."""
        given = getattr(self, name)(*self._arguments(name, 0))
        return self.runner(given) if self.runner is not None else given

    def close(self) -> None:
        """Release what is held open."""


class Looped(Contender):
    """A contender that is async, in one event loop."""

    def __init__(self, page: Page, wire: Wire, items: Sequence[Item] = ()) -> None:
        self.loop = asyncio.Runner()
        self.runner = self.loop.run
        super().__init__(page, wire, items)

    def close(self) -> None:
        self.loop.run(self.aclose())
        self.loop.close()

    async def aclose(self) -> None:
        """Release what the loop holds open."""
