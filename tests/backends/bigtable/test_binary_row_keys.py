"""Row keys with binary parts, as other programs write them with Google's client: designs of HBase and OpenTSDB."""

import hashlib
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

import pytest
from google.cloud.bigtable.data import BigtableDataClient, ReadRowsQuery
from google.cloud.bigtable.data import SetCell as GoogleCell

from odm import (
    AsyncStore,
    Cell,
    ConditionFailed,
    Entity,
    ItemExists,
    ItemInvalid,
    KeyValueError,
    PrimaryKey,
    Store,
    Stored,
    Table,
    exists,
    field,
    increment,
    set_,
    starts_with,
)
from odm.backends.bigtable.admin.commands import Admin
from odm.backends.bigtable.maintenance.drop_rows import Dropper
from odm.backends.bigtable.rows.keys import bytes_of
from odm.backends.local import Memory
from odm.immutable import evolve
from tests.backends.bigtable.test_existing_rows import Place, open_

__all__ = ["open_"]

LONG_MAX: Final = 2**63 - 1
NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)

events = Table("events", row_style="verbatim")
points = Table("points", row_style="verbatim", row_key_join="")
accents = Table("accents", row_style="verbatim", row_key_join="é")
users = Table("users", row_style="verbatim", row_key_join="")


class Event(Entity, table=events):
    """The newest first: Long.MAX_VALUE - time, as in the reference guide of HBase."""

    user: str
    at: Annotated[datetime, Stored(epoch="ms")]
    text: Annotated[str, Cell("e:text", "text")]
    seen: Annotated[int, Cell("e:seen", "int64be")] = 0

    primary = PrimaryKey("{user}", "{at:int64be:desc}")


class Point(Entity, table=points):
    """An hour of a metric of OpenTSDB: a salt, the id of the metric, the hour, and ids of tags."""

    salt: int
    metric: bytes
    hour: Annotated[datetime, Stored(epoch="s")]
    tags: bytes
    value: Annotated[int, Cell("t:value", "int64be")]

    primary = PrimaryKey("{salt:uint8}{metric:bytes3}", "{hour:uint32be}{tags:bytes}")


class Accent(Entity, table=accents):
    """The separator is not ASCII."""

    name: str
    at: int
    value: Annotated[int, Cell("t:value", "int64be")] = 0

    primary = PrimaryKey("{name}", "{at:int64be}")


class User(Entity, table=users):
    """Spread by a hash."""

    hash: bytes
    name: str
    id: Annotated[UUID, Stored(format="bytes")]
    city: Annotated[str | None, Cell("u:city", "text")] = None
    age: Annotated[int, Cell("u:age", "int64be")] = 0

    primary = PrimaryKey("{hash:bytes4}{name}é", "{id:bytes16}")


def event(minutes: int, user: str = "zoë") -> Event:
    return Event(user=user, at=NOON + timedelta(minutes=minutes), text=str(minutes))


def row_key_of(made: Event) -> bytes:
    millis = round(made.at.timestamp() * 1000)
    return made.user.encode() + b"#" + struct.pack(">q", LONG_MAX - millis)


EVENTS: Final = [event(minutes) for minutes in (0, 1, 60, 100_000, -1_000_000)]


@pytest.fixture
def table_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Place], Any]]:
    """The table of Google's client."""
    clients: list[BigtableDataClient] = []

    def opened(place: Place) -> Any:
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", place.address)
        clients.append(BigtableDataClient(project="project"))
        return clients[-1].get_table("instance", place.name)

    yield opened
    for client in clients:
        client.close()


def rows_of(table: Any) -> dict[bytes, dict[str, bytes]]:
    return {
        row.row_key: {f"{cell.family}:{cell.qualifier.decode()}": cell.value for cell in row.cells}
        for row in table.read_rows(ReadRowsQuery())
    }


def test_rows_of_googles_client(open_: Callable[[Table], Place], table_of: Callable[[Place], Any]) -> None:
    place = open_(events)
    table, db = table_of(place), place.db
    for one in EVENTS:
        cells = [GoogleCell("e", "text", one.text), GoogleCell("e", "seen", struct.pack(">q", 0))]
        table.mutate_row(row_key_of(one), [*cells, GoogleCell("other", "x", b"\xff")])
    before = rows_of(table)
    newest_first = sorted(EVENTS, key=lambda one: one.at, reverse=True)
    of_user = Event.primary(user="zoë")
    assert list(db.query(of_user)) == newest_first
    assert list(db.query(of_user.reverse())) == newest_first[::-1]
    assert list(db.query(of_user.where(Event.at > NOON))) == [one for one in newest_first if one.at > NOON]
    assert list(db.query(of_user.where(Event.at <= NOON))) == [one for one in newest_first if one.at <= NOON]
    assert list(db.query(of_user.where(Event.at == NOON))) == [EVENTS[0]]
    assert db.count(of_user.where(Event.at >= NOON - timedelta(days=1), Event.text != "1")) == 3
    assert sorted(db.scan(Event), key=lambda one: one.at) == newest_first[::-1]
    for one in db.scan(Event):
        db.put(one)
    assert rows_of(table) == before
    assert db.get(Event, user="zoë", at=NOON) == EVENTS[0]
    assert db.get(Event, user="zo", at=NOON) is None


def test_writes(open_: Callable[[Table], Place], table_of: Callable[[Place], Any]) -> None:
    place = open_(events)
    table, db = table_of(place), place.db
    key = Event.primary(user="zoë", at=NOON)
    db.insert(EVENTS[0])
    with pytest.raises(ItemExists):
        db.insert(EVENTS[0])
    db.update(key, increment(Event.seen, 2), when=Event.text == "0")
    with pytest.raises(ConditionFailed):
        db.update(key, set_(Event.text, "x"), when=Event.seen == 0)
    db.merge(key, set_(Event.text, "new"))
    with db.batch() as batch:
        batch.put(EVENTS[1])
        batch.put(event(5, user="\udbff\udfff".encode("utf-16", "surrogatepass").decode("utf-16")))
    assert db.get_many([Event.primary(user=one.user, at=one.at) for one in EVENTS[:3]])[2] is None
    assert rows_of(table)[row_key_of(EVENTS[0])] == {"e:seen": struct.pack(">q", 2), "e:text": b"new"}
    assert row_key_of(EVENTS[1]) in rows_of(table)
    assert db.delete(key)
    assert db.delete_all(Event.primary(user="zoë")) == 1
    assert [one.text for one in db.scan(Event)] == ["5"]


def test_pages(open_: Callable[[Table], Place]) -> None:
    db = open_(points).db
    made = [
        Point(salt=salt, metric=bytes([0, n, 255]), hour=NOON + timedelta(hours=hour), tags=b"\xff", value=n)
        for salt in (0, 127, 128, 255)
        for n in (0, 127, 128, 255)
        for hour in range(3)
    ]
    for one in made:
        db.put(one)
    found: list[Any] = []
    cursor = None
    while True:
        page = db.page(Point.primary(salt=128, metric=b"\0\xff\xff"), size=2, after=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            break
    assert found == [one for one in made if one.salt == 128 and one.metric == b"\0\xff\xff"]
    assert list(db.scan()) == made
    assert sorted(db.scan(Point, segments=3), key=made.index) == made
    of_metric = Point.primary(salt=0, metric=b"\0\x7f\xff")
    assert list(db.query(of_metric.where(Point.hour > NOON))) == [made[4], made[5]]
    of_hour = Point.primary(salt=0, metric=b"\0\x7f\xff", hour=NOON)
    assert list(db.query(of_hour.where(starts_with(Point.tags, b"\xff")))) == [made[3]]
    assert list(db.query(of_hour.where(starts_with(Point.tags, b"\xff\xff")))) == []


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("a\xff", b"a\xff"),
        ("", b""),
        ("a\u0100", b"b"),
        ("a\xff\u0100z", b"b"),
        ("\xff\xff\u0100", None),
        ("\U0010ffff", None),
        ("é", b"\xe9"),
    ],
)
def test_the_first_row_key_from_a_text_on(key: str, first: bytes | None) -> None:
    assert bytes_of(key) == first


def test_several_parts(open_: Callable[[Table], Place], table_of: Callable[[Place], Any]) -> None:
    """A hash, text that is not ASCII with such text behind it, and a UUID."""
    place = open_(users)
    table, db = table_of(place), place.db
    made = [
        User(hash=hashlib.md5(name.encode()).digest()[:4], name=name, id=UUID(int=n << 120 | n), age=n)
        for n, name in enumerate(["ann", "zoë", "\u00c3", "b#c", "\U0001f600"])
    ]
    for one in made:
        table.mutate_row(
            one.hash + one.name.encode() + "é".encode() + one.id.bytes,
            GoogleCell("u", "age", struct.pack(">q", one.age)),
        )
    before = rows_of(table)
    assert sorted(db.scan(User), key=lambda one: one.age) == made
    for one in made:
        assert db.get(User, hash=one.hash, name=one.name, id=one.id) == one
        assert list(db.query(User.primary(hash=one.hash, name=one.name))) == [one]
        db.put(one)
    assert rows_of(table) == before
    with pytest.raises(KeyValueError, match="it contains"):
        db.put(User(hash=b"abcd", name="café", id=UUID(int=1)))


def test_rows_of_no_entity(open_: Callable[[Table], Place], table_of: Callable[[Place], Any]) -> None:
    """A negative number, and fewer bytes than the template says."""
    place = open_(events)
    table = table_of(place)
    for key in (b"a#" + struct.pack(">q", -5), b"a#1234567", b"\xff#" + bytes(8)):
        table.mutate_row(key, GoogleCell("e", "text", "x"))
    with pytest.raises(ItemInvalid):
        list(place.db.scan())
    skipping = Store(events, place.backend, prefix=place.prefix, on_unknown="skip")
    with skipping as db:
        db.put(EVENTS[0])
        assert list(db.scan()) == [EVENTS[0]]
        assert list(db.query(Event.primary(user="a"))) == []


async def test_async(open_: Callable[[Table], Place], table_of: Callable[[Place], Any]) -> None:
    place = open_(events)
    table = table_of(place)
    async with AsyncStore(events, place.backend, prefix=place.prefix) as db:
        for one in EVENTS:
            await db.put(one)
        key = Event.primary(user="zoë", at=NOON)
        await db.update(key, set_(Event.text, "0"), when=Event.text == "0")
        found = [one async for one in db.query(Event.primary(user="zoë").where(Event.at > NOON))]
        assert [one.text for one in found] == ["100000", "60", "1"]
        assert await db.get(key) == EVENTS[0]
    assert {*rows_of(table)} == {row_key_of(one) for one in EVENTS}


def test_the_plan_and_printed_requests(open_: Callable[[Table], Place], table_of: Callable[[Place], Any]) -> None:
    place = open_(events)
    table_of(place).mutate_row(row_key_of(EVENTS[0]), GoogleCell("e", "text", "0"))
    table_of(place).mutate_row(row_key_of(EVENTS[1]), GoogleCell("e", "text", "1"))
    schema = evolve(events.compile(), name=place.name, prefix=place.prefix)
    surveyed = Admin(place.backend, schema).survey(100)
    assert surveyed.read == 2
    assert [finding.level for finding in surveyed.findings] == ["rewrites"]  # e:seen has a default
    assert "start='zoë#'" in str(place.db.explain(Event.primary(user="zoë")))
    assert r"'zoë#\x7f\xff\xfedq\xf8\xb9\xff'" in str(place.db.explain(EVENTS[0]))
    dropper = Dropper(place.backend, schema, "zoë#")
    assert dropper.look().rows == 2
    dropper.drop()
    assert rows_of(table_of(place)) == {}


def test_the_same_models_elsewhere() -> None:
    with Store(events, Memory()) as db:
        db.create()
        for one in EVENTS:
            db.put(one)
        found = list(db.query(Event.primary(user="zoë").where(Event.at > NOON)))
        assert [one.text for one in found] == ["100000", "60", "1"]
        assert db.get(Event, user="zoë", at=NOON) == EVENTS[0]


uids = Table("tsdb-uid", row_style="verbatim")


class Metric(Entity, table=uids, match=exists(field("uid"))):
    """The table of ids of OpenTSDB: by name, and the other way round."""

    text: str
    uid: Annotated[bytes | None, Cell("id:metrics", "bytes")] = None

    primary = PrimaryKey("{text}")


class Uid(Entity, table=uids, match=exists(field("name"))):
    id: bytes
    name: Annotated[str | None, Cell("name:metrics", "text")] = None

    primary = PrimaryKey("{id:bytes3}")


def test_the_ids_of_opentsdb(open_: Callable[[Table], Place], table_of: Callable[[Place], Any]) -> None:
    """The highest id stands in the row 0, as 8 bytes."""
    place = open_(uids)
    table, db = table_of(place), place.db
    table.mutate_row(b"\0", [GoogleCell("id", "metrics", struct.pack(">q", 2))])
    for number, name in ((1, "sys.cpu"), (2, "net\u00e9")):
        uid = bytes([0, 0, number])
        table.mutate_row(name, [GoogleCell("id", "metrics", uid)])
        table.mutate_row(uid, [GoogleCell("name", "metrics", name)])
    before = rows_of(table)
    assert db.get(Metric, text="net\u00e9") == Metric(text="net\u00e9", uid=b"\0\0\2")
    assert db.get(Uid, id=b"\0\0\1") == Uid(id=b"\0\0\1", name="sys.cpu")
    assert [one.text for one in db.scan(Metric)] == ["\0", "net\u00e9", "sys.cpu"]
    for one in db.scan():
        db.put(one)
    assert rows_of(table) == before


def test_points_of_opentsdb_have_columns_that_are_not_text(
    open_: Callable[[Table], Place], table_of: Callable[[Place], Any]
) -> None:
    """The column is the second in the hour and the type of the value, in 2 bytes; such a column stays as it is."""
    place = open_(points)
    table = table_of(place)
    table.mutate_row(bytes.fromhex("0000000150E2270000000001000001"), GoogleCell("t", b"\x8f\xf0", b"\x07"))
    assert list(place.db.scan()) == []
    assert len(table.read_rows(ReadRowsQuery())) == 1


def test_a_separator_that_is_not_ascii(open_: Callable[[Table], Place]) -> None:
    """A scan compares whole row keys with those of the fields."""
    db = open_(accents).db
    stored = [db.put(Accent(name="x", at=at)) for at in (0, 3)]
    assert list(db.scan(Accent)) == stored
    assert list(db.query(Accent.primary(name="x").where(Accent.at > 0))) == stored[1:]
    assert [item.entity for item in db.scan_page().items] == stored
