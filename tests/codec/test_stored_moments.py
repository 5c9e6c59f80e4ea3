"""Stored forms of times that a field asks for: values read back equal, and other stored forms are refused."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from odm import TTL, BadValue, Entity, ItemInvalid, PrimaryKey, SchemaError, Store, Stored, Table, some
from odm.backends.dynamodb.items.codec import attributes_of, write_item
from odm.backends.dynamodb.items.loading import AttributesItem, Loader
from odm.backends.local import Memory

table = Table("forms")
ISO = "%Y-%m-%dT%H:%M:%S.%3fZ"


class Inner(BaseModel):
    at: Annotated[datetime, Stored("t", epoch="ms")]


class Event(Entity, table=table):
    id: str
    seconds: Annotated[datetime, Stored("s", epoch="s")]
    millis: Annotated[datetime | None, Stored(epoch="ms")] = None
    text: Annotated[datetime | None, Stored("T", format=ISO)] = None
    zone: Annotated[datetime | None, Stored(format="%Y%m%d %H%M%S.%f%z")] = None
    day: Annotated[date | None, Stored(format="%d/%m/%Y")] = None
    inner: Inner | None = None

    primary = PrimaryKey("EVENT#{id}")


CODEC = table.compile().entities["Event"].codec
NOON = datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


def cut(value: datetime, micros: int) -> datetime:
    return value.replace(microsecond=value.microsecond // micros * micros)


@given(times, st.none() | times)
def test_values_read_back_equal(value: datetime, other: datetime | None) -> None:
    event = Event(
        id="e",
        seconds=cut(value, 10**6),
        millis=other and cut(other, 1000),
        text=cut(value, 1000),
        zone=other,
        day=value.date(),
        inner=Inner(at=cut(value, 1000)),
    )
    item = CODEC.encode(event)
    assert CODEC.decode(item) == event
    attributes = attributes_of(write_item(CODEC, event).form)  # type: ignore[attr-defined]
    read = AttributesItem(attributes, frozenset(), Loader([CODEC]))
    assert read.load() == event
    assert CODEC.decode(read) == event


def test_the_stored_forms() -> None:
    value = NOON.replace(microsecond=7000).astimezone(timezone(timedelta(hours=2)))
    event = Event(id="e", seconds=NOON, millis=value, text=value, zone=value, day=NOON.date(), inner=Inner(at=value))
    assert CODEC.encode(event) == {
        "_t": "Event",
        "id": "e",
        "s": 1709209815,
        "millis": 1709209815007,
        "T": "2024-02-29T12:30:15.007Z",
        "zone": "20240229 123015.007000+0000",
        "day": "29/02/2024",
        "inner": {"t": 1709209815007},
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seconds": NOON.replace(microsecond=1)}, "has a fraction"),
        ({"text": NOON.replace(microsecond=1)}, "has parts that the format"),
        ({"seconds": NOON.replace(tzinfo=None)}, "no time zone"),
    ],
)
def test_values_that_could_not_be_read_back_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadValue, match=says):
        CODEC.encode(Event(**{"id": "e", "seconds": NOON, **given}))


@pytest.mark.parametrize(
    "stored",
    [
        {"s": "2024-02-29"},
        {"s": 10**15},
        {"s": True},
        {"T": "2024-02-29T12:30:15Z"},
        {"T": "2024-02-30T12:30:15.000Z"},
        {"T": 5},
        {"day": "2024-02-29"},
        {"zone": "20240229 123015.007000+0100"},
    ],
)
def test_other_stored_forms_are_invalid(stored: dict[str, Any]) -> None:
    item = {"_t": "Event", "id": "e", "s": 5, **stored}
    with pytest.raises(ItemInvalid):
        CODEC.decode(item)


def test_conditions_compare_times() -> None:
    db = Store(table, Memory())
    db.create()
    db.put(Event(id="a", seconds=NOON, text=NOON, day=NOON.date()))
    later = NOON + timedelta(microseconds=1)
    assert [one.id for one in db.scan(Event, Event.seconds < later, some(Event.text) <= NOON)] == ["a"]
    assert list(db.scan(Event, Event.seconds >= later)) == []
    assert db.count(Event.primary(id="a").where(Event.day == NOON.date())) == 1
    with pytest.raises(BadValue, match="sorts differently"):
        db.scan(Event, some(Event.day) > NOON.date())


def test_a_ttl_field_in_seconds() -> None:
    sessions = Table("sessions")

    class Session(Entity, table=sessions):
        id: str
        expires: Annotated[datetime | None, TTL, Stored("exp", epoch="s")] = None

        primary = PrimaryKey("S#{id}")

    encoded = sessions.compile().entities["Session"].codec.encode(Session(id="a", expires=NOON))
    assert (encoded["exp"], encoded["_ttl"]) == (1709209815, 1709209815)


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (Annotated[str, Stored(epoch="s")], "str .*no stored form of a time"),
        (Annotated[date, Stored(epoch="s.f")], "a date has none: write epoch='s'"),
        (Annotated[datetime, Stored(epoch="d")], "declare the field as date"),
        (Annotated[datetime, Stored(epoch="h")], "not one of 's', 'ms'"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (Annotated[datetime, Stored(format="%H:%M")], "lacks %Y"),
        (Annotated[datetime, Stored(format="ISO")], "write one of 'Instant'"),
        (Annotated[datetime, Stored(format="%Y-%m-%d %y")], "has %y"),
        (Annotated[datetime, Stored(format="%Y-%m-%d %d")], "a part twice"),
        (Annotated[datetime, Stored(format="%Y-%m-%d", epoch="s")], "two stored forms"),
        (Annotated[datetime, Stored()], "Stored without the name"),
    ],
)
def test_forms_that_cannot_be(annotation: Any, says: str) -> None:
    wrong = Table("wrong-forms")
    type(
        "Wrong",
        (Entity,),
        {"__annotations__": {"id": str, "at": annotation}, "primary": PrimaryKey("{id}")},
        table=wrong,
    )
    with pytest.raises(SchemaError, match=says):
        wrong.compile()
