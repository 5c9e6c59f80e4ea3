"""Reads of some fields, of ranges and of one entity: what the emulator returns is as little as was asked for."""

import uuid
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from odm import Cell as InCell
from odm import CellVersions, Columns, Counter, Entity, ItemInvalid, PrimaryKey, Store, Stored, Sum, Table, increment
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import MAX_BYTES, size
from odm.backends.bigtable.client.native import Cell, Entry, MutateRow, Row, SetCell
from odm.backends.bigtable.rows import items as selected
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.items import Selected
from odm.backends.bigtable.rows.keys import RowKeys
from odm.backends.bigtable.rows.pages import rows_of
from odm.expressions.nodes import Path
from odm.protocol.reading import Only, Partitions
from odm.protocol.requests import Part, Scan
from odm.testing.reading import metering

plain, marked, alone = Table("read"), Table("read"), Table("read")


class Plain(Entity, table=plain, tag="Thing"):
    """Before its fields had markers."""

    name: str
    views: int = 0
    price: int = 0
    hits: int = 0
    readings: dict[str, float] = {}  # pydantic copies it
    flags: set[str] = set()
    note: str = ""

    primary = PrimaryKey("THING#{name}")


class Thing(Entity, table=marked):
    """The same with markers."""

    name: str
    views: Annotated[int, Sum] = 0
    price: Annotated[int, CellVersions(3)] = 0
    hits: Annotated[int, Counter] = 0
    readings: Annotated[dict[str, float], Columns] = {}
    flags: Annotated[set[str], Columns] = set()
    note: str = ""
    rank: Annotated[int, Stored(family="ranks")] = 0

    primary = PrimaryKey("THING#{name}")


class Other(Entity, table=marked, family="others"):
    """Its tag is in another family."""

    name: str
    text: str = ""

    primary = PrimaryKey("OTHER#{name}")


class Third(Entity, table=marked):
    name: str

    primary = PrimaryKey("THIRD#{name}")


class Lone(Entity, table=alone, tag="Thing"):
    name: str
    note: str = ""

    primary = PrimaryKey("THING#{name}")


@pytest.fixture
def prefix() -> str:
    return f"s{uuid.uuid4().hex[:8]}-"


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("test-project", "test-instance", endpoint=bigtable_emulator)


@pytest.fixture
def db(backend: Bigtable, prefix: str) -> Iterator[Store]:
    with Store(marked, backend, prefix=prefix) as opened:
        opened.create()
        yield opened
        opened.drop()


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """The rows that reads of pages got from the server."""
    from odm.backends.bigtable.rows import pages

    rows: list[Row] = []
    kept = pages.ItemSource.kept

    def watched(self: Any, found: list[Row]) -> Any:
        rows.extend(found)
        return kept(self, found)

    monkeypatch.setattr(pages.ItemSource, "kept", watched)
    return rows


def test_fields_from_before_they_had_a_marker(db: Store, backend: Bigtable, prefix: str) -> None:
    with Store(plain, backend, prefix=prefix) as before:
        before.put(Plain(name="t", views=3, price=5, hits=7, readings={"a": 1.5}, flags={"x"}, note="n"))
    for field, value in (
        (Thing.views, 3),
        (Thing.price, 5),
        (Thing.hits, 7),
        (Thing.readings, {"a": 1.5}),
        (Thing.readings["a"], 1.5),
        (Thing.flags, {"x"}),
    ):
        assert db.one(Thing, name="t", only=[field])[field] == value
    db.update(Thing.primary(name="t"), increment(Thing.hits, 2))
    assert db.one(Thing, name="t", only=[Thing.hits])[Thing.hits] == 9


def test_fields_that_have_no_marker_any_more(db: Store, backend: Bigtable, prefix: str) -> None:
    db.put(Thing(name="t", hits=7, readings={"a": 1.5}, flags={"x"}))
    db.update(Thing.primary(name="t"), increment(Thing.hits, 2))
    with Store(plain, backend, prefix=prefix) as after:
        whole = after.one(Plain, name="t")
        part = after.one(Plain, name="t", only=[Plain.hits, Plain.readings, Plain.flags])
        assert (part[Plain.hits], part[Plain.readings], part[Plain.flags]) == (9, {"a": 1.5}, {"x"})
        assert (whole.hits, whole.readings, whole.flags) == (9, {"a": 1.5}, {"x"})


def test_returns_the_cells_of_the_fields(db: Store, received: list[Row]) -> None:
    db.put(Thing(name="t", readings={"a": 1.0, "b": 2.0}, note="n" * 999, rank=4))
    (part,) = db.query(Thing.primary(name="t"), only=[Thing.readings["a"], Thing.rank])
    assert (part[Thing.readings["a"]], part[Thing.rank]) == (1.0, 4)
    (row,) = received
    cells = {f"{cell.family}:{cell.qualifier.decode()}": cell.value for cell in row.cells}
    asked = {"d:_t", "d:name", "d:readings", "d:readings#a", "d:~r", "ranks:rank"}
    (other,) = cells.keys() - asked
    assert cells.keys() == asked | {other}
    assert cells[other] == b""  # one cell more, without its value: it would show a row of another program


@pytest.mark.parametrize("only", [None, [Lone.note]])
@pytest.mark.parametrize(
    "cells",
    [
        [SetCell("note", b"x", 1000)],
        [SetCell("other", b"", 1000)],
        [SetCell("~r", b"id", 1000)],
        [SetCell("_t", b"Stranger", 1000), SetCell("note", b"x", 1000)],
        [SetCell("x", b"\x00" * 8, 1000, "c")],
    ],
)
def test_rows_of_other_programs_are_met(db: Store, backend: Bigtable, prefix: str, cells: Any, only: Any) -> None:
    db.put(Thing(name="a", note="n"))
    connection = db._session.connection
    connection.call(MutateRow(f"{prefix}read", Entry("THING#b", tuple(cells))))
    with Store(alone, backend, prefix=prefix) as store:
        with pytest.raises(ItemInvalid):
            list(store.scan(Lone, only=only))
        with pytest.raises(ItemInvalid):
            store.get(Lone, name="b", only=only)
    with Store(alone, backend, prefix=prefix, on_unknown="skip") as skipping:
        assert len(list(skipping.scan(Lone, only=only))) == 1
        assert skipping.get(Lone, name="b", only=only) is None


def test_a_scan_does_not_fetch_other_entities(db: Store, received: list[Row]) -> None:
    for number in range(3):
        db.put(Other(name=f"o{number}"))
        db.put(Third(name=f"t{number}"))
        db.put(Thing(name=f"a{number}"))
    assert len(list(db.scan(Thing))) == 3
    assert len(received) == 3
    assert len(list(db.scan(Other))) == 3
    assert len(received) == 6
    assert len(list(db.scan())) == 9


def test_a_range_fetches_its_rows(db: Store, received: list[Row]) -> None:
    for number in range(9):
        db.put(Thing(name=f"a{number}"))
    assert len(list(db.scan(Thing, start={"name": "a3"}, stop={"name": "a5"}))) == 2
    assert len(received) == 2


def test_too_many_fields_are_read_with_the_whole_item(db: Store) -> None:
    members = {f"member-{number:04}": float(number) for number in range(600)}
    db.put(Thing(name="t", readings=members))
    part = db.one(Thing, name="t", only=[Thing.readings[name] for name in members])
    assert all(part[Thing.readings[name]] == value for name, value in members.items())
    few = db.one(Thing, name="t", only=[Thing.readings[name] for name in list(members)[:90]])
    assert few[Thing.readings["member-0089"]] == 89.0


def only(*names: str) -> Only:
    return Only("Thing", tuple(Path(tuple(name.split("."))) for name in ("_t", *names)))


def test_the_filter_is_no_larger_than_bigtable_allows() -> None:
    form = Form.of(marked.compile())
    made = selected.selected(form, only(*(f"readings.m{n}" for n in range(90))), frozenset(), listed=False)
    assert isinstance(made, Selected)
    assert size(made) <= MAX_BYTES
    large = only(*(f"readings.{'m' * 300}{n}" for n in range(90)))
    assert selected.selected(form, large, frozenset(), listed=False) is None


def test_a_row_is_narrowed_to_what_was_asked_for() -> None:
    made = selected.selected(Form.of(marked.compile()), only("note"), frozenset(), listed=False)
    assert isinstance(made, Selected)
    tag, note, other = (Cell("d", name, value) for name, value in ((b"_t", b"Thing"), (b"note", b"n"), (b"x", b"")))
    assert made.narrowed(Row(b"k", (tag, note, other))) == Row(b"k", (tag, note))
    assert made.narrowed(Row(b"k", (tag, note))) == Row(b"k", (tag, note))
    assert made.narrowed(Row(b"k", (note, other))) == Row(b"k", (note, other))  # it shows another program
    marks = Cell("d", b"_t", b"")
    assert made.narrowed(Row(b"k", (marks, other))) == Row(b"k", (marks, other))


@pytest.mark.parametrize(
    ("lo", "hi", "start", "end"),
    [
        ("A#1", "A#2", "A#1", "A#2"),
        ("A#1\0", "A#2\0", "A#1$", "A#2$"),
        ("A#", None, "A#", None),
    ],
)
def test_a_range_of_partitions_as_rows(lo: str, hi: str | None, start: str, end: str | None) -> None:
    row_keys = RowKeys.of(metering.compile())
    span = rows_of(Scan(partitions=Partitions(lo, hi), tag="Thing"), row_keys)
    assert (span.start, span.end) == (start, end)
    part = rows_of(Scan(partitions=Partitions(lo, hi), tag="Thing", part=Part("A#15", "B")), row_keys)
    assert (part.start, part.end) == ("A#15", end or "B")
    wide = rows_of(Scan(partitions=Partitions(lo, hi), tag="Thing"))
    assert (wide.start, wide.end) == (lo, hi)


def test_a_meter_counts_what_was_read(db: Store) -> None:
    db.put(Thing(name="t", note="n" * 9000))
    with db.meter() as whole:
        list(db.query(Thing.primary(name="t")))
    with db.meter() as part:
        list(db.query(Thing.primary(name="t"), only=[Thing.rank]))
        db.get(Thing, name="t", only=[Thing.rank])
        list(db.scan(Thing, only=[Thing.rank]))
    assert (whole.read_units, part.read_units) == (3, 3)


accounts, accounts_of_others = Table("accounts", row_style="verbatim"), Table("accounts", row_style="verbatim")


class User(Entity, table=accounts):
    id: str
    name: Annotated[str | None, InCell("f:name")] = None
    mail: Annotated[str | None, InCell("f:mail")] = None

    primary = PrimaryKey("user/{id}")


class Login(Entity, table=accounts):
    id: str
    at: Annotated[str | None, InCell("f:at")] = None

    primary = PrimaryKey("login/{id}")


class UserOfOthers(Entity, table=accounts_of_others):
    id: str
    at: Annotated[str | None, InCell("f:at")] = None
    name: Annotated[str | None, InCell("f:name")] = None

    primary = PrimaryKey("user/{id}")


def test_a_row_with_a_cell_of_another_kind_of_rows_is_found(bigtable_emulator: str) -> None:
    backend = Bigtable("project", "selected", endpoint=bigtable_emulator)
    with Store(accounts, backend) as db, Store(accounts_of_others, backend) as others:
        db.create()
        others.put(UserOfOthers(id="1", at="now", name="Ann"))
        db.put(Login(id="2", at="now"))
        for found in (db.get(User, id="1", only=[User.mail]), *db.scan(User, only=[User.mail])):
            assert found is not None
            assert found[User.mail] is None
        [part] = db.scan(Login, only=[Login.at])
        assert part[Login.at] == "now"
        db.drop()
