"""``Memory(index_lag=...)``: global indexes show the state of that many seconds ago."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm import TTL, AccessPattern, AsyncStore, BadValue, Entity, PrimaryKey, Store, Table, set_
from odm.backends.local import Memory
from odm.testing import Clock
from odm.testing.bridge import blocking

LAG = 10
table = Table("lagging")


class Job(Entity, table=table):
    number: str
    queue: str | None = "in"
    note: str = ""
    until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("JOB#{number}")
    by_queue = AccessPattern("QUEUE#{queue}", "{number}")


KEY = Job.primary(number="1")


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture(params=["sync", "async"])
def db(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Store]:
    backend = Memory(clock=clock, index_lag=LAG)
    with asyncio.Runner() as runner:
        store = Store(table, backend) if request.param == "sync" else blocking(AsyncStore(table, backend), runner)
        store.create()
        yield store
        store.close()


def queued(db: Store, queue: str = "in") -> list[Job]:
    return list(db.query(Job.by_queue(queue=queue)))


def test_a_new_item_appears_when_the_lag_has_passed(db: Store, clock: Clock) -> None:
    job = db.put(Job(number="1"))
    assert db.get(KEY) == job
    assert list(db.scan(Job)) == [job]
    assert queued(db) == []
    clock.advance(LAG - 0.001)
    assert queued(db) == []
    clock.advance(0.001)
    assert queued(db) == [job]


def test_an_index_returns_the_previous_item_of_an_update(db: Store, clock: Clock) -> None:
    old = db.put(Job(number="1", note="old"))
    clock.advance(LAG)
    db.update(KEY, set_(Job.note, "new"))
    assert db.one(KEY).note == "new"
    assert queued(db) == [old]
    clock.advance(LAG)
    assert [job.note for job in queued(db)] == ["new"]


def test_an_index_finds_a_moved_item_under_its_previous_key(db: Store, clock: Clock) -> None:
    db.put(Job(number="1"))
    clock.advance(LAG)
    db.update(KEY, set_(Job.queue, "out"))
    assert ([job.queue for job in queued(db)], queued(db, "out")) == (["in"], [])
    clock.advance(LAG)
    assert (queued(db), [job.queue for job in queued(db, "out")]) == ([], ["out"])


@pytest.mark.parametrize("gone", ["deleted", "out of the index"])
def test_a_removed_item_is_still_found(db: Store, clock: Clock, gone: str) -> None:
    db.put(Job(number="1"))
    clock.advance(LAG)
    if gone == "deleted":
        db.delete(KEY)
    else:
        db.update(KEY, set_(Job.queue, None))
    assert len(queued(db)) == db.count(Job.by_queue(queue="in")) == len(db.page(Job.by_queue(queue="in")).items) == 1
    clock.advance(LAG)
    assert queued(db) == []


def test_a_batch_and_its_deletes_lag_too(db: Store, clock: Clock) -> None:
    with db.batch() as batch:
        for n in range(5):
            batch.put(Job(number=str(n)))
    assert queued(db) == []
    clock.advance(LAG)
    assert db.delete_all(Job.by_queue(queue="in")) == 5
    assert list(db.scan(Job)) == []
    assert len(queued(db)) == 5
    clock.advance(LAG)
    assert queued(db) == []


def test_expiry_does_not_lag(db: Store, clock: Clock) -> None:
    db.put(Job(number="1", until=clock.now() + timedelta(seconds=LAG + 5)))
    clock.advance(LAG)
    assert len(queued(db)) == 1
    clock.advance(5)
    assert queued(db) == []


def test_an_update_reads_the_item_and_not_the_index(db: Store, clock: Clock) -> None:
    db.put(Job(number="1"))
    clock.advance(LAG)
    db.update(KEY, set_(Job.queue, "out"))
    [found] = queued(db)
    db.update(found, set_(Job.note, "done"))
    assert (db.one(KEY).queue, db.one(KEY).note) == ("out", "done")


def test_two_stores_lag_equally(clock: Clock) -> None:
    backend = Memory(clock=clock, index_lag=LAG)
    with Store(table, backend) as one, Store(table, backend) as other:
        one.create()
        one.put(Job(number="1"))
        assert queued(other) == []
        clock.advance(LAG)
        assert len(queued(other)) == 1


def test_the_real_time_is_the_default() -> None:
    with Store(table, Memory(index_lag=3600)) as db:
        db.create()
        db.put(Job(number="1"))
        assert queued(db) == []


def test_without_lag_an_index_shows_writes_at_once() -> None:
    with Store(table, Memory(clock=lambda: 0.0)) as db:
        db.create()
        db.put(Job(number="1"))
        assert len(queued(db)) == 1


@pytest.mark.parametrize("lag", [-1, float("nan"), float("inf")])
def test_an_invalid_lag_is_refused(lag: float) -> None:
    with pytest.raises(BadValue, match="index_lag"):
        Memory(index_lag=lag)


STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 3), st.sampled_from(["in", "out", None]), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(1, 7)),
)


@given(st.lists(STEPS, max_size=30))
def test_the_index_shows_an_earlier_state(steps: list[tuple[Any, ...]]) -> None:
    clock = Clock(datetime(2030, 1, 1, tzinfo=UTC))
    start = clock()
    model: dict[str, Job] = {}
    history = [(start - LAG, dict(model))]
    with Store(table, Memory(clock=clock, index_lag=LAG)) as db:
        db.create()
        for kind, *values in steps:
            if kind == "put":
                number, queue, note = values
                model[str(number)] = db.put(Job(number=str(number), queue=queue, note=str(note)))
            elif kind == "delete":
                db.delete(Job, number=str(values[0]))
                model.pop(str(values[0]), None)
            else:
                clock.advance(values[0])
            history.append((clock(), dict(model)))
            then = [jobs for moment, jobs in history if moment <= clock() - LAG][-1]
            for queue in ("in", "out"):
                expected = sorted((job for job in then.values() if job.queue == queue), key=lambda job: job.number)
                assert queued(db, queue) == expected
            assert {job.number: job for job in db.scan(Job)} == model
