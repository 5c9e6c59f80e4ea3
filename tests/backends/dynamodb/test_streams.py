"""Stream records of real servers, in both formats, compared with the stored entities."""

import json
import subprocess
import sys
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Annotated, Any

import boto3
import pytest

from odm import TTL, AccessPattern, BadValue, Entity, ItemInvalid, PrimaryKey, Store, Stored, Table, set_, upgrade
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Stream as StreamView
from odm.backends.dynamodb.streams import decode, decode_all, handler
from odm.changes import Change, Changed, Inserted, Removed
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
    assert [(type(change), change.old, change.new) for change in found] == [
        (Inserted, None, LETTER if new else None),
        (Changed, LETTER if old else None, second if new else None),
        (Removed, second if old else None, None),
    ]
    assert {change.key for change in found} == {KEY}
    assert not any(change.expired for change in found)
    assert sorted(found, key=lambda change: change.order) == found
    assert all(change.order == change.sequence.zfill(40) for change in found)
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
    assert (change.sequence, change.order) == ("111", "111".zfill(40))


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
    [inserted] = decode_all({"Records": [strange, known]}, mail, on_unknown="skip")
    assert isinstance(inserted, Inserted)
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


def test_an_item_that_does_not_fit_its_model_counts_as_absent_where_it_is_skipped() -> None:
    unfit: dict[str, Any] = {"number": {"S": "many"}}
    fits = Letter(box="b", number=1)
    errors: list[ItemInvalid] = []
    for on_invalid in ("skip", errors.append):
        for event in (record(NewImage=unfit), record("MODIFY", OldImage=unfit, NewImage=unfit)):
            assert decode(event, mail, on_invalid=on_invalid) is None
        for event in (record("REMOVE", OldImage=unfit), record("MODIFY", NewImage=unfit)):
            assert list(decode_all({"Records": [event]}, mail, on_invalid=on_invalid)) == []
        events = [record("MODIFY", OldImage=unfit, NewImage={}), record("MODIFY", OldImage={}, NewImage=unfit)]
        fixed, broken = decode_all({"Records": events}, mail, on_invalid=on_invalid)
        assert (type(fixed), fixed.old, fixed.new) == (Inserted, None, fits)
        assert (type(broken), broken.old, broken.new) == (Removed, fits, None)
    assert len(errors) == 7
    assert {error.item["number"] for error in errors} == {"many"}
    with pytest.raises(ItemInvalid, match="'Parcel'"):  # that is for on_unknown
        decode(record(NewImage={"_t": {"S": "Parcel"}}), mail, on_invalid="skip")


def test_what_the_function_for_items_that_do_not_fit_raises_is_no_fault_of_the_record() -> None:
    def refuse(error: ItemInvalid) -> None:
        raise ValueError(error.key)

    with pytest.raises(ValueError, match="BOX#b") as caught:
        decode(record(NewImage={"number": {"S": "many"}}), mail, on_invalid=refuse)
    assert not isinstance(caught.value, BadValue)


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


def kinesis(body: dict[str, Any], number: int = 1) -> dict[str, Any]:
    """A record of DynamoDB Streams as one of a Lambda function on a Kinesis data stream for DynamoDB."""
    what = {name: value for name, value in body["dynamodb"].items() if name != "SequenceNumber"}
    what |= {"ApproximateCreationDateTime": MICROSECONDS, "ApproximateCreationDateTimePrecision": "MICROSECOND"}
    inner = body | {
        "dynamodb": what,
        "tableName": "mail",
        "recordFormat": "application/json",
        "eventSource": "aws:dynamodb",
    }
    del inner["eventSourceARN"]
    data = b64encode(json.dumps(inner).encode()).decode()
    return {
        "eventSource": "aws:kinesis",
        "eventSourceARN": "arn:aws:kinesis:eu-west-1:123456789012:stream/changes",
        "eventID": f"shardId-000000000006:4954511524121{number}",
        "kinesis": {"data": data, "sequenceNumber": f"4954511524121{number}", "partitionKey": "A1"},
    }


def inside(outer: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A Kinesis record whose decoded ``dynamodb`` has these changes; None: without the member."""
    body = json.loads(b64decode(outer["kinesis"]["data"]))
    what = body["dynamodb"] | changes
    body["dynamodb"] = {name: value for name, value in what.items() if value is not None}
    return outer | {"kinesis": outer["kinesis"] | {"data": b64encode(json.dumps(body).encode()).decode()}}


MICROSECONDS = 1767571200_000123
FULL = {"seal": {"B": "AP8="}, "stamps": {"BS": ["gA=="]}}


@pytest.mark.parametrize("raw", [False, True], ids=["lambda", "get_records"])
def test_a_kinesis_record_is_decoded_as_that_of_the_stream(raw: bool) -> None:
    body = record("MODIFY", OldImage=FULL, NewImage={"subject": {"S": "x"}})
    whole = kinesis(body, 7)
    if raw:
        inner = whole["kinesis"]
        whole = {"Data": b64decode(inner["data"]), "SequenceNumber": inner["sequenceNumber"], "PartitionKey": "A1"}
    change, plain = decode(whole, mail), decode(body, mail)
    assert isinstance(change, Changed)
    assert (change.key, change.old, change.new, change.changed) == (plain.key, plain.old, plain.new, plain.changed)
    assert change.old == Letter(box="b", number=1, seal=b"\x00\xff", stamps={b"\x80"})
    assert change.at == datetime(2026, 1, 5, 0, 0, 0, 123, UTC)
    assert change.order == f"{MICROSECONDS:020}"
    assert change.sequence == "49545115241217"
    assert change.record is whole
    assert list(decode_all({"Records": [whole]}, mail)) == [change]


def test_the_order_of_kinesis_records_is_their_time_in_microseconds() -> None:
    whole = kinesis(record(NewImage={}))
    milliseconds = MICROSECONDS // 1000
    for precision in ("MILLISECOND", None):
        rough = inside(whole, ApproximateCreationDateTime=milliseconds, ApproximateCreationDateTimePrecision=precision)
        change = decode(rough, mail)
        assert change.at == datetime(2026, 1, 5, tzinfo=UTC)
        assert change.order == f"{milliseconds}000".zfill(20) < decode(whole, mail).order
    with pytest.raises(BadValue, match="not a DynamoDB stream record, at KeyError: 'FORTNIGHT'"):
        decode(inside(whole, ApproximateCreationDateTimePrecision="FORTNIGHT"), mail)


def test_kinesis_records_of_other_tables_and_programs_are_refused() -> None:
    whole = kinesis(record(NewImage={}))
    with pytest.raises(BadValue, match=r"of table 'mail', not 'prod-mail' \(Kinesis\).*prefix="):
        decode(whole, mail, prefix="prod-")
    for data in ("", "AAAA", b64encode(b"[1]").decode(), "%"):
        with pytest.raises(BadValue, match="DynamoDB stream record"):
            decode({"kinesis": {"data": data, "sequenceNumber": "1"}}, mail)
    by_ttl = {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}}
    expired = kinesis(record("REMOVE", OldImage={}) | by_ttl)
    assert decode(expired, mail).expired
    assert not decode(kinesis(record("REMOVE", OldImage={})), mail).expired
    strange = kinesis(record(NewImage={"_t": {"S": "Parcel"}}))
    assert decode(strange, mail, on_unknown="skip") is None


class Taking:
    """Notes the changes, up to one that fails."""

    table = mail

    def __init__(self, fails: Any = None) -> None:
        self.fails = fails
        self.taken: list[Any] = []

    def deliver(self, changes: Sequence[Change[Any]]) -> int | None:
        for index, change in enumerate(changes):
            letter = change.new
            assert isinstance(letter, Letter)
            if letter.subject == self.fails:
                return index
            self.taken.append(letter.subject)
        return None


def event_of(*subjects: Any, by_kinesis: bool) -> dict[str, Any]:
    """An event of inserted letters; a subject that is not text does not fit the model."""
    found = []
    for number, subject in enumerate(subjects):
        whole = record(NewImage={"subject": {"S": subject} if isinstance(subject, str) else {"N": "1"}})
        whole["dynamodb"]["SequenceNumber"] = f"4954511524121{number}"
        found.append(kinesis(whole, number) if by_kinesis else whole)
    return {"Records": found}


@pytest.mark.parametrize("by_kinesis", [False, True], ids=["streams", "kinesis"])
@pytest.mark.parametrize(
    ("subjects", "fails", "taken", "failed"),
    [
        ("abc", None, "abc", None),
        ("abc", "a", "", 0),
        ("abc", "c", "ab", 2),
        (["a", 1, "c"], None, "a", 1),
        (["a", "b", 1], "b", "a", 1),
        ([1, "b"], None, "", 0),
        ("", None, "", None),
    ],
)
def test_a_handler_reports_the_first_failed_record(
    subjects: Any, fails: str | None, taken: str, failed: int | None, by_kinesis: bool
) -> None:
    feed = Taking(fails)
    answer = handler(feed)(event_of(*subjects, by_kinesis=by_kinesis), None)
    expected = [] if failed is None else [{"itemIdentifier": f"4954511524121{failed}"}]
    assert answer == {"batchItemFailures": expected}
    assert feed.taken == list(taken)


def test_a_handler_reports_items_of_no_entity_unless_they_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    event = event_of("a", "b", "c", by_kinesis=False)
    event["Records"][1]["dynamodb"]["NewImage"]["_t"] = {"S": "Parcel"}
    feed = Taking()
    assert handler(feed)(event, None) == {"batchItemFailures": [{"itemIdentifier": "49545115241211"}]}
    assert feed.taken == ["a"]
    assert "stream record 49545115241211 of table 'mail' cannot be decoded" in caplog.text
    assert "Parcel" in caplog.text
    feed = Taking()
    assert handler(feed, on_unknown="skip")(event, None) == {"batchItemFailures": []}
    assert feed.taken == ["a", "c"]


def test_a_handler_reports_items_that_do_not_fit_unless_they_are_skipped() -> None:
    event = event_of("a", "b", "c", by_kinesis=False)
    event["Records"][1]["dynamodb"]["NewImage"]["number"] = {"S": "many"}
    feed = Taking()
    assert handler(feed)(event, None) == {"batchItemFailures": [{"itemIdentifier": "49545115241211"}]}
    feed, errors = Taking(), list[ItemInvalid]()
    assert handler(feed, on_invalid=errors.append)(event, None) == {"batchItemFailures": []}
    assert feed.taken == ["a", "c"]
    assert len(errors) == 1
    with pytest.raises(BadValue, match="'raise', 'skip' or a function"):
        handler(Taking(), on_invalid="drop")  # type: ignore[arg-type]


def test_a_handler_decodes_nothing_behind_a_failure_and_reports_a_record_without_number() -> None:
    feed = Taking()
    event = event_of("a", "b", by_kinesis=False)
    event["Records"].insert(1, {"eventName": "INSERT"})
    assert handler(feed)(event, None) == {"batchItemFailures": [{"itemIdentifier": ""}]}  # the whole batch again
    assert feed.taken == ["a"]


def test_a_handler_is_checked_when_it_is_made() -> None:
    elsewhere: Any = SimpleNamespace(table="mail")
    with pytest.raises(TypeError, match=r"handler\(feed\): feed.table: 'mail' is not a Table"):
        handler(elsewhere)
    with pytest.raises(BadValue, match="write 'raise' or 'skip'"):
        handler(Taking(), on_unknown="drop")  # type: ignore[arg-type]
    with pytest.raises(BadValue, match="has 'Records', but this one has detail"):
        handler(Taking())({"detail": {}}, None)
    other = event_of("a", by_kinesis=False)
    assert handler(Taking(), prefix="prod-")(other, None)["batchItemFailures"]
