"""Many writers and readers of one wide row at once: nothing is lost or torn, and pages have no gaps and no doubles."""

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Annotated, Any, Final

import pytest

from odm import (
    AccessPattern,
    AsyncStore,
    Counter,
    Entity,
    PrimaryKey,
    Store,
    Table,
    TransactionFailed,
    collection,
    increment,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import ReadRows
from odm.backends.bigtable.maintenance.scrub import scrub
from odm.errors import ConditionFailed
from tests.effort import full

pytestmark = pytest.mark.slow

crowd = Table("crowd", layout="row_per_partition")

TOTAL: Final = 300
"""The balances of all accounts."""

STAYING: Final = range(0, 300, 10)
"""The comments that no writer deletes."""


class Video(Entity, table=crowd):
    video: str
    title: str = ""
    step: int = 0
    views: Annotated[int, Counter] = 0
    likes: Annotated[int, Counter] = 0

    primary = PrimaryKey("{video}", "ABOUT")


class Account(Entity, table=crowd):
    video: str
    number: int
    balance: int

    primary = PrimaryKey("{video}", "ACCOUNT#{number}")


class Comment(Entity, table=crowd, family="comments"):
    video: str
    at: int
    author: str
    stars: Annotated[int, Counter] = 0

    primary = PrimaryKey("{video}", "COMMENT#{at:desc}")
    by_author = AccessPattern("AUTHORS", "{author}#{at}")


class Draft(Entity, table=crowd, family="drafts"):
    video: str
    number: int

    primary = PrimaryKey("{video}", "DRAFT#{number}")
    by_number = AccessPattern("DRAFTS", "{number}")


class Half(Entity, table=crowd, family="comments"):
    """Is written and deleted together with the other half."""

    video: str
    side: str
    edition: int

    primary = PrimaryKey("{video}", "HALF#{side}")
    by_edition = AccessPattern("HALVES", "{edition}#{side}")


VIDEO: Final = Video.primary(video="v")
EVERYTHING: Final = collection(VIDEO)
COMMENTS: Final = Comment.primary(video="v")
SIDES: Final = ("left", "right")


class Sync:
    """A store whose calls are awaited, but block."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        async def called(*arguments: Any, **options: Any) -> Any:
            return call(*arguments, **options)

        return called

    async def all_of(self, query: Any) -> list[Any]:
        return list(self._store.query(query))

    async def together(self, name: str, *operations: tuple[Any, ...]) -> None:
        with self._store.transaction() as tx:
            for operation in operations:
                getattr(tx, name)(*operation)

    async def put_all(self, items: list[Any]) -> None:
        with self._store.batch() as batch:
            for item in items:
                batch.put(item)


class Async:
    """An async store with the same calls."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def all_of(self, query: Any) -> list[Any]:
        return [item async for item in self._store.query(query)]

    async def together(self, name: str, *operations: tuple[Any, ...]) -> None:
        async with self._store.transaction() as tx:
            for operation in operations:
                getattr(tx, name)(*operation)

    async def put_all(self, items: list[Any]) -> None:
        async with self._store.batch() as batch:
            for item in items:
                await batch.put(item)


class Crowd:
    """What writers and readers do, a turn each, and what was acknowledged."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.steps = 0
        self.comments: dict[int, str] = dict.fromkeys(STAYING, "staying")

    async def count(self, turn: int, random: Random) -> None:
        await self.db.update(VIDEO, increment(Video.views, 1), increment(Video.likes, 2))
        await self.db.update(Comment.primary(video="v", at=0), increment(Comment.stars, 1))

    async def rename(self, turn: int, random: Random) -> None:
        await self.db.update(VIDEO, set_(Video.title, f"{turn}"))

    async def step(self, turn: int, random: Random) -> None:
        now = (await self.db.one(VIDEO)).step
        try:
            await self.db.update(VIDEO, set_(Video.step, now + 1), when=Video.step == now)
        except ConditionFailed:
            return
        self.steps += 1

    async def transfer(self, turn: int, random: Random) -> None:
        keys = [Account.primary(video="v", number=number) for number in random.sample(range(3), 2)]
        changes = [increment(Account.balance, by) for by in (-turn, turn)]
        await self.db.together("update", *zip(keys, changes, strict=True))

    async def halve(self, turn: int, random: Random) -> None:
        name = random.choice(["put", "insert", "delete"])
        halves = [Half(video="v", side=side, edition=turn) for side in SIDES]
        try:
            await self.db.together(name, *((half,) for half in halves))
        except TransactionFailed:
            assert name == "insert"

    async def comment(self, writer: int, turn: int, random: Random) -> None:
        at = 1000 + 10 * turn + writer
        await self.db.insert(Comment(video="v", at=at, author="new"))
        self.comments[at] = "new"
        if turn % 3 == 1:
            assert await self.db.delete(Comment, video="v", at=at)
            del self.comments[at]
        elif turn % 3 == 2:
            await self.db.update(Comment.primary(video="v", at=at), set_(Comment.author, "moved"))
            self.comments[at] = "moved"

    async def import_(self, turn: int, random: Random) -> None:
        batch = [Comment(video="v", at=2000 + 5 * turn + number, author="batch") for number in range(3)]
        await self.db.put_all(batch)
        self.comments.update((one.at, one.author) for one in batch)

    async def draft(self, turn: int, random: Random) -> None:
        await self.db.put(Draft(video="v", number=turn))

    async def clear(self, turn: int, random: Random) -> None:
        await self.db.delete_all(Draft.primary(video="v"))

    async def look(self, turn: int, random: Random) -> None:
        """One read shows every transaction whole."""
        items = await self.db.all_of(EVERYTHING)
        kinds = Tally(type(item) for item in items)
        halves = [item.edition for item in items if isinstance(item, Half)]
        assert (kinds[Video], kinds[Account]) == (1, 3)
        assert sum(item.balance for item in items if isinstance(item, Account)) == TOTAL
        assert len(halves) in (0, 2)
        assert len(set(halves)) <= 1
        assert items[0].likes == 2 * items[0].views

    async def page_on(self, turn: int, random: Random) -> None:
        size, seen, cursor = random.choice([1, 3, 7, 25]), list[int](), None
        while seen == [] or cursor is not None:
            page = await self.db.page(COMMENTS, size=size, after=cursor)
            seen += [one.at for one in page.items]
            cursor = page.cursor
        assert seen == sorted(set(seen), reverse=True)
        assert set(STAYING) <= set(seen)

    async def search(self, turn: int, random: Random) -> None:
        found = await self.db.all_of(Comment.by_author().where(Comment.author == "staying"))
        assert [one.at for one in found] == [*STAYING]

    def works(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What all of them do."""
        writers = [self.count, self.count, self.rename, self.step, self.step, self.transfer, self.transfer, self.halve]
        writers += [self.halve, partial(self.comment, 1), partial(self.comment, 2), self.import_, self.draft]
        for seed, act in enumerate([*writers, self.clear, self.look, self.look, self.page_on, self.search]):
            yield self._turns(act, Random(seed))

    async def _turns(self, act: Callable[[int, Random], Coroutine[Any, Any, None]], random: Random) -> None:
        for turn in range(TURNS):
            await act(turn, random)


TURNS: Final = 40 if full() else 12


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "crowd", endpoint=bigtable_emulator)


@pytest.fixture
def db(backend: Bigtable) -> Iterator[Store]:
    with Store(crowd, backend) as store:
        store.create()
        store.put(Video(video="v"))
        for number in range(3):
            store.put(Account(video="v", number=number, balance=TOTAL // 3))
        with store.batch() as batch:
            for at in STAYING:
                batch.put(Comment(video="v", at=at, author="staying"))
        yield store
        store.drop()


def in_threads(db: Store, backend: Bigtable) -> Crowd:
    made = Crowd(Sync(db))
    works = list(made.works())
    with ThreadPoolExecutor(len(works)) as pool:
        list(pool.map(asyncio.run, works))
    return made


def in_tasks(db: Store, backend: Bigtable) -> Crowd:
    async def run() -> Crowd:
        async with AsyncStore(crowd, backend) as store:
            made = Crowd(Async(store))
            await asyncio.gather(*made.works())
            return made

    return asyncio.run(run())


@pytest.mark.parametrize("run", [in_threads, in_tasks])
def test_many_writers_and_readers_of_one_row(run: Any, db: Store, backend: Bigtable) -> None:
    done: Crowd = run(db, backend)
    video = db.one(VIDEO)
    assert (video.views, video.likes, video.step) == (2 * TURNS, 4 * TURNS, done.steps)
    assert db.one(Comment, video="v", at=0).stars == 2 * TURNS
    assert {one.at: one.author for one in db.query(COMMENTS)} == done.comments
    check_indexes(db)
    assert scrub(backend, crowd, clock=lambda: time.time() + 7200).columns == 0
    check_indexes(db)
    db.delete_all(EVERYTHING)
    assert list(db.scan()) == []
    check_indexes(db)


def check_indexes(db: Store) -> None:
    """Each item has its entry, and there are no others."""
    indexed: dict[type[Any], Any] = {Comment: Comment.by_author(), Draft: Draft.by_number(), Half: Half.by_edition()}
    items = 0
    for entity, query in indexed.items():
        expected = sorted(map(repr, db.scan(entity)))
        assert sorted(map(repr, db.query(query))) == expected
        items += len(expected)
    stored = [
        cell
        for index in ("by_author", "by_number", "by_edition")
        for row in db._session.connection.call(ReadRows(f"crowd.{index}", filter=Newest())).rows
        for cell in row.cells
    ]
    assert len(stored) == items
