"""Cleaning after the answer: of a server that fails on purpose, with the emulator behind it, sync and async."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from threading import Event
from typing import Annotated, Any

import pytest
from grpc import StatusCode

from odm import AccessPattern, AsyncStore, Counter, Entity, ItemNotFound, PrimaryKey, Store, Table, increment
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import Read, ReadRows
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.driver import BigtableConnection
from odm.concurrency import Background
from odm.protocol.connection import Later
from odm.protocol.requests import Delete
from odm.results import RequestInfo
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.server import Answer, Server, serving

pytestmark = pytest.mark.slow

ATTEMPTS = 4
"""The attempts that fail before the test lets one succeed."""

parks = Table("parks")
_prefixes = count(1)


class Tree(Entity, table=parks):
    name: str
    kind: str
    height: int = 0
    rings: Annotated[int, Counter] = 0
    primary = PrimaryKey("TREE#{name}")
    by_kind = AccessPattern("KIND#{kind}", "{name}")
    by_height = AccessPattern("HEIGHT#{height}", "{name}")


INDEXES = ("by_kind", "by_height")
OAK = Tree(name="oak", kind="Quercus")


class Place:
    """A table behind a server that fails: see `fail`.

    Attributes:
        backend: the backend of the server.
        go: lets the attempts succeed.
        options: of a store of the table.
    """

    def __init__(self, server: Server, emulator: str, transport: Any) -> None:
        self.server = server
        self.go = Event()
        self.prefix = f"later{next(_prefixes)}-"
        self.backend = Quick("project", "instance", endpoint=server.address, transport=transport)
        self.direct = Bigtable("project", "instance", endpoint=emulator)
        self.with_oak()

    def with_oak(self) -> None:
        with Store(parks, self.direct, prefix=self.prefix) as db:
            db.create()
            db.put(OAK)

    def fail(self, method: str, together: int = 1) -> None:
        """Fail attempts at calls of a method, which are made together; the attempt after them waits for `go`."""

        def waiting(answer: Answer) -> Answer:
            assert self.go.wait(30)
            yield from answer

        failing, passing = [(StatusCode.UNAVAILABLE,)] * ATTEMPTS, [(waiting,)]
        self.server.scripts[method] = [part for part in (*failing, *passing) for _ in range(together)]

    def cells(self, *indexes: str) -> int:
        """The number of cells in the table, or in indexes of it."""
        connection = self.direct.connect(Schema(name="any", entities={}, indexes={}))
        tables = [f"{self.prefix}parks.{index}" for index in indexes] or [f"{self.prefix}parks"]
        read: list[Read] = [connection.call(ReadRows(table, filter=Newest())) for table in tables]
        connection.close()
        return sum(len(row.cells) for found in read for row in found.rows)


class Quick(Bigtable):
    """Retries without long pauses."""

    def connect(self, schema: Schema) -> BigtableConnection:
        return BigtableConnection(self, schema, Retry(first=0.01, most=0.01))


@pytest.fixture
def place(bigtable_emulator: str, transport: Any) -> Iterator[Place]:
    with serving(bigtable_emulator) as server:
        yield Place(server, bigtable_emulator, transport)


def test_a_delete_is_answered_before_its_cleaning_succeeds(place: Place) -> None:
    place.fail("MutateRows", len(INDEXES))
    told: list[RequestInfo] = []
    with Store(parks, place.backend, prefix=place.prefix, on_request=told.append) as db:
        with db.meter() as meter:
            db.delete(OAK)
        assert db.get(Tree, name="oak") is None
        assert place.cells(*INDEXES) == 2, "the cleaning waits"
        place.go.set()
    assert place.cells(*INDEXES) == 0, "the closed store has waited for it"
    cleanings = [info for info in told if "deletecolumn" in str(info.native)]
    assert [info.error is None for info in cleanings] == [False] * 2 * ATTEMPTS + [True] * 2
    assert meter.calls == 2 + 2 * (ATTEMPTS + 1), "a read, a commit and the cleanings"
    assert [meter.by_index[index].calls for index in INDEXES] == [ATTEMPTS + 1] * 2


async def test_an_async_delete_is_answered_before_its_cleaning_succeeds(place: Place) -> None:
    place.fail("MutateRows", len(INDEXES))
    async with AsyncStore(parks, place.backend, prefix=place.prefix) as db:
        with db.meter() as meter:
            await db.delete(OAK)
        assert await db.get(Tree, name="oak") is None
        assert place.cells(*INDEXES) == 2
        place.go.set()
    assert place.cells(*INDEXES) == 0
    assert meter.calls == 2 + 2 * (ATTEMPTS + 1)


def test_closing_the_connection_waits_for_its_twins(place: Place) -> None:
    """`with_options(retries=)` shares the clients, so also what goes on."""
    place.fail("MutateRows", len(INDEXES))
    with Store(parks, place.backend, prefix=place.prefix) as db:
        db.with_options(retries=ATTEMPTS).delete(OAK)
        assert place.cells(*INDEXES) == 2
        place.go.set()
    assert place.cells(*INDEXES) == 0


def test_a_refused_increment_is_answered_before_it_is_undone(place: Place) -> None:
    place.fail("CheckAndMutateRow")
    before = place.cells()
    with Store(parks, place.backend, prefix=place.prefix) as db:
        with pytest.raises(ItemNotFound):
            db.update(Tree.primary(name="elm"), increment(Tree.rings))
        assert place.cells() > before
        place.go.set()
    assert place.cells() == before


PROGRAM = """
from odm import Store
from odm.backends.bigtable import Bigtable
from tests.backends.bigtable.test_later import OAK, Quick, parks

Store(parks, Quick("project", "instance", endpoint={address!r}, transport={transport!r}), prefix={prefix!r}).delete(OAK)
print("deleted", flush=True)
"""


def test_a_program_that_ends_without_closing_waits_for_the_cleaning(place: Place, transport: str) -> None:
    """Python does not start threads for it any more then."""
    place.fail("MutateRows", len(INDEXES))
    program = PROGRAM.format(address=place.server.address, transport=transport, prefix=place.prefix)
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "deleted\n"
    place.go.set()
    _, said = running.communicate(timeout=60)
    assert (running.returncode, place.cells(*INDEXES)) == (0, 0), said


def test_a_later_is_no_request_of_an_index_and_no_group_of_requests(place: Place) -> None:
    connection = place.backend.connect(parks.compile())
    request = Delete(Key("TREE#oak"))
    later = Later(connection.steps(request), Background())
    assert connection.index_of(request, later) is None
    assert connection.calls_of(later) is None
