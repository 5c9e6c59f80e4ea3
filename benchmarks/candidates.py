"""What a candidate is, and the names of all of them.

A candidate stores orders and is asked for them by number. Its operations are methods, plain or ``async``; one that it
does not have is not measured. A candidate whose packages are missing is listed as not available, with the reason.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from attrs import frozen

from benchmarks.orders import PER_CUSTOMER, fields

Operation = Literal["get", "put", "query", "query index", "update", "batch", "transact"]
Clock = Literal["cpu", "wall"]

LOADED_AT_ONCE: Final = 500
TRANSACTED: Final = 10
"""So many puts are one transaction."""


class Unavailable(Exception):
    """A candidate cannot run here; the message says why."""


class Candidate:
    """One way to store orders.

    Subclasses have the operations, as methods named like them: ``get(number)``, ``put(order)``, ``query(customer)``,
    ``query_index(customer)``, ``update(number)``, ``batch(orders)``, ``transact(orders)``.

    Args:
        size: how many orders it is loaded with.
        folder: where it may keep files.
    """

    clock: ClassVar[Clock] = "cpu"
    most: ClassVar[Mapping[Operation, int]] = {}
    """The largest size at which an operation is measured, where it takes too long beyond."""

    def __init__(self, size: int, folder: Path) -> None:
        self.size = size
        self.folder = folder

    def order(self, number: int, edition: int = 0) -> Any:
        """The order as this candidate takes it."""
        raise NotImplementedError

    def operation(self, name: Operation) -> Callable[[Any], Any] | None:
        """The method of an operation, or None where there is none, or it is too slow at this size."""
        if self.size > self.most.get(name, self.size):
            return None
        method: Callable[[Any], Any] | None = getattr(self, name.replace(" ", "_"), None)
        return method

    def load(self) -> None:
        """Store the orders, many at a time."""
        batch = self.operation("batch")
        assert batch is not None
        for start in range(0, self.size, LOADED_AT_ONCE):
            self.wait(batch([self.order(number) for number in range(start, min(start + LOADED_AT_ONCE, self.size))]))

    def wait(self, result: Any) -> Any:
        """The result of an operation, which may be a coroutine."""
        return self.run(result) if asyncio.iscoroutine(result) else result

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine; the candidates that have any keep an event loop."""
        raise NotImplementedError

    def plain(self, found: Any) -> dict[str, Any]:
        """The fields of what an operation found."""
        shown: dict[str, Any] = found.model_dump()
        return shown

    def check(self) -> None:
        """See that it gives back what it was given, before anything is measured."""
        number = self.size // 2
        assert self.plain(self._ask("get", number)) == fields(number), f"{self} gives another order back"
        first = number - number % PER_CUSTOMER
        expected = [fields(n) for n in range(first, min(first + PER_CUSTOMER, self.size))]
        for name in ("query", "query index"):
            if self.operation(name) is not None:
                found = sorted(map(self.plain, self._ask(name, number)), key=lambda order: order["order_id"])
                assert found == expected, f"{self} gives other orders back for a {name}"

    def _ask(self, name: Operation, argument: Any) -> Any:
        method = self.operation(name)
        assert method is not None
        return self.wait(method(argument))

    def close(self) -> None:
        """Release what is held open."""


@frozen
class Entry:
    """A candidate by name.

    Attributes:
        name: as the tables show it.
        where: its module in this package, and its class.
        most: the largest size it is measured at; slow ones take too long beyond.
    """

    name: str
    where: str
    most: int | None = None

    def make(self, size: int, folder: Path) -> Candidate:
        """The candidate, empty.

        Raises:
            Unavailable: a package of it is not installed.
        """
        module, name = self.where.split(":")
        try:
            made = getattr(import_module(f"benchmarks.{module}"), name)(size, folder)
        except ModuleNotFoundError as error:
            raise Unavailable(f"{error.name} is not installed") from error
        assert isinstance(made, Candidate)
        return made

    def loaded(self, size: int, folder: Path) -> Candidate:
        """The candidate with its orders, checked.

        Raises:
            Unavailable: it cannot run here.
        """
        candidate = self.make(size, folder)
        try:
            candidate.load()
            candidate.check()
        except BaseException:
            candidate.close()
            raise
        return candidate


ENTRIES: Final[Sequence[Entry]] = (
    Entry("Memory", "ours:InMemory"),
    Entry("Memory + index", "ours:InMemoryIndexed"),
    Entry("LocalFile", "ours:InFile"),
    Entry("LocalFile + index", "ours:InFileIndexed"),
    Entry("dict + SortedDict", "floors:Sorted"),
    Entry("pydantic alone", "floors:Validation"),
    Entry("sqlite3", "floors:Sqlite"),
    Entry("append + fdatasync", "floors:Append"),
    Entry("moto + boto3", "boto:Moto", most=10_000),
    Entry("PynamoDB + moto", "pynamo:Pynamo", most=10_000),
    Entry("dynalite + boto3", "boto:Dynalite", most=10_000),
    Entry("dynamoxy", "dynamoxy_memory:Dynamoxy"),
)


def entries(names: Iterable[str] | None = None) -> list[Entry]:
    """The candidates of these names, or all."""
    return list(ENTRIES) if names is None else [entry for entry in ENTRIES if entry.name in set(names)]
