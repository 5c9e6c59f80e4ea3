"""Attributes in families and cells of their own: which cells are stored, and that calls work on them as usual."""

import struct
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from odm import (
    TTL,
    AccessPattern,
    BadValue,
    Cell,
    Columns,
    ConditionFailed,
    Conflict,
    Counter,
    Entity,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    PrimaryKey,
    Revision,
    Store,
    Stored,
    Table,
    add_to,
    between,
    exists,
    increment,
    is_in,
    missing,
    not_,
    remove,
    set_,
    some,
    starts_with,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import (
    SERVER_TIME,
    AppendValue,
    Entry,
    Increment,
    MutateRow,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    SetCell,
)
from odm.backends.bigtable.client.native_admin import ColumnFamily, ModifyFamilies
from odm.backends.bigtable.maintenance.scrub import scrub
from odm.schema.model import Schema

videos = Table("videos")
quotes = Table("quotes")
talks = Table("talks")


class Video(Entity, table=videos):
    video: str
    title: str
    views: Annotated[int, Counter] = 0
    length: Annotated[int | None, Stored(family="stats")] = None
    tags: Annotated[set[str], Columns, Stored(family="stats")] = set()

    primary = PrimaryKey("VIDEO#{video}", "INFO")


class Comment(Entity, table=videos, family="comments"):
    video: str
    at: int
    text: str
    likes: Annotated[int, Counter] = 0
    stars: int = 0
    marks: Annotated[set[str], Columns] = set()
    author: str | None = None
    ends: Annotated[datetime | None, TTL] = None
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("VIDEO#{video}", "COMMENT#{at}")
    by_author = AccessPattern("AUTHOR#{author}", "{at}")


class Talk(Entity, table=talks, family="talks"):
    at: int
    text: str = "x"
    author: str | None = None
    likes: Annotated[int, Counter] = 0
    stars: Annotated[int, Cell("rating:stars", "int64be")] = 0
    length: Annotated[int | None, Stored(family="stats")] = 3

    primary = PrimaryKey("TALK#{at}")
    by_author = AccessPattern("AUTHOR#{author}", "{at}")


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


class Venue(BaseModel):
    name: str
    fee: Decimal = Decimal(0)


class Quote(Entity, table=quotes):
    symbol: str
    ask: Annotated[float | None, Cell("MD:ASK", "float64be")] = None
    size: Annotated[int, Cell("MD:SIZE", "int64be")] = 0
    side: Annotated[Side, Cell("MD:SIDE", "text")] = Side.BUY
    last: Annotated[Decimal | None, Cell("MD:LAST", "text")] = None
    at: Annotated[datetime | None, Stored(epoch="ms"), Cell("MD:AT", "int64be")] = None
    venue: Annotated[Venue | None, Cell("MD:VENUE", "json")] = None
    raw: Annotated[bytes | None, Cell("MD:RAW", "bytes")] = None
    open: Annotated[bool | None, Cell("MD:OPEN", "text")] = None
    name: Annotated[str | None, Cell("MD:NAME", "text")] = None
    note: Annotated[Decimal | str | None, Cell("MD:NOTE")] = None
    plain: str = "x"
    other: int = 0

    primary = PrimaryKey("QUOTE#{symbol}")


class Place:
    def __init__(self, address: str, table: Table) -> None:
        self.backend = Bigtable("project", "instance", endpoint=address)
        self.prefix = f"{uuid.uuid4().hex[:12]}-"
        self.table = table
        self.name = self.prefix + table.compile().name
        self.db = Store(table, self.backend, prefix=self.prefix)
        self.db.create()
        self.send: Any = self.backend.connect(Schema(name="any", entities={}, indexes={})).call

    def cells(self) -> dict[str, dict[str, bytes]]:
        found: Read = self.send(ReadRows(self.name, filter=Newest()))
        return {
            row.text: {f"{cell.family}:{cell.qualifier.decode()}": cell.value for cell in row.cells}
            for row in found.rows
        }

    def set(self, row_key: str, **cells: bytes) -> None:
        parts = ((name.partition("__"), value) for name, value in cells.items())
        made = (SetCell(name, value, SERVER_TIME, family) for (family, _, name), value in parts)
        self.send(MutateRow(self.name, Entry(row_key, tuple(made))))


@pytest.fixture
def video(bigtable_emulator: str) -> Iterator[Place]:
    made = Place(bigtable_emulator, videos)
    yield made
    made.db.drop()
    made.db.close()


@pytest.fixture
def quote(bigtable_emulator: str) -> Iterator[Place]:
    made = Place(bigtable_emulator, quotes)
    yield made
    made.db.drop()
    made.db.close()


COMMENT = Comment(video="v", at=1, text="fine", author="ann", marks={"good"})
ROW = "VIDEO#v#COMMENT#a1"


def test_all_cells_of_an_entity_stand_in_its_family(video: Place) -> None:
    video.db.put(COMMENT)
    cells = video.cells()[ROW]
    assert {name for name in cells if not name.startswith("comments:")} == {"c:likes"}
    assert cells["comments:_t"] == b"Comment"
    assert cells["comments:marks#good"] == b""
    assert {"comments:~r", "comments:_ix"} <= cells.keys()
    video.db.put(Video(video="v", title="t", length=3, tags={"a"}))
    cells = video.cells()["VIDEO#v#INFO"]
    assert {name for name in cells if not name.startswith("d:")} == {
        "c:views",
        "stats:length",
        "stats:tags",
        "stats:tags#a",
    }


def test_calls_on_an_entity_with_a_family(video: Place) -> None:
    db = video.db
    assert db.insert(COMMENT).revision == 1
    with pytest.raises(ItemExists):
        db.insert(COMMENT)
    stored = db.one(Comment, video="v", at=1)
    assert stored.marks == {"good"}
    key = Comment.primary(video="v", at=1)
    db.update(key, increment(Comment.likes, 2))
    db.update(key, increment(Comment.stars, 2), when=Comment.text == "fine")
    db.update(key, add_to(Comment.marks, "new"), set_(Comment.text, "12.5"), when=not_(Comment.text == "bad"))
    with pytest.raises(ConditionFailed):
        db.update(key, set_(Comment.text, "x"), when=Comment.stars > 2)
    with pytest.raises(Conflict):
        db.update(stored, set_(Comment.text, "x"))
    found = db.one(Comment, video="v", at=1)
    assert (found.likes, found.stars, found.marks, found.text) == (2, 2, {"good", "new"}, "12.5")
    assert [one.at for one in db.query(Comment.by_author(author="ann"))] == [1]
    assert db.count(Comment.by_author(author="ann")) == db.count(Comment.primary(video="v")) == 1
    db.put(Video(video="v", title="t", length=3))
    assert len(list(db.scan())) == 2
    assert {name.partition(":")[0] for name in video.cells()[ROW]} == {"comments", "c"}
    db.update(found, set_(Comment.author, "bob"))
    assert [one.at for one in db.query(Comment.by_author(author="bob"))] == [1]
    with db.transaction() as transaction:
        transaction.update(key, set_(Comment.stars, 9), when=Comment.stars == 2)
    assert db.delete(Comment, video="v", at=1)
    assert not db.delete(Comment, video="v", at=1)
    assert [*video.cells()] == ["VIDEO#v#INFO"]
    with pytest.raises(ItemNotFound):
        db.update(key, increment(Comment.likes))
    assert [*video.cells()] == ["VIDEO#v#INFO"]


def test_calls_on_fields_with_a_family(video: Place) -> None:
    db, key = video.db, Video.primary(video="v")
    db.put(Video(video="v", title="t", length=3, tags={"a", "b"}))
    db.update(key, set_(Video.length, 4), when=Video.length == 3)
    db.update(key, set_(Video.length, 5), when=not_(Video.length == 3) & (Video.title == "t"))
    db.update(key, add_to(Video.tags, "c"))
    db.update(key, remove(Video.length), when=between(Video.length, 4, 6))
    with pytest.raises(ConditionFailed):
        db.update(key, set_(Video.length, 5), when=Video.length == 3)
    assert db.one(Video, video="v").tags == {"a", "b", "c"}
    assert db.one(Video, video="v").length is None
    db.update(key, set_(Video.tags, {"z"}))
    assert {name for name in video.cells()["VIDEO#v#INFO"] if name.startswith("stats")} == {
        "stats:tags",
        "stats:tags#z",
    }
    with db.batch() as batch:
        batch.put(Video(video="v", title="new"))
        batch.put(Video(video="w", title="other"))
    assert db.one(Video, video="v") == Video(video="v", title="new")
    assert not any(name.startswith("stats") for name in video.cells()["VIDEO#v#INFO"])


def test_rows_of_other_programs_in_declared_families_are_strangers(video: Place) -> None:
    for number, name in enumerate(("comments__text", "stats__length", "d__x")):
        video.set(f"VIDEO#{number}#COMMENT#a1", **{name: b"1"})
    before = video.cells()
    for number in range(3):
        item = COMMENT.model_copy(update={"video": str(number)})
        for call in (video.db.put, video.db.insert, video.db.delete):
            with pytest.raises(ItemInvalid):
                call(item)
        with pytest.raises(ItemInvalid), video.db.batch() as batch:
            batch.delete(Comment.primary(video=item.video, at=1))
        with pytest.raises(ItemInvalid):
            video.db.get(Comment, video=str(number), at=1)
        with pytest.raises(ItemInvalid):
            video.db.update(Comment.primary(video=str(number), at=1), set_(Comment.text, "x"))
        with pytest.raises(ItemInvalid):
            video.db.count(Comment.primary(video=str(number)))
    assert video.cells() == before


def test_an_item_in_the_family_of_before_is_not_overwritten(video: Place) -> None:
    video.set(ROW, d___t=b"Comment", d__video=b"v", d__at=b"1", d__text=b"x")
    video.send(MutateRow(video.name, Entry(ROW, (SetCell("~r", b"r", 1000),))))
    before = video.cells()
    for call in (video.db.put, video.db.insert, video.db.delete):
        with pytest.raises(ItemInvalid):
            call(COMMENT)
    assert video.cells() == before


def test_ghosts_and_expired_items_in_a_family_are_removed(video: Place) -> None:
    marks = (Increment("likes", 1), AppendValue("_t", b"", "comments"), AppendValue("~r", b"", "comments"))
    video.send(ReadModifyWriteRow(video.name, ROW, marks))
    ended = COMMENT.model_copy(update={"at": 2, "ends": datetime(2020, 1, 1, tzinfo=UTC)})
    video.db.put(ended)
    done = scrub(video.backend, videos, prefix=video.prefix, expired=True, clock=lambda: 4_000_000_000.0)
    assert (done.ghosts, done.expired) == (1, 1)
    assert video.cells() == {}


NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
QUOTE = Quote(
    symbol="Z",
    ask=600.6,
    size=-5,
    side=Side.SELL,
    last=Decimal("600.60"),
    at=NOON,
    venue=Venue(name="N\u00e4$", fee=Decimal("0.5")),
    raw=b"\0\xff",
    open=True,
    name="12.5",
    note="true",
)


def test_cells_have_the_bytes_of_their_encoding(quote: Place) -> None:
    quote.db.put(QUOTE)
    cells = quote.cells()["QUOTE#Z"]
    assert {name: cell for name, cell in cells.items() if name.startswith("MD")} == {
        "MD:ASK": struct.pack(">d", 600.6),
        "MD:SIZE": struct.pack(">q", -5),
        "MD:SIDE": b"sell",
        "MD:LAST": b"600.6",
        "MD:AT": struct.pack(">q", int(NOON.timestamp()) * 1000),
        "MD:VENUE": '{"name": "N\u00e4$", "fee": 0.5}'.encode(),
        "MD:RAW": b"\0\xff",
        "MD:OPEN": b"true",
        "MD:NAME": b"12.5",
        "MD:NOTE": b"'true",
    }
    assert quote.db.one(Quote, symbol="Z") == QUOTE
    assert list(quote.db.scan()) == [QUOTE]


CONDITIONS: dict[str, Any] = {
    "float": Quote.ask == 600.6,
    "float range": some(Quote.ask) > 600,
    "int": Quote.size == -5,
    "int range": (Quote.size < 0) & (Quote.size >= -5),
    "int above": Quote.size > -6,
    "int over all": Quote.size < 3,
    "not int": not_(Quote.size == 5),
    "not int range": not_(Quote.size > -5),
    "choice": Quote.side == Side.SELL,
    "in": is_in(Quote.side, [Side.SELL, Side.BUY]),
    "number as text": Quote.last == Decimal("600.6"),
    "number as text in a range": between(some(Quote.last), 600, 601),
    "time": Quote.at == NOON,
    "time range": some(Quote.at) >= NOON,
    "json": some(Quote.venue).name == "N\u00e4$",
    "bytes": Quote.raw == b"\0\xff",
    "bool": Quote.open == True,  # noqa: E712
    "text": Quote.name == "12.5",
    "text range": some(Quote.name) > "12",
    "prefix": starts_with(some(Quote.name), "12"),
    "own": Quote.note == "true",
    "exists": exists(Quote.ask),
    "and": (Quote.size == -5) & (Quote.plain == "x") & not_(Quote.name == "x"),
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_conditions_on_cells(quote: Place, condition: Any) -> None:
    quote.db.put(QUOTE)
    key = Quote.primary(symbol="Z")
    quote.db.update(key, set_(Quote.other, 1), when=condition)
    for refused in (not_(condition), not_(condition) & (Quote.other == 1), not_(condition | (Quote.other == 2))):
        with pytest.raises(ConditionFailed):
            quote.db.update(key, set_(Quote.other, 2), when=refused)
    quote.db.update(key, set_(Quote.other, 3), when=(Quote.other == 7) | condition)
    assert [one.other for one in quote.db.query(key.where(condition))] == [3]
    assert list(quote.db.query(key.where(not_(condition)))) == []


def test_updates_of_cells(quote: Place) -> None:
    key = Quote.primary(symbol="Z")
    quote.db.put(QUOTE)
    quote.db.update(key, increment(Quote.size, 7), set_(Quote.ask, 0.0), remove(Quote.raw))
    assert quote.cells()["QUOTE#Z"]["MD:SIZE"] == struct.pack(">q", 2)
    quote.set("QUOTE#Z", MD__ASK=struct.pack(">d", -0.0), MD__LAST=b"1e2", MD__OTHER=b"mine")
    quote.db.update(key, set_(Quote.side, Side.BUY), when=(Quote.ask == 0) & (Quote.last == 100) & missing(Quote.raw))
    found = quote.db.one(Quote, symbol="Z")
    assert (found.size, found.ask, found.last, found.raw, found.side) == (2, 0.0, Decimal(100), None, Side.BUY)
    quote.db.put(QUOTE)
    quote.db.delete(QUOTE)
    assert quote.cells() == {"QUOTE#Z": {"MD:OTHER": b"mine"}}
    quote.db.insert(QUOTE)


@pytest.mark.parametrize("cell", ["ASK", "SIZE", "SIDE", "LAST", "AT", "VENUE", "OPEN", "NAME"])
def test_a_cell_of_another_form_is_an_invalid_item(quote: Place, cell: str) -> None:
    quote.db.put(QUOTE)
    quote.send(MutateRow(quote.name, Entry("QUOTE#Z", (SetCell(cell, b"\xff", -1, "MD"),))))
    with pytest.raises(ItemInvalid):
        quote.db.get(Quote, symbol="Z")


def test_a_row_with_a_declared_cell_alone_is_a_stranger(quote: Place) -> None:
    quote.set("QUOTE#Z", MD__ASK=b"x")
    for call in (quote.db.put, quote.db.insert, quote.db.delete):
        with pytest.raises(ItemInvalid):
            call(QUOTE)
    assert quote.cells() == {"QUOTE#Z": {"MD:ASK": b"x"}}


FOREIGN = {"other:x": b"1", "other:~r": b"", "rating:y": b"\xff", "rating:_t": b"Talk"}


@pytest.mark.parametrize("seed", range(3))
def test_cells_of_other_programs_survive_every_call(bigtable_emulator: str, seed: int) -> None:
    place, random = Place(bigtable_emulator, talks), Random(seed)
    place.send(ModifyFamilies(place.name, create={"other": ColumnFamily()}))
    talks_ = [Talk(at=number, author=f"a{number % 2}") for number in range(3)]
    calls: dict[str, Callable[[Talk], object]] = {
        "insert": place.db.insert,
        "put": place.db.put,
        "set": lambda talk: place.db.update(Talk.primary(at=talk.at), set_(Talk.author, "b"), set_(Talk.text, "y")),
        "stars": lambda talk: place.db.update(Talk.primary(at=talk.at), increment(Talk.stars), returning="new"),
        "likes": lambda talk: place.db.update(Talk.primary(at=talk.at), increment(Talk.likes)),
        "remove": lambda talk: place.db.update(Talk.primary(at=talk.at), remove(Talk.length), when=Talk.stars < 9),
        "delete": lambda talk: place.db.delete(Talk.primary(at=talk.at)),
        "batch": lambda talk: _batch(place.db, talk),
        "delete_all": lambda _: place.db.delete_all(Talk.by_author(author="a1")),
        "query": lambda _: list(place.db.query(Talk.by_author(author="a0"))),
        "scan": lambda _: list(place.db.scan()),
        "scrub": lambda _: scrub(place.backend, talks, prefix=place.prefix, repair=True),
    }
    for talk in talks_:
        row_key = place.db.key_of(talk)[0]
        place.set(row_key, **{name.replace(":", "__"): cell for name, cell in FOREIGN.items()})
    done: set[str] = set()
    for _ in range(80):
        name, talk = random.choice([*calls]), random.choice(talks_)
        with suppress(ItemExists, ItemNotFound):
            calls[name](talk)
            done.add(name)
        for cells in place.cells().values():
            theirs = {name: cell for name, cell in cells.items() if name.startswith(("other", "rating"))}
            theirs.pop("rating:stars", None)
            assert theirs == FOREIGN, name
    assert len(done) >= len(calls) - 2
    place.db.drop()
    place.db.close()


def _batch(db: Store, talk: Entity) -> None:
    with db.batch() as batch:
        batch.put(talk)


def test_a_number_that_its_cell_cannot_hold(quote: Place) -> None:
    with pytest.raises(BadValue, match=r"attribute 'size', in the cell MD:SIZE: .* is not a whole number of 64 bits"):
        quote.db.put(QUOTE.model_copy(update={"size": 2**63}))
    quote.db.put(QUOTE.model_copy(update={"size": 2**63 - 1}))
    with pytest.raises(BadValue, match="is not a whole number of 64 bits"):
        quote.db.update(Quote.primary(symbol="Z"), increment(Quote.size))
