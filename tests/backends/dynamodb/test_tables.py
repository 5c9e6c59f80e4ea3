"""Tables that are created and changed on real services: what `create()` adds, and what `odm apply` changes."""

import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

import boto3
import pytest

from odm import (
    TTL,
    AccessPattern,
    Entity,
    ItemInvalid,
    PrimaryKey,
    Shards,
    Store,
    Table,
    TransactionFailed,
    field,
    set_,
)
from odm.backends.dynamodb import DynamoDB, Provisioned
from odm.backends.dynamodb.admin import Admin
from odm.errors import BackendError
from odm.protocol.admin import Survey
from odm.protocol.connection import perform
from odm.protocol.requests import Scan
from odm.schema.model import Schema
from odm.testing.suite.helpers import fill
from tests.shop import Session, sessions

pytestmark = pytest.mark.one_of(2)

SESSION = boto3.Session(aws_access_key_id="tables", aws_secret_access_key="secret", region_name="eu-west-1")


@pytest.fixture(params=["moto", "dynamodb_local"])
def address(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue("endpoint" if request.param == "moto" else request.param)
    return found


@pytest.fixture
def client(address: str) -> Any:
    return SESSION.client("dynamodb", endpoint_url=address)


def models(name: str, *, mail: str = "EMAIL#{email}", index: str = "by_email", key: str = "USER#{user}") -> Table:
    """A table of users with three indexes: one of all users, one with random shards, one of active users."""
    table = Table(name)

    class User(Entity, table=table):
        user: str
        email: str | None = None
        active: bool = True
        until: Annotated[datetime | None, TTL] = None

        primary = PrimaryKey(key, "PROFILE")
        by_email = AccessPattern(mail, index=index)
        spread = AccessPattern("USERS", "{user}", shards=Shards(4))
        actives = AccessPattern("ACTIVE", "{user}", when=field("active") == True)  # noqa: E712

    return table


def survey(backend: DynamoDB, table: Table, sample: int = 100) -> Survey:
    return Admin(backend, table.compile()).survey(sample)


def applied(backend: DynamoDB, table: Table, *, drop: bool = False) -> list[str]:
    told: list[str] = []
    Admin(backend, table.compile()).apply(drop=drop, tell=lambda change: told.append(f"{change.kind} {change.what}"))
    return told


def indexes(client: Any, name: str) -> dict[str, Any]:
    table = client.describe_table(TableName=name)["Table"]
    return {index["IndexName"]: index for index in table.get("GlobalSecondaryIndexes", ())}


def new_name() -> str:
    return f"t-{uuid.uuid4()}"


def test_a_table_is_created_with_its_options_and_create_is_idempotent(address: str, client: Any) -> None:
    table = models(new_name())
    billing = Provisioned(5, 4, indexes={"spread": Provisioned(3, 2)})
    backend = DynamoDB(SESSION, endpoint_url=address, billing=billing, stream="new_and_old_images")
    assert [change.kind for change in survey(backend, table).changes] == ["create", "add"]
    with Store(table, backend) as db:
        db.create()
        db.create()
    found = client.describe_table(TableName=table.name)["Table"]
    assert found["ProvisionedThroughput"]["WriteCapacityUnits"] == 4
    assert indexes(client, table.name)["spread"]["ProvisionedThroughput"]["WriteCapacityUnits"] == 2
    assert indexes(client, table.name)["by_email"]["ProvisionedThroughput"]["WriteCapacityUnits"] == 4
    assert found["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert survey(backend, table) == Survey((), (), 0)
    assert applied(backend, table) == []


def test_create_only_adds_and_apply_changes_the_rest(address: str, client: Any) -> None:
    name = new_name()
    with Store(models(name), DynamoDB(SESSION, endpoint_url=address, billing=Provisioned(5, 4))) as db:
        db.create()
    table = models(name, index="by_mail")
    backend = DynamoDB(SESSION, endpoint_url=address, billing="on-demand", stream="keys_only")
    before = survey(backend, table).changes
    assert [(change.kind, change.what) for change in before] == [
        ("change", "billing"),
        ("add", "stream"),
        ("add", "index 'by_mail'"),
        ("extra", "index 'by_email'"),
    ]
    with Store(table, backend) as db:
        db.create()
    assert [(change.kind, change.what) for change in survey(backend, table).changes] == [
        ("change", "billing"),
        ("extra", "index 'by_email'"),
    ]
    assert indexes(client, name)["by_mail"]["ProvisionedThroughput"]["WriteCapacityUnits"] == 4
    assert applied(backend, table) == ["change billing"]
    assert applied(backend, table) == []
    assert applied(backend, table, drop=True) == ["extra index 'by_email'"]
    assert survey(backend, table).changes == ()
    assert set(indexes(client, name)) == {"by_mail", "spread", "actives"}


def test_apply_creates_a_missing_table(address: str) -> None:
    table, backend = models(new_name()), DynamoDB(SESSION, endpoint_url=address)
    assert applied(backend, table) == [f"create table {table.name!r}", "add expiry"]
    assert survey(backend, table).changes == ()


def test_a_stream_of_another_view_type_is_disabled_and_enabled(
    dynamodb_local: str,
) -> None:  # moto cannot enable it again
    table = models(new_name())
    with Store(table, DynamoDB(SESSION, endpoint_url=dynamodb_local, stream="keys_only")) as db:
        db.create()
    backend = DynamoDB(SESSION, endpoint_url=dynamodb_local, stream="new_image")
    assert applied(backend, table) == ["change stream"]
    client = SESSION.client("dynamodb", endpoint_url=dynamodb_local)
    found = client.describe_table(TableName=table.name)["Table"]["StreamSpecification"]
    assert found == {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}


@pytest.mark.full
def test_another_ttl_attribute_is_refused(address: str, client: Any) -> None:
    backend, name = DynamoDB(SESSION, endpoint_url=address), new_name()
    Store(Table(name), backend)
    keys = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
        KeySchema=keys,
        BillingMode="PAY_PER_REQUEST",
    )
    client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"})
    assert [change.what for change in survey(backend, models(name)).changes if change.kind == "refused"] == ["expiry"]
    with Store(models(name), backend) as db, pytest.raises(BackendError, match="is 'expires'"):
        db.create()


def test_stored_keys_are_compared_with_the_models(address: str) -> None:
    backend, name = DynamoDB(SESSION, endpoint_url=address), new_name()
    table = models(name)
    user: Any = next(iter(table.compile().by_class))
    with Store(table, backend) as db:
        db.create()
        for number in range(5):
            until = datetime(2999, 1, 1, tzinfo=UTC)
            db.put(user(user=f"u{number}", email=f"u{number}@example.com", until=until))
        db.put(user(user="nobody", active=False))
    seen = survey(backend, table)
    assert (seen.findings, seen.read) == ((), 6)
    assert survey(backend, table, 2).read == 2

    changed = survey(backend, models(name, mail="MAIL#{email}", key="U#{user}")).findings
    assert [(finding.level, finding.where, finding.change) for finding in changed] == [
        ("orphans", "User.primary", "stored key"),
        ("orphans", "User.by_email", "stored entry"),
    ]
    assert "USER#" in changed[0].was
    assert changed[0].effect.startswith("6 of 6 items read are stored under another key")
    assert "MAIL#u" in changed[1].now
    assert changed[1].effect.startswith("5 of 6 items read have an entry in index 'by_email'")
    assert changed[1].fix.startswith("odm backfill MODULE:TABLE User.by_email PLACE")

    moved = survey(backend, models(name, index="by_mail")).findings
    assert [(finding.level, finding.where) for finding in moved] == [("backfill", "User.by_email")]
    assert moved[0].effect.startswith("5 of 6 items read are not in index 'by_mail'")


def test_a_table_with_another_key_is_not_read(address: str) -> None:
    table, backend = models(new_name()), DynamoDB(SESSION, endpoint_url=address)
    with Store(table, backend) as db:
        db.create()
        user: Any = next(iter(table.compile().by_class))
        db.put(user(user="u"))
    connection = backend.connect(Schema(table.name, {}, {}, keys=("PK", "SK")))
    with pytest.raises(BackendError, match=r"no key attribute 'PK': the key attributes of table .* differ"):
        list(perform(connection, Scan()).positions)
    connection.close()
    seen = Admin(backend, Schema(table.name, {}, {}, keys=("PK", "SK"))).survey(100)
    assert [change.kind for change in seen.changes][:1] == ["refused"]
    assert seen.read is None


def test_an_existing_table_is_used_unchanged(address: str, client: Any) -> None:
    name = new_name()
    names = ("PK", "SK", "GSI1PK", "GSI1SK")
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in names],
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "GSI1",
                "KeySchema": [
                    {"AttributeName": "GSI1PK", "KeyType": "HASH"},
                    {"AttributeName": "GSI1SK", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    table = Table(name, keys=("PK", "SK"), index_keys={"GSI1": ("GSI1PK", "GSI1SK")})

    class Order(Entity, table=table):
        order: str
        customer: str
        primary = PrimaryKey("ORDER#{order}", "ORDER")
        by_customer = AccessPattern("CUSTOMER#{customer}", "ORDER#{order}", index="GSI1")

    backend = DynamoDB(SESSION, endpoint_url=address)
    assert survey(backend, table).changes == ()
    with Store(table, backend) as db:
        db.create()
        first, second = (db.put(Order(order=order, customer="ann")) for order in ("1", "2"))
        assert list(db.query(Order.by_customer(customer="ann"))) == [first, second]
        page = db.page(Order.by_customer(customer="ann"), size=1)
        assert db.page(Order.by_customer(customer="ann"), size=1, after=page.cursor).items == [second]
        db.update(first, set_(Order.customer, "bob"))
        assert list(db.query(Order.by_customer(customer="ann"))) == [second]
    stored = client.get_item(TableName=name, Key={"PK": {"S": "ORDER#1"}, "SK": {"S": "ORDER"}})["Item"]
    assert (stored["GSI1PK"], stored["GSI1SK"]) == ({"S": "CUSTOMER#bob"}, {"S": "ORDER#1"})
    assert survey(backend, table).findings == ()


def test_another_programs_items_are_neither_overwritten_nor_changed(address: str, client: Any) -> None:
    prefix = f"{new_name()}-"
    name = f"{prefix}sessions"
    ann, bob = Session(user="ann"), Session(user="bob")
    foreign = {"pk": {"S": "SESSIONS"}, "sk": {"S": "ann"}, "theirs": {"S": "x"}}
    with Store(sessions, DynamoDB(SESSION, endpoint_url=address), prefix=prefix) as db:
        db.create()
        client.put_item(TableName=name, Item=foreign)
        for write in (db.insert, db.put, db.delete):
            with pytest.raises(ItemInvalid, match="has no tag"):
                write(ann)
        with pytest.raises(TransactionFailed) as caught, db.transaction() as tx:
            tx.insert(ann)
        assert isinstance(caught.value.reasons[0], ItemInvalid)
        with pytest.raises(ItemInvalid, match="has no tag"):
            fill(db, [ann, bob])
        assert db.get(Session, user="bob") is None
        for upsert in (False, True):
            with pytest.raises(ItemInvalid, match="has no tag"):
                db.update(Session.primary(user="ann"), set_(Session.hits, 1), upsert=upsert)
        assert client.get_item(TableName=name, Key={key: foreign[key] for key in ("pk", "sk")})["Item"] == foreign


def lean(client: Any, name: str, projection: dict[str, Any], *, sort: str = "by_emailsk", kind: str = "S") -> None:
    """Create the table of `models` as another program might have: with one index."""
    attributes = {"pk": "S", "sk": "S", "by_emailpk": "S", sort: kind}
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in attributes.items()],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by_email",
                "KeySchema": [
                    {"AttributeName": "by_emailpk", "KeyType": "HASH"},
                    {"AttributeName": sort, "KeyType": "RANGE"},
                ],
                "Projection": projection,
            }
        ],
    )


@pytest.mark.parametrize(
    "projection",
    [
        {"ProjectionType": "KEYS_ONLY"},
        {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["_t", "user", "email"]},
        {"ProjectionType": "ALL"},
    ],
    ids=["keys", "some", "all"],
)
def test_an_index_that_holds_less_than_the_models_say_gives_whole_items(
    projection: dict[str, Any], address: str, client: Any
) -> None:
    table = models(f"t{uuid.uuid4().hex}")
    lean(client, table.name, projection)
    user: Any = next(iter(table.compile().by_class))
    with Store(table, DynamoDB(SESSION, endpoint_url=address)) as db:
        db.put(user(user="ann", email="a@b.c", active=False))
        found: list[Any] = list(db.query(user.by_email(email="a@b.c")))
        assert [one.active for one in found] == [False], "a default would be written back by the next put"
        assert list(db.query(user.by_email(email="a@b.c").where(user.active == False))) == found  # noqa: E712
        assert db.count(user.by_email(email="a@b.c").where(user.active == True)) == 0  # noqa: E712


@pytest.mark.parametrize(("sort", "kind"), [("created", "S"), ("by_emailsk", "N")])
def test_an_index_with_another_key_is_refused_at_every_query(sort: str, kind: str, address: str, client: Any) -> None:
    table = models(f"t{uuid.uuid4().hex}")
    lean(client, table.name, {"ProjectionType": "ALL"}, sort=sort, kind=kind)
    user: Any = next(iter(table.compile().by_class))
    with Store(table, DynamoDB(SESSION, endpoint_url=address)) as db:
        for _ in range(2):
            with pytest.raises(BackendError, match=rf"index 'by_email' of table .* {sort} \(RANGE, {kind}\)"):
                list(db.query(user.by_email(email="a@b.c")))


def test_a_table_with_a_number_sort_key_is_refused(address: str, client: Any) -> None:
    table = models(f"t{uuid.uuid4().hex}")
    client.create_table(
        TableName=table.name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "N"},
        ],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    client.put_item(TableName=table.name, Item={"pk": {"S": "USER#ann"}, "sk": {"N": "1"}, "_t": {"S": "User"}})
    user: Any = next(iter(table.compile().by_class))
    with Store(table, DynamoDB(SESSION, endpoint_url=address)) as db:
        with pytest.raises(BackendError, match="'sk' of a stored item is of type N"):
            list(db.scan(user))
        with pytest.raises(BackendError, match="'sk' of a stored item is of type N"):
            db.scan_page()
