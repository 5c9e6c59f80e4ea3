"""Every type as an attribute and in a key: values are read back equal, and sorted in their order."""
# ruff: noqa: D101  # a test's name says what it shows

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from odm import BadValue, KeyValueError, Store, between, exists
from odm.testing.entities import (
    Address,
    ByBool,
    ByBounded,
    ByBytes,
    ByDay,
    ByDecimal,
    ByFloat,
    ByInt,
    ByIntDesc,
    ByMoment,
    ByRank,
    ByText,
    ByUuid,
    Everything,
    Hue,
    Keyed,
    Rank,
)
from odm.testing.suite.helpers import at, fill

FULL = Everything(
    name="full",
    text='smörgås 🦀 \x00 \n "quoted" #$%',
    whole=-42,
    exact=Decimal("-1.50"),
    approximate=0.1,
    truth=True,
    blob=bytes(range(256)),
    moment=datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=timezone(timedelta(hours=-3))),
    day=date(1969, 7, 20),
    ident=UUID("12345678-1234-5678-1234-567812345678"),
    hue=Hue.GREEN,
    rank=Rank.HIGH,
    choice=3,
    union="5",
    null=None,
    words={"a", "", "ø"},
    numbers=frozenset({0, -1, 10**20}),
    decimals={Decimal("0.10"), Decimal(3)},
    chunks={b"", b"\x00\xff"},
    parts=[1, "1", None, ""],
    pair=(7, "seven"),
    table_={"a.b": [{"#": 1}, {}], "$": []},
    anything={"$n": "1.5", "$$": {"$b": [True, None, 1, Decimal("1.5"), "x", b"y", {"s"}]}, "_t": "no tag", "ä": {}},
    json_={"price": 0.1, "parts": [1.5, -1e-100, 2**60, 3, True, None, {"x": 1 / 3}], "text": "t"},
    address=Address(street="Main", labels={"home"}, unit=3),
    addresses={"second": Address(street="Side")},
    renamed="r",
)


def stored(db: Store, item: Everything) -> Everything:
    """Put an item and read it back."""
    db.put(item)
    return db.one(Everything, name=item.name)


class TestAttributes:
    def test_of_every_type_come_back_equal_and_of_their_type(self, db: Store) -> None:
        for item in (FULL, Everything(name="bare")):
            copy = stored(db, item)
            assert copy == item
            # A dict comes back in any order of its keys; types too are those that were put.
            assert json.dumps(copy.json_, sort_keys=True) == json.dumps(item.json_, sort_keys=True)
            for name, value in item:
                assert type(getattr(copy, name)) is type(value), name

    def test_a_none_that_is_not_the_default_is_stored(self, db: Store) -> None:
        copy = stored(db, Everything(name="n", null=None))
        assert copy.null is None
        query = Everything.primary(name="n")
        assert db.count(query.where(exists(Everything.null))) == 1
        assert db.count(query.where(exists(Everything.union))) == 0

    def test_empty_values_come_back_empty(self, db: Store) -> None:
        empty = Everything(name="e", text="", blob=b"", parts=[], table_={}, anything={}, address=Address(street=""))
        assert stored(db, empty) == empty

    def test_decimals_are_canonical(self, db: Store) -> None:
        for text in ("1.50", "-0.0", "1E+2", "0.00", "1234567890123456789012345678901234567.8", "1E-130", "-9.9E+125"):
            number = Decimal(text)
            assert stored(db, Everything(name="d", exact=number)).exact == number
            assert db.count(Everything.primary(name="d").where(Everything.exact == number)) == 1, text

    def test_floats_come_back_to_the_bit(self, db: Store) -> None:
        for number in (0.1, 1.0, 1e100, 1e-100, 2.0**60, 1 / 3, -123456.789):
            assert repr(stored(db, Everything(name="f", approximate=number)).approximate) == repr(number)
        assert repr(stored(db, Everything(name="f", approximate=-0.0)).approximate) == "0.0"

    def test_large_ints(self, db: Store) -> None:
        for number in (2**63, -(2**64), 10**38 - 1, 10**40):
            assert stored(db, Everything(name="i", whole=number)).whole == number

    def test_timestamps_come_back_in_utc(self, db: Store) -> None:
        copy = stored(db, FULL)
        assert copy.moment == FULL.moment
        assert copy.moment is not None
        assert copy.moment.utcoffset() == timedelta(0)

    def test_deep_values(self, db: Store) -> None:
        deep: Any = "bottom"
        for _ in range(14):
            deep = {"down": [deep]}
        assert stored(db, Everything(name="deep", anything=deep)).anything == deep

    @pytest.mark.parametrize(
        "fields",
        [
            {"approximate": float("nan")},
            {"approximate": float("-inf")},
            {"approximate": 1e300},
            {"exact": Decimal("NaN")},
            {"exact": Decimal("1E126")},
            {"exact": Decimal("1E-131")},
            {"exact": Decimal("1." + "1" * 38)},
            {"whole": 10**38 + 1},
            {"whole": True},
            {"moment": datetime(2024, 1, 1)},  # noqa: DTZ001
            {"text": "half \ud83e"},
            {"text": 5},
            {"words": {1}},
            {"anything": {"x": set()}},
            {"anything": ...},
            {"anything": {"x": 0.1}},
            {"json_": {"x": 1e300}},
            {"json_": {"x": float("nan")}},
            {"anything": {1: "x"}},
            {"anything": {"a": {"": 1}}},
            {"table_": {"": []}},
            {"address": {"street": "Main"}},
        ],
        ids=repr,
    )
    def test_refuse_what_would_not_come_back(self, offline: Store, fields: dict[str, Any]) -> None:
        with pytest.raises(BadValue, match=rf"Everything\.{next(iter(fields))}"):
            offline.put(Everything(name="bad").model_copy(update=fields))


KEYED = Keyed(
    text="a#b $c",
    choice="y",
    hue=Hue.GREEN,
    bounded=-5,
    free=-12345,
    amount=Decimal("-1.5"),
    at=at(1, 2, 3, micro=4),
    day=date(2024, 2, 29),
    ident=UUID(int=7),
    truth=True,
    blob=b"\x00#\xff",
    ratio=-2.5,
    padded="ab",
    value="v",
)

SORTED: list[tuple[type[Any], Sequence[Any]]] = [
    (ByText, ["\x00", " ", "#", "#a", "$", "A", "a", "a b", "a#", "a#b", "aa", "b", "ø", "日本", "🦀"]),
    (ByBounded, [-1000, -999, -10, -9, -1, 0, 1, 9, 10, 99, 1000]),
    (ByInt, [-(10**20), -1000, -999, -10, -9, -1, 0, 1, 9, 10, 99, 1000, 10**25]),
    (ByRank, [Rank.NEGATIVE, Rank.LOW, Rank.HIGH, Rank.MOST]),
    (ByIntDesc, [10**20, 1000, 99, 10, 9, 1, 0, -1, -9, -10, -(10**20)]),
    (ByDecimal, [Decimal(text) for text in ("-10.5", "-10", "-0.01", "0", "0.10", "0.2", "1", "9.99", "10")]),
    (
        ByMoment,
        [datetime(1, 1, 1, tzinfo=UTC), at(1), at(1, micro=1), at(2), at(1, day=2), datetime(9999, 12, 31, tzinfo=UTC)],
    ),
    (ByDay, [date(9999, 12, 31), date(2024, 3, 1), date(2024, 2, 29), date(1, 1, 1)]),
    (ByUuid, [UUID(int=n) for n in (0, 1, 2**64, 2**127)]),
    (ByBytes, [b"\x00", b"\x00\x01", b"#", b"a", b"a\x00", b"ab", b"\xff"]),
    (ByFloat, [-1e100, -2.5, -1e-100, 0.0, 1e-100, 0.5, 1.0, 10.0, 1e100]),
    (ByBool, [False, True]),
]
RANGED = [(entity, values) for entity, values in SORTED if entity is not ByBool]
"""Bools are ordered in keys, but not in conditions."""


class TestKeys:
    def test_of_every_type_together(self, db: Store) -> None:
        db.put(KEYED)
        key = {name: value for name, value in KEYED if name != "value"}
        assert db.get(Keyed, **key) == KEYED
        assert db.first(Keyed.primary(text="a#b $c", choice="y", hue=Hue.GREEN, bounded=-5, free=-12345)) == KEYED
        assert db.first(Keyed.primary(text="a#b $c", choice="y", hue=Hue.GREEN, bounded=-5, free=-1234)) is None

    @pytest.mark.parametrize(("entity", "values"), SORTED, ids=[entity.__name__ for entity, _ in SORTED])
    def test_find_and_sort_as_their_values_do(self, db: Store, entity: Any, values: Sequence[Any]) -> None:
        fill(db, [entity(value=value) for value in reversed(values)])
        query = entity.primary(owner="o")
        assert [item.value for item in db.query(query)] == list(values)
        assert [item.value for item in db.query(query.reverse())] == list(values)[::-1]
        for value in values:
            assert [item.value for item in db.query(query.where(entity.value == value))] == [value]
        items = db.get_many([entity.primary(owner="o", value=value) for value in values])
        assert [item and item.value for item in items] == list(values)

    @pytest.mark.parametrize(("entity", "values"), RANGED, ids=[entity.__name__ for entity, _ in RANGED])
    def test_are_cut_by_ranges_as_their_values_are(self, db: Store, entity: Any, values: Sequence[Any]) -> None:
        fill(db, [entity(value=value) for value in values])
        query, pivot = entity.primary(owner="o"), values[len(values) // 2]
        conditions: dict[str, tuple[Any, Callable[[Any], bool]]] = {
            "<": (entity.value < pivot, lambda value: value < pivot),
            "<=": (entity.value <= pivot, lambda value: value <= pivot),
            ">": (entity.value > pivot, lambda value: value > pivot),
            ">=": (entity.value >= pivot, lambda value: value >= pivot),
            "between": (between(entity.value, pivot, max(values)), lambda value: value >= pivot),
        }
        values_by_op = {op: [item.value for item in db.query(query.where(c))] for op, (c, _) in conditions.items()}
        assert values_by_op == {
            op: [value for value in values if holds(value)] for op, (_, holds) in conditions.items()
        }

    def test_equal_values_are_one_key(self, db: Store) -> None:
        for value in (Decimal("1.5"), Decimal("1.50")):
            db.put(ByDecimal(value=value))
        for number in (0.0, -0.0):
            db.put(ByFloat(value=number))
        for moment in (at(3), at(3).astimezone(timezone(timedelta(hours=5)))):
            db.put(ByMoment(value=moment))
        assert len(list(db.scan())) == 3

    @pytest.mark.parametrize(
        ("entity", "value"),
        [
            (ByText, ""),
            (ByText, "\udc00"),
            (ByBytes, b""),
            (ByBounded, 1001),
            (ByDecimal, Decimal("0.001")),
            (ByFloat, float("nan")),
            (ByMoment, datetime(2024, 1, 1)),  # noqa: DTZ001
        ],
        ids=repr,
    )
    def test_refuse_what_cannot_be_in_a_key(self, offline: Store, entity: Any, value: Any) -> None:
        item = entity.model_construct(owner="o", value=value)
        with pytest.raises(KeyValueError, match=rf"{entity.__name__}.*value"):
            offline.put(item)
