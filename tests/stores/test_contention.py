"""Writers of one item in several processes, and writes that hold their turn while they write another item."""

import multiprocessing
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest

from odm import AccessPattern, Conflict, Entity, PrimaryKey, Store, Table, increment
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.extend import Calls, procedure
from odm.protocol import contention
from odm.protocol.connection import Backend

pytestmark = pytest.mark.slow

PROCESSES, THREADS, EACH = 3, 4, 5

table = Table("contention")


class Job(Entity, table=table):
    name: str
    level: int = 0

    primary = PrimaryKey("JOB#{name}")
    by_level = AccessPattern("LEVEL", "{level}")


KEY = Job.primary(name="a")


def _backend(place: str) -> Backend:
    if not place.startswith("http"):
        return LocalFile(place)
    session = boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")
    return DynamoDB(session, endpoint_url=place)


def _increment(place: str) -> None:
    with Store(table, _backend(place)) as db, ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda _: db.update(KEY, increment(Job.level)), range(THREADS * EACH)))


def _check(place: str) -> None:
    with Store(table, _backend(place)) as db:
        db.create()
        db.put(Job(name="a"))
        with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
            list(pool.map(_increment, [place] * PROCESSES))
        assert db.one(KEY).level == PROCESSES * THREADS * EACH
        assert [job.level for job in db.query(Job.by_level())] == [PROCESSES * THREADS * EACH]


def test_processes_increment_a_field_of_an_index_key_in_a_file(tmp_path: Path) -> None:
    _check(str(tmp_path / "jobs.db"))


def test_processes_increment_a_field_of_an_index_key_in_dynamodb(dynamodb_local: str) -> None:
    _check(dynamodb_local)


@procedure
def _together(do: Calls) -> Generator[Any, Any, None]:
    yield from do.concurrent([do.update(KEY, increment(Job.level)) for _ in range(80)])


def test_writers_of_one_procedure_take_turns() -> None:
    with Store(table, Memory()) as db:
        db.create()
        db.put(Job(name="a"))
        db.run(_together())
        assert db.one(KEY).level == 80


def test_pauses_of_one_procedure_pass_together(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)

    @procedure
    def pauses(do: Calls) -> Generator[Any, Any, None]:
        yield from do.concurrent([do.pause(seconds) for seconds in (1.0, 3.0, 2.0)])

    with Store(table, Memory()) as db:
        db.run(pauses())
    assert sum(slept) == 3.0


def test_the_deadline_of_a_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A companion-like rival: the item changes between every read and write of the procedure."""
    monkeypatch.setattr(contention, "LONGEST_SECONDS", 0.0)
    with Store(table, Memory()) as db:
        db.create()
        db.put(Job(name="a"))
        with pytest.raises(
            Conflict, match=r"Job\.primary\(name='a'\) was changed by other writers before each of 1 att"
        ):
            db.run(_together())
