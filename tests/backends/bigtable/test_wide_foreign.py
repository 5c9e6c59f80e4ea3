"""Cells of other programs in wide rows: no call changes or removes them, and none is taken for an item's."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Annotated, Any

import pytest

from odm import AccessPattern, Counter, Entity, ItemInvalid, PrimaryKey, Store, Table, collection, increment, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import AddToCell, Entry, MutateRow, Read, ReadRows, SetCell
from odm.backends.bigtable.client.native_admin import ModifyFamilies
from odm.backends.bigtable.maintenance.scrub import scrub
from odm.backends.bigtable.rows.wide import SENTINEL
from odm.errors import OdmError
from odm.schema.model import Schema
from tests.backends.bigtable.families import kept
from tests.effort import times

OLD = 1_000_000
videos = Table("videos", layout="row_per_partition")


class Comment(Entity, table=videos):
    video: str
    at: str
    user: str | None = None
    text: str = ""
    likes: Annotated[int, Counter] = 0

    primary = PrimaryKey("VIDEO#{video}", "COMMENT#{at}")
    by_user = AccessPattern("USER#{user}", "{at}")


FOREIGN = (
    SetCell("COMMENT#2", b"GOOG", OLD, "MD"),
    SetCell("COMMENT#2##_r", b"7", OLD, "MD"),
    SetCell("COMMENT#2##note", b"mine", OLD),
    SetCell("COMMENT#2##", b"mine", OLD),
    SetCell("COMMENT#3##stars", b"mine", OLD),
    AddToCell("COMMENT#2##stars", 4, "c", OLD),
    AddToCell("COMMENT#2", 5, "c", OLD),
    AddToCell("stars", 6, "c", OLD),
)
STRANGERS = {
    "COMMENT#4": b"no document",
    "COMMENT#5": b'{"_t": "Reply", "text": "x"}',
    "COMMENT#6": b'{"text": "no tag"}',
    "COMMENT#7": b'["Comment"]',
    "COMMENT#8": b'{"text": "x", "_t": "Comment2"}',
    "\udcfe": b"a qualifier that is not UTF-8",
}


class Place:
    def __init__(self, address: str) -> None:
        self.backend = Bigtable("project", "instance", endpoint=address)
        self.prefix = f"{uuid.uuid4().hex[:12]}-"
        self.db = Store(videos, self.backend, prefix=self.prefix)
        self.db.create()
        self.name = f"{self.prefix}videos"
        self.send: Callable[[Any], Any] = self.backend.connect(Schema(name="any", entities={}, indexes={})).call
        self.send(ModifyFamilies(self.name, create=kept({"MD": 3})))

    def set(self, row_key: str, *cells: SetCell | AddToCell) -> None:
        self.send(MutateRow(self.name, Entry(row_key, cells)))

    def cells(self, row_key: str) -> dict[tuple[str, bytes], bytes]:
        found: Read = self.send(ReadRows(self.name, keys=(row_key,), filter=Newest()))
        return {(cell.family, cell.qualifier): cell.value for row in found.rows for cell in row.cells}


@pytest.fixture
def place(bigtable_emulator: str) -> Iterator[Place]:
    made = Place(bigtable_emulator)
    yield made
    made.db.drop()
    made.db.close()


def comment(random: Random, at: str | None = None) -> Comment:
    return Comment(video="1", at=at or str(random.randrange(1, 9)), user=random.choice(["a", None]), text="hi")


CALLS: list[Callable[[Store, Random, Comment], object]] = [
    lambda db, random, one: db.put(one),
    lambda db, random, one: db.put(one, when=Comment.text == "hi"),
    lambda db, random, one: db.insert(one),
    lambda db, random, one: db.update(one, set_(Comment.text, "x")),
    lambda db, random, one: db.update(one, increment(Comment.likes, 1)),
    lambda db, random, one: db.update(one, increment(Comment.likes, 2), when=Comment.likes < 9),
    lambda db, random, one: db.update(one, set_(Comment.user, random.choice(["b", None]))),
    lambda db, random, one: db.delete(one),
    lambda db, random, one: db.delete(one, when=Comment.text == "x"),
    lambda db, random, one: batched(db, one, comment(random)),
    lambda db, random, one: together(db, one, comment(random)),
    lambda db, random, one: db.delete_all(collection(Comment.primary(video="1"))),
    lambda db, random, one: list(db.query(Comment.by_user(user="a"))),
]


def batched(db: Store, one: Comment, other: Comment) -> None:
    with db.batch() as batch:
        batch.put(one)
        batch.delete(other)


def together(db: Store, one: Comment, other: Comment) -> None:
    with db.transaction() as tx:
        tx.put(one)
        if other.at != one.at:
            tx.delete(other)


@pytest.mark.parametrize("seed", range(times(3, 12)))
def test_random_calls_leave_other_cells(place: Place, seed: int) -> None:
    random = Random(seed)
    place.set("VIDEO#1", *FOREIGN, *(SetCell(column, cell, OLD) for column, cell in STRANGERS.items()))
    before = place.cells("VIDEO#1")
    for _ in range(60):
        with suppress(OdmError):
            random.choice(CALLS)(place.db, random, comment(random))
        after = place.cells("VIDEO#1")
        assert {column: after.get(column) for column in before} == before
    scrub(place.backend, videos, prefix=place.prefix, expired=True, repair=True, clock=lambda: time.time() + 7200)
    after = place.cells("VIDEO#1")
    assert {column: after.get(column) for column in before} == before


@pytest.mark.parametrize("column", [*STRANGERS][:5])
def test_a_stranger_is_met_by_every_call(place: Place, column: str) -> None:
    place.set("VIDEO#1", SetCell(column, STRANGERS[column], OLD))
    before, one = place.cells("VIDEO#1"), comment(Random(1), column[-1:])
    for call in CALLS[:10]:
        with pytest.raises(ItemInvalid):
            call(place.db, Random(1), one)
        assert place.cells("VIDEO#1") == before
    for read in (lambda: place.db.get(Comment, video="1", at=one.at), lambda: list(place.db.scan(Comment))):
        with pytest.raises(ItemInvalid):
            read()
    assert place.db.count(Comment.primary(video="2")) == 0


def test_other_cells_are_not_taken_for_an_item_s(place: Place) -> None:
    place.set("VIDEO#1", *FOREIGN)
    assert place.db.get(Comment, video="1", at="2") is None
    place.db.insert(Comment(video="1", at="2", text="t"))
    assert place.db.one(Comment, video="1", at="2") == Comment(video="1", at="2", text="t")
    assert list(place.db.query(Comment.primary(video="1"))) == [Comment(video="1", at="2", text="t")]


def test_the_sentinel_is_not_an_item(place: Place) -> None:
    place.db.put(Comment(video="1", at="1"))
    with place.db.transaction() as tx:
        tx.insert(Comment(video="1", at="2"))
        tx.delete(Comment, video="1", at="1")
    assert ("d", SENTINEL.encode("utf-8", "surrogateescape")) in place.cells("VIDEO#1")
    assert [one.at for one in place.db.scan(Comment)] == ["2"]
    assert [one.at for one in place.db.query(Comment.primary(video="1").reverse())] == ["2"]
    assert place.db.page(Comment.primary(video="1"), size=1).cursor is None


def test_many_other_cells_among_the_items(place: Place) -> None:
    """A read of a page asks for more cells until it has an item."""
    cells = [SetCell(f"COMMENT#1##x{number:04}", b"x", OLD) for number in range(300)]
    place.set("VIDEO#1", *cells)
    for at in ("1", "2", "3"):
        place.db.put(Comment(video="1", at=at))
    page = place.db.page(Comment.primary(video="1"), size=2)
    assert [one.at for one in page.items] == ["1", "2"]
    page = place.db.page(Comment.primary(video="1"), size=2, after=page.cursor)
    assert ([one.at for one in page.items], page.cursor) == (["3"], None)
