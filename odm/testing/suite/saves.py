"""`save`: writes the fields of an entity that have changed since it was read."""
# ruff: noqa: D101, RUF012  # a test's name says what it shows; defaults of entities are copied

import copy
import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, JsonValue, StringConstraints, model_validator

from odm import (
    AUTO,
    TTL,
    AccessPattern,
    BadValue,
    Blob,
    CellVersions,
    Conflict,
    Entity,
    ItemExists,
    ItemNotFound,
    PrimaryKey,
    Revision,
    Store,
    Stored,
    Table,
    UpdatedAt,
    set_,
    upgrade,
)
from odm.extend import Calls, Gen, procedure
from odm.patterns.unique import Unique
from odm.testing.capabilities import needs
from odm.testing.stores import Stores
from odm.testing.suite.ways import Way, each_way

shelf = Table("shelf")


class Size(BaseModel):
    width: int = 1
    marks: list[int] = []


class Book(Entity, table=shelf):
    """A field of every kind that a program changes in place."""

    shelf_id: str = "s"
    book_id: str = "1"
    title: Annotated[str, StringConstraints(to_lower=True)] = "x"
    author: str = "nobody"
    pages: Annotated[int, Stored("p")] = 1
    tags: list[str] = []
    labels: set[str] = set()
    size: Size = Size()
    sizes: list[Size] = []
    meta: dict[str, JsonValue] = {}
    note: str | None = None
    ends: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("SHELF#{shelf_id}", "BOOK#{book_id}")
    by_author = AccessPattern("AUTHOR#{author}", "{pages}")


class Locked(Entity, table=shelf):
    """It has a Revision and an UpdatedAt."""

    locked_id: str = "1"
    text: str = ""
    other: str = ""
    revision: Annotated[int, Revision] = 0
    changed: Annotated[datetime, UpdatedAt] = AUTO

    primary = PrimaryKey("LOCKED", "{locked_id}")


class Range(Entity, table=shelf):
    """Its validator sees two fields."""

    range_id: str = "1"
    low: int = 0
    high: int = 9
    note: str = ""

    primary = PrimaryKey("RANGE", "{range_id}")

    @model_validator(mode="after")
    def _in_order(self) -> "Range":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Letter(Entity, table=shelf):
    """Its text is read with the item, also from a blob."""

    letter_id: str
    text: Annotated[bytes, Blob(over=100)] = b""
    pages: int = 0

    primary = PrimaryKey("LETTER", "{letter_id}")


class Told(Entity, table=shelf):
    """It keeps the former values of a field."""

    told_id: str = "1"
    text: Annotated[str, CellVersions(3)] = ""
    other: str = ""

    primary = PrimaryKey("TOLD", "{told_id}")


class Owner(Entity, table=shelf):
    """Its address is kept unique by a companion."""

    owner_id: str
    email: str
    name: str = ""

    primary = PrimaryKey("OWNER#{owner_id}")
    unique_email = Unique("email")


shelf_v1 = Table("editions")
shelf_v2 = Table("editions")


class Edition(Entity, table=shelf_v1):
    edition_id: str = "1"
    pages: int = 4
    note: str = ""

    primary = PrimaryKey("EDITION", "{edition_id}")


class EditionV2(Entity, table=shelf_v2, tag="Edition", version=2):
    """Counts sheets of two pages."""

    edition_id: str = "1"
    sheets: int = 1
    note: str = ""

    primary = PrimaryKey("EDITION", "{edition_id}")

    @upgrade(from_=1)
    @staticmethod
    def counts_sheets(item: dict[str, Any]) -> dict[str, Any]:
        return item | {"sheets": item["pages"] // 2}


KEY = Book.primary(shelf_id="s", book_id="1")
BOOK = Book(tags=["a"], labels={"l"}, size=Size(marks=[1]), sizes=[Size()], meta={"deep": {"list": [1]}}, note="n")

READS: dict[str, Callable[[Store], Any]] = {
    "get": lambda db: db.get(KEY),
    "one": lambda db: db.one(Book, shelf_id="s", book_id="1"),
    "get_many": lambda db: db.get_many([KEY])[0],
    "query": lambda db: next(iter(db.query(Book.primary(shelf_id="s")))),
    "query of an index": lambda db: next(iter(db.query(Book.by_author(author="nobody")))),
    "page": lambda db: db.page(Book.primary(shelf_id="s")).items[0],
    "first": lambda db: db.first(Book.primary(shelf_id="s")),
    "scan": lambda db: next(entity for entity in db.scan() if isinstance(entity, Book)),
    "update": lambda db: db.update(KEY, set_(Book.title, "y"), returning="new"),
    "put": lambda db: db.put(BOOK.model_copy(deep=True)),
    "save": lambda db: db.save(_with_title(db.one(KEY))),
}


def _with_title(book: Book) -> Book:
    book.title = "y"
    return book


@pytest.fixture
def shelved(stores: Stores) -> Store:
    """A store of the table, with one book."""
    db = stores.open(shelf)
    db.put(BOOK.model_copy(deep=True))
    return db


@needs("conditions", "updates", "indexes")
class TestSave:
    @pytest.mark.parametrize("read", READS.values(), ids=READS)
    def test_saves_what_each_read_returns(self, shelved: Store, read: Callable[[Store], Any]) -> None:
        book = read(shelved)
        with shelved.meter() as meter:
            assert shelved.save(book) is book
        assert meter.calls == 0
        shelved.update(KEY, set_(Book.pages, 70))  # by another writer
        book.tags.append("b")
        book.labels.add("m")
        book.size.marks.append(2)
        book.sizes[0].width = 5
        book.meta["deep"]["list"].append(2)
        book.note = None
        book.author = "ann"
        book.ends = datetime(2100, 1, 1, tzinfo=UTC)
        saved = shelved.save(book)
        assert saved == book.model_copy(update={"pages": 70}) == shelved.one(KEY)
        assert list(shelved.query(Book.by_author(author="ann"))) == [saved]
        assert not list(shelved.query(Book.by_author(author="nobody")))
        with shelved.meter() as meter:
            assert shelved.save(saved) is saved
        assert meter.calls == 0
        saved.tags, saved.labels, saved.meta, saved.ends = [], set(), {}, None
        assert shelved.save(saved) == saved == shelved.one(KEY)

    def test_insert_holds_too(self, shelved: Store) -> None:
        book = shelved.insert(Book(book_id="2", tags=["a"], meta={"a": [1]}))
        book.meta["a"].append(2)  # type: ignore[union-attr]
        shelved.update(book, set_(Book.note, "other"))
        assert shelved.save(book).note == "other"
        assert shelved.one(Book, shelf_id="s", book_id="2").meta == {"a": [1, 2]}

    @each_way
    def test_writes_only_what_differs(self, shelved: Store, way: Way) -> None:
        book = shelved.one(KEY)
        shelved.update(KEY, set_(Book.title, "theirs"), set_(Book.tags, ["theirs"]))
        book.pages = 8
        book.sizes.append(Size(width=4))
        way(shelved).save(book)
        stored = shelved.one(KEY)
        assert (stored.title, stored.tags, stored.pages, stored.sizes) == ("theirs", ["theirs"], 8, book.sizes)

    def test_the_entity_passed_stands_for_what_was_read(self, shelved: Store) -> None:
        book = shelved.one(KEY)
        book.title = "mine"
        shelved.save(book)
        shelved.update(KEY, set_(Book.title, "theirs"))
        assert shelved.save(book).title == "mine"

    @each_way
    def test_values_are_validated(self, shelved: Store, way: Way) -> None:
        book = shelved.one(KEY)
        book.title = "UPPER"
        way(shelved).save(book)
        assert shelved.one(KEY).title == "upper"
        book = shelved.one(KEY)
        book.pages = "many"  # type: ignore[assignment]
        with pytest.raises(BadValue, match="pages"):
            way(shelved).save(book)

    @each_way
    def test_the_model_judges_the_stored_item(self, shelved: Store, way: Way) -> None:
        shelved.put(Range())
        key = Range.primary(range_id="1")
        mine, again = shelved.one(key), shelved.one(key)
        shelved.update(key, set_(Range.high, 3))
        mine.low = 2
        way(shelved).save(mine)
        assert shelved.one(key) == Range(low=2, high=3)
        again.low = 5
        with pytest.raises(BadValue, match="low is above high"):
            way(shelved).save(again)

    @each_way
    def test_a_revision_guards(self, shelved: Store, way: Way) -> None:
        key = Locked.primary(locked_id="1")
        first = shelved.put(Locked(text="a"))
        stale = shelved.one(key)
        first.text = "b"
        way(shelved).save(first)
        stored = shelved.one(key)
        assert (stored.text, stored.revision) == ("b", 2)
        assert stored.changed >= first.changed
        stale.other = "mine"
        with pytest.raises(Conflict):
            way(shelved).save(stale)
        assert shelved.one(key) == stored

    def test_saves_again_with_a_revision(self, shelved: Store) -> None:
        entity = shelved.put(Locked(text="a"))
        for text in ("b", "c"):
            entity.text = text
            entity = shelved.save(entity)
        assert (entity.text, entity.revision) == ("c", 3)

    @each_way
    def test_keeps_former_values(self, shelved: Store, way: Way) -> None:
        told = shelved.put(Told(text="a"))
        told.text, told.other = "b", "o"
        way(shelved).save(told)
        versions = shelved.cell_versions(Told.primary(told_id="1"), Told.text)
        assert [version.value for version in versions] == ["b", "a"]

    @each_way
    def test_a_deleted_item_is_not_there(self, shelved: Store, way: Way) -> None:
        book = shelved.one(KEY)
        shelved.delete(KEY)
        book.note = "late"
        with pytest.raises(ItemNotFound):
            way(shelved).save(book)
        assert shelved.get(KEY) is None

    @each_way
    def test_a_key_does_not_change(self, shelved: Store, way: Way) -> None:
        book = shelved.one(KEY)
        book.book_id = "2"
        with pytest.raises(BadValue, match=r"Book.book_id is part of the primary key.* insert\(\)"):
            way(shelved).save(book)

    @each_way
    @pytest.mark.parametrize(
        "make",
        [
            lambda book: Book(**dict(book)),
            lambda book: book.model_copy(),
            lambda book: book.model_copy(deep=True),
            copy.copy,
            copy.deepcopy,
            lambda book: pickle.loads(pickle.dumps(book)),  # of this test
        ],
        ids=["new", "model_copy", "deep", "copy", "deepcopy", "pickle"],
    )
    def test_what_was_not_read_is_refused(self, shelved: Store, way: Way, make: Callable[[Book], Book]) -> None:
        book = make(shelved.one(KEY))
        assert book == shelved.one(KEY)
        book.note = "changed"
        with pytest.raises(BadValue, match=r"Book was not read .* put\(\) .* update\(\)"):
            way(shelved).save(book)
        assert shelved.one(KEY) == BOOK

    @each_way
    def test_only_entities(self, shelved: Store, way: Way) -> None:
        for wrong in (KEY, {"title": "t"}, None):
            with pytest.raises(BadValue, match="is not an entity"):
                way(shelved).save(wrong)

    def test_the_stored_item_does_not_show(self, shelved: Store) -> None:
        book, new = shelved.one(KEY), BOOK.model_copy(deep=True)
        assert (repr(book), book.model_dump(), book.model_dump_json()) == (
            repr(new),
            new.model_dump(),
            new.model_dump_json(),
        )
        assert vars(book) == vars(new)

    def test_nothing_changed_adds_no_operation(self, shelved: Store) -> None:
        book = shelved.one(KEY)
        with shelved.transaction() as tx:
            tx.save(book)
            assert tx.intents == ()
            tx.put(book)
        book.note = "changed"
        with shelved.transaction() as tx:
            tx.save(book)
            with pytest.raises(BadValue, match="in this transaction already"):
                tx.put(book)

    def test_in_a_procedure(self, shelved: Store) -> None:
        @procedure
        def rename(do: Calls, title: str) -> Gen[Book]:
            book = yield from do.one(KEY)
            book.title = title
            return (yield from do.save(book))

        assert shelved.run(rename("new")).title == "new" == shelved.one(KEY).title

    def test_an_older_version_is_upgraded_with_the_change(self, stores: Stores) -> None:
        stores.open(shelf_v1).put(Edition())
        db = stores.open(shelf_v2)
        read = db.one(EditionV2, edition_id="1")
        with db.meter() as meter:
            assert db.save(read) is read
        assert meter.calls == 0  # the program changed nothing, and an upgrade alone is not saved
        read.note = "n"
        assert db.save(read) == EditionV2(sheets=2, note="n") == db.one(EditionV2, edition_id="1")

    def test_explain_shows_the_update(self, shelved: Store) -> None:
        book = shelved.one(KEY)
        unchanged = shelved.explain(book, write="save")
        assert (unchanged.requests, unchanged.native) == (0, None)
        assert "no field differs" in unchanged.note
        book.author = "kim"
        explained = shelved.explain(book, write="save")
        update = shelved.explain(shelved.one(KEY), set_(Book.author, "kim"))
        assert (explained.call, explained.range) == (update.call, update.range)
        asked, expected = (
            re.sub(r"_ttl <= \d+", "", str(explanation.filter)) for explanation in (explained, update)
        )  # a second may pass
        assert asked == expected
        assert type(explained.native) is type(update.native)
        assert shelved.one(KEY).author == "nobody"
        with pytest.raises(BadValue, match="was not read from a store"):
            shelved.explain(Book(), write="save")
        with pytest.raises(BadValue, match="leave actions and when= out"):
            shelved.explain(book, set_(Book.author, "kim"), write="save")

    def test_with_a_large_value(self, stores: Stores, tmp_path: Path) -> None:
        pytest.importorskip("fsspec")
        db = stores.open(shelf, blobs=tmp_path / "blobs")
        for text in (b"short", b"long" * 100):
            key = Letter.primary(letter_id=str(len(text)))
            letter = db.put(Letter(letter_id=str(len(text)), text=text))
            with db.meter() as meter:
                assert db.save(letter) is letter
            assert meter.calls == 0
            for many in (False, True):
                read = db.get_many([key])[0] if many else db.one(key)
                assert read is not None
                letter = read
                with db.meter() as meter:
                    assert db.save(letter) is letter
                assert meter.calls == 0
                letter.pages += 1
                letter = db.save(letter)
                assert letter == db.one(key)
                letter.text += b"!"
                letter = db.save(letter)
                assert letter == db.one(key)
            assert (letter.text, letter.pages) == (text + b"!!", 2)


@needs("conditions", "updates", "indexes")
class TestSaveWithCompanions:
    @each_way
    def test_claims_the_new_value_and_releases_the_old_one(self, stores: Stores, way: Way) -> None:
        db = stores.open(shelf)
        db.put(Owner(owner_id="1", email="a@x"))
        owner = db.one(Owner, owner_id="1")
        owner.email = "b@x"
        way(db).save(owner)
        assert db.one(Owner, owner_id="1") == owner
        db.put(Owner(owner_id="2", email="a@x"))
        other = db.one(Owner, owner_id="2")
        other.email = "b@x"
        with pytest.raises(ItemExists):
            way(db).save(other)
        assert db.one(Owner, owner_id="2").email == "a@x"


@needs("conditions", "updates", "indexes", "retry_safe")
class TestSaveRetrySafe:
    def test_reads_what_is_stored(self, shelved: Store) -> None:
        db = shelved.with_options(retry_safe=True)
        book = db.one(KEY)
        book.tags.append("b")
        saved = db.save(book)
        assert saved == db.one(KEY) == book
        saved.tags.append("c")
        assert db.save(saved).tags == ["a", "b", "c"]
