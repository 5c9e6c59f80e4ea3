"""Each change of a model is found to be what it is, and what is said of stored data is true of stored data."""

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from pydantic import computed_field

from odm import AccessPattern, BackendError, Entity, ItemExists, ItemInvalid, OdmError, PrimaryKey, Store, Table, set_
from odm.backends.local import Memory
from odm.protocol import requests as req
from odm.schema.entity import Key
from odm.schema.evidence import Stored, judge
from odm.schema.lockfile import Finding, TableLock, compare, describe
from odm.testing.suite.described import locks
from tests.schema.lock_models import (
    BACKFILL,
    ORPHANS,
    SAFE,
    Change,
    Model,
    defaulted,
    model,
    sharded,
)

CHANGES = [*SAFE, *BACKFILL, *ORPHANS]
DEFAULTS = {change.name for change in CHANGES if any(what == "default" for _, _, what in change.findings)}
NOT_FILLED = {"TTL moved", *DEFAULTS}
"""An item that has expired is gone, also if the models change: the customer of that change has. Items that were written
with the old default keep it."""
FILLED = {
    "new pattern",
    "pattern moved to a new index",
    "new local pattern",
    "TTL added",
    "pattern moved from a shared index",
    "new field with a default in a pattern",
    "bounds taken away",
    "order of a key",
    "format of a key",
    "padding of a key",
    "index template",
    "sort added to a pattern",
    "when",
    "when taken away",
    "shards",
    "no shards any more",
    "another number of shards, and not what it was",
    "random shards by a field, and what they were",
    "another number of shards",
    "fewer random shards",
    "random shards of more digits",
    "random shards by a field",
    "template of a local pattern",
}
"""The changes that a backfill fixes, as every finding says. Here by name, as each process of a run
would else compare all models to find the tests."""


def lock(of: Model) -> TableLock:
    return describe(of.table.compile())


def findings(change: Change) -> tuple[Finding, ...]:
    return compare("shop", lock(model(*change.old)), lock(model(*change.new)))


def named(changes: list[Change]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("change", changes, ids=lambda change: change.name)


@named(CHANGES)
def test_a_change_gives_exactly_its_findings(change: Change) -> None:
    found = findings(change)
    assert sorted((f.level, f.where, f.change) for f in found) == sorted(change.findings)
    assert (change.name in FILLED) == (bool(commands(found)) and change.name not in NOT_FILLED)


@pytest.mark.one_of(3)
@named(CHANGES)
def test_a_finding_says_what_to_do(change: Change) -> None:
    for finding in findings(change):
        assert finding.level == "safe" or (finding.effect and finding.fix)
        assert "\n" not in str(finding)
        assert finding.was != finding.now or not finding.was


def stored_as(change: Change, *, model_of_items: Model, model_now: Model) -> Store:
    """A store of one model with what another one put."""
    memory = Memory()
    with Store(model_of_items.table, memory, random=Random(1)) as db:  # else what is stored may happen to be found
        db.create()
        for item in model_of_items.items:
            db.put(item)
    store = Store(model_now.table, memory)
    store.create()
    return store


def answers(store: Store, now: Model) -> Iterator[object]:
    """What the application sees: every item by its key, every pattern, and a scan."""

    def asked(call: Any) -> object:
        try:
            return call()
        except OdmError as error:
            return type(error)

    schema = now.table.compile()
    for item in now.items:
        entity = schema.entity(type(item))
        for pattern in (entity.primary, *entity.patterns.values()):
            for names in (pattern.partition.fields, pattern.fields):
                values = {name: getattr(item, name) for name in names}
                if None not in values.values():
                    query = getattr(type(item), pattern.name)(**values)
                    yield asked(lambda query=query: sorted(map(repr, store.query(query))))
        key = {name: getattr(item, name) for name in entity.primary.fields}
        yield asked(lambda item=item, key=key: store.get(type(item), **key))
    yield asked(lambda: sorted(map(repr, store.scan())))


def stored_by(change: Change) -> Model:
    """The model that put the items."""
    return model(*(change.old if change.stored is None else change.stored))


def is_seen(change: Change) -> bool:
    """Whether the new model sees other things in what the old one put than in what it would put itself."""
    now = model(*change.new)
    found, expected = (stored_as(change, model_of_items=by, model_now=now) for by in (stored_by(change), now))
    return list(answers(found, now)) != list(answers(expected, now))


def is_read_otherwise(change: Change) -> bool:
    """Whether the old and the new model see different things in the same items."""
    before, now = (
        list(map(repr, answers(stored_as(change, model_of_items=stored_by(change), model_now=by), by)))
        for by in (model(*change.old), model(*change.new))
    )
    return before != now


def commands(found: tuple[Finding, ...]) -> list[str]:
    """What to fill for a change; empty if that does not fix the whole of it."""
    serious = [finding for finding in found if finding.level != "safe"]
    told = [re.findall(r"odm backfill MODULE:TABLE (\S+) PLACE", finding.fix) for finding in serious]
    return [what for one in told for what in one] if all(told) else []


@pytest.mark.one_of(3)
@named(SAFE)
def test_what_is_safe_orphans_nothing(change: Change) -> None:
    assert not is_seen(change)


@pytest.mark.one_of(3)
@named([*BACKFILL, *ORPHANS])
def test_what_is_not_safe_is_seen(change: Change) -> None:
    assert is_seen(change) or is_read_otherwise(change)


@named([change for change in SAFE if "configuration" in change.name and not change.findings])
def test_what_is_no_finding_is_read_as_before(change: Change) -> None:
    assert not is_read_otherwise(change)


def test_a_removed_field_is_dropped_by_the_next_put() -> None:
    change = Change("", [('    note: str = ""\n', ""), ('        note="late",\n', "")], [])
    assert [(f.level, f.change) for f in findings(change)] == [("orphans", "removed field")]
    old, now = model(), model(*change.new)
    memory = Memory()
    before, after = Store(old.table, memory), Store(now.table, memory)
    before.create()
    for item in old.items:
        before.put(item)
    assert before.one(old.names["Customer"], customer_id="c1").note == "late"
    after.put(after.one(now.names["Customer"], customer_id="c1"))
    assert before.one(old.names["Customer"], customer_id="c1").note == ""


def test_a_revision_that_was_added_needs_an_update_before_a_put() -> None:
    [change] = [change for change in BACKFILL if change.name == "Revision added"]
    now = model(*change.new)
    db = stored_as(change, model_of_items=model(), model_now=now)
    customer = now.names["Customer"]
    stale = db.one(customer, customer_id="c1")
    with pytest.raises(ItemExists):
        db.put(stale)
    db.update(customer.primary(customer_id="c1"), set_(customer.note, "again"))
    assert db.put(db.one(customer, customer_id="c1")).revision == 2


@named([change for change in CHANGES if change.name in FILLED])
def test_a_backfill_is_the_fix(change: Change) -> None:
    now = model(*change.new)
    db = stored_as(change, model_of_items=model(*change.old), model_now=now)
    expected = stored_as(change, model_of_items=now, model_now=now)
    assert list(answers(db, now)) != list(answers(expected, now))
    for what in commands(findings(change)):
        name, _, attribute = what.partition(".")
        target = now.names[name]
        assert db.backfill(getattr(target, attribute) if attribute else target).failed == 0
    assert list(answers(db, now)) == list(answers(expected, now))


def test_most_changes_that_need_a_backfill_print_its_command() -> None:
    others = {"Revision added", "a text no longer stripped", "text no longer made small", *DEFAULTS}
    assert {change.name for change in BACKFILL} - FILLED <= others
    assert {"index template", "when", "format of a key"} <= FILLED


def test_what_the_shards_were_can_go_once_the_entries_have_moved() -> None:
    """The lock file cannot know whether they have, so it asks."""
    was, grown = sharded("8, by='order_id'"), sharded("16, by='order_id', was=8")
    change = Change("", [sharded("16, by='order_id'")], [], [grown])
    [finding] = findings(change)
    assert (finding.level, finding.change, finding.was) == ("orphans", "shards", "16 by order_id as str, 8 before")
    assert finding.fix == "keep was=8 until db.reshard() has returned 0 for every partition"
    assert "add was=8" in findings(Change("", [sharded("16, by='order_id'")], [], [was]))[0].fix
    growing, after = model(grown), model(*change.new)
    db = stored_as(change, model_of_items=model(was), model_now=growing)
    now = Store(after.table, db.backend)
    order = growing.names["Order"]
    assert [found.change for found in judge(growing.table.compile(), stored(db, growing))] == ["entry to move"]
    assert [found.change for found in judge(after.table.compile(), stored(db, growing))] == ["stored entry"]
    assert list(answers(now, after)) != list(answers(stored_as(change, model_of_items=after, model_now=after), after))
    assert (db.reshard(order.by_date(customer_id="c1")), db.reshard(order.by_date(customer_id="c1"))) == (1, 0)
    assert judge(growing.table.compile(), stored(db, growing)) == ()
    assert list(answers(now, after)) == list(answers(stored_as(change, model_of_items=after, model_now=after), after))


def stored(db: Store, of: Model) -> list[Stored]:
    """The one order, as it lies in the memory, with its entry in the index."""
    page = db._session.connection.answer(req.Scan(entries=True))
    return [
        Stored(position.key, item, entries)
        for item, position, entries in zip(page.items, page.positions, page.entries, strict=True)
        if item["_t"] == "Order"
    ]


def test_items_of_a_removed_entity_are_invalid_in_a_collection() -> None:
    [change] = [change for change in ORPHANS if change.name == "entity removed"]
    now = model(*change.new)
    db = stored_as(change, model_of_items=model(), model_now=now)
    with pytest.raises(ItemInvalid, match="Order"):
        list(db.scan())


def test_what_the_bundled_engine_can_not_show() -> None:
    """Names of key attributes are DynamoDB's, row keys and the forms of Counter and Columns Bigtable's."""

    def found(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
        return [(f.level, f.where, f.change) for f in findings(Change("", new, [], old))]

    table = 'Table("shop")'
    assert found([], [(table, 'Table("shop", keys=("PK", "SK"))')]) == [("orphans", "table shop", "key names")]
    named = """Table("shop", index_keys={"by_email": ("GSI1PK", "GSI1SK")})"""
    assert found([], [(table, named)]) == [("orphans", "index by_email", "key names")]
    assert found([(table, named)], []) == [("orphans", "index by_email", "key names")]
    where = 'AccessPattern("EMAIL#{email}"'
    keys, note = (f"{where}, projection={held}" for held in ('"keys"', '("note",)'))
    narrower = [("safe", "Customer.by_email", "projection")]
    wider = [("orphans", "Customer.by_email", "projection")]
    assert found([], [(where, keys)]) == found([], [(where, note)]) == narrower
    assert found([(where, note)], [(where, keys)]) == narrower
    assert found([(where, keys)], []) == found([(where, note)], []) == found([(where, keys)], [(where, note)]) == wider
    assert found([], [(table, 'Table("shop", row_key_join="##")')]) == [("orphans", "table shop", "row_key_join")]
    wide = 'Table("shop", layout="row_per_partition")'
    assert found([], [(table, wide)]) == [("orphans", "table shop", "layout")]
    together = (table, 'Table("shop", transactions=True)')
    assert found([], [together]) == [("orphans", "table shop", "transactions")]
    assert found([together], []) == [("orphans", "table shop", "transactions")]
    counter = ("visits: int", "visits: Annotated[int, Counter]")
    assert found([], [counter]) == [("backfill", "Customer.visits", "Counter")]
    assert found([counter], []) == [("backfill", "Customer.visits", "Counter")]
    five, two = (("visits: int", f"visits: Annotated[int, CellVersions({count})]") for count in (5, 2))
    assert found([], [five]) == [("backfill", "Customer.visits", "CellVersions")]
    assert found([five], []) == [("orphans", "Customer.visits", "CellVersions")]
    assert found([five], [two]) == [("safe", "Customer.visits", "CellVersions")]
    total = ("visits: int", "visits: Annotated[int, Sum]")
    assert found([], [total]) == [("backfill", "Customer.visits", "Sum")]
    assert found([total], []) == [("orphans", "Customer.visits", "Sum")]
    short = ("    note: str", "    body: bytes = b''\n    note: str")
    large = ("    note: str", "    body: Annotated[bytes, Blob(over=9)] = b''\n    note: str")
    assert found([short], [large]) == [("safe", "Customer.body", "Blob")]
    assert found([large], [short]) == [("orphans", "Customer.body", "Blob")]
    note = "    note: str"
    plain, columns = (
        (note, f"    tags: {tags} = set()\n{note}") for tags in ("set[str]", "Annotated[set[str], Columns]")
    )
    assert found([plain], [columns]) == found([columns], [plain]) == [("backfill", "Customer.tags", "Columns")]
    assert found(
        [("    note: str", "    revision: Annotated[int, Revision] = 0\n    note: str")],
        [("    note: str", "    revision: int = 0\n    note: str")],
    ) == [("safe", "Customer", "Revision")]


def as_format_1(of: Model) -> TableLock:
    """What an earlier odm wrote."""

    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            known = {name: stripped(part) for name, part in value.items() if name not in {"validators", "default"}}
            if "limits" in known:
                limits = known["limits"].items()
                known["limits"] = {n: v for n, v in limits if n.rpartition(".")[2] in {"ge", "gt", "le", "lt"}}
            if known.get("absent") == "factory":
                known["absent"] = "default"
            return known
        return [stripped(part) for part in value] if isinstance(value, list) else value

    whole = stripped(lock(of).model_dump(mode="json", exclude_defaults=True))
    return TableLock.model_validate({**whole, "format": 1})


BARE = """
shop = Table("shop")

class Note(Entity, table=shop):
    note_id: str
    text: str | None = None

    primary = PrimaryKey("NOTE#{note_id}")

ITEMS = []
"""
TEXT = "    text: str | None = None"


@pytest.mark.parametrize(
    ("changes", "level", "named"),
    [
        ([], "safe", ""),
        ([(TEXT, "    text: str = 'x'")], "backfill", "so that a change of Note.text since then"),
        ([(TEXT, "    text: PastDate | None = None")], "orphans", "a change of Note.text since"),
        ([(TEXT, f"    model_config = ConfigDict(str_to_lower=True)\n{TEXT}")], "orphans", "a change of Note since"),
        (
            [(TEXT, "\n".join(f"    t{n}: int = {n}" for n in range(9)))],
            "backfill",
            "of Note.t0, Note.t1, Note.t2, Note.t3, Note.t4 and 4 more since",
        ),
    ],
)
def test_a_lock_of_an_earlier_format(changes: list[tuple[str, str]], level: str, named: str) -> None:
    """What it does not record is as bad as it would be if it had changed."""
    now = model(*changes, source=BARE)
    [finding] = compare("shop", as_format_1(now), lock(now))
    assert (finding.level, finding.where, finding.change) == (level, "table shop", "format")
    assert (finding.was, finding.now) == ("1", "2")
    assert named in finding.effect


@pytest.mark.parametrize("change", [*BACKFILL[:2], *ORPHANS[-3:]], ids=lambda change: change.name)
def test_what_an_earlier_format_records_is_compared(change: Change) -> None:
    found = compare("shop", as_format_1(model(*change.old)), lock(model(*change.new)))
    assert {(f.level, f.where, f.change) for f in found} - {("backfill", "table shop", "format")} == {*change.findings}


SINGLE = """
shop = Table("shop")

class Note(Entity, table=shop):
    note_id: str

    primary = PrimaryKey("NOTE#{note_id}")

ITEMS = [Note(note_id="n1")]
"""


def test_a_sort_key_that_came_to_the_table_moves_the_items_without_one() -> None:
    old = model(source=SINGLE)
    second = ("ITEMS = [", 'class Tag(Entity, table=shop):\n    primary = PrimaryKey("TAGS", "ALL")\n\nITEMS = [')
    now = model(second, source=SINGLE)
    found = compare("shop", lock(old), lock(now))
    assert [(f.level, f.change) for f in found] == [("orphans", "sort key"), ("safe", "new entity")]
    with pytest.raises(BackendError, match=r"'shop' exists and has no sort key, but the models have one"):
        stored_as(Change("", [], []), model_of_items=old, model_now=now)
    with pytest.raises(BackendError, match=r"'shop' exists and has a sort key, but the models have none"):
        stored_as(Change("", [], []), model_of_items=now, model_now=old)


def test_the_new_name_of_a_class_is_guessed_from_its_key() -> None:
    [change] = [change for change in ORPHANS if change.name == "class renamed without its tag"]
    [removed] = [finding for finding in findings(change) if finding.change == "removed entity"]
    assert "keep the tag: class Purchase(Entity, ..., tag='Order')" in removed.fix


def test_a_table_that_is_not_locked_is_one_finding() -> None:
    assert [str(finding) for finding in compare("shop", None, lock(model()))] == [
        "safe      table shop: not locked yet"
    ]


def test_what_stays_in_a_shared_index_is_no_result_of_another_entity() -> None:
    [change] = [change for change in SAFE if change.name == "pattern removed from a shared index"]
    old, now = model(*change.old), model(*change.new)
    db = stored_as(change, model_of_items=old, model_now=now)
    visits = now.names["Visit"].by_customer(customer_id="c1")
    assert [type(item).__name__ for item in db.query(visits)] == ["Visit"]
    assert db.count(visits) == 1


def altered(place: str, **values: object) -> TableLock:
    """The description with values of an entity ("Order") or of one of its patterns ("Order.dated") replaced."""
    whole = lock(model()).model_dump()
    tag, _, index = place.partition(".")
    entity = whole["entities"][tag]
    (entity["patterns"][index] if index else entity).update(values)
    return TableLock.model_validate(whole)


ORDER_ID = {"field": "order_id", "encoding": "str"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {"count": 8, "by": ORDER_ID}, "orphans   Order.by_date: shards none → 8 by order_id as str: "),
        ({"count": 8}, {"count": 16}, "orphans   Order.by_date: shards 8 at random → 16 at random: "),
        ({"count": 8}, {"count": 10}, "safe      Order.by_date: shards 8 at random → 10 at random: "),
        ({"count": 8}, {"count": 7}, "orphans   Order.by_date: shards 8 at random → 7 at random: "),
        (
            {"count": 8, "by": ORDER_ID},
            {"count": 10, "by": ORDER_ID},
            "orphans   Order.by_date: shards 8 by order_id as str",
        ),
        ({"count": 8, "by": ORDER_ID}, {"count": 8}, "safe      Order.by_date: shards 8 by order_id as str → 8 at "),
        ({"count": 8, "by": ORDER_ID}, None, "orphans   Order.by_date: shards 8 by order_id as str → none: "),
    ],
)
def test_shards(old: object, new: object, expected: str) -> None:
    was, now = (altered("Order.dated", shards=side) for side in (old, new))
    [finding] = compare("shop", was, now)
    assert str(finding).startswith(expected)


@pytest.mark.parametrize("damaged", [float("nan"), float("inf"), "x", True])
def test_limits_that_nobody_wrote(damaged: object) -> None:
    whole = lock(model()).model_dump()
    whole["entities"]["Customer"]["fields"]["size"]["limits"] = {"[0].flags": damaged}
    old = TableLock.model_validate(whole)
    whole["entities"]["Customer"]["fields"]["size"]["limits"] = {"[0].flags": 3}
    assert compare("shop", old, TableLock.model_validate(whole))


def test_a_changed_default_names_the_patterns_that_use_it() -> None:
    pattern = """\
    by_more = AccessPattern("MORE#{more}", "{customer_id}", index="more")
    by_some = AccessPattern("SOME", "{customer_id}", when=field("more") > 3, index="some")
    by_level"""
    old, now = ([defaulted(value), ("    by_level", pattern)] for value in ("5", "6"))
    change = Change("", now, [], old, stored=[])
    [finding] = findings(change)
    assert (finding.level, finding.was, finding.now) == ("backfill", "5", "6")
    commands = [f"odm backfill MODULE:TABLE Customer.{name} PLACE" for name in ("by_more", "by_some")]
    assert finding.effect == (
        "items stored without it read 6, and conditions see it too, but entries of Customer.by_more and "
        "Customer.by_some were made with the old default"
    )
    fill = "odm backfill MODULE:TABLE Customer PLACE"
    again = f"{fill}; to keep the old default for them, put() them with the old model first"
    assert finding.fix == f"run {' and '.join(commands)}, or {again}"
    [bare] = findings(Change("", [defaulted("6")], [], [defaulted("5")]))
    assert bare.effect == "items stored without it read 6, and conditions see it too"
    assert bare.fix == again


def test_the_fix_of_a_new_pattern_is_a_command() -> None:
    [change] = [change for change in BACKFILL if change.name == "new pattern"]
    [finding] = findings(change)
    assert finding.fix == "create() the index, then odm backfill MODULE:TABLE Customer.by_note PLACE"


def test_the_kind_of_an_index() -> None:
    """The bundled engine keeps both kinds alike."""
    [finding] = compare("shop", lock(model()), altered("Order.dated", kind="local"))
    assert str(finding).startswith("orphans   Order.by_date: kind global → local: the index dated exists as a global")


@pytest.mark.parametrize(
    ("old", "new", "level"), [(None, 9, "orphans"), (9, 5, "orphans"), (5, 9, "safe"), (9, None, "safe")]
)
def test_how_many_items_are_kept(old: int | None, new: int | None, level: str) -> None:
    [finding] = compare("shop", altered("Order", keep=old), altered("Order", keep=new))
    assert (finding.level, finding.where, finding.change) == (level, "Order", "keep")


def test_keeping_fewer_items_removes_some_at_the_next_put() -> None:
    old, now = (
        model(
            (
                " table=shop):\n    customer_id: str\n    number",
                f" table=shop{keep}):\n    customer_id: str\n    number",
            )
        )
        for keep in ("", ", keep=1")
    )
    [finding] = compare("shop", lock(old), lock(now))
    assert (finding.level, finding.where, finding.now) == ("orphans", "Visit", "newest 1")
    db = stored_as(Change("", [], []), model_of_items=old, model_now=now)
    visit = now.names["Visit"]
    db.put(visit(customer_id="c1", number=18))
    assert [item.number for item in db.query(visit.primary(customer_id="c1"))] == [18]


def test_a_version_that_grew_upgrades_fields_but_not_keys() -> None:
    fields = {"customer_id": {"type": "int"}, "order_id": {"type": "str"}, "placed_at": {"type": "datetime"}}
    found = compare("shop", lock(model()), altered("Order", version=2, fields=fields))
    assert [(f.level, f.where, f.change) for f in found] == [
        ("backfill", "Order.customer_id", "type"),
        ("safe", "Order", "version"),
    ]
    [fell] = compare("shop", altered("Order", version=2), lock(model()))
    assert (fell.level, fell.change) == ("orphans", "version")


def test_an_item_of_no_entity_is_described_as_its_table_tells_entities_apart() -> None:
    rooms = Table("rooms", keys=("pk", "sk"), key_style="verbatim", tag=None)

    class Room(Entity, table=rooms):
        name: str

        primary = PrimaryKey("ROOM#{name}", "meta")

    [finding] = judge(rooms.compile(), [Stored(Key("USER#ann", "meta"), {"Owner": "bo"}, {})])
    assert (finding.change, finding.was) == ("no entity", "USER#ann | meta")
    assert "because they have neither the key nor the attributes of one" in finding.effect


def test_an_item_of_two_entities_is_named_with_both() -> None:
    item = {"_t": "Lock and State", "LockID": "a", "Info": "i", "Digest": "d"}
    (finding,) = judge(locks.compile(), [Stored(Key("a", ""), item, {})])
    assert finding.change == "several entities"
    assert "because they have attributes that fit match= of Lock and State" in finding.effect


def test_a_field_that_becomes_a_computed_one_needs_a_backfill() -> None:
    before, after = Table("shop"), Table("shop")

    class Kept(Entity, table=before, tag="Contact"):
        name: str
        initial: str = "?"
        primary = PrimaryKey("CONTACT#{name}")
        by_initial = AccessPattern("INITIALS", "{initial}#{name}")

    class Contact(Entity, table=after):
        name: str
        primary = PrimaryKey("CONTACT#{name}")
        by_initial = AccessPattern("INITIALS", "{initial}#{name}")

        @computed_field  # type: ignore[prop-decorator]
        @property
        def initial(self) -> str:
            return self.name[0]

    found = compare("shop", describe(before.compile()), describe(after.compile()))
    assert ("orphans", "Contact.by_initial") in [(finding.level, finding.where) for finding in found]
    assert any("odm backfill MODULE:TABLE Contact.by_initial PLACE" in finding.fix for finding in found)
    assert compare("shop", describe(after.compile()), describe(after.compile())) == ()
