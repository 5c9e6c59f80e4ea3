"""Writers on the emulator that make one native call at a time: they are stopped, overtaken, or lose answers.

A `World` is a table with two indexes. Its writers are the real procedures. Only pauses move their clock, and
their ids are numbered. Each part of a world (`Scene`) has its own keys, so that many cases share the tables.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count
from typing import Annotated, Any, Final, TypeAlias

from google.api_core import exceptions

from odm import TTL, AccessPattern, Counter, Entity, PrimaryKey, Table
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import Concurrent, Mutated, MutateRows, Read, ReadRows, Row, RowRange
from odm.backends.bigtable.client.native import Steps as NativeSteps
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.driver import BigtableConnection
from odm.backends.bigtable.maintenance.scrub import Rules, Scrubbed, collect, server_time
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.rows.codec import Stored
from odm.backends.bigtable.rows.keys import entry_row, index_table, with_row_keys
from odm.errors import OdmError
from odm.expressions.nodes import Action, Condition, Item, Path, Remove, Set
from odm.protocol.connection import Later, run
from odm.protocol.predicates import ABSENT, EXISTS
from odm.protocol.requests import (
    BatchWrite,
    CreateTables,
    Delete,
    DropTables,
    Page,
    Put,
    Query,
    Request,
    Sleep,
    Transact,
    Update,
)
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema

google: Any = exceptions
LEASE: Final = 3600.0
INDEXES: Final = ("by_a", "by_b")
_worlds = count(1)
pages = Table("pages")


class Visit(Entity, table=pages):
    """Has an index, a counter and an expiry."""

    page: str
    day: str
    views: Annotated[int, Counter] = 0
    ends: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("PAGE#{page}", "DAY#{day}")
    by_day = AccessPattern("DAY#{day}", "{page}")


class Clock:
    """A clock that only pauses and tests move."""

    seconds = 1_700_000_000.0
    wall = 0.0  # by how much the wall clock has been set

    def __call__(self) -> float:
        return self.seconds

    def micros(self) -> int:
        """The wall clock, for the timestamps of cells."""
        return int(self.seconds + self.wall) * 1_000_000


Held: TypeAlias = list[tuple[Key, Stored]]
"""Items by key, with their revisions and lists."""


def listed_by(items: Held) -> set[tuple[str, str, str]]:
    """Columns of index rows: index, row key, qualifier."""
    return {(entry.index, entry_row(entry.key, key), entry.qualifier) for key, held in items for entry in held.entries}


class World:
    """A table with two indexes on the emulator."""

    def __init__(self, address: str, *, wide: bool = False) -> None:
        indexes = {name: IndexSchema(name, ()) for name in INDEXES}
        self.schema = with_row_keys(Schema(name=f"stopping{next(_worlds)}", entities={}, indexes=indexes, wide=wide))
        self.connection = BigtableConnection(Bigtable("project", "instance", endpoint=address), self.schema)
        self.clock = Clock()
        self._scenes = count(1)
        self._writers = count(1)
        run(self.procedures().steps(CreateTables()), self.connection.call)

    def close(self) -> None:
        """Remove the tables."""
        run(self.procedures().steps(DropTables()), self.connection.call)
        self.connection.close()

    def procedures(self) -> Procedures:
        """The procedures of a new writer."""
        name, numbers = f"w{next(self._writers)}", count(1)
        retry = Retry(clock=self.clock, jitter=lambda: 1.0)
        return Procedures(self.schema, retry, self.clock.micros, lambda: f"{name}-{next(numbers)}")

    def scene(self) -> "Scene":
        """A part that no other test uses."""
        return Scene(self, next(self._scenes))

    def read(self, table: str, prefix: str = "") -> list[Row]:
        """The rows of a table whose keys have this prefix."""
        span = RowRange(prefix, prefix + "\U0010ffff")
        found: Read = self.connection.call(ReadRows(table, range=span, filter=Newest()))
        assert found.failure is None
        return list(found.rows)

    def columns(self, part: str = "") -> set[tuple[str, str, str]]:
        """All columns of index rows: index, row key, qualifier; of one scene, or of all."""
        return {
            (index, row.text, cell.qualifier.decode())
            for index in INDEXES
            for row in self.read(index_table(self.schema.name, index), f"{part}{index}" if part else "")
            for cell in row.cells
        }

    def listed(self, part: str = "") -> set[tuple[str, str, str]]:
        """The columns that items list."""
        return listed_by(self.items(part))

    def items(self, part: str = "") -> Held:
        """The items with their revisions and lists."""
        found = []
        places = self.procedures().writer.places
        for row in places.items(self.read(self.schema.name, part)):
            held = places.stored(row)
            if held is not None:
                partition, sort = row.text.split(self.schema.row_key_join)
                found.append((Key(partition, sort), held))
        return found

    def scrubber(self, *, after: float = 2 * LEASE) -> "Steps":
        """Begin a scrub after this many seconds."""
        now = run(server_time(self.procedures().writer), self.connection.call) / 1_000_000
        return Steps(self, collect(self.procedures().writer, Rules(LEASE, clock=lambda: now + after), lambda _: None))

    def scrub(self, *, after: float = 2 * LEASE) -> Scrubbed:
        """Scrub after this many seconds."""
        done: Scrubbed = self.scrubber(after=after).run().answer
        return done

    def check_scrubbed(self) -> None:
        """The indexes hold only entries that items list."""
        assert self.columns() == self.listed()


class Scene:
    """A part of a world with its own keys, and the requests of a test."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.part = f"S{number:05}"
        self.key = Key(self.part, "i")
        self.other = Key(self.part, "j")

    def entries(self, item: Item) -> dict[str, Key]:
        """The index keys of an item: every item is in index a, items with b are also in index b."""
        values = {index: item.get(index[-1]) for index in INDEXES}
        return {index: self._key(index, str(value)) for index, value in values.items() if value is not None}

    def _key(self, index: str, value: str) -> Key:
        return Key(f"{self.part}{index}", value)

    def put(self, a: str, b: str | None = None, *, key: Key | None = None, when: Condition | None = None) -> Put:
        """Write a whole item."""
        item: dict[str, Any] = {"_t": "T", "a": a} | ({} if b is None else {"b": b})
        return Put(key or self.key, item, self.entries(item), when, presence="absent" if when == ABSENT else None)

    def insert(self, a: str, b: str | None = None) -> Put:
        """Insert an item."""
        return self.put(a, b, when=ABSENT)

    def move(self, a: str) -> Update:
        """Change the key in one index, and remove the item from the other."""
        actions: tuple[Action, ...] = (Set(Path(("a",)), a), Remove(Path(("b",))))
        return Update(self.key, actions, {"by_a": self._key("by_a", a), "by_b": None}, EXISTS)

    def touch(self, n: int = 1) -> Update:
        """Change an attribute that no key contains."""
        return Update(self.key, (Set(Path(("n",)), n),), {}, EXISTS)

    def delete(self) -> Delete:
        """Remove the item."""
        return Delete(self.key)

    def batch(self, a: str) -> BatchWrite:
        """Write two items together."""
        return BatchWrite((self.put(a, "x"), self.put(a, "y", key=self.other)))

    def together(self, a: str) -> Transact:
        """Write two items of one partition in a transaction."""
        return Transact((self.put(a, "x"), self.put(a, "y", key=self.other)))

    def do(self, request: Request) -> Any:
        """Make a request."""
        return run(self.world.procedures().steps(request), self.world.connection.call)

    def writer(self, request: Request) -> "Steps":
        """Begin a request; the test makes its calls."""
        return Steps(self.world, self.world.procedures().steps(request))

    @property
    def item(self) -> Item | None:
        """The stored item."""
        return next((held.item for key, held in self.world.items(self.part) if key == self.key), None)

    def check(self) -> None:
        """Every listed entry exists, and queries of each index return exactly the items that have its keys."""
        items = self.world.items(self.part)
        assert listed_by(items) <= self.world.columns(self.part)
        for index, wanted in self._wanted(items):
            assert list(self._found(index)) == wanted

    def check_pages(self) -> None:
        """The same with one item a page, and in reverse."""
        for index, wanted in self._wanted(self.world.items(self.part)):
            assert list(self._found(index, limit=1)) == wanted
            assert list(self._found(index, limit=1, reverse=True)) == wanted[::-1]

    def _wanted(self, items: Held) -> Iterator[tuple[str, list[tuple[tuple[Key, Key], Item]]]]:
        """What a query of each index must return, according to the items."""
        for index in INDEXES:
            entries = [(self.entries(held.item).get(index), key, held.item) for key, held in items]
            yield index, sorted(((entry, key), item) for entry, key, item in entries if entry is not None)

    def _found(self, index: str, **options: Any) -> Iterator[tuple[tuple[Key | None, Key], Item]]:
        """All results of a query, page by page."""
        after = None
        while True:
            page: Page = self.do(Query(f"{self.part}{index}", index=index, after=after, **options))
            for item, position in zip(page.items, page.positions, strict=True):
                yield (position.index_key, position.key), item
            after = page.next
            if after is None:
                return


class Steps:
    """A procedure that makes one native call at a time; concurrent calls are made one after the other.

    Steps after its answer are made when it has its answer or error, and belong to it: it ends when they do.

    Attributes:
        calls: the number of calls that were begun.
        sent: these calls.
        pending: the next call; None: it has ended.
        answer, error: its result.
    """

    def __init__(self, world: World, steps: NativeSteps[Any]) -> None:
        self.calls = 0
        self.pending: Any = None
        self.answer: Any = None
        self.error: OdmError | None = None
        self.sent: list[Any] = []
        self._world = world
        self._steps = steps
        self._later: list[NativeSteps[None]] = []
        self._together: list[Any] | None = None
        self._brought: list[Any] = []
        self._go_on(lambda: next(self._steps))

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.pending is None

    def step(self) -> Any:
        """Make the next call and take its answer."""
        call = self.pending
        brought = self._world.connection.call(call)
        self._answered(brought)
        return call

    def lose(self, *, performed: bool) -> Any:
        """Lose the answer to the next call, which is made or not; returns the call, to be made later."""
        call = self.pending
        if performed:
            self._world.connection.call(call)
        failure = google.DeadlineExceeded("lost by the test")
        if isinstance(call, ReadRows):
            self._answered(Read((), None, failure))
        elif isinstance(call, MutateRows):
            self._answered(Mutated({}, failure))
        elif self._together is not None:
            self._answered(failure)
        else:
            self._begun(call)
            self._go_on(lambda: self._steps.throw(failure))
        return call

    def run(self, steps: int | None = None) -> "Steps":
        """Make this many calls, or all that are left."""
        made = 0
        while not self.done and (steps is None or made < steps):
            self.step()
            made += 1
            assert made < 200, "it does not end"
        return self

    def _begun(self, call: Any) -> None:
        self.calls += 1
        self.sent.append(call)

    def _answered(self, brought: Any) -> None:
        self._begun(self.pending)
        if self._together is None:
            self._go_on(lambda: self._steps.send(brought))
            return
        self._brought.append(brought)
        if self._together:
            self.pending = self._together.pop(0)
            return
        answers, self._together, self._brought = tuple(self._brought), None, []
        self._go_on(lambda: self._steps.send(answers))

    def _go_on(self, resume: Callable[[], Any]) -> None:
        """Continue to the next call; pauses only move the clock."""
        try:
            native = resume()
            while isinstance(native, Sleep | Later):
                if isinstance(native, Sleep):
                    self._world.clock.seconds += native.seconds
                else:
                    self._later.append(native.steps)
                native = self._steps.send(None)
        except StopIteration as ended:
            self.pending = None
            if ended.value is not None:  # steps after the answer have no result
                self.answer = ended.value
            self._go_on_later()
        except OdmError as error:
            self.pending, self.error = None, error
            self._go_on_later()
        else:
            if isinstance(native, Concurrent):
                self.pending, *self._together = native.calls
            else:
                self.pending = native

    def _go_on_later(self) -> None:
        if self._later:
            self._steps = self._later.pop(0)
            self._go_on(lambda: next(self._steps))
