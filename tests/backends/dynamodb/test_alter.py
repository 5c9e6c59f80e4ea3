"""`alter`: settings of an existing table, changed one at a time; on real services and on canned answers."""

import uuid
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from odm import BackendError, BadValue, Entity, PrimaryKey, Store, Table, TableNotFound
from odm.backends.dynamodb import DynamoDB, Provisioned, TableOptions
from odm.backends.dynamodb.client.native import Call
from odm.backends.dynamodb.items.layout import Layout, create_table
from odm.backends.dynamodb.tables import alter, names
from odm.protocol.connection import run
from odm.protocol.requests import Sleep

IA = TableOptions(Provisioned(1, 1), table_class="standard_infrequent_access")
LAYOUT = Layout("shop", ("pk", "sk"), {})
SESSION = boto3.Session(aws_access_key_id="alter", aws_secret_access_key="secret", region_name="eu-west-1")


class Fake:
    """A table that answers as DynamoDB; each change is visible at once, and in progress for a DescribeTable."""

    def __init__(self, *errors: str, ignores: bool = False) -> None:
        keys = [("pk", "HASH"), ("sk", "RANGE")]
        self.table: dict[str, Any] | None = {
            "TableStatus": "ACTIVE",
            "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        }
        self.errors, self.ignores = [*errors], ignores
        self.sent: list[Call] = []
        self.made_by_another: dict[str, Any] = {}

    def __call__(self, native: Call | Sleep) -> Any:
        if isinstance(native, Sleep):
            return None
        if native.operation == "describe_table":
            if self.table is None:
                raise failure("ResourceNotFoundException")
            answer = dict(self.table)
            self.table["TableStatus"] = "ACTIVE"
            return {"Table": answer}
        self.sent.append(native)
        if self.errors and (error := self.errors.pop(0)):
            if error == "ResourceNotFoundException":
                self.table = None
            elif self.table is not None:
                self.table |= self.made_by_another
            raise failure(error)
        if not self.ignores and self.table is not None:
            self.table["TableStatus"] = "UPDATING"
            given = dict(native.kwargs)
            if "TableClass" in given:
                self.table["TableClassSummary"] = {"TableClass": given["TableClass"]}
            if "ProvisionedThroughput" in given:
                self.table |= {"BillingModeSummary": {}, "ProvisionedThroughput": given["ProvisionedThroughput"]}
        return {}


def failure(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "UpdateTable")


def test_one_change_at_a_time() -> None:
    fake = Fake()
    wanted = ("billing: on-demand → 1 read and 1 write units", "table class: standard → standard_infrequent_access")
    assert run(alter(LAYOUT, IA, dry_run=True), fake) == wanted
    assert fake.sent == []
    assert run(alter(LAYOUT, IA, dry_run=False), fake) == wanted
    assert [call.kwargs for call in fake.sent] == [
        {
            "TableName": "shop",
            "BillingMode": "PROVISIONED",
            "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
        },
        {"TableName": "shop", "TableClass": "STANDARD_INFREQUENT_ACCESS"},
    ]
    assert run(alter(LAYOUT, IA, dry_run=False), fake) == ()
    assert len(fake.sent) == 2
    back = TableOptions(table_class="standard")
    assert run(alter(LAYOUT, back, dry_run=False), fake) == ("table class: standard_infrequent_access → standard",)


@pytest.mark.parametrize("errors", [["ResourceInUseException"], ["", "LimitExceededException"]])
def test_while_another_program_changes_it(errors: list[str]) -> None:
    fake = Fake(*errors)
    assert len(run(alter(LAYOUT, IA, dry_run=False), fake)) == 2
    assert len(fake.sent) == 3


def test_that_another_program_makes() -> None:
    """DynamoDB finds a change invalid that has just been made."""
    fake = Fake("ValidationException")
    fake.made_by_another = {
        "BillingModeSummary": {},
        "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
    }
    made = run(alter(LAYOUT, IA, dry_run=False), fake)
    assert made == ("table class: standard → standard_infrequent_access",)
    assert len(fake.sent) == 2


def test_an_invalid_change_is_an_error() -> None:
    fake = Fake(*["ValidationException"] * 9)
    with pytest.raises(ClientError, match="ValidationException"):
        run(alter(LAYOUT, IA, dry_run=False), fake)
    assert len(fake.sent) == 4


@pytest.mark.parametrize("errors", [["ResourceNotFoundException"], ["", "ResourceNotFoundException"]])
def test_that_another_program_drops(errors: list[str]) -> None:
    assert len(run(alter(LAYOUT, IA, dry_run=False), Fake(*errors))) == len(errors) - 1


def test_stopped_anywhere_is_finished_by_the_next() -> None:
    stop, ended = 0, False
    while not ended:
        fake, steps = Fake(), alter(LAYOUT, IA, dry_run=False)
        try:
            native = next(steps)
            for _ in range(stop):
                native = steps.send(fake(native))
        except StopIteration:
            ended = True
        steps.close()
        run(alter(LAYOUT, IA, dry_run=False), fake)
        assert fake.table is not None
        assert fake.table["TableClassSummary"] == {"TableClass": "STANDARD_INFREQUENT_ACCESS"}
        assert fake.table["ProvisionedThroughput"] == {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
        stop += 1
    assert stop > 6


def test_a_service_that_ignores_a_change() -> None:
    with pytest.raises(BackendError, match="changes of its settings have no effect yet"):
        run(alter(LAYOUT, IA, dry_run=False), Fake(ignores=True))


def test_what_is_refused() -> None:
    with pytest.raises(BadValue, match="'old' is not TableOptions"):
        run(alter(LAYOUT, "old", dry_run=True), Fake())
    wrong = TableOptions(Provisioned(1, 1, indexes={"by_x": Provisioned(1, 1)}))
    with pytest.raises(BadValue, match="names 'by_x'"):
        run(alter(LAYOUT, wrong, dry_run=True), Fake())
    with pytest.raises(BackendError, match="exists with the key"):
        run(alter(Layout("shop", ("a", "b"), {}), IA, dry_run=True), Fake())
    with pytest.raises(BadValue, match="table_class='cold': write one of 'standard', 'standard_infrequent_access'"):
        TableOptions(table_class="cold")  # type: ignore[arg-type]


def test_a_new_table_has_its_class() -> None:
    made = create_table(Layout("shop", ("pk", "sk"), {}, options=IA))
    assert made["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
    assert "TableClass" not in create_table(LAYOUT)


def test_names_are_read_to_the_end() -> None:
    pages = [{"TableNames": ["a-1", "b-1"], "LastEvaluatedTableName": "b-1"}, {"TableNames": ["a-2"]}]
    sent: list[Any] = []

    def answer(native: Any) -> Any:
        sent.append(native.kwargs)
        return pages[len(sent) - 1]

    assert run(names("a-"), answer) == ("a-1", "a-2")
    assert sent == [{}, {"ExclusiveStartTableName": "b-1"}]


@pytest.mark.parametrize("place", ["endpoint", "dynamodb_local"])
@pytest.mark.parametrize("transport", ["lean", "vendor"])
def test_on_services(place: str, transport: Any, request: pytest.FixtureRequest) -> None:
    address, table = request.getfixturevalue(place), Table("altered")

    class Item(Entity, table=table):
        name: str

        primary = PrimaryKey("ITEM#{name}", "ITEM")

    prefix = f"{uuid.uuid4().hex}-"
    with Store(table, DynamoDB(SESSION, endpoint_url=address, transport=transport), prefix=prefix) as db:
        assert db.alter(IA) == []
        with pytest.raises(TableNotFound):
            db.get(Item, name="a")
        db.create()
        assert db.list_tables(prefix) == [db.name]
        assert len(db.alter(IA, dry_run=True)) == 2
        paid = TableOptions(Provisioned(1, 1))
        assert db.alter(paid) == ["billing: on-demand → 1 read and 1 write units"]
        assert db.alter(paid) == []
        described = SESSION.client("dynamodb", endpoint_url=address).describe_table(TableName=db.name)["Table"]
        assert described["ProvisionedThroughput"]["WriteCapacityUnits"] == 1
        db.drop()
