"""Models that say another layout than that of a filled table: its items are never taken to be gone."""

import asyncio
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest
from google.api_core.exceptions import PermissionDenied

from odm import (
    AccessPattern,
    AsyncStore,
    BackendError,
    Cell,
    Entity,
    OdmError,
    PrimaryKey,
    Store,
    Stored,
    Table,
    TableNotFound,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.commands import Admin
from odm.backends.bigtable.admin.misfits import misfit
from odm.backends.bigtable.client.native import Entry, MutateRow, SetCell
from odm.backends.bigtable.client.native_admin import ColumnFamily, ModifyFamilies
from odm.backends.bigtable.client.retry import Retry
from odm.patterns.copy import copy
from odm.protocol.admin import silent
from odm.protocol.connection import run
from odm.schema.model import Schema

FORMS: dict[str, dict[str, Any]] = {
    "usual": {},
    "wide": {"layout": "row_per_partition"},
    "with transactions": {"transactions": True},
    "wide with transactions": {"layout": "row_per_partition", "transactions": True},
}


def notes(name: str, form: str) -> tuple[Table, Any]:
    table = Table(name, **FORMS[form])

    class Note(Entity, table=table):
        who: str
        number: str
        text: str

        primary = PrimaryKey("WHO#{who}", "NOTE#{number}")
        by_text = AccessPattern("TEXT#{text}")

    return table, Note


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator)


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


PAIRS = [(before, after) for before in FORMS for after in FORMS if before != after]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_create_refuses_the_other_layout(before: str, after: str, backend: Bigtable, name: str) -> None:
    table, note = notes(name, before)
    with Store(table, backend) as db:
        db.create()
        db.put(note(who="ann", number="1", text="hello"))
    other, same = notes(name, after)
    with Store(other, backend) as db:
        with pytest.raises(BackendError, match=r"say Table\(.* as before|give the store a prefix"):
            db.create()
        with pytest.raises(OdmError):
            list(db.scan(same))
    with Store(table, backend) as db:
        db.create()
        assert db.one(note, who="ann", number="1").text == "hello"


@pytest.mark.parametrize(
    ("before", "after"), [("usual", "with transactions"), ("with transactions", "usual")], ids=["on", "off"]
)
async def test_turning_transactions_on_or_off(before: str, after: str, backend: Bigtable, name: str) -> None:
    table, note = notes(name, before)
    with Store(table, backend) as db:
        db.create()
        db.put(note(who="ann", number="1", text="hello"))
    other, same = notes(name, after)
    async with AsyncStore(other, backend) as later:
        with pytest.raises(TableNotFound):
            await later.get(same, who="ann", number="1")
        with pytest.raises(BackendError, match=r"does not exist, but .* does.*copy its items with odm copy"):
            await later.create()
        with pytest.raises(TableNotFound):
            await later.get(same, who="ann", number="1")


def test_the_ways_out(backend: Bigtable, name: str, bigtable_emulator: str) -> None:
    table, note = notes(name, "usual")
    beside = Bigtable("project", "instance", endpoint=bigtable_emulator, transactions=True)
    with Store(table, backend) as db, Store(table, beside) as there:
        db.create()
        db.put(note(who="ann", number="1", text="hello"))
        there.create()
        copy(db, there)
    other, same = notes(name, "with transactions")
    with Store(other, backend) as later:
        later.create()  # the table exists now
        assert later.one(same, who="ann", number="1").text == "hello"
    with Store(other, backend, prefix="p") as prefixed:
        prefixed.create()
        assert prefixed.get(same, who="ann", number="1") is None


KEYS: dict[str, dict[str, Any]] = {
    "usual": {},
    "another join": {"row_key_join": "##"},
    "keys as they are": {"key_style": "verbatim"},
    "wide": {"layout": "row_per_partition"},
    "wide, keys as they are": {"layout": "row_per_partition", "key_style": "verbatim"},
    "with transactions": {"transactions": True},
    "with transactions, another join": {"transactions": True, "row_key_join": "##"},
}
CHANGES = [
    ("usual", "another join", 'row_key_join="#"', 'row_key_join="##"'),
    ("another join", "usual", 'row_key_join="##"', 'row_key_join="#"'),
    ("usual", "keys as they are", 'key_style="escaped"', 'key_style="verbatim"'),
    ("keys as they are", "usual", 'key_style="verbatim"', 'key_style="escaped"'),
    ("another join", "keys as they are", 'key_style="escaped" and row_key_join="##"', 'key_style="verbatim"'),
    ("keys as they are", "another join", 'key_style="verbatim"', 'key_style="escaped"'),
    ("wide", "wide, keys as they are", 'key_style="escaped"', 'key_style="verbatim"'),
    ("wide, keys as they are", "wide", 'key_style="verbatim"', 'key_style="escaped"'),
    ("with transactions", "with transactions, another join", 'row_key_join="#"', 'row_key_join="##"'),
    ("with transactions, another join", "with transactions", 'row_key_join="##"', 'row_key_join="#"'),
]


def logs(name: str, *, family: str | None = None, field: Any = str, sorted_too: bool = False, **options: Any) -> Any:
    """A table with an entity whose key has characters to escape, and maybe another one with a sort key."""
    table = Table(name, **options)
    of_class: dict[str, Any] = {} if family is None else {"family": family}

    class Log(Entity, table=table, **of_class):
        who: str
        number: int
        text: field = "none"  # pyright: ignore[reportInvalidTypeForm]

        primary = PrimaryKey("WHO#{who}", "LOG#{number}")

    if sorted_too:

        class Other(Entity, table=table):
            who: str

            primary = PrimaryKey("OTHER#{who}", "A")

    return table, Log


def lists(name: str, *, sorted_too: bool) -> Any:
    """A table of an entity without a sort template, and maybe another one with one."""
    table = Table(name)

    class List(Entity, table=table):
        who: str

        primary = PrimaryKey("WHO#{who}")

    if sorted_too:

        class Entry(Entity, table=table):
            who: str

            primary = PrimaryKey("ENTRY#{who}", "A")

    return table, List


@contextmanager
def refused(table: Table, backend: Bigtable, has: str, says: str) -> Iterator[str]:
    """Check that ``create()`` and ``odm apply`` refuse a table; yields what ``odm plan`` says of it."""
    pattern = f"written with {re.escape(has)}, and the models declare {re.escape(says)},.* as before"
    with Store(table, backend) as db, pytest.raises(BackendError, match=pattern):
        db.create()

    async def create() -> None:
        async with AsyncStore(table, backend) as later:
            await later.create()

    with pytest.raises(BackendError, match=pattern):
        asyncio.run(create())
    admin = Admin(backend, table.compile())
    with pytest.raises(BackendError, match=pattern):
        admin.apply(drop=False, tell=silent)
    [change] = [one for one in admin.survey(10).changes if one.kind == "refused"]
    assert change.what == f"rows of table {admin._schema.name!r}"
    yield change.text


@pytest.mark.parametrize(("before", "after", "has", "says"), CHANGES)
def test_create_refuses_another_form_of_row_keys(
    before: str, after: str, has: str, says: str, backend: Bigtable, name: str
) -> None:
    table, log = logs(name, **KEYS[before])
    with Store(table, backend) as db:
        db.create()
        items = [log(who="a#b", number=number, text="x") for number in range(3)]
        for item in items:
            db.put(item)
        other, _ = logs(name, **KEYS[after])
        with refused(other, backend, has, says):
            db.create()
        assert list(db.query(log.primary(who="a#b"))) == items


FAMILY_OF_CLASS = [
    ({}, {"family": "logs"}, "no family", 'family="logs"'),
    ({"family": "logs"}, {}, 'family="logs"', "no family"),
    ({"family": "logs"}, {"family": "notes"}, 'family="logs"', 'family="notes"'),
]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("before", "after", "has", "says"), FAMILY_OF_CLASS, ids=["to one", "from one", "another"])
def test_create_refuses_another_family_of_an_entity(
    before: Any, after: Any, has: str, says: str, wide: bool, backend: Bigtable, name: str
) -> None:
    options: dict[str, Any] = {"layout": "row_per_partition"} if wide else {}
    table, log = logs(name, **before, **options)
    other, same = logs(name, **after, **options)
    with Store(table, backend) as db:
        db.create()
        item = log(who="a#b", number=1, text="x")
        db.put(item)
        if wide and not before:  # documents in the usual family are read, whatever the entity says
            with Store(other, backend) as later:
                later.create()
                assert later.one(same, who="a#b", number=1).text == "x"
            return
        with refused(other, backend, has, says):
            db.create()
        assert db.one(log, who="a#b", number=1) == item


def test_create_refuses_an_entity_whose_family_changes_behind_many_others(backend: Bigtable, name: str) -> None:
    def table_of(family: str | None) -> Any:
        table = Table(name)
        of_class: dict[str, Any] = {} if family is None else {"family": family}

        class First(Entity, table=table):
            number: int

            primary = PrimaryKey("FIRST#{number}", "A")

        class Last(Entity, table=table, **of_class):
            number: int

            primary = PrimaryKey("LAST#{number}", "A")

        return table, First, Last

    table, first, last = table_of(None)
    with Store(table, backend) as db:
        db.create()
        for number in range(50):
            db.put(first(number=number))
        db.put(last(number=1))
    with refused(table_of("late")[0], backend, "no family", 'family="late"') as text:
        assert "LAST#" in text


FIELDS = [
    (str, Annotated[str, Stored(family="texts")], "no family of its own", 'Stored(family="texts")'),
    (str, Annotated[str, Cell("x:text", "text")], "no family of its own", 'Cell("x:text")'),
]


@pytest.mark.parametrize(("before", "after", "has", "says"), FIELDS, ids=["family", "cell"])
def test_create_refuses_another_place_of_a_field(
    before: Any, after: Any, has: str, says: str, backend: Bigtable, name: str
) -> None:
    table, log = logs(name, field=before)
    with Store(table, backend) as db:
        db.create()
        db.put(log(who="a#b", number=1, text="x"))
        other, _ = logs(name, field=after)
        with refused(other, backend, has, says) as text:
            assert "of Log.text" in text
        assert db.one(log, who="a#b", number=1).text == "x"


def test_a_field_with_a_place_of_its_own_whose_value_was_written_again_is_no_reason(
    backend: Bigtable, name: str, bigtable_emulator: str
) -> None:
    """What an update leaves at the former place is old."""
    moved = Annotated[str, Stored(family="texts")]
    table, log = logs(name, field=moved)
    with Store(table, backend) as db:
        db.create()
        db.put(log(who="a", number=1, text="x"))
        write_cells(bigtable_emulator, name, "WHO#a#LOG#a1", {("d", "text"): b"old"})
        db.create()


@pytest.mark.parametrize(
    ("before", "after", "has"),
    [(True, False, "a sort template in an entity of the table"), (False, True, "no sort template in it")],
    ids=["to none", "to one"],
)
def test_create_refuses_a_table_that_loses_or_gets_its_sort_key(
    before: bool, after: bool, has: str, backend: Bigtable, name: str
) -> None:
    table, kind = lists(name, sorted_too=before)
    with Store(table, backend) as db:
        db.create()
        db.put(kind(who="ann"))
    other, _ = lists(name, sorted_too=after)
    with Store(other, backend) as later, pytest.raises(BackendError, match=has):
        later.create()


@pytest.mark.parametrize(("before", "after", "has", "says"), CHANGES)
def test_an_empty_table_is_not_refused(
    before: str, after: str, has: str, says: str, backend: Bigtable, name: str
) -> None:
    table, log = logs(name, **KEYS[before])
    with Store(table, backend) as db:
        db.create()
        db.put(log(who="a#b", number=1))
        db.delete(log, who="a#b", number=1)
    other, same = logs(name, **KEYS[after])
    with Store(other, backend) as later:
        later.create()
        later.put(same(who="a#b", number=2))
        assert later.one(same, who="a#b", number=2).number == 2


def write_cells(address: str, table: str, row: str, cells: dict[tuple[str, str], bytes]) -> None:
    """Write cells as another program does."""
    connection = Bigtable("project", "instance", endpoint=address).connect(Schema("any", {}, {}))
    connection.call(
        MutateRow(
            table, Entry(row, tuple(SetCell(name, value, 1000, family) for (family, name), value in cells.items()))
        )
    )
    connection.close()


FOREIGN: dict[str, dict[tuple[str, str], bytes]] = {
    "a row of another program": {("theirs", "x"): b"1"},
    "a tag in a family of another program": {("theirs", "_t"): b"Log"},
    "attributes without a tag": {("d", "who"): b"a", ("d", "number"): b"1"},
    "a tag of another program": {("d", "_t"): b"Theirs", ("d", "~r"): b"r"},
    "a tag that is not text": {("d", "_t"): b"\xff\xfe", ("d", "~r"): b"r"},
    "an item that cannot be read": {("d", "_t"): b"Log", ("d", "~r"): b"r", ("d", "number"): b"x", ("d", "who"): b"a"},
    "an item under another key": {("d", "_t"): b"Log", ("d", "~r"): b"r", ("d", "number"): b"1", ("d", "who"): b"b"},
    "a family of the models in another program's row": {("theirs", "text"): b"x", ("d", "_t"): b""},
}


@pytest.mark.parametrize("cells", FOREIGN)
@pytest.mark.parametrize("form", ["usual", "another join", "keys as they are", "wide"])
def test_rows_of_others_are_no_reason(
    form: str, cells: str, backend: Bigtable, name: str, bigtable_emulator: str
) -> None:
    table, log = logs(name, **KEYS[form])
    with Store(table, backend) as db:
        db.create()
        connection = backend.connect(table.compile())
        connection.call(ModifyFamilies(name, create={"theirs": ColumnFamily()}))
        connection.close()
        for row in ("WHO#a#LOG#a1", "WHO#a##LOG#a1", "WHO$Sa##LOG$Sa1", "other"):
            write_cells(bigtable_emulator, name, row, FOREIGN[cells])
        item = log(who="a#b", number=2)
        db.put(item)
        db.create()
        assert db.one(log, who="a#b", number=2) == item


def test_items_of_entities_that_the_models_do_not_have_are_no_reason(backend: Bigtable, name: str) -> None:
    table, note = notes(name, "usual")
    with Store(table, backend) as db:
        db.create()
        db.put(note(who="ann", number="1", text="hello"))
    with Store(logs(name, row_key_join="##")[0], backend) as later:
        later.create()


def test_credentials_that_may_not_read_see_no_rows() -> None:
    """A role that only makes tables still can."""

    def answer(native: Any) -> Any:
        raise PermissionDenied("no")  # type: ignore[no-untyped-call]

    assert run(misfit(logs("logs")[0].compile(), Retry()), answer) is None


def test_create_says_which_table_has_rows_of_the_other_style(backend: Bigtable, name: str) -> None:
    def table_of(**options: Any) -> Any:
        table = Table(name, **options)

        class Quote(Entity, table=table):
            symbol: str
            ask: Annotated[str, Cell("MD:ASK", "text")]

            primary = PrimaryKey("QUOTE#{symbol}")

        return table, Quote

    mine, _ = logs(name)
    theirs, quote = table_of(row_style="verbatim")
    with Store(mine, backend) as db:
        db.create()
        with Store(theirs, backend) as later, pytest.raises(BackendError, match='leave row_style="verbatim" out as'):
            later.create()
        db.drop()
    with Store(theirs, backend) as db:
        db.create()
        db.put(quote(symbol="ZXZZT", ask="1"))
        with Store(mine, backend) as later, pytest.raises(BackendError, match='row_style="verbatim", declare it'):
            later.create()
        assert db.one(quote, symbol="ZXZZT").ask == "1"
