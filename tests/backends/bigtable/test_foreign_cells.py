"""Rows, cells and families of other programs in odm's tables: a scrub neither removes nor changes them."""

import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated, Any

import pytest

from odm import TTL, AccessPattern, Entity, PrimaryKey, Store, Table, increment
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.tables import apply
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import (
    ENTRIES,
    AppendValue,
    CheckAndMutateRow,
    Entry,
    Increment,
    MutateRow,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    SetCell,
)
from odm.backends.bigtable.client.native_admin import ModifyFamilies
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.maintenance import scrub as probes
from odm.backends.bigtable.maintenance import scrub as scrubs
from odm.backends.bigtable.maintenance.scrub import Scrubbed, scrub
from odm.backends.bigtable.rows.ownership import PROBE_PREFIX
from odm.backends.bigtable.writer import Writer
from odm.errors import BackendError, ItemInvalid, ItemNotFound
from odm.immutable import evolve
from odm.protocol.admin import silent
from odm.protocol.connection import perform, run
from odm.protocol.requests import BatchGet
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.families import kept
from tests.backends.bigtable.stopping import LEASE, Steps, Visit, World, pages

HOUR = 3600
OLD = 1_000_000
NUMBER = (7).to_bytes(8, "big")

tables = (pages, Table("flat"), Table("joined", row_key_join="##"))
_, flat, joined = tables


class Note(Entity, table=flat):
    note: str
    ends: Annotated[datetime | None, TTL] = None
    primary = PrimaryKey("NOTE#{note}")


class Memo(Entity, table=flat):
    memo: str
    primary = PrimaryKey("MEMO#{memo}")


class Step(Entity, table=joined):
    day: str
    step: str
    ends: Annotated[datetime | None, TTL] = None
    primary = PrimaryKey("DAY#{day}", "STEP#{step}")


class Place:
    """The tables of one test, with a family of another program in each."""

    def __init__(self, address: str, table: Table = pages) -> None:
        self.backend = Bigtable("project", "instance", endpoint=address)
        self.prefix = f"{uuid.uuid4().hex[:12]}-"
        self.table = table
        schema = table.compile()
        self.schema = evolve(schema, name=self.prefix + schema.name, prefix=self.prefix)
        self.db = Store(table, self.backend, prefix=self.prefix)
        self.db.create()
        self.send: Callable[[Any], Any] = self.backend.connect(Schema(name="any", entities={}, indexes={})).call
        for name in (self.schema.name, *self.indexes):
            self.send(ModifyFamilies(name, create=kept({"MD": 3})))

    @property
    def indexes(self) -> list[str]:
        return [f"{self.schema.name}.{index}" for index in self.schema.indexes]

    def close(self) -> None:
        self.db.drop()
        self.db.close()

    def set(self, row_key: str, *cells: SetCell, table: str = "") -> None:
        self.send(MutateRow(table or self.schema.name, Entry(row_key, cells)))

    def cells(self, table: str = "") -> dict[str, dict[str, bytes]]:
        """All cells of a table."""
        found: Read = self.send(ReadRows(table or self.schema.name, filter=Newest()))
        return {
            row.text: {f"{cell.family}:{cell.qualifier.decode()}": cell.value for cell in row.cells}
            for row in found.rows
        }

    def scrub(self, **options: Any) -> Scrubbed:
        return scrub(
            self.backend,
            self.table,
            **{"prefix": self.prefix, "clock": lambda: time.time() + 2 * HOUR, **options},
        )

    def ghost(self, row_key: str) -> None:
        """A ghost: what an increment leaves where there was no item, if its writer stops."""
        rules = (Increment("views", 1), AppendValue("_t", b""), AppendValue("~r", b""))
        self.send(ReadModifyWriteRow(self.schema.name, row_key, rules))


@pytest.fixture
def place(bigtable_emulator: str) -> Iterator[Place]:
    made = Place(bigtable_emulator)
    yield made
    made.close()


@pytest.fixture(params=["hash only", "joined by ##"])
def untyped(request: pytest.FixtureRequest, bigtable_emulator: str) -> Iterator[Place]:
    """A table whose row keys can be split without knowing the entity."""
    made = Place(bigtable_emulator, flat if request.param == "hash only" else joined)
    yield made
    made.close()


SYMBOL = SetCell("SYMBOL", b"GOOG", OLD, "MD")
NOT_GHOSTS: dict[str, tuple[SetCell, ...]] = {
    "another family": (SYMBOL,),
    "an attribute": (SetCell("readings#0000", b"1.5", OLD),),
    "another counter": (SetCell("foo", NUMBER, OLD, "c"),),
    "a counter without marks": (SetCell("views", NUMBER, OLD, "c"),),
    "one mark": (SetCell("_t", b"", OLD),),
    "the other mark": (SetCell("~r", b"", OLD), SetCell("views", NUMBER, OLD, "c")),
    "marks and an attribute": (SetCell("_t", b"", OLD), SetCell("~r", b"", OLD), SetCell("a", b"", OLD)),
    "marks and another counter": (SetCell("_t", b"", OLD), SetCell("~r", b"", OLD), SetCell("foo", NUMBER, OLD, "c")),
    "marks and another size": (SetCell("_t", b"", OLD), SetCell("~r", b"", OLD), SetCell("views", b"7", OLD, "c")),
    "a revision": (SetCell("_t", b"", OLD), SetCell("~r", b"r", OLD)),
    "bytes": (SetCell("_t", b"\xff", OLD),),
}


def test_an_expected_tag_is_left_out_and_no_other(place: Place) -> None:
    others = NOT_GHOSTS | {"map": (SetCell("_t", b"Map", OLD),), "page": (SetCell("_t", b"Page", OLD), SYMBOL)}
    for name, cells in others.items():
        place.set(f"{name}#PAGE", *cells)
    place.ghost("ghost#PAGE")
    keys = tuple(Key(name, "PAGE") for name in (*others, "ghost", "none"))
    connection = place.backend.connect(place.schema)
    every, some = (perform(connection, BatchGet(keys, tags=True, expected=tag)) for tag in (None, "Page"))
    connection.close()
    assert [key.partition for key, *two in zip(keys, every, some, strict=True) if two[0] != two[1]] == ["page"]


class TestGhosts:
    @pytest.mark.parametrize("cells", NOT_GHOSTS.values(), ids=NOT_GHOSTS)
    def test_a_row_that_is_not_a_ghost_stays(self, place: Place, cells: tuple[SetCell, ...]) -> None:
        place.set("AAPL", *cells)
        before = place.cells()
        assert place.scrub(expired=True).ghosts == 0
        assert place.cells() == before

    def test_a_ghost_is_removed_and_other_families_of_its_row_stay(self, place: Place) -> None:
        place.set("PAGE#a#DAY#1", SYMBOL)
        place.ghost("PAGE#a#DAY#1")
        assert place.scrub(clock=lambda: time.time() + 0.9 * HOUR).ghosts == 0
        assert place.scrub().ghosts == 1
        assert place.cells() == {"PAGE#a#DAY#1": {"MD:SYMBOL": b"GOOG"}}

    def test_a_row_of_another_family_is_not_read(self, place: Place) -> None:
        place.set("AAPL", SYMBOL)
        place.set("DAY#1##a##PAGE#a##DAY#1", SYMBOL, table=place.indexes[0])
        assert place.scrub(expired=True) == Scrubbed()

    def test_a_ghost_that_is_incremented_concurrently_stays(self, place: Place, bigtable_emulator: str) -> None:
        """The writer of that increment undoes it, and must find its cells."""
        place.ghost("PAGE#a#DAY#1")
        world = World(bigtable_emulator)
        rules = scrubs.Rules(0.001, clock=time.time)
        time.sleep(0.01)
        scrubber = Steps(world, scrubs.collect(Writer(place.schema), rules, lambda _: None))
        while not isinstance(scrubber.pending, CheckAndMutateRow):
            scrubber.step()
        place.ghost("PAGE#a#DAY#1")
        assert scrubber.run().answer.ghosts == 0
        assert place.cells()["PAGE#a#DAY#1"]["c:views"] == (2).to_bytes(8, "big")
        world.close()


class TestServerTime:
    def test_a_row_with_the_key_of_the_probe_stays(self, place: Place) -> None:
        cells = (SYMBOL, SetCell("_", b"", OLD), SetCell("~scrub-", b"", OLD), SetCell("~scrub-mine", b"x", OLD))
        place.set(probes.PROBE, *cells)
        before = place.cells()
        assert place.scrub(clock=None) == Scrubbed()
        assert place.cells() == before

    def test_two_scrubs_do_not_see_each_other(self, place: Place, bigtable_emulator: str) -> None:
        world = World(bigtable_emulator)
        writer = Writer(place.schema)
        scrubs = [Steps(world, probes.server_time(writer)) for _ in range(2)]
        while not all(one.done for one in scrubs):
            for one in scrubs:
                one.step()
        assert all(abs(one.answer / 1_000_000 - time.time()) < 60 for one in scrubs)
        assert place.cells() == {}
        world.close()

    def test_a_later_scrub_removes_an_old_probe(self, place: Place, bigtable_emulator: str) -> None:
        world = World(bigtable_emulator)
        Steps(world, probes.server_time(Writer(place.schema))).step()
        (left,) = place.cells()[probes.PROBE]
        place.set(probes.PROBE, SetCell("~scrub-" + "a" * 20, b"", OLD))
        place.scrub(clock=None)
        assert place.cells() == {probes.PROBE: {left: b""}}
        world.close()

    def test_a_probe_that_is_not_kept_is_an_error(self, place: Place) -> None:
        def forgetful(native: Any) -> Any:
            return Read() if isinstance(native, ReadRows) else place.send(native)

        with pytest.raises(BackendError, match="server's time"):
            run(probes.server_time(Writer(place.schema)), forgetful)


class TestExpired:
    def test_an_expired_item_of_no_entity_stays(self, untyped: Place) -> None:
        row_key = "DAY#1##STEP#1" if untyped.table is joined else "NOTE#1"
        untyped.set(row_key, SetCell("_t", b"Session", OLD), SetCell("_ttl", b"1", OLD), SetCell("~r", b"r", OLD))
        before = untyped.cells()
        assert untyped.scrub(expired=True).expired == 0
        assert untyped.cells() == before

    def test_an_attribute_is_not_a_ttl_if_its_entity_has_none(self, bigtable_emulator: str) -> None:
        place = Place(bigtable_emulator, flat)
        place.set("MEMO#1", SetCell("_t", b"Memo", OLD), SetCell("_ttl", b"1", OLD), SetCell("~r", b"r", OLD))
        assert place.scrub(expired=True).expired == 0
        assert "MEMO#1" in place.cells()
        place.close()

    def test_the_delete_checks_the_tag(self, untyped: Place, bigtable_emulator: str) -> None:
        row_key, tag = ("DAY#1##STEP#1", b"Step") if untyped.table is joined else ("NOTE#1", b"Note")
        expired = (SetCell("_ttl", b"1", OLD), SetCell("~r", b"r", OLD))
        untyped.set(row_key, SetCell("_t", tag, OLD), *expired)
        world = World(bigtable_emulator)
        rules = scrubs.Rules(LEASE, expired=True, clock=time.time)
        scrubber = Steps(world, scrubs.collect(Writer(untyped.schema), rules, lambda _: None)).run(1)
        untyped.set(row_key, SetCell("_t", b"Session", 2 * OLD))
        assert scrubber.run().answer.expired == 0
        assert untyped.cells()[row_key]["d:_t"] == b"Session"
        world.close()


class TestIndexTables:
    ROW = "DAY#1##a##PAGE#a##DAY#1"

    @pytest.mark.parametrize(
        ("row_key", "cell"),
        [
            (ROW, SetCell("q", b"", OLD, ENTRIES)),
            (ROW, SetCell("q", b"PAGE#b#DAY#1", OLD, ENTRIES)),
            (ROW, SetCell("", b"PAGE#a#DAY#1", OLD, ENTRIES)),
            (ROW, SetCell("q", b"PAGE#a#DAY#1", OLD, "MD")),
            ("AAPL", SetCell("q", b"PAGE#a#DAY#1", OLD, ENTRIES)),
            ("DAY#1##a##PAGE#a", SetCell("q", b"PAGE#a#", OLD, ENTRIES)),
        ],
        ids=["no value", "another value", "no qualifier", "another family", "another key", "a key without sort"],
    )
    def test_cells_that_are_not_claims_stay(self, place: Place, row_key: str, cell: SetCell) -> None:
        place.set(row_key, cell, table=place.indexes[0])
        before = place.cells(place.indexes[0])
        assert place.scrub().columns == 0
        assert place.cells(place.indexes[0]) == before

    @pytest.mark.parametrize("tag", [b"Visit", b"Alien"])
    def test_listed_entries_of_any_item_stay(self, place: Place, tag: bytes) -> None:
        """Also of an item of no entity, or with unreadable cells: only its list counts."""
        listed = SetCell("_ix", b'[["by_day", "DAY#1", "a", "q"]]', OLD)
        place.set("PAGE#a#DAY#1", SetCell("_t", tag, OLD), listed, SetCell("views", b"7", OLD, "c"))
        claims = (SetCell(name, b"PAGE#a#DAY#1", OLD, ENTRIES) for name in ("q", "gone"))
        place.set(self.ROW, *claims, table=place.indexes[0])
        assert place.scrub().columns == 1
        assert place.cells(place.indexes[0]) == {self.ROW: {"i:q": b"PAGE#a#DAY#1"}}

    def test_nothing_is_removed_if_the_list_cannot_be_read(self, place: Place) -> None:
        place.set("PAGE#a#DAY#1", SetCell("_t", b"Alien", OLD), SetCell("_ix", b"?", OLD))
        place.set(self.ROW, SetCell("q", b"PAGE#a#DAY#1", OLD, ENTRIES), table=place.indexes[0])
        assert place.scrub().columns == 0
        assert place.cells(place.indexes[0]) != {}

    def test_a_claim_is_removed_and_other_cells_of_its_row_stay(self, place: Place) -> None:
        claim = SetCell("gone", b"PAGE#a#DAY#1", OLD, ENTRIES)
        place.set(self.ROW, claim, SetCell("mine", b"x", OLD, ENTRIES), SYMBOL, table=place.indexes[0])
        assert place.scrub().columns == 1
        assert place.cells(place.indexes[0]) == {self.ROW: {"i:mine": b"x", "MD:SYMBOL": b"GOOG"}}

    def test_queries_ignore_rows_of_other_families(self, place: Place) -> None:
        place.db.put(Visit(page="a", day="1"))
        place.set("DAY#1##somebody else's", SYMBOL, table=place.indexes[0])
        assert [one.page for one in place.db.query(Visit.by_day(day="1"))] == ["a"]


VISIT = Visit(page="p", day="1")
VISITS = Visit.primary(page="p")
MEMO = Memo(memo="m")
MEMOS = Memo.primary(memo="m")


def _batch(db: Store, *puts: Entity, delete: tuple[Entity, ...] = ()) -> None:
    with db.batch() as batch:
        for entity in puts:
            batch.put(entity)
        for entity in delete:
            batch.delete(entity)


def _put_then(db: Store, entity: Entity, call: Callable[[], object]) -> None:
    db.put(entity)
    call()


WRITES: dict[str, Callable[[Store, Entity], object]] = {
    "put": lambda db, entity: db.put(entity),
    "insert": lambda db, entity: db.insert(entity),
    "batch": _batch,
    "put over": lambda db, entity: _put_then(db, entity, lambda: db.put(entity)),
    "delete": lambda db, entity: _put_then(db, entity, lambda: db.delete(entity)),
    "batch of a delete": lambda db, entity: _put_then(db, entity, lambda: _batch(db, delete=(entity,))),
    "delete_all": lambda db, entity: _put_then(
        db, entity, lambda: db.delete_all(VISITS if isinstance(entity, Visit) else MEMOS)
    ),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("table", "entity"), [(pages, VISIT), (flat, MEMO)], ids=["with an index", "plain"])
def test_writes_leave_other_families_alone(bigtable_emulator: str, table: Table, entity: Entity, write: str) -> None:
    place = Place(bigtable_emulator, table)
    row_key = "#".join(part for part in place.db.key_of(entity) if part)
    place.set(row_key, SYMBOL)
    WRITES[write](place.db, entity)
    assert place.cells()[row_key]["MD:SYMBOL"] == b"GOOG"
    place.close()


def test_an_increment_reports_another_programs_row(place: Place) -> None:
    place.set("PAGE#p#DAY#1", SetCell("readings", b"5", OLD))
    key = Visit.primary(page="p", day="1")
    with pytest.raises(ItemInvalid):
        place.db.update(key, increment(Visit.views))
    skipping = Store(pages, place.backend, prefix=place.prefix, on_unknown="skip")
    with pytest.raises(ItemNotFound):
        skipping.update(key, increment(Visit.views))
    assert place.cells()["PAGE#p#DAY#1"] == {"d:readings": b"5"}


UNREADABLE = {
    "a list of entries alone": {"d:_ix": b"5"},
    "a revision alone": {"d:~r": b"abc"},
    "a tag too deep": {"d:_t": b"[" * 200_000},
    "an alien's list": {"d:_t": b"Alien", "d:_ix": b"\xff"},
    "an alien's time": {"d:_t": b"Alien", "d:ends": b"[" * 200_000, "d:_ttl": b"{"},
}


@pytest.mark.parametrize("cells", UNREADABLE)
@pytest.mark.parametrize(("table", "entity"), [(pages, VISIT), (flat, MEMO)], ids=["with an index", "plain"])
def test_unreadable_rows_are_items_of_no_entity(
    bigtable_emulator: str, table: Table, entity: Entity, cells: str
) -> None:
    place = Place(bigtable_emulator, table)
    row_key = "#".join(part for part in place.db.key_of(entity) if part)
    foreign = UNREADABLE[cells]
    place.set(row_key, *(SetCell(name[2:], value, 1000) for name, value in foreign.items()))
    if table is pages:
        claim = SetCell("q", row_key.encode(), 1000, "i")
        place.set("DAY#1##p##PAGE#p##DAY#1", claim, table=place.indexes[0])
    query: Any = VISITS if isinstance(entity, Visit) else MEMOS
    calls: list[Callable[[Store], object]] = [
        lambda db: db.put(entity),
        lambda db: db.insert(entity),
        lambda db: _batch(db, entity),
        lambda db: _batch(db, delete=(entity,)),
        lambda db: db.delete(entity),
        lambda db: db.count(query),
        lambda db: list(db.query(query)),
        lambda db: list(db.scan()),
        lambda db: db.delete_all(query),
    ]
    for call in calls:
        with pytest.raises(ItemInvalid):
            call(place.db)
    skipping = Store(table, place.backend, prefix=place.prefix, on_unknown="skip")
    assert (skipping.count(query), list(skipping.scan()), skipping.delete_all(query)) == (0, [], 0)
    if table is pages:
        assert list(skipping.query(Visit.by_day(day="1"))) == []
    place.scrub(expired=True)
    assert place.cells()[row_key] == foreign
    place.close()


def test_the_row_of_a_probe_is_not_an_item(place: Place) -> None:
    place.set(probes.PROBE, SetCell(PROBE_PREFIX + "a" * 20, b"", OLD))
    place.db.put(VISIT)
    assert list(place.db.scan()) == [VISIT]


def test_an_unreadable_ttl_does_not_stop_a_scrub(place: Place) -> None:
    place.db.put(VISIT)
    for number, cell in enumerate((b"[[[", b"\xff", b"[" * 200_000)):
        place.set(f"PAGE#{number}#DAY#1", SetCell("_t", b"Visit", OLD), SetCell("_ttl", cell, OLD))
    assert place.scrub(expired=True).expired == 0


def test_an_index_of_items_of_no_entity_is_not_removed(place: Place) -> None:
    others = Table("pages")

    class Alien(Entity, table=others):
        page: str
        primary = PrimaryKey("ALIEN#{page}", "X")
        by_page = AccessPattern("PAGE#{page}")

    db = Store(others, place.backend, prefix=place.prefix)
    db.create()
    db.put(Alien(page="a"))
    before = place.cells(), place.cells(f"{place.schema.name}.by_page")
    retry = Retry(overall=5)
    with pytest.raises(BackendError, match=r"index 'by_page'.*not deleted: row 'ALIEN#a#X' .* tag 'Alien'"):
        run(apply(place.schema, retry, drop=True, tell=silent), place.backend.connect(place.schema).call)
    assert (place.cells(), place.cells(f"{place.schema.name}.by_page")) == before
    db.drop()


def test_a_tag_that_looks_like_a_number(bigtable_emulator: str) -> None:
    numbered = Table("numbered")

    class Page(Entity, table=numbered, tag="42"):
        page: str
        primary = PrimaryKey("PAGE#{page}")

    place = Place(bigtable_emulator, numbered)
    for _ in range(2):
        place.db.put(Page(page="a"))
    with place.db.batch() as batch:
        batch.put(Page(page="a"))
    assert place.db.get(Page, page="a") == Page(page="a")
    assert place.db.delete(Page, page="a")
    place.close()
