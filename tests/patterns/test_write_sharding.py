"""Write sharding: costs, and moving entries while others read and write."""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from threading import Event as Signal
from typing import Literal
from uuid import uuid4

import boto3
import pytest

from odm import AccessPattern, AsyncStore, Backend, BadValue, Entity, PrimaryKey, Shards, Store, Table, set_
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.patterns import write_sharding
from odm.patterns.write_sharding import move
from odm.testing.spreading import FewTask, GrownTask, Sale, Task, enough, few, more, salted

NAMES = [f"t{number:02}" for number in range(24)]


def filled(backend: Backend, names: list[str] = NAMES, prefix: str = "") -> Store:
    """A store with more shards than when its tasks were put."""
    with Store(few, backend, prefix=prefix) as before:
        before.create()
        for name in names:
            before.put(FewTask(task_id=name))
    return Store(more, backend, prefix=prefix)


def test_the_layout_is_the_documented_one() -> None:
    table = Table("events")

    class Event(Entity, table=table):
        event_id: str
        status: Literal["new", "done"] = "new"
        at: datetime

        primary = PrimaryKey("EVENT#{event_id}")
        by_status = AccessPattern("STATUS#{status}", "{at}#{event_id}", shards=Shards(8, by="event_id"))

    class Visit(Entity, table=table):
        at: datetime
        visitor: str

        primary = PrimaryKey("VISITS#{at:%Y%m%d}", "{at}#{visitor}", shards=Shards(4, by="visitor"))

    assert write_sharding.__doc__ is not None
    for made in (Event, Visit):  # as declared in the docstring
        assert "".join(inspect.getsource(made).split()) in "".join(
            write_sharding.__doc__.replace("events", "table").split()
        )
    db = Store(table, Memory())
    event = db.explain(Event(event_id="e7", at=datetime(2026, 1, 5, 7, tzinfo=UTC))).native
    visit = db.explain(Visit(visitor="v3", at=datetime(2026, 1, 5, 3, tzinfo=UTC))).native
    shown = [", ".join(key) for key in (event.key, event.entries["by_status"], visit.key)]
    assert f"| an event | {shown[0]} | {shown[1]} |\n| a visit | {shown[2]} | |" in write_sharding.__doc__


def test_what_it_costs() -> None:
    db = filled(Memory())
    with db.meter() as meter:
        assert db.count(Task.drawn()) == 24
    assert (meter.calls, meter.read_units) == (13, 6.5)  # 11 shards and 2 old ones
    with db.meter() as meter:
        assert db.reshard(Task.fresh()) == 24
    assert (meter.calls, meter.write_units) == (1 + 24, 24 * (1 + 2 + 2))  # the item, its moved entry, two more indexes
    with db.meter() as meter:
        assert db.reshard(Task.drawn().where(Task.rank > 0)) == 0
    assert (meter.calls, meter.write_units) == (2, 0)
    with db.meter() as meter:
        assert db.count(Task.fresh(rank=0, task_id="t00")) == 1
    assert meter.calls == 2
    sales = Store(salted, Memory())
    sales.create()
    day = date(2014, 7, 9)
    with sales.meter() as meter:
        sales.put(Sale(day=day, sale_id="s1"))
        assert sales.get(Sale, day=day, sale_id="s1") is not None
        assert (meter.calls, meter.read_units) == (2, 1)
        assert sales.count(Sale.primary(day=day)) == 1
        assert (meter.calls, meter.read_units) == (14, 13)


def test_what_it_costs_on_bigtable(bigtable_emulator: str) -> None:
    db = filled(Bigtable(f"cost-{uuid4().hex[:8]}", "instance", endpoint=bigtable_emulator), NAMES[:4])
    with db, db.meter() as meter:
        assert db.reshard(Task.fresh()) == 4
        assert meter.calls == 2 + 4 * 3
        assert db.reshard(Task.fresh()) == 0
        assert meter.calls == 2 + 4 * 3 + 1


def session() -> boto3.Session:
    key = f"race{uuid4().hex[:8]}"
    return boto3.Session(aws_access_key_id=key, aws_secret_access_key="secret", region_name="eu-west-1")


def race(db: Store, before: Store, rounds: int, *, readers: int = 2) -> None:
    """Run readers, writers and two reshards concurrently: every read returns every task once, in order."""
    done = Signal()

    def read() -> int:
        readings = 0
        while not done.is_set() or readings == 0:
            for query in (Task.by_rank(), Task.fresh(), Task.fresh().reverse()):
                found = [task.task_id for task in db.query(query)]
                assert found == sorted(NAMES, reverse=query.descending)
                assert db.count(query) == len(NAMES)
                readings += 1
        return readings

    def shake(number: int) -> None:
        """Write entries again, and a field that is in no entry."""
        for turn in range(rounds):
            for name in NAMES[number::2]:
                if turn % 2:
                    db.update(Task.primary(task_id=name), set_(Task.note, f"turn {turn}"))
                elif number:
                    db.put(Task(task_id=name))

    def reshard() -> None:
        for query in (Task.by_rank(), Task.fresh(), Task.drawn()):
            db.reshard(query)

    with ThreadPoolExecutor(8) as pool:
        reading = [pool.submit(read) for _ in range(readers)]
        try:
            work = [pool.submit(shake, number) for number in range(2)] + [pool.submit(reshard) for _ in range(2)]
            for one in work:
                one.result()
        finally:
            done.set()
        assert all(one.result() > 0 for one in reading)
    assert [db.reshard(query) for query in (Task.by_rank(), Task.fresh(), Task.drawn())] == [0, 0, 0]
    assert before.count(FewTask.fresh()) == 0
    assert {db.one(Task, task_id=name).note for name in NAMES} == {f"turn {rounds - 1}"}


@pytest.mark.parametrize(
    "make", [lambda _: Memory(), lambda folder: LocalFile(folder / "tasks.db")], ids=["memory", "file"]
)
def test_entries_move_next_to_readers_and_writers(make: Callable[[Path], Backend], tmp_path: Path) -> None:
    backend = make(tmp_path)
    with filled(backend) as db, Store(few, backend) as before:
        race(db, before, 4)


def test_entries_move_next_to_readers_and_writers_on_bigtable(bigtable_emulator: str) -> None:
    backend = Bigtable(f"race-{uuid4().hex[:8]}", "instance", endpoint=bigtable_emulator)
    with filled(backend) as db, Store(few, backend) as before:
        race(db, before, 2)


def test_entries_move_next_to_writers_on_dynamodb_local(dynamodb_local: str) -> None:
    backend = DynamoDB(session(), endpoint_url=dynamodb_local)
    with filled(backend) as db, Store(few, backend) as before:
        race(db, before, 2, readers=0)  # no readers, because indexes lag


async def test_tasks_read_and_move_at_once_on_bigtable(bigtable_emulator: str) -> None:
    backend = Bigtable(f"tasks-{uuid4().hex[:8]}", "instance", endpoint=bigtable_emulator)
    filled(backend).close()
    async with AsyncStore(more, backend) as db:

        async def read() -> None:
            for _ in range(5):
                assert [task.task_id async for task in db.query(Task.fresh())] == NAMES

        moved = await asyncio.gather(db.reshard(Task.fresh()), db.reshard(Task.fresh()), read(), read())
        assert moved[0] + moved[1] >= len(NAMES)
        assert await db.reshard(Task.fresh()) == 0


@pytest.mark.parametrize("backend", ["memory", "dynamodb_local", "bigtable_emulator"])
def test_all_partitions_that_a_scan_finds_are_moved(backend: str, request: pytest.FixtureRequest) -> None:
    match backend:
        case "memory":
            made: Backend = Memory()
        case "dynamodb_local":
            made = DynamoDB(session(), endpoint_url=request.getfixturevalue(backend))
        case _:
            made = Bigtable(f"all-{uuid4().hex[:8]}", "instance", endpoint=request.getfixturevalue(backend))
    with closing(filled(made, NAMES[:6])) as db, Store(enough, made) as after:
        assert after.count(GrownTask.fresh()) == 0
        assert db.run(move(Task, lambda task: None)) == 0
        assert db.run(move(Task, lambda task: Task.fresh())) == 6
        assert db.run(move(Task, lambda task: Task.fresh())) == 0
        assert after.count(GrownTask.fresh()) == 6
        assert asyncio.run(moved_again(made)) == 6


async def moved_again(backend: Backend) -> int:
    async with AsyncStore(more, backend) as db:
        return await db.run(move(Task, lambda task: Task.drawn()))


def test_a_pattern_without_was_is_refused() -> None:
    backend = Memory()
    filled(backend, NAMES[:1])
    with Store(enough, backend) as after, pytest.raises(BadValue, match=r"GrownTask.fresh .*was="):
        after.run(move(GrownTask, lambda task: GrownTask.fresh()))
