"""Time series: tables of periods that read and write as one, and their rotation."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from odm import (
    AccessPattern,
    BadCursor,
    BadValue,
    Entity,
    ItemExists,
    ItemNotFound,
    PrimaryKey,
    Query,
    Store,
    Table,
    TableNotFound,
    Unsupported,
    select,
    set_,
)
from odm.patterns.time_series import SeriesStore, TimeSeries
from odm.testing.capabilities import needs
from odm.testing.stores import Stores

readings, unindexed = Table("meter"), Table("meter1")


class Reading(Entity, table=readings):
    """What a meter showed; by day of all meters, and by value."""

    meter: str
    at: datetime
    kwh: int = 0

    primary = PrimaryKey("METER#{meter}", "{at}")
    by_day = AccessPattern("DAY#{at:%Y%m%d}", "{meter}")
    by_kwh = AccessPattern("METER#{meter}", "{kwh}#{at}")


class Plain(Entity, table=unindexed):
    """A reading without access patterns."""

    meter: str
    at: datetime
    kwh: int = 0

    primary = PrimaryKey("METER#{meter}", "{at}")


MONTHS = TimeSeries(Reading, by="at", period="month", keep=3, ahead=1)
PLAIN = TimeSeries(Plain, by="at", period="month", keep=3, ahead=1)
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
TIMES = [NOW - timedelta(days=days, microseconds=days % 2) for days in (0, 1, 5, 26, 27, 30, 50, 58, 60, 80)]


@pytest.fixture
def meter_series(stores: Stores) -> Iterator[Stores]:
    """Opens stores; the tables of the periods are dropped at the end, and the clock stands still."""
    yield stores
    for table in (readings, unindexed):
        with suppress(Unsupported):
            for name in names(stores, table, "m"):
                dropped(stores, name, table)


def opened(stores: Stores, series: TimeSeries[Any] = PLAIN, now: datetime = NOW, **options: Any) -> SeriesStore[Any]:
    """The series at a time."""
    return stores.series(series, clock=now.timestamp, **options)


def filled(stores: Stores, series: TimeSeries[Any]) -> tuple[SeriesStore[Any], Store]:
    """The series with tables of three months, and one table with the same items."""
    db, plain = opened(stores, series), stores.open(series.table)
    for back in (2, 1, 0):
        db.rotate(now=series.shifted(date(2026, 11, 1), -back))
    for at in TIMES:
        for meter in "ab":
            item = series.entity(meter=meter, at=at, kwh=at.day % 4)
            db.put(item)
            plain.put(item)
    return db, plain


def paged(db: Any, query: Query[Any], size: int) -> list[list[Any]]:
    """All pages."""
    pages, cursor = [], None
    while True:
        page = db.page(query, size=size, after=cursor)
        pages.append(list(page.items))
        cursor = page.cursor
        if cursor is None:
            return pages


def same(db: SeriesStore[Any], plain: Store, query: Query[Any]) -> None:
    """Both read the same."""
    assert list(db.query(query)) == list(plain.query(query))
    assert db.count(query) == plain.count(query)
    assert db.first(query) == plain.first(query)
    for size in (1, 3, 100):
        assert paged(db, query, size) == paged(plain, query, size)


def names(stores: Stores, table: Table = unindexed, beginning: str = "meter1-2") -> list[str]:
    """The tables of the months."""
    with stores.offline(table) as store:
        return sorted(name for name in store.list_tables(beginning) if "." not in name)


def dropped(stores: Stores, name: str, table: Table = unindexed) -> None:
    """Drop one table."""
    with stores.offline(table, name=name) as store:
        store.drop()


@needs("conditions")
class TestSeriesReads:
    @pytest.mark.parametrize("back", [False, True])
    def test_are_those_of_one_table(self, meter_series: Stores, back: bool) -> None:
        db, plain = filled(meter_series, PLAIN)
        whole = Plain.primary(meter="a")
        queries: Sequence[Query[Plain]] = [
            whole,
            whole.limit(7),
            whole.limit(3),
            whole.where(Plain.at >= TIMES[5], Plain.at < TIMES[1]),
            whole.where(Plain.at > datetime(2026, 11, 1, tzinfo=UTC)),
            whole.where(Plain.at < datetime(2026, 11, 1, tzinfo=UTC)),
            whole.where(Plain.at >= NOW + timedelta(days=1)),
            whole.where(Plain.at >= TIMES[1], Plain.at <= TIMES[5]),
            whole.where(Plain.kwh == 3).limit(2),
            select(Plain).where(Plain.meter == "b", Plain.at > TIMES[6]),
            Plain.primary(meter="a", at=TIMES[6]),
            Plain.primary(meter="c"),
        ]
        for query in queries:
            same(db, plain, query.reverse() if back else query)

    def test_one_period_needs_one_request(self, meter_series: Stores) -> None:
        filled(meter_series, PLAIN)
        db = opened(meter_series)
        november = Plain.primary(meter="a").where(Plain.at >= datetime(2026, 11, 1, tzinfo=UTC), Plain.at <= NOW)
        db.first(november)
        meter_series.forget()
        assert len(db.page(november).items) == 4
        assert db.get(Plain, meter="a", at=TIMES[0]) is not None
        assert [type(request).__name__ for request in meter_series.requests] == ["Query", "Get"]

    def test_cost_what_they_say(self, meter_series: Stores) -> None:
        db, _ = filled(meter_series, PLAIN)
        query = Plain.primary(meter="a")
        db.count(query)
        for call, most in ((partial(db.page, query, size=2), 1), (partial(db.page, query, size=3), 2)):
            meter_series.forget()
            assert call().cursor is not None
            assert [type(request).__name__ for request in meter_series.requests] == ["Query"] * most
        meter_series.forget()
        db.count(query)
        assert [type(request).__name__ for request in meter_series.requests] == ["Query"] * 4
        again = opened(meter_series)
        meter_series.forget()
        again.first(query)
        again.first(query)
        assert [type(request).__name__ for request in meter_series.requests] == ["ListTables", "Query", "Query"]

    def test_of_no_table_say_so(self, meter_series: Stores) -> None:
        db = opened(meter_series)
        for call in (
            partial(db.get, Plain, meter="a", at=NOW),
            partial(db.first, Plain.primary(meter="a")),
            partial(db.count, Plain.primary(meter="a", at=NOW)),
        ):
            with pytest.raises(TableNotFound, match="rotate"):
                call()

    def test_of_a_period_without_table_are_empty(self, meter_series: Stores) -> None:
        db = opened(meter_series)
        db.rotate()
        before = NOW - timedelta(days=40)
        assert db.get(Plain, meter="a", at=before) is None
        assert db.delete(Plain, meter="a", at=before) is False
        assert db.count(Plain.primary(meter="a", at=before)) == 0
        with pytest.raises(ItemNotFound, match="2026-10-01"):
            db.one(Plain, meter="a", at=before)

    def test_pass_over_a_table_that_another_program_drops(self, meter_series: Stores) -> None:
        db, _ = filled(meter_series, PLAIN)
        query = Plain.primary(meter="a")
        page = db.page(query, size=2)
        before = db.count(query)
        dropped(meter_series, "meter1-2026-09")
        rest = db.page(query, size=100, after=page.cursor)
        assert len(rest.items) == before - 3
        assert len(list(db.query(query))) == before - 3

    def test_refuse_other_cursors(self, meter_series: Stores) -> None:
        db, plain = filled(meter_series, PLAIN)
        query = Plain.primary(meter="a").limit(8)
        inside, between = (db.page(query, size=size).cursor for size in (2, 3))
        assert inside is not None
        assert between is not None
        secret = opened(meter_series, cursor_secret="s")
        signed = secret.page(query, size=3).cursor
        assert len(secret.page(query, after=signed).items) == 5
        for cursor in (inside, between):
            assert len(db.page(query, after=cursor).items) == (6 if cursor == inside else 5)
            for wrong in (
                query.reverse(),
                query.limit(9),
                Plain.primary(meter="b").limit(8),
                query.where(Plain.kwh > 1),
            ):
                with pytest.raises(BadCursor):
                    db.page(wrong, after=cursor)
            for damaged in (cursor[:-2], cursor[2:], "x", "", 3, plain.page(query, size=2).cursor):
                with pytest.raises(BadCursor):
                    db.page(query, after=damaged)  # type: ignore[arg-type]
            for apart in (secret, opened(meter_series, prefix="p-")):
                with pytest.raises((BadCursor, TableNotFound)):
                    apart.page(query, after=cursor)
        with pytest.raises(BadCursor):
            db.page(query, after=signed)
        with pytest.raises(BadCursor):
            plain.page(query, after=inside)
        with pytest.raises(BadCursor):
            db.page(query.where(Plain.at > NOW), after=inside)


@needs("conditions", "indexes")
class TestSeriesPatterns:
    def test_of_all_meters_by_day(self, meter_series: Stores) -> None:
        db, plain = filled(meter_series, MONTHS)
        same(db, plain, select(Reading).where(Reading.at >= TIMES[8], Reading.at <= TIMES[2]))
        few = select(Reading).where(Reading.at >= TIMES[5], Reading.at <= TIMES[3])  # of two months
        for query in (few.reverse(), few.limit(2), few.where(Reading.kwh > 1)):
            same(db, plain, query)

    def test_read_only_the_partitions_of_each_table(self, meter_series: Stores) -> None:
        db, _ = filled(meter_series, MONTHS)
        begin, end = (datetime(2026, month, day, tzinfo=UTC) for month, day in ((10, 30), (11, 3)))
        query = select(Reading).where(Reading.at >= begin, Reading.at < end)
        db.count(query)
        meter_series.forget()
        assert len(list(db.query(query))) == 4
        assert [type(request).__name__ for request in meter_series.requests] == ["Query"] * 4  # a day each

    def test_not_sorted_by_time_need_one_period(self, meter_series: Stores) -> None:
        db, plain = filled(meter_series, MONTHS)
        query = Reading.by_kwh(meter="a")
        for call in (db.query, db.first, db.page):
            with pytest.raises(Unsupported, match="by_kwh does not sort by at"):
                call(query)
        assert db.count(query) == plain.count(query)
        begin, end = (datetime(2026, month, 1, tzinfo=UTC) for month in (11, 12))
        same(db, plain, query.where(Reading.at >= begin, Reading.at < end))
        with pytest.raises(Unsupported, match="within one month"):
            db.first(query.where(Reading.at >= begin, Reading.at <= end))
        same(db, plain, Reading.by_kwh(meter="a", kwh=2))

    def test_have_tables_of_their_own(self, meter_series: Stores) -> None:
        db = opened(meter_series, MONTHS)
        db.rotate()
        assert names(meter_series, readings, "meter-2") == ["meter-2026-11", "meter-2026-12"]
        db.rotate(drop=True, now=datetime(2030, 1, 1, tzinfo=UTC))
        assert names(meter_series, readings, "meter-2") == ["meter-2030-01", "meter-2030-02"]


@needs("conditions", "updates")
class TestSeriesWrites:
    def test_go_to_the_table_of_their_time(self, meter_series: Stores) -> None:
        db = opened(meter_series)
        db.rotate()
        last = datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=UTC)
        items = [Plain(meter="a", at=at, kwh=n) for n, at in enumerate((NOW, last, last + timedelta(microseconds=1)))]
        assert db.insert(items[0]) == items[0]
        with pytest.raises(ItemExists):
            db.insert(items[0])
        assert db.put_all(items) == 3
        with meter_series.offline(unindexed, name="meter1-2026-11") as november:
            assert list(november.query(Plain.primary(meter="a"))) == items[:2]
        changed = db.update(items[1], set_(Plain.kwh, 7), returning="new")
        assert changed == db.one(Plain.primary(meter="a", at=last)) == Plain(meter="a", at=last, kwh=7)
        db.put(items[2], when=Plain.kwh == 2)
        assert db.delete(items[2]) is True
        assert db.delete(Plain, meter="a", at=NOW, when=Plain.kwh == 0) is True
        assert list(db.query(Plain.primary(meter="a"))) == [changed]

    def test_stopped_anywhere_can_be_repeated(self, meter_series: Stores) -> None:
        items = [Plain(meter=meter, at=at) for at in (NOW, NOW + timedelta(days=9)) for meter in "ab"]
        db = opened(meter_series)
        db.rotate()
        stop, stopped = 0, True
        while stopped:
            stopped = meter_series.stopped(partial(db.put_all, items), after=stop)
            assert stopped or db.put_all(items) == 4
            for item in items[:2]:
                stopped_put = meter_series.stopped(partial(db.put, item), after=0)
                assert stopped_put
                assert db.put(item) == item
            stop += 1
        assert stop > 2
        for meter in "ab":
            assert [reading.at for reading in db.query(Plain.primary(meter=meter))] == [items[0].at, items[2].at]
            assert sum(db.delete(item) for item in items if item.meter == meter) == 2

    def test_have_transactions_within_a_period(self, meter_series: Stores) -> None:
        db = opened(meter_series)
        db.rotate()
        store = db.store_of(NOW)
        assert store.name == "meter1-2026-11"

    def test_need_a_table(self, meter_series: Stores) -> None:
        db = opened(meter_series)
        item = Plain(meter="a", at=NOW)
        for write in (partial(db.put, item), partial(db.insert, item), partial(db.put_all, [item])):
            with pytest.raises(TableNotFound, match=r"meter1-2026-11.*odm rotate"):
                write()
        db.rotate()
        for at, way in ((NOW - timedelta(days=40), r"date\(2026, 10, 1\)"), (NOW + timedelta(days=99), "2027, 3, 1")):
            with pytest.raises(TableNotFound, match=way):
                db.put(Plain(meter="a", at=at))
        db.put(item)

    def test_beyond_keep_are_refused_before_a_request(self, meter_series: Stores) -> None:
        db = opened(meter_series)
        item = Plain(meter="a", at=datetime(2026, 8, 31, 23, tzinfo=UTC))
        for write in (partial(db.put, item), partial(db.update, item, set_(Plain.kwh, 1)), partial(db.put_all, [item])):
            with pytest.raises(BadValue, match="keeps 3 periods, now from 2026-09-01 on"):
                write()
        assert meter_series.requests == []

    def test_of_other_classes_and_keys_are_refused(self, meter_series: Stores) -> None:
        db: SeriesStore[Any] = opened(meter_series)
        with pytest.raises(BadValue, match="not of TimeSeries"):
            db.put(Reading(meter="a", at=NOW))
        with pytest.raises(BadValue, match="not of TimeSeries"):
            db.get(Reading, meter="a", at=NOW)
        with pytest.raises(BadValue, match="has no at"):
            db.get(Plain, meter="a")
        with pytest.raises(BadValue, match="is not a query of TimeSeries"):
            db.count(Reading.primary(meter="a"))
        with pytest.raises(BadValue, match="call a pattern"):
            db.query(Plain)  # type: ignore[arg-type]
        with pytest.raises(BadValue, match="size=0"):
            db.page(Plain.primary(meter="a"), size=0)
        assert meter_series.requests == []


@needs("conditions")
class TestRotation:
    def test_makes_tables_ahead_and_drops_old_ones_on_demand(self, meter_series: Stores) -> None:
        db, told = opened(meter_series), list[str]()
        assert [step.kind for step in db.rotation().steps] == ["create", "create"]
        assert names(meter_series) == []
        db.rotate(tell=lambda step: told.append(str(step)))
        assert told == ["create  meter1-2026-11", "create  meter1-2026-12"]
        assert db.rotate().changes == ()
        later = date(2027, 3, 1)
        expired = db.rotation(now=later)
        assert [(step.kind, step.table[-7:]) for step in expired.steps] == [
            ("create", "2027-03"),
            ("create", "2027-04"),
            ("expired", "2026-11"),
            ("expired", "2026-12"),
        ]
        assert "--drop" in str(expired)
        db.rotate(now=later)
        assert len(names(meter_series)) == 4
        assert [step.kind for step in db.rotate(now=later, drop=True).steps] == ["check", "check", "drop", "drop"]
        assert names(meter_series) == ["meter1-2027-03", "meter1-2027-04"]
        assert [step.kind for step in db.rotate(now=later, drop=True).steps] == ["check", "check"]

    def test_leaves_other_tables_alone(self, meter_series: Stores) -> None:
        others = [
            "meter1",
            "meter1-2020-1",
            "meter1-2020-13",
            "meter1-2020-01-01",
            "x-meter-2020-01",
        ]
        for name in others:
            with meter_series.offline(unindexed, name=name) as store:
                store.create()
        opened(meter_series).rotate(drop=True)
        assert set(others) <= set(names(meter_series, beginning=""))
        dropped(meter_series, others[-1])

    def test_stopped_anywhere_is_finished_by_the_next(self, meter_series: Stores) -> None:
        old, later, stop, stopped = opened(meter_series), date(2027, 3, 1), 0, True
        while stopped:
            old.rotate(drop=True, now=date(2026, 11, 1))
            for name in names(meter_series):
                if name > "meter1-2026-12":
                    dropped(meter_series, name)
            fresh = opened(meter_series, now=datetime(2027, 3, 1, tzinfo=UTC))
            stopped = meter_series.stopped(partial(fresh.rotate, drop=True), after=stop)
            fresh.rotate(drop=True)
            assert names(meter_series) == ["meter1-2027-03", "meter1-2027-04"]
            assert fresh.put(Plain(meter="a", at=datetime(2027, 3, 2, tzinfo=UTC)))
            assert fresh.rotate(drop=True, now=later).changes == ()
            stop += 1
        assert stop == 1 + 1 + 2 + 2

    def test_prefixes_are_apart(self, meter_series: Stores) -> None:
        first, second = opened(meter_series, prefix="m-a"), opened(meter_series, prefix="m-b")
        first.rotate()
        assert [step.kind for step in second.rotation().steps] == ["create", "create"]
        assert first.rotation().steps[0].table == "m-ameter1-2026-11"
