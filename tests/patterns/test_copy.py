"""Copying a table between stores: results, stopped copies, costs, and differences that `verify` finds."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any
from uuid import uuid4
from zlib import crc32

import boto3
import pytest

from odm import (
    AccessPattern,
    AsyncStore,
    BadValue,
    Entity,
    ItemExists,
    PrimaryKey,
    Revision,
    Store,
    Table,
    Throttled,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Faults, LocalFile, Memory
from odm.extend import Companion, RateLimit
from odm.patterns.copy import Progress, acopy, copy
from odm.patterns.pointer import Pointer
from odm.patterns.unique import Unique
from odm.patterns.verify import BUCKETS, NAMED, averify, verify
from odm.patterns.versioned import Versioned
from odm.protocol import requests as req
from odm.protocol.connection import Backend
from odm.results import RawItem
from odm.testing import Clock
from odm.testing.stores import Stores
from tests.patterns.portability import prove
from tests.patterns.zoo import Animal, Keeper, Ticket, fill, zoo, zoo_v1

pytestmark = pytest.mark.slow

BACKENDS = ["memory", "file", "dynamodb_local", "bigtable", "wide"]
Open = Callable[[str], Backend]


@pytest.fixture
def open_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a backend by name, on which this test has its own tables."""

    def open_it(name: str) -> Backend:
        if name == "memory":
            return Memory()
        if name == "file":
            return LocalFile(tmp_path / f"{uuid4().hex}.db")
        if name in ("bigtable", "wide"):
            address = request.getfixturevalue("bigtable_emulator")
            layout: Any = "row_per_partition" if name == "wide" else None
            return Bigtable("project", f"i{uuid4().hex[:12]}", endpoint=address, layout=layout)
        session = boto3.Session(
            aws_access_key_id=f"key{uuid4().hex[:12]}", aws_secret_access_key="secret", region_name="eu-west-1"
        )
        return DynamoDB(session, endpoint_url=request.getfixturevalue(name))

    return open_it


@pytest.fixture
def source() -> Iterator[Store]:
    """A store in memory with 100 items of all kinds."""
    backend = Memory()
    with Store(zoo, backend) as db:
        db.create()
        fill(Store(zoo_v1, backend), db, 100)
        yield db


@pytest.fixture
def target() -> Iterator[Store]:
    """An empty store in memory."""
    with Store(zoo, Memory()) as db:
        db.create()
        yield db


def items(db: Store) -> dict[tuple[str, str], RawItem]:
    """All items of the table that have not expired."""
    found: dict[tuple[str, str], RawItem] = {}
    cursor: str | None = db.parts(1)[0]
    while cursor is not None:
        page = db.scan_page(cursor)
        found |= {(item.partition, item.sort): item for item in page.items}
        cursor = page.cursor
    return found


class TestCopy:
    @pytest.mark.parametrize("mode", ["sync", "async"])
    @pytest.mark.parametrize("to", BACKENDS)
    def test_every_item_arrives_unchanged(self, to: str, mode: str, open_backend: Open, source: Store) -> None:
        backend = open_backend(to)
        with Store(zoo, backend) as there:
            there.create()
            done = copy(source, there) if mode == "sync" else asyncio.run(self.moved(source.backend, backend))
            assert done.items == 100
            assert done.verified is not None
            assert done.verified.same
            assert items(there) == items(source)
            sick = [animal.animal_id for animal in source.query(Animal.sick())]
            assert sick
            assert [animal.animal_id for animal in there.query(Animal.sick())] == sick

    async def moved(self, here: Backend, there: Backend) -> Any:
        async with AsyncStore(zoo, here) as source, AsyncStore(zoo, there) as target:
            return await acopy(source, target, parallel=3)

    @pytest.mark.full
    def test_of_several_thousand_items_through_all_backends(self, open_backend: Open) -> None:
        said: list[str] = []
        names = ["file", "dynamodb_local", "bigtable", "wide", "file"]
        prove([open_backend(name) for name in names], 2000, said.append)
        assert "every index is equal" in said[-1]

    def test_to_a_table_of_another_name(self, source: Store) -> None:
        with Store(zoo, source.backend, prefix="new-") as there:
            there.create()
            assert copy(source, there).items == 100
            assert items(there) == items(source)

    def test_leaves_out_what_has_expired(self, source: Store, target: Store) -> None:
        assert source.count(Ticket.primary(day=0)) < len(_all_raw(source, "TICKETS#0"))
        copy(source, target)
        assert _all_raw(target, "TICKETS#0") == [
            item for item in _all_raw(source, "TICKETS#0") if "expired" not in item
        ]

    def test_copies_items_of_companions_and_does_not_let_them_write(self, tmp_path: Path) -> None:
        with Store(logged, Memory()) as here, Store(logged, LocalFile(tmp_path / "a.db")) as there:
            here.create()
            there.create()
            for text in ("a", "b"):
                here.put(Note(note_id="n", text=text))
            assert len(items(here)) == 3
            assert copy(here, there).items == 3
            assert items(there) == items(here)

    def test_reports_its_progress(self, source: Store, target: Store) -> None:
        told: list[Progress] = []
        copy(source, target, size=10, tell=told.append)
        assert [one.copied for one in told] == sorted(one.copied for one in told)
        assert told[-1] == Progress(100, 4, 4, compared=205)  # with five in the source that have expired
        assert len(told) > 10

    def test_spreads_each_page_over_its_partitions(self, target: Store) -> None:
        with Stores(Memory(), "sync") as stores:
            there = stores.open(zoo)
            with target.batch() as batch:
                for day in range(4):
                    for number in range(5):
                        batch.put(Ticket(ticket_id=f"{number}", day=day))
            copy(target, there, parallel=1, check=False)
            (batch_,) = [one for one in stores.requests if isinstance(one, req.BatchWrite)]
            partitions = [one.key.partition for one in batch_.operations]
            assert partitions == [f"TICKETS#{day:06}" for day in range(4)] * 5


def _all_raw(db: Store, partition: str) -> list[str]:
    start = partition.replace("#", f"#{'0' * 5}")
    return [item.sort for item in db.scan_page(expired=True, size=10_000).items if item.partition == start]


class TestCosts:
    def test_reads_and_writes_each_item_once(self, source: Store, target: Store) -> None:
        with source.meter() as here, target.meter() as there:
            copy(source, target, parallel=1, size=20, check=False)
        assert here.write_units == 0
        assert here.calls == 6  # pages of 20 of the 105 items
        assert there.calls == 1 + 2 * 6  # one to check that it is empty; tags and a batch for each page
        with source.meter() as here, target.meter() as there:
            assert verify(source, target, parallel=1, size=20).same
        assert (here.write_units, there.write_units) == (0, 0)
        assert (here.calls, there.calls) == (6, 5)


class TestStops:
    @pytest.mark.parametrize("kind", ["memory", "file"])
    def test_between_any_two_requests(self, kind: str, open_backend: Open, tmp_path: Path) -> None:
        """A program is stopped after n requests, and another one continues the copy."""
        with Stores(open_backend(kind), "sync") as stores:
            here = stores.open(zoo, prefix="from-")
            fill(stores.open(zoo_v1, prefix="from-"), here, 20)
            stopped, n = True, 0
            while stopped:
                there = stores.open(zoo, prefix=f"to{n}-")
                state = tmp_path / f"{n}.state"
                work = partial(copy, here, there, parallel=2, size=3, state=state)
                stopped = stores.stopped(work, after=n)
                if stopped:
                    done = work()
                    assert done.items == 20
                    assert done.verified is not None
                    assert done.verified.same
                assert items(there) == items(here)
                assert not state.exists()
                n += 3 if kind == "file" else 1
            assert n > 15

    def test_does_not_copy_again_what_was_acknowledged(self, source: Store, tmp_path: Path) -> None:
        faults = Faults()
        state = tmp_path / "state"
        with Store(zoo, Memory(faults=faults)) as there:
            there.create()
            faults.throttle("batch", after=6)
            with pytest.raises(Throttled):
                copy(source, there, parallel=1, size=10, state=state)
            before = len(items(there))
            assert 60 <= before < 100
            with source.meter() as meter:
                assert copy(source, there, parallel=1, size=10, state=state, check=False).items == 100
            assert meter.calls < 6
            assert items(there) == items(source)

    async def test_in_an_async_program(self, source: Store, tmp_path: Path) -> None:
        faults = Faults()
        backend = Memory(faults=faults)
        async with AsyncStore(zoo, source.backend) as here, AsyncStore(zoo, backend) as there:
            await there.create()
            faults.throttle("batch", after=3)
            with pytest.raises(Throttled):
                await acopy(here, there, size=5, state=tmp_path / "state")
            done = await acopy(here, there, size=5, state=tmp_path / "state")
            assert (done.items, await averify(here, there)) == (100, done.verified)

    @pytest.mark.parametrize("mode", ["sync", "async"])
    def test_one_that_fails_stops_the_others(self, mode: str, source: Store) -> None:
        faults = Faults()
        backend = Memory(faults=faults)
        with Store(zoo, backend) as there:
            there.create()
            faults.throttle("batch")
            begun = time.monotonic()
            run: dict[str, Callable[[], object]] = {
                "sync": lambda: copy(source, there, size=5, rate=5),
                "async": lambda: asyncio.run(self.copied(source.backend, backend)),
            }
            with pytest.raises(Throttled):
                run[mode]()  # the other workers would wait many seconds
            assert time.monotonic() - begun < 10
            assert len(items(there)) < 40

    async def copied(self, here: Backend, there: Backend) -> None:
        async with AsyncStore(zoo, here) as source, AsyncStore(zoo, there) as target:
            await acopy(source, target, size=5, rate=5)

    def test_two_at_once_with_one_state(self, source: Store, target: Store, tmp_path: Path) -> None:
        """As when the command is started again before it has ended: each run completes, and none fails."""
        work = partial(copy, source, target, parallel=1, size=1, state=tmp_path / "state", into_existing=True)
        with ThreadPoolExecutor(4) as pool:
            ends = [one.result() for one in [pool.submit(work) for _ in range(4)]]
        assert all(end.verified and end.verified.same for end in ends)
        assert items(target) == items(source)
        assert list(tmp_path.iterdir()) == []

    def test_begins_again_where_the_target_is_empty_again(self, source: Store, tmp_path: Path) -> None:
        faults = Faults()
        state = tmp_path / "state"
        with Store(zoo, Memory(faults=faults)) as there, Store(zoo, Memory()) as another:
            there.create()
            another.create()
            faults.throttle("batch", after=6)
            with pytest.raises(Throttled):
                copy(source, there, parallel=1, size=10, state=state)
            assert copy(source, another, state=state, check=False).items == 100
            assert items(another) == items(source)

    def test_a_state_of_something_else_is_refused(self, source: Store, target: Store, tmp_path: Path) -> None:
        state = tmp_path / "state"
        for text in ("", "[]", "{}", '{"format": 1, "stores": [], "parts": 3}', "\x00"):
            state.write_text(text)
            with pytest.raises(BadValue, match="is not the state of a copy"):
                copy(source, target, state=state)
        state.write_text('{"format": 1, "stores": ["a", "b"], "parts": []}')
        with pytest.raises(BadValue, match="is the state of a copy from a to b"):
            copy(source, target, state=state)
        assert items(target) == {}


class TestRefuses:
    def test_a_target_with_items(self, source: Store, target: Store) -> None:
        target.put(Keeper(keeper_id="there", email="e"))
        with pytest.raises(BadValue, match="already has items, such as KEEPER#there"):
            copy(source, target)
        done = copy(source, target, into_existing=True)
        assert done.items == 100
        assert done.verified is not None
        (difference,) = done.verified.differences
        assert str(difference) == "Keeper KEEPER#there: 0 in the source, 1 in the target"

    def test_stores_that_do_not_belong_together(self, source: Store) -> None:
        with Store(Table("zoo"), Memory()) as other, pytest.raises(BadValue, match="open both with one Table"):
            copy(source, other)
        with Store(zoo, source.backend) as same, pytest.raises(BadValue, match="source and target are both"):
            verify(source, same)

    @pytest.mark.parametrize(
        "options", [{"rate": 0}, {"rate": -1}, {"rate": float("inf")}, {"parallel": 0}, {"size": 0}]
    )
    def test_numbers_out_of_range(self, source: Store, target: Store, options: Any) -> None:
        with pytest.raises(BadValue):
            copy(source, target, **options)


class TestRate:
    def test_of_a_limit(self) -> None:
        clock = Clock()
        limit = RateLimit(100, clock)
        assert [limit.take(n) for n in (50, 50, 30)] == [0, 0.5, 1]
        clock.advance(1.2)
        assert limit.take(10) == pytest.approx(0.1)
        clock.advance(60)
        assert [limit.take(100), limit.take(1)] == [0, 1]  # unused capacity is not saved
        assert (limit.page(250), limit.page(20), RateLimit(0.5).page(250)) == (100, 20, 1)

    def test_of_a_copy(self, source: Store, target: Store) -> None:
        begun = time.monotonic()
        copy(source, target, rate=100, size=10, check=False)
        assert 0.85 < time.monotonic() - begun < 5


class TestVerify:
    def test_finds_what_is_not_the_same(self, source: Store, target: Store) -> None:
        copy(source, target)
        keeper = Keeper.primary(keeper_id="k1")
        target.update(keeper, set_(Keeper.name, "changed"))
        target.delete(Keeper, keeper_id="k2")
        target.put(Keeper(keeper_id="new", email="e"))
        found = verify(source, target)
        assert not found.same
        assert [str(one) for one in found.differences] == [
            "Keeper KEEPER#k1: 1 on both sides, which differ in attributes, keys or index entries",
            "Keeper KEEPER#k2: 1 in the source, 0 in the target",
            "Keeper KEEPER#new: 0 in the source, 1 in the target",
        ]

    def test_finds_a_revision_that_was_counted(self, source: Store, target: Store) -> None:
        copy(source, target)
        animal = target.one(Animal, keeper_id="k3", animal_id="a3")
        target.put(animal)
        (difference,) = verify(source, target).differences
        assert (difference.entity, difference.partition) == ("Animal", "KEEPER#k3")

    def test_finds_index_entries_that_are_not_right(self) -> None:
        backend, before = Memory(), Table("notes")

        class Before(Entity, table=before, tag="Remark"):
            name: str

            primary = PrimaryKey("{name}")

        with Store(remarks, Memory()) as here, Store(remarks, backend) as there, Store(before, backend) as old:
            for db in (here, there):
                db.create()
            here.put(Remark(name="n"))
            old.put(Before(name="n"))
            assert [item.attributes for item in items(here).values()] == [
                item.attributes for item in items(there).values()
            ]
            assert not verify(here, there).same
            assert verify(there, here).same
            copy(here, there, into_existing=True)
            assert verify(here, there).same

    def test_counts_what_expires_meanwhile_on_both_sides_or_neither(self) -> None:
        clock = Clock()
        with Store(zoo, Memory(clock=clock)) as here, Store(zoo, Memory(clock=clock)) as there:
            for db in (here, there):
                db.create()
                db.put(Ticket(ticket_id="t", day=1, valid_until=clock.now() + timedelta(seconds=5)))
            found = verify(here, there, tell=lambda _: clock.advance(10))
            assert (found.items, found.same) == (1, True)
            assert verify(here, there).items == 0

    def test_looks_into_some_of_very_many_differences(self, source: Store, target: Store) -> None:
        found = verify(source, target)
        assert not found.same
        sums = {(one.entity, crc32(one.partition.encode()) % BUCKETS) for one in found.differences}
        assert len(sums) == NAMED
        assert found.more > 0
        assert found.more < BUCKETS


class TestWriters:
    @pytest.mark.parametrize("kind", ["memory", "file"])
    def test_are_included_by_a_second_copy(self, kind: str, open_backend: Open, target: Store) -> None:
        """Copies unchanged items while others write; a second copy, after the writes, copies the changed ones."""
        backend = open_backend(kind)
        over = Event()

        def writes() -> None:
            n = 0
            while not over.is_set():
                here.update(Keeper.primary(keeper_id=f"k{n % 20}"), set_(Keeper.name, f"of round {n}"))
                n += 1

        with Store(zoo, backend) as here, ThreadPoolExecutor(1) as pool:
            here.create()
            fill(Store(zoo_v1, backend), here, 200)
            writing = pool.submit(writes)
            try:
                done = copy(here, target, size=5)
            finally:
                over.set()
            writing.result()
            assert done.items == 200
            found, there = items(here), items(target)
            assert found.keys() == there.keys()
            others = [key for key, item in found.items() if type(item.entity) is not Keeper]
            assert [there[key] for key in others] == [found[key] for key in others]
            again = copy(here, target, into_existing=True)
            assert again.verified is not None
            assert again.verified.same


class TestCompanions:
    @pytest.mark.parametrize(("here", "there"), [("memory", "bigtable"), ("bigtable", "file")])
    def test_continue_on_the_target(self, here: str, there: str, open_backend: Open) -> None:
        """Between backends with transactions and a backend that writes items one by one."""
        ann = Account(name="ann", email="ann@x", note="first")
        with Store(accounts, open_backend(here)) as source, Store(accounts, open_backend(there)) as target:
            source.create()
            target.create()
            first = source.put(ann)
            source.put(first.model_copy(update={"note": "second"}))
            source.put(Account(name="bob", email="bob@x"))
            assert copy(source, target).verified == verify(source, target)
            assert items(target) == items(source)
            with pytest.raises(ItemExists):
                target.insert(Account(name="cleo", email="ann@x"))
            stored = target.one(Account.unique_email(email="ann@x"))
            assert stored == source.one(Account, name="ann")
            target.put(stored.model_copy(update={"email": "new@x", "note": "third"}))
            target.insert(Account(name="cleo", email="ann@x"))
            assert target.one(Account.newest()).name == "cleo"
            assert [one.note for one in target.query(Account.history(name="ann"))] == ["first", "second", "third"]


accounts = Table("accounts")


class Account(Entity, table=accounts):
    name: str
    email: str
    note: str = ""
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("ACCOUNT#{name}", "v0")
    by_name = AccessPattern("ACCOUNTS", "{name}")
    unique_email = Unique("email")
    history = Versioned("ACCOUNT#{name}", "v{revision}")
    newest = Pointer("NEWEST", tracks="name")


remarks = Table("notes")


class Remark(Entity, table=remarks):
    name: str

    primary = PrimaryKey("{name}")
    all_of_them = AccessPattern("ALL", "{name}")


class Log(Companion):
    """Keeps an item for every text of a note."""

    def entities(self, entity: type[Entity]) -> list[type[Entity]]:
        declared = {"primary": PrimaryKey("LOG#{note_id}", "{text}")}
        self.entry = self.make(entity, Entity, {"note_id": str, "text": str}, declared)
        return [self.entry]

    def companion_writes(self, tx: Any, effect: Any) -> None:
        if effect.new is not None:
            tx.put(self.entry(note_id=effect.new.note_id, text=effect.new.text))


logged = Table("logged")


class Note(Entity, table=logged):
    note_id: str
    text: str

    primary = PrimaryKey("NOTE#{note_id}")
    log = Log()
