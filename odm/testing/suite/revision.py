"""`Revision`: optimistic locking."""
# ruff: noqa: D101  # a test's name says what it shows

from typing import Any, cast

import pytest

from odm import (
    Action,
    BadValue,
    ConditionFailed,
    Conflict,
    ItemExists,
    ItemNotFound,
    Store,
    increment,
    set_,
    set_if_missing,
)
from odm.testing.capabilities import needs
from odm.testing.entities import Account, Document
from odm.testing.stores import Stores
from odm.testing.suite.ways import Way, each_way

NEW = Document(document_id="d", text="first")
KEY = Document.primary(document_id="d")


def edited(document: Document, text: str) -> Document:
    """The document with another text."""
    return document.model_copy(update={"text": text})


class TestNewRevision:
    @each_way
    def test_a_new_entity_does_not_overwrite(self, db: Store, way: Way) -> None:
        stored = db.put(NEW)
        put, insert = way(db).put, way(db).insert
        for write, says in ((put, "exists already, and revision is 0 in"), (insert, "exists already: ")):
            with pytest.raises(ItemExists, match=says) as caught:
                write(NEW)
            assert caught.value.item == stored

    def test_insert_starts_at_one(self, db: Store) -> None:
        assert db.insert(NEW).revision == 1


@needs("conditions")
class TestRevision:
    def test_counts_puts(self, db: Store) -> None:
        first = db.put(NEW)
        second = db.put(edited(first, "second"))
        assert [NEW.revision, first.revision, second.revision] == [0, 1, 2]
        assert db.one(KEY) == second

    @each_way
    def test_a_stale_put_is_a_conflict(self, db: Store, way: Way) -> None:
        stale = db.put(NEW)
        newest = db.put(edited(stale, "second"))
        with pytest.raises(Conflict) as caught:
            way(db).put(edited(stale, "mine"))
        assert caught.value.item == newest
        assert db.one(KEY) == newest

    @each_way
    def test_a_put_of_what_was_deleted_is_a_conflict(self, db: Store, way: Way) -> None:
        stored = db.put(NEW)
        db.delete(KEY)
        with pytest.raises(Conflict) as caught:
            way(db).put(stored)
        assert caught.value.item is None
        assert not db.exists(KEY)

    @each_way
    def test_the_condition_of_a_put_is_judged_too(self, db: Store, way: Way) -> None:
        stored = db.put(NEW)
        with pytest.raises(ConditionFailed) as caught:
            way(db).put(stored, when=Document.text == "other")
        assert not isinstance(caught.value, Conflict)
        way(db).put(stored, when=Document.text == "first")
        assert db.one(KEY).revision == 2

    @each_way
    def test_a_stale_delete_is_a_conflict(self, db: Store, way: Way) -> None:
        stale = db.put(NEW)
        newest = db.put(edited(stale, "second"))
        with pytest.raises(Conflict):
            way(db).delete(stale)
        way(db).delete(newest)
        assert db.get(KEY) is None

    def test_a_key_deletes_whatever_revision(self, db: Store) -> None:
        db.put(db.put(NEW))
        assert db.delete(KEY) is True

    @each_way
    def test_a_rival_between_read_and_write_is_noticed(self, db: Store, stores: Stores, way: Way) -> None:
        mine = db.put(NEW)
        stores.rival_puts(edited(mine, "theirs"))
        with pytest.raises(Conflict):
            way(db).put(edited(mine, "mine"))
        assert db.one(KEY).text == "theirs"


@needs("conditions", "updates")
class TestRevisionUpdates:
    @each_way
    def test_an_entity_is_checked_and_counted(self, db: Store, way: Way) -> None:
        stale = db.put(NEW)
        way(db).update(stale, set_(Document.text, "second"))
        newest = db.one(KEY)
        assert (newest.text, newest.revision) == ("second", 2)
        with pytest.raises(Conflict) as caught:
            way(db).update(stale, set_(Document.text, "mine"))
        assert caught.value.item == newest
        assert db.one(KEY) == newest

    def test_a_key_only_counts(self, db: Store) -> None:
        db.put(NEW)
        assert db.update(KEY, set_(Document.text, "x"), returning="new").revision == 2
        assert db.update(KEY, set_(Document.text, "y"), returning="new").revision == 3

    @each_way
    def test_an_absent_item_is_not_found(self, db: Store, way: Way) -> None:
        stored = db.put(NEW)
        db.delete(KEY)
        with pytest.raises(ItemNotFound):
            way(db).update(stored, set_(Document.text, "x"))

    def test_a_transaction_returns_the_entity_as_it_will_be_stored(self, db: Store) -> None:
        entity = db.put(NEW)
        for number in (2, 3):
            with db.transaction() as tx:
                entity = tx.update(entity, set_(Document.text, f"text {number}"), returning="new")
            assert (entity, entity.revision) == (db.one(KEY), number)
        assert db.put(edited(entity, "last")).revision == 4

    def test_upsert_starts_at_one(self, db: Store) -> None:
        assert db.update(KEY, set_(Document.text, "x"), upsert=True, returning="new").revision == 1
        assert db.update(KEY, set_(Document.text, "y"), upsert=True, returning="new").revision == 2


class TestRevisionRefused:
    def test_a_transaction_returns_only_what_it_knows(self, offline: Store) -> None:
        action, unsure = set_(Document.text, "x"), set_if_missing(Document.text, "x")
        refused: list[tuple[Any, Action, dict[str, Any]]] = [
            (KEY, action, {"returning": "new"}),
            (Account(name="ann"), increment(Account.balance), {"returning": "new"}),
            (NEW, unsure, {"returning": "new"}),
            (NEW, action, {"returning": "new", "upsert": True}),
            (NEW, action, {"returning": "old"}),
        ]
        with offline.transaction() as tx:
            for which, update, options in refused:
                with pytest.raises(BadValue, match="get\\(\\) the item after the transaction"):
                    tx.update(which, update, **options)
            with pytest.raises(BadValue, match="say 'none' or 'new'"):
                tx.update(NEW, action, returning=cast(Any, "all"))

    def test_is_not_set_by_hand(self, offline: Store) -> None:
        for action in (set_(Document.revision, 5), increment(Document.revision)):
            with pytest.raises(BadValue, match="revision"):
                offline.update(KEY, action)
