"""The second in which an item expires: exactly at it, just before it, and with fractions of seconds."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from odm import Store
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from tests.shop import Session, sessions

NOON = datetime(2100, 1, 5, 12, tzinfo=UTC)


class Time:
    """A clock with fractions of seconds."""

    seconds = 0.0

    def __call__(self) -> float:
        return NOON.timestamp() + self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=["memory", "dynamodb_local"])
def db(request: pytest.FixtureRequest, time: Time) -> Iterator[Store]:
    if request.param == "memory":
        backend: Any = Memory()
    else:
        session = boto3.Session(aws_access_key_id=uuid.uuid4().hex, aws_secret_access_key="secret", region_name="x-1")
        backend = DynamoDB(session, endpoint_url=request.getfixturevalue("dynamodb_local"))
    with Store(sessions, backend, clock=time) as db:
        db.create()
        yield db


@pytest.mark.parametrize(
    ("until", "last", "first"),
    [(10.0, 9.999, 10.0), (9.75, 9.999, 10.0), (10.25, 10.999, 11.0)],
    ids=["a whole second", "a fraction before it", "a fraction after it"],
)
def test_an_item_expires_at_the_next_whole_second(
    db: Store, time: Time, until: float, last: float, first: float
) -> None:
    """``last`` is the last instant at which the item exists, ``first`` the first at which it does not."""
    found = db.put(Session(user="u", until=NOON + timedelta(seconds=until)))
    for seconds, items in ((0.0, [found]), (last, [found]), (first, []), (first + 0.5, [])):
        time.seconds = seconds
        assert db.get(Session, user="u") == (found if items else None)
        assert list(db.query(Session.primary())) == list(db.scan(Session)) == items
        assert db.count(Session.primary()) == len(items)
    assert not db.delete(found)
    assert db.insert(Session(user="u")) == Session(user="u")
