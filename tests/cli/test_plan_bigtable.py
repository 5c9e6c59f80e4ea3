"""`odm plan` and `odm apply` on Bigtable: tables from nothing to a changed model, on the emulator."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from odm import MaxAge, MaxVersions, Store
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import Entry, MutateRow, ReadRows, SetCell
from odm.backends.bigtable.client.native_admin import (
    ColumnFamily,
    CreateTable,
    DeleteTable,
    GetTable,
    ListTables,
    ModifyFamilies,
)
from odm.backends.bigtable.rows.items import ItemRows
from odm.cli.target import load_target
from odm.schema.model import Schema
from tests.backends.bigtable.families import kept
from tests.cli.conftest import Application, Done, Run
from tests.cli.test_plan import GAMES, SEVERAL

WITH_STATUS = ("    by_date", '    by_status = AccessPattern("STATUS#{status}")\n    by_date')
EMAIL_MOVED = ('"EMAIL#{email}"', '"MAIL#{email}"')
LATER = "stored items enter it when they are written again"
KEPT = (
    "odm reads only the newest value, and leaves the family alone; odm apply --drop sets maxversions=1, and Bigtable "
    "then deletes all older values, including those of other programs"
)
AGED = "Bigtable deletes the values that odm stores here by their age; odm apply --drop sets maxversions=1"
KEY_MOVED = ('"CUSTOMER#{customer_id}", "PROFILE"', '"C#{customer_id}", "PROFILE"')


@pytest.fixture
def prefix() -> str:
    """Each test has tables of its own."""
    return f"{uuid.uuid4().hex[:12]}-"


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator)


@pytest.fixture
def cloud(run: Run, bigtable_emulator: str, prefix: str) -> Run:
    """Run a command on the emulator."""

    def run_it(command: str, *more: str) -> Done:
        options = ("--backend", "bigtable", "--project", "project", "--instance", "instance")
        place = ("--endpoint", bigtable_emulator, "--prefix", prefix)
        done: Done = run(command, "shop:shop", *options, *place, *more)
        return done

    return run_it


@pytest.fixture
def fill(backend: Bigtable, prefix: str) -> Callable[[], None]:
    """Put two customers with the models as they are."""

    def put() -> None:
        found = load_target("shop:shop")
        customer: Any = found.schema.entities["Customer"].cls
        with Store(found.table, backend, prefix=prefix) as db:
            for number in range(2):
                db.put(customer(customer_id=f"c{number}", email=f"c{number}@example.com"))

    return put


@pytest.fixture
def send(backend: Bigtable) -> Callable[[Any], Any]:
    """Makes a native request."""
    return backend.connect(Schema(name="any", entities={}, indexes={})).call


@pytest.fixture
def there(send: Callable[[Any], Any], prefix: str) -> Callable[[], set[str]]:
    """The names of this test's tables."""
    return lambda: {name.removeprefix(prefix) for name in send(ListTables("any")).names if name.startswith(prefix)}


def test_an_index_whose_keys_are_fields_needs_a_backfill_here(
    cloud: Run, run: Run, application: Application, backend: Bigtable, prefix: str
) -> None:
    """Bigtable has no key attributes, so that only odm writes entries; without a sample, the lock file says so."""
    application.write(GAMES.replace("INDEX", ""))
    assert run("lock", "shop:shop").code == cloud("apply", "--yes").code == 0
    found = load_target("shop:shop")
    game: Any = found.schema.entities["Game"].cls
    with Store(found.table, backend, prefix=prefix) as db:
        db.put(game(id="g1", tenant="t", region="eu", day=7))
    application.write(GAMES.replace("INDEX", SEVERAL[0]).replace("# PATTERN", SEVERAL[1]))
    for sample in ("0", "100"):
        planned = cloud("plan", "--sample", sample)
        assert "backfill  Game.by: new pattern (index by): stored items are not in it" in planned.out


def test_the_life_of_a_table(
    cloud: Run, application: Application, prefix: str, fill: Callable[[], None], there: Callable[[], set[str]]
) -> None:
    planned = cloud("plan")
    create = (
        f"create    table '{prefix}shop': families d and c\n"
        f"add       index 'by_email': table '{prefix}shop.by_email'\n"
        f"add       index 'by_date': table '{prefix}shop.by_date'\n"
    )
    assert (planned.code, planned.out) == (1, create)
    assert planned.line == (
        f"odm: table {prefix}shop does not match the models: 3 changes; "
        "odm apply with the same options makes the changes\n"
    )
    made = cloud("apply", "--yes")
    assert (made.code, made.out) == (0, f"{create}table {prefix}shop matches the models\n")
    assert made.err == f"... create table '{prefix}shop'\n... add index 'by_email'\n... add index 'by_date'\n"
    assert there() == {"shop", "shop.by_email", "shop.by_date"}
    assert cloud("plan") == (0, f"table {prefix}shop matches the models\n", "")
    fill()
    assert cloud("plan").out == f"table {prefix}shop matches the models, and so do the keys of 2 items\n"

    application.change(WITH_STATUS)
    added = cloud("plan")
    assert (added.code, added.out) == (
        1,
        f"add       index 'by_status': table '{prefix}shop.by_status'; {LATER}\n",
    )
    assert cloud("apply", "--yes").err == "... add index 'by_status'\n"
    assert cloud("plan").code == 0

    application.change(tuple(reversed(WITH_STATUS)))  # type: ignore[arg-type]
    left = cloud("plan")
    assert (left.code, left.out.splitlines()[0]) == (
        0,
        f"extra     index 'by_status': no model has it; table '{prefix}shop.by_status' takes space",
    )
    assert cloud("plan", "--drop").code == 1
    assert cloud("apply", "--yes", "--drop").err == "... remove index 'by_status'\n"
    assert "by_status" not in cloud("plan").out
    assert there() == {"shop", "shop.by_email", "shop.by_date"}


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
    assert "orphans   Customer.primary: stored key CUSTOMER#c0 | PROFILE → C#c0 | PROFILE" in refused.out
    assert "orphans   Customer.by_email: stored entry" in refused.out
    assert "2 of 2 items read have an entry in index 'by_email'" in refused.out
    assert ('orphans   Customer.by_email: template "EMAIL#{email}" → "MAIL#{email}"' in refused.out) is locked
    orphans = 4 if locked else 2
    backfill = ", 1 needs a backfill" * locked
    assert refused.line == (
        f"odm: table {prefix}shop is unchanged: 1 change, {orphans} orphan stored data{backfill}; "
        "to make the changes anyway, add --accept\n"
    )
    accepted = cloud("apply", "--yes", "--accept")
    assert (accepted.code, accepted.err) == (0, "... add index 'by_status'\n")


def test_entries_that_lack_are_named_until_they_are_written(
    cloud: Run, application: Application, fill: Callable[[], None], prefix: str
) -> None:
    by_email = ("    by_email", "    # by_email")
    application.change(by_email)
    cloud("apply", "--yes")
    fill()
    application.change((by_email[1], by_email[0]))
    again = cloud("apply", "--yes")
    assert again.code == 0
    assert again.out.endswith(f"table {prefix}shop matches the models, but its items do not: 1 needs a backfill\n")
    planned = cloud("plan")
    assert planned.code == 1
    assert planned.out.startswith("backfill  Customer.by_email: lacking entry (")
    assert "2 of 2 items read are not in index 'by_email'" in planned.out
    fill()
    assert cloud("plan").code == 0


def test_options_of_the_table_are_planned_and_applied(cloud: Run, prefix: str, send: Callable[[Any], Any]) -> None:
    protect = ("--deletion-protection", "--automated-backups", "7", "--stream", "3", "--initial-split", "ORDER#5")
    parts = "deletion protection, a change stream of 3 days, daily backups that are kept for 7 days, split at 'ORDER#5'"
    planned = cloud("plan", *protect).out.splitlines()
    assert planned[0] == f"create    table '{prefix}shop': families d and c, {parts}"
    cloud("apply", "--yes", "--deletion-protection")
    assert cloud("plan", "--deletion-protection").code == 0
    changed = cloud("plan", "--no-deletion-protection").out.splitlines()
    assert changed[0] == f"change    deletion protection of table '{prefix}shop': on → off"
    assert [line.rpartition(": ")[2] for line in changed] == ["on → off"] * 3
    assert cloud("apply", "--yes", "--no-deletion-protection").code == 0
    assert not send(GetTable(f"{prefix}shop")).settings.deletion_protection
    assert "--stream new_image: on Bigtable, write a number of days" in cloud("plan", "--stream", "new_image").err
    assert "a timedelta of 1 to 7 days" in cloud("plan", "--stream", "9").err


def test_a_family_that_keeps_more_is_left_alone_unless_that_is_asked_for(
    cloud: Run, prefix: str, send: Callable[[Any], Any]
) -> None:
    send(CreateTable(f"{prefix}shop", kept({"d": 3, "old": 1})))
    planned = cloud("plan")
    what = f"table '{prefix}shop'"
    assert planned.out.splitlines() == [
        f"add       index 'by_email': table '{prefix}shop.by_email'; {LATER}",
        f"add       index 'by_date': table '{prefix}shop.by_date'; {LATER}",
        f"extra     older values in family 'd' of {what}: maxversions=3; {KEPT}",
        f"add       family 'c' of {what}: maxversions=1",
        f"extra     family 'old' of {what}: no model has it; it is left alone",
    ]
    assert cloud("apply", "--yes").code == 0
    found = kept({"c": 1, "d": 1, "old": 1})
    assert send(GetTable(f"{prefix}shop")).families == {**found, **kept({"d": 3})}
    assert cloud("plan").code == 0
    assert cloud("plan", "--drop").code == 1
    dropped = cloud("apply", "--yes", "--drop")
    assert (dropped.code, dropped.err) == (0, f"... remove older values in family 'd' of {what}\n")
    assert send(GetTable(f"{prefix}shop")).families == found
    assert cloud("plan").out == f"{planned.out.splitlines()[-1]}\ntable {prefix}shop matches the models\n"


def test_a_family_that_deletes_by_age_is_a_problem(
    cloud: Run, prefix: str, send: Callable[[Any], Any], fill: Callable[[], None]
) -> None:
    cloud("apply", "--yes")
    send(ModifyFamilies(f"{prefix}shop", update={"d": ColumnFamily(MaxAge(days=1))}))
    found = send(GetTable(f"{prefix}shop")).families
    what = f"family 'd' of table '{prefix}shop'"
    planned = cloud("plan")
    assert planned.out == f"problem   {what}: maxage=1d: {AGED}\n"
    assert (planned.code, planned.line) == (
        1,
        f"odm: table {prefix}shop does not match the models: 1 problem; fix the problems\n",
    )
    applied = cloud("apply", "--yes")
    assert (applied.code, applied.err) == (0, "")
    assert applied.out.endswith(f"table {prefix}shop matches the models, but problems remain: 1 problem\n")
    fill()  # which creates nothing and changes nothing
    assert send(GetTable(f"{prefix}shop")).families == found
    dropped = cloud("apply", "--yes", "--drop")
    assert (dropped.code, dropped.err) == (0, f"... change {what}\n")
    assert send(GetTable(f"{prefix}shop")).families["d"] == ColumnFamily()
    assert cloud("plan").code == 0


def stating(rule: str) -> tuple[tuple[str, str], ...]:
    """The change of the models to one that states a rule for the orders."""
    return (
        ("class Order(Entity, table=shop)", f'class Order(Entity, table=shop, family="orders", gc={rule})'),
        ("import AccessPattern", "import MaxAge, MaxVersions, AccessPattern"),
    )


def test_rules_that_models_state_are_applied_and_compared_by_what_they_say(
    cloud: Run, application: Application, prefix: str, send: Callable[[Any], Any]
) -> None:
    def found() -> object:
        return send(GetTable(f"{prefix}shop")).families["orders"].gc

    day, hour = "MaxAge(days=1) | MaxVersions(5)", "MaxAge(hours=1)"
    application.change(*stating(day))
    assert cloud("apply", "--yes").out.startswith(
        f"create    table '{prefix}shop': families d, c and orders (maxage=1d || maxversions=5)\n"
    )
    assert found() == MaxAge(days=1) | MaxVersions(5)
    application.change((day, "MaxVersions(5) | MaxAge(hours=24)"))
    assert cloud("plan") == (0, f"table {prefix}shop matches the models\n", "")

    application.change(("MaxVersions(5) | MaxAge(hours=24)", hour))
    what = f"family 'orders' of table '{prefix}shop'"
    text = "Bigtable then deletes values that it keeps now; odm apply --drop sets it"
    problem = f"problem   {what}: (maxage=1d || maxversions=5); the models state maxage=1h: {text}\n"
    assert (planned := cloud("plan")).out == problem
    assert planned.code == 1
    assert cloud("apply", "--yes").code == 0
    assert found() == MaxAge(days=1) | MaxVersions(5)
    assert cloud("apply", "--yes", "--drop").err == f"... change {what}\n"
    assert found() == MaxAge(hours=1)

    application.change((hour, day.replace("|", "&")))
    change = "maxage=1h; the models state (maxage=1d && maxversions=5), which deletes nothing that is kept now"
    assert cloud("plan").out == f"change    {what}: {change}\n"
    assert cloud("apply", "--yes").err == f"... change {what}\n"
    assert found() == MaxAge(days=1) & MaxVersions(5)


def test_a_family_of_other_programs_with_a_cell_of_the_models_is_left_alone(
    cloud: Run, application: Application, prefix: str, send: Callable[[Any], Any]
) -> None:
    cell = ("    email: str", '    email: Annotated[str, Cell("MD:MAIL")]')
    application.change(cell, ("import AccessPattern", "import Cell, AccessPattern"), ("import Literal", "import *"))
    send(CreateTable(f"{prefix}shop", {**kept({"d": 1, "c": 1}), "MD": ColumnFamily(MaxAge(days=1))}))
    cloud("apply", "--yes", "--drop")
    assert cloud("plan", "--drop") == (0, f"table {prefix}shop matches the models\n", "")
    assert send(GetTable(f"{prefix}shop")).families["MD"].gc == MaxAge(days=1)


def test_entries_whose_rows_are_missing_are_a_problem(
    cloud: Run, prefix: str, send: Callable[[Any], Any], fill: Callable[[], None]
) -> None:
    cloud("apply", "--yes")
    fill()
    send(DeleteTable(f"{prefix}shop.by_email"))
    text = "2 of 2 sampled items list entries in index 'by_email' whose rows are missing"
    assert f"problem   index 'by_email': {text}: run odm apply, then odm scrub --repair\n" in cloud("plan").out
    cloud("apply", "--yes")
    planned = cloud("plan")
    assert planned.code == 1
    assert planned.out == f"problem   index 'by_email': {text}: run odm scrub --repair\n"
    answer = json.loads(cloud("plan", "--json").out)
    assert (answer["ok"], answer["changes"][0]["kind"]) == (False, "problem")
    fill()
    assert cloud("plan").code == 1  # no write repairs them


def test_an_entry_that_a_writer_removes_meanwhile_is_no_problem(
    cloud: Run, prefix: str, backend: Bigtable, fill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud("apply", "--yes")
    fill()
    sample = ItemRows.sample

    def then_delete(*arguments: Any) -> Any:
        rows = yield from sample(*arguments)
        found = load_target("shop:shop")
        with Store(found.table, backend, prefix=prefix) as db:
            customer: Any = found.schema.entities["Customer"].cls
            db.delete(customer, customer_id="c1")
        return rows

    monkeypatch.setattr(ItemRows, "sample", then_delete)
    assert cloud("plan").code == 0


def test_rows_of_others_in_an_index_table_are_named_and_left_alone(
    cloud: Run, prefix: str, send: Callable[[Any], Any], fill: Callable[[], None]
) -> None:
    cloud("apply", "--yes")
    fill()
    send(MutateRow(f"{prefix}shop.by_email", Entry("AAPL", (SetCell("x", b"y", 1000, "i"),))))
    planned = cloud("plan")
    assert planned.code == 0
    text = "1 of 3 rows that were read were not written by odm, such as 'AAPL'; they are left alone"
    assert planned.out.startswith(f"extra     index 'by_email': {text}\n")
    assert cloud("apply", "--yes", "--drop").code == 0
    assert len(send(ReadRows(f"{prefix}shop.by_email", filter=Newest())).rows) == 3


def test_an_index_table_with_rows_of_others_is_not_removed(
    cloud: Run, prefix: str, send: Callable[[Any], Any], there: Callable[[], set[str]]
) -> None:
    cloud("apply", "--yes")
    send(CreateTable(f"{prefix}shop.by_day", kept({"i": 1})))
    send(MutateRow(f"{prefix}shop.by_day", Entry("a##b##c##d", (SetCell("x", b"c#d", 1000, "i"),))))
    send(MutateRow(f"{prefix}shop.by_day", Entry("note", (SetCell("x", b"y", 1000, "i"),))))
    refused = cloud("apply", "--yes", "--drop")
    assert refused.code == 1
    assert "row 'note' has cells that odm did not write" in refused.err
    assert "shop.by_day" in there()


def test_tables_that_only_look_like_indexes_are_left_alone(
    cloud: Run, prefix: str, send: Callable[[Any], Any], there: Callable[[], set[str]]
) -> None:
    cloud("apply", "--yes")
    others = {
        "shop.eu": {"d": 1, "c": 1},  # another table of odm, and its index
        "shop.eu.by_day": {"i": 1},
        "shop.stats": {"i": 1, "n": 1},
        "shop.notes": {"i": 1},
        "shops": {"i": 1},
        "shop-old": {"i": 1},
    }
    for name, families in others.items():
        send(CreateTable(f"{prefix}{name}", kept(families)))
    send(MutateRow(f"{prefix}shop.notes", Entry("a##b##c##d", (SetCell("x", b"c#e", 1000, "i"),))))
    send(CreateTable(f"{prefix}shop.by_day", kept({"i": 1})))
    send(MutateRow(f"{prefix}shop.by_day", Entry("a##b##c##d", (SetCell("x", b"c#d", 1000, "i"),))))
    send(CreateTable(f"{prefix}shop.by_hour", kept({"i": 1})))
    assert cloud("apply", "--yes", "--drop").err == "... remove index 'by_day'\n... remove index 'by_hour'\n"
    assert there() == {"shop", "shop.by_email", "shop.by_date", *others}


def test_a_table_that_holds_something_else_is_refused(cloud: Run, prefix: str, send: Callable[[Any], Any]) -> None:
    send(CreateTable(f"{prefix}shop", kept({"stats": 1})))
    for more in ((), ("--accept",)):
        refused = cloud("apply", "--yes", *more)
        assert refused.code == 1
        assert refused.out.startswith(f"refused   table '{prefix}shop': table '{prefix}shop' exists with the column")
        assert refused.line == f"odm: table {prefix}shop is unchanged: 2 changes, 1 refused\n"


def test_items_that_no_model_can_read_are_named_and_refuse_nothing(
    cloud: Run, fill: Callable[[], None], prefix: str, send: Callable[[Any], Any]
) -> None:
    cloud("apply", "--yes")
    fill()
    cells = {"x": (SetCell("_t", b"Ghost", 1000),), "y": (SetCell("_t", b"{", 1000),), "z": (SetCell("a", b"1", 1000),)}
    for key, mutations in cells.items():
        send(MutateRow(f"{prefix}shop", Entry(key, mutations)))
    planned = cloud("plan")
    assert planned.code == 1
    one, other = planned.out.splitlines()
    assert "unknown   items: unknown tag (x): 2 of 5 items read belong to no entity, because they have a tag" in one
    assert "unknown   items: no tag (z): 1 of 5 items read belong to no entity, because they have no tag" in other
    assert "2 kinds of items that no entity reads" in planned.line


def test_a_sample_has_rows_of_every_kind(cloud: Run, prefix: str, send: Callable[[Any], Any]) -> None:
    cloud("apply", "--yes")
    for kind in ("A", "Z"):
        for number in range(30):
            send(MutateRow(f"{prefix}shop", Entry(f"{kind}#{number:02}#x", (SetCell("_t", kind.encode(), 1000),))))
    customer = {"_t": "Customer", "customer_id": "c1", "email": "e"}
    cells = tuple(SetCell(name, value.encode(), 1000) for name, value in customer.items())
    send(MutateRow(f"{prefix}shop", Entry("CUSTOMER#c1#PROFILE", cells)))
    few = json.loads(cloud("plan", "--json", "--sample", "20").out)
    every = json.loads(cloud("plan", "--json").out)
    assert (few["items"], every["items"]) == (20, 61)
    assert [one["where"] for one in few["findings"]] == [one["where"] for one in every["findings"]]
    assert few["findings"][0]["effect"].startswith("1 of 1 items read are not in index 'by_email'")


def test_json(cloud: Run, prefix: str) -> None:
    answer = json.loads(cloud("plan", "--json").out)
    assert {name: answer[name] for name in ("table", "ok", "refused", "items", "findings")} == {
        "table": f"{prefix}shop",
        "ok": False,
        "refused": False,
        "items": None,
        "findings": [],
    }
    assert [change["kind"] for change in answer["changes"]] == ["create", "add", "add"]
    assert json.loads(cloud("apply", "--yes", "--json").out)["ok"]
    assert json.loads(cloud("plan", "--json").out)["ok"]


BIGTABLE = ("--backend", "bigtable")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (BIGTABLE, "--backend bigtable needs --project and --instance"),
        ((*BIGTABLE, "--project", "p"), "--backend bigtable needs --project and --instance"),
        ((*BIGTABLE, "--region", "eu-west-1"), "--region is an option of --backend dynamodb: leave it out"),
        ((*BIGTABLE, "--billing", "5,5"), "--billing is an option of --backend dynamodb: leave it out"),
        (("--backend", "dynamodb", "--app-profile", "a"), "--app-profile is an option of --backend bigtable: leave it"),
    ],
)
def test_a_command_line_that_can_not_be_run(arguments: tuple[str, ...], said: str, run: Run) -> None:
    done = run("plan", "shop:shop", *arguments)
    assert done.code == 2
    assert said in done.line


def test_the_environment_names_the_emulator(
    run: Run, bigtable_emulator: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    done = run("plan", "shop:shop", *BIGTABLE, "--project", "p", "--instance", "i", "--prefix", prefix)
    assert done.out.startswith("create ")


def test_an_index_that_was_dropped_and_comes_back_is_empty(
    cloud: Run, application: Application, fill: Callable[[], None], prefix: str
) -> None:
    cloud("apply", "--yes")
    fill()
    by_email = ("    by_email", "    # by_email")
    application.change(by_email)
    assert cloud("apply", "--yes", "--drop").err == "... remove index 'by_email'\n"
    application.change((by_email[1], by_email[0]))
    again = cloud("apply", "--yes")
    assert again.err == "... add index 'by_email'\n"
    assert "2 of 2 items read are not in index 'by_email'" in cloud("plan").out
    fill()
    assert cloud("plan").code == 0


def test_a_service_that_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odm.backends.bigtable.admin.commands.SECONDS", 0.1)
    done = run("plan", "shop:shop", *BIGTABLE, "--project", "p", "--instance", "i", "--endpoint", "127.0.0.1:1")
    assert done.code == 1
    assert done.line.startswith("odm: ListTables on Bigtable table 'shop': UNAVAILABLE, ")
    assert "check the network" in done.line


def test_apply_says_how_much_it_deletes_and_refuses_most_indexes(
    cloud: Run,
    application: Application,
    fill: Callable[[], None],
    there: Callable[[], set[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud("apply", "--yes")
    fill()
    application.change(("    by_email", "    # by_email"))
    monkeypatch.setattr("sys.stdin", None)
    asked = cloud("apply", "--drop")
    assert asked.code == 1
    assert "; 1 of which delete data: index 'by_email' (2 items)? [y/N] odm: table" in asked.err
    assert json.loads(cloud("plan", "--json").out)["changes"][0]["held"] == "2 items"
    application.change(("    by_date", "    # by_date"))
    refused = cloud("apply", "--drop", "--yes")
    assert refused.code == 1
    assert "--drop would delete 2 of its 2 indexes" in refused.line
    assert len(there()) == 3
    assert cloud("apply", "--drop", "--yes", "--remove-most").code == 0
    assert len(there()) == 1


MARKET = """
from typing import Annotated

from odm import Cell, Entity, PrimaryKey, Table

shop = Table("market", row_style="verbatim")


class Quote(Entity, table=shop):
    symbol: str
    ask: Annotated[str, Cell("MD:ASK", "text")]

    primary = PrimaryKey("Q#{symbol}")
"""


def test_columns_that_the_models_lack_are_named(
    application: Application, cloud: Run, prefix: str, send: Callable[[Any], Any]
) -> None:
    """A put keeps them, so the plan only names them; of very many, whose names are data, it names the family."""
    application.write(MARKET)
    send(CreateTable(f"{prefix}market", {family: ColumnFamily() for family in ("MD", "t")}))
    for at in range(3):
        cells = [SetCell("ASK", b"1", 1000, "MD"), SetCell(f"{at}\xe9", b"x", 1000, "MD")]
        cells += [SetCell(f"{at}{number}", b"7", 1000, "t") for number in range(30)]
        send(MutateRow(f"{prefix}market", Entry(f"Q#{at}", tuple(cells))))
    done = cloud("plan")
    lines = [line for line in done.out.splitlines() if "not in the model" in line]
    assert [line.split(": not")[0].split("Quote: ")[1] for line in lines] == ["MD:0é", "t:*", "MD:1é", "MD:2é"]
    assert "3 of 3 items read have it, such as Q#0; a put keeps it" in lines[1]
    assert done.code == 0
