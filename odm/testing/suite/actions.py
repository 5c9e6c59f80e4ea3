"""Every action of `update`, on whole fields and nested paths."""
# ruff: noqa: D101  # a test's name says what it shows

from decimal import Decimal
from typing import Any

import pytest

from odm import (
    Action,
    BadValue,
    Store,
    add_to,
    append,
    discard_from,
    exists,
    increment,
    prepend,
    remove,
    set_,
    set_if_missing,
)
from odm.testing.capabilities import needs
from odm.testing.entities import Address, Line, Sheet
from odm.testing.stores import Stores
from odm.testing.suite.conditions import BARE, FULL, S
from odm.testing.suite.helpers import at


def changed(db: Store, sheet: Sheet, *actions: Action) -> Sheet:
    """Put a sheet and update it; the returned sheet is checked to be equal to the stored one."""
    db.put(sheet)
    key = Sheet.primary(book=sheet.book, sheet_id=sheet.sheet_id)
    new = db.update(key, *actions, returning="new")
    assert db.one(key) == new
    return new


def but(sheet: Sheet, **fields: Any) -> Sheet:
    """The sheet with other values."""
    return sheet.model_copy(update=fields)


def stored(db: Store, sheet: Sheet, reference: Any) -> bool:
    """Whether the attribute is stored at all."""
    return db.count(Sheet.primary(book=sheet.book, sheet_id=sheet.sheet_id).where(exists(reference))) == 1


WHOLE: dict[str, Any] = {
    "count": -1,
    "level": 9,
    "price": Decimal("1.25"),
    "weight": 1.5,
    "title": "",
    "short": "renamed",
    "blob": b"",
    "flag": False,
    "moment": at(9),
    "nothing": None,
    "words": {"z"},
    "numbers": {3},
    "chunks": {b""},
    "parts": ["z", ""],
    "lines": [Line(sku="n"), Line(sku="m")],
    "grid": [[], [1]],
    "meta": {"a.b": {"c": [None, True]}},
    "prices": {"x": Decimal("0.1")},
    "address": Address(street="New", unit=4),
}


@needs("updates")
class TestSet:
    def test_of_whole_fields_of_every_type(self, db: Store) -> None:
        actions = [set_(getattr(Sheet, name), value) for name, value in WHOLE.items()]
        assert changed(db, FULL, *actions) == but(FULL, **WHOLE)
        assert changed(db, BARE, *actions) == but(BARE, **WHOLE)

    def test_to_none_removes_where_none_is_the_default(self, db: Store) -> None:
        assert changed(db, FULL, set_(Sheet.title, None)) == but(FULL, title=None)
        assert not stored(db, FULL, Sheet.title)

    def test_to_none_stores_it_where_the_default_is_another(self, db: Store) -> None:
        assert changed(db, BARE, set_(Sheet.nothing, None)) == but(BARE, nothing=None)
        assert stored(db, BARE, Sheet.nothing)

    def test_to_an_empty_set(self, db: Store) -> None:
        assert changed(db, FULL, set_(Sheet.words, set())) == but(FULL, words=set())
        assert not stored(db, FULL, Sheet.words)

    def test_of_nested_paths(self, db: Store) -> None:
        new = changed(
            db,
            FULL,
            set_(S.address.city, "Bergen"),
            set_(S.address.unit, 7),
            set_(S.meta["k"], "two"),
            set_(S.meta["n.ew"], {"x": [1]}),
            set_(S.meta["dotted.key"]["in.ner"], None),
            set_(S.prices["usd"], Decimal("2.50")),
            set_(S.lines[0].quantity, 3),
            set_(S.parts[1], "Q"),
            set_(S.grid[0][1], 20),
        )
        assert new == but(
            FULL,
            address=Address(street="Main", city="Bergen", lines=["l0"], labels={"home"}, unit=7),
            meta={"k": "two", "dotted.key": {"in.ner": None}, "#": [1], "n.ew": {"x": [1]}},
            prices={"nok": Decimal("1.5"), "usd": Decimal("2.5")},
            lines=[Line(sku="k1", quantity=3)],
            parts=["p", "Q"],
            grid=[[1, 20], [3]],
        )

    def test_past_the_end_of_a_list_appends(self, db: Store) -> None:
        assert changed(db, FULL, set_(S.parts[7], "z")).parts == ["p", "q", "z"]

    def test_under_a_missing_parent_is_refused(self, db: Store) -> None:
        for action in (set_(S.address.city, "x"), set_(S.meta["no"]["where"], 1), set_(S.grid[0][0], 1)):
            with pytest.raises(BadValue, match=r"Key\("):
                changed(db, BARE, action)

    def test_if_missing(self, db: Store) -> None:
        actions = (
            set_if_missing(Sheet.title, "new"),
            set_if_missing(Sheet.price, Decimal(3)),
            set_if_missing(S.meta["k"], 9),
            set_if_missing(S.meta["m"], 9),
        )
        assert changed(db, FULL, *actions) == but(FULL, meta={**FULL.meta, "m": 9})
        assert changed(db, BARE, *actions) == but(BARE, title="new", price=Decimal(3), meta={"k": 9, "m": 9})


@needs("updates")
class TestRemove:
    def test_gives_the_default_back(self, db: Store) -> None:
        actions = [remove(getattr(Sheet, name)) for name in WHOLE]
        assert changed(db, FULL, *actions) == Sheet(sheet_id="a")

    def test_of_what_is_absent_is_no_error(self, db: Store) -> None:
        assert changed(db, BARE, remove(Sheet.title), remove(S.meta["k"]), remove(S.parts[3])) == BARE

    def test_of_nested_paths(self, db: Store) -> None:
        new = changed(db, FULL, remove(S.meta["dotted.key"]["in.ner"]), remove(S.parts[0]), remove(S.address.labels))
        assert (new.meta["dotted.key"], new.parts) == ({}, ["q"])
        assert new.address == Address(street="Main", lines=["l0"])

    def test_of_list_positions_counts_the_previous_ones(self, db: Store) -> None:
        sheet = but(BARE, parts=list("abcde"))
        assert changed(db, sheet, remove(S.parts[1]), remove(S.parts[3]), set_(S.parts[4], "E")).parts == [
            "a",
            "c",
            "E",
        ]


@needs("updates")
class TestIncrement:
    def test_of_numbers_of_every_type(self, db: Store) -> None:
        new = changed(
            db,
            FULL,
            increment(Sheet.count, 10),
            increment(Sheet.price, Decimal("-0.25")),
            increment(Sheet.level),
            increment(S.lines[0].quantity, -2),
            increment(S.prices["nok"], 2),
            increment(S.meta["k"], 41),
        )
        assert (new.count, new.price, new.level) == (15, Decimal("9.25"), 4)
        assert (new.lines[0].quantity, new.prices["nok"], new.meta["k"]) == (0, Decimal("3.5"), 42)

    def test_of_an_absent_number_starts_at_the_default(self, db: Store) -> None:
        new = changed(db, BARE, remove(Sheet.count), increment(Sheet.price, 3), increment(S.prices["new"], 1))
        assert (new.price, new.prices) == (Decimal(3), {"new": Decimal(1)})

    def test_adds_up(self, db: Store) -> None:
        db.put(BARE)
        for _ in range(3):
            db.update(BARE, increment(Sheet.count, 2))
        assert db.one(Sheet, book="b", sheet_id="c").count == 6

    def test_is_exact_to_38_digits(self, db: Store) -> None:
        assert changed(db, but(BARE, count=10**38 - 3), increment(Sheet.count, 2)).count == 10**38 - 1

    def test_beyond_38_digits_is_refused(self, db: Store) -> None:
        with pytest.raises(BadValue):
            changed(db, but(BARE, count=10**38 - 1), increment(Sheet.count, 2))


@needs("updates")
class TestLists:
    def test_append_and_prepend(self, db: Store) -> None:
        new = changed(db, FULL, append(Sheet.parts, "r", "s"), prepend(S.address.lines, "x", "y"))
        assert (new.parts, new.address and new.address.lines) == (["p", "q", "r", "s"], ["x", "y", "l0"])

    def test_of_models(self, db: Store) -> None:
        assert changed(db, FULL, append(Sheet.lines, Line(sku="n"))).lines == [*FULL.lines, Line(sku="n")]

    def test_of_an_absent_list(self, db: Store) -> None:
        db.put(BARE)
        db.update(BARE, remove(Sheet.parts), remove(Sheet.grid))
        db.update(BARE, append(Sheet.parts, "a"), prepend(Sheet.grid, [1]))
        sheet = db.one(Sheet, book="b", sheet_id="c")
        assert (sheet.parts, sheet.grid) == (["a"], [[1]])


@needs("updates")
class TestSets:
    def test_add_to(self, db: Store) -> None:
        new = changed(db, FULL, add_to(Sheet.words, "y", "z"), add_to(Sheet.numbers, 3), add_to(Sheet.chunks, b"d"))
        assert (new.words, new.numbers, new.chunks) == ({"x", "y", "z"}, {1, 2, 3}, {b"c", b"d"})

    def test_discard_from(self, db: Store) -> None:
        new = changed(db, FULL, discard_from(Sheet.words, "y", "z"), discard_from(Sheet.numbers, 1))
        assert (new.words, new.numbers) == ({"x"}, {2})

    def test_of_an_absent_set(self, db: Store) -> None:
        new = changed(db, BARE, add_to(Sheet.words, "a"), discard_from(Sheet.numbers, 1))
        assert (new.words, new.numbers) == ({"a"}, set())

    def test_the_last_member_out_leaves_an_empty_set(self, db: Store) -> None:
        assert changed(db, FULL, discard_from(Sheet.words, "x", "y")).words == set()
        assert not stored(db, FULL, Sheet.words)

    def test_of_a_nested_set(self, db: Store) -> None:
        new = changed(db, FULL, add_to(S.address.labels, "work"))
        assert new.address is not None
        assert new.address.labels == {"home", "work"}


@needs("updates")
class TestTogether:
    def test_many_actions_in_one_write(self, db: Store, stores: Stores) -> None:
        db.put(FULL)
        stores.forget()
        actions = (set_(Sheet.title, "t"), increment(Sheet.count), remove(Sheet.short), append(Sheet.parts, "r"))
        db.update(FULL, *actions, add_to(Sheet.words, "w"), discard_from(Sheet.numbers, 1))
        assert len(stores.requests) == 1
        parts, words = ["p", "q", "r"], {"x", "y", "w"}
        expected = but(FULL, title="t", count=6, short=None, parts=parts, words=words, numbers={2})
        assert db.one(Sheet, book="b", sheet_id="a") == expected

    def test_an_action_that_does_not_fit_what_is_stored_changes_nothing(self, db: Store) -> None:
        db.put(FULL)
        for action in (increment(S.meta["dotted.key"]), append(S.meta["k"], 1), add_to(S.meta["k"], 1)):
            with pytest.raises(BadValue):
                db.update(FULL, set_(Sheet.title, "t"), action)
        assert db.one(Sheet, book="b", sheet_id="a") == FULL


class TestRefusedActions:
    @pytest.mark.parametrize(
        "actions",
        [
            (),
            (set_(Sheet.book, "x"),),
            (remove(Sheet.sheet_id),),
            (set_(Sheet.count, "x"),),  # type: ignore[arg-type]
            (set_(Sheet.level, 10),),
            (set_(Sheet.moment, at(1).replace(tzinfo=None)),),
            (set_(S.address.city, 5),),
            (set_(S.address.town, "x"),),
            (set_(Sheet.count, None),),  # type: ignore[arg-type]
            (increment(S.title),),
            (increment(Sheet.count, Decimal("0.5")),),
            (append(Sheet.title, "x"),),
            (append(Sheet.parts, 1),),  # type: ignore[arg-type]
            (add_to(S.parts, "x"),),
            (add_to(Sheet.words, 1),),  # type: ignore[arg-type]
            (add_to(Sheet.words),),
            (set_(Sheet.count, 1), increment(Sheet.count)),
            (set_(Sheet.address, None), set_(S.address.city, "x")),
            (remove(S.meta["a"]), set_(S.meta["a"]["b"], 1)),
        ],
        ids=str,
    )
    def test_before_anything_is_sent(self, offline: Store, actions: tuple[Action, ...]) -> None:
        with pytest.raises(BadValue, match="Sheet"):
            offline.update(FULL, *actions)
