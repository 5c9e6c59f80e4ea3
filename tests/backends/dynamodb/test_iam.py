"""The policies of docs/iam.md allow what each use of odm sends to DynamoDB, and no action that it does not send."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import pytest
from botocore.awsrequest import AWSPreparedRequest
from moto import mock_aws
from moto.core.botocore_stubber import BotocoreStubber

from odm import TTL, AccessPattern, Entity, ItemExists, PrimaryKey, Store, Table, TableNotFound, set_
from odm.backends.bigtable.client import admin_wire, native
from odm.backends.dynamodb import DynamoDB
from odm.extend import Calls, Gen, procedure
from odm.patterns.time_series import TimeSeries
from tests.cli.command_line import odm_here
from tests.readme import README, command

PAGE = README.parent / "docs" / "iam.md"
REGION = "eu-west-1"

shop = Table("shop")
readings = Table("readings")
AT = datetime(2026, 1, 5, tzinfo=UTC)
IN_TRANSACTION = {
    "Get": "GetItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}
"""The permission of each operation of a transaction: see AWS's page transaction-apis-iam."""

CHANGED = """
from odm import AccessPattern, Entity, PrimaryKey, Table, TTL

shop = Table("shop")


class Order(Entity, table=shop):
    customer: str
    number: int
    status: str = "open"

    primary = PrimaryKey("CUSTOMER#{customer}", "ORDER#{number}")
    by_status = AccessPattern("STATUS#{status}", "{number}")
    by_number = AccessPattern("NUMBERS", "{number}")
"""


class Order(Entity, table=shop):
    customer: str
    number: int
    status: str = "open"
    expires: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("CUSTOMER#{customer}", "ORDER#{number}")
    by_status = AccessPattern("STATUS#{status}", "{number}")


class Reading(Entity, table=readings):
    meter: str
    at: datetime

    primary = PrimaryKey("METER#{meter}", "{at}")


ORDER = Order(customer="c1", number=1)
KEY = Order.primary(customer="c1", number=1)


def read(db: Store, folder: Path) -> None:
    assert db.get(KEY) == db.get_many([KEY])[0] == db.get_many([KEY], atomic=True)[0]
    assert [*db.query(Order.by_status(status="open"))] == [*db.query(KEY)] == [*db.scan(Order)] == [ORDER]


def write(db: Store, folder: Path) -> None:
    with pytest.raises(ItemExists):
        db.insert(ORDER)
    db.put(ORDER)
    db.update(KEY, set_(Order.status, "shipped"))
    db.update(Order.primary(customer="c2", number=1), set_(Order.status, "open"), upsert=True)
    db.delete(Order.primary(customer="c2", number=1))
    with db.batch() as batch:
        batch.put(ORDER)
    db.delete_all(Order.primary(customer="c1"))
    db.backfill(Order.by_status)
    with db.transaction() as tx:
        tx.insert(ORDER)
    db.with_options(retry_safe=True).update(KEY, set_(Order.status, "shipped"))


def check(db: Store, folder: Path) -> None:
    with db.transaction() as tx:
        tx.check(KEY)


@procedure
def changes(do: Calls) -> Gen[int]:
    read = 0
    for shard in (yield from do.change_shards()):
        page = yield from do.changes(shard.id)
        read += len(page.items)
    return read


def feed(db: Store, folder: Path) -> None:
    assert db.run(changes()) == 1


def admin(db: Store, folder: Path) -> None:
    db.drop()
    db.create()
    (folder / "changed.py").write_text(CHANGED, encoding="utf-8")
    here = ("changed:shop", "--backend", "dynamodb", "--region", REGION)
    assert odm_here(folder, "plan", *here).returncode == 1
    assert odm_here(folder, "apply", *here, "--yes").returncode == 0


def series(db: Store, folder: Path) -> None:
    periods = TimeSeries(Reading, by="at", period="month").open(DynamoDB(region=REGION))
    with periods, pytest.raises(TableNotFound):  # as there is none; it has looked
        periods.first(Reading.primary(meter="m1"))


USES: dict[Callable[[Store, Path], None], list[str]] = {
    read: [],
    write: ["read"],
    check: [],
    feed: [],
    admin: [],
    series: [],
}
"""The uses, which are named like their policies, and the policies that they need as well."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, str]]]:
    """The actions that are asked of moto, with their resources."""
    seen: set[tuple[str, str]] = set()
    process = BotocoreStubber.process_request

    def noting(self: BotocoreStubber, request: AWSPreparedRequest) -> Any:
        seen.update(actions(request))
        return process(self, request)

    monkeypatch.setattr(BotocoreStubber, "process_request", noting)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    with mock_aws():
        yield seen


def actions(request: AWSPreparedRequest) -> Iterator[tuple[str, str]]:
    """The permissions that a request needs: pairs of an action and a resource."""
    target = request.headers["X-Amz-Target"]
    operation = (target if isinstance(target, str) else target.decode()).partition(".")[2]
    assert isinstance(request.body, (str, bytes))
    body: Any = json.loads(request.body)
    arn = f"arn:aws:dynamodb:{REGION}:123456789012:table/"
    for entry in body.get("TransactItems", ()):
        [[kind, given]] = entry.items()
        yield f"dynamodb:{IN_TRANSACTION[kind]}", arn + given["TableName"]
    for table in body.get("RequestItems", ()):
        yield f"dynamodb:{operation}", arn + table
    if "StreamArn" in body:
        yield f"dynamodb:{operation}", body["StreamArn"]
    elif operation == "GetRecords":
        yield f"dynamodb:{operation}", f"{arn}shop/stream/2026"
    elif operation == "ListTables":
        yield f"dynamodb:{operation}", "*"
    elif "TableName" in body:
        index = f"/index/{body['IndexName']}" if "IndexName" in body else ""
        yield f"dynamodb:{operation}", f"{arn}{body['TableName']}{index}"


def statements(*policies: str) -> list[tuple[set[str], list[str]]]:
    """The actions and the patterns of resources of each statement of policies of the page."""
    found = []
    for name in policies:
        policy = json.loads(command(name, "json", PAGE))
        for statement in policy["Statement"]:
            names, resources = (
                [one] if isinstance(one := statement[part], str) else one for part in ("Action", "Resource")
            )
            found.append((set(names), resources))
    return found


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_policy_allows_what_its_use_sends_and_no_other_action(
    use: Callable[[Store, Path], None], asked: set[tuple[str, str]], tmp_path: Path
) -> None:
    with Store(shop, DynamoDB(region=REGION, stream="new_and_old_images")) as db:
        db.create()
        db.put(ORDER)
    asked.clear()
    with Store(shop, DynamoDB(region=REGION)) as db:
        use(db, tmp_path)
    granted = statements(use.__name__, *USES[use])
    assert asked
    for action, resource in asked:
        assert any(
            action in allowed and any(fnmatchcase(resource, one) for one in resources) for allowed, resources in granted
        ), (action, resource)
    own = {action for allowed, _ in statements(use.__name__) for action in allowed}
    assert own <= {action for action, _ in asked}


def test_every_operation_of_the_backend_is_in_a_policy() -> None:
    """Also those that no use above sends: a new operation needs a line on the page."""
    source = "".join(
        path.read_text(encoding="utf-8") for path in Path(str(native.__file__)).parents[2].glob("dynamodb/**/*.py")
    )
    operations = {camel(name) for name in re.findall(r'\bCall\(\s*"(\w+)"', source)}
    assert "BatchGetItem" in operations
    named = {
        action.partition(":")[2] for allowed, _ in statements(*(use.__name__ for use in USES)) for action in allowed
    }
    assert operations - {"TransactGetItems", "TransactWriteItems"} <= named


def camel(method: str) -> str:
    return method.title().replace("_", "")


def test_the_methods_of_bigtable_are_those_that_odm_calls() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Bigtable")[1]
    named = {
        name
        for line in re.findall(r"^\| (`[A-Z].*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", line)
    }
    data = {one.__name__ for one in native._DataCall.__subclasses__()}  # pyright: ignore[reportPrivateUsage]
    source = Path(str(admin_wire.__file__)).read_text(encoding="utf-8")
    admin = {camel(name) for name in re.findall(r'AdminMessage\("(\w+)"', source)}
    assert named == data | admin
