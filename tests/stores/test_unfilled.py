"""`Store(lock=...)`: what a store says of access patterns that are not backfilled, and `odm` around it."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from odm import AccessPattern, AsyncStore, BadValue, Entity, PrimaryKey, Store, Table
from odm.backends.local import LocalFile, Memory
from odm.procedures.reading import read
from odm.protocol.connection import Backend
from odm.schema.lockfile import FORMAT, LockFile, TableLock, describe, with_filled, with_unfilled, write_lock

before, now = Table("meals"), Table("meals")


class OldMeal(Entity, table=before, tag="Meal"):
    meal_id: str
    menu: str = "m"
    grams: int = 0
    score: int = 0

    primary = PrimaryKey("MEAL#{meal_id}")
    by_score = AccessPattern("MENU#{menu}", "{grams}")


class Meal(Entity, table=now):
    meal_id: str
    menu: str = "m"
    grams: int = 0
    score: int = 0

    primary = PrimaryKey("MEAL#{meal_id}")
    by_score = AccessPattern("MENU#{menu}", "{score}")
    by_grams = AccessPattern("GRAMS", "{grams}")


OLD, NEW = describe(before.compile()), describe(now.compile())


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """A warning is logged once a process: each test is as a new one."""
    kept = set(read._WARNED)
    read._WARNED.clear()
    yield
    read._WARNED.clear()
    read._WARNED.update(kept)


@pytest.fixture(params=["memory", "file"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Memory() if request.param == "memory" else LocalFile(tmp_path / "meals.db")


def locked(folder: Path, table: TableLock) -> Path:
    path = folder / "odm.lock"
    path.write_text(write_lock(LockFile(format=FORMAT, tables={"meals": table})))
    return path


def filled(backend: Backend) -> None:
    old = Store(before, backend)
    old.create()
    for n in range(4):
        old.put(OldMeal(meal_id=str(n), grams=200 - n, score=n))


@pytest.mark.parametrize("lock", [OLD, with_unfilled(OLD, NEW)], ids=["of the old models", "of the new ones"])
def test_a_query_of_a_pattern_that_is_not_backfilled_warns_once(
    backend: Backend, tmp_path: Path, caplog: pytest.LogCaptureFixture, lock: TableLock
) -> None:
    filled(backend)
    path = locked(tmp_path, lock)
    db = Store(now, backend, lock=path)
    db.create()
    with caplog.at_level(logging.WARNING, "odm"):
        assert list(db.query(Meal.by_grams())) == []
        assert db.count(Meal.by_grams()) == 0
        assert list(Store(now, backend, lock=path).query(Meal.by_grams())) == []
        assert list(db.query(Meal.by_score(menu="m").where(Meal.score > 100))) == []
        assert db.get(Meal, meal_id="1") is not None
    assert [record.name for record in caplog.records] == ["odm", "odm"]
    grams, score = (record.getMessage() for record in caplog.records)
    assert grams.startswith("table meals: Meal.by_grams is not backfilled (")
    assert score.startswith("table meals: Meal.by_score is not backfilled (")
    assert "db.backfill(Meal.by_grams)" in grams


def test_explain_says_it_until_the_backfill(backend: Backend, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(backend)
    db = Store(now, backend, lock=locked(tmp_path, OLD))
    db.create()
    assert "Meal.by_grams is not backfilled (it is new)" in str(db.explain(Meal.by_grams()))
    assert "not backfilled (its key" in str(db.explain(Meal.by_score(menu="m")))
    assert "not backfilled" not in str(db.explain(Meal.primary(meal_id="1")))
    db.backfill(Meal.by_grams)
    caplog.clear()
    assert "not backfilled" not in str(db.explain(Meal.by_grams()))
    assert len(list(db.query(Meal.by_grams()))) == 4
    assert caplog.records == []
    assert "not backfilled" in str(db.explain(Meal.by_score(menu="m")))
    db.backfill(Meal)
    assert "not backfilled" not in str(db.explain(Meal.by_score(menu="m")))


def test_a_backfill_of_a_part_is_not_the_whole(backend: Backend, tmp_path: Path) -> None:
    filled(backend)
    db = Store(now, backend, lock=locked(tmp_path, OLD))
    db.create()
    for part in db.parts(2):
        db.backfill(Meal.by_grams, after=part)
    assert "not backfilled" in str(db.explain(Meal.by_grams()))


def test_an_async_store_warns_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = Memory()
    filled(memory)

    async def main() -> list[Meal]:
        async with AsyncStore(now, memory, lock=locked(tmp_path, OLD)) as db:
            await db.create()
            return [meal async for meal in db.query(Meal.by_grams())]

    assert asyncio.run(main()) == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("lock", [NEW, None], ids=["filled", "no lock"])
def test_nothing_is_said_of_what_is_filled_or_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lock: TableLock | None
) -> None:
    memory = Memory()
    filled(memory)
    db = Store(now, memory, lock=None if lock is None else locked(tmp_path, lock))
    db.create()
    assert list(db.query(Meal.by_grams())) == []
    assert caplog.records == []


def test_the_lock_file_remembers_what_is_filled() -> None:
    waiting = with_unfilled(OLD, NEW)
    assert [pattern.filled for pattern in waiting.entities["Meal"].patterns.values()] == [False, False]
    assert with_unfilled(waiting, NEW) == waiting  # locked again
    once = with_filled(waiting, NEW, ["Meal.by_grams"])
    assert {one.name: one.filled for one in once.entities["Meal"].patterns.values()} == {
        "by_score": False,
        "by_grams": True,
    }
    assert with_filled(once, NEW, ["Meal.by_score"]) == NEW
    assert (
        with_unfilled(with_filled(OLD, NEW, ["Meal.by_grams", "Meal.by_score"]), NEW) == NEW
    )  # backfilled, then locked
    assert with_unfilled(None, NEW) == NEW


def test_a_lock_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odm.lock"
    with pytest.raises(BadValue, match="there is no such file"):
        Store(now, Memory(), lock=path)
    path.write_text(write_lock(LockFile(format=FORMAT, tables={})))
    with pytest.raises(BadValue, match="table 'meals' is not in it"):
        Store(now, Memory(), lock=path)
    path.write_text("{")
    with pytest.raises(BadValue, match="not a lock file"):
        Store(now, Memory(), lock=path)
    with pytest.raises(BadValue, match="lock=3"):
        Store(now, Memory(), lock=3)  # type: ignore[arg-type]
