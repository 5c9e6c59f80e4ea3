"""Every access pattern of the published designs, from their items as they are: on DynamoDB Local, and on Memory."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

from odm import Entity, Store
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.admin import Admin
from odm.backends.local import Memory
from odm.results import RequestInfo
from tests.published.designs import ANSWERS, FOLDER, Design, read_designs

DESIGNS = read_designs()
pytestmark = pytest.mark.skipif(not DESIGNS, reason=f"the published designs are not in {FOLDER}")


@pytest.fixture(scope="module", params=DESIGNS, ids=lambda design: design.name)
def design(request: pytest.FixtureRequest) -> Design:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def client(design: Design, dynamodb_local: str) -> Any:
    """A client of an account in which only this design's table is."""
    session = boto3.Session(
        aws_access_key_id=uuid4().hex[:20],
        aws_secret_access_key="secret",
        region_name="eu-west-1",
    )
    client = session.client("dynamodb", endpoint_url=dynamodb_local, config=Config(retries={"max_attempts": 0}))
    client.session = session
    client.address = dynamodb_local
    design.create(client)
    return client


@pytest.fixture
def requests() -> list[RequestInfo]:
    return []


@pytest.fixture
def db(design: Design, client: Any, requests: list[RequestInfo]) -> Iterator[Store]:
    backend = DynamoDB(client.session, endpoint_url=client.address)
    with Store(design.table, backend, on_request=requests.append) as store:
        yield store


def test_every_access_pattern_is_answered_in_one_request(
    design: Design, client: Any, db: Store, requests: list[RequestInfo]
) -> None:
    memory = Store(design.table, Memory())
    memory.create()
    put_all(memory, db.scan())
    assert {pattern["name"] for pattern in design.patterns} == ANSWERS[design.name].keys()
    for pattern in design.patterns:
        answer = ANSWERS[design.name][pattern["name"]]
        list(answer(db))  # the first query of an index describes it
        del requests[:]
        found = list(answer(db))
        assert len(requests) == 1, pattern
        keys = [tuple(item[name]["S"] for name in design.keys[""]) for item in design.ask(client, pattern)]
        assert [db_key(one) for one in found] == keys, pattern
        # Entries of one index key are in no order.
        assert sorted(answer(memory), key=db_key) == sorted(found, key=db_key), pattern


def put_all(db: Store, entities: Iterable[Entity]) -> None:
    with db.batch() as batch:
        for entity in entities:
            batch.put(entity)


def db_key(entity: Any) -> tuple[str, str]:
    """The key of an entity's item."""
    key = type(entity).__odm_table__.compile().entity(type(entity)).key(vars(entity))
    return key.partition, key.sort


def test_items_that_odm_writes_are_equal_byte_for_byte(design: Design, client: Any, db: Store) -> None:
    before = contents(design, client)
    everything = list(db.scan())
    assert len(everything) == len(before)
    for entity in everything:
        db.put(entity)
    assert contents(design, client) == before
    with db.batch() as batch:
        for entity in everything:
            batch.delete(entity)
    assert contents(design, client) == []
    put_all(db, everything)
    assert contents(design, client) == before


def contents(design: Design, client: Any) -> list[Any]:
    """All items of the table as they are, in the order of their keys; sets in their own order."""
    items = client.scan(TableName=design.model["TableName"])["Items"]
    for value in (value for item in items for value in item.values() if "SS" in value):
        value["SS"].sort()
    return sorted(items, key=lambda item: [item[name]["S"] for name in design.keys[""]])


def test_nothing_is_to_be_done(design: Design, client: Any) -> None:
    survey = Admin(DynamoDB(client.session, endpoint_url=client.address), design.table.compile()).survey(1000)
    assert survey.read == len(design.items)
    assert [*survey.changes, *survey.findings] == []
