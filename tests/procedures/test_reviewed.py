"""Bugs that a review found in reads and writes, each with the case that showed it."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import Field, model_validator

from odm import (
    AccessPattern,
    BadCursor,
    BadValue,
    ConditionFailed,
    Entity,
    ItemExists,
    PrimaryKey,
    Revision,
    Store,
    Table,
    field,
    increment,
    set_,
)
from odm.backends.local import Memory
from odm.protocol import requests as req

table = Table("reviewed")


class Event(Entity, table=table):
    id: str
    at: datetime
    level: Annotated[int, Field(ge=0, le=5)] = 0
    price: Annotated[Decimal, Field(decimal_places=2)] = Decimal(0)
    meta: dict[str, Any] = {}
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("EVENTS", "{id}")
    by_day = AccessPattern("DAY#{at:%Y%m%d}", "{id}#{at}")
    by_hour = AccessPattern("HOUR#{at:%Y%m%d}", "{at}#{id}")
    flagged = AccessPattern("FLAGGED", "{id}", when=field("meta")["a"]["b"] == 1)


class Pair(Entity, table=table):
    id: str
    low: int = 0
    high: int = 0

    primary = PrimaryKey("PAIR#{id}")

    @model_validator(mode="after")
    def _ordered(self) -> "Pair":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def db() -> Store:
    store = Store(table, Memory())
    store.create()
    return store


def test_a_call_names_the_day_also_with_a_sort_field_before_the_time(db: Store) -> None:
    db.put(Event(id="1", at=NOON))
    assert db.count(Event.by_day(at=MIDNIGHT)) == db.count(Event.by_day(at=MIDNIGHT, id="1")) == 1
    assert db.count(Event.by_hour(at=MIDNIGHT)) == db.count(Event.by_hour(at=NOON, id="1")) == 1
    assert db.count(Event.by_hour(at=MIDNIGHT, id="1")) == 0


def test_a_cursor_belongs_to_its_limit(db: Store) -> None:
    for number in range(4):
        db.put(Event(id=str(number), at=NOON))
    cursor = db.page(Event.primary(), size=1).cursor
    limited = db.page(Event.primary().limit(3), size=1).cursor
    assert len(db.page(Event.primary(), size=9, after=cursor).items) == 3
    assert len(db.page(Event.primary().limit(3), size=9, after=limited).items) == 2
    for query, foreign in ((Event.primary().limit(3), cursor), (Event.primary(), limited)):
        with pytest.raises(BadCursor, match="another query"):
            db.page(query, after=foreign)


def forged(body: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()[:16] + body).rstrip(b"=").decode()


def test_a_forged_cursor_is_a_bad_cursor_whatever_it_holds(db: Store) -> None:
    for number in range(3):
        db.put(Event(id=str(number), at=NOON))
    cursor = db.page(Event.primary(), size=1).cursor
    assert cursor is not None
    body = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[16:])
    binding, partition, _, position = body
    bodies: list[Any] = [
        *([], None, 7, {}, [binding]),
        [binding, partition, "x", position],
        [binding, partition, -5, position],
        [binding, partition, True, position],
        [binding, 7, None, position],
        [binding, partition, None, [["EVENTS"], None]],
        [binding, partition, None, [["EVENTS", 7], None]],
        [binding, partition, None, "no"],
        [binding, partition, None, [["OTHER", "1"], None]],
        [binding, partition, None, [["EVENTS", "1"], ["EVENTS", "1"]]],
    ]
    for bad in [b"\xff", b"{", *(json.dumps(body).encode() for body in bodies)]:
        with pytest.raises(BadCursor):
            db.page(Event.primary(), after=forged(bad))


@pytest.mark.parametrize("part", [["\ud800", None], ["", "\udfff"], ["a\udc80", "\ud8ff"]])
def test_a_forged_part_of_a_scan_is_valid_text_or_escaped_bytes(db: Store, part: list[str | None]) -> None:
    """Only the escapes of bytes that are not UTF-8, which Bigtable may choose as limits, are no valid text."""
    db.put(Event(id="1", at=NOON))
    table_of = ["scan", "reviewed", "memory"]
    with pytest.raises(BadCursor):
        db.scan_page(after=forged(json.dumps([table_of, None, part, None]).encode()))
    escaped = forged(json.dumps([table_of, None, ["", "\udc80"], None]).encode())
    assert len(db.scan_page(after=escaped).items) == 1


@pytest.mark.parametrize("change", [{"level": 9}, {"level": -1}, {"price": Decimal("1.239")}])
def test_what_could_not_be_read_back_is_not_written(db: Store, change: dict[str, Any]) -> None:
    event = Event(id="1", at=NOON).model_copy(update=change)
    for write in (db.put, db.insert):
        with pytest.raises(BadValue, match=rf"Event could not be read back as it is: {next(iter(change))}: "):
            write(event)
    with pytest.raises(BadValue), db.batch() as batch:
        batch.put(Pair.model_construct(id="1", low=2, high=1))
    assert list(db.scan()) == []


def test_an_upsert_that_makes_no_valid_entity_is_a_bad_value(db: Store) -> None:
    with pytest.raises(BadValue, match="low is above high"):
        db.update(Pair.primary(id="1"), set_(Pair.low, 5), upsert=True)
    assert not db.exists(Pair, id="1")


def test_a_stale_entity_does_not_prevent_a_change_that_fits_the_stored_item(db: Store) -> None:
    db.put(Event(id="1", at=NOON))
    stale = db.one(Event, id="1").model_copy(update={"revision": 2})
    db.update(Event.primary(id="1"), set_(Event.meta, {"a": {}}))
    db.update(stale, set_(Event.meta["a"]["b"], 1))
    assert db.count(Event.flagged()) == 1


def test_an_unreadable_item_does_not_hide_the_error(db: Store) -> None:
    unreadable = {"_t": "Event", "id": "1", "level": "high"}
    db._call()[1](req.Put(db._session.context.schema.key_target(Event.primary(id="1"))[1], unreadable))
    with pytest.raises(ItemExists) as exists:
        db.insert(Event(id="1", at=NOON))
    assert exists.value.item is None
    with pytest.raises(ConditionFailed):
        db.delete(Event.primary(id="1"), when=Event.level == 3)


def test_an_entity_of_revision_0_is_new(db: Store) -> None:
    db.put(Event(id="1", at=NOON))
    with pytest.raises(ItemExists, match="get it, and update it or put what you got"):
        db.put(Event(id="1", at=NOON))
    assert db.put(db.one(Event, id="1")).revision == 2


def test_increment_checks_the_bounds_of_the_stored_item(db: Store) -> None:
    db.put(Event(id="1", at=NOON, level=5))
    with pytest.raises(ConditionFailed, match="bounds"):
        db.update(Event.primary(id="1"), increment(Event.level))
