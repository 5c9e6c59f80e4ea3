"""Stream records of real servers, in both formats, compared with the stored entities."""

import json
import subprocess
import sys
import uuid
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import boto3
import pytest

from odm import TTL, AccessPattern, BadValue, Entity, ItemInvalid, PrimaryKey, Store, Stored, Table, set_, upgrade
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.options import Stream as StreamView
from odm.backends.dynamodb.streams import Change, decode, decode_all
from odm.schema.entity import Key

SESSION = boto3.Session(aws_access_key_id="streams", aws_secret_access_key="secret", region_name="eu-west-1")
PREFIX = f"{uuid.uuid4()}-"

mail = Table("mail")


class Letter(Entity, table=mail):
    box: str
    number: int
    subject: str = ""
    seal: bytes = b""
    pages: list[bytes] = []
    stamps: set[bytes] = set()
    notes: Annotated[dict[str, Any], Stored("n")] = {}
    until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("BOX#{box}", "LETTER#{number}")
    by_subject = AccessPattern("SUBJECT#{subject}", "{number}")


LETTER = Letter(
    box="a#b",
    number=-7,
    subject="Grüße",
    seal=b"\x00\xff",
    pages=[b"one", b"two"],
    stamps={b"\x80", b"x"},
    notes={"deep": [{"bytes": b"\x01"}, 1.5, None]},
    until=datetime(2020, 1, 1, tzinfo=UTC),  # expired long ago
)
KEY = Key("BOX#a$Sb", "LETTER#Z2")


class Stream:
    """A table with a stream, and a store that writes it."""

    def __init__(self, endpoint: str, view: StreamView) -> None:
        prefix = f"{PREFIX}{view}-"
        self.client = SESSION.client("dynamodbstreams", endpoint_url=endpoint)
        self.db = Store(mail, DynamoDB(SESSION, endpoint_url=endpoint, stream=view), prefix=prefix)
        self.prefix = prefix
        self.db.create()
        tables = SESSION.client("dynamodb", endpoint_url=endpoint)
        self.arn = tables.describe_table(TableName=f"{prefix}mail")["Table"]["LatestStreamArn"]

    def response(self) -> dict[str, Any]:
        """All records of the stream, as a response of `get_records`."""
        records: list[Any] = []
        for shard in self.client.describe_stream(StreamArn=self.arn)["StreamDescription"]["Shards"]:
            start = self.client.get_shard_iterator(
                StreamArn=self.arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )
            records += self.client.get_records(ShardIterator=start["ShardIterator"])["Records"]
        return {"Records": records}

    def event(self) -> dict[str, Any]:
        """The same as a Lambda function's event: JSON, with base64 bytes, times in seconds, and the stream's ARN."""

        def jsonable(value: Any) -> Any:
            return value.timestamp() if isinstance(value, datetime) else b64encode(value).decode()

        event: dict[str, Any] = json.loads(json.dumps(self.response(), default=jsonable))
        for record in event["Records"]:
            record["eventSourceARN"] = self.arn
        return event


@pytest.fixture(params=["moto", "local"])
def served(request: pytest.FixtureRequest) -> str:
    """The endpoint of a server with streams."""
    return str(request.getfixturevalue("endpoint" if request.param == "moto" else "dynamodb_local"))


@pytest.fixture(params=["boto3", "lambda"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def view() -> StreamView:
    """The StreamViewType of the stream."""
    return "new_and_old_images"


@pytest.fixture
def stream(served: str, view: StreamView) -> Iterator[Stream]:
    stream = Stream(served, view)
    yield stream
    stream.db.drop()
    stream.db.close()


@pytest.mark.parametrize("view", ["new_and_old_images", "new_image", "old_image", "keys_only"])
def test_records_of_every_view_type_contain_the_written_entities(stream: Stream, view: str, form: str) -> None:
    before = datetime.now(UTC) - timedelta(minutes=2)  # DynamoDB Local rounds to the minute
    second = LETTER.model_copy(update={"subject": "b", "seal": b""})
    stream.db.put(LETTER)
    stream.db.put(second)
    with stream.db.batch() as batch:  # store.delete would not find the letter, which has expired
        batch.delete(LETTER)

    found = list(decode_all(stream.response() if form == "boto3" else stream.event(), mail, prefix=stream.prefix))

    old, new = view in ("new_and_old_images", "old_image"), view in ("new_and_old_images", "new_image")
    assert [(change.kind, change.old, change.new) for change in found] == [
        ("insert", None, LETTER if new else None),
        ("modify", LETTER if old else None, second if new else None),
        ("remove", second if old else None, None),
    ]
    assert {change.key for change in found} == {KEY}
    assert not any(change.expired for change in found)
    assert sorted(found, key=lambda change: int(change.sequence)) == found
    for change in found:
        assert change.at is not None
        assert before < change.at < datetime.now(UTC) + timedelta(minutes=1)
        assert change.at.tzinfo is UTC
    assert [change.changed for change in found] == [set(), {"subject", "seal"} if old and new else set(), set()]


def test_a_write_outside_of_the_model_changes_no_field(stream: Stream) -> None:
    stream.db.put(LETTER.model_copy(update={"until": None}))
    stream.db.update(Letter.primary(box="a#b", number=-7), set_(Letter.subject, "new"))
    [_, change] = decode_all(stream.event(), mail, prefix=stream.prefix)
    assert change.changed == {"subject"}


def record(kind: str = "INSERT", **images: dict[str, Any]) -> dict[str, Any]:
    """A record of a Lambda event, for a letter with one field."""
    key = {"pk": {"S": "BOX#b"}, "sk": {"S": "LETTER#a1"}}
    full = {name: {**key, "_t": {"S": "Letter"}, "box": {"S": "b"}, "number": {"N": "1"}, **image}
            for name, image in images.items()}  # fmt: skip
    return {
        "eventID": "1",
        "eventName": kind,
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/mail/stream/2026-01-05T00:00:00.000",
        "dynamodb": {"Keys": key, "SequenceNumber": "111", "ApproximateCreationDateTime": 1767571200.0, **full},
    }


@pytest.mark.parametrize(
    ("identity", "expired"),
    [
        ({"type": "Service", "principalId": "dynamodb.amazonaws.com"}, True),  # Lambda
        ({"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}, True),  # boto3
        ({"type": "Service", "principalId": "replication.dynamodb.amazonaws.com"}, False),
        (None, False),
    ],
)
def test_deletes_by_ttl_are_distinguished_from_those_of_a_caller(identity: Any, expired: bool) -> None:
    change = decode(record("REMOVE", OldImage={}) | {"userIdentity": identity}, mail)
    assert change.expired is expired
    assert change.old == Letter(box="b", number=1)
    assert change.at == datetime(2026, 1, 5, tzinfo=UTC)
    assert change.sequence == "111"


def test_an_unknown_tag_is_refused_or_left_out() -> None:
    strange = record(NewImage={"_t": {"S": "Parcel"}})
    with pytest.raises(ItemInvalid, match=r"'Parcel'.*on_unknown=\"skip\""):
        decode(strange, mail)
    foreign = record(NewImage={})
    del foreign["dynamodb"]["NewImage"]["_t"]
    with pytest.raises(ItemInvalid, match=r"has no tag: did another program write it\? Give its attribute '_t'"):
        decode(foreign, mail)
    assert decode(strange, mail, on_unknown="skip") is None
    known = record(NewImage={})
    assert [change.kind for change in decode_all({"Records": [strange, known]}, mail, on_unknown="skip")] == ["insert"]
    replaced = record("MODIFY", OldImage={"_t": {"S": "Parcel"}}, NewImage={})
    change = decode(replaced, mail, on_unknown="skip")
    assert change is not None
    assert (change.old, change.new) == (None, Letter(box="b", number=1))
    assert decode(record("MODIFY"), mail, on_unknown="skip") is not None  # keys alone do not contain a tag


def test_an_item_that_does_not_fit_its_model_is_refused_with_its_key() -> None:
    with pytest.raises(ItemInvalid, match="number") as caught:
        decode(record(NewImage={"number": {"S": "many"}}), mail)
    assert caught.value.item["number"] == "many"
    assert "BOX#b" in caught.value.key


def test_a_record_of_another_table_or_format_is_refused() -> None:
    whole = record(NewImage={})
    other = whole | {"eventSourceARN": whole["eventSourceARN"].replace("table/mail", "table/prod-mail")}
    with pytest.raises(BadValue, match=r"'prod-mail', not 'mail'.*prefix="):
        decode(other, mail)
    assert decode(other, mail, prefix="prod-").new is not None
    with pytest.raises(BadValue, match=r"SequenceNumber.*element of the event's 'Records'"):
        decode({"Records": [whole]}, mail)
    with pytest.raises(BadValue, match="'UPDATE'"):
        decode(whole | {"eventName": "UPDATE"}, mail)
    with pytest.raises(BadValue, match="has 'Records', but this one has eventID"):
        decode_all(whole, mail)
    with pytest.raises(BadValue, match="is a mapping with 'Records', but this is a list: pass the event itself"):
        decode_all([whole], mail)  # type: ignore[arg-type]
    with pytest.raises(BadValue, match=r"key of the record is id, but that of table 'mail' is pk, sk"):
        decode(whole | {"dynamodb": whole["dynamodb"] | {"Keys": {"id": {"S": "x"}}}}, mail)
    with pytest.raises(BadValue, match="write 'raise' or 'skip'"):
        decode(whole, mail, on_unknown="ignore")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="is not a Table"):
        decode(whole, Letter)  # type: ignore[call-overload]


def test_older_versions_are_upgraded_before_they_are_compared() -> None:
    people = Table("mail")

    class Person(Entity, table=people, version=2):
        name: str
        city: str

        primary = PrimaryKey("PERSON#{name}", "PERSON")

        @upgrade(from_=1)
        @staticmethod
        def _rename(item: dict[str, Any]) -> dict[str, Any]:
            return {"city": item.pop("town"), **item}

    key = {"pk": {"S": "PERSON#a"}, "sk": {"S": "PERSON"}}
    old = {**key, "_t": {"S": "Person"}, "name": {"S": "a"}, "town": {"S": "Rome"}}
    new = {**key, "_t": {"S": "Person"}, "_v": {"N": "2"}, "name": {"S": "a"}, "city": {"S": "Rome"}}
    change = decode(
        {"eventName": "MODIFY", "dynamodb": {"Keys": key, "SequenceNumber": "1", "OldImage": old, "NewImage": new}},
        people,
    )
    assert change.old == change.new == Person(name="a", city="Rome")
    assert change.changed == set()
    assert change.at is None


def test_records_before_a_bad_one_are_decoded() -> None:
    event = {"Records": [record(NewImage={}), record(NewImage={"number": {"S": "x"}})]}
    changes = decode_all(event, mail)
    assert isinstance(next(changes), Change)
    with pytest.raises(ItemInvalid):
        next(changes)


def test_decoding_imports_neither_boto3_nor_botocore() -> None:
    program = (
        "import sys\n"
        "from odm import Entity, PrimaryKey, Table\n"
        "from odm.backends.dynamodb.streams import decode\n"
        "table = Table('mail')\n"
        "class Letter(Entity, table=table):\n"
        "    box: str\n"
        "    number: int\n"
        "    primary = PrimaryKey('BOX#{box}', 'LETTER#{number}')\n"
        f"print(decode({record(NewImage={})!r}, table).new)\n"
        "print(sorted({'boto3', 'botocore', 'aiobotocore'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["box='b' number=1", "[]"]
