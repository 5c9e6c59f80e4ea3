"""Sharded counters: invalid declarations, lost answers, and concurrent writers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import new_class
from typing import Annotated, Any
from uuid import uuid4

import boto3
import pytest
from pydantic import Field

from odm import (
    AsyncStore,
    Backend,
    BadValue,
    Counter,
    Entity,
    OutcomeUnknown,
    PrimaryKey,
    SchemaError,
    Store,
    Table,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Faults, LocalFile, Memory
from odm.patterns.sharded_counter import ShardedCounter
from odm.testing.suite.sharded_counters import ONE, THREE, Downloads, songs

Number = Annotated[int, Field(ge=0, lt=100)]
Count = Annotated[int, Counter]


def entity(key: str = "HITS#{shard}#{page}", **fields: Any) -> type[Entity]:
    """An entity whose items are shards, with some invalid fields."""
    body = {
        "__module__": __name__,
        "__annotations__": {"page": str, "shard": Number, "count": Count, **fields},
        "count": 0,
        "primary": PrimaryKey(key),
    }
    return new_class("Hits", (Entity,), {"table": Table("pages")}, lambda names: names.update(body))


@pytest.mark.parametrize(
    ("hits", "options", "wrong"),
    [
        (entity(), {"shards": 0}, "from 1 to 100"),
        (entity(), {"shards": 101}, "an int from 1 to 100,"),
        (entity(), {"shards": True}, "an int from 1 to 100, and reads"),
        (entity(), {"shards": 8, "reads": 7}, "reads no less"),
        (entity(), {"shards": 8, "count": "counts"}, "no field 'counts': did you mean 'count'"),
        (entity(), {"shards": 8, "shard": "part"}, "no field 'part'"),
        (entity(), {"shards": 8, "count": "page"}, "= 0"),
        (entity(count=Annotated[int, Field(ge=0)]), {"shards": 8}, "bounds"),
        (entity(shard=Annotated[int, Field(ge=0, lt=8)]), {"shards": 8, "reads": 9}, "cannot be 8"),
        (entity(shard=str), {"shards": 8}, "cannot be 7"),
        (entity("HITS#{page}"), {"shards": 8}, r"\{shard\}"),
    ],
    ids=range(11),
)
def test_an_invalid_counter_is_refused_when_it_is_declared(
    hits: type[Entity], options: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(SchemaError, match=wrong):
        ShardedCounter(hits, **options)


def test_a_counter_may_have_other_names_and_formats() -> None:
    class Views(Entity, table=Table("views")):
        page: str
        part: int
        views: Count = 0

        hashed = PrimaryKey("{part:desc}#{page}")

    views = ShardedCounter(Views, shards=100, count="views", shard="part")
    with Store(Views.__odm_table__, Memory()) as db:  # type: ignore[arg-type]
        db.create()
        db.run(views.add(7, page="home"))
        assert db.run(views.total(page="home")) == 7


def test_the_caller_cannot_choose_the_shard() -> None:
    with Store(songs, Memory()) as db, pytest.raises(BadValue, match="chooses the shard"):
        db.run(THREE.add(song_id="s", shard=1))


def test_the_key_of_a_shard_is_random() -> None:
    assert {THREE.shard_key(song_id="s").values["shard"] for _ in range(200)} == {0, 1, 2}


def test_they_print() -> None:
    counter = ShardedCounter(Downloads, shards=3, reads=8)
    assert repr(counter) == "ShardedCounter(Downloads, shards=3, reads=8)"
    assert repr(THREE.add(song_id="s")) == "ShardedCounter(Downloads, shards=3).add(1, song_id='s')"


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_answer_is_an_error(applied: bool) -> None:
    faults = Faults()
    with Store(songs, Memory(faults=faults)) as db:
        db.create()
        db.run(ONE.add(song_id="s"))
        faults.lose("update", applied=applied)
        with pytest.raises(OutcomeUnknown):
            db.run(ONE.add(song_id="s"))
        assert db.run(ONE.total(song_id="s")) == 1 + applied


THREADS, TIMES = 8, 25


def in_threads(backend: Backend) -> None:
    """Every thread counts, and no count is lost."""
    with Store(songs, backend) as db:
        db.create()
        song = uuid4().hex  # the services keep items of earlier tests

        def count(_: int) -> None:
            for by in range(TIMES):
                db.run(THREE.add(by, song_id=song))

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(count, range(THREADS)))
        assert db.run(THREE.total(song_id=song)) == THREADS * sum(range(TIMES))


def test_threads_count_exactly_in_memory() -> None:
    in_threads(Memory())


def test_threads_count_exactly_in_a_file(tmp_path: Path) -> None:
    in_threads(LocalFile(tmp_path / "songs.db"))


def test_threads_count_exactly_on_dynamodb_local(dynamodb_local: str) -> None:
    session = boto3.Session(aws_access_key_id="race", aws_secret_access_key="secret", region_name="eu-west-1")
    in_threads(DynamoDB(session, endpoint_url=dynamodb_local))


def test_threads_count_exactly_on_bigtable(bigtable_emulator: str) -> None:
    in_threads(Bigtable("race", "instance", endpoint=bigtable_emulator))


def test_the_first_in_a_shard_is_four_calls_on_bigtable(bigtable_emulator: str) -> None:
    with Store(songs, Bigtable("calls", "instance", endpoint=bigtable_emulator)) as db:
        db.create()
        calls = []
        for _ in range(2):
            with db.meter() as meter:
                db.run(ONE.add(song_id="s"))
            calls.append(meter.calls)
        db.drop()
    assert calls == [4, 1]  # the increment, its reversal, a read, the insert


async def test_tasks_count_exactly_on_bigtable(bigtable_emulator: str) -> None:
    async with AsyncStore(songs, Bigtable("race-async", "instance", endpoint=bigtable_emulator)) as db:
        await db.create()
        await asyncio.gather(*(db.run(THREE.add(song_id="s")) for _ in range(100)))
        assert await db.run(THREE.total(song_id="s")) == 100


@pytest.mark.parametrize(
    "make", [lambda _: Memory(), lambda folder: LocalFile(folder / "songs.db")], ids=["memory", "file"]
)
def test_a_reset_next_to_writers_drops_or_keeps_each_count_whole(
    make: Callable[[Path], Backend], tmp_path: Path
) -> None:
    with Store(songs, make(tmp_path)) as db:
        db.create()
        seen: list[int] = []

        def count(_: int) -> None:
            for _ in range(TIMES):
                db.run(THREE.add(10, song_id="s"))

        def reset(_: int) -> None:
            for to in range(1, 6):
                db.run(THREE.reset(to, song_id="s"))
                seen.append(to)

        with ThreadPoolExecutor(THREADS + 1) as pool:
            work = [pool.submit(count, n) for n in range(THREADS)] + [pool.submit(reset, 0)]
            for one in work:
                one.result()
        total = db.run(THREE.total(song_id="s"))
        assert seen == [1, 2, 3, 4, 5]
        assert total % 10 == 5
        assert total <= 5 + 10 * THREADS * TIMES
