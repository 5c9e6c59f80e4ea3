"""The differences between models, options and a table in the format of DescribeTable."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from odm.backends.dynamodb import DynamoDB, Provisioned
from odm.backends.dynamodb.client.native import Call
from odm.backends.dynamodb.client.native import TableOptions as Options
from odm.backends.dynamodb.items.layout import Layout, create_table
from odm.backends.dynamodb.tables import apply, differences, expiry_difference
from odm.errors import BackendError, BadValue
from odm.protocol.admin import TableChange
from odm.protocol.connection import run
from odm.protocol.requests import Sleep
from odm.schema.model import IndexSchema, Schema
from tests.backends.dynamodb.conftest import described

INDEXES = {"by_email": ("by_emailpk", "by_emailsk"), "by_date": ("by_datepk", "by_datesk")}
FIVE = Provisioned(5, 5)


def shop(options: Options | None = None, *names: str, has_ttl: bool = False) -> Layout:
    return Layout(
        "shop",
        ("pk", "sk"),
        {name: INDEXES[name] for name in names},
        has_ttl=has_ttl,
        options=options or Options(),
    )


def there(read: int = 0, stream: str | None = None, **indexes: str) -> dict[str, Any]:
    """The description of a table, on-demand or with these read units, for the table and each index."""
    table: dict[str, Any] = described("ACTIVE", **indexes)["Table"]
    for part in (table, *table.get("GlobalSecondaryIndexes", ())):
        part["ProvisionedThroughput"] = {"ReadCapacityUnits": read, "WriteCapacityUnits": read}
    if stream is not None:
        table["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": stream}
    return table


def said(layout: Layout, table: dict[str, Any] | None) -> list[str]:
    return [str(change) for change in differences(layout, table)]


def arguments(layout: Layout, table: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the only request that is planned."""
    (change,) = differences(layout, table)
    assert change.call is not None
    assert change.call.operation == "update_table"
    assert change.call.kwargs["TableName"] == "shop"
    return {name: value for name, value in change.call.kwargs.items() if name != "TableName"}


def units(read: int, write: int) -> dict[str, int]:
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def test_a_table_that_matches_the_models_has_no_differences() -> None:
    assert said(shop(None, "by_email"), there(by_email="ACTIVE")) == []
    assert said(shop(None), there(stream="NEW_IMAGE", read=7)) == []  # settings without an option are not compared
    assert said(shop(Options(FIVE, "keys_only"), "by_email"), there(5, "KEYS_ONLY", by_email="ACTIVE")) == []


def test_a_missing_table_is_created_with_its_options() -> None:
    options = Options(Provisioned(5, 4, indexes={"by_date": Provisioned(3, 2)}), "new_and_old_images")
    layout = shop(options, "by_email", "by_date")
    assert str(differences(layout, None)[0]) == (
        "create    table 'shop': key pk and sk; 5 read and 4 write units; indexes by_email, by_date; "
        "stream of new_and_old_images"
    )
    made = create_table(layout)
    assert differences(layout, None)[0].call == Call("create_table", made)
    assert made["BillingMode"] == "PROVISIONED"
    assert made["ProvisionedThroughput"] == units(5, 4)
    assert [index["ProvisionedThroughput"] for index in made["GlobalSecondaryIndexes"]] == [units(5, 4), units(3, 2)]
    assert made["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


def test_local_indexes_have_no_capacity_of_their_own() -> None:
    layout = Layout("shop", ("pk", "sk"), {"near": ("pk", "nearsk")}, local=frozenset({"near"}), options=Options(FIVE))
    (index,) = create_table(layout)["LocalSecondaryIndexes"]
    assert "ProvisionedThroughput" not in index


def test_indexes_are_added_one_by_one_and_unused_ones_are_reported() -> None:
    changes = differences(shop(None, "by_email", "by_date"), there(old="ACTIVE"))
    assert [(change.kind, change.what) for change in changes] == [
        ("add", "index 'by_email'"),
        ("add", "index 'by_date'"),
        ("extra", "index 'old'"),
    ]
    assert changes[2].call == Call(
        "update_table", {"TableName": "shop", "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "old"}}]}
    )


def test_an_unused_local_index_cannot_be_removed() -> None:
    table = there()
    table["LocalSecondaryIndexes"] = [{"IndexName": "near", "KeySchema": []}]
    (change,) = differences(shop(), table)
    assert (change.kind, change.what, change.call) == ("extra", "index 'near'", None)


def test_an_index_needs_key_attributes_of_type_string() -> None:
    table = there(old="ACTIVE")
    table["AttributeDefinitions"].append({"AttributeName": "by_datesk", "AttributeType": "N"})
    refused, *others = said(shop(None, "by_date"), table)
    assert refused == (
        "refused   index 'by_date': index 'by_date' of table 'shop' needs the key attributes by_datepk (S), "
        "by_datesk (S), and by_datesk is of type N in another index: choose other attributes in "
        "Table(..., index_keys=...)"
    )
    assert [line.split()[0] for line in others] == ["add", "extra"]


def test_only_a_local_index_with_another_key_is_refused() -> None:
    table = there()
    keys = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "by_datesk", "KeyType": "RANGE"}]
    table["LocalSecondaryIndexes"] = [{"IndexName": "by_date", "KeySchema": keys}]
    table["AttributeDefinitions"].append({"AttributeName": "by_datesk", "AttributeType": "S"})
    assert [change.kind for change in differences(shop(None, "by_date"), table)] == ["refused"]


@pytest.mark.parametrize(
    ("billing", "paid"),
    [
        (None, units(7, 7)),
        (FIVE, units(5, 5)),
        (Provisioned(5, 5, indexes={"by_email": Provisioned(9, 1)}), units(9, 1)),
    ],
)
def test_an_index_of_a_provisioned_table_gets_a_capacity(billing: Provisioned | None, paid: dict[str, int]) -> None:
    add = differences(shop(Options(billing), "by_email"), there(7))[-1]
    assert add.call is not None
    assert add.call.kwargs["GlobalSecondaryIndexUpdates"][0]["Create"]["ProvisionedThroughput"] == paid


def test_billing_changes_the_table_with_its_indexes() -> None:
    on_demand, paid = there(by_email="ACTIVE", old="ACTIVE"), there(7, by_email="ACTIVE", old="ACTIVE")
    layout = shop(Options(Provisioned(5, 5, indexes={"by_email": Provisioned(9, 1)})), "by_email")
    billing = differences(layout, on_demand)[0]
    assert str(billing) == (
        "change    billing: on-demand → 5 read and 5 write units, "
        "index 'by_email' on-demand → 9 read and 1 write units, index 'old' on-demand → 5 read and 5 write units"
    )
    assert billing.call is not None
    assert billing.call.kwargs["BillingMode"] == "PROVISIONED"
    updates = billing.call.kwargs["GlobalSecondaryIndexUpdates"]
    assert [update["Update"]["IndexName"] for update in updates] == ["by_email", "old"]
    again = differences(layout, paid)[0]
    assert again.call is not None
    assert again.call.kwargs == {
        "TableName": "shop",
        "ProvisionedThroughput": units(5, 5),
        "GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "by_email", "ProvisionedThroughput": units(9, 1)}}],
    }


def test_billing_changes_only_what_differs() -> None:
    wanted = Options(Provisioned(7, 7, indexes={"by_email": Provisioned(9, 1)}))
    assert arguments(shop(wanted, "by_email"), there(7, by_email="ACTIVE")) == {
        "GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "by_email", "ProvisionedThroughput": units(9, 1)}}]
    }
    assert arguments(shop(Options("on-demand")), there(7)) == {"BillingMode": "PAY_PER_REQUEST"}
    assert said(shop(Options("on-demand")), there()) == []


def test_a_stream_is_enabled_and_is_disabled_before_it_changes() -> None:
    wanted = shop(Options(stream="new_image"))
    assert said(wanted, there()) == ["add       stream: new_image"]
    assert arguments(wanted, there()) == {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}}
    (change,) = differences(wanted, there(stream="KEYS_ONLY"))
    assert change.kind == "change"
    assert arguments(wanted, there(stream="KEYS_ONLY")) == {"StreamSpecification": {"StreamEnabled": False}}


def test_keys_that_differ_are_refused() -> None:
    changes = differences(Layout("shop", ("PK", "SK"), {"old": ("oldpk", "SK")}), there(old="ACTIVE"))
    assert [(change.kind, change.what, change.call) for change in changes] == [
        ("refused", "table 'shop'", None),
        ("refused", "index 'old'", None),
    ]
    assert "the models need PK (HASH, S), SK (RANGE, S): name its key attributes in Table(" in changes[0].text


def test_an_index_may_project_more_attributes_than_needed_but_not_fewer() -> None:
    def refused(asked: tuple[str, ...] | None, found: dict[str, Any]) -> bool:
        layout = Layout(
            "shop",
            ("pk", "sk"),
            {"by_email": INDEXES["by_email"]},
            projections={} if asked is None else {"by_email": asked},
        )
        table = there(by_email="ACTIVE")
        table["GlobalSecondaryIndexes"][0]["Projection"] = found
        changes = differences(layout, table)
        assert all((change.kind, change.what) == ("refused", "index 'by_email'") for change in changes)
        return bool(changes)

    everything, keys = {"ProjectionType": "ALL"}, {"ProjectionType": "KEYS_ONLY"}
    name = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["name", "_t"]}
    assert [refused(None, found) for found in (everything, keys, name)] == [False, True, True]
    assert [refused((), found) for found in (everything, keys, name)] == [False, False, False]
    assert [refused(("name",), found) for found in (everything, keys, name)] == [False, True, False]
    assert refused(("name", "age"), name)


def test_expiry() -> None:
    def found(status: str, attribute: str = "_ttl", *, has_ttl: bool = True) -> TableChange | None:
        return expiry_difference(shop(has_ttl=has_ttl), {"TimeToLiveStatus": status, "AttributeName": attribute})

    on = {"Enabled": True, "AttributeName": "_ttl"}
    add = TableChange(
        "add", "expiry", "by '_ttl'", Call("update_time_to_live", {"TableName": "shop", "TimeToLiveSpecification": on})
    )
    assert expiry_difference(shop(has_ttl=True), {}) == found("DISABLED") == add
    assert found("ENABLED") is found("ENABLING") is found("DISABLED", has_ttl=False) is None
    other = found("ENABLED", "expires")
    assert other is not None
    assert (other.kind, other.call) == ("refused", None)
    assert "is 'expires', and that of the models is '_ttl'" in other.text
    left = found("ENABLED", has_ttl=False)
    assert left is not None
    assert (left.kind, left.call) == ("extra", None)


def play(answers: list[Any], layout: Layout, *, drop: bool = False) -> tuple[list[str], list[str]]:
    """The operations that are sent, and the changes that are reported, on a service with these responses."""
    left, sent, told = iter(answers), [], []

    def answer(native: Call | Sleep) -> Any:
        if isinstance(native, Sleep):
            return None
        sent.append(native.operation)
        found = next(left)
        if isinstance(found, str):
            raise ClientError({"Error": {"Code": found}}, native.operation)
        return found if not found or "TimeToLiveDescription" in found else {"Table": found}

    run(apply(layout, drop=drop, tell=lambda change: told.append(change.what)), answer)
    assert next(left, None) is None
    return sent, told


def test_apply_continues_where_it_stopped() -> None:
    """The table exists, and the interrupted run has begun to create one index."""
    sent, told = play(
        [
            there(by_email="CREATING"),
            there(by_email="CREATING"),
            there(by_email="ACTIVE"),
            "LimitExceededException",  # another change is still in progress
            there(by_email="ACTIVE"),
            {},
            there(by_email="ACTIVE", by_date="CREATING"),
            there(by_email="ACTIVE", by_date="ACTIVE"),
            {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}},
            {},
        ],
        shop(None, "by_email", "by_date", has_ttl=True),
    )
    assert told == ["index 'by_date'", "expiry"]
    assert [operation for operation in sent if "describe" not in operation] == [
        *("update_table", "update_table", "update_time_to_live")
    ]


def test_apply_creates_what_is_missing_and_waits_for_deletions() -> None:
    missing = "ResourceNotFoundException"
    sent, told = play([missing, "ResourceInUseException", missing, there()], shop())  # another program was faster
    assert (sent[1], told) == ("create_table", ["table 'shop'"])
    going = [there(old="ACTIVE"), there(old="ACTIVE"), {}, there(old="DELETING"), there()]
    sent, told = play(going, shop(), drop=True)
    assert (sent.count("update_table"), told) == (1, ["index 'old'"])
    assert play([there(old="DELETING"), there(old="DELETING")], shop()) == (["describe_table"] * 2, [])


def test_apply_beside_another_program_that_makes_the_same_changes() -> None:
    """DynamoDB finds a change invalid that has just been made."""
    sent, _ = play(
        [
            there(),
            there(),
            "ValidationException",
            there(by_email="CREATING"),
            there(by_email="ACTIVE"),
            {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}},
            "ValidationException",
            {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "_ttl"}},
        ],
        shop(None, "by_email", has_ttl=True),
    )
    assert [operation for operation in sent if "describe" not in operation] == ["update_table", "update_time_to_live"]
    refused = [{"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}, "ValidationException"]
    with pytest.raises(ClientError):
        play([there(), there(), *refused * 4], shop(has_ttl=True))


def test_a_change_that_is_accepted_without_effect_is_given_up() -> None:
    answers = [there(), *([there(), {}] * 21)]
    with pytest.raises(BackendError, match=r"stream of table 'shop' is still absent after \d+ seconds: call it again"):
        play(answers, shop(Options(stream="keys_only")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"billing": "provisioned"}, "billing='provisioned': write 'on-demand' or Provisioned(read=5, write=5)"),
        ({"billing": 5}, "billing=5: write"),
        ({"stream": "NEW_IMAGE"}, "stream='NEW_IMAGE': write one of 'new_and_old_images', 'new_image'"),
        ({"stream": True}, "stream=True: write one of"),
    ],
)
def test_invalid_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadValue) as caught:
        DynamoDB(**options)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("units", [0, -1, 2.5, True, "5"])
def test_capacity_is_a_whole_number(units: Any) -> None:
    with pytest.raises(BadValue, match="the units per second, an int of 1 or more"):
        Provisioned(units, 5)
    with pytest.raises(BadValue, match="the units per second, an int of 1 or more"):
        Provisioned(5, write=units)


def test_capacity_is_for_existing_indexes() -> None:
    schema = Schema("shop", {}, {"by_email": IndexSchema("by_email", ()), "near": IndexSchema("near", (), local=True)})
    for index in ("by_mail", "near"):
        backend = DynamoDB(billing=Provisioned(5, 5, indexes={index: FIVE}))
        with pytest.raises(BadValue, match=rf"names '{index}', but the global indexes of table 'shop' are by_email; "):
            backend.connect(schema)
    with pytest.raises(BadValue, match=r"'by_email' is \(5, 5\): write Provisioned\("):
        Provisioned(5, 5, indexes={"by_email": (5, 5)})  # type: ignore[dict-item]
