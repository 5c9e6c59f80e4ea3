"""Tables of well-known programs, with items as these programs write them: by a model, and by that of `odm inspect`.

The items of Celery 5.7, Flask-Session 0.8 and the idempotency of AWS Lambda Powertools 3.37 were read after a run of
these; those of the Kinesis Client Library 2 and of Feast are as their sources write them.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import boto3
import pytest
from attrs import frozen
from moto import mock_aws
from pydantic import Field

from odm import TTL, Entity, PrimaryKey, Store, Stored, Table, exists, missing
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.admin import Admin
from odm.cli.inspect.live import source_in
from tests.sharing.test_inspected import imported

celery = Table("celery", keys=("id",), key_style="verbatim", tag=None, ttl="ttl")
sessions = Table("Sessions", keys=("id",), key_style="verbatim", tag=None)
idempotency = Table("idempotency", keys=("id",), key_style="verbatim", tag=None, ttl="expiration")
leases = Table("leases", keys=("leaseKey",), key_style="verbatim", tag=None)
features = Table("driver_stats", keys=("entity_id",), key_style="verbatim", tag=None)


class Task(Entity, table=celery):
    """A result of a task; this version writes the repr of bytes as the key."""

    task: str
    result: bytes
    timestamp: float
    expires: Annotated[datetime, TTL, Stored("ttl", epoch="s")]

    primary = PrimaryKey("b'celery-task-meta-{task}'")


class Session(Entity, table=sessions):
    """The time of expiry has all digits of a float, and a float of Python writes fewer of them."""

    sid: str
    val: bytes
    expiration: Decimal

    primary = PrimaryKey("session:{sid}")


class Call(Entity, table=idempotency):
    function: str
    payload: str
    expiration: Annotated[datetime, TTL, Stored(epoch="s")]
    status: Literal["INPROGRESS", "COMPLETED"]
    validation: str | None = None
    data: Annotated[str | None, Stored("data")] = None

    primary = PrimaryKey("{function}#{payload}")


class Lease(Entity, table=leases):
    """The ends of the range of hashes are numbers of 39 digits, as text."""

    key: Annotated[str, Stored("leaseKey")]
    owner: Annotated[str | None, Stored("leaseOwner")] = None
    counter: Annotated[int, Stored("leaseCounter")]
    checkpoint: str
    sub_sequence: Annotated[int, Stored("checkpointSubSequenceNumber")]
    switches: Annotated[int, Stored("ownerSwitchesSinceCheckpoint")]
    parents: Annotated[set[str], Stored("parentShardId")] = Field(default_factory=set)
    starting_hash: Annotated[str | None, Stored("startingHashKey")] = None
    ending_hash: Annotated[str | None, Stored("endingHashKey")] = None

    primary = PrimaryKey("{key}")


class Features(Entity, table=features):
    """The time is `str` of a datetime, and each value a message of Protocol Buffers."""

    id: Annotated[str, Stored("entity_id")]
    at: Annotated[datetime, Stored("event_ts", format="%Y-%m-%d %H:%M:%S%:z")]
    values: dict[str, bytes]

    primary = PrimaryKey("{id}")


@frozen
class Program:
    """A table of a program.

    Attributes:
        table: as declared here.
        cls: its class.
        items: as the program writes them.
        query: a condition of a scan.
        answer: the keys of the items that it finds.
    """

    table: Table
    cls: type[Entity]
    items: tuple[Mapping[str, Mapping[str, Any]], ...]
    query: Any
    answer: tuple[str, ...]


def _task(number: int, result: bytes, timestamp: str) -> dict[str, Any]:
    key = f"b'celery-task-meta-c0ffee00-0000-4000-8000-{number:012}'"
    return {"id": {"S": key}, "result": {"B": result}, "timestamp": {"N": timestamp}, "ttl": {"N": "1796029044"}}


def _call(key: str, **more: Any) -> dict[str, Any]:
    return {"id": {"S": f"shop.app.pay#{key}"}, "expiration": {"N": "1795946244"}, **more}


READ_AT: Final = 1_795_942_650.0
"""When the items were read, an hour before the first of them expires."""

PROGRAMS: Final = {
    "Celery": Program(
        celery,
        Task,
        (
            _task(1, b'{"status": "SUCCESS", "result": {"sum": 3}}', "1795942644.2223475"),
            _task(2, b'{"status": "FAILURE", "result": {"exc_type": "ValueError"}}', "1795942644.236428"),
        ),
        Task.timestamp > 1795942644.23,
        ("b'celery-task-meta-c0ffee00-0000-4000-8000-000000000002'",),
    ),
    "Flask-Session": Program(
        sessions,
        Session,
        (
            {
                "id": {"S": "session:1N0_jkh8Lftxq3EPIEwNSQ-RO7uu5DKQH738UyeHsz8"},
                "val": {"B": b"\x82\xaa_permanent\xc3\xa4user\xa3ann"},
                "expiration": {"N": "1798621044.7836940288543701171875"},
            },
        ),
        Session.expiration < Decimal("1798621044.8"),
        ("session:1N0_jkh8Lftxq3EPIEwNSQ-RO7uu5DKQH738UyeHsz8",),
    ),
    "Powertools": Program(
        idempotency,
        Call,
        (
            _call("c9f0f895", status={"S": "INPROGRESS"}, validation={"S": "37a6259c"}),
            _call("8f14e45f", status={"S": "COMPLETED"}, validation={"S": "e4da3b7f"}, data={"S": '{"paid": 5}'}),
            _call("1679091c", status={"S": "COMPLETED"}, data={"S": "null"}),
        ),
        missing(Call.data),
        ("shop.app.pay#c9f0f895",),
    ),
    "Kinesis Client Library": Program(
        leases,
        Lease,
        (
            {
                "leaseKey": {"S": "shardId-000000000000"},
                "leaseOwner": {"S": "5b2a1f1e-worker"},
                "leaseCounter": {"N": "42"},
                "checkpoint": {"S": "49590338271490256608559692538361571095921575989136588898"},
                "checkpointSubSequenceNumber": {"N": "0"},
                "ownerSwitchesSinceCheckpoint": {"N": "1"},
                "startingHashKey": {"S": "0"},
                "endingHashKey": {"S": "340282366920938463463374607431768211455"},
            },
            {
                "leaseKey": {"S": "shardId-000000000001"},
                "leaseCounter": {"N": "0"},
                "checkpoint": {"S": "TRIM_HORIZON"},
                "checkpointSubSequenceNumber": {"N": "0"},
                "ownerSwitchesSinceCheckpoint": {"N": "0"},
                "parentShardId": {"SS": ["shardId-000000000000"]},
            },
        ),
        exists(Lease.owner),
        ("shardId-000000000000",),
    ),
    "Feast": Program(
        features,
        Features,
        (
            {
                "entity_id": {"S": "1f3a5c"},
                "event_ts": {"S": "2026-01-05 12:00:00+00:00"},
                "values": {"M": {"acc_rate": {"B": b"5\x00\x00\x80?"}, "trips": {"B": b" \x07"}}},
            },
            {"entity_id": {"S": "9b"}, "event_ts": {"S": "2026-01-04 12:00:00+00:00"}, "values": {"M": {}}},
        ),
        Features.at >= datetime(2026, 1, 5, tzinfo=UTC),
        ("1f3a5c",),
    ),
}


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    with mock_aws():
        yield boto3.client("dynamodb", region_name="eu-west-1")


def _create(client: Any, program: Program) -> str:
    """Create the table as the program does, with its items; returns the key attribute."""
    schema = program.table.compile()
    [key] = schema.keys
    client.create_table(
        TableName=schema.name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for item in program.items:
        client.put_item(TableName=schema.name, Item=item)
    return key


def _raw(client: Any, table: str, key: str) -> dict[str, Any]:
    return {item[key]["S"]: item for item in client.scan(TableName=table)["Items"]}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_model_by_hand(client: Any, program: Program) -> None:
    cls, key = program.cls, _create(client, program)
    table = program.table
    schema = table.compile()
    before = _raw(client, schema.name, key)
    assert before.keys() == {item[key]["S"] for item in program.items}
    with Store(table, DynamoDB(region="eu-west-1"), clock=lambda: READ_AT) as db:
        entities = list(db.scan(cls))
        of_cls = schema.entity(cls)
        assert sorted(of_cls.key(vars(one)).partition for one in entities) == sorted(before)
        for one in entities:
            assert db.get(cls, **{name: getattr(one, name) for name in of_cls.primary.fields}) == one
            db.put(one)
        assert _raw(client, schema.name, key) == before
        found = db.scan(cls, program.query)
        assert tuple(of_cls.key(vars(one)).partition for one in found) == program.answer
    assert Admin(DynamoDB(region="eu-west-1"), schema).survey(100).findings == ()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_model_by_inspect(client: Any, program: Program) -> None:
    name, key = program.table.name, _create(client, program)
    before = _raw(client, name, key)
    table = imported(source_in(DynamoDB(region="eu-west-1"), name, 100))
    with Store(table, DynamoDB(region="eu-west-1"), clock=lambda: READ_AT) as db:
        entities = list(db.scan())
        assert len(entities) == len(before)
        for one in entities:
            db.put(one)
    assert _raw(client, name, key) == before
