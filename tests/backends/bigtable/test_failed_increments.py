"""Increments that find no item, or an item of another program: they are reverted, and nothing else changes."""

import time
import uuid
from collections.abc import Iterator
from itertools import permutations
from typing import Annotated, Any

import pytest

from odm import Counter, Entity, PrimaryKey, Store, Table, increment
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    Entry,
    MutateRow,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    SetCell,
)
from odm.backends.bigtable.client.native_admin import ModifyFamilies
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.maintenance.scrub import scrub
from odm.backends.bigtable.requests import Procedures
from odm.errors import ItemInvalid, ItemNotFound
from odm.expressions.nodes import Increment, Path
from odm.immutable import evolve
from odm.protocol.connection import run
from odm.protocol.predicates import EXISTS
from odm.protocol.requests import Delete, Put, Refused, Update, Written
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.families import kept
from tests.backends.bigtable.stopping import Steps, World

OLD = 1_000_000
NUMBER = (7).to_bytes(8, "big")
songs = Table("songs")


class Song(Entity, table=songs):
    song: str
    views: Annotated[int, Counter] = 0
    likes: Annotated[int, Counter] = 0
    primary = PrimaryKey("SONG#{song}", "DATA")


KEY, ROW = Key("SONG#a", "DATA"), "SONG#a#DATA"
ITEM = {"_t": "Song", "song": "a", "views": 10}


class Place:
    """A table of songs with a family of another program."""

    def __init__(self, address: str) -> None:
        self.world = World(address)
        self.prefix = f"{uuid.uuid4().hex[:12]}-"
        self.backend = Bigtable("project", "instance", endpoint=address)
        self.schema = evolve(songs.compile(), name=f"{self.prefix}songs", prefix=self.prefix)
        self.db = Store(songs, self.backend, prefix=self.prefix)
        self.db.create()
        self.send = self.backend.connect(Schema(name="any", entities={}, indexes={})).call
        self.send(ModifyFamilies(self.schema.name, create=kept({"MD": 3})))

    def close(self) -> None:
        self.db.drop()
        self.world.close()

    def set(self, *cells: SetCell) -> None:
        self.send(MutateRow(self.schema.name, Entry(ROW, cells)))

    @property
    def cells(self) -> dict[str, bytes]:
        """The newest cells of the row."""
        found: Read = self.send(ReadRows(self.schema.name, keys=(ROW,), filter=Newest()))
        return {f"{cell.family}:{cell.qualifier.decode()}": cell.value for row in found.rows for cell in row.cells}

    def do(self, request: Any) -> Any:
        return run(self.procedures().steps(request), self.send)

    def procedures(self) -> Procedures:
        """The procedures of a new writer, whose clock only pauses move."""
        return Procedures(self.schema, Retry(clock=self.world.clock, jitter=lambda: 1.0))

    def count(self, by: int = 3, tag: str = "Song", **own: Any) -> Steps:
        """Begin an increment."""
        update = Update(KEY, (Increment(Path(("views",)), by),), tag=tag, **own)
        return Steps(self.world, self.procedures().steps(update))


@pytest.fixture
def place(bigtable_emulator: str) -> Iterator[Place]:
    made = Place(bigtable_emulator)
    yield made
    made.close()


SYMBOL = SetCell("SYMBOL", b"GOOG", OLD, "MD")
ROWS: dict[str, tuple[SetCell, ...]] = {
    "no row": (),
    "another family": (SYMBOL,),
    "an attribute": (SetCell("readings#0000", b"1.5", OLD),),
    "a counter": (SetCell("views", NUMBER, OLD, "c"), SYMBOL),
    "a counter that becomes 0": (SetCell("views", (-3 % 2**64).to_bytes(8, "big"), OLD, "c"),),
    "another counter": (SetCell("foo", NUMBER, OLD, "c"),),
    "a revision": (SetCell("~r", b"mine", OLD),),
}


class TestWithoutAnItem:
    @pytest.mark.parametrize("cells", ROWS.values(), ids=ROWS)
    def test_the_row_is_as_before(self, place: Place, cells: tuple[SetCell, ...]) -> None:
        if cells:
            place.set(*cells)
        before = place.cells
        with pytest.raises((ItemNotFound, ItemInvalid)):
            place.db.update(Song.primary(song="a"), increment(Song.views, 3), increment(Song.likes, 1))
        assert place.cells == before

    @pytest.mark.parametrize("cells", [(), ROWS["a counter"]], ids=["no row", "a counter"])
    @pytest.mark.parametrize("amounts", [(3, 3), (3, -3), (-7, 3), (1, -8), (3, -3, 3)], ids=str)
    def test_several_at_the_same_time_are_all_undone(
        self, place: Place, amounts: tuple[int, ...], cells: tuple[SetCell, ...]
    ) -> None:
        for order in permutations(range(len(amounts))):
            if cells:
                place.set(*cells)
            before = place.cells
            writers = [place.count(by) for by in amounts]
            for writer in writers:
                writer.run(1)
            for number in order:
                writers[number].run()
            assert [writer.answer for writer in writers] == [Refused(None)] * len(amounts)
            assert place.cells == before

    def test_several_step_by_step(self, place: Place) -> None:
        place.set(*ROWS["a counter"])
        before = place.cells
        writers = [place.count(by) for by in (3, 4)]
        while not all(writer.done for writer in writers):
            for writer in writers:
                if not writer.done:
                    writer.step()
        assert place.cells == before

    def test_a_concurrently_put_item_gets_the_increment_once(self, place: Place) -> None:
        writer = place.count(4).run(1)
        place.do(Put(KEY, {**ITEM, "views": 3}))
        assert writer.run().answer == Written()
        assert place.cells["c:views"] == (3 + 4).to_bytes(8, "big")

    def test_a_concurrently_put_and_deleted_item_leaves_no_item(self, place: Place) -> None:
        writer = place.count().run(1)
        place.do(Put(KEY, ITEM))
        place.do(Delete(KEY))
        assert writer.run().answer == Refused(None)
        assert place.db.get(Song, song="a") is None
        place.db.insert(Song(song="a"))
        assert place.db.one(Song, song="a").views == 0

    @pytest.mark.parametrize("performed", [True, False])
    def test_undoing_is_not_applied_twice_after_a_lost_answer(self, place: Place, performed: bool) -> None:
        place.set(*ROWS["a counter"])
        before = place.cells
        writer = place.count().run(1)
        assert isinstance(writer.pending, CheckAndMutateRow)
        writer.lose(performed=performed)
        assert writer.run().answer == Refused(None)
        assert place.cells == before

    def test_a_failure_to_undo_is_logged(self, place: Place, caplog: pytest.LogCaptureFixture) -> None:
        writer = place.count().run(1)
        while not writer.done:
            if isinstance(writer.pending, CheckAndMutateRow):
                writer.lose(performed=False)
            else:
                writer.step()
        assert writer.answer == Refused(None)
        assert "odm scrub removes it" in caplog.text
        assert place.cells == {"c:views": (3).to_bytes(8, "big"), "d:_t": b"", "d:~r": b""}


@pytest.mark.parametrize("version", [None, 1])
class TestOfATag:
    def test_the_item_counts(self, place: Place, version: int | None) -> None:
        place.do(Put(KEY, ITEM))
        writer = place.count(version=version).run()
        assert [type(one) for one in writer.sent] == [ReadModifyWriteRow]
        assert writer.answer == Written()
        assert place.cells["c:views"] == (13).to_bytes(8, "big")

    @pytest.mark.parametrize("revision", [(), (SetCell("~r", b"r", OLD),)], ids=["no revision", "a revision"])
    @pytest.mark.parametrize("number", [(), (SetCell("views", NUMBER, OLD, "c"),)], ids=["no number", "a number"])
    def test_an_item_of_another_tag_is_as_before_and_refused(
        self,
        place: Place,
        version: int | None,
        revision: tuple[SetCell, ...],
        number: tuple[SetCell, ...],
    ) -> None:
        place.set(SetCell("_t", b"Alien", OLD), SetCell("name", b"Ripley", OLD), SYMBOL, *revision, *number)
        before = place.cells
        answer = place.count(version=version).run().answer
        assert answer == Refused({"_t": "Alien", "name": "Ripley", **({"views": 7} if number else {})})
        assert place.cells == before

    def test_no_item_is_refused(self, place: Place, version: int | None) -> None:
        assert place.count(version=version).run().answer == Refused(None)
        assert place.cells == {}


def test_an_item_with_another_tag_and_the_right_version_is_not_incremented(place: Place) -> None:
    place.set(SetCell("_t", b"Alien", OLD), SetCell("_v", b"2", OLD), SetCell("~r", b"r.2", OLD))
    before = place.cells
    writer = place.count(version=2).run()
    assert writer.answer == Refused({"_t": "Alien", "_v": 2})
    assert {type(call) for call in writer.sent} == {ReadRows}
    assert place.cells == before


def test_a_counter_made_for_a_concurrently_deleted_item_is_not_an_item(place: Place) -> None:
    """It stays, because a scrub cannot distinguish it from another program's; the next item replaces it."""
    place.do(Put(KEY, {"_t": "Song", "song": "a"}))
    update = Update(KEY, (Increment(Path(("views",)), 1),), condition=EXISTS, returning="new")
    writer = Steps(place.world, place.procedures().steps(update)).run(1)
    place.do(Delete(KEY))
    assert writer.run().answer == Refused(None)
    assert place.cells == {"c:views": bytes(8)}
    assert place.db.get(Song, song="a") is None
    assert list(place.db.scan(Song)) == []
    done = scrub(place.backend, songs, prefix=place.prefix, clock=lambda: time.time() + 7200)
    assert (done.ghosts, place.cells) == (0, {"c:views": bytes(8)})
    place.db.insert(Song(song="a", views=2))
    assert place.db.one(Song, song="a").views == 2
