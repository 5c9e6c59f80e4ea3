"""Automatic fields: what the suite of all backends does not run."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from types import new_class
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import ConfigDict, StringConstraints

from odm import (
    AUTO,
    TTL,
    AccessPattern,
    AsyncStore,
    BadValue,
    CellVersions,
    CreatedAt,
    Entity,
    Id,
    PrimaryKey,
    Revision,
    SchemaError,
    Store,
    Stored,
    Table,
    UpdatedAt,
    field,
    increment,
    set_,
    upgrade,
)
from odm.backends.local import Memory
from odm.extend import procedure
from odm.patterns.bulk_load import bulk_load
from odm.patterns.time_series import TimeSeries
from odm.patterns.unique import Unique
from odm.patterns.versioned import Versioned
from odm.procedures.ids import Ids, ulid_text, uuid7
from odm.testing.clock import Clock

START = datetime(2026, 1, 5, 12, 34, 56, 789_123, tzinfo=UTC)
TABLE = Table("automatic")


class Named(Entity):
    """An abstract base with the fields that most entities have."""

    id: Annotated[UUID, Id("uuid7")] = AUTO
    created_at: Annotated[datetime | None, CreatedAt] = None


class Person(Named, table=TABLE):
    """Frozen, with a companion, and a field without a declared default."""

    model_config = ConfigDict(frozen=True, validate_default=True)

    name: str
    changed: Annotated[datetime, UpdatedAt]

    primary = PrimaryKey("PERSON#{id}")
    by_name = Unique("name")


class Text(Entity, table=TABLE):
    """All versions are kept."""

    text_id: str
    body: str = ""
    version: Annotated[int, Revision] = 0
    changed: Annotated[datetime, UpdatedAt] = AUTO

    primary = PrimaryKey("TEXT#{text_id}", "NEWEST")
    versions = Versioned("TEXT#{text_id}", "v{version}")


class Log(Entity, table=TABLE):
    """Its key has both the time and the id."""

    at: Annotated[datetime, CreatedAt] = AUTO
    id: Annotated[str, Id("uuid7")] = AUTO
    hits: int = 0

    primary = PrimaryKey("LOG#{at:%Y%m}", "{at:s}#{id}")


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def db(clock: Clock) -> Store:
    store = Store(TABLE, Memory(clock=clock))
    store.create()
    return store


def test_companions_get_the_stored_entity(db: Store, clock: Clock) -> None:
    stored = db.put(Person(name="Ann"))  # type: ignore[call-arg]
    assert (type(stored.id), stored.created_at, stored.changed) == (UUID, START, START)
    clock.advance(1)
    db.update(Person.primary(id=stored.id), set_(Person.name, "Bea"))
    assert db.one(Person.by_name(name="Bea")).changed == clock.now()
    text = db.put(Text(text_id="t", body="one"))
    clock.advance(1)
    db.put(text.model_copy(update={"body": "two"}))
    first, second = (db.get(Text.versions.version(number, text_id="t")) for number in (1, 2))
    assert first == text
    assert second == db.one(Text, text_id="t")
    assert second is not None
    assert second.changed == clock.now()


def test_a_time_can_be_part_of_the_primary_key(db: Store) -> None:
    first, second = db.insert(Log()), db.insert(Log())
    assert list(db.query(Log.primary(at=START))) == [first, second]
    db.update(Log.primary(at=first.at, id=first.id), increment(Log.hits))
    assert db.one(Log.primary(at=first.at, id=first.id)).hits == 1
    db.update(Log.primary(at=START + timedelta(days=40), id="x"), set_(Log.hits, 1), upsert=True)
    assert db.one(Log.primary(at=START + timedelta(days=40), id="x")).hits == 1


def test_an_explanation_needs_no_id(db: Store) -> None:
    for write in ("put", "insert"):
        explained = db.explain(Log(), write=write)  # type: ignore[call-overload, unused-ignore]
        assert explained.partitions == ("LOG#202601",)


def test_a_time_series_by_the_time_that_the_store_assigns(clock: Clock) -> None:
    class Reading(Entity, table=Table("readings")):
        id: Annotated[str, Id()] = AUTO
        at: Annotated[datetime, CreatedAt, Stored(epoch="s")] = AUTO
        value: int = 0
        primary = PrimaryKey("READINGS", "{at}#{id}")

    readings = TimeSeries(Reading, by="at", period="month")
    with readings.open(Memory(clock=clock), clock=clock) as db:
        db.rotate()
        one = db.put(Reading())
        clock.advance(timedelta(days=31))
        two = db.insert(Reading(value=2))
        db.put_all([Reading(value=3)])
        assert list(db.query(Reading.primary()))[:2] == [one, two]
        assert [db.store_of(at).count(Reading.primary()) for at in (START, clock.now())] == [1, 2]


def test_an_assigned_entity_is_one_item_when_it_is_put_twice(db: Store, clock: Clock) -> None:
    log = db.assigned(Log())
    clock.advance(60)
    assert db.put(log) == db.put(db.assigned(log)) == log
    assert list(db.scan(Log)) == [log]
    assert db.assigned(Person(name="Ann")).changed is None  # type: ignore[call-arg]


def test_an_item_is_updated_when_it_is_created() -> None:
    """By one reading of the clock, which goes on."""
    table = Table("notes")

    class Note(Entity, table=table):
        id: Annotated[str, Id()] = AUTO
        text: str
        created: Annotated[datetime, CreatedAt] = AUTO
        updated: Annotated[datetime, UpdatedAt] = AUTO

        primary = PrimaryKey("NOTE#{id}")
        latest = AccessPattern("NOTES", "{updated}")

    with Store(table, Memory(), clock=count(START.timestamp()).__next__) as db:
        db.create()
        put = db.put(Note(text="put"))
        made = db.update(Note.primary(id=db.new_id(Note)), set_(Note.text, "made"), upsert=True, returning="new")
        assert put.created == put.updated < made.created == made.updated
        assert list(db.query(Note.latest())) == [put, made]


def test_a_validator_sees_the_value_before_it_is_part_of_a_key() -> None:
    table = Table("lower")

    class Note(Entity, table=table):
        id: Annotated[str, Id(), StringConstraints(to_lower=True)] = AUTO

        primary = PrimaryKey("NOTE#{id}")

    with Store(table, Memory()) as db:
        db.create()
        note = db.put(Note())
        assert note.id == note.id.lower()
        assert list(db.scan(Note)) == [db.one(Note, id=note.id)] == [note]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e20, -1e20])
def test_a_clock_that_is_wrong(seconds: float) -> None:
    with Store(TABLE, Memory(), clock=lambda: seconds) as db:
        with pytest.raises(BadValue, match="clock returns"):
            db.new_id(Log)
        with pytest.raises(BadValue, match="clock returns"):
            db.put(Text(text_id="a"))


def test_given_values_are_kept(db: Store) -> None:
    imported = Person(id=UUID(int=7), name="Ann", created_at=START - timedelta(days=9), changed=START)
    assert db.put(imported) == imported


@pytest.mark.parametrize("retry_safe", [False, True])
def test_retry_safe_updates_set_the_time(db: Store, clock: Clock, retry_safe: bool) -> None:
    db.put(Text(text_id="t"))
    clock.advance(1)
    db.with_options(retry_safe=retry_safe).update(Text.primary(text_id="t"), set_(Text.body, "x"))
    assert db.one(Text, text_id="t").changed == clock.now()


def test_a_load_can_run_again(db: Store, clock: Clock) -> None:
    people = [Person(id=db.new_id(Person), name=name) for name in ("Ann", "Bea")]  # type: ignore[call-arg]
    for _ in range(2):
        db.run(bulk_load(people, new=True))
        clock.advance(1)
    assert {one.changed for one in db.scan(Person)} == {START}


def test_ids_before_the_write() -> None:
    @procedure
    def new(do: Any) -> Any:
        yield from ()
        return do.new_id(Log), do.new_id(Person)

    db = Store(TABLE, Memory())
    text, uuid = db.run(new())
    assert text < db.new_id(Log) < asyncio.run(_async_id())
    assert uuid < db.new_id(Person)  # of all stores of the process that have its clock
    for other in (Text, "Log"):
        with pytest.raises(BadValue, match=r"Id\(\)"):
            db.new_id(other)  # type: ignore[arg-type]


async def _async_id() -> Any:
    async with AsyncStore(TABLE, Memory()) as db:
        return db.new_id(Log)


def test_old_items_have_no_value_until_an_upgrade_or_a_write_gives_one(clock: Clock) -> None:
    old, new, newest = Table("notes"), Table("notes"), Table("notes")

    class Note(Entity, table=old):
        id: str
        text: str = ""
        primary = PrimaryKey("NOTE#{id}")

    class Grown(Note, table=new, tag="Note"):
        created: Annotated[datetime, CreatedAt] = AUTO
        changed: Annotated[datetime, UpdatedAt] = AUTO
        primary = PrimaryKey("NOTE#{id}")
        recent = AccessPattern("ALL", "{changed}")

    class Upgraded(Grown, table=newest, tag="Note", version=2):
        primary = PrimaryKey("NOTE#{id}")

        @upgrade(from_=1)
        @staticmethod
        def dated(item: dict[str, Any]) -> dict[str, Any]:
            return {"created": "2020-01-01T00:00:00.000000Z", **item}

    backend = Memory(clock=clock)
    stores = [Store(table, backend) for table in (old, new, newest)]
    stores[0].create()
    stores[1].create()
    stores[0].put(Note(id="n"))
    read = stores[1].one(Grown, id="n")
    assert read.model_dump() == {"id": "n", "text": "", "created": None, "changed": None}
    assert stores[2].one(Upgraded, id="n").created == datetime(2020, 1, 1, tzinfo=UTC)
    stores[1].update(read, set_(Grown.text, "x"))
    changed = stores[1].one(Grown, id="n")
    assert changed.model_dump() == {"id": "n", "text": "x", "created": None, "changed": START}
    assert list(stores[1].query(Grown.recent())) == [changed]
    assert stores[1].put(changed).created == START


@pytest.mark.parametrize(
    ("form", "want"),
    [
        (Stored(epoch="s"), START.replace(microsecond=0)),
        (Stored(epoch="ms"), START.replace(microsecond=789_000)),
        (Stored(format="%Y-%m-%dT%H:%M:%S.%3fZ"), START.replace(microsecond=789_000)),
        (Stored(format="%Y%m%d %H%M"), START.replace(second=0, microsecond=0)),
        (Stored(format="%Y%m%d"), START.replace(hour=0, minute=0, second=0, microsecond=0)),
        (Stored(format="%Y%m%dT%f"), START.replace(hour=0, minute=0, second=0)),
    ],
)
def test_times_are_cut_to_the_stored_form(clock: Clock, form: Stored, want: datetime) -> None:
    table = Table("cut")

    class Cut(Entity, table=table):
        id: str
        at: Annotated[datetime, CreatedAt, form] = AUTO
        primary = PrimaryKey("CUT#{id}")

    db = Store(table, Memory(clock=clock))
    db.create()
    assert db.put(Cut(id="c")) == Cut(id="c", at=want) == db.one(Cut, id="c")


def faulty(kind: Any, default: Any = AUTO, key: str = "T#{id}", **options: Any) -> None:
    """Compile an entity with one more field."""
    table = Table("faulty")
    body = {"__annotations__": {"id": str, "x": kind}, "x": default, "primary": PrimaryKey(key), "__module__": __name__}
    new_class("Faulty", (Entity,), {"table": table, **options}, lambda space: space.update(body))
    table.compile()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Annotated[str, CreatedAt], {}, "datetime"),
        (Annotated[int, Id()], {}, "str field"),
        (Annotated[UUID, Id()], {}, "str field"),
        (Annotated[str, Id("snowflake")], {}, "'ulid' or 'uuid7'"),  # type: ignore[arg-type]
        (Annotated[str, Id], {}, r"Id\(\)"),
        (Annotated[datetime, CreatedAt, UpdatedAt], {}, "remove CreatedAt from 'x'"),
        (Annotated[datetime, CreatedAt, TTL], {}, "combined with TTL"),
        (Annotated[datetime, UpdatedAt, CellVersions(3)], {}, "CellVersions"),
        (Annotated[datetime, UpdatedAt], {"key": "T#{id}#{x}"}, "primary key"),
        (Annotated[datetime, UpdatedAt], {"match": field("x") > START}, "match="),
        (Annotated[datetime, CreatedAt], {"default": START}, "AUTO"),
        (list[Annotated[datetime, CreatedAt]], {"default": []}, "has no effect"),
    ],
)
def test_a_marker_that_makes_no_sense_is_refused(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        faulty(kind, **options)


def test_only_one_of_each() -> None:
    table = Table("twice")

    class Twice(Entity, table=table):
        id: str
        one: Annotated[datetime, CreatedAt] = AUTO
        two: Annotated[datetime, CreatedAt] = AUTO
        primary = PrimaryKey("T#{id}")

    with pytest.raises(SchemaError, match="remove CreatedAt from 'one' or 'two'"):
        table.compile()


class TestIds:
    def test_the_published_forms(self) -> None:
        # RFC 9562, appendix A.6, and the time and random part of a ULID in its specification.
        millis, high, low = 0x017F22E279B0, 0xCC3, 0x18C4DC0C0C07398F
        assert uuid7(millis << 74 | high << 62 | low) == UUID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
        assert uuid7(millis << 74 | high << 62 | low).version == 7
        assert ulid_text(1469918176385 << 80)[:10] == "01ARYZ6S41"
        assert ulid_text(2**128 - 1) == "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"

    @pytest.mark.parametrize("bits", [74, 80])
    def test_they_increase_whatever_the_clock_does(self, bits: int) -> None:
        ids, random = Ids(bits), Random(1)
        made = [ids(lambda moment=moment: moment, random) for moment in (5.0, 5.0, 4.0, 5.001, 1.0, 9.0)]  # type: ignore[misc]
        assert made == sorted(set(made))
        assert [number >> bits for number in made] == [5000, 5000, 5000, 5001, 5001, 9000]

    def test_a_full_millisecond_goes_on_to_the_next(self) -> None:
        class Most(Random):
            def getrandbits(self, k: int, /) -> int:
                return (1 << k) - 1

        ids = Ids(80)
        made = [ids(lambda: 5.0, Most()) for _ in range(2)]
        assert [number >> 80 for number in made] == [5000, 5001]

    def test_threads_get_different_increasing_ids(self) -> None:
        ids, random = Ids(80), Random(1)

        def some(_: int) -> list[int]:
            return [ids(lambda: 5.0, random) for _ in range(500)]

        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(some, range(8)))
        assert all(one == sorted(one) for one in made)
        assert len({number for one in made for number in one}) == 4000

    @pytest.mark.parametrize("moment", [-1.0, 2.0**48 / 1000])
    def test_a_clock_that_no_id_can_hold(self, moment: float) -> None:
        with pytest.raises(BadValue, match="set the clock"):
            Ids(80)(lambda: moment, Random(1))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    def test_a_fork_does_not_repeat_ids(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ids, random = Ids(80), Random(1)
        first = ids(lambda: 5.0, random)
        monkeypatch.setattr("os.getpid", lambda: -1)  # as in a child, which has the state of its parent
        assert ids(lambda: 5.0, random) != first + 1
