"""`odm.testing.Clock` and `odm.testing.Ids`."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import Annotated
from uuid import UUID

import pytest
from pydantic import Field

from odm import TTL, BadValue, Entity, PrimaryKey, Store, Table
from odm.backends.local import LocalFile, Memory
from odm.protocol.connection import Backend
from odm.testing import Clock, Ids

START = datetime(2030, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
table = Table("sessions")
ids = Ids()


class Session(Entity, table=table):
    token: UUID = Field(default_factory=ids)
    until: Annotated[datetime, TTL]

    primary = PrimaryKey("SESSION#{token}")


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


def test_stands_still_until_it_is_moved(clock: Clock) -> None:
    assert (clock(), clock.now()) == (START.timestamp(), START)
    clock.advance(90)
    clock.advance(timedelta(hours=1))
    clock.advance(0.25)
    assert clock.now() == START + timedelta(hours=1, seconds=90.25)
    assert clock() == clock.now().timestamp()
    clock.set(START)
    assert clock.now() == START
    assert repr(clock) == "Clock(2030-01-01T00:00:00+00:00)"


def test_starts_at_a_whole_second_of_now() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    start = Clock().now()
    assert before <= start <= datetime.now(UTC)
    assert (start.microsecond, start.tzinfo) == (0, UTC)


def test_shows_utc() -> None:
    abroad = START.astimezone(timezone(timedelta(hours=5)))
    assert Clock(abroad).now().isoformat() == START.isoformat()


def test_needs_a_time_zone(clock: Clock) -> None:
    with pytest.raises(BadValue, match="no time zone"):
        Clock(datetime(2030, 1, 1))
    with pytest.raises(BadValue, match="no time zone"):
        clock.set(datetime(2030, 1, 1))


@pytest.mark.parametrize("by", [-1, timedelta(seconds=-1)])
def test_does_not_advance_backwards(clock: Clock, by: float | timedelta) -> None:
    with pytest.raises(BadValue, match="set\\(\\) the clock"):
        clock.advance(by)


def test_threads_lose_no_second(clock: Clock) -> None:
    def tick() -> None:
        for _ in range(1000):
            clock.advance(1)

    threads = [Thread(target=tick) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now() == START + timedelta(seconds=4000)


@pytest.mark.parametrize("name", ["memory", "file"])
def test_what_expires_follows_it(clock: Clock, name: str, tmp_path: Path) -> None:
    backend: Backend = Memory(clock=clock) if name == "memory" else LocalFile(tmp_path / "db", clock=clock)
    with Store(table, backend) as db:
        db.create()
        session = db.put(Session(until=START + timedelta(minutes=5)))
        clock.advance(timedelta(minutes=5, seconds=-1))
        assert db.get(Session, token=session.token) == session
        clock.advance(1)
        assert db.get(Session, token=session.token) is None
        assert db.insert(session) == session  # an expired item counts as absent
        clock.set(START)
        assert list(db.scan(Session)) == [session]


def test_ids_are_the_same_in_every_run() -> None:
    first, again, other = Ids(), Ids(), Ids(seed=1)
    made = [first() for _ in range(100)]
    assert made == [again() for _ in range(100)]
    assert len({*made, *(other() for _ in range(100))}) == 200
    assert {(one.version, one.variant) for one in made} == {(4, "specified in RFC 4122")}
    assert UUID(Ids().text()) == made[0]


def test_neither_needs_pytest() -> None:
    code = "import sys; from odm.testing import Clock, Ids; Clock(); Ids(); print('pytest' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "False", result.stderr
