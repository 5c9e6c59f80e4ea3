"""The limits of DynamoDB's expressions, which every backend holds conditions, filters and updates to."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any

import pytest

from odm import (
    BadValue,
    ItemTooLarge,
    Store,
    append,
    between,
    contains,
    is_in,
    not_,
    remove,
    set_,
    set_if_missing,
    size,
)
from odm.testing.entities import Sheet

SHEET = Sheet(sheet_id="a", count=699)
KEY = Sheet.primary(book="b", sheet_id="a")
ALL = Sheet.primary(book="b")


def choices(number: int) -> Any:
    """One of so many numbers: ``count`` is one of them if there are 700."""
    return is_in(Sheet.count, list(range(number)))


def compared(number: int) -> Any:
    """As many comparisons as operators allow, with their ORs, are 150; odm adds a few of its own."""
    return reduce(or_, [Sheet.count == n for n in range(699 - number + 1, 700)])


def nested(levels: int) -> Any:
    """An even number of NOTs."""
    condition: Any = Sheet.count == 699
    for _ in range(levels):
        condition = not_(condition)
    return condition


def wide(number: int) -> Any:
    """Values of so many hundred thousand bytes."""
    return reduce(or_, [Sheet.count == 699, *(contains(Sheet.title, "x" * 100_000) for _ in range(number))])


WITHIN = [choices(700), compared(140), nested(280), wide(9)]
BEYOND = [
    (choices(900), "4096 are allowed"),
    (compared(151), "300"),
    (nested(301), "300"),
    (nested(5000), "nested"),
    (reduce(and_, [between(size(Sheet.parts), 1, n) for n in range(101)]), "300"),
    (wide(11), "1000000 are the most"),
]


class TestExpressionLimits:
    @pytest.mark.parametrize("condition", WITHIN, ids=["choices", "compared", "nested", "values"])
    def test_take_all_that_fits(self, db: Store, condition: Any) -> None:
        db.put(SHEET)
        assert list(db.query(ALL.where(condition))) == [SHEET]
        assert db.count(ALL.where(condition)) == 1
        assert list(db.scan(Sheet, condition)) == [SHEET]
        db.put(SHEET, when=condition)
        db.update(KEY, set_(Sheet.title, "t"), when=condition)
        assert db.delete(KEY, when=condition)

    @pytest.mark.parametrize(("condition", "reason"), BEYOND)
    def test_refuse_conditions_before_anything_is_sent(self, offline: Store, condition: Any, reason: str) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: list(offline.query(ALL.where(condition))),
            lambda: offline.count(ALL.where(condition)),
            lambda: offline.page(ALL.where(condition)),
            lambda: list(offline.scan(Sheet, condition)),
            lambda: offline.delete_all(ALL.where(condition)),
            lambda: offline.put(SHEET, when=condition),
            lambda: offline.update(KEY, set_(Sheet.title, "t"), when=condition),
            lambda: offline.delete(KEY, when=condition),
        ]
        for call in calls:
            with pytest.raises(BadValue, match=reason):
                call()

    def test_refuse_conditions_in_a_transaction(self, offline: Store) -> None:
        with offline.transaction() as tx:
            for condition, reason in BEYOND:
                with pytest.raises(BadValue, match=reason):
                    tx.check(KEY, when=condition)
                with pytest.raises(BadValue, match=reason):
                    tx.update(KEY, set_(Sheet.title, "t"), when=condition)

    def test_hold_for_the_changes_of_an_update(self, db: Store) -> None:
        db.put(SHEET)
        db.update(KEY, *(set_(Sheet.meta[f"k{n}"], n) for n in range(250)))
        with pytest.raises(BadValue, match="4096 are allowed"):
            db.update(KEY, *(set_(Sheet.meta[f"k{n}"], n) for n in range(400)))
        with pytest.raises(BadValue, match="4096 are allowed"):
            db.update(KEY, *(remove(Sheet.meta[f"k{n}"]) for n in range(500)))
        assert len(db.one(KEY).meta) == 250

    def test_take_a_large_value_over_another(self, db: Store) -> None:
        db.put(SHEET.model_copy(update={"title": "y" * 300_000}))
        db.update(KEY, set_(Sheet.title, "z" * 300_000))
        db.update(KEY, set_if_missing(Sheet.title, "x" * 400_000))
        assert db.one(KEY).title == "z" * 300_000

    def test_hold_what_an_update_writes_to_the_size_of_an_item(self, db: Store) -> None:
        half, most = "x" * 250_000, 409_600 - 22 - len("title")
        db.put(SHEET.model_copy(update={"title": "y"}))
        for actions in (
            [set_if_missing(Sheet.title, "x" * (most + 1))],
            [set_(Sheet.short, half), set_if_missing(Sheet.title, half)],
            [remove(Sheet.title), append(Sheet.parts, half, half)],
            [set_(Sheet.meta["k"], half), set_(Sheet.meta["l"], half)],
        ):
            with pytest.raises(ItemTooLarge, match=r"writes .* 409600 are the most"):
                db.update(KEY, *actions)
        assert db.one(KEY).title == "y"
