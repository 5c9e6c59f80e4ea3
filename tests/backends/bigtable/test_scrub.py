"""Scrub: what it removes and keeps, in which order it reads, and how it continues, sync and async."""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from odm import Store
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import (
    ENTRIES,
    SERVER_TIME,
    AppendValue,
    CheckAndMutateRow,
    Entry,
    Increment,
    MutateRow,
    MutateRows,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    SetCell,
)
from odm.backends.bigtable.maintenance import scrub as scrubs
from odm.backends.bigtable.maintenance.scrub import Scrubbed, ascrub, scrub
from odm.backends.bigtable.rows.codec import REVISION, TAG
from odm.backends.bigtable.rows.keys import entry_row, index_table
from odm.backends.bigtable.writer import Writer
from odm.errors import BackendError, BadValue, Throttled
from odm.immutable import evolve
from odm.protocol.connection import Connection
from tests.backends.bigtable.stopping import LEASE, Scene, Steps, Visit, World, pages

HOUR = 3600


@pytest.fixture
def world(bigtable_emulator: str) -> Iterator[World]:
    made = World(bigtable_emulator)
    yield made
    made.close()


@pytest.fixture
def scene(world: World) -> Scene:
    return world.scene()


def claim(scene: Scene, value: str, qualifier: str = "gone", timestamp: int = SERVER_TIME) -> None:
    """Leave a column behind, like a writer that stops after its claim."""
    row = entry_row(scene.put(value).entries["by_a"], scene.key)
    item = "#".join(scene.key).encode()
    entry = Entry(row, (SetCell(qualifier, item, timestamp, ENTRIES),))
    scene.world.connection.call(MutateRow(index_table(scene.world.schema.name, "by_a"), entry))


class TestColumns:
    def test_columns_that_no_item_lists_are_removed(self, world: World, scene: Scene) -> None:
        scene.do(scene.put("1", "x"))
        claim(scene, "1")
        claim(scene, "2")
        claim(scene, "2", "gone too")
        claim(world.scene(), "7")
        assert world.scrub() == Scrubbed(rows=4, columns=4)
        world.check_scrubbed()
        assert len(world.columns()) == 2
        assert world.scrub() == Scrubbed(rows=2)

    def test_an_entry_that_another_attempt_made_counts_under_its_own_qualifier_alone(
        self, world: World, scene: Scene
    ) -> None:
        scene.do(scene.put("1"))
        scene.do(scene.put("1"))
        kept = world.listed()
        claim(scene, "1", "later")
        world.scrub()
        assert world.columns() == kept

    def test_columns_younger_than_the_lease_stay(self, world: World, scene: Scene) -> None:
        claim(scene, "2")
        assert world.scrub(after=LEASE - 60) == Scrubbed()
        assert len(world.columns()) == 1
        assert world.scrub(after=LEASE + 60).columns == 1

    def test_a_claim_that_is_made_again_concurrently_stays(self, world: World, scene: Scene) -> None:
        claim(scene, "2", timestamp=1000)
        scrubber = world.scrubber(after=0)
        while not isinstance(scrubber.pending, MutateRows):
            scrubber.step()
        claim(scene, "2")
        assert scrubber.run().answer == Scrubbed(rows=1, columns=1)
        assert len(world.columns()) == 1

    def test_the_index_row_is_read_before_the_item(self, world: World, scene: Scene) -> None:
        """A claim that is committed between the two reads is found in the item."""
        writer = scene.writer(scene.put("1")).run(2)
        scrubber = world.scrubber()
        assert scrubber.step().table == index_table(world.schema.name, "by_a")
        assert scrubber.pending.table == world.schema.name
        writer.run()
        assert scrubber.run().answer == Scrubbed(rows=1)
        scene.check()

    def test_a_row_with_a_column_that_stays_is_not_deleted(self, world: World, scene: Scene) -> None:
        """A claim may be added to the row between the read and the removal."""
        claim(scene, "1", timestamp=1000)
        scrubber = world.scrubber()
        while not isinstance(scrubber.pending, MutateRows):
            scrubber.step()
        claim(scene, "1", "new", timestamp=SERVER_TIME)
        scrubber.run()
        assert {qualifier for *_, qualifier in world.columns()} == {"new"}

    def test_a_removal_that_is_not_answered_is_sent_again(self, world: World, scene: Scene) -> None:
        claim(scene, "2")
        scrubber = world.scrubber()
        while not isinstance(scrubber.pending, MutateRows):
            scrubber.step()
        scrubber.lose(performed=False)
        assert scrubber.run().answer == Scrubbed(rows=1, columns=1)
        assert not world.columns()

    def test_when_removals_are_not_answered_at_all(self, world: World, scene: Scene) -> None:
        claim(scene, "2")
        scrubber = world.scrubber()
        while not scrubber.done:
            if isinstance(scrubber.pending, MutateRows):
                scrubber.lose(performed=False)
            else:
                scrubber.step()
        assert isinstance(scrubber.error, Throttled)
        assert "could not be scrubbed" in str(scrubber.error)


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator)


@pytest.fixture
def prefix() -> str:
    return f"{uuid.uuid4().hex[:12]}-"


@pytest.fixture
def db(backend: Bigtable, prefix: str) -> Iterator[Store]:
    with Store(pages, backend, prefix=prefix) as made:
        made.create()
        yield made
        made.drop()


@pytest.fixture
def link(db: Store, backend: Bigtable, prefix: str) -> Iterator[Connection[Any]]:
    """A connection for native calls to the same tables."""
    made = backend.connect(pages.compile())
    yield made
    made.close()


Do = Callable[..., Awaitable[Scrubbed]]


@pytest.fixture(params=["sync", "async"])
def do(request: pytest.FixtureRequest, backend: Bigtable, prefix: str, db: Store) -> Do:
    """Scrub, sync or async, this many hours from now."""

    async def scrubbed(hours: float = 2, **options: Any) -> Scrubbed:
        options = {"prefix": prefix, "clock": lambda: time.time() + hours * HOUR, **options}
        if request.param == "sync":
            return scrub(backend, pages, **options)
        return await ascrub(backend, pages, **options)

    return scrubbed


def ghost(link: Connection[Any], prefix: str, row_key: str) -> None:
    """A ghost: what an increment leaves where there was no item, if its writer stops."""
    rules = (Increment("views", 1), AppendValue(TAG, b""), AppendValue(REVISION, b""))
    link.call(ReadModifyWriteRow(f"{prefix}pages", row_key, rules))


def keys(link: Connection[Any], prefix: str, table: str = "pages") -> list[str]:
    rows: tuple[Row, ...] = link.call(ReadRows(f"{prefix}{table}", filter=Newest())).rows
    return [row.text for row in rows]


class TestRows:
    async def test_ghosts_are_removed_items_stay(self, do: Do, db: Store, link: Connection[Any], prefix: str) -> None:
        db.put(Visit(page="m", day="1"))
        ghost(link, prefix, "PAGE#m#DAY#2")
        assert await do(hours=0.9) == Scrubbed(rows=2)
        assert (await do()).ghosts == 1
        assert keys(link, prefix) == ["PAGE#m#DAY#1"]

    def test_a_ghost_that_becomes_an_item_concurrently_stays(
        self, db: Store, link: Connection[Any], prefix: str, world: World
    ) -> None:
        ghost(link, prefix, "PAGE#m#DAY#2")
        schema = evolve(pages.compile(), name=f"{prefix}pages")
        writer = Writer(schema)
        rules = scrubs.Rules(LEASE, clock=lambda: time.time() + 2 * HOUR)
        scrubber = Steps(world, scrubs.collect(writer, rules, lambda _: None))
        while not isinstance(scrubber.pending, CheckAndMutateRow):
            scrubber.step()
        db.put(Visit(page="m", day="2"))
        assert scrubber.run().answer.ghosts == 0
        assert db.one(Visit, page="m", day="2").views == 0

    async def test_expired_items_are_removed_with_their_entries_on_request(
        self, do: Do, db: Store, link: Connection[Any], prefix: str
    ) -> None:
        now = datetime.now(UTC)
        db.put(Visit(page="old", day="1", ends=now + timedelta(hours=1)))
        db.put(Visit(page="new", day="1", ends=now + timedelta(hours=3)))
        db.put(Visit(page="ever", day="1"))
        assert await do() == Scrubbed(rows=6)
        assert len(keys(link, prefix)) == len(keys(link, prefix, "pages.by_day")) == 3
        assert await do(expired=True) == Scrubbed(rows=5, expired=1)
        assert keys(link, prefix) == ["PAGE#ever#DAY#1", "PAGE#new#DAY#1"]
        assert keys(link, prefix, "pages.by_day") == [
            "DAY#1##ever##PAGE#ever##DAY#1",
            "DAY#1##new##PAGE#new##DAY#1",
        ]

    async def test_entries_of_an_expired_item_stay(self, do: Do, db: Store, link: Connection[Any], prefix: str) -> None:
        db.put(Visit(page="old", day="1", ends=datetime.now(UTC) + timedelta(hours=1)))
        assert (await do()).columns == 0
        assert len(keys(link, prefix, "pages.by_day")) == 1


class TestGoingOn:
    async def test_it_reports_where_to_continue_after_each_page(
        self, do: Do, db: Store, prefix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scrubs, "PAGE_ROWS", 2)
        db.put(Visit(page="m", day="1"))
        db.put(Visit(page="m", day="2"))
        db.put(Visit(page="m", day="3"))
        told: list[Scrubbed] = []
        done = await do(tell=told.append)
        assert [(one.rows, one.following) for one in told] == [
            (2, f"{prefix}pages:PAGE#m#DAY#2"),
            (3, f"{prefix}pages.by_day:"),
            (5, f"{prefix}pages.by_day:DAY#2##m##PAGE#m##DAY#2"),
            (6, None),
        ]
        assert done == told[-1]
        rest = [(await do(after=one.following)).rows for one in told[:-1]]
        assert rest == [4, 3, 1]

    async def test_a_position_in_another_table_is_refused(self, do: Do) -> None:
        with pytest.raises(BadValue, match="pass the `following` of an earlier scrub"):
            await do(after="other:x")

    async def test_the_rate_is_limited(self, do: Do, db: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scrubs, "PAGE_ROWS", 1)
        for day in "123":
            db.put(Visit(page="m", day=day))
        began = time.monotonic()
        assert (await do(rate=30.0)).rows == 6
        assert time.monotonic() - began >= 5 / 30

    @pytest.mark.parametrize("options", [{"rate": 0.0}, {"lease": -1.0}], ids=str)
    async def test_invalid_numbers_are_refused(self, do: Do, options: dict[str, float]) -> None:
        with pytest.raises(BadValue, match="a number above 0"):
            await do(**options)

    async def test_without_tables(self, do: Do, db: Store) -> None:
        db.drop()
        with pytest.raises(BackendError, match="does not exist"):
            await do()
        db.create()

    async def test_the_servers_time_counts_and_leaves_nothing(
        self, do: Do, db: Store, link: Connection[Any], prefix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With a local clock that is fast, a scrub would remove claims of active writers."""
        row = Entry("DAY#1##m##PAGE#m##DAY#1", (SetCell("claimed", b"PAGE#m#DAY#1", SERVER_TIME, ENTRIES),))
        link.call(MutateRow(f"{prefix}pages.by_day", row))
        monkeypatch.setattr(time, "time", lambda: 4_000_000_000.0)
        assert (await do(clock=None)).columns == 0
        assert keys(link, prefix) == []
