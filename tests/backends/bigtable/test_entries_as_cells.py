"""A dict over the columns of a family that other programs write, too: each entry is a cell, and its key the name."""

import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from random import Random
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, cast, get_args

import pytest
from google.cloud.bigtable.data import BigtableDataClient
from google.cloud.bigtable.data import SetCell as GoogleCell
from google.cloud.bigtable.data.mutations import Mutation
from pydantic import Field

from odm import (
    AsyncStore,
    BadValue,
    Cell,
    Columns,
    ConditionFailed,
    Entity,
    ItemInvalid,
    ItemNotFound,
    PrimaryKey,
    SchemaError,
    Store,
    Stored,
    Table,
    Unsupported,
    exists,
    field,
    increment,
    missing,
    remove,
    set_,
    set_if_missing,
    size,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.commands import Admin
from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    DeleteColumn,
    Entry,
    Increment,
    MutateRow,
    MutateRows,
    ReadModifyWriteRow,
    SetCell,
    Touched,
)
from odm.backends.bigtable.maintenance.drop_rows import LOOKED_AT, Dropper
from odm.backends.bigtable.writer import Writer
from odm.immutable import evolve
from odm.schema.lockfile import describe
from odm.schema.lockfile.compare import compare
from tests.backends.bigtable.test_exact_cells import FORMS
from tests.backends.bigtable.test_existing_rows import Place

meters = Table("meters", row_style="verbatim")


class Day(Entity, table=meters):
    """The readings of a day: one column for each quarter of an hour."""

    meter: str
    day: str
    unit: Annotated[str | None, Cell("m:unit", "text")] = None
    hours: Annotated[dict[str, int], Columns, Cell("h:", "int64be")] = Field(default_factory=dict)
    marks: Annotated[dict[str, str], Columns, Cell("m:mark.", "text")] = Field(default_factory=dict)
    names: Annotated[dict[str, str], Columns, Cell("n:", "text")] = Field(default_factory=dict)
    owner: Annotated[str | None, Cell("n:owner", "text")] = None

    primary = PrimaryKey("{meter}", "{day}")


KEY = Day.primary(meter="a", day="1")
FOREIGN: Final = {"m:mark": b"1", "m:marks": b"\xff", "m:zz": b"", "other:00": b"2", "x:h": b"3"}
CELLS: Final = {
    "h:0000": struct.pack(">q", 1),
    "h:0015": struct.pack(">q", -2),
    "h:2026-01-05T10": struct.pack(">q", 3),
    "m:mark.a": b"x",
    "m:mark.mark.": b"12.5",
    "m:unit": b"kWh",
    "n:owner": b"ann",
    "n:own": b"null",
    **FOREIGN,
}
DAY: Final = Day(
    meter="a",
    day="1",
    unit="kWh",
    hours={"0000": 1, "0015": -2, "2026-01-05T10": 3},
    marks={"a": "x", "mark.": "12.5"},
    names={"own": "null"},
    owner="ann",
)


@pytest.fixture
def place(bigtable_emulator: str) -> Iterator[Place]:
    opened = Place(bigtable_emulator, meters)
    opened.set("a#1", CELLS)
    yield opened
    opened.db.drop()
    opened.db.close()


def _without(*names: str) -> dict[str, dict[str, bytes]]:
    return {"a#1": {name: cell for name, cell in CELLS.items() if name not in names}}


@pytest.fixture
def client(bigtable_emulator: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BigtableDataClient]:
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    with BigtableDataClient(project="project") as made:
        yield made


def _google_cells(cells: dict[str, bytes]) -> list[Mutation]:
    parts = ((name.partition(":"), value) for name, value in cells.items())
    return [GoogleCell(family, name, value) for (family, _, name), value in parts]


def _rows(table: Any) -> dict[str, dict[str, bytes]]:
    """All cells, as Google's client reads them."""
    return {
        row.row_key.decode(): {f"{one.family}:{one.qualifier.decode()}": one.value for one in row.cells}
        for row in table.read_rows({})
    }


async def test_rows_of_googles_client(place: Place, client: BigtableDataClient) -> None:
    cells = _google_cells(CELLS)
    with client.get_table("instance", place.name) as table:
        table.mutate_row("a#2", cells)
        second = DAY.model_copy(update={"day": "2"})
        assert [*place.db.query(Day.primary(meter="a"))] == [DAY, second]
        place.db.put(second)
        with place.db.batch() as batch:
            batch.put(DAY)
        assert _rows(table) == {"a#1": CELLS, "a#2": CELLS}
        async with AsyncStore(meters, place.backend, prefix=place.prefix) as db:
            assert [day async for day in db.scan(Day)] == [DAY, second]
            await db.put(await db.one(KEY))
            await db.update(KEY, set_(Day.hours["0000"], 1), set_(Day.marks, DAY.marks), when=Day.hours["0015"] == -2)
        assert _rows(table) == {"a#1": CELLS, "a#2": CELLS}


def test_an_update_touches_the_entries_that_it_names(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    send = type(place.backend.connect(place.table.compile())).call

    def listen(self: Any, native: Any) -> Any:
        sent.append(native)
        return send(self, native)

    monkeypatch.setattr("odm.backends.bigtable.driver.BigtableConnection.call", listen)
    place.db.update(KEY, set_(Day.hours["0000"], 5), remove(Day.marks["a"]), increment(Day.hours["0015"], 2))
    (call,) = [one for one in sent if isinstance(one, CheckAndMutateRow)]
    columns = {f"{one.family}:{one.qualifier}" for one in call.matched if isinstance(one, SetCell | DeleteColumn)}
    assert columns == {"h:0000", "h:0015", "m:mark.a"}
    assert str(call.predicate).count("h:") == 1  # the entry that is incremented


def test_puts_and_deletes(place: Place) -> None:
    place.db.put(DAY.model_copy(update={"hours": {"2345": 1}, "marks": {"b": "y"}, "names": {}}))
    wanted = {"h:2345": struct.pack(">q", 1), "m:mark.b": b"y", "m:unit": b"kWh", "n:owner": b"ann", **FOREIGN}
    assert place.cells() == {"a#1": wanted}
    place.db.update(KEY, remove(Day.hours), set_(Day.marks, {}), set_(Day.names, {"z": "z"}))
    assert place.cells() == {"a#1": {"m:unit": b"kWh", "n:owner": b"ann", "n:z": b"z", **FOREIGN}}
    assert place.db.delete(KEY)
    assert place.cells() == {"a#1": FOREIGN}
    assert not place.db.delete(KEY)
    assert place.db.get(KEY) is None
    with pytest.raises(ItemNotFound):
        place.db.update(KEY, increment(Day.hours["0000"]))
    with pytest.raises(BadValue, match="would have no cell"):
        place.db.put(Day(meter="a", day="1"))
    assert place.cells() == {"a#1": FOREIGN}
    place.db.insert(Day(meter="a", day="1", marks={"c": "z"}))
    with pytest.raises(BadValue, match="would have no cell"):
        place.db.update(KEY, remove(Day.marks["c"]))
    with place.db.batch() as batch:
        batch.delete(KEY)
    assert place.cells() == {"a#1": FOREIGN}


def test_a_bulk_load(place: Place) -> None:
    days = [Day(meter="b", day=str(number), hours={str(n): n for n in range(50)}) for number in range(30)]
    with place.db.batch() as batch:
        for day in days:
            batch.put(day)
    assert sorted(place.db.query(Day.primary(meter="b")), key=lambda day: int(day.day)) == days
    assert place.db.delete_all(Day.primary(meter="b")) == 30
    assert place.cells() == {"a#1": CELLS}


def test_a_missing_entry_that_cannot_be_checked(place: Place) -> None:
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (set_(Day.unit, "W"), {"when": missing(Day.hours["9"])}, "missing cell h:9"),
        (set_if_missing(Day.hours["9"], 1), {}, "missing cell h:9"),
        (increment(Day.hours["9"]), {"when": missing(Day.hours["9"])}, "missing cell h:9"),
        (set_(Day.unit, "W"), {"when": size(Day.hours) > 1}, "all entries of a dict"),
        (set_(Day.unit, "W"), {"when": Day.hours == DAY.hours}, "depend on single entries"),
        (increment(Day.hours["9"]), {"when": size(Day.hours) > 1}, "all entries of a dict"),
        (set_(Day.unit, "W"), {"returning": "new"}, "leave out returning="),
    ]
    for action, options, says in refused:
        with pytest.raises(Unsupported, match=says):
            place.db.update(KEY, action, **options)
        assert place.cells() == {"a#1": CELLS}
    # conditions that hold for another form of the entry, too, depend on it alone
    held = (Day.hours["0000"] != 9) & (Day.hours["0015"] < 0) & (exists(Day.marks["a"]) | (Day.hours["0000"] > 0))
    place.db.update(KEY, set_(Day.unit, "kWh"), when=held)
    with pytest.raises(Unsupported, match="missing cell h:9"):
        place.db.update(KEY, set_(Day.unit, "W"), when=Day.hours["9"] != 9)
    # a cell of the item sorts after these
    place.db.update(KEY, set_if_missing(Day.hours["1"], 1), when=missing(Day.hours["11"]) & missing(Day.marks["b"]))
    place.db.update(KEY, remove(Day.hours["1"]), when=(size(Day.marks) == 2) & exists(Day.marks["a"]))
    with pytest.raises(ConditionFailed):
        place.db.update(KEY, remove(Day.hours["1"]), when=exists(Day.hours["1"]))
    assert place.cells() == {"a#1": CELLS}


async def test_the_async_store_refuses_the_same(place: Place) -> None:
    async with AsyncStore(meters, place.backend, prefix=place.prefix) as db:
        with pytest.raises(Unsupported, match="missing cell h:9"):
            await db.update(KEY, set_(Day.unit, "W"), when=missing(Day.hours["9"]))
        with pytest.raises(Unsupported, match="leave out returning="):
            await db.update(KEY, set_(Day.unit, "W"), returning="old")
        await db.update(KEY, increment(Day.hours["9"], 4))
    assert place.cells() == {"a#1": {**CELLS, "h:9": struct.pack(">q", 4)}}


def test_no_increment_is_lost(place: Place) -> None:
    """Also of entries that both programs begin at the same time."""

    def theirs() -> None:
        for number in range(40):
            rules = (Increment(f"n{number % 8}", 1, "h"),)
            place.send(ReadModifyWriteRow(place.name, "a#1", rules))

    def ours(keys: list[int]) -> None:
        for number in keys:
            place.db.update(KEY, increment(Day.hours[f"n{number % 8}"], 100))

    with ThreadPoolExecutor() as pool:
        for one in [pool.submit(theirs), pool.submit(ours, [*range(16)]), pool.submit(ours, [*range(16)][::-1])]:
            one.result()
    found = place.db.one(KEY).hours
    assert {key: found[key] for key in found if key.startswith("n")} == {f"n{number}": 405 for number in range(8)}


def test_a_write_that_depends_on_an_entry_loses_nothing(place: Place) -> None:
    read = place.db.one(KEY)
    place.set("a#1", {"h:0015": struct.pack(">q", 7), "h:0030": struct.pack(">q", 8)})
    place.db.update(read, increment(Day.hours["0015"]), set_(Day.hours["0000"], 0))
    assert place.db.one(KEY).hours == {"0000": 0, "0015": 8, "0030": 8, "2026-01-05T10": 3}
    with pytest.raises(ConditionFailed):
        place.db.update(read, set_(Day.unit, "W"), when=Day.hours["0015"] == -2)
    place.db.merge(KEY, set_(Day.hours["0045"], 1), remove(Day.hours["0030"]), set_(Day.names["b"], "c"))
    assert place.db.one(KEY).hours == {"0000": 0, "0015": 8, "0045": 1, "2026-01-05T10": 3}


STRAY: Final[dict[str, tuple[bytes, bytes, str]]] = {
    "another encoding": (b"0015", b"123", r"hours.0015, in the column h:0015, has the cell .*Cell\(..., \"text\"\)"),
    "no name": (b"", b"12345678", r"has the column h:, which is not an entry, because its name is empty: delete it"),
    "not UTF-8": (b"\xff\xfe", b"12345678", r"the column h:\\xff\\xfe, .* is not text in UTF-8"),
}


@pytest.mark.parametrize("which", STRAY)
def test_a_column_that_is_no_entry(place: Place, which: str) -> None:
    column, cell, says = STRAY[which]
    name = column.decode("utf-8", "surrogateescape")
    place.send(MutateRow(place.name, Entry("a#1", (SetCell(name, cell, 2_000_000_000_000_000, "h"),))))
    calls: list[Callable[[], Any]] = [
        lambda: place.db.get(KEY),
        lambda: list(place.db.query(Day.primary(meter="a"))),
        lambda: list(place.db.scan(Day, Day.hours["0000"] == 1)),
        lambda: place.db.count(Day.primary(meter="a")),
        lambda: place.db.update(KEY, increment(Day.hours["0000"])),
        lambda: place.db.update(KEY, set_(Day.unit, "W"), when=Day.hours["0000"] == 1),
    ]
    for call in calls:
        with pytest.raises(ItemInvalid, match=says):
            call()
    errors: list[ItemInvalid] = []
    db = Store(meters, place.backend, prefix=place.prefix, on_invalid=errors.append)
    assert ([*db.query(Day.primary(meter="a"))], len(errors)) == ([], 1)
    place.db.update(KEY, set_(Day.unit, "W"), set_(Day.hours["0000"], 5))  # these need no other entry
    place.db.update(KEY, set_(Day.hours, DAY.hours), set_(Day.unit, "kWh"))
    assert place.cells() == {"a#1": CELLS}
    place.send(MutateRow(place.name, Entry("a#1", (SetCell(name, cell, 2_000_000_000_000_000, "h"),))))
    place.db.put(DAY)
    assert place.cells() == {"a#1": CELLS}


def test_a_column_of_another_field_is_no_entry(place: Place) -> None:
    with pytest.raises(BadValue, match="the cell is that of the attribute 'owner': take another key"):
        place.db.put(DAY.model_copy(update={"names": {"owner": "bob"}}))
    with pytest.raises(BadValue, match="take another key"):
        place.db.update(KEY, set_(Day.names["owner"], "bob"))
    with pytest.raises(BadValue, match="Bigtable allows 16384"):
        place.db.update(KEY, set_(Day.hours["k" * 16385], 1))
    assert place.cells() == {"a#1": CELLS}


def test_a_row_of_no_entity_is_reported(place: Place) -> None:
    place.set("other", {"h:00": b"x"})
    place.set("none", {"m:mark": b"x", "x:z": b"y"})  # no column of the model
    with pytest.raises(ItemInvalid, match="on_unknown"):
        list(place.db.scan())
    skipping = Store(meters, place.backend, prefix=place.prefix, on_unknown="skip")
    assert list(skipping.scan()) == [DAY]


kinds = Table("kinds", row_style="verbatim")


class Site(Entity, table=kinds, match=field("kind") == "site"):
    id: str
    kind: Annotated[Literal["site"], Cell("k:kind", "text")] = "site"
    hits: Annotated[dict[str, int], Columns, Cell("h:", "int64be")] = Field(default_factory=dict)

    primary = PrimaryKey("{id}")


class Page(Entity, table=kinds, match=field("kind") == "page"):
    id: str
    kind: Annotated[Literal["page"], Cell("k:kind", "text")] = "page"
    days: Annotated[dict[str, str], Columns, Cell("h:d", "text")] = Field(default_factory=dict)
    title: Annotated[str, Cell("h:title", "text")] = ""

    primary = PrimaryKey("{id}")


def test_two_classes_with_columns_of_one_family(bigtable_emulator: str) -> None:
    place = Place(bigtable_emulator, kinds)
    site, page = Site(id="s", hits={"d1": 1, "title": 2}), Page(id="p", days={"1": "x"}, title="t")
    place.db.put(site)
    place.db.put(page)
    assert sorted(place.db.scan(), key=str) == sorted([site, page], key=str)
    place.set("p", {"h:x": b"y"})
    place.set("n", {"h:d1": b"y"})
    for call in (
        lambda: place.db.get(Site, id="n"),
        lambda: place.db.put(Page(id="n")),
        lambda: place.db.put(Site(id="p")),
    ):
        with pytest.raises(ItemInvalid):
            call()
    place.db.update(
        Site.primary(id="s"), increment(Site.hits["d1"]), increment(Site.hits["z"]), when=Site.kind == "site"
    )
    place.db.put(page.model_copy(update={"days": {"2": "z"}}))
    assert place.db.delete(Site, id="s")
    assert place.cells() == {"p": {"k:kind": b"page", "h:d2": b"z", "h:title": b"t", "h:x": b"y"}, "n": {"h:d1": b"y"}}
    place.db.drop()
    place.db.close()


logs = Table("logs", row_style="verbatim")


class Log(Entity, table=logs):
    host: str
    lines: Annotated[dict[str, list[int]], Columns, Cell("l:", "json")] = Field(default_factory=dict)

    primary = PrimaryKey("{host}")


def _of_entries(annotation: Any) -> Any:
    """The annotation of a dict whose values have the form of this one."""
    type_, *marks = get_args(annotation)
    inner = [mark for mark in marks if not isinstance(mark, Cell | Stored)]
    value = Annotated[(type_, *inner)] if inner else type_
    outer = [mark if isinstance(mark, Stored) else Cell("D:", mark.encoding) for mark in marks if mark not in inner]
    return Annotated[(GenericAlias(dict, (str, value)), Columns, *outer)]


@pytest.mark.parametrize("number", range(len(FORMS)), ids=[f"{one[0]!r}" for one in FORMS])
def test_the_form_of_an_entry_is_refused_or_declared(bigtable_emulator: str, number: int) -> None:
    cell, wrong, says, right, value = FORMS[number]
    for annotation in (right, wrong):
        table = Table(f"entries-{number}", row_style="verbatim")
        body = {"__annotations__": {"id": str, "x": _of_entries(annotation)}, "primary": PrimaryKey("{id}")}
        cls: Any = type("Product", (Entity,), body, table=table)
        place = Place(bigtable_emulator, table)
        place.set("1", {"D:a": cell})
        if annotation is right:
            found = place.db.one(cls, id="1")
            place.db.put(found)
            assert place.cells() == {"1": {"D:a": cell}}
            if value is not None:
                assert found.x == {"a": value}
                assert list(place.db.scan(cls, cls.x["a"] == value)) == [found]
        elif says:
            there = exists(cls.x["a"])
            for read in (
                lambda: place.db.get(cls, id="1"),  # noqa: B023
                lambda: list(place.db.scan(cls)),  # noqa: B023
                lambda: place.db.delete(cls.primary(id="1"), when=there),  # noqa: B023
            ):
                with pytest.raises(ItemInvalid, match=r"does not fit the model: x.a, in the column D:a,") as refused:
                    read()
                assert says in str(refused.value)
        place.db.drop()
        place.db.close()


visits = Table("visits", row_style="verbatim")


class Visit(Entity, table=visits):
    host: str
    pages: Annotated[dict[str, dict[str, int]], Columns, Cell("p:", "json")] = Field(default_factory=dict)
    last: Annotated[dict[str, int], Cell("m:last", "json")] = Field(default_factory=dict)

    primary = PrimaryKey("{host}")


def test_a_part_of_a_cell_that_cannot_be_read_is_not_changed(bigtable_emulator: str) -> None:
    place = Place(bigtable_emulator, visits)
    place.set("a", {"p:x": b"{", "p:y": b'{"n": 1}', "m:last": b"{"})
    before, key = place.cells(), Visit.primary(host="a")
    for action in (set_(Visit.pages["x"]["n"], 2), remove(Visit.last["n"]), increment(Visit.pages["y"]["n"])):
        with pytest.raises(ItemInvalid):
            place.db.update(key, action)
    assert place.cells() == before
    place.db.update(key, remove(Visit.pages["x"]), set_(Visit.last, {"n": 1}))
    place.db.update(key, increment(Visit.pages["y"]["n"]), set_(Visit.pages["y"]["m"], 3))
    assert place.db.one(key) == Visit(host="a", pages={"y": {"n": 2, "m": 3}}, last={"n": 1})
    place.db.drop()
    place.db.close()


def test_a_plan_names_what_a_put_would_change(bigtable_emulator: str) -> None:
    place = Place(bigtable_emulator, logs)
    admin = Admin(place.backend, evolve(logs.compile(), name=place.name, prefix=place.prefix))
    for number in range(3):
        place.set(f"h{number}", {"l:a": b"[1, 2]", "l:b": b"[]", "other:x": b"y"})
    (kept,) = admin.survey(100).findings
    assert (kept.level, kept.where) == ("safe", "Log: other:x")
    place.set("h1", {"l:a": b"[1,2]", "l:c": b"[ 1]", "l:d": b"[1]"})
    place.set("h2", {"l:a": b"[2,1]"})
    (finding,) = (one for one in admin.survey(100).findings if one != kept)
    assert (finding.level, finding.where, finding.change) == ("rewrites", "Log: l:*", "other form")
    assert "2 of 3 items read have another form of it, such as h1; a put changes it" in finding.effect
    assert ("l:a" in finding.was, "l:c" in finding.was, "l:d" in finding.was) == (True, True, False)
    place.set("h0", {"l:a": b"?"})
    assert {one.level for one in admin.survey(100).findings} == {"rewrites", "unknown", "safe"}
    place.db.drop()
    place.db.close()


def test_a_drop_of_rows_counts_entries_as_cells_of_the_models(bigtable_emulator: str) -> None:
    place = Place(bigtable_emulator, logs)
    every = tuple(Entry(f"h{number:03}", (SetCell(f"{number}", b"[]", 0, "l"),)) for number in range(LOOKED_AT + 2))
    place.send(MutateRows(place.name, every))
    schema = evolve(logs.compile(), name=place.name, prefix=place.prefix)
    assert Dropper(place.backend, schema, "h").look().foreign is None
    place.set("h101", {"x:z": b"y"})
    assert Dropper(place.backend, schema, "h").look().foreign == "h101"
    place.db.drop()
    place.db.close()


def test_a_lock_distinguishes_a_cell_from_entries() -> None:
    tables = [Table("locked", row_style="verbatim") for _ in range(2)]
    for table, marks in zip(tables, [(Columns, Cell("f:x", "json")), (Cell("f:x", "json"),)], strict=True):
        annotations = {"id": str, "x": Annotated[(dict[str, int], *marks)]}
        type("Locked", (Entity,), {"__annotations__": annotations, "primary": PrimaryKey("{id}")}, table=table)
    old, new = (describe(table.compile()) for table in tables)
    assert ("orphans", "cell", "f:x* json", "f:x json") in {
        (one.level, one.change, one.was, one.now) for one in compare("locked", old, new)
    }


def test_the_change_feed_finds_their_items(place: Place) -> None:
    places = Writer(place.table.compile()).places
    for family, column in (("h", b"x"), ("h", None), ("m", b"mark.q"), ("m", b"unit"), (None, None)):
        assert places.touched("a#1", [Touched(family, column)]) == ["a#1"], (family, column)
    for family, column in (("m", b"mark"), ("other", b"h"), ("other", None)):
        assert places.touched("a#1", [Touched(family, column)]) == [], (family, column)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no cell": ({"x": Annotated[dict[str, int], Columns]}, "name their family and encoding"),
    "a set": ({"x": Annotated[set[str], Columns, Cell("f:")]}, "only a dict can have a cell for each entry"),
    "None": ({"x": Annotated[dict[str, int] | None, Columns, Cell("f:")]}, "which is never None"),
    "values that are None": (
        {"x": Annotated[dict[str, int | None], Columns, Cell("f:", "int64be")]},
        "has no bytes for None",
    ),
    "values that do not fit": ({"x": Annotated[dict[str, str], Columns, Cell("f:", "int64be")]}, "has values of type"),
    "a default": ({"x": (Annotated[dict[str, int], Columns, Cell("f:")], {"a": 1})}, "so its default is one"),
    "two prefixes": (
        {"x": Annotated[dict[str, int], Columns, Cell("f:a")], "y": Annotated[dict[str, int], Columns, Cell("f:ab")]},
        "prefixes of which none begins with the other",
    ),
    "match=": ({"x": Annotated[dict[str, int], Columns, Cell("f:")], "match": exists(field("x"))}, "match= cannot ask"),
    "another stored form": (
        {"x": Annotated[dict[str, int], Columns, Cell("f:"), Stored("y")], "other": Annotated[str, Stored("y")]},
        "a single cell in another class",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str) -> None:
    fields, says = FAULTS[fault]
    table = Table("faulty", row_style="verbatim")
    options = {"match": fields["match"]} if "match" in fields else {}
    body: dict[str, Any] = {"__annotations__": {"id": str}, "primary": PrimaryKey("A", "{id}")}
    for name in fields.keys() & {"x", "y"}:
        annotation, default = fields[name] if isinstance(fields[name], tuple) else (fields[name], ...)
        body["__annotations__"][name] = annotation
        body |= {} if default is ... else {name: default}
    type("Faulty", (Entity,), body, table=table, **options)
    if "other" in fields:
        body = {"__annotations__": {"id": str, "z": fields["other"]}, "primary": PrimaryKey("B", "{id}")}
        type("Other", (Entity,), body, table=table)
    with pytest.raises(SchemaError, match=says):
        Bigtable("project", "instance", endpoint="localhost:1").connect(table.compile())


def test_rows_of_odm_have_members_in_columns_of_their_own() -> None:
    table = Table("own")
    annotations = {"id": str, "x": Annotated[dict[str, int], Columns, Cell("f:")]}
    type("Own", (Entity,), {"__annotations__": annotations, "primary": PrimaryKey("{id}")}, table=table)
    with pytest.raises(SchemaError, match="for rows of other programs"):
        table.compile()


VALUES: Final[dict[str, tuple[Any, Callable[[Random], Any], Callable[[Any], bytes]]]] = {
    "int64be": (int, lambda random: random.randrange(-9, 10), lambda value: struct.pack(">q", value)),
    "int8": (int, lambda random: random.randrange(-9, 10), lambda value: struct.pack(">b", value)),
    "float64be": (float, lambda random: random.randrange(-9, 9) / 4, lambda value: struct.pack(">d", value)),
    "text": (str, lambda random: random.choice(["", "a", "12", "null", "'x", "Ä"]), lambda value: str(value).encode()),
    "json": (
        list[int],
        lambda random: [random.randrange(3)] * random.randrange(3),
        lambda value: str(value).encode(),
    ),
    "bytes": (bytes, lambda random: random.randbytes(random.randrange(4)), bytes),
    "hbase_bool": (bool, lambda random: random.random() < 0.5, lambda value: b"\xff" if value else b"\0"),
}
KEYS: Final = ("0", "00", "a", "m00", "m05", "m\x7f", "mä", "2026-01-05T10", "#", "$S", "z.z", "\U0001f600")
CALLS: Final = ("put", "set", "set entry", "remove entry", "increment", "condition", "filter", "merge")


class _Random:
    """A model with random families, rows that Google's client writes, and what a store has to show of them."""

    def __init__(self, random: Random, number: int) -> None:
        self.random = random
        self.table = Table(f"random{number}", row_style="verbatim")
        self.fields: dict[str, tuple[str, str, str]] = {"last": ("a", "~last", "text")}
        annotations: dict[str, Any] = {"id": str, "last": Annotated[str, Cell("a:~last", "text")]}
        body: dict[str, Any] = {"__annotations__": annotations, "primary": PrimaryKey("R", "{id}")}
        for family in random.sample("abc", random.randrange(1, 4)):
            for prefix in random.choice([[""], ["m"], ["m0", "m\x7f"]]):
                encoding = random.choice([*VALUES])
                name = f"d{len(self.fields)}"
                self.fields[name] = (family, prefix, encoding)
                made: Any = GenericAlias(dict, (str, VALUES[encoding][0]))
                annotations[name] = Annotated[made, Columns, Cell(f"{family}:{prefix}", cast("Any", encoding))]
                body[name] = Field(default_factory=dict)
        self.cls: Any = type("Rand", (Entity,), body, table=self.table)

    @property
    def dicts(self) -> list[str]:
        return [name for name in self.fields if name != "last"]

    def value(self, name: str) -> Any:
        return VALUES[self.fields[name][2]][1](self.random)

    def entries(self, name: str) -> dict[str, Any]:
        return {key: self.value(name) for key in self.random.sample(KEYS, self.random.randrange(5))}

    def item(self, id: str) -> Any:
        return self.cls(id=id, last="x", **{name: self.entries(name) for name in self.dicts})

    def cells(self, item: Any) -> dict[str, bytes]:
        made = {"a:~last": item.last.encode()}
        for name in self.dicts:
            family, prefix, encoding = self.fields[name]
            made |= {f"{family}:{prefix}{key}": VALUES[encoding][2](v) for key, v in getattr(item, name).items()}
        return made

    def foreign(self) -> dict[str, bytes]:
        """Cells that the model does not have."""
        spans = [self.fields[name][:2] for name in self.dicts]
        names = [(family, key) for family in "abcx" for key in (*KEYS, "l", "m", "n", "")]
        return {
            f"{family}:{key}": b"theirs"
            for family, key in self.random.sample(names, 8)
            if not any(family == its and key.startswith(prefix) for its, prefix in spans)
        }


@pytest.mark.parametrize("seed", range(8))
def test_random_families(bigtable_emulator: str, client: BigtableDataClient, seed: int) -> None:
    made = _Random(Random(seed), seed)
    place = Place(bigtable_emulator, made.table)
    cls, random = made.cls, made.random
    place.set("none", {"other:x": b"y"})  # the families exist
    items: dict[str, Any] = {id: made.item(id) for id in "pqr"}
    foreign = {id: made.foreign() for id in "pqr"}
    for missing_family in {"a", "b", "c", "x"} - {"x", *(family for family, _, _ in made.fields.values())}:
        foreign = {id: {n: c for n, c in its.items() if n[0] != missing_family} for id, its in foreign.items()}

    def check(step: object) -> None:
        wanted = {f"R#{id}": {**made.cells(item), **foreign[id]} for id, item in items.items()}
        assert {key: its for key, its in _rows(table).items() if key != "none"} == wanted, step
        assert {one.id: one for one in place.db.scan(cls)} == items, step

    with client.get_table("instance", place.name) as table:
        for id, item in items.items():
            cells = {**made.cells(item), **foreign[id]}
            table.mutate_row(f"R#{id}", _google_cells(cells))
        check("read")
        for id in items:
            place.db.put(place.db.one(cls, id=id))
        check("put")
        for step in range(25):
            id, name = random.choice([*items]), random.choice(made.dicts)
            key, value, reference = random.choice(KEYS), made.value(name), getattr(cls, name)
            before = items[id]
            held = dict(getattr(before, name))
            target = cls.primary(id=id)
            call = random.choice(
                ("put", "set", "set entry", "remove entry", "increment", "condition", "filter", "merge")
            )
            if call == "put":
                items[id] = made.item(id)
                place.db.put(items[id])
                held = dict(getattr(items[id], name))
            elif call == "set":
                held = made.entries(name)
                place.db.update(target, set_(reference, held))
            elif call == "set entry":
                held[key] = value
                place.db.update(target, set_(reference[key], value))
            elif call == "remove entry":
                held.pop(key, None)
                place.db.update(target, remove(reference[key]))
            elif call == "merge":
                held[key] = value
                place.db.merge(target, set_(cls.last, "x"), set_(reference[key], value))
            elif call == "increment" and isinstance(value, int | float) and not isinstance(value, bool):
                held[key] = held.get(key, 0) + 1
                place.db.update(target, increment(reference[key], Decimal(1) if isinstance(value, float) else 1))
            elif call == "condition" and key in held:
                held[key] = value
                place.db.update(target, set_(reference[key], value), when=reference[key] == getattr(before, name)[key])
            elif call == "filter":
                found = {one.id for one in place.db.query(cls.primary().where(reference[key] == value))}
                assert found == {id for id, one in items.items() if getattr(one, name).get(key) == value}, step
                there = {one.id for one in place.db.query(cls.primary().where(exists(reference[key])))}
                assert there == {id for id, one in items.items() if key in getattr(one, name)}, step
            items[id] = items[id].model_copy(update={name: held})
            check((step, call, name, key))
        for id in [*items]:
            assert place.db.delete(cls.primary(id=id))
            del items[id]
        left = {f"R#{id}": its for id, its in foreign.items() if its}
        assert {key: its for key, its in _rows(table).items() if key != "none"} == left
    place.db.drop()
    place.db.close()


def test_a_literal_key(bigtable_emulator: str) -> None:
    table = Table("literal", row_style="verbatim")
    annotation = Annotated[dict[Literal["a", "b"], int], Columns, Cell("f:", "int8")]
    body = {"__annotations__": {"id": str, "x": annotation}, "primary": PrimaryKey("{id}"), "x": Field({})}
    cls: Any = type("Keyed", (Entity,), body, table=table)
    place = Place(bigtable_emulator, table)
    place.db.put(cls(id="1", x={"a": 1}))
    place.set("1", {"f:c": b"\x05"})
    with pytest.raises(ItemInvalid, match=r"x.c, in the column f:c, has a key that dict\[.*declare the keys as str"):
        place.db.get(cls, id="1")
    place.db.drop()
    place.db.close()
