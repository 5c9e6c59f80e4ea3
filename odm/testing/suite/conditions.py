"""Every condition on every type: as the filter of a query, as the filter of a scan, and as ``when=`` of a write."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from datetime import timedelta, timezone
from decimal import Decimal
from typing import Any, cast

import pytest

from odm import (
    BadValue,
    ConditionFailed,
    Store,
    between,
    contains,
    exists,
    is_in,
    missing,
    not_,
    set_,
    size,
    some,
    starts_with,
)
from odm.testing.capabilities import needs
from odm.testing.entities import Address, Line, Sheet
from odm.testing.suite.helpers import at, fill

FULL = Sheet(
    sheet_id="a",
    count=5,
    level=3,
    price=Decimal("9.50"),
    weight=0.5,
    title="alpha",
    short="s1",
    blob=b"\x01\x02",
    flag=True,
    moment=at(1),
    nothing=None,
    words={"x", "y"},
    numbers={1, 2},
    chunks={b"c"},
    parts=["p", "q"],
    lines=[Line(sku="k1", quantity=2)],
    grid=[[1, 2], [3]],
    meta={"k": 1, "dotted.key": {"in.ner": "v"}, "#": [1]},
    prices={"nok": Decimal("1.5")},
    address=Address(street="Main", lines=["l0"], labels={"home"}),
)
OTHER = Sheet(
    sheet_id="b",
    count=-7,
    price=Decimal(100),
    weight=-2.25,
    title="älpha",
    blob=b"\x01",
    flag=False,
    moment=at(2),
    words={"y"},
    parts=["q"],
    meta={"k": "1"},
    address=Address(street="Side", city="Rome"),
)
BARE = Sheet(sheet_id="c")
NAN = float("nan")
SHEETS = [FULL, OTHER, BARE]

S: Any = Sheet
"""`Sheet`, typed as Any for paths that type checkers do not know."""

CASES: list[tuple[Any, str]] = [
    # numbers
    (Sheet.count == 5, "a"),
    (Sheet.count != 5, "bc"),
    (Sheet.count < 0, "b"),
    (Sheet.count <= 0, "bc"),
    (Sheet.count > 0, "a"),
    (Sheet.count >= 0, "ac"),
    (Sheet.count > 4.5, "a"),
    (Sheet.level < 1000, "abc"),
    (Sheet.price == Decimal("9.5"), "a"),
    (Sheet.price == Decimal("9.500"), "a"),
    (Sheet.price != 100, "ac"),
    (some(Sheet.price) > 9, "ab"),
    (some(Sheet.price) < 100, "a"),
    (some(Sheet.price) <= 100, "ab"),
    (Sheet.weight == 0.5, "a"),
    (some(Sheet.weight) < -2, "b"),
    # text, bytes, bool, timestamps
    (Sheet.title == "alpha", "a"),
    (Sheet.title != "alpha", "bc"),
    (some(Sheet.title) < "b", "a"),
    (some(Sheet.title) > "b", "b"),
    (some(Sheet.title) >= "alpha", "ab"),
    (Sheet.short == "s1", "a"),
    (Sheet.blob == b"\x01", "b"),
    (some(Sheet.blob) > b"\x01", "a"),
    (some(Sheet.blob) <= b"\x01", "b"),
    (Sheet.flag == True, "a"),  # noqa: E712
    (Sheet.flag != True, "bc"),  # noqa: E712
    (Sheet.flag == False, "b"),  # noqa: E712
    (Sheet.moment == at(3).replace(tzinfo=timezone(timedelta(hours=2))), "a"),
    (some(Sheet.moment) > at(1), "b"),
    (some(Sheet.moment) <= at(2), "ab"),
    # None stored as NULL, and None as an absent attribute
    (Sheet.nothing == None, "a"),  # noqa: E711
    (Sheet.nothing != None, "bc"),  # noqa: E711
    (exists(Sheet.nothing), "abc"),
    (missing(Sheet.nothing), ""),
    (Sheet.title == None, "c"),  # noqa: E711
    (Sheet.title != None, "ab"),  # noqa: E711
    (exists(Sheet.title), "ab"),
    (missing(Sheet.title), "c"),
    (exists(Sheet.words), "ab"),
    # sets, lists, maps as a whole
    (Sheet.words == {"y", "x"}, "a"),
    (Sheet.words != {"y"}, "ac"),
    (Sheet.parts == ["p", "q"], "a"),
    (Sheet.parts == [], "c"),
    (Sheet.lines == [Line(sku="k1", quantity=2)], "a"),
    (Sheet.meta == {"k": "1"}, "b"),
    (Sheet.address == Address(street="Side", city="Rome"), "b"),
    # contains
    (contains(Sheet.words, "x"), "a"),
    (contains(Sheet.words, "y"), "ab"),
    (contains(Sheet.numbers, 2), "a"),
    (contains(Sheet.chunks, b"c"), "a"),
    (contains(Sheet.parts, "q"), "ab"),
    (contains(Sheet.title, "lph"), "ab"),
    (contains(S.address.labels, "home"), "a"),
    # starts_with
    (starts_with(Sheet.title, "al"), "a"),
    (starts_with(S.address.street, "Ma"), "a"),
    # size
    (size(Sheet.parts) == 1, "b"),
    (size(Sheet.parts) < 1, "c"),
    (size(Sheet.meta) >= 1, "ab"),
    (size(Sheet.lines) != 0, "a"),
    (between(size(Sheet.parts), 1, 2), "ab"),
    # paths: models, list positions, map keys
    (S.address.city == "Oslo", "a"),
    (missing(S.address.unit), "abc"),
    (exists(S.address.lines[0]), "a"),
    (S.parts[0] == "q", "b"),
    (S.parts[1] == "q", "a"),
    (missing(S.parts[9]), "abc"),
    (S.lines[0].sku == "k1", "a"),
    (S.lines[0].quantity > 1, "a"),
    (S.grid[0][1] == 2, "a"),
    (S.grid[1] == [3], "a"),
    (S.meta["k"] == 1, "a"),
    (S.meta["k"] == "1", "b"),
    (S.meta["k"] != 1, "bc"),
    (S.meta["dotted.key"]["in.ner"] == "v", "a"),
    (S.meta["#"][0] == 1, "a"),
    (exists(S.meta["dotted.key"]), "a"),
    (missing(S.meta["dotted"]), "abc"),
    (S.prices["nok"] >= Decimal("1.50"), "a"),
    # comparisons of two attributes
    (Sheet.count > Sheet.level, "a"),
    (Sheet.level <= Sheet.count, "ac"),
    # between, is_in
    (between(Sheet.count, -7, 0), "bc"),
    (between(Sheet.count, 5, -5), ""),
    (between(Sheet.title, "a", "b"), "a"),
    (between(Sheet.moment, at(0), at(1)), "a"),
    (is_in(Sheet.count, [5, -7]), "ab"),
    (is_in(Sheet.title, ["alpha", "beta"]), "a"),
    (is_in(Sheet.title, [None, "alpha"]), "ac"),
    (is_in(Sheet.title, ["alpha", None]), "ac"),
    (is_in(Sheet.count, [5, *range(1000, 1150)]), "a"),
    # combinations
    ((Sheet.count > 0) & (Sheet.flag == True), "a"),  # noqa: E712
    ((Sheet.count < 0) | missing(Sheet.title), "bc"),
    (not_(Sheet.count > 0), "bc"),
    (not_(contains(Sheet.words, "x")), "bc"),
    (not_((Sheet.count > 0) | (Sheet.count < 0)), "c"),
    (not_(not_(Sheet.count > 0)), "a"),
    ((Sheet.level == 0) & ((Sheet.count < 0) | not_(exists(Sheet.title))), "bc"),
    # key fields
    (Sheet.book == "b", "abc"),
    (not_(Sheet.sheet_id == "a"), "bc"),
]

EXPECTED = {str(condition): ids for condition, ids in CASES}


class TestFilters:
    def test_every_condition_filters_a_query(self, db: Store) -> None:
        fill(db, SHEETS)
        query = Sheet.primary(book="b")
        sheets_by_condition = {str(c): "".join(s.sheet_id for s in db.query(query.where(c))) for c, _ in CASES}
        assert sheets_by_condition == EXPECTED

    def test_every_condition_filters_a_scan(self, db: Store) -> None:
        fill(db, SHEETS)
        sheets_by_condition = {str(c): "".join(sorted(s.sheet_id for s in db.scan(Sheet, c))) for c, _ in CASES}
        assert sheets_by_condition == EXPECTED

    def test_size_of_an_absent_attribute_compares_false(self, db: Store) -> None:
        fill(db, SHEETS)
        cases = [
            (size(Sheet.blob) == 2, [FULL]),
            (size(Sheet.words) > 1, [FULL]),
            (size(Sheet.blob) < 9, [FULL, OTHER]),
        ]
        for condition, expected in cases:
            assert list(db.query(Sheet.primary(book="b").where(condition))) == expected

    def test_parts_of_bytes(self, db: Store) -> None:
        fill(db, SHEETS)
        query = Sheet.primary(book="b")
        assert list(db.query(query.where(starts_with(Sheet.blob, b"\x01")))) == [FULL, OTHER]
        assert list(db.query(query.where(contains(Sheet.blob, b"\x02")))) == [FULL]

    def test_values_of_different_types_have_no_order(self, db: Store) -> None:
        fill(db, SHEETS)
        query = Sheet.primary(book="b")
        assert list(db.query(query.where(S.meta["k"] > 0))) == [FULL]
        assert list(db.query(query.where(S.meta["k"] <= "1"))) == [OTHER]

    def test_size_of_text_is_in_utf16_units(self, db: Store) -> None:
        fill(db, [OTHER.model_copy(update={"title": "é𝄞"}), FULL])
        assert [s.title for s in db.query(Sheet.primary(book="b").where(size(Sheet.title) == 3))] == ["é𝄞"]

    def test_of_a_field_and_itself(self, db: Store) -> None:
        fill(db, SHEETS)
        for condition, sheets in (
            (S.moment == Sheet.moment, SHEETS),
            (S.count < Sheet.count, []),
            (between(Sheet.count, 0, S.count), [sheet for sheet in SHEETS if sheet.count >= 0]),
        ):
            assert list(db.query(Sheet.primary(book="b").where(condition))) == sheets, condition

    def test_contains_finds_a_model_in_a_list(self, db: Store) -> None:
        fill(db, SHEETS)
        sheets = db.query(Sheet.primary(book="b").where(contains(Sheet.lines, Line(sku="k1", quantity=2))))
        assert list(sheets) == [FULL]


@needs("conditions")
class TestWhen:
    def test_every_condition_guards_a_write(self, db: Store) -> None:
        fill(db, SHEETS)
        sheets_by_condition = {
            str(c): "".join(s.sheet_id for s in SHEETS if self.passes(db.put, s, when=c)) for c, _ in CASES
        }
        assert sheets_by_condition == EXPECTED

    def test_every_condition_guards_an_update(self, db: Store) -> None:
        fill(db, SHEETS)
        sheets_by_condition = {
            str(c): "".join(s.sheet_id for s in SHEETS if self.passes(db.update, s, set_(Sheet.level, s.level), when=c))
            for c, _ in CASES
        }
        assert sheets_by_condition == EXPECTED

    def passes(self, write: Callable[..., Any], *args: Any, **options: Any) -> bool:
        try:
            write(*args, **options)
        except ConditionFailed:
            return False
        return True


class TestRefused:
    @pytest.mark.parametrize(
        "condition",
        [
            S.count == "5",
            Sheet.count > cast(Any, "5"),
            S.title == 5,
            some(Sheet.moment) > at(1).replace(tzinfo=None),
            S.weight > NAN,
            Sheet.parts < ["a"],
            Sheet.words > {"a"},
            S.address == "Main",
            contains(Sheet.words, 1),  # type: ignore[arg-type]
            contains(Sheet.count, 1),
            starts_with(cast(Any, Sheet.count), "1"),
            cast(Any, size(Sheet.parts)) == "1",
            S.count.more == 1,
            S.address.town == "Oslo",
            S.parts["x"] == "y",
        ],
        ids=str,
    )
    def test_before_anything_is_sent(self, offline: Store, condition: Any) -> None:
        with pytest.raises(BadValue, match="Sheet"):
            offline.query(Sheet.primary(book="b").where(condition))
        with pytest.raises(BadValue, match="Sheet"):
            offline.put(BARE, when=condition)

    def test_truth_values(self, offline: Store) -> None:
        with pytest.raises(TypeError, match="&"):
            bool(Sheet.count == 5)
        with pytest.raises(TypeError):
            offline.put(BARE, when=BARE.count == 5)
        with pytest.raises(ValueError, match="choice"):
            is_in(Sheet.count, [])
