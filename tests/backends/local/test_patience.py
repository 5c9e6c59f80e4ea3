"""Many writers of one item in one process: each waits for its turn, and none gives up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import pytest

from odm import AccessPattern, AsyncStore, ConditionFailed, Entity, PrimaryKey, Revision, Store, Table, increment, set_
from odm.backends.local import LocalFile
from odm.extend import Calls, procedure
from odm.patterns.unique import Unique
from odm.patterns.versioned import Versioned
from odm.protocol.turns import Turn, Turns
from odm.schema.entity import Key
from tests.effort import full

TASKS = 500 if full() else 80
"""So many that without turns some lose for long."""

table = Table("patience")


class Item(Entity, table=table):
    name: str
    n: int = 0

    primary = PrimaryKey("ITEM#{name}")
    by_n = AccessPattern("ALL", "{n}")


class Member(Entity, table=table):
    name: str
    mail: str | None = None
    n: int = 0

    primary = PrimaryKey("MEMBER#{name}")
    unique_mail = Unique("mail")


class Page(Entity, table=table):
    name: str
    n: int = 0
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("PAGE#{name}", "v0")
    history = Versioned("PAGE#{name}", "v{version}", keep=3)


KEY = Item.primary(name="a")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[AsyncStore]:
    async with AsyncStore(table, LocalFile(tmp_path / "shop.db")) as store:
        await store.create()
        await store.put(Item(name="a"))
        yield store


async def test_tasks_increment_an_indexed_field(db: AsyncStore, tmp_path: Path) -> None:
    async with AsyncStore(table, LocalFile(tmp_path / "shop.db")) as other:  # stores on one file wait for each other
        await asyncio.gather(*((db, other)[n % 2].update(KEY, increment(Item.n, 1)) for n in range(TASKS)))
    assert (await db.one(KEY)).n == TASKS
    assert [item.n async for item in db.query(Item.by_n())] == [TASKS]


def test_threads_increment_an_indexed_field(tmp_path: Path) -> None:
    with Store(table, LocalFile(tmp_path / "shop.db")) as db:
        db.create()
        db.put(Item(name="a"))
        with ThreadPoolExecutor(50) as pool:
            list(pool.map(lambda _: db.update(KEY, increment(Item.n, 1)), range(TASKS)))
        assert db.one(KEY).n == TASKS


async def test_tasks_update_in_transactions(db: AsyncStore) -> None:
    await db.put(Item(name="b"))

    async def both(n: int) -> None:
        async with db.transaction() as tx:
            for name in ("ab", "ba")[n % 2]:
                tx.update(Item.primary(name=name), increment(Item.n, 1))

    await asyncio.gather(*map(both, range(TASKS)))
    assert [(await db.one(Item, name=name)).n for name in "ab"] == [TASKS, TASKS]


async def test_tasks_change_a_unique_value(db: AsyncStore) -> None:
    await db.put(Member(name="a"))
    key = Member.primary(name="a")
    await asyncio.gather(
        *(db.update(key, increment(Member.n, 1), set_(Member.mail, f"{n}@x.com")) for n in range(TASKS))
    )
    found = await db.one(key)
    assert found.n == TASKS
    assert await db.get(Member.unique_mail(mail=found.mail)) == found


async def test_tasks_make_versions(db: AsyncStore) -> None:
    await db.put(Page(name="a"))
    await asyncio.gather(*(db.update(Page.primary(name="a"), increment(Page.n, 1)) for _ in range(TASKS)))
    found = await db.one(Page.primary(name="a"))
    assert (found.n, found.version) == (TASKS, TASKS + 1)
    assert [one.version async for one in db.query(Page.history(name="a"))] == [TASKS - 1, TASKS, TASKS + 1]


async def test_a_condition_is_not_tried_again(db: AsyncStore) -> None:
    async def one(n: int) -> bool:
        try:
            await db.put(Item(name="a", n=n), when=Item.n == 0)
        except ConditionFailed:
            return False
        return True

    assert sum(await asyncio.gather(*map(one, range(1, 1 + TASKS)))) == 1


async def test_cancelled_tasks_do_not_stop_the_others(db: AsyncStore) -> None:
    tasks = [asyncio.create_task(db.update(KEY, increment(Item.n, 1))) for _ in range(TASKS)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0.02)  # until some wait for their turn
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    cancelled = [one for one in found if one is not None]
    assert all(isinstance(one, asyncio.CancelledError) for one in cancelled)
    assert TASKS - len(cancelled) <= (await db.one(KEY)).n <= TASKS  # a cancelled write may have been applied
    await asyncio.wait_for(db.update(KEY, increment(Item.n, 1)), 30)


A, B, C = Key("a", ""), Key("b", ""), Key("c", "")
KEYS = (A,)


async def _asks(turn: Turn, way: str) -> None:
    await (asyncio.to_thread(turn.wait) if way == "thread" else turn.wait_async())


Begin = Callable[[], Awaitable[Any]]


@pytest.mark.parametrize("way", ["task", "thread"])
async def test_turns_are_in_order(way: str) -> None:
    turns, begun = Turns(), []

    async def writer(number: int) -> None:
        with Turn(turns, KEYS) as turn:
            await _asks(turn, way)
            begun.append(number)
            await asyncio.sleep(0)
            assert begun[-1] == number

    with Turn(turns, KEYS) as first:
        first.wait()
        tasks = []
        for number in range(5):
            tasks.append(asyncio.create_task(writer(number)))
            while len(turns._queues[A]) < number + 2:  # noqa: ASYNC110  # a thread joins
                await asyncio.sleep(0.001)
        assert begun == []
    await asyncio.gather(*tasks)
    assert begun == list(range(5))
    assert not turns._queues


async def test_a_cancelled_turn_is_passed_on() -> None:
    turns = Turns()

    async def writer() -> None:
        with Turn(turns, KEYS) as turn:
            await turn.wait_async()

    with Turn(turns, KEYS) as first:
        await first.wait_async()
        tasks = [asyncio.create_task(writer()) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[2].cancel()
    tasks[1].cancel()  # it has its turn, and does not know yet
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [*[asyncio.CancelledError] * 3, type(None)]
    assert not turns._queues


async def test_a_writer_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odm.protocol.contention.LONGEST_SECONDS", 0.01)
    turns = Turns()
    with Turn(turns, KEYS) as first, Turn(turns, KEYS) as second, Turn(turns, KEYS) as third:
        first.wait()
        second.wait()
        await third.wait_async()
        assert len(turns._queues[A]) == 1


def test_a_turn_that_is_lost_ends() -> None:
    turns = Turns()
    lost, following = Turn(turns, KEYS), Turn(turns, KEYS)
    lost.wait()
    place = following._join()
    assert not place.done()
    del lost
    assert place.done()


def test_after_a_fork_nobody_waits_for_threads_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    with Turn(turns, KEYS) as parents:
        parents.wait()
        monkeypatch.setattr("odm.protocol.turns.getpid", lambda: -1)
        with Turn(turns, KEYS) as childs:
            childs.wait()


def test_writers_of_other_items_do_not_wait() -> None:
    turns = Turns()
    with Turn(turns, (A,)) as first, Turn(turns, (B,)) as other, Turn(turns, (A, C)) as behind:
        first.wait()
        other.wait()
        place = behind._join()
        assert not place.done()
        assert Turn(turns, (C, Key("d", ""))).behind_others
        assert not Turn(turns, (Key("d", ""),)).behind_others
        first.__exit__()
        assert place.done()
    assert not turns._queues


def test_a_writer_of_several_items_begins_when_it_is_the_first_at_all() -> None:
    turns = Turns()
    with Turn(turns, (A,)) as one, Turn(turns, (B,)) as two, Turn(turns, (A, B, A)) as both, Turn(turns, (B,)) as last:
        one.wait()
        two.wait()
        joined, later = both._join(), last._join()
        one.__exit__()
        assert not joined.done()
        two.__exit__()
        assert joined.done()
        assert not later.done()
        both.__exit__()
        assert later.done()
    assert not turns._queues


async def test_a_writer_that_comes_while_others_wait_writes_after_them(db: AsyncStore) -> None:
    context = db._session.context
    turns, stored = context.turns, context.schema.key_target(KEY).key
    with Turn(turns, (stored,)) as first:
        await first.wait_async()
        task = asyncio.create_task(db.update(KEY, increment(Item.n, 1)))
        await asyncio.sleep(0.1)
        assert not task.done()
        await db.put(Item(name="b"))
        await db.update(Item.primary(name="b"), increment(Item.n, 1))  # another item
        await db.put(Item(name="a", n=5))  # does not read first, so it does not wait
    await task
    assert (await db.one(KEY)).n == 6


@pytest.mark.parametrize("count", [80])
async def test_writers_of_one_procedure_take_turns(db: AsyncStore, count: int) -> None:
    @procedure
    def together(do: Calls) -> Generator[Any, Any, None]:
        yield from do.concurrent([do.update(KEY, increment(Item.n, 1)) for _ in range(count)])

    await db.run(together())
    assert (await db.one(KEY)).n == count
