"""The generated writers give what dumping an entity and spelling its values one by one gives."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from odm.backends.dynamodb.client.wire import text_of
from odm.backends.dynamodb.items.codec import read_text, to_attribute, write_item
from odm.codec import Draft, EntityCodec, compile_codec
from odm.codec.types.numbers import canonical_decimal
from odm.codec.types.stored import Unfit
from odm.codec.writers import decimal_digits
from odm.entities.markers import TTL, Stored
from odm.errors import BadValue
from odm.expressions.nodes import Item
from tests.codec.test_generated import SURE, Sure, changed, changes_of
from tests.codec.test_laws import CODEC, Wide, wides
from tests.codec.test_texts import DIRECT, Direct, anatomy, directs
from tests.effort import times


def plainly(codec: EntityCodec, entity: BaseModel) -> Any:
    """The long way: the item, its attribute values, their JSON."""
    item = codec.encode(entity)
    return json.loads(text_of({name: to_attribute(value) for name, value in item.items()}))


def check_written(codec: EntityCodec, entity: BaseModel) -> None:
    try:
        item = write_item(codec, entity)
    except BadValue:
        return
    if not isinstance(item, Draft):  # which only means that the interpreting codec is used
        return
    text = item.form
    pairs: list[Any] = []
    json.loads(text, object_pairs_hook=lambda found: pairs.append([name for name, _ in found]))
    assert all(len(set(names)) == len(names) for names in pairs)  # no name twice
    assert json.loads(text) == plainly(codec, entity)
    assert anatomy(read_text(text)) == anatomy(codec.encode(entity))


@settings(max_examples=times(60, 300))
@given(wides | directs, st.data())
def test_what_is_written_is_what_the_long_way_writes(entity: Wide | Direct, data: st.DataObject) -> None:
    codec = CODEC if isinstance(entity, Wide) else DIRECT
    # Nothing that was validated is unusual, but the years before 1000.
    assert isinstance(write_item(codec, entity), Draft) or re.search(
        r'"0\d\d\d-', str(plainly(codec, entity)).replace("'", '"')
    )
    check_written(codec, entity)
    check_written(codec, changed(entity, data.draw(changes_of(type(entity)))))


@settings(max_examples=times(100, 500))
@given(changes_of(Sure))
def test_what_was_assigned_unchecked_is_written_alike_or_not_at_all(changes: dict[str, Any]) -> None:
    entity = changed(Sure(text=""), changes)
    check_written(SURE, entity)
    assert outcome(lambda: write_item(SURE, entity)) == outcome(lambda: SURE.encode(entity))


def outcome(write: Callable[[], Item]) -> Any:
    """What an item is made of, or the message of its refusal."""
    try:
        return anatomy(dict(write()))
    except BadValue as error:
        return str(error)


class Mood(StrEnum):
    GOOD = 'so"so'


class Inner(BaseModel):
    a: str | None = None
    b: set[str] = set()
    c: str | None


class Odd(BaseModel):
    """What a text could be broken by."""

    text: Annotated[str, Stored('it\'s {a} "name" \\ \n %s')] = ""
    inner: Inner = Inner(c=None)
    inners: list[list[Inner]] = []
    mode: Literal["a'b", 'c"{d}', 1, True] = 1
    mood: Mood = Mood.GOOD
    names: dict[str, dict[str, int]] = {}
    by_mood: dict[Mood, str] = {}
    at: datetime | None
    ats: list[datetime] = []
    until: Annotated[datetime | None, TTL] = None
    money: list[Decimal] = []
    counts: set[int] = set()
    prices: frozenset[Decimal] = frozenset()
    rows: list[set[str]] = []
    free: Any = None


ODD = compile_codec(Odd, 'o"dd')
_TEXTS = ["", '"', "\\", "\x00\x1f\x7f", "\u2028\u2029", "😀", "{}", "{0}", "%s", "%", "'", "é" * 3]
_EAST = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize("text", _TEXTS)
def test_no_text_breaks_what_is_written(text: str) -> None:
    entity = Odd(
        text=text,
        inner=Inner(a=text, b={text, "x"}, c=text),
        inners=[[Inner(c=None)], []],
        names={text or "x": {text or "x": 1}},
        by_mood={Mood.GOOD: text},
        at=None,
    )
    assert isinstance(write_item(ODD, entity), Draft)
    check_written(ODD, entity)


def test_sets_are_written_sorted_and_by_their_type() -> None:
    entity = Odd(
        at=None,
        counts={10, 9, -3, 10**37},
        prices=frozenset({Decimal("10.50"), Decimal(9), Decimal("-1E+2")}),
        rows=[{"b", "a", 'c"'}, {"x"}],
        free=[{"s": {"b", "a"}, "n": {2, 10}, "b": {b"b", b"a"}}, 1, 1.5, True, None, "text", []],
    )
    assert isinstance(write_item(ODD, entity), Draft)
    check_written(ODD, entity)
    for field, value in {"counts": {True}, "prices": {1}, "rows": [set()]}.items():
        unlike = entity.model_copy(update={field: value})
        assert outcome(lambda: write_item(ODD, unlike)) == outcome(lambda: ODD.encode(unlike))  # noqa: B023  # at once


@pytest.mark.parametrize(
    "at", [datetime(2026, 1, 2, 3, 4, 5, 6, _EAST), datetime(1, 1, 1, tzinfo=UTC), datetime(999, 1, 1, tzinfo=UTC)]
)
def test_moments_are_written_in_utc_with_four_digits_of_the_year(at: datetime) -> None:
    later = TypeAdapter(datetime).validate_json('"2026-01-02T03:04:05Z"')  # pydantic's own zone
    check_written(ODD, Odd(at=at, ats=[at, later], until=later))
    assert write_item(ODD, Odd(at=at, until=later))["_ttl"] == 1767323045
    assert json.loads(text_of({"at": to_attribute(write_item(ODD, Odd(at=at))["at"])})) == {
        "at": {"S": at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")}
    }


@pytest.mark.parametrize("digits", ["1.50", "-0.0", "0.00", "-0.5", "1E+3", "1E-7", "1.5E-100", "12.300", "-7", "NaN"])
def test_numbers_are_written_canonical(digits: str) -> None:
    entity = Odd(at=None).model_copy(update={"money": [Decimal(digits)]})
    if digits == "NaN":
        with pytest.raises(BadValue, match="not a finite number"):
            write_item(ODD, entity)
    else:
        check_written(ODD, entity)
        assert isinstance(write_item(ODD, entity), Draft)


@settings(max_examples=times(200, 2000))
@given(st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(-1000, 1000, places=3))
def test_the_digits_of_a_decimal_are_those_of_its_canonical_form(number: Decimal) -> None:
    try:
        canonical = str(canonical_decimal(number))
    except Unfit:
        with pytest.raises(Unfit):
            decimal_digits(number)
    else:
        assert decimal_digits(number) == canonical


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(BadValue, match="surrogate"):
        write_item(ODD, Odd(at=None).model_copy(update={"text": "\ud800"}))


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(BadValue, match="empty key"):
        write_item(ODD, Odd(at=None, names={"a": {"": 1}}))


def test_what_is_nested_too_deep_is_refused() -> None:
    class Deep(BaseModel):
        thing: Any

    codec = compile_codec(Deep, "Any")
    deep: Any = 1
    for _ in range(31):
        deep = [deep]
    assert isinstance(write_item(codec, Deep(thing=deep)), Draft)
    check_written(codec, Deep(thing=deep))
    with pytest.raises(BadValue, match="deeper than 32 levels"):
        write_item(codec, Deep(thing=[deep]))


class Bounded(BaseModel):
    """Not everything that can be written can be read."""

    number: Annotated[int, Field(gt=0)]


def test_an_item_that_is_to_be_checked_is_not_read_from_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odm.backends.dynamodb.items.codec.from_json", None)
    codec = compile_codec(Bounded, "Bounded")
    item = write_item(codec, Bounded(number=1))
    assert isinstance(item, Draft)
    codec.check(item)
    with pytest.raises(BadValue, match="greater than 0"):
        codec.check(write_item(codec, Bounded.model_construct(number=0)))
