"""`odm plan` and `odm apply`: a table in the cloud from nothing to a changed model, on moto and on DynamoDB Local."""

import io
import json
import shlex
import sys
import uuid
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from odm import Store
from odm.backends.dynamodb import DynamoDB
from odm.cli.target import load_target
from tests.cli.conftest import Application, Done, Run
from tests.readme import README, blocks

DOCS = README.parent / "docs"

WITH_STATUS = ("    by_date", '    by_status = AccessPattern("STATUS#{status}")\n    by_date')
EMAIL_MOVED = ('"EMAIL#{email}"', '"MAIL#{email}"')
KEY_MOVED = ('"CUSTOMER#{customer_id}", "PROFILE"', '"C#{customer_id}", "PROFILE"')
BY_STATUS = (
    "add       index 'by_status': key by_statuspk and by_statussk; "
    "stored items enter it when they have these attributes\n"
)


@pytest.fixture(params=["moto_server", "dynamodb_local"])
def address(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def prefix() -> str:
    """Each test has a table of its own."""
    return f"{uuid.uuid4()}-"


@pytest.fixture
def cloud(run: Run, address: str, prefix: str) -> Run:
    """Run a command on that service."""

    def run_it(command: str, *more: str) -> Done:
        options = ("--backend", "dynamodb", "--endpoint-url", address, "--prefix", prefix)
        done: Done = run(command, "shop:shop", *options, *more)
        return done

    return run_it


@pytest.fixture
def fill(address: str, prefix: str) -> Callable[[], None]:
    """Put two customers with the models as they are."""

    def put() -> None:
        found = load_target("shop:shop")
        customer: Any = found.schema.entities["Customer"].cls
        with Store(found.table, DynamoDB(endpoint_url=address), prefix=prefix) as db:
            for number in range(2):
                db.put(customer(customer_id=f"c{number}", email=f"c{number}@example.com"))

    return put


def test_the_life_of_a_table(
    cloud: Run, application: Application, prefix: str, fill: Callable[[], None], run: Run
) -> None:
    planned = cloud("plan")
    create = f"create    table '{prefix}shop': key pk and sk; on-demand; indexes by_email, by_date\n"
    assert (planned.code, planned.out) == (1, create)
    assert planned.line == (
        f"odm: table {prefix}shop does not match the models: 1 change; "
        "odm apply with the same options makes the changes\n"
    )
    made = cloud("apply", "--yes")
    assert (made.code, made.out) == (0, f"{create}table {prefix}shop matches the models\n")
    assert made.err == f"... create table '{prefix}shop'\n"
    assert cloud("plan") == (0, f"table {prefix}shop matches the models\n", "")
    fill()
    assert cloud("plan").out == f"table {prefix}shop matches the models, and so do the keys of 2 items\n"

    application.change(WITH_STATUS)
    added = cloud("plan")
    assert (added.code, added.out) == (1, BY_STATUS)
    assert cloud("apply", "--yes").err == "... add index 'by_status'\n"
    assert cloud("apply", "--yes") == (
        0,
        f"table {prefix}shop matches the models, and so do the keys of 2 items\n",
        "",
    )

    application.change(tuple(reversed(WITH_STATUS)))  # type: ignore[arg-type]
    left = cloud("plan")
    assert (left.code, left.out.splitlines()[0]) == (
        0,
        "extra     index 'by_status': no model uses it; it costs write capacity and storage",
    )
    assert cloud("plan", "--drop").code == 1
    assert cloud("apply", "--yes", "--drop").err == "... remove index 'by_status'\n"
    assert "by_status" not in cloud("plan").out


@pytest.mark.parametrize("locked", [True, False])
def test_a_key_that_changed_under_data_is_refused(
    locked: bool, cloud: Run, application: Application, prefix: str, fill: Callable[[], None], run: Run
) -> None:
    cloud("apply", "--yes")
    if locked:
        run("lock", "shop:shop")
    fill()
    application.change(EMAIL_MOVED, KEY_MOVED, WITH_STATUS)
    planned, refused = cloud("plan"), cloud("apply", "--yes")
    assert planned.out == refused.out
    assert planned.code == refused.code == 1
    assert "orphans   Customer.primary: stored key" in refused.out
    assert "orphans   Customer.by_email: stored entry" in refused.out
    assert "2 of 2 items read have an entry in index 'by_email'" in refused.out
    assert f"odm backfill shop:shop Customer.by_email 'dynamodb:?prefix={prefix}&endpoint_url=" in refused.out
    assert ('orphans   Customer.by_email: template "EMAIL#{email}" → "MAIL#{email}"' in refused.out) is locked
    orphans = 4 if locked else 2
    backfill = ", 1 needs a backfill" * locked
    assert refused.line == (
        f"odm: table {prefix}shop is unchanged: 1 change, {orphans} orphan stored data{backfill}; "
        "to make the changes anyway, add --accept\n"
    )
    assert planned.line.endswith(f"{orphans} orphan stored data{backfill}; fix the stored items first\n")
    left = f"table {prefix}shop matches the models, but its items do not: {orphans} orphan stored data{backfill}\n"
    for err in ("... add index 'by_status'\n", ""):  # the second time the table has nothing to change
        accepted = cloud("apply", "--yes", "--accept")
        assert (accepted.code, accepted.err) == (0, err)
        assert accepted.out.endswith(left)


def test_a_lock_of_other_keys_refuses_nothing_where_there_is_no_data(
    cloud: Run, application: Application, run: Run
) -> None:
    run("lock", "shop:shop")
    application.change(EMAIL_MOVED)
    assert cloud("plan").out.startswith("create ")
    assert cloud("apply", "--yes").code == 0
    assert cloud("plan").code == 0
    assert "orphans   Customer.by_email: template" in cloud("plan", "--sample", "0").out


def test_entries_that_lack_are_named_until_they_are_written(
    run: Run, cloud: Run, application: Application, fill: Callable[[], None], prefix: str
) -> None:
    by_email = ("    by_email", "    # by_email")
    application.change(by_email)
    cloud("apply", "--yes")
    fill()
    application.change((by_email[1], by_email[0]))
    applied = cloud("apply", "--yes")
    assert applied.code == 0
    again = cloud("apply", "--yes")
    assert again.out.endswith(f"table {prefix}shop matches the models, but its items do not: 1 needs a backfill\n")
    planned = cloud("plan")
    assert planned.code == 1
    assert planned.out.startswith("backfill  Customer.by_email: lacking entry (")
    assert "2 of 2 items read are not in index 'by_email'" in planned.out
    assert planned.line.endswith("does not match the models: 1 needs a backfill; backfill the items\n")
    command = shlex.split(planned.out.rstrip().rpartition("; odm ")[2])
    assert command[:3] == ["backfill", "shop:shop", "Customer.by_email"]
    assert run(*command).out == "Customer.by_email: 2 items read, 2 written, 0 right already\n"
    assert cloud("plan").code == 0


def test_a_pattern_that_the_lock_has_as_not_backfilled_is_named(
    cloud: Run, run: Run, application: Application, fill: Callable[[], None]
) -> None:
    cloud("apply", "--yes")
    fill()
    run("lock", "shop:shop")
    application.change(WITH_STATUS)
    run("lock", "shop:shop")
    cloud("apply", "--yes")
    planned = cloud("plan")
    assert planned.code == 1
    assert "backfill  Order.by_status: not backfilled: stored items may be missing from" in planned.out
    assert "odm backfill shop:shop Order.by_status 'dynamodb:?prefix=" in planned.out


def test_it_prints_what_the_page_shows(cloud: Run, application: Application, address: str, prefix: str) -> None:
    [shown] = [block.text for block in blocks(DOCS / "operate.md") if block.text.startswith("$ odm plan")]
    shop = next(block.text for block in blocks(DOCS / "model.md") if block.language == "python")
    application.write(shop.split("\nbackend = ")[0])
    renamed = ("    by_date =", "    by_day =")
    application.change(renamed)
    cloud("apply", "--yes")
    found = load_target("shop:shop")
    order: Any = found.schema.entities["Order"].cls
    with Store(found.table, DynamoDB(endpoint_url=address), prefix=prefix) as db, db.batch() as batch:
        for number in range(1, 58):
            batch.put(order(customer_id="c1", order_id=f"o{number}", placed_at="2026-01-05T00:00:00Z", total=1))
    application.change((renamed[1], renamed[0]))
    planned = cloud("plan")
    printed = (planned.out + planned.err).replace(prefix, "").splitlines()
    for said, line in zip(shown.splitlines()[1:], printed, strict=True):
        assert line.startswith(said.removesuffix("...")) if said.endswith("...") else line == said


def test_items_that_no_model_can_read_are_named_and_refuse_nothing(
    cloud: Run, application: Application, fill: Callable[[], None], prefix: str
) -> None:
    cloud("apply", "--yes")
    fill()
    application.change(("    email: str", "    email: str\n    age: int"))
    planned = cloud("plan")
    assert planned.code == 1
    said = "unknown   Customer: unreadable (CUSTOMER#c"
    assert planned.out.startswith(said)
    assert "2 of 2 items read cannot be read" in planned.out
    assert planned.line == (
        f"odm: table {prefix}shop does not match the models: 1 kind of items that no entity reads; "
        "declare the entities of these items, or fix them\n"
    )
    applied = cloud("apply", "--yes")
    assert applied.code == 0
    assert applied.out.endswith("but its items do not: 1 kind of items that no entity reads\n")


def test_items_of_other_programs_are_counted(cloud: Run, fill: Callable[[], None], prefix: str, address: str) -> None:
    cloud("apply", "--yes")
    fill()
    stand_in: dict[str, Any] = {
        "region_name": "us-east-1",
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
    }
    dynamodb: Any = boto3.client("dynamodb", endpoint_url=address, **stand_in)
    for pk, more in (("USER#1", {}), ("USER#2", {}), ("USER#3", {"_t": {"S": "User"}})):
        dynamodb.put_item(TableName=f"{prefix}shop", Item={"pk": {"S": pk}, "sk": {"S": pk}, **more})
    planned = cloud("plan")
    assert planned.code == 1
    without, other = sorted(planned.out.splitlines())
    assert without.startswith("unknown   items: no tag (USER#")
    assert "2 of 5 items read belong to no entity, because they have no tag" in without
    assert other.startswith("unknown   items: unknown tag (USER#3")
    assert "1 of 5 items read belong to no entity, because they have a tag that no entity has" in other
    assert "2 kinds of items that no entity reads" in planned.line


GAMES = """
from odm import AccessPattern, Entity, PrimaryKey, Table

shop = Table("shop", keys=("id",), INDEX key_style="verbatim", tag=None)


class Game(Entity, table=shop):
    id: str
    tenant: str
    region: str
    day: int | None = None

    primary = PrimaryKey("{id}")
    # PATTERN
"""
SEVERAL = (
    'index_keys={"by": (("tenant", "region"), ("day",))},',
    'by = AccessPattern("{tenant}#{region}", "{day}", index="by")',
)
ONE = ('index_keys={"by": ("tenant", "day")},', 'by = AccessPattern("{tenant}", "{day}", index="by")')


@pytest.mark.parametrize("declared", [SEVERAL, ONE], ids=["several attributes", "one attribute"])
def test_an_index_of_attributes_that_other_programs_wrote_needs_no_backfill(
    declared: tuple[str, str], run: Run, application: Application, moto_server: str, prefix: str
) -> None:
    """DynamoDB fills it from the stored items, whichever program wrote them."""
    options = ("--backend", "dynamodb", "--endpoint-url", moto_server, "--prefix", prefix)
    application.write(GAMES.replace("INDEX", ""))
    assert run("lock", "shop:shop").code == run("apply", "shop:shop", *options, "--yes").code == 0
    stand_in: dict[str, Any] = {"region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    dynamodb: Any = boto3.client("dynamodb", endpoint_url=moto_server, **stand_in)
    item = {"id": {"S": "g1"}, "tenant": {"S": "t"}, "region": {"S": "eu"}, "day": {"N": "7"}}
    dynamodb.put_item(TableName=f"{prefix}shop", Item=item)
    application.write(GAMES.replace("INDEX", declared[0]).replace("# PATTERN", declared[1]))
    checked = run("check", "shop:shop")
    assert checked.code == 1
    assert checked.out.startswith("safe      Game.by: new pattern (index by): its key attributes are fields")
    assert "elsewhere create() the index, then odm backfill shop:shop Game.by PLACE" in checked.out
    planned = run("plan", "shop:shop", *options)
    assert planned.out.startswith("add       index 'by'")
    assert "backfill" not in planned.out + planned.err
    assert run("apply", "shop:shop", *options, "--yes").code == 0
    assert run("plan", "shop:shop", *options).code == 0
    found = load_target("shop:shop")
    game: Any = found.schema.entities["Game"].cls
    with Store(found.table, DynamoDB(endpoint_url=moto_server), prefix=prefix) as db:
        query = game.by(tenant="t", region="eu") if declared is SEVERAL else game.by(tenant="t")
        assert [one.id for one in db.query(query)] == ["g1"]
        done = db.backfill(game.by)
        assert (done.seen, done.written) == (1, 0)


def test_a_table_with_another_key_is_refused(cloud: Run, application: Application, prefix: str) -> None:
    cloud("apply", "--yes")
    application.change(('Table("shop")', 'Table("shop", keys=("PK", "SK"))'))
    for more in ((), ("--accept",)):
        refused = cloud("apply", "--yes", *more)
        assert refused.code == 1
        assert refused.out.startswith(
            f"refused   table '{prefix}shop': table '{prefix}shop' exists with the key pk (HASH"
        )
        assert refused.line == f"odm: table {prefix}shop is unchanged: 1 refused\n"


def test_somebody_is_asked(cloud: Run, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    refused = cloud("apply")
    assert refused.code == 1
    assert refused.err.startswith(f"Make 1 change to table {prefix}shop? [y/N] ")
    assert refused.err.endswith("the changes were not confirmed; to skip the question, add --yes\n")
    assert cloud("plan").code == 1
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert cloud("apply").code == 0


def test_billing_and_streams(cloud: Run, prefix: str) -> None:
    cloud("apply", "--yes", "--billing", "5,4")
    assert cloud("plan").code == 0  # what is not named is left alone
    planned = cloud("plan", "--billing", "on-demand", "--stream", "keys_only")
    assert planned.out == "change    billing: 5 read and 4 write units → on-demand\nadd       stream: keys_only\n"
    cloud("apply", "--yes", "--billing", "on-demand", "--stream", "keys_only")
    assert cloud("plan", "--billing", "on-demand", "--stream", "keys_only").code == 0


def test_json(cloud: Run, prefix: str) -> None:
    planned = cloud("plan", "--json")
    assert planned.code == 1
    answer = json.loads(planned.out)
    assert {name: answer[name] for name in ("table", "ok", "refused", "items", "findings")} == {
        "table": f"{prefix}shop",
        "ok": False,
        "refused": False,
        "items": None,
        "findings": [],
    }
    assert [(change["kind"], change["what"]) for change in answer["changes"]] == [("create", f"table '{prefix}shop'")]
    assert json.loads(cloud("apply", "--yes", "--json").out)["ok"]
    assert json.loads(cloud("plan", "--json").out)["ok"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--backend", "dynamodb", "--billing", "5"), "--billing 5: write on-demand, or read and write units"),
        (("--backend", "dynamodb", "--billing", "0,5"), "Provisioned(read=0): pass the units per second"),
        (("--backend", "dynamodb", "--stream", "all"), "stream='all': write one of 'new_and_old_images'"),
        ((), "Missing option '--backend'"),
    ],
)
def test_a_command_line_that_can_not_be_run(arguments: tuple[str, ...], said: str, run: Run) -> None:
    done = run("plan", "shop:shop", *arguments)
    assert done.code == 2
    assert said in done.line


def test_a_service_that_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    done = run("plan", "shop:shop", "--backend", "dynamodb", "--endpoint-url", "http://127.0.0.1:1")
    assert done.code == 1
    assert done.line.startswith("odm: Scan on table 'shop': check the network, region and endpoint_url")


SHOP_OF_OTHERS = """
from typing import Annotated

from odm import AccessPattern, Entity, PrimaryKey, Stored, Table

shop = Table(
    "shop", keys=("PK",), index_keys={"G": ("G",)}, key_style="verbatim", tag=None, keep_unknown=False
)


class Product(Entity, table=shop):
    id: str
    price: int
    city: Annotated[str | None, Stored("city")] = None
    stars: int = 0

    primary = PrimaryKey("P/{id}")
    by_city = AccessPattern("CITY/{city}", index="G")
"""


def test_a_plan_lists_what_a_put_would_change(
    run: Run, application: Application, moto_server: str, prefix: str
) -> None:
    options = ("--backend", "dynamodb", "--endpoint-url", moto_server, "--prefix", prefix)
    application.write(SHOP_OF_OTHERS)
    assert run("apply", "shop:shop", *options, "--yes").code == 0
    stand_in: dict[str, Any] = {"region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    dynamodb: Any = boto3.client("dynamodb", endpoint_url=moto_server, **stand_in)

    def put(**attributes: Any) -> None:
        dynamodb.put_item(TableName=f"{prefix}shop", Item=attributes)

    put(PK={"S": "P/1"}, price={"N": "100"}, stars={"N": "1"}, city={"S": "Rome"}, G={"S": "CITY/Rome"})
    done = run("plan", "shop:shop", *options)
    assert (done.code, done.out) == (0, f"table {prefix}shop matches the models, and so do the keys of 1 items\n")
    put(PK={"S": "P/2"}, price={"N": "100"}, stars={"N": "1"}, vendor={"S": "acme"})
    put(PK={"S": "P/3"}, price={"N": "5"}, city={"S": "Rome"}, vendor={"S": "bolt"})
    put(PK={"S": "P/4"}, price={"S": "100"}, stars={"N": "1"})
    done = run("plan", "shop:shop", *options)
    assert done.code == 1
    for line in (
        "rewrites  Product: vendor: not in the model ({'S': 'acme'}): 2 of 3 items read have it, such as P/2; a put ",
        "; a put drops it, because Product does not have it; declare a field for it, or Table(keep_unknown=True)",
        "rewrites  Product: stars: not stored ({'N': '0'}): 1 of 3 items read lack it, such as P/3; a put adds it; ",
        "rewrites  Product: G: not stored ({'S': 'CITY/Rome'}): 1 of 3 items read lack it, such as P/3; a put adds it",
        "unknown   Product: unreadable",
        "price is stored as text (S), '100'",
        'declare it with Stored(format="text")',
        "rewrites  Product.by_city: lacking entry",
    ):
        assert line in done.out
    assert "backfill" not in done.out + done.err
    found = json.loads(run("plan", "shop:shop", *options, "--json").out)["findings"]
    assert [one["level"] for one in found].count("rewrites") == 4

    application.write(SHOP_OF_OTHERS.replace("keep_unknown=False", "keep_unknown=True"))
    done = run("plan", "shop:shop", *options)
    assert "safe      Product: vendor: not in the model" in done.out
    assert "a put keeps it" in done.out


def test_a_plan_that_only_names_what_a_put_keeps_has_nothing_to_do(
    run: Run, application: Application, moto_server: str, prefix: str
) -> None:
    options = ("--backend", "dynamodb", "--endpoint-url", moto_server, "--prefix", prefix)
    application.write(SHOP_OF_OTHERS.replace("keep_unknown=False", "keep_unknown=True"))
    assert run("lock", "shop:shop").code == run("apply", "shop:shop", *options, "--yes").code == 0
    stand_in: dict[str, Any] = {"region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    dynamodb: Any = boto3.client("dynamodb", endpoint_url=moto_server, **stand_in)
    item = {"PK": {"S": "P/1"}, "price": {"N": "1.0"}, "stars": {"N": "1"}, "vendor": {"S": "acme"}}
    dynamodb.put_item(TableName=f"{prefix}shop", Item=item)
    done = run("plan", "shop:shop", *options)
    assert done.code == 0
    assert "safe      Product: vendor: not in the model" in done.out
    application.write(SHOP_OF_OTHERS.replace("CITY/{city}", "TOWN/{city}"))
    done = run("plan", "shop:shop", *options)
    assert done.code == 1
    assert "backfill" not in done.out + done.err
