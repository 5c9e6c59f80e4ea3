"""Items of unknown entities, written by another program: every call reports or skips them, and none changes them."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from msgspec.structs import replace as evolve

from odm import (
    AccessPattern,
    Counter,
    Entity,
    ItemInvalid,
    ItemNotFound,
    PrimaryKey,
    Store,
    Table,
    TransactionFailed,
    collection,
    increment,
    missing,
    set_,
)
from odm.testing.capabilities import needs
from odm.testing.stores import Stores
from odm.testing.suite.copying import all_of
from odm.testing.suite.helpers import fill

shared = Table("shared")
theirs = Table("shared")


class Note(Entity, table=shared):
    pad: str
    note_id: str
    text: str = ""
    size: int = 0
    hits: Annotated[int, Counter] = 0

    primary = PrimaryKey("PAD#{pad}", "NOTE#{note_id}")
    by_text = AccessPattern("TEXT#{text}", "{note_id}")


class Pad(Entity, table=shared):
    pad: str
    title: str = ""

    primary = PrimaryKey("PAD#{pad}", "INFO")


class Theirs(Entity, table=theirs):
    """The items of the other program, under keys of notes."""

    pad: str
    note_id: str
    text: str = ""

    primary = PrimaryKey("PAD#{pad}", "NOTE#{note_id}")
    by_text = AccessPattern("TEXT#{text}", "{note_id}")


STRANGER = Theirs(pad="p", note_id="2", text="t")
KEY = Note.primary(pad="p", note_id="2")
NOTES = [Note(pad="p", note_id=id, text="t", size=int(id)) for id in ("1", "3")]
IN_ITS_PLACE = Note(pad="p", note_id="2", text="t")
PARTITION = collection(Pad.primary(pad="p"))
LARGE = Note.primary(pad="p").where(Note.size > 1)

READS: dict[str, tuple[Callable[[Store], Any], Any]] = {
    "get": (lambda db: db.get(KEY), None),
    "get_many": (lambda db: db.get_many([KEY]), [None]),
    "exists": (lambda db: db.exists(KEY), False),
    "query": (lambda db: list(db.query(Note.primary(pad="p"))), NOTES),
    "query with a filter": (lambda db: list(db.query(LARGE)), NOTES[1:]),
    "collection": (lambda db: list(db.query(PARTITION)), NOTES),
    "collection with a filter": (lambda db: list(db.query(PARTITION.where(Note.size > 1))), NOTES[1:]),
    "page": (lambda db: db.page(Note.primary(pad="p"), size=5).items, NOTES),
    "first": (lambda db: db.first(Note.primary(pad="p").where(Note.size > 2)), NOTES[1]),
    "count": (lambda db: db.count(Note.primary(pad="p")), 2),
    "count with a filter": (lambda db: db.count(LARGE), 1),
    "count with a limit": (lambda db: db.count(Note.primary(pad="p").limit(2)), 2),
    "count with both": (lambda db: db.count(LARGE.limit(2)), 1),
    "index": (lambda db: list(db.query(Note.by_text(text="t"))), NOTES),
    "count of an index": (lambda db: db.count(Note.by_text(text="t")), 2),
    "scan": (lambda db: sorted(db.scan(), key=str), NOTES),
    "scan of an entity": (lambda db: sorted(db.scan(Note), key=str), NOTES),
    "scan of another entity": (lambda db: list(db.scan(Pad)), []),
    "scan_page": (lambda db: len(all_of(db)), 2),
}


def _batch(db: Store, *, delete: bool) -> None:
    with db.batch() as batch:
        if delete:
            batch.delete(KEY)
        else:
            batch.put(IN_ITS_PLACE)


def _transaction(db: Store, call: Callable[[Any], object]) -> None:
    try:
        with db.transaction() as tx:
            call(tx)
    except TransactionFailed as failure:
        raise failure.reasons[0] or failure from failure


CREATING: dict[str, Callable[[Store], object]] = {
    "insert": lambda db: db.insert(IN_ITS_PLACE),
    "put": lambda db: db.put(IN_ITS_PLACE),
    "put where nothing is": lambda db: db.put(IN_ITS_PLACE, when=missing(Note.text)),
    "put where something is": lambda db: db.put(IN_ITS_PLACE, when=Note.text == "t"),
    "upsert": lambda db: db.update(KEY, set_(Note.size, 1), upsert=True),
    "upsert of a key": lambda db: db.update(KEY, set_(Note.text, "u"), upsert=True),
    "batch": lambda db: _batch(db, delete=False),
    "transaction of a put": lambda db: _transaction(db, lambda tx: tx.put(IN_ITS_PLACE)),
    "transaction of an insert": lambda db: _transaction(db, lambda tx: tx.insert(IN_ITS_PLACE)),
}

CHANGING: dict[str, tuple[Callable[[Store], object], object]] = {
    "delete": (lambda db: db.delete(KEY), False),
    "delete on a condition": (lambda db: db.delete(KEY, when=Note.text == "t"), False),
    "delete on one that nothing fulfils": (lambda db: db.delete(KEY, when=missing(Note.size)), False),
    "batch": (lambda db: _batch(db, delete=True), None),
    "transaction of a delete": (lambda db: _transaction(db, lambda tx: tx.delete(KEY)), None),
    "update": (lambda db: db.update(KEY, set_(Note.size, 1)), ItemNotFound),
    "update of a key": (lambda db: db.update(KEY, set_(Note.text, "u")), ItemNotFound),
    "update on a condition": (lambda db: db.update(KEY, set_(Note.size, 1), when=Note.text == "t"), ItemNotFound),
    "update that returns": (lambda db: db.update(KEY, set_(Note.size, 1), returning="new"), ItemNotFound),
    "increment": (lambda db: db.update(KEY, increment(Note.hits)), ItemNotFound),
    "transaction of an update": (
        lambda db: _transaction(db, lambda tx: tx.update(KEY, increment(Note.hits))),
        ItemNotFound,
    ),
    "check": (lambda db: _transaction(db, lambda tx: tx.check(KEY)), ItemNotFound),
    "check of what is missing": (
        lambda db: _transaction(db, lambda tx: tx.check(KEY, when=missing(Note.size))),
        None,
    ),
}


@needs("indexes", "updates", "conditions")
class TestStrangers:
    @pytest.mark.parametrize("read", READS)
    def test_are_an_error_to_every_read_that_meets_them(self, stores: Stores, read: str) -> None:
        db = _opened(stores)
        with pytest.raises(ItemInvalid, match=r"'Theirs'.*on_unknown") as caught:
            READS[read][0](db)
        assert caught.value.item["text"] == "t"

    @pytest.mark.parametrize("read", READS)
    def test_are_not_there_to_reads_that_skip_them(self, stores: Stores, read: str) -> None:
        call, expected = READS[read]
        assert call(_opened(stores, on_unknown="skip")) == expected

    @pytest.mark.parametrize("on_unknown", ["raise", "skip"])
    @pytest.mark.parametrize("write", CREATING)
    def test_are_never_written_over(self, stores: Stores, write: str, on_unknown: str) -> None:
        db = _opened(stores, on_unknown=on_unknown)
        with pytest.raises(ItemInvalid, match=r"Note.primary.*'Theirs'.*neither changed nor removed"):
            CREATING[write](db)
        _is_unchanged(stores)

    @pytest.mark.parametrize("write", CHANGING)
    def test_are_an_error_to_every_write_that_meets_them(self, stores: Stores, write: str) -> None:
        db = _opened(stores)
        with pytest.raises(ItemInvalid, match=r"Note.primary.*'Theirs'"):
            CHANGING[write][0](db)
        _is_unchanged(stores)

    @pytest.mark.parametrize("write", CHANGING)
    def test_are_not_there_to_writes_that_skip_them(self, stores: Stores, write: str) -> None:
        db = _opened(stores, on_unknown="skip")
        call, expected = CHANGING[write]
        if expected is ItemNotFound:
            with pytest.raises(ItemNotFound):
                call(db)
        else:
            assert call(db) == expected
        _is_unchanged(stores)

    def test_are_in_no_delete_all(self, stores: Stores) -> None:
        for query in (Note.primary(pad="p"), PARTITION, Note.by_text(text="t")):
            raising = _opened(stores)
            with pytest.raises(ItemInvalid, match="'Theirs'"):
                raising.delete_all(query)
            _is_unchanged(stores)
            skipping = _opened(stores, on_unknown="skip")
            assert skipping.delete_all(query) == 2
            assert list(skipping.scan()) == []
            _is_unchanged(stores)

    def test_a_batch_with_one_of_them_is_not_sent(self, stores: Stores) -> None:
        db = _opened(stores)
        with pytest.raises(ItemInvalid):
            fill(db, [Note(pad="q", note_id="9", text="t"), IN_ITS_PLACE])
        assert list(db.query(Note.primary(pad="q"))) == []

    def test_raw_items_are_not_put_over_them(self, stores: Stores) -> None:
        db = _opened(stores, on_unknown="skip")
        db.put(Note(pad="q", note_id="2", text="t"))
        source = next(item for item in all_of(db) if item.partition == "PAD#q")
        elsewhere = evolve(source, entity=IN_ITS_PLACE, attributes={**source.attributes, "pad": "p"})
        with pytest.raises(ItemInvalid, match="'Theirs'"):
            db.put_raw([elsewhere])
        _is_unchanged(stores)


def _opened(stores: Stores, **options: Any) -> Store:
    """A store on a table with notes and, among them, an item of another program."""
    db = stores.open(shared, **options)
    fill(db, NOTES)
    stores.open(theirs).put(STRANGER)
    return db


def _is_unchanged(stores: Stores) -> None:
    other = stores.open(theirs, on_unknown="skip")
    assert other.get(Theirs, pad="p", note_id="2") == STRANGER
    assert list(other.query(Theirs.by_text(text="t"))) == [STRANGER]
