"""Stored items that do not fit the model: the errors, and how to fix the items."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from odm import (
    TTL,
    AccessPattern,
    BadValue,
    ConditionFailed,
    Entity,
    ItemExists,
    ItemInvalid,
    PrimaryKey,
    Shards,
    Store,
    Table,
    collection,
    select,
    set_,
    upgrade,
)
from odm.extend import Calls, Gen, procedure
from odm.procedures.context import Context
from odm.procedures.upkeep.unfit import UnfitItem, delete_unchanged, unfit_page
from odm.schema.entity import EntitySchema
from odm.schema.model import Schema
from odm.testing.capabilities import needs
from odm.testing.entities import Sheet, SheetV2, plain_v2
from odm.testing.stores import Stores
from odm.testing.suite.copying import all_of
from odm.testing.suite.helpers import PAST, fill, walk

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
        db, key = stores.open(calendar), Visit.primary(house="h", visit_id="1")
        fill(stores.open(calendar_of_others), [stored])
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


letters, letters_of_others, letters_v2 = Table("letters"), Table("letters"), Table("letters")


class Letter(Entity, table=letters):
    box: str = "b"
    number: int
    pages: Annotated[int, Field(ge=1)] = 1
    sender: str = "s"
    expires: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("BOX#{box}", "LETTER#{number}")
    by_sender = AccessPattern("SENDER#{sender}", "{number}")
    by_pages = AccessPattern("PAGES", "{number}", shards=Shards(3, by="number"))


class Box(Entity, table=letters):
    box: str = "b"

    primary = PrimaryKey("BOX#{box}", "BOX")


class LetterOfOthers(Entity, table=letters_of_others, tag="Letter"):
    """What another program stores as letters."""

    box: str = "b"
    number: int
    pages: int = 1
    sender: str = "s"
    expires: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("BOX#{box}", "LETTER#{number}")
    by_sender = AccessPattern("SENDER#{sender}", "{number}")
    by_pages = AccessPattern("PAGES", "{number}", shards=Shards(3, by="number"))


class Parcel(Entity, table=letters_of_others):
    """An item of an entity that the table of letters does not have."""

    box: str = "b"

    primary = PrimaryKey("BOX#{box}", "PARCEL")


class LetterV2(Entity, table=letters_v2, tag="Letter", version=2):
    """Counts sheets of two pages; an upgrade refuses letters without pages."""

    box: str = "b"
    number: int
    sheets: int = 1

    primary = PrimaryKey("BOX#{box}", "LETTER#{number}")

    @upgrade(from_=1)
    @staticmethod
    def counts_sheets(item: dict[str, Any]) -> dict[str, Any]:
        return item | {"sheets": 1 + 1 // item["pages"]}


FITTING = [Letter(number=number) for number in (3, 7, 8)]
UNFIT = (1, 2, 4, 5, 6, 9)
BOX = Letter.primary(box="b")
UNFIT_KEY = Letter.primary(box="b", number=4)
EVERYTHING = [Box(), *FITTING]


@procedure
def _queried(do: Calls) -> Gen[list[Letter]]:
    return (yield from do.query(BOX))


SKIPPING: dict[str, tuple[Callable[[Store], Any], Any]] = {
    "query": (lambda db: list(db.query(BOX)), FITTING),
    "query from the end": (lambda db: list(db.query(BOX.reverse())), FITTING[::-1]),
    "query with a limit": (lambda db: list(db.query(BOX.limit(2))), FITTING[:2]),
    "query with a limit from the end": (lambda db: list(db.query(BOX.reverse().limit(2))), FITTING[:0:-1]),
    "query with a filter": (lambda db: list(db.query(BOX.where(Letter.sender == "s").limit(2))), FITTING[:2]),
    "query of a range": (lambda db: list(db.query(BOX.where(Letter.number > 4))), FITTING[1:]),
    "query in a procedure": (lambda db: db.run(_queried()), FITTING),
    "query of some fields": (
        lambda db: [partial[Letter.number] for partial in db.query(BOX, only=[Letter.pages])],
        [3, 7, 8],
    ),
    "query of fields that fit": (lambda db: len(list(db.query(BOX, only=[Letter.sender]))), 9),
    "collection": (lambda db: list(db.query(collection(BOX))), EVERYTHING),
    "collection with a limit": (lambda db: list(db.query(collection(BOX).limit(3))), EVERYTHING[:3]),
    "page": (lambda db: list(db.page(BOX, size=2).items), FITTING[:2]),
    "pages of one": (lambda db: walk(db, BOX, 1), [[letter] for letter in FITTING]),
    "pages of two": (lambda db: walk(db, BOX, 2), [FITTING[:2], FITTING[2:]]),
    "pages of two from the end": (lambda db: walk(db, BOX.reverse(), 2), [FITTING[:0:-1], FITTING[:1]]),
    "pages of three": (lambda db: walk(db, BOX, 3), [FITTING]),
    "pages with a limit": (lambda db: walk(db, collection(BOX).limit(3), 2), [EVERYTHING[:2], EVERYTHING[2:3]]),
    "first": (lambda db: db.first(BOX), FITTING[0]),
    "first from the end": (lambda db: db.first(BOX.reverse()), FITTING[-1]),
    "first of nothing that fits": (lambda db: db.first(BOX.where(Letter.number < 3)), None),
    "count": (lambda db: db.count(BOX), 3),
    "count with a limit": (lambda db: db.count(BOX.limit(2)), 2),
    "count with a filter": (lambda db: db.count(BOX.where(Letter.sender == "s")), 3),
    "count of a collection": (lambda db: db.count(collection(BOX)), 4),
    "scan": (lambda db: sorted(db.scan(), key=str), sorted(EVERYTHING, key=str)),
    "scan of an entity": (lambda db: sorted(db.scan(Letter), key=str), FITTING),
    "scan in segments": (lambda db: sorted(db.scan(Letter, segments=3), key=str), FITTING),
    "scan of some fields": (
        lambda db: sorted(partial[Letter.number] for partial in db.scan(Letter, only=[Letter.pages])),
        [3, 7, 8],
    ),
    "scan_page": (
        lambda db: sorted((item.entity for item in all_of(db, size=2)), key=str),
        sorted(EVERYTHING, key=str),
    ),
    "scan_page of an entity": (lambda db: len(all_of(db, where=select(Letter))), 3),
}

SKIPPING_IN_INDEXES: dict[str, tuple[Callable[[Store], Any], Any]] = {
    "query": (lambda db: list(db.query(Letter.by_sender(sender="s"))), FITTING),
    "pages": (lambda db: walk(db, Letter.by_sender(sender="s"), 2), [FITTING[:2], FITTING[2:]]),
    "count": (lambda db: db.count(Letter.by_sender(sender="s")), 3),
    "query of shards": (lambda db: list(db.query(Letter.by_pages())), FITTING),
    "query of shards with a limit": (lambda db: list(db.query(Letter.by_pages().limit(2))), FITTING[:2]),
    "pages of shards": (lambda db: walk(db, Letter.by_pages(), 2), [FITTING[:2], FITTING[2:]]),
    "count of shards": (lambda db: db.count(Letter.by_pages().limit(2)), 2),
}


class TestOnInvalid:
    @pytest.mark.parametrize("read", SKIPPING)
    def test_a_read_of_many_skips_them(self, stores: Stores, read: str) -> None:
        call, expected = SKIPPING[read]
        assert call(_opened(stores, on_invalid="skip")) == expected

    @pytest.mark.parametrize("read", [name for name in SKIPPING if "count" not in name and "fit" not in name])
    def test_by_default_it_raises(self, stores: Stores, read: str) -> None:
        with pytest.raises(ItemInvalid, match="does not fit the model: pages"):
            SKIPPING[read][0](_opened(stores))

    @pytest.mark.parametrize(
        "read", ["query", "query in a procedure", "count", "page", "scan", "scan_page", "collection"]
    )
    def test_a_function_gets_the_error_of_each(self, stores: Stores, read: str) -> None:
        errors: list[ItemInvalid] = []
        db = _opened(stores, on_invalid=errors.append)
        call, expected = SKIPPING[read]
        assert call(db) == expected
        assert {error.item["number"] for error in errors} >= ({1, 2} if read == "page" else {*UNFIT})
        assert {error.item["pages"] for error in errors} == {0}
        assert all("BOX#b" in error.key and isinstance(error.__cause__, ValidationError) for error in errors)

    def test_its_result_does_not_replace_the_item(self, stores: Stores) -> None:
        db = _opened(stores, on_invalid=lambda error: FITTING[0])
        assert list(db.query(BOX)) == FITTING

    def test_what_it_raises_ends_the_read(self, stores: Stores) -> None:
        def refuse(error: ItemInvalid) -> None:
            raise LookupError(error.key)

        db = _opened(stores, on_invalid=refuse)
        for read in ("query", "count", "scan"):
            with pytest.raises(LookupError, match="BOX#b"):
                SKIPPING[read][0](db)

    def test_reads_by_key_raise(self, stores: Stores) -> None:
        db = _opened(stores, on_invalid="skip")
        reads: list[Callable[[], Any]] = [
            lambda: db.get(UNFIT_KEY),
            lambda: db.one(UNFIT_KEY),
            lambda: db.get(UNFIT_KEY, only=[Letter.pages]),
            lambda: db.get_many([Letter.primary(box="b", number=3), UNFIT_KEY]),
        ]
        for read in reads:
            with pytest.raises(ItemInvalid, match="pages"):
                read()
        assert db.exists(UNFIT_KEY)

    def test_their_keys_are_taken(self, stores: Stores) -> None:
        db = _opened(stores, on_invalid="skip")
        with pytest.raises(ItemExists):
            db.insert(Letter(number=4))

    def test_the_count_is_that_of_the_query(self, stores: Stores) -> None:
        db = _opened(stores, on_invalid="skip")
        for base in (BOX, BOX.reverse(), collection(BOX), BOX.where(Letter.pages <= 1)):
            for limit in range(1, 6):
                query = base.limit(limit)
                assert db.count(query) == len(list(db.query(query))), query

    @pytest.mark.parametrize("on_invalid", ["skip", lambda error: None], ids=["skip", "a function"])
    def test_delete_all_leaves_them(self, stores: Stores, on_invalid: Any) -> None:
        db = _opened(stores, on_invalid=on_invalid)
        fill(stores.open(letters_of_others), [LetterOfOthers(number=10, pages=0, expires=PAST)])
        fill(db, [Letter(number=11, expires=PAST)])
        assert db.delete_all(collection(BOX)) == len(EVERYTHING) + 1  # with the one that has expired
        assert list(db.scan()) == []
        assert _numbers(stores) == [*UNFIT, 10]

    def test_delete_all_removes_them_by_default(self, stores: Stores) -> None:
        assert _opened(stores).delete_all(BOX) == 9
        assert _numbers(stores) == []

    def test_items_of_no_entity_are_on_unknowns(self, stores: Stores) -> None:
        errors: list[ItemInvalid] = []
        db = _opened(stores, on_invalid=errors.append)
        stores.open(letters_of_others).put(Parcel())
        for read in ("collection", "scan", "scan_page", "count of a collection"):
            with pytest.raises(ItemInvalid, match=r"'Parcel'.*on_unknown"):
                SKIPPING[read][0](db)
        assert not any("Parcel" in str(error) for error in errors)
        both = stores.open(letters, on_invalid="skip", on_unknown="skip")
        for read in ("collection", "scan", "scan_page", "count of a collection"):
            assert SKIPPING[read][0](both) == SKIPPING[read][1]

    def test_items_that_cannot_be_upgraded_are_skipped(self, stores: Stores) -> None:
        _opened(stores)
        errors: list[ItemInvalid] = []
        db = stores.open(letters_v2, on_invalid=errors.append, on_unknown="skip")
        query = LetterV2.primary(box="b")
        judged = query.where(LetterV2.sheets == 2)
        for filtered in (query, judged):
            assert [letter.number for letter in db.query(filtered)] == [3, 7, 8]
            assert db.count(filtered) == db.count(filtered.limit(5)) == 3
            assert [[letter.number for letter in page] for page in walk(db, filtered, 2)] == [[3, 7], [8]]
        assert [letter.number for letter in db.scan(LetterV2, LetterV2.sheets == 2)] == [3, 7, 8]
        assert {error.item["number"] for error in errors} == {*UNFIT}
        assert all(isinstance(error.__cause__, ZeroDivisionError) for error in errors)
        with pytest.raises(ItemInvalid, match="ZeroDivisionError"):
            list(stores.open(letters_v2, on_unknown="skip").query(judged))

    def test_items_of_another_key_are_skipped(self, stores: Stores) -> None:
        db = stores.open(calendar, on_invalid="skip")
        fill(stores.open(calendar_of_others), [VisitOfOthers(visit_id="9"), VisitOfOthers(visit_id="2", key="2")])
        assert [visit.visit_id for visit in db.query(Visit.primary(house="h"))] == ["2"]
        assert [visit.visit_id for visit in db.scan(Visit)] == ["2"]

    def test_explain_names_it(self, stores: Stores) -> None:
        assert "items that do not fit their model are skipped" in str(_opened(stores, on_invalid="skip").explain(BOX))
        assert "fit their model" not in str(_opened(stores).explain(BOX))

    @pytest.mark.parametrize("on_invalid", ["ignore", None, True])
    def test_takes_two_words_or_a_function(self, stores: Stores, on_invalid: Any) -> None:
        with pytest.raises(BadValue, match=r"on_invalid=.*'raise', 'skip' or a function"):
            stores.offline(letters, on_invalid=on_invalid)

    def test_takes_no_async_function(self, stores: Stores) -> None:
        async def note(error: ItemInvalid) -> None: ...

        with pytest.raises(BadValue, match=r"on_invalid=.*plain function"):
            stores.offline(letters, on_invalid=note)


@needs("indexes")
class TestOnInvalidIndexes:
    @pytest.mark.parametrize("read", SKIPPING_IN_INDEXES)
    def test_a_read_of_an_index_skips_them(self, stores: Stores, read: str) -> None:
        call, expected = SKIPPING_IN_INDEXES[read]
        assert call(_opened(stores, on_invalid="skip")) == expected

    def test_delete_all_leaves_them(self, stores: Stores) -> None:
        for query in (Letter.by_sender(sender="s"), Letter.by_pages()):
            db = _opened(stores, on_invalid="skip")
            assert db.delete_all(query) == len(FITTING)
            assert _numbers(stores) == [*UNFIT]

    def test_are_listed_and_deleted_unless_they_have_changed(self, stores: Stores) -> None:
        """What ``odm invalid --delete`` does."""
        db = _opened(stores)
        fill(stores.open(letters_of_others), [Parcel(), LetterOfOthers(number=10, pages=0, expires=PAST)])
        schema = letters.compile()
        unfit: list[UnfitItem] = []
        number, after = 0, None
        while True:
            page, read, after = db.run(partial(_unfit_page, schema, None, after))
            unfit, number = [*unfit, *page], number + read
            if after is None:
                break
        assert number == len(EVERYTHING) + len(UNFIT)
        by_number = {unfit_item.error.item["number"]: unfit_item for unfit_item in unfit}
        assert sorted(by_number) == [*UNFIT]
        assert by_number[4].call == UNFIT_KEY
        assert by_number[4].key.partition == "BOX#b"
        of_boxes, _, _ = db.run(partial(_unfit_page, schema, schema.by_class[Box], None))
        assert of_boxes == []
        stores.open(letters_of_others, on_unknown="skip").put(LetterOfOthers(number=5, pages=-1))
        stores.open(letters).delete(Letter, box="b", number=6)
        deleted = {number: db.run(partial(_delete, by_number[number])) for number in sorted(by_number)}
        assert deleted == {1: True, 2: True, 4: True, 5: False, 6: True, 9: True}
        others = stores.open(letters_of_others, on_unknown="skip")
        remaining = [3, 5, 7, 8]
        assert [letter.number for letter in others.query(LetterOfOthers.primary(box="b"))] == remaining
        assert [letter.number for letter in others.query(LetterOfOthers.by_sender(sender="s"))] == remaining
        assert [letter.number for letter in others.query(LetterOfOthers.by_pages())] == remaining


def _unfit_page(
    schema: Schema, entity: EntitySchema | None, after: Any, do: Calls
) -> Gen[tuple[list[UnfitItem], int, Any]]:
    return unfit_page(schema, Context(schema), entity, after, 3)


def _delete(unfit: UnfitItem, do: Calls) -> Gen[bool]:
    return delete_unchanged(unfit)


def _opened(stores: Stores, **options: Any) -> Store:
    """A store with nine letters, of which only `FITTING` fit, and with their box."""
    others = stores.open(letters_of_others, on_unknown="skip")
    fill(others, [LetterOfOthers(number=number, pages=0) for number in UNFIT])
    db = stores.open(letters, **options)
    fill(db, EVERYTHING)
    return db


def _numbers(stores: Stores) -> list[int]:
    """The numbers of the letters that are stored, also of those that have expired."""
    others = stores.open(letters_of_others, on_unknown="skip")
    entities = (item.entity for item in all_of(others, expired=True))
    return sorted(entity.number for entity in entities if isinstance(entity, LetterOfOthers))
