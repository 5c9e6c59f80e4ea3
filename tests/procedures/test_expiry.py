"""An attribute ``_ttl`` that odm did not write: as on DynamoDB, only a number is an expiry time."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import boto3
import pytest

from odm import ItemExists, Store, increment
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.protocol.requests import Put
from tests.shop import Session, sessions

NOW = datetime(2100, 1, 5, 12, tzinfo=UTC).timestamp()
KEY = Session.primary(user="u")


@pytest.fixture(params=["memory", "dynamodb_local"])
def db(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        backend: Any = Memory()
    else:
        session = boto3.Session(aws_access_key_id=uuid.uuid4().hex, aws_secret_access_key="secret", region_name="x-1")
        backend = DynamoDB(session, endpoint_url=request.getfixturevalue("dynamodb_local"))
    with Store(sessions, backend, clock=lambda: NOW) as db:
        db.create()
        yield db


def write(db: Store, expiry: Any) -> None:
    """Store an item without the codec."""
    db._call()[1](Put(db._session.context.schema.key_target(KEY).key, {"_t": "Session", "user": "u", "_ttl": expiry}))


@pytest.mark.parametrize("expiry", ["2020-01-01T00:00:00Z", "", b"0", None, True, [0], {"at": 0}, NOW + 0.5], ids=repr)
def test_only_a_time_that_has_passed_expires_an_item(db: Store, expiry: Any) -> None:
    write(db, Decimal(str(expiry)) if isinstance(expiry, float) else expiry)
    found = Session(user="u")
    assert db.get(KEY) == found
    assert db.exists(KEY)
    assert db.get_many([KEY]) == [found]
    assert list(db.query(Session.primary())) == list(db.scan(Session)) == [found]
    assert db.count(Session.primary()) == 1
    with pytest.raises(ItemExists):
        db.insert(found)
    assert db.update(KEY, increment(Session.hits, 1), returning="new") == Session(user="u", hits=1)
    with db.transaction() as tx:
        tx.update(KEY, increment(Session.hits, 1))
    db.put(Session(user="u", hits=3), when=Session.hits == 2)
    assert db.delete(KEY)


@pytest.mark.parametrize("expiry", [Decimal("1.5"), int(NOW), 0], ids=repr)
def test_a_number_that_has_passed_expires_the_item(db: Store, expiry: Any) -> None:
    write(db, expiry)
    found = Session(user="u")
    assert db.get(KEY) is None
    assert not db.exists(KEY)
    assert list(db.query(Session.primary())) == []
    assert db.insert(found) == found
