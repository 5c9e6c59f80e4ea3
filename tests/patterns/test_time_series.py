"""Time series: the same as one table, whatever the periods; rotation by two at once; what a declaration refuses."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from threading import Barrier, Thread
from typing import Annotated, Any
from uuid import uuid4

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import (
    AccessPattern,
    BackendError,
    BadCursor,
    BadValue,
    Entity,
    OutcomeUnknown,
    PrimaryKey,
    Query,
    SchemaError,
    Store,
    Table,
    TableNotFound,
    Unsupported,
)
from odm.backends.dynamodb import DynamoDB, Provisioned, TableOptions
from odm.backends.local import Faults, LocalFile, Memory
from odm.extend import planned
from odm.patterns.pointer import Pointer
from odm.patterns.time_series import TimeSeries
from odm.protocol.connection import Backend
from odm.testing.suite.helpers import walk
from tests.effort import times

readings = Table("readings")
START = datetime(2024, 1, 28, tzinfo=UTC)
EAST = timezone(timedelta(hours=9))


class Reading(Entity, table=readings):
    sensor: str
    at: datetime
    value: int = 0

    primary = PrimaryKey("SENSOR#{sensor}", "{at:desc}")
    by_time = AccessPattern("ALL", "{at}#{sensor}")
    by_value = AccessPattern("VALUE#{value}", "{at:%Y%m%d}#{sensor}#{at}")
    by_hour = AccessPattern("HOUR#{at:%Y%m%d%H}", "{sensor}")
    by_year = AccessPattern("YEAR#{at:%Y}", "{at}")


class Day(Entity, table=Table("days")):
    sensor: str
    day: date
    value: int = 0

    primary = PrimaryKey("SENSOR#{sensor}", "{day}")


MONTHS = TimeSeries(Reading, by="at", period="month", ahead=1)
DAYS = TimeSeries(Reading, by="at", period="day", ahead=1, name="SENSOR_{period:%Y%m%d}")
TIMES = st.integers(0, 20 * 24).map(lambda hours: START + timedelta(hours=hours / 2))
BOUNDS = st.tuples(TIMES, st.booleans(), TIMES, st.booleans())


def within(query: Query[Reading], low: datetime, open_low: bool, high: datetime, open_high: bool) -> Query[Reading]:
    """The query with both bounds, open or closed, in some time zone."""
    at = Reading.at
    low = low.astimezone(EAST)
    return query.where(at > low if open_low else at >= low, at < high if open_high else at <= high)


@pytest.mark.parametrize("series", [MONTHS, DAYS], ids=["months", "days"])
@settings(max_examples=times(30, 300))
@given(st.data())
def test_reads_as_one_table_does(series: TimeSeries[Reading], data: st.DataObject) -> None:
    backend = Memory()
    plain = Store(readings, backend)
    db: Any = series.open(backend)
    plain.create()
    items = st.builds(Reading, sensor=st.sampled_from("ab"), at=TIMES, value=st.integers(0, 1))
    for item in data.draw(st.lists(items, max_size=25)):
        db.store_of(item.at).create()
        plain.put(item)
        db.put(item)
    db.store_of(START).create()
    db.forget()
    queries: dict[str, Any] = {
        "primary": Reading.primary(sensor="a"),
        "by_time": Reading.by_time(),
        "by_value": Reading.by_value(value=0),
        "by_hour": None,
    }
    name = data.draw(st.sampled_from([*queries]))
    bounds = data.draw(BOUNDS)
    if name == "by_hour":
        query = within(Reading.by_hour(at=bounds[0]), bounds[0], False, bounds[0] + timedelta(minutes=20), True)
    else:
        query = queries[name] if data.draw(st.booleans()) else within(queries[name], *bounds)
    query = query.reverse() if data.draw(st.booleans()) else query
    query = query.where(Reading.value == 1) if data.draw(st.booleans()) else query
    most = data.draw(st.none() | st.integers(1, 8))
    query = query if most is None else query.limit(most)
    assert list(db.query(query)) == list(plain.query(query))
    assert (db.count(query), db.first(query)) == (plain.count(query), plain.first(query))
    size = data.draw(st.integers(1, 6))
    assert walk(db, query, size) == walk(plain, query, size)


def test_days_of_a_date_field() -> None:
    series = TimeSeries(Day, by="day", period="day", keep=2, ahead=1)
    db = series.open(Memory(), clock=datetime(2024, 3, 1, 1, tzinfo=EAST).timestamp)  # still 29 February in UTC
    assert [step.table for step in db.rotate().steps] == ["days-2024-02-29", "days-2024-03-01"]
    first, second = (Day(sensor="s", day=date(2024, 2, 29) + timedelta(days=n)) for n in (0, 1))
    assert db.put_all([second, first]) == 2
    assert list(db.query(Day.primary(sensor="s"))) == [first, second]
    assert list(db.query(Day.primary(sensor="s").where(Day.day < second.day))) == [first]
    assert db.get(Day, sensor="s", day="2024-02-29") == first
    with pytest.raises(TableNotFound, match=r"date\(2024, 2, 28\)"):
        db.put(Day(sensor="s", day=date(2024, 2, 28)))
    with pytest.raises(BadValue, match="keeps 2 periods, now from 2024-02-28 on"):
        db.put(Day(sensor="s", day=date(2024, 2, 27)))


def test_async_iteration_and_context() -> None:
    async def main() -> None:
        async with MONTHS.open_async(Memory(), clock=START.timestamp) as db:
            await db.rotate()
            items = [Reading(sensor="a", at=START + timedelta(days=n)) for n in (0, 9)]
            assert await db.put_all(items) == 2
            query = Reading.by_time()
            assert [item async for item in db.query(query.limit(2))] == items
            assert [item async for item in db.query(query.reverse().limit(1))] == items[1:]
            page = await db.page(query, size=1)
            second = await db.page(query, size=1, after=page.cursor)
            assert second.items == items[1:]
            assert await db.page(query, size=1, after=second.previous) == page

    asyncio.run(main())


PARTS: dict[str, st.SearchStrategy[Any]] = {
    "period": st.sampled_from(["2024-01-01", "2024-02-01", "2024-01-02", "2025-01-01", "x", 7]),
    "inner": st.none() | st.text(max_size=3) | st.integers(),
    "most": st.none() | st.integers(-1, 3) | st.booleans(),
    "left": st.none() | st.integers(-1, 3) | st.booleans(),
    "back": st.booleans() | st.none() | st.integers(0, 1),
}


@settings(max_examples=times(200, 2_000))
@given(st.data())
def test_a_forged_cursor_is_refused_or_reads_a_page(data: st.DataObject) -> None:
    db = MONTHS.open(Memory(), clock=START.timestamp)
    db.rotate()
    db.put(Reading(sensor="a", at=START))
    query = Reading.by_time() if data.draw(st.booleans()) else Reading.by_time().limit(2)
    body = data.draw(st.fixed_dictionaries(PARTS))
    if data.draw(st.booleans()):
        body["inner"] = db.store_of(START).start(Reading.by_time(), end=data.draw(st.booleans()))
    sealed = db.base.seal([db.series.name, *body.values()][: data.draw(st.integers(4, 6))])
    try:
        page = db.page(query, after=sealed)
    except BadCursor:
        return
    assert len(page.items) <= 1


@pytest.mark.parametrize("period", ["2024-02-01", "2024-05-01"])
def test_a_forged_cursor_of_a_period_outside_of_the_query_is_refused(period: str) -> None:
    db = MONTHS.open(Memory(), clock=datetime(2024, 3, 15, tzinfo=UTC).timestamp)
    db.rotate()
    query = within(Reading.by_time(), datetime(2024, 3, 1, tzinfo=UTC), False, datetime(2024, 4, 1, tzinfo=UTC), False)
    for within_bounds in ("2024-03-01", "2024-04-01"):
        with pytest.raises(BadCursor, match="is not a cursor"):  # the inner one: the period is right
            db.page(query, after=db.base.seal([db.series.name, within_bounds, "", None, None, False]))
    with pytest.raises(BadCursor, match="belongs to another query"):
        db.page(query, after=db.base.seal([db.series.name, period, "", None, None, False]))


def test_bounds_and_order_of_a_plan() -> None:
    plan = planned(within(Reading.primary(sensor="a"), START, True, START, False))
    assert plan.order == ("at", True)
    assert list(plan.bounds("at")) == [(">", START), ("<=", START)]
    assert planned(Reading.by_time().reverse()).order == ("at", True)
    assert planned(Reading.by_value(value=1)).order == ("at", False)
    assert planned(Reading.by_hour(at=START)).order == ("sensor", False)
    assert planned(Reading.primary(sensor="a", at=START)).order is None
    assert list(planned(Reading.primary(sensor="a", at=START)).bounds("at")) == [(">=", START), ("<=", START)]
    with pytest.raises(BadValue, match="is not a query"):
        planned(Reading)  # type: ignore[arg-type]


def test_a_unit_of_several_periods_is_refused() -> None:
    db = MONTHS.open(Memory(), clock=START.timestamp)
    db.rotate()
    with pytest.raises(Unsupported, match="by_year does not sort by at"):
        db.count(Reading.by_year(at=START))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"by": "value"}, "'value' is not in the primary key, but a key names the table of its item"),
        ({"by": "when"}, "'when' is not in the primary key"),
        ({"by": "sensor"}, "the primary key needs the month of a datetime or date"),
        ({"period": "week"}, "period='week': write 'month' or 'day'"),
        ({"keep": 0}, "keep=0: give a number of periods"),
        ({"ahead": True}, "ahead=True: give a number of periods"),
        ({"name": "readings"}, "write text around {period:...} with %Y, %m"),
        ({"name": "r-{period:%Y}"}, "write text around {period:...} with %Y, %m"),
        ({"name": "r-{period:%Y-%m-%d}"}, "write text around"),
        ({"name": "r-{period:%Y-%m}-{period:%Y-%m}"}, "write text around"),
        ({"name": "r-{table}-{period:%Y-%m}"}, "write text around"),
        ({"name": "r-{period:%Y-%m"}, "write text around"),
        ({"name": "r s-{period:%Y-%m}"}, "a name has 3 to 255 characters"),
    ],
)
def test_what_a_declaration_refuses(options: dict[str, Any], why: str) -> None:
    declared: dict[str, Any] = {"by": "at", "period": "month"} | options
    with pytest.raises(SchemaError, match=why.replace("{", r"\{").replace("(", r"\(")):
        TimeSeries(Reading, **declared).open(Memory())


def test_entities_that_a_series_refuses() -> None:
    yearly, tracked = Table("yearly"), Table("tracked")

    class Yearly(Entity, table=yearly):
        sensor: str
        at: datetime

        primary = PrimaryKey("S#{sensor}#{at:%Y}")

    class Tracked(Entity, table=tracked):
        sensor: str
        at: datetime

        primary = PrimaryKey("S#{sensor}", "{at}")
        newest = Pointer("NEWEST#{sensor}", tracks="at")

    with pytest.raises(SchemaError, match="needs the month"):
        TimeSeries(Yearly, by="at", period="month").open(Memory())
    with pytest.raises(SchemaError, match=r"Tracked\.newest has items of its own"):
        TimeSeries(Tracked, by="at", period="month").open_async(Memory())
    with pytest.raises(SchemaError, match="give an entity"):
        TimeSeries(dict, by="at", period="month")  # type: ignore[type-var]
    daily = TimeSeries(Reading, by="at", period="day")
    with pytest.raises(BadValue, match="is not a date, or a datetime with a time zone"):
        daily.name_of(datetime(2024, 1, 1))
    with pytest.raises(BadValue, match="name='x'"):
        Store(readings, Memory(), name="x")


def test_names_are_parsed_exactly() -> None:
    series = TimeSeries(Reading, by="at", period="day", name="S.{period:%d_%m_%Y}-x")
    assert series.name_of(datetime(2024, 2, 29, 23, tzinfo=UTC)) == "S.29_02_2024-x"
    assert series.period_in("S.29_02_2024-x") == date(2024, 2, 29)
    for wrong in ("S.29_02_2023-x", "Sx29_02_2024-x", "S.29_02_2024-y", "S.29_02_2024-x.by", "S.29_2_2024-x", ""):
        assert series.period_in(wrong) is None


def at_once(works: list[Callable[[], object]]) -> list[Exception]:
    """Run all in threads that begin together; returns what they raised."""
    barrier, failures = Barrier(len(works)), list[Exception]()

    def work(one: Callable[[], object]) -> None:
        barrier.wait()
        try:
            one()
        except Exception as error:  # noqa: BLE001  # the test shows it
            failures.append(error)

    threads = [Thread(target=work, args=(one,)) for one in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@pytest.fixture(params=["memory", "file", "moto", "dynamodb_local", "bigtable"])
def shared(request: pytest.FixtureRequest) -> Backend:
    match request.param:
        case "memory":
            return Memory()
        case "file":
            return LocalFile(request.getfixturevalue("tmp_path") / "series.db")
        case "bigtable":
            from odm.backends.bigtable import Bigtable

            return Bigtable("project", "instance", endpoint=request.getfixturevalue("bigtable_emulator"))
    name = "moto_server" if request.param == "moto" else request.param
    return dynamodb(request.getfixturevalue(name))


def dynamodb(address: str) -> DynamoDB:
    session = boto3.Session(aws_access_key_id="series", aws_secret_access_key="secret", region_name="eu-west-1")
    return DynamoDB(session, endpoint_url=address)


def test_two_rotations_at_once(shared: Backend) -> None:
    old = TableOptions(Provisioned(1, 1))
    series = TimeSeries(Reading, by="at", period="month", keep=2, ahead=1, old=old)
    prefix, now = uuid4().hex[:8] + "-", datetime(2024, 5, 1, tzinfo=UTC)
    options: dict[str, Any] = {"prefix": prefix, "clock": now.timestamp}
    with series.open(shared, **options) as db:
        for month in (2, 3, 4):
            db.store_of(date(2024, month, 1)).create()
    stores = [series.open(shared, **options) for _ in range(2)]
    assert at_once([partial(db.rotate, drop=True) for db in stores]) == []
    with series.open(shared, **options) as db:
        assert [step.kind for step in db.rotation(drop=True).steps] == ["check", "check"]
        found = {name for name in db.base.list_tables(prefix) if "." not in name}
        assert found == {f"{prefix}readings-2024-{month:02}" for month in (4, 5, 6)}
        db.put(Reading(sensor="a", at=now))
        for month in (4, 5, 6):
            db.store_of(date(2024, month, 1)).drop()
    for db in stores:
        db.close()


@pytest.mark.parametrize("place", ["moto_server", "dynamodb_local"])
def test_settings_of_present_and_past_tables(place: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue(place)
    series = TimeSeries(
        Reading,
        by="at",
        period="month",
        ahead=1,
        new=TableOptions(Provisioned(5, 4)),
        old=TableOptions(Provisioned(2, 1)),
    )
    prefix, told = uuid4().hex[:8] + "-", list[str]()
    with series.open(dynamodb(address), prefix=prefix) as db:
        db.rotate(now=date(2024, 4, 1))
        planned_ = db.rotation(now=date(2024, 5, 1))
        done = db.rotate(now=date(2024, 5, 1), tell=lambda step: told.append(str(step)))
        assert told == str(planned_).splitlines() == str(done).splitlines()
        assert [step.kind for step in done.steps] == ["check", "create", "alter"]
        assert "5 read and 4 write units → 2 read and 1 write units" in told[-1]
        assert db.rotation(now=date(2024, 5, 1)).changes == ()
        client = db.backend._settings.session.client("dynamodb", endpoint_url=address)  # type: ignore[attr-defined]
        paid: dict[int, set[tuple[int, int]]] = {}
        for month in (4, 5, 6):
            table = client.describe_table(TableName=f"{prefix}readings-2024-{month:02}")["Table"]
            for part in (table, *table["GlobalSecondaryIndexes"]):
                units = part["ProvisionedThroughput"]
                paid.setdefault(month, set()).add((units["ReadCapacityUnits"], units["WriteCapacityUnits"]))
            db.store_of(date(2024, month, 1)).drop()
        assert paid == {4: {(2, 1)}, 5: {(5, 4)}, 6: {(5, 4)}}


def test_errors_of_the_store_are_passed_on() -> None:
    faults = Faults()
    db = MONTHS.open(Memory(faults=faults), clock=START.timestamp)
    db.rotate()
    item = Reading(sensor="a", at=START)
    faults.lose("put", applied=True)
    with pytest.raises(OutcomeUnknown):
        db.put(item)
    assert db.one(Reading, sensor="a", at=START) == item
    faults.fail("list_tables")
    with pytest.raises(BackendError, match="list_tables on table 'readings'"):
        db.count(Reading.primary(sensor="a"))
    assert db.count(Reading.primary(sensor="a")) == 1


def test_a_dropped_index_is_not_taken_for_a_missing_table() -> None:
    """Only a table that is not in the list is passed over."""
    tables = Table("noted")

    class Note(Entity, table=tables):
        text: str
        at: Annotated[datetime, "when"]

        primary = PrimaryKey("NOTE#{text}", "{at}")

    series = TimeSeries(Note, by="at", period="month", ahead=1)
    backend = Memory()
    db = series.open(backend, clock=START.timestamp)
    db.rotate()

    class Wider(Entity, table=tables):
        text: str
        at: datetime

        primary = PrimaryKey("WIDER#{text}", "{at}")
        by_text = AccessPattern("TEXT#{text}", "{at}")

    wider = TimeSeries(Wider, by="at", period="month", ahead=1).open(backend, clock=START.timestamp)
    with pytest.raises(BackendError, match="index 'by_text' of table 'noted-2024-01' does not exist"):
        wider.first(Wider.by_text(text="a"))
    wider.rotate()
    assert wider.first(Wider.by_text(text="a").where(Wider.at < START + timedelta(days=20))) is None


def test_an_error_for_a_table_that_exists_is_passed_on() -> None:
    """On Bigtable, the table of an index may be missing while that of the items exists."""
    faults = Faults()
    db = MONTHS.open(Memory(faults=faults), clock=START.timestamp)
    db.rotate()
    calls: list[Callable[[], object]] = [
        partial(db.first, Reading.by_time()),
        lambda: list(db.query(Reading.by_time())),
        partial(db.count, Reading.primary(sensor="a", at=START)),
    ]
    for call in calls:
        faults.fail("query", TableNotFound("the table of the index"))
        with pytest.raises(TableNotFound, match="the table of the index"):
            call()
        faults.clear()
    faults.fail("put", TableNotFound("the table of the index"))
    with pytest.raises(TableNotFound, match="the table of the index"):
        db.put(Reading(sensor="a", at=START))


def test_a_table_that_is_being_dropped_is_passed_over() -> None:
    """DynamoDB lists a table until it is deleted, and its requests fail before."""
    faults = Faults()
    series = TimeSeries(Reading, by="at", period="month", keep=1, ahead=1)
    backend, now = Memory(faults=faults), datetime(2024, 3, 1, tzinfo=UTC)
    old = series.open(backend, clock=START.timestamp)
    old.rotate()
    db = series.open(backend, clock=now.timestamp)
    db.rotate()
    db.put(Reading(sensor="a", at=now))
    for _ in range(2):
        faults.fail("query", TableNotFound("it is being deleted"), times=2)
        assert [one.at for one in db.query(Reading.by_time())] == [now]
        faults.clear()


def test_a_write_to_a_new_table_is_read_at_once() -> None:
    backend = Memory()
    db, other = (MONTHS.open(backend, clock=START.timestamp) for _ in range(2))
    db.rotate()
    assert db.count(Reading.by_time()) == 0
    later = START + timedelta(days=90)
    other.store_of(later).create()
    other.put(Reading(sensor="b", at=later))
    assert db.count(Reading.by_time()) == 0  # the list of tables is of this minute
    db.put(Reading(sensor="a", at=later))
    assert db.count(Reading.by_time()) == 2


def test_a_list_of_tables_can_be_made_for_each_query() -> None:
    series, backend = TimeSeries(Reading, by="at", period="month", refresh=0), Memory()
    db, other = (series.open(backend, clock=START.timestamp) for _ in range(2))
    db.rotate()
    assert db.count(Reading.by_time()) == 0
    later = START + timedelta(days=90)
    other.store_of(later).create()
    other.put(Reading(sensor="b", at=later))
    assert db.count(Reading.by_time()) == 1
