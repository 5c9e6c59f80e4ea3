"""Operations with several requests, and details that docs/dynamodb_requests.md (see `test_golden`) does not show."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Call
from odm.backends.dynamodb.items.layout import create_table, layout_of
from odm.errors import BackendError, BadValue, Conflict, SchemaError, Throttled
from odm.expressions.nodes import (
    AddTo,
    AddValue,
    Compare,
    Const,
    DiscardFrom,
    Increment,
    IsIn,
    Missing,
    Path,
    Remove,
    Set,
)
from odm.protocol import contention
from odm.protocol.connection import RetryPolicy, run
from odm.protocol.expressions import TEXT_BYTES
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    Get,
    Merge,
    Page,
    Position,
    Put,
    Query,
    Request,
    Scan,
    Sleep,
    Update,
    Written,
)
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema
from tests.backends.dynamodb.conftest import described

SHOP = Schema(name="shop", entities={}, indexes={"by_email": IndexSchema("by_email", ())})
KEY = Key("C#1", "O#2")
NATIVE_KEY = {"pk": {"S": "C#1"}, "sk": {"S": "O#2"}}
TAG = Path(("_t",))
IS_OPEN = Compare("=", Path(("status",)), Const("open"))


def first(request: Request, schema: Schema = SHOP) -> Call:
    """The first native request, which `explain` shows."""
    native = DynamoDB().connect(schema).preview(request)
    assert isinstance(native, Call)
    return native


@pytest.mark.parametrize(
    ("request_", "once"),
    [
        (Put(KEY, {}), False),
        (Put(KEY, {}, condition=Missing(TAG)), True),
        (Update(KEY, (Set(Path(("status",)), "shipped"),)), True),
        (Delete(KEY), True),
        (BatchWrite((Delete(KEY),)), False),
        (Query("C#1"), False),
    ],
)
def test_writes_that_are_not_idempotent_are_sent_once(request_: Request, once: bool) -> None:
    assert first(request_).once is once


@pytest.mark.parametrize("tag", ["Order", 'O"r', "x" * 255])
def test_the_condition_of_every_put_is_not_shared_by_its_requests(tag: str) -> None:
    def arguments() -> dict[str, Any]:
        return dict(first(Put(KEY, {}, tag=tag)).kwargs)

    made = arguments()
    assert made["ConditionExpression"] == "attribute_not_exists(#0) OR #1 = :0"
    assert made["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    assert made["ExpressionAttributeNames"] == {"#0": "pk", "#1": "_t"}
    assert made["ExpressionAttributeValues"] == {":0": {"S": tag}}
    made["ExpressionAttributeNames"]["#2"] = made["ExpressionAttributeValues"][":0"]["S"] = "changed by a handler"
    made["ConditionExpression"] = ""
    assert arguments() == {
        "TableName": "shop",
        "Item": NATIVE_KEY,
        "ConditionExpression": "attribute_not_exists(#0) OR #1 = :0",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ExpressionAttributeNames": {"#0": "pk", "#1": "_t"},
        "ExpressionAttributeValues": {":0": {"S": tag}},
    }


def test_a_table_without_sort_key() -> None:
    schema = Schema(name="old", entities={}, indexes={}, hash_only=True)
    assert first(Get(Key("C#1")), schema).kwargs["Key"] == {"pk": {"S": "C#1"}}
    assert first(Query("C#1"), schema).kwargs["KeyConditionExpression"] == "#0 = :0"
    created = create_table(layout_of(schema))
    assert created["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert "GlobalSecondaryIndexes" not in created


@pytest.mark.parametrize("name", ["ab", "a b", "x" * 256, "näme"])
def test_names_that_dynamodb_does_not_allow(name: str) -> None:
    with pytest.raises(SchemaError, match="table name"):
        DynamoDB().connect(Schema(name=name, entities={}, indexes={}))
    if name == "ab":  # an existing index may have a short name
        return
    with pytest.raises(SchemaError, match=r"index name .* AccessPattern"):
        DynamoDB().connect(Schema(name="shop", entities={}, indexes={name: IndexSchema(name, ())}))


def test_an_empty_range_needs_no_request() -> None:
    steps = DynamoDB().connect(SHOP).steps(Query("C#1", "\U0010ffff" * 300))
    with pytest.raises(StopIteration) as done:
        next(steps)
    assert done.value.value == Page()


def test_an_index_is_never_read_consistently() -> None:
    assert "ConsistentRead" not in first(Query("E#a", index="by_email", consistent=True)).kwargs


def test_a_count_with_filter_and_limit_reads_the_items() -> None:
    assert first(Query("C#1", count=True, limit=5)).kwargs["Select"] == "COUNT"
    assert "Select" not in first(Query("C#1", count=True, limit=5, filter=IS_OPEN)).kwargs


def test_native_requests_print_one_line_per_argument_and_cut_long_values() -> None:
    text = str(first(Query("C#1", "O#", "O$", filter=IS_OPEN)))
    assert text.startswith(
        "query(\n    TableName='shop',\n    KeyConditionExpression='#0 = :0 AND #1 BETWEEN :1 AND :2',"
    )
    assert r"        ':2': {'S': 'O#' + '\U0010ffff' * 255 + '\u07ff'}," in text
    long = Put(KEY, {"texts": ["x" * 400_000, "y"], "blob": b"z" * 400_000})
    assert max(map(len, str(first(long)).splitlines())) < 150
    choices = IsIn(TAG, tuple(map(Const, range(90))))
    call = first(Query("C#1", filter=choices))
    assert call.kwargs["FilterExpression"] in str(call)


class Service:
    """Answers native calls with a function, and records them; it does not sleep."""

    def __init__(self, answer: Callable[[Call, int], Any]) -> None:
        self.answer = answer
        self.calls: list[Call] = []
        self.pauses: list[float] = []

    def __call__(self, native: Call | Sleep) -> Any:
        if isinstance(native, Sleep):
            self.pauses.append(native.seconds)
            return None
        self.calls.append(native)
        return self.answer(native, len(self.calls))


def _partial(left_over: int) -> Callable[[Call, int], Any]:
    """Leaves the last operations of a batch unprocessed, until the third request, which processes all."""

    def answer(call: Call, number: int) -> Any:
        asked = call.kwargs["RequestItems"]["shop"]
        writes = asked if call.operation == "batch_write_item" else asked["Keys"]
        done = len(writes) if number >= 3 else max(0, len(writes) - left_over)
        if call.operation == "batch_write_item":
            return {"UnprocessedItems": {"shop": writes[done:]} if writes[done:] else {}}
        # Not in the order of the keys, like DynamoDB's responses.
        found = [{**key, "n": {"N": key["sk"]["S"]}} for key in reversed(writes[:done])]
        return {
            "Responses": {"shop": found},
            "UnprocessedKeys": {"shop": {"Keys": writes[done:]}} if writes[done:] else {},
        }

    return answer


def test_unprocessed_keys_are_read_again_and_items_are_in_the_order_of_the_keys() -> None:
    service = Service(_partial(30))
    keys = tuple(Key("p", str(n)) for n in range(150))
    assert run(DynamoDB().connect(SHOP).steps(BatchGet(keys)), service) == tuple({"n": n} for n in range(150))
    # Unprocessed are 30 of 100; then 30 of 50 + 30; then none of 30.
    assert [len(call.kwargs["RequestItems"]["shop"]["Keys"]) for call in service.calls] == [100, 80, 30]
    assert len(service.pauses) == 2


def test_unprocessed_writes_are_sent_again() -> None:
    service = Service(_partial(5))
    operations = tuple(Put(Key("p", str(n)), {}) if n % 2 else Delete(Key("p", str(n))) for n in range(30))
    assert run(DynamoDB().connect(SHOP).steps(BatchWrite(operations)), service) is None
    assert [len(call.kwargs["RequestItems"]["shop"]) for call in service.calls] == [25, 10, 5]


def test_a_batch_without_progress_raises_with_what_is_left() -> None:
    def answer(call: Call, _number: int) -> Any:
        return {"UnprocessedItems": call.kwargs["RequestItems"]}

    service = Service(answer)
    operations = tuple(Put(Key("p", str(n)), {}) for n in range(3))
    with pytest.raises(Throttled, match=r"3 of 3 operations .* 'shop'") as caught:
        run(DynamoDB().connect(SHOP).steps(BatchWrite(operations)), service)
    assert caught.value.left == operations
    assert len(service.calls) == 7
    assert all(0 <= pause <= 5 for pause in service.pauses)
    assert service.pauses != sorted(service.pauses, reverse=True)
    impatient, service = DynamoDB().connect(SHOP).with_retry_policy(RetryPolicy(retries=1)), Service(answer)
    with pytest.raises(Throttled):
        run(impatient.steps(BatchWrite(operations)), service)
    assert len(service.calls) == 2


def test_a_limit_applies_after_the_filter_and_the_next_page_starts_after_the_last_item() -> None:
    items = [{"pk": {"S": "p"}, "sk": {"S": str(n)}, "n": {"N": str(n)}} for n in range(4)]

    def page(limit: int | None, last: dict[str, Any] | None = None) -> Page:
        response = {"Items": items, "Count": 4, "ScannedCount": 4, **({"LastEvaluatedKey": last} if last else {})}
        steps = DynamoDB().connect(SHOP).steps(Query("p", filter=IS_OPEN, limit=limit))
        return run(steps, lambda _native: response)  # type: ignore[no-any-return]

    positions = tuple(Position(Key("p", str(n))) for n in range(4))
    assert page(2) == Page(({"n": 0}, {"n": 1}), positions[:2], positions[1])
    assert page(4).next is None
    assert page(4, {"pk": {"S": "p"}, "sk": {"S": "9"}}).next == Position(Key("p", "9"))
    assert page(None).positions == positions


def test_the_limit_with_a_filter_is_the_number_of_items_to_examine() -> None:
    assert "Limit" not in first(Query("p", filter=IS_OPEN, limit=2)).kwargs
    assert first(Query("p", filter=IS_OPEN, limit=2, examine=5)).kwargs["Limit"] == 5
    assert first(Query("p", filter=IS_OPEN, limit=2, examine=2**40)).kwargs["Limit"] == 2**31 - 1
    assert first(Query("p", limit=2, examine=5)).kwargs["Limit"] == 2
    assert first(Scan(IS_OPEN, examine=5)).kwargs["Limit"] == 5


def test_creation_waits_until_the_table_exists() -> None:
    absent = ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "DescribeTable")
    looks = iter(
        [
            absent,
            described("CREATING", by_email="CREATING"),
            described("ACTIVE", by_email="CREATING"),
            described("ACTIVE", by_email="ACTIVE"),
        ]
    )

    def answer(call: Call, _number: int) -> Any:
        found = next(looks) if call.operation == "describe_table" else {}
        if found is absent:
            raise absent
        return found

    service = Service(answer)
    run(DynamoDB().connect(SHOP).steps(CreateTables()), service)
    assert [call.operation for call in service.calls] == ["describe_table", "create_table"] + ["describe_table"] * 3
    assert service.pauses == [0.05, 0.1]


def test_a_table_that_is_as_it_should_be_is_only_read() -> None:
    table = described("ACTIVE", by_email="ACTIVE")
    service = Service(lambda call, _number: {"Items": []} if call.operation == "scan" else table)
    run(DynamoDB().connect(SHOP).steps(CreateTables()), service)
    assert {call.operation for call in service.calls} == {"describe_table", "scan"}
    assert service.pauses == []


def test_indexes_that_a_table_lacks_are_added_one_by_one() -> None:
    schema = Schema("shop", {}, {name: IndexSchema(name, ()) for name in ("by_email", "by_date")})
    busy = ClientError({"Error": {"Code": "ResourceInUseException"}}, "UpdateTable")
    answers = iter(
        [
            described("ACTIVE"),
            described("ACTIVE"),
            busy,  # another program changes the table
            described("ACTIVE"),
            {},
            described("UPDATING", by_email="CREATING"),
            described("ACTIVE", by_email="ACTIVE"),
            {},
            described("ACTIVE", by_email="ACTIVE", by_date="ACTIVE"),
        ]
    )

    def answer(call: Call, _number: int) -> Any:
        found = {"Items": []} if call.operation == "scan" else next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    service = Service(answer)
    run(DynamoDB().connect(schema).steps(CreateTables()), service)
    assert next(answers, None) is None
    updates = [call for call in service.calls if call.operation == "update_table"]
    created = [call.kwargs["GlobalSecondaryIndexUpdates"][0]["Create"]["IndexName"] for call in updates]
    assert created == ["by_email", "by_email", "by_date"]
    assert updates[0] == Call(
        "update_table",
        {
            "TableName": "shop",
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "by_emailpk", "by_emailsk")
            ],
            "GlobalSecondaryIndexUpdates": [
                {
                    "Create": {
                        "IndexName": "by_email",
                        "KeySchema": [
                            {"AttributeName": "by_emailpk", "KeyType": "HASH"},
                            {"AttributeName": "by_emailsk", "KeyType": "RANGE"},
                        ],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                }
            ],
        },
    )


def test_a_delete_reports_whether_the_item_existed() -> None:
    steps = DynamoDB().connect(SHOP).steps(Delete(KEY))
    assert run(steps, lambda _native: {"Attributes": NATIVE_KEY}) == Written()
    steps = DynamoDB().connect(SHOP).steps(Delete(KEY))
    assert run(steps, lambda _native: {}) == Written(existed=False)


def test_unused_arguments_are_left_out() -> None:
    assert list(first(Update(KEY, (Remove(Path(("a",))),))).kwargs) == [
        "TableName",
        "Key",
        "UpdateExpression",
        "ExpressionAttributeNames",
    ]


LOCAL = Schema("local", {}, {"by_who": IndexSchema("by_who", ()), "by_total": IndexSchema("by_total", (), local=True)})


def test_a_local_index_has_the_partition_key_of_the_table() -> None:
    created = create_table(layout_of(LOCAL))
    assert [one["AttributeName"] for one in created["AttributeDefinitions"]] == [
        "pk",
        "sk",
        "by_whopk",
        "by_whosk",
        "by_totalsk",
    ]
    assert [index["IndexName"] for index in created["GlobalSecondaryIndexes"]] == ["by_who"]
    assert created["LocalSecondaryIndexes"] == [
        {
            "IndexName": "by_total",
            "KeySchema": [
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "by_totalsk", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ]
    entry = Key(KEY.partition, "TOTAL#5")
    put = first(Put(KEY, {}, {"by_total": entry}), LOCAL).kwargs
    assert put["Item"] == {**NATIVE_KEY, "by_totalsk": {"S": "TOTAL#5"}}
    update = first(Update(KEY, (), {"by_total": entry}), LOCAL).kwargs
    assert update["UpdateExpression"] == "SET #0 = :0"
    assert update["ExpressionAttributeNames"] == {"#0": "by_totalsk"}
    gone = first(Update(KEY, (), {"by_total": None}), LOCAL).kwargs
    assert gone["UpdateExpression"] == "REMOVE #0"


def test_a_local_index_can_be_read_consistently() -> None:
    for index, consistent in (("by_total", True), ("by_who", False)):
        assert first(Query("C#1", index=index), LOCAL).kwargs.get("ConsistentRead", False) is consistent
    assert "ConsistentRead" not in first(Query("C#1", index="by_total", consistent=False), LOCAL).kwargs


def test_a_local_index_cannot_be_added_to_a_table() -> None:
    service = Service(
        lambda call, _number: described("ACTIVE") if call.operation == "describe_table" else {"Items": []}
    )
    with pytest.raises(BackendError, match=r"'local' exists without the local index 'by_total'.*remove local=True"):
        run(DynamoDB().connect(LOCAL).steps(CreateTables()), service)
    assert "update_table" not in [call.operation for call in service.calls]


def merged(*actions: Any, fail: Callable[[Call], bool] = lambda call: False) -> tuple[list[Call], Any]:
    """The native requests of a merge, and its answer; those that ``fail`` have a path without a parent."""
    sent: list[Call] = []

    def send(call: Any) -> Any:
        sent.append(call)
        if fail(call):
            message = "The document path provided in the update expression is invalid for update"
            raise ClientError({"Error": {"Code": "ValidationException", "Message": message}}, "UpdateItem")
        return {}

    request = Merge(KEY, actions, {"_t": "Day", "meter": "1"}, tag="Day")
    return sent, run(DynamoDB().connect(SHOP).steps(request), send)


def test_a_merge_creates_its_dict_with_whole_attributes_only_if_there_is_none() -> None:
    member, whole = Set(Path(("readings", "a")), 1), Set(Path(("note",)), "n")
    sent, answer = merged(member, whole)
    assert (len(sent), answer) == (1, Written())
    assert not sent[0].once
    failures = iter((True, False, False))
    sent, answer = merged(member, whole, fail=lambda _: next(failures))
    assert (sent[0], answer) == (sent[2], Written())
    assert sent[1].kwargs["UpdateExpression"] == (
        "SET #0 = if_not_exists(#0, :0), #1 = if_not_exists(#1, :1), #2 = :2, #3 = if_not_exists(#3, :3)"
    )
    assert sent[1].kwargs["ExpressionAttributeNames"]["#3"] == "readings"
    with pytest.raises(BadValue, match="set the parent of the path first"):
        merged(member, fail=lambda _: True)


def test_merges_that_exceed_an_expression_are_divided() -> None:
    members = [Set(Path(("readings", str(n))), n) for n in range(700)]
    adds, discards = AddTo(Path(("flags",)), frozenset({"a"})), DiscardFrom(Path(("flags",)), frozenset({"b"}))
    sent, answer = merged(*members, adds, discards, Set(Path(("note",)), "n"))
    assert answer == Written()
    texts = [call.kwargs["UpdateExpression"] for call in sent]
    assert max(map(len, texts)) <= TEXT_BYTES
    names = [name for call in sent for name in call.kwargs["ExpressionAttributeNames"].values()]
    assert [name for name in names if name.isdigit()] == [str(n) for n in range(700)]
    assert "note" in sent[0].kwargs["ExpressionAttributeNames"].values()
    assert [text.count("ADD") for text in texts] == [1] + [0] * (len(texts) - 1)
    assert ["DELETE" in text for text in texts] == [False] * (len(texts) - 1) + [True]


def test_a_merge_adds_to_a_sum_once() -> None:
    member, adds = Set(Path(("readings", "a")), 1), Increment(Path(("views",)), 3)
    sent, answer = merged(member, adds)
    assert ([call.once for call in sent], answer) == ([True], Written())
    failures = iter((True, False, False))
    sent, answer = merged(member, adds, fail=lambda _: next(failures))
    assert ([call.once for call in sent], answer) == ([True, False, True], Written())
    starts = sent[1].kwargs["UpdateExpression"]
    assert starts.count("if_not_exists") == 4, "the tag, the key, the dict and the sum, which readers may need"
    assert "ADD" not in starts


def test_the_aggregates_of_a_divided_merge_are_in_the_last_request() -> None:
    members = [Set(Path(("readings", str(n))), n) for n in range(700)]
    discards = AddTo(Path(("flags",)), frozenset({"a"})), DiscardFrom(Path(("flags",)), frozenset({"a"}))
    sent, _ = merged(Increment(Path(("views",)), 3), AddValue(Path(("best",)), 5, "max"), *members, *discards)
    names = [{*call.kwargs["ExpressionAttributeNames"].values()} for call in sent]
    assert len(sent) > 2
    assert [{"views", "best"} & some for some in names] == [set()] * (len(sent) - 1) + [{"views", "best"}]
    assert [call.once for call in sent] == [False] * (len(sent) - 1) + [True]
    with pytest.raises(BadValue):
        merged(*(Increment(Path((f"{n}" * 20,)), 1) for n in range(300)))


def test_a_merge_gives_up_while_others_change_what_it_adds_to(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def refuse(native: Any) -> Any:
        sent.append(native)
        if isinstance(native, Sleep):
            return native.wait()
        error: Any = {"Error": {"Code": "ConditionalCheckFailedException", "Message": "no"}}
        raise ClientError(error | {"Item": {"_t": {"S": "Day"}, "best": {"N": str(len(sent))}}}, "UpdateItem")

    request = Merge(KEY, (AddValue(Path(("best",)), 5, "max"),), {"_t": "Day", "meter": "1"}, tag="Day")
    monkeypatch.setattr(contention, "LONGEST_SECONDS", 0.05)
    with pytest.raises(Conflict, match=r"other writers before each of \d+ attempts in 0\.\d seconds"):
        run(DynamoDB().connect(SHOP).steps(request), refuse)
    assert [type(one) for one in sent[:5]] == [Call, Call, Sleep, Call, Sleep]  # the first one learns what is stored


@pytest.mark.parametrize(
    ("action", "most"),
    [
        (Set(Path(("note",)), "n"), 1),
        (Increment(Path(("views",)), 3), 1),
        (Set(Path(("readings", "a")), 1), 3),
        (AddValue(Path(("best",)), 5, "max"), None),
    ],
    ids=str,
)
def test_how_many_requests_a_merge_takes_at_most(action: Any, most: int | None) -> None:
    request = Merge(KEY, (action,), {"_t": "Day", "meter": "1"}, tag="Day")
    assert DynamoDB().connect(SHOP).rehearse(request).most == most
