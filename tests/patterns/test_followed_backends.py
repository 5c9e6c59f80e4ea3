"""Followers of the change feed of every backend, sync and async, on the servers themselves: totals equal a recount."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated

import pytest
from pydantic import Field

from odm import AsyncStore, Entity, ItemNotFound, PrimaryKey, Store, Table, set_
from odm.backends.local import Memory
from odm.changes import Change
from odm.patterns.aggregate import Aggregate, count, total
from odm.patterns.feed import Feed
from odm.patterns.follower import AsyncFollower, Follower, positions
from odm.protocol.connection import Backend
from tests.patterns.with_feed import with_feed

pytestmark = pytest.mark.slow

polls = Table("polls", transactions=True)


class Vote(Entity, table=polls):
    voter: str
    party: str
    weight: int = 1

    primary = PrimaryKey("VOTE#{voter}")


class Result(Entity, table=polls):
    party: str
    votes: Annotated[int, Field(ge=0, lt=10**9)] = 0
    weight: int = 0

    primary = PrimaryKey("RESULT#{party}")


results = Aggregate(Result, Vote, lambda vote: {"party": vote.party}, votes=count(), weight=total("weight"))


@pytest.fixture(params=["memory", "file", "moto_server", "dynamodb_local", "bigtable", "wide"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return with_feed(request, tmp_path)


Write = Callable[[Store], object]


def writes(number: int) -> list[Write]:
    """Votes that are cast, changed and withdrawn."""
    random = Random(3)
    found: list[Write] = []
    for n in range(number):
        voter, party, weight = f"v{n % (number // 2)}", random.choice("abc"), random.randrange(1, 9)
        vote = Vote(voter=voter, party=party, weight=weight)
        kind = random.choice(["put", "put", "move", "delete"])
        found.append(partial(_write, kind, vote))
    return found


def _write(kind: str, vote: Vote, db: Store) -> None:
    if kind == "delete":
        db.delete(vote)
    elif kind == "put":
        db.put(vote)
    else:
        with suppress(ItemNotFound):
            db.update(Vote.primary(voter=vote.voter), set_(Vote.party, vote.party))


def recounted(votes: Sequence[Vote]) -> dict[str, tuple[int, int]]:
    number = Counter(vote.party for vote in votes)
    weight: Counter[str] = Counter()
    for vote in votes:
        weight[vote.party] += vote.weight
    return {party: (number[party], weight[party]) for party in number}


def kept(found: Sequence[Result]) -> dict[str, tuple[int, int]]:
    return {result.party: (result.votes, result.weight) for result in found if result.votes}


class Stopped(Exception):
    """A handler fails."""


def test_totals_equal_a_recount(backend: Backend) -> None:
    state = Store(positions, Memory())
    state.create()
    feed, handled = Feed(polls), list[Change[Vote]]()
    with Store(polls, backend) as db:
        db.create()

        @feed.on_many(Vote)
        def _keep(changes: list[Change[Vote]]) -> None:
            db.run(results.apply(changes))
            handled.extend(changes)
            if len(handled) % 3 == 0:
                raise Stopped  # after its work: the changes are delivered again

        todo = writes(40)
        for start in (0, 20):
            for write in todo[start : start + 20]:
                write(db)
            for _ in range(30):
                with suppress(Stopped):
                    Follower(db, feed, state=state, name="results", size=7).drain()
                    break
        assert kept(list(db.scan(Result))) == recounted(list(db.scan(Vote)))
        assert len(handled) > 20
        db.drop()


@asynccontextmanager
async def opened(backend: Backend) -> AsyncIterator[tuple[AsyncStore, AsyncStore]]:
    async with AsyncStore(polls, backend) as db, AsyncStore(positions, Memory()) as state:
        await db.create()
        await state.create()
        yield db, state


def test_async_totals_equal_a_recount(backend: Backend) -> None:
    feed = Feed(polls)

    async def follow() -> None:
        async with opened(backend) as (db, state):

            @feed.on_many(Vote)
            async def _keep(changes: list[Change[Vote]]) -> None:
                await db.run(results.apply(changes))

            for write in writes(20):
                await asyncio.to_thread(_in_store, backend, write)
            await AsyncFollower(db, feed, state=state, name="results", size=7).drain()
            votes = [vote async for vote in db.scan(Vote)]
            assert kept([result async for result in db.scan(Result)]) == recounted(votes)
            assert votes
            await db.drop()

    asyncio.run(follow())


def _in_store(backend: Backend, write: Write) -> None:
    with Store(polls, backend) as db:
        write(db)
