"""Tables made and changed on the emulator: what `create()` adds, and what it leaves alone."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from odm import AccessPattern, AsyncStore, Entity, PrimaryKey, Store, Table
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.native import (
    CreateTable,
    DeleteTable,
    Families,
    GetTable,
    ListTables,
    ModifyFamilies,
    Read,
    Tables,
    Together,
)
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.tables import plan
from odm.errors import BackendError
from odm.operations.backend import run
from odm.operations.ir import CreateTables, DropTables
from odm.schema.model import Schema
from tests.backends.bigtable.playing import BUSY, google, play

ITEMS: Families = {"c": "maxversions=1", "d": "maxversions=1"}
ENTRIES: Families = {"i": "maxversions=1"}


def users(name: str, *indexes: str) -> Table:
    """A table of users, who are in these indexes by their name."""
    table = Table(name)

    class User(Entity, table=table):
        user: str

        primary = PrimaryKey("USER#{user}", "PROFILE")
        locals().update({index: AccessPattern(f"{index}#{{user}}") for index in indexes})

    return table


@pytest.fixture
def name() -> str:
    """Each test has tables of its own."""
    return f"t{uuid.uuid4().hex[:16]}"


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator)


@pytest.fixture
def send(backend: Bigtable) -> Callable[[Any], Any]:
    """Makes a native request."""
    return backend.connect(Schema(name="any", entities={}, indexes={})).call


@pytest.fixture
def there(send: Callable[[Any], Any]) -> Callable[[str], dict[str, Families]]:
    """The tables whose names begin so, with their families."""

    def look(name: str) -> dict[str, Families]:
        found = [one for one in send(ListTables("any")).names if one.startswith(name)]
        return {one.removeprefix(name): send(GetTable(one)) for one in sorted(found)}

    return look


Look = Callable[[str], dict[str, Families]]
Send = Callable[[Any], Any]


def test_a_table_is_made_with_one_for_each_index_and_made_again(name: str, backend: Bigtable, there: Look) -> None:
    with Store(users(name, "by_name", "by_day"), backend) as db:
        db.create()
        made = there(name)
        db.create()
    assert made == there(name) == {"": ITEMS, ".by_day": ENTRIES, ".by_name": ENTRIES}


async def test_they_are_made_in_an_event_loop(name: str, backend: Bigtable, there: Look) -> None:
    async with AsyncStore(users(name, "by_name"), backend) as db:
        await db.create()
        assert there(name) == {"": ITEMS, ".by_name": ENTRIES}
        await db.drop()
    assert there(name) == {}


def test_several_make_them_at_once(name: str, backend: Bigtable, there: Look) -> None:
    def make(number: int) -> None:
        with Store(users(name, "by_name", f"by_{number % 3}"), backend) as db:
            db.create()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(make, range(12)))
    assert there(name) == {"": ITEMS, **{f".{index}": ENTRIES for index in ("by_0", "by_1", "by_2", "by_name")}}


def test_an_index_that_a_model_got_later_is_added(name: str, backend: Bigtable, there: Look) -> None:
    for indexes in ((), ("by_name",), ("by_name", "by_day")):
        with Store(users(name, *indexes), backend) as db:
            db.create()
        assert set(there(name)) == {"", *(f".{index}" for index in indexes)}


@pytest.mark.parametrize("families", [{}, {"d": 1}, {"c": 1, "mine": 2}])
def test_a_family_that_lacks_is_added(
    families: dict[str, int], name: str, backend: Bigtable, send: Send, there: Look
) -> None:
    send(CreateTable(name, families))
    send(CreateTable(f"{name}.by_name", {}))
    with Store(users(name, "by_name"), backend) as db:
        db.create()
    others = {family: f"maxversions={versions}" for family, versions in families.items()}
    assert there(name) == {"": {**ITEMS, **others}, ".by_name": ENTRIES}


def test_a_family_with_another_rule_is_left_alone(name: str, backend: Bigtable, send: Send, there: Look) -> None:
    send(CreateTable(name, {"d": 3, "c": 1}))
    with Store(users(name), backend) as db:
        db.create()
    assert there(name)[""] == {"c": "maxversions=1", "d": "maxversions=3"}


@pytest.mark.parametrize("of", ["", ".by_name"])
def test_a_table_that_holds_something_else_is_refused(
    of: str, name: str, backend: Bigtable, send: Send, there: Look
) -> None:
    send(CreateTable(f"{name}{of}", {"stats": 1}))
    with Store(users(name, "by_name"), backend) as db, pytest.raises(BackendError) as raised:
        db.create()
    assert f"table '{name}{of}' exists with the column families 'stats' and without" in str(raised.value)
    assert "choose another name, or give the store a prefix" in str(raised.value)
    assert there(name) == {of: {"stats": "maxversions=1"}}


def test_they_are_dropped_and_dropped_again(name: str, backend: Bigtable, there: Look) -> None:
    with Store(users(name, "by_name"), backend) as db:
        db.create()
        with Store(users(f"{name}s"), backend) as other:
            other.create()
        db.drop()
        db.drop()
    assert there(name) == {"s": ITEMS}


SHOP = users("shop", "by_name").compile()
MAKE = (CreateTable("shop", {"d": 1, "c": 1}), CreateTable("shop.by_name", {"i": 1}))
LOOK = Together((GetTable("shop"), GetTable("shop.by_name")))
GONE, THERE = google.NotFound("gone"), google.AlreadyExists("there")


def sent(request: CreateTables | DropTables, *answers: Any) -> list[Any]:
    return play(request, *answers, on=Procedures(SHOP))[0]


def test_they_are_looked_at_and_made_together() -> None:
    assert sent(CreateTables(), (GONE, GONE), (None, None)) == [LOOK, Together(MAKE)]


def test_what_is_there_takes_one_look() -> None:
    assert sent(CreateTables(), (ITEMS, ENTRIES)) == [LOOK]


def test_what_somebody_else_made_meanwhile_is_looked_at_again() -> None:
    asked = sent(CreateTables(), (GONE, GONE), (THERE, None), ({"d": "maxversions=1"}, ENTRIES), (None,))
    add = Together((ModifyFamilies("shop", create={"c": 1}),))
    assert [asked[0], asked[1], asked[3], asked[4]] == [LOOK, Together(MAKE), LOOK, add]


def test_only_what_was_not_answered_is_sent_again() -> None:
    asked = sent(CreateTables(), (GONE, GONE), (None, BUSY), (None,))
    assert [asked[1], asked[3]] == [Together(MAKE), Together(MAKE[1:])]


@pytest.mark.parametrize("answers", [(BUSY, google.PermissionDenied("no")), (google.PermissionDenied("no"), BUSY)])
def test_what_is_refused_for_good_is_not_sent_again(answers: Any) -> None:
    with pytest.raises(BackendError, match="PERMISSION_DENIED, no"):
        sent(CreateTables(), answers)


def test_an_instance_that_is_not_there_is_no_table_to_make() -> None:
    with pytest.raises(BackendError, match="NOT_FOUND, gone"):
        sent(CreateTables(), (GONE, GONE), (GONE, GONE))


def test_items_are_dropped_before_the_entries_that_they_list() -> None:
    asked = sent(DropTables(), (None,), (GONE,))
    assert asked == [Together((DeleteTable("shop"),)), Together((DeleteTable("shop.by_name"),))]


def test_every_page_of_names_is_read_and_other_tables_are_left_alone() -> None:
    pages = {"": Tables(("other", "shopping", "shop.eu.by_day"), "2"), "2": Tables(("shop.by_day", "shop.cache"))}

    def answer(native: Any) -> Any:
        match native:
            case ListTables():
                return pages[native.page]
            case Together():
                found: dict[str, Families] = {"shop": ITEMS, "shop.by_day": ENTRIES, "shop.cache": {"x": "never"}}
                return tuple(found.get(call.table, GONE) for call in native.calls)
            case _:
                return Read()

    found = run(plan(SHOP, Procedures(SHOP).retry), answer)
    assert [(change.kind, change.what) for change in found] == [("add", "index 'by_name'"), ("extra", "index 'by_day'")]
