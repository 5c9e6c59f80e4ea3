"""What a contender is: a library on a service, loaded with a page."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, get_args

from attrs import frozen

from benchmarks.pages import Page
from benchmarks.services import Service, Unavailable
from benchmarks.timing import Racer, Run

Call = Literal["get", "put", "query", "query index", "update", "batch", "transact"]
CALLS: Final[tuple[Call, ...]] = get_args(Call)
TRANSACTED: Final = 10
"""So many puts are one transaction."""

SEED: Final = 20260105


class Contender:
    """One way to store a page. Items are asked for by number.

    Subclasses have some of the calls as methods, plain or ``async``: ``get(number)``, ``put(model)``,
    ``query(number)``, ``query_index(number)``, ``update(number)``, ``batch(models)``, ``transact(models)``. One that
    is not there is not measured.

    Args:
        page: what it is loaded with.
        service: what keeps it; closed with the contender.
    """

    run: Run | None = None
    """Runs the coroutines of one that is async."""

    limits: Mapping[Call, int] = {}
    """The largest page for some calls."""

    def __init__(self, page: Page, service: Any) -> None:
        self.page = page
        self.service = service
        self._chosen = Random(SEED)
        try:
            self.connect()
        except BaseException:
            service.close()
            raise

    def connect(self) -> None:
        """Make the client."""

    def model(self, number: int, edition: int = 0) -> Any:
        """The item as this library takes it."""
        return self.page.model(number, edition)

    def plain(self, found: Any) -> dict[str, Any]:
        """The fields of what a call found."""
        shown: dict[str, Any] = found.model_dump()
        return shown

    def call(self, name: Call) -> Callable[[Any], Any] | None:
        """The method of a call; None where there is none."""
        if self.page.size > self.limits.get(name, self.page.size) or (name == "query index" and not self.page.indexed):
            return None
        method: Callable[[Any], Any] | None = getattr(self, name.replace(" ", "_"), None)
        return method

    def answer(self, name: Call, argument: Any) -> Any:
        """What a call gives."""
        method = self.call(name)
        assert method is not None
        return method(argument) if self.run is None else self.run(method(argument))

    def load(self) -> None:
        """Store the page."""
        if not self.service.batches:
            for number in range(self.page.size):
                self.answer("put", self.model(number))
            return
        for start in range(0, self.page.size, 500):
            self.answer("batch", [self.model(number) for number in range(start, min(start + 500, self.page.size))])

    def check(self) -> None:
        """See that it gives back what it was given, before anything is measured."""
        number = (self.page.size // 2) if self.page.partition else 0
        expected = [self.page.model(each).model_dump() for each in self.page.partition_of(number)]
        name = f"{type(self).__name__} gives other items back for {self.page.name}"
        if self.call("get"):
            assert self.plain(self.answer("get", number)) == self.page.model(number).model_dump(), name
        for query in ("query", "query index"):
            if self.call(query):
                found = sorted(map(self.plain, self.answer(query, number)), key=lambda item: item[self.page.names[1]])
                assert found == expected, name

    def racer(self, name: Call) -> Racer | None:
        """The call, ready to be timed; None where there is none."""
        method = self.call(name)
        if method is None:
            return None
        batch = min(self.page.size, {"batch": self.page.batch or self.page.size, "transact": TRANSACTED}.get(name, 1))

        def arguments(count: int, edition: int) -> Sequence[Any]:
            return [self._argument(name, batch, edition) for _ in range(count)]

        items = len(self.page.partition_of(0)) if name == "query" and self.page.each else batch
        return Racer(method, arguments, items, self.run, self.service.clock)

    def _argument(self, name: Call, batch: int, edition: int) -> Any:
        if name in ("batch", "transact"):
            numbers = self._chosen.sample(range(self.page.size), batch)
            return [self.model(number, edition) for number in numbers]
        number = self._chosen.randrange(self.page.size)
        return self.model(number, edition) if name == "put" else number

    def close(self) -> None:
        """Release what is held open."""
        self.service.close()


class Looped(Contender):
    """A contender that is async, in one event loop."""

    def __init__(self, page: Page, service: Any) -> None:
        self.loop = asyncio.Runner()
        self.run = self.loop.run
        super().__init__(page, service)

    def close(self) -> None:
        self.loop.run(self.aclose())
        self.loop.close()
        super().close()

    async def aclose(self) -> None:
        """Release what the loop holds open."""


@frozen
class Entry:
    """A contender by name.

    Attributes:
        name: as the tables show it.
        where: its module in this package, and its class.
        service: what it runs on, at a path for its files; None where the section says that.
        largest: the largest page that it is measured with; slow ones take too long beyond.
        limits: the largest page for some calls.
        indexed: whether its page has a secondary pattern.
    """

    name: str
    where: str
    service: Callable[[Path], Service] | None = None
    largest: int | None = None
    limits: Mapping[Call, int] = {}
    indexed: bool = False

    @contextmanager
    def on(self, page: Page, service: Callable[[], Service]) -> Iterator[Contender]:
        """The contender, empty.

        Raises:
            Unavailable: a package of it is not installed, or its service does not run here.
        """
        module, name = self.where.split(":")
        try:
            kind = getattr(import_module(f"benchmarks.{module}"), name)
        except ModuleNotFoundError as error:
            raise Unavailable(f"{error.name} is not installed") from error
        made = kind(page, service())
        assert isinstance(made, Contender)
        made.limits = self.limits
        try:
            yield made
        finally:
            made.close()
