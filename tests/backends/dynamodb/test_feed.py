"""The stream as a change feed: on a scripted service whose shards split and end, and on real servers."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from attrs import Factory, define
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import BackendError, BadCursor, Throttled, Unsupported
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.clients import Settings, SyncClient
from odm.backends.dynamodb.client.native import Call, Native
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.backends.dynamodb.feed import EMPTY, RETENTION
from odm.changes import ChangeShard
from odm.protocol.changes import ChangePage
from odm.protocol.connection import RetryPolicy, aperform, perform, run
from odm.protocol.requests import ListShards, ReadChanges, Request, Sleep
from odm.schema.model import Schema
from tests.backends.dynamodb.canned import Answer, serving

SHOP = Schema(name="shop", entities={}, indexes={})
LABEL = "2026-01-05T00:00:00.000"
ARN = f"arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/{LABEL}"
PARENT, LEFT, RIGHT = (f"shardId-0000000000000000000{number}-aaaaaaaa" for number in (1, 2, 3))


def failure(code: str, said: str = "", status: int = 400) -> ClientError:
    error: Any = {"Error": {"Code": code, "Message": said}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(error, "GetRecords")


def number(at: int) -> str:
    """The sequence number of a record."""
    return f"{at:021}"


def native(at: int) -> dict[str, Any]:
    """A record, as boto3 returns it."""
    key = {"pk": {"S": "P"}, "sk": {"S": str(at)}}
    return {"eventName": "INSERT", "dynamodb": {"Keys": key, "NewImage": key, "SequenceNumber": number(at)}}


@define
class Shard:
    """A shard of the scripted service.

    Attributes:
        parts: what each part has: the number of a record, or None for a part that one GetRecords passes over.
        parent: the id of its parent.
        open: more records may come.
        trimmed: the number of parts at its start that were deleted.
    """

    parts: list[int | None] = Factory(list)
    parent: str | None = None
    open: bool = True
    trimmed: int = 0


class Service:
    """Answers as DynamoDB and DynamoDB Streams do, from scripted shards.

    Attributes:
        shards: the shards.
        calls: the requests until now.
        failures: errors for the next requests, by operation.
        page: the shards in a response of DescribeStream.
    """

    def __init__(self, **shards: Shard) -> None:
        self.shards: dict[str, Shard] = shards
        self.calls: list[Call] = []
        self.failures: dict[str, list[Exception]] = {}
        self.page = 100
        self.arn = ARN
        self.enabled = True
        self.life = 0  # iterators of earlier lives have expired

    def __call__(self, native: Native) -> Any:
        if isinstance(native, Sleep):
            return None
        self.calls.append(native)
        if self.failures.get(native.operation):
            raise self.failures[native.operation].pop(0)
        return getattr(self, native.operation)(native.kwargs)

    @property
    def names(self) -> list[str]:
        """The operations since the last time."""
        names = [call.operation for call in self.calls]
        self.calls.clear()
        return names

    def describe_table(self, given: Mapping[str, Any]) -> dict[str, Any]:
        enabled: dict[str, Any] = {"StreamSpecification": {"StreamEnabled": True}} if self.enabled else {}
        return {"Table": {**given, "LatestStreamArn": self.arn, **enabled}}

    def describe_stream(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self.check(given["StreamArn"])
        ids = [one for one in sorted(self.shards) if one > given.get("ExclusiveStartShardId", "")]
        found = [{"ShardId": one, "ParentShardId": self.shards[one].parent} for one in ids[: self.page]]
        shards = [{name: value for name, value in one.items() if value} for one in found]
        more = {"LastEvaluatedShardId": ids[self.page - 1]} if len(ids) > self.page else {}
        return {"StreamDescription": {"Shards": shards, **more}}

    def get_shard_iterator(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self.check(given["StreamArn"], given["ShardId"])
        shard = self.shards[given["ShardId"]]
        at = shard.trimmed
        if given["ShardIteratorType"] == "AFTER_SEQUENCE_NUMBER":
            at = shard.parts.index(int(given["SequenceNumber"])) + 1
            if at <= shard.trimmed:
                raise failure("TrimmedDataAccessException", "before the trim horizon")
        return {"ShardIterator": json.dumps([self.life, given["ShardId"], at])}

    def get_records(self, given: Mapping[str, Any]) -> dict[str, Any]:
        life, name, at = json.loads(given["ShardIterator"])
        self.check(self.arn, name)
        if life != self.life:
            raise failure("ExpiredIteratorException")
        shard = self.shards[name]
        if at < shard.trimmed:
            raise failure("TrimmedDataAccessException")
        parts = shard.parts[at : at + given["Limit"]]
        if None in parts:
            parts = parts[: parts.index(None) or 1]
        records = [native(part) for part in parts if part is not None]
        at += len(parts)
        ended = not shard.open and at == len(shard.parts)
        return {"Records": records} | ({} if ended else {"NextShardIterator": json.dumps([life, name, at])})

    def check(self, arn: str, shard: str | None = None) -> None:
        if arn != self.arn or (shard is not None and shard not in self.shards):
            raise failure("ResourceNotFoundException", "Requested resource not found: Stream or Shard")


class Reader:
    """One process that reads the stream: a connection, whose requests the service answers."""

    def __init__(self, service: Service) -> None:
        self.service = service
        connection = DynamoDB(region="eu-west-1").connect(SHOP)
        self.connection = connection.with_retry_policy(RetryPolicy(retries=2))

    def __call__(self, request: Request) -> Any:
        return run(self.connection.steps(request), self.service)

    def page(self, shard: str = PARENT, after: str | None = None, limit: int = 100) -> ChangePage:
        page = self(ReadChanges(shard, after, limit))
        assert isinstance(page, ChangePage)
        return page


def numbers(page: ChangePage) -> list[int]:
    """The sequence numbers of the changes, each behind its position."""
    assert [record.position for record in page.records] == [
        f"{LABEL}/after/{record.sequence}" for record in page.records
    ]
    assert [record.order for record in page.records] == [record.sequence.zfill(40) for record in page.records]
    return numbers_of(page)


def numbers_of(page: ChangePage) -> list[int]:
    """The sequence numbers of the changes."""
    return [int(record.sequence) for record in page.records]


def test_the_requests_of_a_listing_and_of_pages() -> None:
    service = Service(**{PARENT: Shard([1, 2, 3])})
    reader = Reader(service)
    assert reader(ListShards()) == (ChangeShard(PARENT),)
    page = reader.page(limit=2)
    assert numbers(page) == [1, 2]
    reader.page(after=page.position, limit=5000)
    Reader(service).page(after=page.records[0].position)
    shown = "".join(f"{call}\n" for call in service.calls)
    assert (
        shown
        == f"""\
describe_table(
    TableName='shop',
)
describe_stream(
    StreamArn='{ARN}',
)
get_shard_iterator(
    StreamArn='{ARN}',
    ShardId='{PARENT}',
    ShardIteratorType='TRIM_HORIZON',
)
get_records(
    ShardIterator='[0, "{PARENT}", 0]',
    Limit=2,
)
get_records(
    ShardIterator='[0, "{PARENT}", 2]',
    Limit=1000,
)
describe_table(
    TableName='shop',
)
get_shard_iterator(
    StreamArn='{ARN}',
    ShardId='{PARENT}',
    ShardIteratorType='AFTER_SEQUENCE_NUMBER',
    SequenceNumber='000000000000000000001',
)
get_records(
    ShardIterator='[0, "{PARENT}", 1]',
    Limit=100,
)
"""
    )


def test_shards_of_several_pages_are_listed_parents_first() -> None:
    gone = "shardId-00000000000000000000-bbbbbbbb"
    service = Service(
        **{
            PARENT: Shard(parent=RIGHT),  # the ids need not be in the order of the shards
            LEFT: Shard(parent=PARENT),
            RIGHT: Shard(parent=gone),
            "shardId-x": Shard(parent=RIGHT),
            "shardId-y": Shard(),
        }
    )
    service.page = 2
    found = Reader(service)(ListShards())
    assert service.names == ["describe_table", *["describe_stream"] * 3]
    assert {shard.id: shard.parent for shard in found} == {
        RIGHT: gone,
        PARENT: RIGHT,
        "shardId-x": RIGHT,
        LEFT: PARENT,
        "shardId-y": None,
    }
    ids = [shard.id for shard in found]
    assert all(ids.index(shard.parent) < ids.index(shard.id) for shard in found if shard.parent in ids)


def test_a_long_line_of_shards_is_listed() -> None:
    ids = [f"shardId-{at:020}-aaaaaaaa" for at in range(3000)]
    lines = dict(zip(ids, [*ids[1:], None], strict=True))  # the youngest first
    found = Reader(Service(**{one: Shard(parent=parent) for one, parent in lines.items()}))(ListShards())
    assert [shard.id for shard in found] == ids[::-1]


def test_a_closed_shard_ends_and_an_open_one_continues() -> None:
    service = Service(**{PARENT: Shard([1, None, 2], open=False), LEFT: Shard([3], parent=PARENT)})
    reader = Reader(service)
    first = reader.page()
    assert (numbers(first), first.position) == ([1], f"{LABEL}/after/{number(1)}")
    gap = reader.page(after=first.position)
    assert (numbers(gap), gap.position) == ([], first.position)
    last = reader.page(after=gap.position)
    assert (numbers(last), last.position) == ([2], None)
    assert (
        Reader(service).page(after=last.records[-1].position) == ChangePage()
    )  # a process that stopped before the end
    assert Reader(Service(**{PARENT: Shard(open=False)})).page() == ChangePage()

    service.names  # noqa: B018  # forgets them
    page = reader.page(LEFT)
    assert numbers(page) == [3]
    for _ in range(3):  # nothing new: the position stays, and each poll takes one request
        again = reader.page(LEFT, page.position)
        assert (again.records, again.position) == ((), page.position)
    assert service.names == ["get_shard_iterator", *["get_records"] * 4]
    service.shards[LEFT].parts.append(4)
    assert numbers(reader.page(LEFT, page.position)) == [4]


def test_empty_parts_are_passed_over_by_one_request_or_by_several() -> None:
    service = Service(**{PARENT: Shard([*[None] * (EMPTY - 1), 1])})
    assert numbers(Reader(service).page()) == [1]
    assert service.names == ["describe_table", "get_shard_iterator", *["get_records"] * EMPTY]

    service.shards[PARENT] = Shard([1, *[None] * 25, 2])
    reader = Reader(service)
    page, asked = reader.page(), 0
    while not numbers(following := reader.page(after=page.position)):
        assert following.position == page.position
        asked += 1
        assert asked < 50
    assert numbers(following) == [2]
    assert service.names.count("get_shard_iterator") == 1
    with_gap = Reader(service).page(after=page.position)  # another process begins at the position
    assert with_gap == ChangePage((), page.position)


def test_an_expired_iterator_is_renewed() -> None:
    service = Service(**{PARENT: Shard([1, None, None, 2])})
    reader = Reader(service)
    page = reader.page(limit=1)
    service.life += 1
    assert numbers(reader.page(after=page.position)) == [2]  # as a new iterator, it passes over empty answers
    assert service.names[-5:] == ["get_records", "get_shard_iterator", *["get_records"] * 3]
    service.failures["get_records"] = [failure("ExpiredIteratorException") for _ in range(9)]
    with pytest.raises(BackendError):
        reader.page(after=page.position)
    assert service.names.count("get_records") == 4


def test_trimmed_changes_are_an_error_only_behind_a_position() -> None:
    service = Service(**{PARENT: Shard([1, 2, 3])})
    page = Reader(service).page(limit=1)
    service.shards[PARENT].trimmed = 2
    with pytest.raises(BadCursor, match=r"table 'shop': changes were lost, .* 24 hours: .*from its start"):
        Reader(service).page(after=page.position)
    assert numbers(Reader(service).page()) == [3]
    # A record may be deleted between the two requests. Then the start of the shard is a later one.
    service.failures["get_records"] = [failure("TrimmedDataAccessException")]
    assert numbers(Reader(service).page()) == [3]
    service.failures["get_records"] = [failure("TrimmedDataAccessException")]
    after = f"{LABEL}/after/{number(3)}"
    with pytest.raises(BadCursor, match="changes were lost"):
        Reader(service).page(after=after)


def test_a_shard_of_which_nothing_was_read_for_24_hours_has_lost_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(**{PARENT: Shard()})
    reader = Reader(service)
    page = reader.page()
    assert page.position is not None
    assert page.position.startswith(f"{LABEL}/since/")
    later = time.time() + RETENTION + 1
    monkeypatch.setattr("odm.backends.dynamodb.feed.time.time", lambda: later)
    assert reader.page(after=page.position).position == page.position  # it has been read all the time
    with pytest.raises(BadCursor, match=rf"shard '{PARENT}' of the stream of table 'shop': changes were lost"):
        Reader(service).page(after=page.position)
    service.shards[PARENT].parts = [1]
    assert numbers(reader.page(after=page.position)) == [1]


def test_a_shard_that_is_gone_has_lost_changes() -> None:
    service = Service(**{PARENT: Shard([1])})
    reader = Reader(service)
    page = reader.page()
    del service.shards[PARENT]
    for after in (page.position, None):
        with pytest.raises(BadCursor, match=rf"shard '{PARENT}' is no longer in the stream of table 'shop': if it"):
            reader.page(after=after)
    service.shards[LEFT] = Shard([1])
    reader(ListShards())
    service.arn = ARN.replace("2026", "2027")
    with pytest.raises(BadCursor, match="no longer in the stream"):
        reader.page(LEFT)
    assert numbers_of(reader.page(LEFT)) == [1]  # the stream is looked for again


def test_positions_of_another_stream_and_malformed_ones_are_refused() -> None:
    service = Service(**{PARENT: Shard([1, 2])})
    reader = Reader(service)
    page = reader.page(limit=1)
    for after in ("", "x", f"{LABEL}/after/", f"{LABEL}/after/x", f"{LABEL}/at/1", f"{LABEL}/after/²", "log:3",
                  f"{number(1)}", f"2025{LABEL[4:]}/after/{number(1)}", f"{LABEL}/since/-1"):  # fmt: skip
        with pytest.raises(BadCursor, match=r"is not a position of the stream of table 'shop'\. If"):
            reader.page(after=after)
    service.arn = ARN.replace("2026", "2027")
    reader(ListShards())
    with pytest.raises(BadCursor, match="changes were not recorded while there was none"):
        reader.page(after=page.position)
    renewed = Reader(service).page(limit=1)
    assert renewed.position == f"2027{LABEL[4:]}/after/{number(1)}"
    late = Reader(service)
    service.arn = ARN
    late.connection.layout.stream.arn = ARN.replace("2026", "2025")
    assert late.page(after=page.position).records  # the position is of the latest stream, which was not known yet
    service.failures["get_shard_iterator"] = [failure("ValidationException", "Invalid SequenceNumber")]
    with pytest.raises(BadCursor, match="pass a position of this shard"):
        Reader(service).page(after=page.position)


def test_a_table_without_a_stream_says_how_to_enable_one() -> None:
    service = Service()
    service.enabled = False
    for request in (ListShards(), ReadChanges(PARENT)):
        with pytest.raises(Unsupported, match=r"no stream: .*DynamoDB\(stream='new_and_old_images'\).*create\(\) once"):
            Reader(service)(request)
    service.failures["describe_table"] = [failure("ResourceNotFoundException", "Table: shop not found")]
    with pytest.raises(BackendError, match="table 'shop' does not exist"):
        Reader(service)(ListShards())


@pytest.mark.parametrize("operation", ["describe_stream", "get_shard_iterator", "get_records"])
@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("LimitExceededException", 400, Throttled),
        ("ThrottlingException", 400, Throttled),
        ("InternalServerError", 500, BackendError),
    ],
)
def test_throttled_and_failed_reads_are_sent_again(
    operation: str, code: str, status: int, error: type[Exception]
) -> None:
    service = Service(**{PARENT: Shard([1])})
    request = ListShards() if operation == "describe_stream" else ReadChanges(PARENT)
    service.failures[operation] = [failure(code, status=status) for _ in range(2)]
    assert Reader(service)(request)
    assert service.names.count(operation) == 3
    service.failures[operation] = [failure(code, status=status) for _ in range(3)]
    with pytest.raises(error):
        Reader(service)(request)


def test_a_failed_request_keeps_the_place_in_a_stretch_without_records() -> None:
    service = Service(**{PARENT: Shard([*[None] * (EMPTY + 1), 1])})
    reader = Reader(service)
    page = reader.page()
    service.failures["get_records"] = [failure("ThrottlingException") for _ in range(3)]
    with pytest.raises(Throttled):
        reader.page(after=page.position)
    assert numbers(reader.page(after=page.position)) == []
    assert numbers(reader.page(after=page.position)) == [1]
    assert service.names.count("get_shard_iterator") == 1


def test_kept_iterators_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odm.backends.dynamodb.feed._ITERATORS", 10)
    ids = [f"shardId-{at:020}-aaaaaaaa" for at in range(25)]
    reader = Reader(Service(**{one: Shard([1]) for one in ids}))
    for one in ids:
        page = reader.page(one)
        assert reader.page(one, page.position).position == page.position
    assert len(reader.connection.layout.stream.iterators) <= 10


@given(
    parts=st.lists(st.booleans(), max_size=40),
    split=st.integers(0, 40),
    limits=st.lists(st.integers(1, 5), min_size=1),
    restarts=st.sets(st.integers(0, 30)),
)
@settings(max_examples=100)
def test_every_change_is_read_once_and_in_order(
    parts: list[bool], split: int, limits: list[int], restarts: set[int]
) -> None:
    stored = [at if full else None for at, full in enumerate(parts)]
    service = Service(**{
        PARENT: Shard(stored[:split], open=False), LEFT: Shard(stored[split:], parent=PARENT, open=False)
    })  # fmt: skip
    reader, found, asked = Reader(service), [], 0
    for shard in reader(ListShards()):
        after, ended = None, False
        while not ended:
            page = reader.page(shard.id, after, limits[asked % len(limits)])
            found += numbers(page)
            after, ended = page.position, page.position is None
            asked += 1
            if asked in restarts and sum(part is None for part in stored) < EMPTY:
                reader = Reader(service)
    assert found == [at for at in stored if at is not None]


def test_streams_of_aws_have_an_address_of_their_own() -> None:
    def endpoint(url: str | None) -> str:
        session = boto3.Session("key", "secret", region_name="eu-west-1")
        client = SyncClient(Settings(session, endpoint_url=url))
        found = str(client.get(None, "dynamodbstreams").meta.endpoint_url)
        client.close()
        return found

    for url in (None, "https://dynamodb.eu-west-1.amazonaws.com", "https://dynamodb.eu-west-1.api.aws"):
        assert endpoint(url) == "https://streams.dynamodb.eu-west-1.amazonaws.com"
    assert endpoint("http://localhost:8000") == "http://localhost:8000"


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("body", [b"<html>a proxy</html>", b"{}", b'{"StreamDescription": 1}'])
def test_an_answer_that_is_not_of_dynamodb_streams_is_an_error(mode: str, body: bytes) -> None:
    description = {"Table": {"StreamSpecification": {"StreamEnabled": True}, "LatestStreamArn": ARN}}
    bodies = iter([json.dumps(description).encode(), *[body] * 9])
    with serving(lambda: Answer(next(bodies))) as server, asyncio.Runner() as runner:
        backend = DynamoDB(boto3.Session("key", "secret", region_name="eu-west-1"), endpoint_url=server.endpoint)
        connection = backend.connect(SHOP).with_retry_policy(RetryPolicy(retries=0))
        ask = perform if mode == "sync" else lambda *asked: runner.run(awaited(*asked))
        with pytest.raises(BackendError):
            ask(connection, ListShards())
        connection.close()


async def awaited(connection: DynamoDBConnection, request: Request) -> Any:
    try:
        return await aperform(connection, request)
    finally:
        await connection.aclose()
