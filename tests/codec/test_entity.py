"""`EntityCodec`: reading items, single fields, expiry, and the errors of stored data."""

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from odm.codec import TAG, TTL_ATTRIBUTE, compile_codec, ttl_seconds
from odm.entities.markers import TTL, Stored
from odm.errors import BadValue, ItemInvalid

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    id: Annotated[str, Stored("i"), Field(min_length=2)]
    at: datetime = Field(alias="placedAt", default=NOON)
    total: Decimal = Field(default=Decimal(0), max_digits=5)
    tags: set[str] = set()
    note: str | None = None
    lines: list[int] = Field(default_factory=lambda: [1])
    until: Annotated[datetime | None, TTL] = None
    must: int | None

    @field_validator("id")
    @classmethod
    def lower(cls, value: str) -> str:
        return value.lower()


CODEC = compile_codec(Order, "order")


def test_stored_names() -> None:
    assert CODEC.cls is Order
    assert CODEC.tag == "order"
    assert dict(CODEC.stored)["id"] == "i"
    assert list(CODEC.stored) == list(Order.model_fields)


def test_an_item_is_read_by_stored_names_and_unknown_attributes_are_ignored() -> None:
    item = {"i": "AB", "must": 1, "placedAt": "x", "unknown": 1, TAG: "order", TTL_ATTRIBUTE: 5}
    assert CODEC.decode(item) == Order(id="ab", must=1)


def test_invalid_items_name_entity_key_and_reason() -> None:
    item = {"i": "a", "at": "yesterday", "must": 1}
    with pytest.raises(ItemInvalid) as caught:
        CODEC.decode(item, "ORDER#a")
    message = str(caught.value)
    assert "a stored Order under ORDER#a" in message
    assert "id: String should have at least 2 characters" in message
    assert "at: " in message
    assert caught.value.item is item
    assert caught.value.key == "ORDER#a"
    assert isinstance(caught.value.__cause__, ValidationError)


def test_value() -> None:
    assert CODEC.value("at", NOON) == "2024-01-01T12:00:00.000000Z"
    assert CODEC.value("note", None) is None
    with pytest.raises(BadValue, match=r"Order\.lines\[1\]: 'x'"):
        CODEC.value("lines", [1, "x"])
    with pytest.raises(BadValue, match=r"Order has no field 'totl': did you mean 'total'"):
        CODEC.value("totl", 1)


def test_validate_runs_the_fields_own_validation() -> None:
    assert CODEC.validate("id", "  ABC ") == "abc"
    assert CODEC.validate("at", "2024-01-01T12:00:00Z") == NOON
    with pytest.raises(BadValue, match=r"Order\.total: Decimal\('123456'\) is refused: .*5 digits") as caught:
        CODEC.validate("total", Decimal(123456))
    assert isinstance(caught.value.__cause__, ValidationError)
    with pytest.raises(BadValue, match=r"Order has no field 'x'"):
        CODEC.validate("x", 1)


def test_validate_honours_strictness() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        at: datetime

    codec = compile_codec(Strict, "Strict")
    with pytest.raises(BadValue, match=r"Strict\.at"):
        codec.validate("at", "2024-01-01T12:00:00Z")
    assert codec.read({"at": "2024-01-01T12:00:00.000000Z"}, ["at"]) == {"at": NOON}


def test_read() -> None:
    assert CODEC.read({"i": "ab", "at": "2024-01-01T12:00:00.000000Z"}, ["id", "at"]) == {"id": "ab", "at": NOON}
    absent = CODEC.read({}, Order.model_fields)
    assert absent == {
        "id": None,
        "at": NOON,
        "total": 0,
        "tags": set(),
        "note": None,
        "lines": [1],
        "until": None,
        "must": None,
    }
    total = CODEC.read({"total": 5}, ["total"])["total"]
    assert isinstance(total, Decimal)
    with pytest.raises(ItemInvalid, match="at: "):
        CODEC.read({"at": "x"}, ["at"])


def test_may_be_none() -> None:
    assert [name for name in Order.model_fields if CODEC.may_be_none(name)] == ["note", "until", "must"]


def test_expiry_is_rounded_up() -> None:
    assert ttl_seconds(NOON) == 1704110400
    assert ttl_seconds(NOON + timedelta(microseconds=1)) == 1704110401
    assert ttl_seconds(datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)) == 0
    assert ttl_seconds(datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))) == 1704110400
    with pytest.raises(BadValue, match="no time zone"):
        ttl_seconds(datetime(2024, 1, 1))
    assert CODEC.encode(Order(id="ab", must=1, until=NOON))["_ttl"] == 1704110400
    assert "_ttl" not in CODEC.encode(Order(id="ab", must=1))


def test_encoded_items_share_nothing_with_the_entity() -> None:
    entity = Order(id="ab", must=1, lines=[1, 2])
    item = CODEC.encode(entity)
    entity.lines.append(3)
    assert item["lines"] == [1, 2]


def test_an_invalid_item_can_be_copied_and_pickled() -> None:
    error = ItemInvalid("it does not fit", "C#1", {"n": 1})
    error.add_note("seen by a worker")
    for other in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert (str(other), other.key, other.item) == ("it does not fit", "C#1", {"n": 1})
        assert other.__notes__ == ["seen by a worker"]
