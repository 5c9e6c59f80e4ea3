"""Concurrent writers of one item on the emulator: nothing is lost or applied twice, and indexes are consistent."""

from collections import Counter as Tally
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any

import pytest

from odm import AccessPattern, Columns, Counter, Entity, PrimaryKey, Revision, Store, Table, add_to, increment, set_
from odm.backends.bigtable import Bigtable
from odm.errors import ConditionFailed, Conflict, ItemExists, ItemNotFound

pytestmark = pytest.mark.slow

WRITERS = 8

races = Table("races")


class Runner(Entity, table=races):
    name: str
    team: str = "none"
    place: str | None = None
    laps: int = 0
    views: Annotated[int, Counter] = 0
    fans: Annotated[set[str], Columns] = set()

    primary = PrimaryKey("RUNNER#{name}")
    by_team = AccessPattern("TEAM#{team}")
    by_place = AccessPattern("PLACE#{place}")


class Account(Entity, table=races):
    name: str
    balance: int = 0
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("ACCOUNT#{name}")


@pytest.fixture
def db(bigtable_emulator: str) -> Any:
    with Store(races, Bigtable("project", "races", endpoint=bigtable_emulator)) as store:
        store.drop()
        store.create()
        yield store


def chained(work: Callable[[int], Any]) -> list[Any]:
    """The result of each concurrent writer, which may be an error of odm."""

    def one(number: int) -> Any:
        try:
            return work(number)
        except (ItemExists, ItemNotFound, ConditionFailed) as error:
            return type(error)

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(one, range(WRITERS)))


def entries(db: Store) -> Tally[str]:
    """How often queries find the runner, by index key."""
    teams = [f"t{n}" for n in range(WRITERS)] + ["none"]
    found: Tally[str] = Tally()
    for team in teams:
        found[team] += len(list(db.query(Runner.by_team(team=team))))
    return +found


@pytest.mark.parametrize("field", ["views", "laps"])
def test_increments_lose_nothing(db: Store, field: str) -> None:
    """Increments of a Counter in one call each, and of a number that must be read."""
    db.put(Runner(name="ann"))

    def work(_: int) -> None:
        for _ in range(10):
            db.update(Runner.primary(name="ann"), increment(getattr(Runner, field)))

    assert chained(work) == [None] * WRITERS
    assert getattr(db.one(Runner, name="ann"), field) == 10 * WRITERS


def test_returned_counts_are_distinct(db: Store) -> None:
    """Half of them by the server alone; the others read and commit, and must notice the former."""
    db.put(Runner(name="ann"))

    def work(number: int) -> list[int]:
        seen = []
        for _ in range(5):
            if number % 2:
                db.update(Runner.primary(name="ann"), increment(Runner.views))
            else:
                runner = db.update(Runner.primary(name="ann"), increment(Runner.views), returning="new")
                seen.append(runner.views)
        return seen

    seen = [views for views in chained(work) if views]
    assert len({number for views in seen for number in views}) == 5 * WRITERS // 2
    assert db.one(Runner, name="ann").views == 5 * WRITERS


@pytest.mark.parametrize("team", ["none", "t1"])
def test_inserts_have_one_winner(db: Store, team: str) -> None:
    won = chained(lambda number: db.insert(Runner(name="ann", laps=number, team=team)).laps)
    assert won.count(ItemExists) == WRITERS - 1
    (winner,) = (one for one in won if one is not ItemExists)
    assert db.one(Runner, name="ann").laps == winner
    assert entries(db) == {team: 1}


def test_conditional_updates_have_one_winner_a_step(db: Store) -> None:
    """One call each: the server evaluates the condition."""
    db.put(Runner(name="ann"))

    def run(step: int, _: int) -> None:
        db.update(Runner.primary(name="ann"), set_(Runner.laps, step + 1), when=Runner.laps == step)

    for step in range(5):
        assert chained(partial(run, step)).count(ConditionFailed) == WRITERS - 1
    assert db.one(Runner, name="ann").laps == 5


def test_withdrawals_stop_at_zero(db: Store) -> None:
    """Read, evaluated here, committed under a check of the revision."""
    db.put(Runner(name="ann", laps=10))

    def work(_: int) -> int:
        return db.update(
            Runner.primary(name="ann"), increment(Runner.laps, -3), when=Runner.laps >= 3, returning="new"
        ).laps

    ways = chained(work)
    assert sorted(way for way in ways if way is not ConditionFailed) == [1, 4, 7]
    assert db.one(Runner, name="ann").laps == 1


def test_revisions_take_one_change_each(db: Store) -> None:
    db.insert(Account(name="ann"))
    read = db.one(Account, name="ann")
    ways = chained(lambda number: db.update(read, set_(Account.balance, number)))
    assert ways.count(Conflict) == WRITERS - 1
    assert db.one(Account, name="ann").revision == 2


def test_members_of_columns_come_together(db: Store) -> None:
    db.put(Runner(name="ann", fans={"x"}))
    chained(lambda number: db.update(Runner.primary(name="ann"), add_to(Runner.fans, f"f{number}")))
    assert db.one(Runner, name="ann").fans == {"x", *(f"f{number}" for number in range(WRITERS))}


def test_keys_that_change_leave_one_entry(db: Store) -> None:
    db.put(Runner(name="ann"))

    def work(number: int) -> None:
        for turn in range(5):
            team = f"t{(number + turn) % WRITERS}"
            if turn % 2:
                db.put(Runner(name="ann", team=team))
            else:
                db.update(Runner.primary(name="ann"), set_(Runner.team, team), upsert=True)

    assert chained(work) == [None] * WRITERS
    assert entries(db) == {db.one(Runner, name="ann").team: 1}


def test_deletes_and_inserts_agree_with_the_index(db: Store) -> None:
    def work(number: int) -> tuple[int, int]:
        made = gone = 0
        for _ in range(5):
            try:
                db.insert(Runner(name="ann", team=f"t{number}"))
                made += 1
            except ItemExists:
                gone += db.delete(Runner, name="ann")
        return made, gone

    ways = chained(work)
    there = db.get(Runner, name="ann")
    assert sum(made for made, _ in ways) - sum(gone for _, gone in ways) == (there is not None)
    assert entries(db) == ({} if there is None else {there.team: 1})


def test_batches_of_several_writers_agree_with_the_index(db: Store) -> None:
    names = [f"r{n}" for n in range(40)]

    def work(number: int) -> None:
        with db.batch() as batch:
            for name in names:
                batch.put(Runner(name=name, team=f"t{number}"))

    assert chained(work) == [None] * WRITERS
    runners = list(db.scan(Runner))
    assert len(runners) == 40
    found = {
        (runner.name, runner.team)
        for number in range(WRITERS)
        for runner in db.query(Runner.by_team(team=f"t{number}"))
    }
    assert found == {(runner.name, runner.team) for runner in runners}
