"""Stored items that do not fit the model: the errors, and how to fix the items."""
# ruff: noqa: D101  # a test's name says what it shows

from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from odm import ConditionFailed, Entity, ItemExists, ItemInvalid, PrimaryKey, Table, collection, set_
from odm.stores.sync import Store
from odm.testing.capabilities import needs
from odm.testing.entities import Sheet, SheetV2, plain_v2
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill

ALL = SheetV2.primary(book="b")
BAD = SheetV2.primary(book="b", sheet_id="2")
GOOD = [SheetV2(sheet_id="1"), SheetV2(sheet_id="3")]

calendar = Table("calendar")
calendar_of_others = Table("calendar")


class Visit(Entity, table=calendar):
    house: str
    visit_id: str
    at: datetime

    primary = PrimaryKey("HOUSE#{house}", "VISIT#{visit_id}")


class VisitOfOthers(Entity, table=calendar_of_others, tag="Visit"):
    """How another program writes visits: the key need not follow from the fields."""

    house: str = "h"
    visit_id: str = "1"
    at: str = "2024-05-01T10:00:00.000000Z"
    key: str = "1"

    primary = PrimaryKey("HOUSE#{house}", "VISIT#{key}")


class TestInvalidItems:
    @pytest.mark.parametrize(
        ("stored", "reason"),
        [
            (VisitOfOthers(visit_id="9"), r"HOUSE#h.*VISIT#1.*house='h', visit_id='9'.*fix the stored fields"),
            (VisitOfOthers(at="2024-05-01T10:00:00"), r"Visit .* at: .*time zone"),
        ],
        ids=["the fields of another key", "no time zone"],
    )
    def test_of_other_programs_are_refused_by_every_read(
        self, stores: Stores, stored: VisitOfOthers, reason: str
    ) -> None:
        fill(stores.open(calendar_of_others), [stored])
        db, key = stores.open(calendar), Visit.primary(house="h", visit_id="1")
        reads: list[Any] = [
            lambda: db.get(key),
            lambda: db.get_many([key]),
            lambda: list(db.query(Visit.primary(house="h"))),
            lambda: list(db.query(collection(Visit.primary(house="h")))),
            lambda: list(db.scan(Visit)),
        ]
        for read in reads:
            with pytest.raises(ItemInvalid, match=reason):
                read()

    @pytest.fixture
    def later(self, db: Store, stores: Stores) -> Store:
        """A store whose model declares ``title`` as a number; of three sheets, the second has text."""
        fill(db, [Sheet(sheet_id="1"), Sheet(sheet_id="2", title="words"), Sheet(sheet_id="3")])
        return stores.open(plain_v2)

    def test_show_key_item_and_cause_in_every_read(self, later: Store) -> None:
        reads: list[Any] = [
            lambda: later.get(BAD),
            lambda: later.one(BAD),
            lambda: later.get_many([*(SheetV2.primary(book="b", sheet_id=name) for name in "13"), BAD]),
            lambda: list(later.query(ALL)),
            lambda: list(later.query(collection(ALL))),
            lambda: later.page(ALL),
            lambda: later.first(ALL.where(SheetV2.sheet_id >= "2")),
            lambda: list(later.scan(SheetV2)),
            lambda: list(later.scan()),
        ]
        for read in reads:
            with pytest.raises(ItemInvalid, match=r"SheetV2 .* title: ") as caught:
                read()
            assert "SHEETS#b" in caught.value.key
            assert caught.value.item["title"] == "words"
            assert (caught.value.item["book"], caught.value.item["sheet_id"]) == ("b", "2")
            assert isinstance(caught.value.__cause__, ValidationError)

    def test_do_not_prevent_reads_of_others(self, later: Store) -> None:
        assert [later.get(SheetV2, book="b", sheet_id=name) for name in "13"] == GOOD
        before, behind = ALL.where(SheetV2.sheet_id < "2"), ALL.where(SheetV2.sheet_id > "2")
        assert [*later.query(before), *later.query(behind)] == GOOD
        assert later.first(ALL) == GOOD[0]
        assert later.first(ALL.reverse()) == GOOD[1]
        assert list(later.page(ALL.limit(1)).items) == GOOD[:1]

    def test_are_there(self, later: Store) -> None:
        assert later.exists(BAD)
        assert later.count(ALL) == 3

    def test_can_be_deleted_by_the_key_in_the_error(self, later: Store) -> None:
        with pytest.raises(ItemInvalid) as caught:
            list(later.query(ALL))
        item = caught.value.item
        assert later.delete(SheetV2, book=item["book"], sheet_id=item["sheet_id"]) is True
        assert list(later.query(ALL)) == GOOD

    def test_can_be_replaced_by_a_put(self, later: Store) -> None:
        later.put(SheetV2(sheet_id="2", title=2))
        assert [sheet.title for sheet in later.query(ALL)] == [None, 2, None]

    def test_can_be_deleted_with_the_others(self, later: Store) -> None:
        assert later.delete_all(ALL) == 3

    @needs("updates")
    def test_can_be_fixed_by_an_update(self, later: Store) -> None:
        later.update(BAD, set_(SheetV2.title, 2))
        assert later.one(BAD).title == 2

    @needs("updates")
    def test_cannot_be_returned(self, later: Store) -> None:
        with pytest.raises(ItemInvalid, match=r"the update was applied, and .*title") as caught:
            later.update(BAD, set_(SheetV2.title, 2), returning="old")
        assert later.one(BAD).title == 2
        assert caught.value.item["title"] == "words"
        assert isinstance(caught.value.__cause__, ValidationError)

    def test_do_not_hide_that_a_key_is_taken(self, later: Store) -> None:
        with pytest.raises(ItemExists) as caught:
            later.insert(SheetV2(sheet_id="2"))
        assert caught.value.item is None

    @needs("conditions")
    def test_do_not_hide_that_a_condition_failed(self, later: Store) -> None:
        with pytest.raises(ConditionFailed) as caught:
            later.put(SheetV2(sheet_id="2"), when=SheetV2.title == 7)
        assert caught.value.item is None
