"""Runs writers on one store with their requests in any order; each writer may be stopped anywhere.

The writers are real procedures on a `Memory` that, like Bigtable, writes one item at a time. Every order is run from
the start, because generators cannot be copied.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

from attrs import frozen

from odm import Store, Table
from odm.backends.local import Memory
from odm.extend import Calls, Gen
from odm.protocol import requests as req
from odm.protocol.connection import Backend, ForwardingConnection, run
from odm.results import RawItem
from odm.schema.entity import Key
from odm.schema.model import Schema

Program: TypeAlias = Callable[[Calls], Gen[Any]]


@frozen
class OneByOne(Backend):
    """A `Memory` without transactions."""

    inner: Memory
    name: str = "one by one"

    def connect(self, schema: Schema) -> "OneByOneConnection":
        return OneByOneConnection(self.inner.connect(schema))


class OneByOneConnection(ForwardingConnection[Any]):
    """The connection of `OneByOne`."""

    def transaction_unsupported_reason(self, keys: Sequence[Key]) -> str | None:
        return "it writes one item at a time" if len(keys) > 1 else None


class Writer:
    """A program that sends one request at a time; parallel requests are sent one after the other.

    Attributes:
        answers: the answers that it received, which determine its position.
        done, result: whether it has ended, and its result.
    """

    def __init__(self, send: Callable[[req.Request], Any], steps: Gen[Any]) -> None:
        self.answers: list[str] = []
        self.done = False
        self.result: Any = None
        self._send, self._steps = send, steps
        self._asked: tuple[req.Request, ...] = ()
        self._told: list[Any] = []
        self._go_on(None)

    def step(self) -> None:
        """Send the next request, and continue the program with the answer."""
        self._told.append(self._send(self._asked[len(self._told)]))
        self.answers.append(repr(self._told[-1]))
        if len(self._told) == len(self._asked):
            self._go_on(tuple(self._told) if self._together else self._told[0])

    def _go_on(self, answer: Any) -> None:
        self._told = []
        try:
            asked: Any = self._steps.send(answer)
            while isinstance(asked, req.Wait):  # turns and pauses are advice, not steps to order
                asked = self._steps.send(None)
        except StopIteration as ended:
            self.done, self.result = True, ended.value
            return
        self._together = isinstance(asked, req.Gather)
        self._asked = asked.requests if isinstance(asked, req.Gather) else (asked,)
        if not self._asked:
            self._go_on(())


def stored_by(table: Table, before: Program) -> Sequence[RawItem]:
    """The items that a writer stores before the others start."""
    with Store(table, OneByOne(Memory())) as store:
        store.create()
        store.run(before)
        return store.scan_page(size=1000, expired=True).items


class Crowd:
    """Several writers on a store with these items."""

    def __init__(self, table: Table, before: Sequence[RawItem], programs: Sequence[Program]) -> None:
        self.store = Store(table, OneByOne(Memory()))
        self.store.create()
        self.store.put_raw(before)
        self._connection = self.store._session.connection
        do = Calls(self.store._session)
        self.writers = [Writer(self.send, program(do)) for program in programs]

    def send(self, request: req.Request) -> Any:
        """Apply a request."""
        return run(self._connection.steps(request), self._connection.call)

    @property
    def at_work(self) -> list[int]:
        """The writers that have not ended."""
        return [at for at, writer in enumerate(self.writers) if not writer.done]

    @property
    def stored(self) -> tuple[str, ...]:
        """The stored items."""
        return tuple(repr(raw.attributes) for raw in self.store.scan_page(size=1000).items)

    @property
    def state(self) -> tuple[str, ...]:
        """The state, which determines all further steps."""
        return (*self.stored, *("|".join(writer.answers) for writer in self.writers))


def every_order(make: Callable[[], Crowd]) -> Iterator[Crowd]:
    """The crowd in every state that an order of its requests leads to."""
    seen: set[tuple[str, ...]] = set()
    orders: list[tuple[int, ...]] = [()]
    while orders:
        order = orders.pop()
        crowd = make()
        for at in order:
            crowd.writers[at].step()
        if crowd.state not in seen:
            seen.add(crowd.state)
            orders += [(*order, at) for at in crowd.at_work]
            yield crowd


def random_order(crowd: Crowd, random: Random) -> Iterator[None]:
    """Run the crowd in one order, in which some writers are stopped; yields before each request and at the end."""
    while crowd.at_work:
        yield
        at = random.choice(crowd.at_work)
        if random.random() < 0.03:
            crowd.writers[at].done = True
        else:
            crowd.writers[at].step()
    yield
