"""Rows that other programs write, too: with Google's client, and byte for byte."""

import json
import struct
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from types import new_class
from typing import Annotated, Any, Literal

import pytest

from odm import (
    TTL,
    AccessPattern,
    BadValue,
    Cell,
    ConditionFailed,
    Conflict,
    Counter,
    Entity,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    KeyValueError,
    OutcomeUnknown,
    PrimaryKey,
    Revision,
    SchemaError,
    Store,
    Stored,
    Table,
    Unsupported,
    between,
    exists,
    field,
    increment,
    missing,
    not_,
    remove,
    set_,
    set_if_missing,
    some,
    upgrade,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.commands import Admin
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import (
    SERVER_TIME,
    Entry,
    Increment,
    MutateRow,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    SetCell,
)
from odm.backends.bigtable.client.native_admin import ColumnFamily, ModifyFamilies
from odm.backends.bigtable.maintenance.scrub import Scrubbed, scrub
from odm.immutable import evolve
from odm.schema.model import Schema

MESSAGE = {
    "symbol": "ZXZZT",
    "bid": "600.55",
    "ask": "600.60",
    "bid_size": 500,
    "ask_size": 1500,
    "last_sale": "600.58",
    "last_size": 300,
    "quote_time_ms": 1426535612156,
    "trade_time_ms": 1426535612045,
    "exchange": "NASDAQ",
    "volume": 89000,
}
QUOTE_ROW, TRADE_ROW = "NASDAQ#ZXZZT#1426535612156", "NASDAQ#ZXZZT#1426535612045"

market = Table("market", row_style="verbatim")
trades = Table("trades", row_style="verbatim")
meters = Table("meters", row_style="verbatim", row_key_join="")
metrics = Table("metrics", row_style="verbatim")
mixed = Table("mixed", row_style="verbatim")
sessions = Table("sessions", row_style="verbatim")
files = Table("files", row_style="verbatim", row_key_join="/")

Millis = Annotated[datetime, Stored(epoch="ms")]


class Quote(Entity, table=market):
    exchange: str
    symbol: Annotated[str, Cell("MD:SYMBOL", "text")]
    at: Millis
    bid: Annotated[float, Cell("MD:BID", "float64be")]
    ask: Annotated[float, Cell("MD:ASK", "float64be")]
    bid_size: Annotated[int, Cell("MD:BIDSIZE", "int64be")] = 0
    ask_size: Annotated[int, Cell("MD:ASKSIZE", "int64be")] = 0
    flags: Annotated[list[str] | None, Cell("MD:FLAGS", "json")] = None
    note: Annotated[str | None, Cell("MD:NOTE", "text")] = None
    zone: Annotated[int | None, Cell("MD:LOT", "int64be")] = None

    primary = PrimaryKey("{exchange}#{symbol}", "{at}")


class Trade(Entity, table=trades):
    exchange: Annotated[str, Cell("MD:EXCHANGE", "text")]
    symbol: Annotated[str, Cell("MD:SYMBOL", "text")]
    at: Millis
    last_sale: Annotated[Decimal, Cell("MD:LASTSALE", "text")]
    last_size: Annotated[int, Cell("MD:LASTSIZE", "int64be")]
    trade_time: Annotated[datetime, Stored(epoch="ms"), Cell("MD:TRADETIME", "int64be")]

    primary = PrimaryKey("{exchange}#{symbol}", "{at}")


class Reading(Entity, table=meters):
    meter: int
    day: Annotated[date, Stored(format="%Y%m%d")]
    first: Annotated[float | None, Cell("r:0000", "float64be")] = None
    second: Annotated[float | None, Cell("r:0015", "float64be")] = None
    last: Annotated[float | None, Cell("r:2345", "float64be")] = None

    primary = PrimaryKey("{meter:010}", "{day}")


class Metric(Entity, table=metrics):
    host: str
    at: Millis
    user: Annotated[float | None, Cell("METRIC:CPU/CPU1_USR", "float64be")] = None
    read: Annotated[int | None, Cell("METRIC:IO/BLK_READ", "int64be")] = None

    primary = PrimaryKey("{host}", "{at}")


class Session(Entity, table=sessions):
    id: str
    user: Annotated[str, Cell("s:user", "text")]
    ends: Annotated[datetime | None, TTL, Stored(epoch="s"), Cell("s:ends", "int64be")] = None

    primary = PrimaryKey("{id}")


class Folder(Entity, table=files, match=field("kind") == "folder"):
    path: str
    name: str
    kind: Annotated[Literal["folder"], Cell("f:kind", "text")] = "folder"
    title: Annotated[str | None, Cell("f:title", "text")] = None

    primary = PrimaryKey("{path}", "{name}")


class File(Entity, table=files, match=field("kind") == "file"):
    path: str
    name: str
    kind: Annotated[Literal["file"], Cell("f:kind", "text")] = "file"
    size: Annotated[int, Cell("f:size", "int64be")] = 0
    revision: Annotated[int, Revision, Cell("f:rev", "int64be")] = 0

    primary = PrimaryKey("{path}", "{name}")


class Host(Entity, table=mixed):
    name: str
    rack: Annotated[int, Cell("m:rack", "int64be")]

    primary = PrimaryKey("HOST#{name}")


class Load(Entity, table=mixed):
    name: str
    load: Annotated[float, Cell("m:load", "float64be")]

    primary = PrimaryKey("LOAD#{name}")


class Place:
    """A table that another program made, with a family that no model has."""

    def __init__(self, address: str, table: Table) -> None:
        self.address, self.table = address, table
        self.backend = Bigtable("project", "instance", endpoint=address)
        self.prefix = f"{uuid.uuid4().hex[:12]}-"
        self.name = self.prefix + table.compile().name
        self.db = Store(table, self.backend, prefix=self.prefix)
        self.db.create()
        self.send: Any = self.backend.connect(Schema(name="any", entities={}, indexes={})).call
        self.send(ModifyFamilies(self.name, create={name: ColumnFamily() for name in ("other", "x")}))

    def cells(self) -> dict[str, dict[str, bytes]]:
        found: Read = self.send(ReadRows(self.name, filter=Newest()))
        return {
            row.text: {f"{cell.family}:{cell.qualifier.decode()}": cell.value for cell in row.cells}
            for row in found.rows
        }

    def set(self, row_key: str, cells: dict[str, bytes]) -> None:
        parts = ((name.partition(":"), value) for name, value in cells.items())
        made = (SetCell(name, value, SERVER_TIME, family) for (family, _, name), value in parts)
        self.send(MutateRow(self.name, Entry(row_key, tuple(made))))


@pytest.fixture
def open_(bigtable_emulator: str) -> Iterator[Callable[[Table], Place]]:
    opened: list[Place] = []

    def make(table: Table) -> Place:
        opened.append(Place(bigtable_emulator, table))
        return opened[-1]

    yield make
    for place in opened:
        place.db.drop()
        place.db.close()


def _at(millis: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


NOW = _at(MESSAGE["quote_time_ms"])  # type: ignore[arg-type]
QUOTE = Quote(
    exchange="NASDAQ",
    symbol="ZXZZT",
    at=NOW,
    bid=600.55,
    ask=600.6,
    bid_size=500,
    ask_size=1500,
    flags=["a", "\u00e4"],
)
QUOTE_CELLS = {
    "MD:SYMBOL": b"ZXZZT",
    "MD:BID": struct.pack(">d", 600.55),
    "MD:ASK": struct.pack(">d", 600.60),
    "MD:BIDSIZE": struct.pack(">q", 500),
    "MD:ASKSIZE": struct.pack(">q", 1500),
    "MD:FLAGS": '["a", "\u00e4"]'.encode(),
}
KEY = Quote.primary(exchange="NASDAQ", symbol="ZXZZT", at=NOW)
TRADE_CELLS = {
    "MD:SYMBOL": b"ZXZZT",
    "MD:LASTSALE": b"600.58",
    "MD:LASTSIZE": struct.pack(">q", 300),
    "MD:TRADETIME": struct.pack(">q", 1426535612045),
    "MD:EXCHANGE": b"NASDAQ",
}


def test_googles_client_reads_what_odm_writes_and_the_reverse(
    open_: Callable[[Table], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.cloud.bigtable.data import BigtableDataClient
    from google.cloud.bigtable.data import SetCell as GoogleCell
    from google.cloud.bigtable.data.mutations import Mutation

    place, other = open_(market), open_(trades)
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", place.address)
    with BigtableDataClient(project="project") as client:
        with client.get_table("instance", place.name) as table:
            place.db.put(QUOTE)
            row = table.read_row(QUOTE_ROW)
            assert row is not None
            assert row.row_key.decode() == QUOTE_ROW
            assert {f"{c.family}:{c.qualifier.decode()}": c.value for c in row.cells} == QUOTE_CELLS
        with client.get_table("instance", other.name) as table:
            cells: list[Mutation] = [GoogleCell("MD", name[3:], value) for name, value in TRADE_CELLS.items()]
            table.mutate_row(TRADE_ROW, cells)
    (trade,) = other.db.query(Trade.primary(exchange="NASDAQ", symbol="ZXZZT"))
    at = _at(1426535612045)
    assert trade == Trade(
        exchange="NASDAQ", symbol="ZXZZT", at=at, last_sale=Decimal("600.58"), last_size=300, trade_time=at
    )
    other.db.put(trade)
    assert other.cells() == {TRADE_ROW: TRADE_CELLS}


def test_json_of_other_programs(open_: Callable[[Table], Place]) -> None:
    place = open_(market)
    place.set(QUOTE_ROW, {**QUOTE_CELLS, "MD:FLAGS": json.dumps(["a", "\u00e4"]).encode()})
    assert place.db.one(KEY) == QUOTE


def test_calls(open_: Callable[[Table], Place]) -> None:
    db = open_(market).db
    later = QUOTE.model_copy(update={"at": NOW + timedelta(seconds=1), "ask": 601.0})
    another = QUOTE.model_copy(update={"symbol": "ZXZZT2"})
    db.insert(QUOTE)
    with pytest.raises(ItemExists):
        db.insert(QUOTE)
    with db.batch() as batch:
        batch.put(later)
        batch.put(another)
    both = Quote.primary(exchange="NASDAQ", symbol="ZXZZT")
    assert list(db.query(both)) == [QUOTE, later]
    assert list(db.query(both.where(Quote.at > NOW))) == [later]
    assert list(db.query(both.where(Quote.ask < 601).reverse())) == [QUOTE]
    assert db.count(both) == 2
    page = db.page(both, size=1)
    assert page.items == [QUOTE]
    assert db.page(both, size=5, after=page.cursor).items == [later]
    assert len(list(db.scan())) == 3
    assert db.get_many([KEY, Quote.primary(exchange="X", symbol="Y", at=NOW)]) == [QUOTE, None]
    db.update(KEY, increment(Quote.bid_size, 5), set_(Quote.note, "n"), when=Quote.ask_size == 1500)
    db.update(KEY, set_(Quote.note, "m"), when=between(Quote.ask_size, 1000, 2000) & (some(Quote.note) > "a"))
    with pytest.raises(ConditionFailed):
        db.update(KEY, set_(Quote.note, "x"), when=Quote.bid == 1.5)
    new = db.update(KEY, set_(Quote.zone, 1), remove(Quote.flags), returning="new")
    assert new == QUOTE.model_copy(update={"bid_size": 505, "note": "m", "zone": 1, "flags": None}) == db.one(KEY)
    db.update(KEY, set_if_missing(Quote.flags, ["z"]), when=missing(Quote.flags) & exists(Quote.note))
    with db.transaction() as transaction:
        transaction.update(KEY, increment(Quote.zone), when=Quote.zone == 1)
    assert db.one(KEY).zone == 2
    with pytest.raises(ItemNotFound):
        db.update(Quote.primary(exchange="X", symbol="Y", at=NOW), set_(Quote.note, "x"))
    assert db.delete(KEY)
    assert not db.delete(KEY)
    assert db.delete_all(both) == 1
    assert list(db.scan()) == [another]


def test_a_missing_cell_that_cannot_be_checked_is_refused(open_: Callable[[Table], Place]) -> None:
    """No cell of the item sorts after it."""
    place = open_(metrics)
    key = Metric.primary(host="h", at=NOW)
    place.db.put(Metric(host="h", at=NOW, user=1.0))
    before = place.cells()
    with pytest.raises(Unsupported, match="missing cell METRIC:IO/BLK_READ"):
        place.db.update(key, set_(Metric.user, 2.0), when=missing(Metric.read))
    with pytest.raises(Unsupported, match="leave out returning="):
        place.db.update(key, set_(Metric.user, 2.0), returning="new")
    assert place.cells() == before
    place.db.update(key, set_(Metric.read, 5), when=Metric.user == 1)
    place.db.update(key, remove(Metric.user), when=Metric.read == 5)
    with pytest.raises(BadValue, match="would have no cell"):
        place.db.update(key, remove(Metric.read))
    assert place.cells() == {"h#1426535612156": {"METRIC:IO/BLK_READ": struct.pack(">q", 5)}}


def test_concurrent_writers_lose_nothing(open_: Callable[[Table], Place]) -> None:
    """Another program increments the cell between the read and the commit."""
    place = open_(market)
    place.db.put(QUOTE)
    read = place.db.one(KEY)
    place.set(QUOTE_ROW, {"MD:BIDSIZE": struct.pack(">q", 7)})
    place.db.update(read, increment(Quote.bid_size))
    assert place.db.one(KEY).bid_size == 8
    place.set(QUOTE_ROW, {"MD:NOTE": b"new"})
    with pytest.raises(ConditionFailed):
        place.db.update(read, set_(Quote.zone, 1), when=missing(Quote.note))


def test_keys(open_: Callable[[Table], Place]) -> None:
    place = open_(meters)
    reading = Reading(meter=987654, day=date(2017, 7, 26), first=12.34, last=28.9)
    place.db.put(reading)
    assert [*place.cells()] == ["000098765420170726"]
    place.db.update(Reading.primary(meter=987654, day=date(2017, 7, 26)), set_(Reading.second, 13.45))
    assert place.db.one(Reading, meter=987654, day=date(2017, 7, 26)).second == 13.45
    assert len(list(place.db.query(Reading.primary(meter=987654)))) == 1
    with pytest.raises(BadValue, match="would have no cell"):
        place.db.put(Reading(meter=1, day=date(2017, 7, 26)))
    with pytest.raises(KeyValueError, match="contains '#'"):
        open_(market).db.put(QUOTE.model_copy(update={"symbol": "A#B"}))
    hosts = open_(metrics)
    metric = Metric(host="server1.bbb.com", at=NOW, user=0.02, read=253453634)
    hosts.db.put(metric)
    assert hosts.cells() == {
        "server1.bbb.com#1426535612156": {
            "METRIC:CPU/CPU1_USR": struct.pack(">d", 0.02),
            "METRIC:IO/BLK_READ": struct.pack(">q", 253453634),
        }
    }
    assert list(hosts.db.scan()) == [metric]


def test_merges(open_: Callable[[Table], Place]) -> None:
    """A quarter of an hour is added to the row of the day, without a read."""
    place = open_(meters)
    day = Reading.primary(meter=987654, day=date(2017, 7, 26))
    place.set("000098765420170726", {"other:x": b"mine"})
    place.db.merge(day, set_(Reading.second, 13.45))
    place.db.merge(day, set_(Reading.last, 28.9), remove(Reading.first))
    assert place.cells() == {
        "000098765420170726": {
            "other:x": b"mine",
            "r:0015": struct.pack(">d", 13.45),
            "r:2345": struct.pack(">d", 28.9),
        }
    }
    with place.db.batch() as batch:
        batch.merge(day, set_(Reading.first, 1.0))
    assert place.db.one(day) == Reading(meter=987654, day=date(2017, 7, 26), first=1.0, second=13.45, last=28.9)
    with pytest.raises(Unsupported, match="match= distinguishes"):
        open_(files).db.merge(Folder.primary(path="a", name="b"), set_(Folder.title, "t"))


def test_an_expired_item_is_absent(open_: Callable[[Table], Place]) -> None:
    place = open_(sessions)
    old = Session(id="s", user="ann", ends=datetime(2020, 1, 1, tzinfo=UTC))
    place.db.put(old)
    assert place.db.get(Session, id="s") is None
    assert place.db.count(Session.primary(id="s")) == 0
    new = place.db.insert(old.model_copy(update={"ends": None}))
    assert place.cells() == {"s": {"s:user": b"ann"}}
    place.db.update(new, set_(Session.user, "bob"), when=Session.user == "ann")
    place.db.update(Session.primary(id="s"), set_(Session.ends, datetime(2100, 1, 1, tzinfo=UTC)))
    assert place.cells() == {"s": {"s:user": b"bob", "s:ends": struct.pack(">q", 4102444800)}}


def test_items_of_two_classes_under_one_form_of_key(open_: Callable[[Table], Place]) -> None:
    place = open_(files)
    db = place.db
    db.put(Folder(path="a", name="b", title="t"))
    file = db.insert(File(path="a", name="c", size=3))
    assert place.cells()["a/c"] == {
        "f:kind": b"file",
        "f:size": struct.pack(">q", 3),
        "f:rev": struct.pack(">q", 1),
    }
    place.set("a/d", {"f:kind": b"link", "f:size": b"?"})
    place.set("a/e", {"f:size": struct.pack(">q", 3)})
    before = place.cells()
    for name in ("d", "e"):
        for call in (db.put, db.insert, db.delete):
            with pytest.raises(ItemInvalid):
                call(Folder(path="a", name=name))
        with pytest.raises(ItemInvalid), db.batch() as batch:
            batch.put(Folder(path="a", name=name))
        with pytest.raises(ItemInvalid):
            db.update(File.primary(path="a", name=name), set_(File.size, 1))
    with pytest.raises(ItemInvalid):
        db.put(Folder(path="a", name="c"))
    assert place.cells() == before
    skipping = Store(files, place.backend, prefix=place.prefix, on_unknown="skip")
    assert [one.name for one in skipping.query(Folder.primary(path="a"))] == ["b"]
    assert len(list(skipping.scan())) == 2
    db.update(file, set_(File.size, 4))
    with pytest.raises(Conflict):
        db.update(file, set_(File.size, 5))


def test_a_delete_leaves_the_cells_of_other_classes(open_: Callable[[Table], Place]) -> None:
    place = open_(files)
    theirs = {"f:kind": b"folder", "f:size": b"?"}
    for name in ("f", "g"):
        place.set(f"a/{name}", theirs)
    with place.db.batch() as batch:
        batch.delete(Folder.primary(path="a", name="f"))
    assert place.db.delete(Folder.primary(path="a", name="g"))
    assert place.cells() == {"a/f": {"f:size": b"?"}, "a/g": {"f:size": b"?"}}


def test_cells_of_a_class_with_other_keys_are_not_an_item(open_: Callable[[Table], Place]) -> None:
    place = open_(mixed)
    place.set("HOST#a", {"m:other": b"x", "m:load": b"?"})
    assert place.db.get(Host, name="a") is None
    assert place.db.count(Host.primary(name="a")) == 0
    place.db.insert(Host(name="a", rack=3))
    assert place.cells() == {"HOST#a": {"m:other": b"x", "m:load": b"?", "m:rack": struct.pack(">q", 3)}}
    with place.db.batch() as batch:
        batch.delete(Host.primary(name="a"))
    assert place.cells() == {"HOST#a": {"m:other": b"x", "m:load": b"?"}}
    assert list(place.db.scan()) == []


FOREIGN = {"MD:mine": b"1", "MD:BIDS": b"", "other:x": b"2", "x:MD": b"\xff", "MD:~r": b"r", "MD:_t": b"Quote"}


@pytest.mark.parametrize("seed", range(3))
def test_cells_of_other_programs_survive_every_call(open_: Callable[[Table], Place], seed: int) -> None:
    place, random = open_(market), Random(seed)
    quotes = [QUOTE.model_copy(update={"at": NOW + timedelta(seconds=number)}) for number in range(4)]
    keys = {f"NASDAQ#ZXZZT#{1426535612156 + 1000 * number}" for number in range(4)}
    for row_key in (*keys, "NASDAQ#ZXZZT", "ZZZ", "NASDAQ#OTHER#1426535612156"):
        place.set(row_key, FOREIGN)
    calls: dict[str, Callable[[Quote, Any], object]] = {
        "put": lambda quote, _: place.db.put(quote),
        "insert": lambda quote, _: place.db.insert(quote),
        "set": lambda _, key: place.db.update(key, set_(Quote.note, "x"), remove(Quote.flags)),
        "increment": lambda _, key: place.db.update(key, increment(Quote.bid_size), returning="old"),
        "condition": lambda _, key: place.db.update(key, set_(Quote.zone, 1), when=not_(Quote.ask_size == 3)),
        "delete": lambda _, key: place.db.delete(key),
        "batch": lambda quote, _: _batch(place.db, quote),
        "batch of a delete": lambda _, key: _batch(place.db, delete=key),
        "transaction": lambda quote, _: _transact(place.db, quote),
        "delete_all": lambda _, __: place.db.delete_all(Quote.primary(exchange="NASDAQ", symbol="ZXZZT")),
        "query": lambda _, __: list(place.db.query(Quote.primary(exchange="NASDAQ", symbol="ZXZZT"))),
        "scan": lambda _, __: list(place.db.scan()),
        "scrub": lambda _, __: scrub(place.backend, market, prefix=place.prefix),
    }
    done: set[str] = set()
    for _ in range(60):
        name, quote = random.choice([*calls]), random.choice(quotes)
        try:
            calls[name](quote, Quote.primary(exchange="NASDAQ", symbol="ZXZZT", at=quote.at))
            done.add(name)
        except (ItemExists, ItemNotFound):
            pass
        for row_key, cells in place.cells().items():
            own = {} if row_key not in keys else {*QUOTE_CELLS, "MD:NOTE", "MD:LOT"}
            assert {name: cell for name, cell in cells.items() if name not in own} == FOREIGN, (name, row_key)
    assert len(place.cells()) == 7
    assert len(done) >= len(calls) - 2


def _batch(db: Store, *puts: Entity, delete: Any = None) -> None:
    with db.batch() as batch:
        for one in puts:
            batch.put(one)
        if delete is not None:
            batch.delete(delete)


def _transact(db: Store, quote: Quote) -> None:
    with db.transaction() as transaction:
        transaction.put(quote)


def test_a_scrub_reads_nothing(open_: Callable[[Table], Place]) -> None:
    place = open_(market)
    assert scrub(place.backend, market, prefix=place.prefix) == Scrubbed()
    with pytest.raises(Unsupported, match="does not remove their expired items"):
        scrub(place.backend, market, prefix=place.prefix, expired=True)


def test_an_answer_that_is_lost(open_: Callable[[Table], Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """The row does not show which write was the last, so the outcome is not known."""
    from google.api_core.exceptions import ServiceUnavailable

    from odm.backends.bigtable.client.native import CheckAndMutateRow
    from odm.backends.bigtable.driver import BigtableConnection

    place = open_(market)
    place.db.put(QUOTE)
    send = BigtableConnection.call

    def lost(self: BigtableConnection, native: Any) -> Any:
        answer = send(self, native)
        if isinstance(native, CheckAndMutateRow):
            raise ServiceUnavailable("lost")  # type: ignore[no-untyped-call]
        return answer

    monkeypatch.setattr(BigtableConnection, "call", lost)
    with pytest.raises(OutcomeUnknown):
        place.db.update(KEY, increment(Quote.bid_size))
    monkeypatch.undo()
    assert place.db.one(KEY).bid_size == 501


@upgrade(from_=1)
def _later(raw: dict[str, Any]) -> dict[str, Any]:
    return raw


def _fault(message: str, **options: Any) -> Any:
    return pytest.param(options, message, id=message[:30])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        _fault("its access patterns need cells", by_x=AccessPattern("{x}")),
        _fault("the Counter 'n' needs cells of odm", n=(Annotated[int, Counter], 0)),
        _fault("all of its fields stand in the row key", x=None),
        _fault("a version needs a cell of odm", version=2, later=staticmethod(_later)),
        _fault("match= must be a filter", x=Annotated[float, Cell("f:x", "float64be")], match=field("x") > 1),
    ],
)
def test_models_that_need_cells_of_odm(body: dict[str, Any], message: str) -> None:
    table = Table("faulty", row_style="verbatim")
    options: dict[str, Any] = {name: body.pop(name) for name in ("version", "match") if name in body}
    fields: dict[str, Any] = {"id": str, "x": Annotated[str, Cell("f:x", "text")]}
    if "x" in body:
        fields["x"] = body.pop("x")
        fields = {name: type_ for name, type_ in fields.items() if type_ is not None}
    if "n" in body:
        fields["n"], body["n"] = body["n"]

    body |= {"__annotations__": fields, "__module__": __name__, "primary": PrimaryKey("{id}")}
    new_class("Faulty", (Entity,), {"table": table, **options}, lambda namespace: namespace.update(body))
    with pytest.raises(SchemaError, match=message):
        Bigtable("project", "instance", endpoint="localhost:1").connect(table.compile())


@pytest.mark.parametrize(
    ("partition", "sort", "join", "message"),
    [("{a}", "{b}", "", "nothing separates"), ("{a}#{b}", None, "#", "has no sort template")],
)
def test_keys_that_are_not_injective(partition: str, sort: str | None, join: str, message: str) -> None:
    table = Table("faulty", row_style="verbatim", row_key_join=join)

    class One(Entity, table=table):
        a: str
        b: str
        x: Annotated[str, Cell("f:x", "text")]
        primary = PrimaryKey(partition, sort)

    class Two(Entity, table=table):
        a: str
        x: Annotated[str, Cell("f:x", "text")]
        primary = PrimaryKey("TWO:{a}", "y")

    with pytest.raises(SchemaError, match=message):
        table.compile()


def test_rows_that_two_classes_could_have_are_refused() -> None:
    table = Table("faulty", row_style="verbatim")

    class One(Entity, table=table):
        a: str
        b: str
        x: Annotated[str, Cell("f:x", "text")]
        primary = PrimaryKey("{a}#{b}", "C")

    class Two(Entity, table=table):
        a: str
        b: str
        x: Annotated[str, Cell("f:x", "text")]
        primary = PrimaryKey("{a}", "{b}#C")

    with pytest.raises(SchemaError, match="can have the same key"):
        table.compile()


def test_increments_of_several_programs_are_all_counted(open_: Callable[[Table], Place]) -> None:
    place = open_(market)
    place.db.put(QUOTE)

    def theirs() -> None:
        rule = Increment("BIDSIZE", 1, "MD")
        for _ in range(20):
            place.send(ReadModifyWriteRow(place.name, QUOTE_ROW, (rule,)))

    def ours() -> None:
        for _ in range(10):
            place.db.update(KEY, increment(Quote.bid_size), when=Quote.ask == 600.6)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(call) for call in (theirs, ours, ours, theirs)]:
            done.result()
    assert place.db.one(KEY).bid_size == 560


def test_plans_parts_and_explanations(open_: Callable[[Table], Place]) -> None:
    place = open_(market)
    place.set("ZZZ", {"MD:SYMBOL": b"x"})
    for number in range(20):
        place.db.put(QUOTE.model_copy(update={"symbol": f"S{number}"}))
    surveyed = Admin(place.backend, evolve(market.compile(), name=place.name, prefix=place.prefix)).survey(100)
    assert surveyed.read == 21
    assert len(surveyed.findings) == 1
    assert "MD:ASK" in str(place.db.explain(QUOTE).stored)
    skipping = Store(market, place.backend, prefix=place.prefix, on_unknown="skip")
    assert len(list(skipping.scan(segments=4))) == 20


def test_a_row_key_with_a_binary_part_is_of_no_entity(open_: Callable[[Table], Place]) -> None:
    """Row keys of odm are text; a key that is not UTF-8 is read with surrogates, which no template has."""
    place = open_(market)
    place.db.put(QUOTE)
    key = (b"NASDAQ#ZXZZT#" + struct.pack(">q", -5)).decode("utf-8", "surrogateescape")
    entry = Entry(key, (SetCell("SYMBOL", b"ZXZZT", SERVER_TIME, "MD"),))
    place.send(MutateRow(place.name, entry))
    query = Quote.primary(exchange="NASDAQ", symbol="ZXZZT")
    for read in (lambda: list(place.db.scan()), lambda: list(place.db.query(query)), lambda: place.db.count(query)):
        with pytest.raises(ItemInvalid, match="on_unknown"):
            read()
    skipping = Store(market, place.backend, prefix=place.prefix, on_unknown="skip")
    assert list(skipping.scan()) == [QUOTE]
    assert skipping.count(query) == 1
