"""`scrub --repair` writes lost index rows, or a whole lost index table, again, while others write."""

import time
from collections.abc import Iterator

import pytest

from odm import AccessPattern, Entity, PrimaryKey, Table
from odm.backends.bigtable.client.native import DeleteColumn, Entry, MutateRow, MutateRows, ReadRows, SetCell
from odm.backends.bigtable.client.native_admin import DeleteTable
from odm.backends.bigtable.maintenance import scrub as scrubs
from odm.backends.bigtable.maintenance.scrub import Scrubbed, ascrub
from odm.backends.bigtable.writer import Writer
from odm.errors import BackendError, Throttled
from tests.backends.bigtable.stopping import LEASE, Steps, World
from tests.backends.bigtable.test_foreign_cells import OLD, SYMBOL, Place

desks = Table("desks")
fewer = Table("desks")


class Desk(Entity, table=desks):
    desk: str
    room: str
    owner: str | None = None
    primary = PrimaryKey("DESK#{desk}", "DATA")
    by_room = AccessPattern("ROOM#{room}", "{desk}")
    by_owner = AccessPattern("OWNER#{owner}", "{desk}")


class FewerDesk(Entity, table=fewer, tag="Desk"):
    desk: str
    room: str
    owner: str | None = None
    primary = PrimaryKey("DESK#{desk}", "DATA")
    by_owner = AccessPattern("OWNER#{owner}", "{desk}")


@pytest.fixture
def place(bigtable_emulator: str) -> Iterator[Place]:
    made = Place(bigtable_emulator, desks)
    for desk in "abc":
        made.db.put(Desk(desk=desk, room="1", owner="ann" if desk == "a" else None))
    yield made
    made.close()


@pytest.fixture
def world(bigtable_emulator: str) -> Iterator[World]:
    made = World(bigtable_emulator)
    yield made
    made.close()


def lose(place: Place) -> None:
    """Delete the index table of the rooms by hand."""
    place.send(DeleteTable(f"{place.schema.name}.by_room"))
    place.db.create()


def rooms(place: Place) -> dict[str, dict[str, bytes]]:
    return place.cells(f"{place.schema.name}.by_room")


def found(place: Place) -> list[str]:
    return [desk.desk for desk in place.db.query(Desk.by_room(room="1"))]


def repairer(place: Place, world: World) -> Steps:
    """Begin a repair."""
    rules = scrubs.Rules(LEASE, clock=time.time, repair=True)
    writer = Writer(place.schema, world.procedures().retry)
    return Steps(world, scrubs.collect(writer, rules, lambda _: None))


def to_writing(steps: Steps) -> Steps:
    while not isinstance(steps.pending, MutateRows):
        steps.step()
    return steps


def test_a_deleted_index_table_is_filled_again(place: Place) -> None:
    before = rooms(place)
    lose(place)
    for desk in place.db.scan(Desk):
        place.db.put(desk)
    assert found(place) == []  # writes do not repair it
    done = place.scrub(repair=True)
    assert (done.repaired, done.columns) == (3, 0)
    assert str(done).endswith("repaired: 3 index entries")
    assert rooms(place) == before
    assert found(place) == ["a", "b", "c"]
    assert place.scrub(repair=True).repaired == 0


async def test_in_an_event_loop(place: Place) -> None:
    lose(place)
    done = await ascrub(place.backend, desks, prefix=place.prefix, repair=True)
    assert done.repaired == 3


def test_a_scrub_repairs_only_on_request(place: Place) -> None:
    lose(place)
    assert place.scrub().repaired == 0
    assert rooms(place) == {}


def test_a_lost_column_is_written_again_and_others_stay(place: Place) -> None:
    (row_key, *_), table = rooms(place), f"{place.schema.name}.by_room"
    ((column, cell),) = rooms(place)[row_key].items()
    gone = DeleteColumn(column.removeprefix("i:"), "i")
    place.send(MutateRow(table, Entry(row_key, (gone, SetCell("other", cell, OLD, "i"), SYMBOL))))
    assert place.scrub(repair=True, lease=4e9).repaired == 1
    assert rooms(place)[row_key] == {column: cell, "i:other": cell, "MD:SYMBOL": b"GOOG"}


def test_nothing_is_written_if_no_entry_is_missing(place: Place, world: World) -> None:
    steps = repairer(place, world).run()
    assert {type(call) for call in steps.sent} == {ReadRows}
    assert steps.answer.repaired == 0


def test_entries_of_an_index_of_no_model_and_items_of_no_entity_are_left_alone(place: Place) -> None:
    lose(place)
    other = SetCell("_ix", b'[["by_owner", "OWNER#bob", "z", "q"]]', OLD)
    place.set("DESK#z#DATA", SetCell("_t", b"Table", OLD), SetCell("~r", b"r", OLD), other)
    place.set("DESK#x", SetCell("_t", b"Desk", OLD), SetCell("~r", b"r", OLD), other)  # not the row key of a desk
    broken = (SetCell("_t", b"Desk", OLD), SetCell("~r", b"r", OLD), SetCell("_ix", b"?", OLD))
    place.set("DESK#y#DATA", *broken)
    place.table = fewer
    assert place.scrub(repair=True).repaired == 0
    assert rooms(place) == {}


def test_it_continues_page_by_page(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubs, "PAGE_ROWS", 2)
    lose(place)
    told: list[Scrubbed] = []
    place.scrub(repair=True, tell=told.append, rate=1000.0)
    assert [one.repaired for one in told[:2]] == [2, 3]
    lose(place)
    assert place.scrub(repair=True, after=told[0].following).repaired == 1


def test_a_missing_table_is_an_error(place: Place) -> None:
    place.send(DeleteTable(f"{place.schema.name}.by_room"))
    with pytest.raises(BackendError, match=r"call store\.create"):
        place.scrub(repair=True)
    place.db.create()


class TestMeanwhile:
    def test_an_item_that_changes_before_the_second_read_is_skipped(self, place: Place, world: World) -> None:
        lose(place)
        steps = repairer(place, world).run(2)
        place.db.put(Desk(desk="b", room="2"))
        assert steps.run().answer.repaired == 2
        assert {key.split("##")[1] for key in rooms(place) if key.startswith("ROOM#1")} == {"a", "c"}

    @pytest.mark.parametrize("change", ["moves", "goes", "goes and comes", "moves there and back"])
    def test_a_later_scrub_removes_a_claim_of_an_item_that_changed(
        self, place: Place, world: World, change: str
    ) -> None:
        lose(place)
        steps = to_writing(repairer(place, world))
        self.change(place, change)
        steps.run()
        here = ["a", "c"] if change in ("moves", "goes") else ["a", "b", "c"]
        assert found(place) == here
        assert place.scrub(clock=time.time).columns == 0  # younger than the lease
        assert place.scrub().columns == 1
        assert found(place) == here
        self.check(place)

    def change(self, place: Place, change: str) -> None:
        if change.startswith("goes"):
            place.db.delete(Desk, desk="b")
        else:
            place.db.put(Desk(desk="b", room="2"))
        if change.endswith(("comes", "back")):
            place.db.put(Desk(desk="b", room="1"))

    def check(self, place: Place) -> None:
        """Every entry is listed, and every listed entry exists."""
        assert place.scrub(repair=True) == Scrubbed(rows=place.scrub(repair=True).rows)

    def test_a_repair_without_answers_is_throttled(self, place: Place, world: World) -> None:
        lose(place)
        steps = repairer(place, world)
        while not steps.done:
            if isinstance(steps.pending, MutateRows):
                steps.lose(performed=False)
            else:
                steps.step()
        assert isinstance(steps.error, Throttled)
        assert "could not be repaired" in str(steps.error)
