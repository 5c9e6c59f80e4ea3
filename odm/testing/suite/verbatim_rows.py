"""Models with cells of their own, and of rows that other programs write, give the same results on every backend."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel

from odm import (
    AccessPattern,
    Cell,
    ConditionFailed,
    Entity,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    KeyValueError,
    PrimaryKey,
    Stored,
    Sum,
    Table,
    add_value,
    between,
    exists,
    field,
    increment,
    missing,
    not_,
    remove,
    set_,
    some,
    starts_with,
)
from odm.stores.sync import Store
from odm.testing.capabilities import needs
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill

quotes = Table("quotes", row_style="verbatim")
meters = Table("meters", row_style="verbatim", row_key_join="")
files = Table("files", row_style="verbatim", row_key_join="/")
sensors = Table("sensors", row_style="verbatim")
gauges = Table("gauges", row_style="verbatim")
talks = Table("talks")
locks = Table("row_locks", row_style="verbatim")
locks_of_others = Table("row_locks", row_style="verbatim")
logs = Table("row_logs", row_style="verbatim")


class Venue(BaseModel):
    name: str
    fee: Decimal = Decimal(0)


class Quote(Entity, table=quotes):
    exchange: str
    symbol: Annotated[str, Cell("MD:SYMBOL", "text")]
    at: Annotated[datetime, Stored(epoch="ms")]
    ask: Annotated[float, Cell("MD:ASK", "float64be")]
    size: Annotated[int, Cell("MD:SIZE", "int64be")] = 0
    last: Annotated[Decimal | None, Cell("MD:LAST", "text")] = None
    venue: Annotated[Venue | None, Cell("MD:PLACE", "json")] = None
    note: Annotated[str | None, Cell("MD:NOTE", "text")] = None

    primary = PrimaryKey("{exchange}#{symbol}", "{at}")


class Reading(Entity, table=meters):
    meter: int
    day: Annotated[date, Stored(format="%Y%m%d")]
    value: Annotated[float, Cell("r:value", "float64be")]

    primary = PrimaryKey("{meter:010}", "{day}")


class Sensor(Entity, table=sensors):
    id: str
    rack: Annotated[int, Cell("m:rack", "int32be")] = 0
    port: Annotated[int | None, Cell("m:port", "int16be")] = None
    load: Annotated[float | None, Cell("m:load", "float32be")] = None
    live: Annotated[bool, Cell("m:live", "hbase_bool")] = False
    flag: Annotated[bool, Stored(format="number"), Cell("m:flag", "int8")] = False

    primary = PrimaryKey("S", "{id}")


class Gauge(Entity, table=gauges):
    id: str
    total: Annotated[int, Sum, Cell("agg:total")] = 0
    name: Annotated[str | None, Cell("m:name", "text")] = None

    primary = PrimaryKey("G", "{id}")


class Folder(Entity, table=files, match=field("kind") == "folder"):
    path: str
    name: str
    kind: Annotated[Literal["folder"], Cell("f:kind", "text")] = "folder"

    primary = PrimaryKey("{path}", "{name}")


class File(Entity, table=files, match=field("kind") == "file"):
    path: str
    name: str
    kind: Annotated[Literal["file"], Cell("f:kind", "text")] = "file"
    size: Annotated[int, Cell("f:size", "int64be")] = 0

    primary = PrimaryKey("{path}", "{name}")


class Talk(Entity, table=talks, family="talks"):
    room: str
    at: int
    text: str
    stars: Annotated[int, Cell("rating:stars", "int64be")] = 0
    length: Annotated[int | None, Stored(family="stats")] = None
    author: Annotated[str | None, Cell("people:author", "text")] = None

    primary = PrimaryKey("ROOM#{room}", "TALK#{at}")
    by_author = AccessPattern("AUTHOR#{author}", "{at}")


class Lock(Entity, table=locks, match=exists(field("info"))):
    id: str
    info: Annotated[str | None, Cell("f:info", "text")] = None
    version: Annotated[int, Cell("f:version", "int64be")] = 0

    primary = PrimaryKey("{id}")


class State(Entity, table=locks, match=exists(field("digest"))):
    id: str
    digest: Annotated[str | None, Cell("f:digest", "text")] = None
    version: Annotated[int, Cell("f:version", "int64be")] = 0

    primary = PrimaryKey("{id}")


class Both(Entity, table=locks_of_others):
    """A row of another program, which fits both."""

    id: str
    info: Annotated[str, Cell("f:info", "text")]
    digest: Annotated[str, Cell("f:digest", "text")]
    version: Annotated[int, Cell("f:version", "int64be")] = 0

    primary = PrimaryKey("{id}")


BOTH = Both(id="b", info="i", digest="d", version=1)
LOCK, STATE = Lock(id="a", info="i", version=1), State(id="a-md5", digest="d", version=1)
OF_BOTH: dict[str, tuple[Callable[[Store], object], object]] = {
    "get": (lambda db: db.get(Lock, id="b"), None),
    "get many": (lambda db: db.get_many([Lock.primary(id="b"), State.primary(id="a-md5")]), [None, STATE]),
    "exists": (lambda db: db.exists(State, id="b"), False),
    "query with a filter": (lambda db: list(db.query(Lock.primary(id="b").where(Lock.version > 5))), []),
    "count": (lambda db: db.count(Lock.primary(id="b")), 0),
    "scan": (lambda db: sorted(db.scan(), key=str), sorted([LOCK, STATE], key=str)),
    "scan with a filter": (lambda db: list(db.scan(State, State.version > 5)), []),
    "update": (lambda db: db.update(Lock.primary(id="b"), set_(Lock.version, 2)), ItemNotFound),
    "update on a condition": (
        lambda db: db.update(State.primary(id="b"), set_(State.version, 2), when=State.version == 1),
        ItemNotFound,
    ),
    "delete": (lambda db: db.delete(Lock, id="b"), False),
    "put": (lambda db: db.put(Lock(id="b", info="mine")), ItemInvalid),
    "insert": (lambda db: db.insert(State(id="b", digest="mine")), ItemInvalid),
}


class Log(Entity, table=logs):
    site: str
    path: str
    text: Annotated[str, Cell("f:text", "text")] = ""

    primary = PrimaryKey("{site}/{path:empty}")


NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
QUOTES = [
    Quote(
        exchange="NASDAQ",
        symbol="ZXZZT",
        at=NOON + timedelta(milliseconds=number),
        ask=600.5 + number,
        size=5 - number,
        last=Decimal("600.10") + number,
        venue=Venue(name="Näsdaq", fee=Decimal("0.25")),
    )
    for number in range(3)
]
KEY = Quote.primary(exchange="NASDAQ", symbol="ZXZZT", at=NOON)


class TestVerbatimRows:
    @pytest.fixture
    def market(self, stores: Stores) -> Store:
        db = stores.open(quotes)
        for quote in QUOTES:
            db.put(quote)
        return db

    def test_items_are_read_as_they_were_written(self, market: Store) -> None:
        both = Quote.primary(exchange="NASDAQ", symbol="ZXZZT")
        assert market.get(KEY) == QUOTES[0]
        assert list(market.query(both)) == QUOTES
        assert list(market.query(both.where(Quote.at > NOON).reverse())) == QUOTES[:0:-1]
        assert list(market.query(both.where(Quote.size < 5, some(Quote.last) > 601))) == QUOTES[1:]
        assert sorted(one.ask for one in market.scan(Quote)) == [600.5, 601.5, 602.5]
        assert market.count(both) == 3
        page = market.page(both, size=2)
        assert market.page(both, size=2, after=page.cursor).items == QUOTES[2:]

    @pytest.mark.parametrize("call", OF_BOTH)
    def test_a_row_of_two_entities_is_of_none(self, stores: Stores, call: str) -> None:
        others = stores.open(locks_of_others)
        fill(stores.open(locks), [LOCK, STATE])
        others.put(BOTH)
        do, skipped = OF_BOTH[call]
        with pytest.raises(ItemInvalid, match="fit match= of Lock and State"):
            do(stores.open(locks))
        skipping = stores.open(locks, on_unknown="skip")
        if isinstance(skipped, type) and issubclass(skipped, Exception):
            with pytest.raises(skipped):
                do(skipping)
        else:
            assert do(skipping) == skipped
        assert stores.open(locks_of_others, on_unknown="skip").get(Both, id="b") == BOTH

    def test_an_empty_part_of_a_row_key(self, stores: Stores) -> None:
        db = stores.open(logs)
        every = [Log(site="org.x", path=path, text=path) for path in ("", "a", "a/b")]
        for one in every:
            db.put(one)
            assert db.get(Log, site="org.x", path=one.path) == one
        assert sorted(db.scan(Log), key=str) == sorted(every, key=str)
        assert db.delete(Log, site="org.x", path="")
        assert (db.get(Log, site="org.x", path=""), db.get(Log, site="org.x", path="a")) == (None, every[1])

    def test_writes(self, market: Store) -> None:
        with pytest.raises(ItemExists):
            market.insert(QUOTES[0])
        market.update(KEY, increment(Quote.size, 2), set_(Quote.note, "12.5"), when=Quote.ask == 600.5)
        market.update(KEY, set_(Quote.ask, -0.5), when=between(Quote.size, 6, 8) & starts_with(some(Quote.note), "12"))
        with pytest.raises(ConditionFailed):
            market.update(KEY, set_(Quote.ask, 1.0), when=not_(Quote.size == 7) | missing(Quote.note))
        new = market.update(KEY, remove(Quote.note), returning="new", when=Quote.venue == QUOTES[0].venue)
        assert new == QUOTES[0].model_copy(update={"size": 7, "ask": -0.5}) == market.get(KEY)
        with pytest.raises(ItemNotFound):
            market.update(Quote.primary(exchange="X", symbol="Y", at=NOON), set_(Quote.ask, 1.0))
        with market.batch() as batch:
            batch.put(QUOTES[0])
            batch.delete(QUOTES[1])
        assert list(market.scan()) != []
        assert market.get_many([KEY, Quote.primary(exchange="NASDAQ", symbol="ZXZZT", at=QUOTES[1].at)]) == [
            QUOTES[0],
            None,
        ]
        assert market.delete(KEY) is True
        assert market.delete(KEY) is False
        assert market.delete_all(Quote.primary(exchange="NASDAQ", symbol="ZXZZT")) == 1

    def test_values_that_their_cells_cannot_hold(self, market: Store) -> None:
        with pytest.raises(KeyValueError, match="contains '#'"):
            market.put(QUOTES[0].model_copy(update={"symbol": "A#B"}))

    def test_fixed_widths_without_a_separator(self, stores: Stores) -> None:
        db = stores.open(meters)
        days = [Reading(meter=987654, day=date(2017, 7, day), value=day) for day in (1, 2, 30)]
        for one in (*days, Reading(meter=9876, day=date(2017, 7, 1), value=0.5)):
            db.put(one)
        assert list(db.query(Reading.primary(meter=987654))) == days
        assert list(db.query(Reading.primary(meter=987654).where(Reading.day > date(2017, 7, 1)))) == days[1:]
        with pytest.raises(KeyValueError, match="at most 10 digits"):
            db.put(Reading(meter=10**10, day=date(2017, 7, 1), value=1))

    def test_short_numbers_and_bools(self, stores: Stores) -> None:
        db = stores.open(sensors)
        both = [
            Sensor(id="1", rack=-(2**31), port=-1, load=0.5, flag=True),
            Sensor(id="2", rack=2**31 - 1, port=300, live=True),
        ]
        for one in both:
            db.put(one)
        every = Sensor.primary()
        assert list(db.query(every)) == both
        conditions = [
            Sensor.rack < 0,
            some(Sensor.port) < 300,
            Sensor.load == 0.5,
            Sensor.live == False,  # noqa: E712
            Sensor.flag == True,  # noqa: E712
        ]
        for condition in conditions:
            assert [one.id for one in db.query(every.where(condition))] == ["1"]
            assert db.count(every.where(condition)) == 1
            db.update(Sensor.primary(id="1"), increment(Sensor.rack), when=condition)
            with pytest.raises(ConditionFailed):
                db.update(Sensor.primary(id="2"), increment(Sensor.port), when=condition)
        db.update(Sensor.primary(id="1"), increment(Sensor.load, Decimal("0.25")), set_(Sensor.live, True))
        assert db.get(Sensor.primary(id="1")) == both[0].model_copy(
            update={"rack": -(2**31) + len(conditions), "load": 0.75, "live": True}
        )

    def test_sums(self, stores: Stores) -> None:
        db = stores.open(gauges)
        db.put(Gauge(id="1", total=5, name="n"))
        key = Gauge.primary(id="1")
        db.merge(key, add_value(Gauge.total, 2))
        db.update(key, add_value(Gauge.total, 3), when=Gauge.total == 7)
        db.update(key, increment(Gauge.total, -4), set_(Gauge.name, "m"), when=Gauge.name == "n")
        assert db.get(key) == Gauge(id="1", total=6, name="m")
        assert db.count(Gauge.primary().where(Gauge.total > 5)) == 1
        db.update(key, set_(Gauge.total, 1))
        assert list(db.query(Gauge.primary())) == [Gauge(id="1", total=1, name="m")]

    def test_two_entities_under_one_form_of_key(self, stores: Stores) -> None:
        db = stores.open(files)
        db.put(Folder(path="a", name="b"))
        db.put(File(path="a", name="c", size=3))
        db.update(File.primary(path="a", name="c"), increment(File.size))
        assert db.get(File.primary(path="a", name="c")) == File(path="a", name="c", size=4)
        assert list(db.query(Folder.primary(path="a"))) == [Folder(path="a", name="b")]
        assert db.delete(Folder.primary(path="a", name="b")) is True
        assert [type(one) for one in db.scan()] == [File]


class TestCells:
    @needs("indexes")
    def test_families_and_cells(self, stores: Stores) -> None:
        db = stores.open(talks)
        talk = db.insert(Talk(room="r", at=1, text="x", author="12.5", length=3))
        key = Talk.primary(room="r", at=1)
        db.update(key, increment(Talk.stars, 2), set_(Talk.text, "y"), when=Talk.author == "12.5")
        db.update(key, set_(Talk.length, 4), when=(Talk.stars >= 2) & not_(Talk.length == 4))
        with pytest.raises(ConditionFailed):
            db.put(talk, when=Talk.stars < 2)
        found = db.get(key)
        assert found == talk.model_copy(update={"stars": 2, "text": "y", "length": 4})
        assert list(db.query(Talk.by_author(author="12.5"))) == [found]
        db.update(key, set_(Talk.author, "bo"), remove(Talk.length))
        assert db.count(Talk.by_author(author="12.5")) == 0
        assert db.first(Talk.by_author(author="bo")) == db.get(key)
        db.put(talk)
        assert db.delete(talk) is True
        assert db.count(Talk.by_author(author="12.5")) == 0
