"""``keep=`` when more items must be deleted than fit into one batch or one page."""

import uuid
from collections.abc import Iterator
from typing import Annotated, Any

import boto3
import pytest
from pydantic import Field

from odm import Entity, PrimaryKey, Store, Table
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory

before, after, others = Table("heap"), Table("heap"), Table("heap")
OLD = 58
"""More than two batches of DynamoDB, which have 25 writes each."""


class Entry(Entity, table=before):
    log: str
    number: Annotated[int, Field(ge=0, lt=100)]

    primary = PrimaryKey("LOG#{log}", "ENTRY#{number}")


class KeptEntry(Entry, table=after, tag="Entry", keep=3):
    primary = PrimaryKey("LOG#{log}", "ENTRY#{number}")


class Other(Entity, table=others):
    """Another program's item in the same partition."""

    log: str
    name: str

    primary = PrimaryKey("LOG#{log}", "ENTRY#{name}")


@pytest.fixture(params=["memory", "memory in pages", "dynamodb_local"])
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "dynamodb_local":
        session = boto3.Session(aws_access_key_id=uuid.uuid4().hex, aws_secret_access_key="secret", region_name="x-1")
        yield DynamoDB(session, endpoint_url=request.getfixturevalue("dynamodb_local"))
    else:
        yield Memory() if request.param == "memory" else Memory(page_bytes=300)


def test_all_items_beyond_keep_are_deleted(backend: Any) -> None:
    with Store(before, backend) as db:
        db.create()
        with db.batch() as batch:
            for number in range(OLD):
                batch.put(Entry(log="a", number=number))
            batch.put(Entry(log="b", number=0))
    with Store(after, backend) as db:
        db.put(KeptEntry(log="a", number=99))
        assert [entry.number for entry in db.query(KeptEntry.primary(log="a"))] == [OLD - 2, OLD - 1, 99]
        assert [entry.number for entry in db.query(KeptEntry.primary(log="b"))] == [0]


def test_nothing_is_deleted_where_another_program_has_items(backend: Any) -> None:
    """The count of the newest includes them, so it does not show which of the entity's items are the newest."""
    with Store(before, backend) as db, Store(others, backend) as theirs:
        db.create()
        theirs.put(Other(log="a", name="98"))
        for number in range(3):
            db.put(Entry(log="a", number=number))
    with Store(after, backend) as db:
        db.put(KeptEntry(log="a", number=99))
        assert db.count(KeptEntry.primary(log="a").where(KeptEntry.number < 90)) == 3
