"""Models with cells of their own, and of rows that other programs write, give the same results on every backend."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from odm import (
    AccessPattern,
    BadValue,
    Cell,
    Columns,
    ConditionFailed,
    Entity,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    KeyValueError,
    PrimaryKey,
    Store,
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
    size,
    some,
    starts_with,
)
from odm.testing.capabilities import needs
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill

quotes = Table("quotes", row_style="verbatim")
meters = Table("meters", row_style="verbatim", row_key_join="")
files = Table("files", row_style="verbatim", row_key_join="/")
sensors = Table("sensors", row_style="verbatim")
gauges = Table("gauges", row_style="verbatim")
signals = Table("signals", row_style="verbatim")
talks = Table("talks")
locks = Table("row_locks", row_style="verbatim")
locks_of_others = Table("row_locks", row_style="verbatim")
logs = Table("row_logs", row_style="verbatim")
usages = Table("usages", row_style="verbatim")


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


class Signal(Entity, table=signals):
    place: str
    channel: bytes
    at: Annotated[datetime, Stored(epoch="ms")]
    port: int
    level: Annotated[int, Cell("m:level", "int64be")] = 0

    primary = PrimaryKey("{place}#{channel:bytes2}", "{at:int64be:desc}{port:uint16be}")


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


class Usage(Entity, table=usages):
    """A row with columns whose names are data: a whole family, and those with a prefix."""

    site: str
    day: str
    title: Annotated[str, Cell("m:title", "text")] = ""
    hours: Annotated[dict[str, int], Columns, Cell("h:", "int64be")] = Field(default_factory=dict)
    notes: Annotated[dict[str, str], Columns, Cell("m:note.", "text")] = Field(default_factory=dict)
    rates: Annotated[dict[str, Decimal], Columns, Cell("r:", "text")] = Field(default_factory=dict)
    extra: Annotated[dict[str, Venue], Columns, Cell("x:", "json"), Stored("e")] = Field(default_factory=dict)
    seen: Annotated[dict[str, datetime], Columns, Stored("s", epoch="ms"), Cell("s:", "int64be")] = Field(
        default_factory=dict
    )
    open: Annotated[dict[str, bool], Columns, Stored(format="yes/no"), Cell("o:", "text")] = Field(default_factory=dict)

    primary = PrimaryKey("{site}", "{day}")


USAGES = [
    Usage(
        site="org",
        day=f"2026-01-0{number}",
        title="t",
        hours={"00": number, "2026-01-05T10": -5, "#$": 2**63 - 1, "Näs": 0},
        notes={"a": "", "title": "12.5", "b.c": "null"},
        rates={"x": Decimal("0.25"), "y": Decimal(number)},
        extra={"v": Venue(name="n", fee=Decimal("1.5"))},
        seen={"first": NOON, "last": NOON + timedelta(milliseconds=number)},
        open={"door": number == 1},
    )
    for number in range(1, 4)
]
USAGE = Usage.primary(site="org", day="2026-01-01")
DAYS = Usage.primary(site="org")

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
        assert sorted(quote.ask for quote in market.scan(Quote)) == [600.5, 601.5, 602.5]
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
        for log in every:
            db.put(log)
            assert db.get(Log, site="org.x", path=log.path) == log
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
        for reading in (*days, Reading(meter=9876, day=date(2017, 7, 1), value=0.5)):
            db.put(reading)
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
        for entity in both:
            db.put(entity)
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
            assert [entity.id for entity in db.query(every.where(condition))] == ["1"]
            assert db.count(every.where(condition)) == 1
            db.update(Sensor.primary(id="1"), increment(Sensor.rack), when=condition)
            with pytest.raises(ConditionFailed):
                db.update(Sensor.primary(id="2"), increment(Sensor.port), when=condition)
        db.update(Sensor.primary(id="1"), increment(Sensor.load, Decimal("0.25")), set_(Sensor.live, True))
        assert db.get(Sensor.primary(id="1")) == both[0].model_copy(
            update={"rack": -(2**31) + len(conditions), "load": 0.75, "live": True}
        )

    def test_row_keys_with_binary_parts(self, stores: Stores) -> None:
        db = stores.open(signals)
        expected = [
            Signal(place="zo\u00eb", channel=channel, at=NOON + timedelta(minutes=minutes), port=port, level=port % 7)
            for channel in (b"\0\xff", b"#\x80")
            for minutes in (300, 200, 0)
            for port in (0, 127, 128, 65535)
        ]
        fill(db, expected)
        key = Signal.primary(place="zo\u00eb", channel=b"\0\xff")
        assert list(db.query(key)) == expected[:12]
        assert list(db.query(key.reverse())) == expected[11::-1]
        assert list(db.query(key.where(Signal.at > NOON))) == expected[:8]
        assert list(db.query(key.where(Signal.at == expected[0].at, between(Signal.port, 127, 128)))) == expected[1:3]
        assert db.count(key.where(Signal.level == expected[1].level)) == sum(
            m.level == expected[1].level for m in expected[:12]
        )
        page = db.page(key, size=5)
        assert [*page.items, *db.page(key, size=5, after=page.cursor).items] == expected[:10]
        assert sorted(map(str, db.scan())) == sorted(map(str, expected))
        last = expected[-1]
        target = Signal.primary(place=last.place, channel=last.channel, at=last.at, port=last.port)
        db.update(target, increment(Signal.level, 5), when=Signal.level == last.level)
        assert db.one(target).level == last.level + 5
        with pytest.raises(ItemExists):
            db.insert(last)
        assert db.delete(target)
        assert db.get(target) is None
        with pytest.raises(KeyValueError, match="not from 0 to 65535"):
            db.put(last.model_copy(update={"port": -1}))

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
        assert [type(entity) for entity in db.scan()] == [File]


class TestEntriesAsCells:
    @pytest.fixture
    def db(self, stores: Stores) -> Store:
        store = stores.open(usages)
        for usage in USAGES:
            store.put(usage)
        return store

    def test_items_are_read_as_they_were_written(self, db: Store) -> None:
        assert db.get(USAGE) == USAGES[0]
        assert list(db.query(DAYS)) == USAGES
        assert sorted(db.scan(Usage), key=str) == sorted(USAGES, key=str)
        assert db.get_many([USAGE, Usage.primary(site="org", day="none")]) == [USAGES[0], None]
        assert db.count(DAYS) == 3
        page = db.page(DAYS, size=2)
        assert db.page(DAYS, size=2, after=page.cursor).items == USAGES[2:]
        few = Usage(site="few", day="1", notes={"k": "v"})
        db.put(few)
        assert db.get(Usage, site="few", day="1") == few
        (part,) = db.query(DAYS.limit(1), only=[Usage.hours["00"], Usage.notes])
        assert (part[Usage.hours["00"]], part[Usage.notes]) == (1, USAGES[0].notes)

    def test_filters(self, db: Store) -> None:
        conditions: list[tuple[Any, list[int]]] = [
            (Usage.hours["00"] >= 2, [2, 3]),
            (Usage.hours["00"] == 1, [1]),
            ((Usage.notes["a"] == "") & (Usage.rates["y"] < 3), [1, 2]),
            (exists(Usage.hours["none"]), []),
            (missing(Usage.hours["none"]) & (Usage.rates["x"] == Decimal("0.25")), [1, 2, 3]),
            (size(Usage.hours) == 4, [1, 2, 3]),
            (Usage.seen["last"] > NOON + timedelta(milliseconds=1), [2, 3]),
            (Usage.open["door"] == True, [1]),  # noqa: E712
            (exists(Usage.hours) & not_(missing(Usage.extra)), [1, 2, 3]),
            (Usage.extra["v"].fee == Decimal("1.5"), [1, 2, 3]),
            (Usage.notes == USAGES[0].notes, [1, 2, 3]),
        ]
        for condition, numbers in conditions:
            assert [int(usage.day[-1]) for usage in db.query(DAYS.where(condition))] == numbers, condition
            assert db.count(DAYS.where(condition)) == len(numbers)

    def test_a_put_replaces_the_entries(self, db: Store) -> None:
        every: list[dict[str, dict[str, object]]] = [
            {"hours": {"00": 7, "new": 1}},
            {"notes": {"z": "z"}, "hours": {}},
            {"notes": {}, "rates": {}, "extra": {}},
        ]
        for changes in every:
            usage = USAGES[0].model_copy(update=changes)
            db.put(usage)
            assert db.get(USAGE) == usage
            with db.batch() as batch:
                batch.put(USAGES[0])
            assert db.get(USAGE) == USAGES[0]
        with pytest.raises(ItemExists):
            db.insert(USAGES[0])
        with pytest.raises(BadValue, match="empty key"):
            db.put(USAGES[0].model_copy(update={"hours": {"": 1}}))
        with pytest.raises(ConditionFailed):
            db.put(USAGES[1], when=Usage.hours["00"] == 3)
        db.put(USAGES[1].model_copy(update={"hours": {}}), when=Usage.hours["00"] == 2)
        assert db.one(Usage, site="org", day="2026-01-02").hours == {}

    def test_updates_of_entries(self, db: Store) -> None:
        db.update(USAGE, set_(Usage.hours["00"], 5), set_(Usage.hours["11"], 6), remove(Usage.notes["a"]))
        db.update(USAGE, increment(Usage.hours["00"], 2), remove(Usage.hours["none"]))
        db.update(USAGE, increment(Usage.hours["zz"], 3), increment(Usage.hours["01"]))
        db.update(USAGE, increment(Usage.rates["x"], Decimal("0.5")), increment(Usage.rates["z"], Decimal("1.5")))
        db.update(USAGE, set_(Usage.extra["v"].fee, Decimal(2)), set_(Usage.extra["w"], Venue(name="w")))
        expected = USAGES[0].model_copy(
            update={
                "hours": {**USAGES[0].hours, "00": 7, "11": 6, "zz": 3, "01": 1},
                "notes": {"title": "12.5", "b.c": "null"},
                "rates": {"x": Decimal("0.75"), "y": Decimal(1), "z": Decimal("1.5")},
                "extra": {"v": Venue(name="n", fee=Decimal(2)), "w": Venue(name="w")},
            }
        )
        assert db.get(USAGE) == expected
        first = Usage.seen["first"] == NOON
        db.update(USAGE, set_(Usage.seen["last"], NOON), set_(Usage.open["gate"], False), when=first)
        expected = expected.model_copy(
            update={"seen": {"first": NOON, "last": NOON}, "open": {"door": True, "gate": False}}
        )
        assert db.get(USAGE) == expected
        db.update(USAGE, set_(Usage.title, "u"), when=(Usage.hours["00"] == 7) & (Usage.notes["title"] == "12.5"))
        with pytest.raises(ConditionFailed):
            db.update(USAGE, set_(Usage.title, "v"), when=Usage.hours["00"] > 7)
        db.update(USAGE, set_(Usage.hours, {"k": 1}), remove(Usage.notes), remove(Usage.extra))
        assert db.get(USAGE) == expected.model_copy(update={"title": "u", "hours": {"k": 1}, "notes": {}, "extra": {}})
        db.update(USAGE, set_(Usage.notes["n"], "m"), increment(Usage.hours["k"]), when=exists(Usage.rates["x"]))
        stored = db.one(USAGE)
        assert (stored.notes, stored.hours) == ({"n": "m"}, {"k": 2})
        query = DAYS.where(exists(Usage.notes) & exists(Usage.hours["k"]))
        assert [usage.hours["k"] for usage in db.query(query)] == [2]
        with pytest.raises(ItemNotFound):
            db.update(Usage.primary(site="no", day="1"), increment(Usage.hours["k"]))
        assert db.get(Usage, site="no", day="1") is None

    def test_merges_and_deletes(self, db: Store) -> None:
        new = Usage.primary(site="new", day="1")
        db.merge(new, set_(Usage.hours["05"], 1), set_(Usage.notes["n"], "m"))
        db.merge(new, set_(Usage.hours["06"], 2), remove(Usage.notes["n"]), remove(Usage.hours["07"]))
        with db.batch() as batch:
            batch.merge(new, set_(Usage.rates["r"], Decimal("1.5")))
            batch.delete(USAGE)
        usage = Usage(site="new", day="1", hours={"05": 1, "06": 2}, rates={"r": Decimal("1.5")})
        assert db.get(new) == usage
        assert db.delete(usage, when=Usage.hours["05"] == 1) is True
        assert db.delete(new) is False
        assert db.get(USAGE) is None
        assert db.delete_all(DAYS.where(Usage.hours["00"] > 2)) == 1
        assert list(db.scan()) == [USAGES[1]]
        with db.transaction() as tx:
            tx.update(Usage.primary(site="org", day="2026-01-02"), increment(Usage.hours["00"], 5))
        assert db.one(Usage, site="org", day="2026-01-02").hours["00"] == 7


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
        stored = db.get(key)
        assert stored == talk.model_copy(update={"stars": 2, "text": "y", "length": 4})
        assert list(db.query(Talk.by_author(author="12.5"))) == [stored]
        db.update(key, set_(Talk.author, "bo"), remove(Talk.length))
        assert db.count(Talk.by_author(author="12.5")) == 0
        assert db.first(Talk.by_author(author="bo")) == db.get(key)
        db.put(talk)
        assert db.delete(talk) is True
        assert db.count(Talk.by_author(author="12.5")) == 0
