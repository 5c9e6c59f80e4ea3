"""`Blob`: large values are kept outside the table, in a folder."""
# ruff: noqa: D101  # a test's name says what it shows

import json
import re
from pathlib import Path
from typing import Annotated

import pytest

from odm import (
    BadValue,
    Blob,
    Conflict,
    Entity,
    ItemExists,
    ItemInvalid,
    LazyBytes,
    PrimaryKey,
    Revision,
    Store,
    Stored,
    Table,
    collection,
    remove,
    set_,
)
from odm.testing.capabilities import needs
from odm.testing.stores import Stores

texts = Table("library")

OVER = 20
NAME = re.compile("[0-9a-f]{32}")
"""The file of a large value: other programs may read the folder."""

LONG, LONGER, SHORT = b"long" * OVER, b"longer" * OVER, b"short"


class Letter(Entity, table=texts):
    """Its text is read with it."""

    number: int
    text: Annotated[bytes | None, Blob(over=OVER)] = None

    primary = PrimaryKey("LETTER#{number}")


class Book(Entity, table=texts):
    """Its parts are read when asked."""

    shelf: str
    title: str
    text: Annotated[LazyBytes, Blob(over=OVER), Stored("t")]
    cover: Annotated[LazyBytes | None, Blob(over=OVER)] = None
    pages: int = 0
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("SHELF#{shelf}", "{title}")


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    """The place of blobs."""
    pytest.importorskip("fsspec")
    return tmp_path / "blobs"


@pytest.fixture
def library(stores: Stores, blobs: Path) -> Store:
    """A store of letters and books."""
    return stores.open(texts, blobs=blobs)


def kept(blobs: Path) -> list[bytes]:
    """The content of all blobs, sorted."""
    return sorted(path.read_bytes() for path in files(blobs))


def files(blobs: Path) -> list[Path]:
    """The files of all blobs, without the markers of their folders."""
    return [path for path in blobs.rglob("*") if NAME.fullmatch(path.name)]


def book(text: bytes = LONG, **fields: object) -> Book:
    """A book."""
    return Book.model_validate({"shelf": "a", "title": "Emma", "text": text, **fields})


EMMA = Book.primary(shelf="a", title="Emma")
LETTER = Letter.primary(number=1)


@needs("conditions")
class TestBlobs:
    def test_a_long_value_is_outside_the_item(self, library: Store, blobs: Path) -> None:
        library.put(book(text=LONG, cover=SHORT))
        (item,) = library.scan_page().items
        pointer = item.attributes["t"]
        assert (pointer.keys(), pointer["size"]) == ({"blob", "size", "sha256"}, len(LONG))
        assert item.attributes["cover"] == SHORT
        assert kept(blobs) == [LONG]
        emma = library.one(EMMA)
        assert (emma.text.size, emma.text.read()) == (len(LONG), LONG)
        assert emma == book(text=LONG, cover=SHORT, revision=1)

    def test_get_reads_bytes_with_the_item(self, library: Store) -> None:
        library.put(Letter(number=1, text=LONG))
        library.put(Letter(number=2, text=SHORT))
        assert library.one(LETTER).text == LONG
        keys = [Letter.primary(number=number) for number in (1, 2, 3)]
        assert library.get_many(keys) == [Letter(number=1, text=LONG), Letter(number=2, text=SHORT), None]

    def test_a_put_removes_what_it_replaces(self, library: Store, blobs: Path) -> None:
        for text in (LONG, LONGER, SHORT, LONG):
            library.put(Letter(number=1, text=text))
            assert library.one(LETTER).text == text
            assert kept(blobs) == [text] * (text is not SHORT)
        assert library.delete(LETTER)
        assert kept(blobs) == []

    def test_an_unchanged_value_keeps_its_blob(self, library: Store, blobs: Path) -> None:
        library.put(book(cover=LONGER))
        before = {path: path.stat().st_mtime_ns for path in files(blobs)}
        emma = library.one(EMMA)
        emma.pages = 700
        library.put(emma)
        assert {path: path.stat().st_mtime_ns for path in files(blobs)} == before
        assert [(stored.pages, stored.text.read()) for stored in library.query(Book.primary(shelf="a"))] == [
            (700, LONG)
        ]

    def test_a_blob_is_never_shared(self, library: Store, blobs: Path) -> None:
        library.put(book())
        emma = library.one(EMMA)
        with pytest.raises(Conflict, match="from another item"):
            library.put(book().model_copy(update={"title": "Persuasion", "text": emma.text}))
        library.put(book(title="Persuasion", text=emma.text.read()))
        library.delete(EMMA)
        assert kept(blobs) == [LONG]
        with pytest.raises(Conflict, match="read the item again"):
            emma.text.read()

    def test_a_refused_write_leaves_no_blob(self, library: Store, blobs: Path) -> None:
        stale = library.put(book()).model_copy(update={"revision": 7, "text": LazyBytes(LONGER)})
        with pytest.raises(ItemExists):
            library.insert(book(text=LONGER))
        with pytest.raises(Conflict):
            library.put(stale)
        assert kept(blobs) == [LONG]

    def test_a_batch_leaves_what_it_replaces_to_sweep(self, library: Store, blobs: Path) -> None:
        for text in (LONG, LONGER):
            with library.batch() as batch:
                batch.put(Letter(number=1, text=text))
        assert (library.one(LETTER).text, kept(blobs)) == (LONGER, [LONGER, LONG])
        assert len(library.sweep().orphans) == 0  # younger than a day
        report = library.sweep(grace=0, force=True)
        assert (len(report.orphans), report.removed, report.items) == (1, 0, 1)
        assert library.sweep(grace=0, force=True, remove=True).removed == 1
        assert kept(blobs) == [LONGER]

    def test_a_sweep_that_would_remove_most_is_refused(self, library: Store, blobs: Path) -> None:
        library.put(Letter(number=1, text=LONG))
        for number in (0, 1):
            files(blobs)[0].with_name(str(number) * 32).write_bytes(b"lost")
        with pytest.raises(BadValue, match=r"would remove 2 of 3 blobs \(8 bytes\).*remove_most=True"):
            library.sweep(grace=0, force=True, remove=True)
        assert len(files(blobs)) == 3
        report = library.sweep(
            grace=0, force=True, remove=True, remove_most=True, confirm=lambda report: report.bytes > 8
        )
        assert (report.removed, report.blobs, report.bytes, len(files(blobs))) == (0, 3, 8, 3)
        assert library.sweep(grace=0, force=True, remove=True, remove_most=True).removed == 2
        assert kept(blobs) == [LONG]

    def test_a_sweep_of_a_table_without_items_is_refused(self, library: Store, blobs: Path) -> None:
        library.put(Letter(number=1, text=LONG))
        with library.batch() as batch:
            batch.delete(Letter, number=1)
        with pytest.raises(BadValue, match="the table has no items"):
            library.sweep(grace=0, force=True, remove=True)
        assert library.sweep(grace=0, force=True).items == 0
        assert library.sweep(grace=0, force=True, remove=True, remove_most=True).removed == 1

    def test_the_folder_of_another_table_is_refused(self, library: Store, blobs: Path) -> None:
        library.put(Letter(number=1, text=LONG))
        (marker,) = (path for path in blobs.rglob("*") if path.is_file() and not NAME.fullmatch(path.name))
        mark = json.loads(marker.read_text())
        marker.write_text(json.dumps({**mark, "parts": {**mark["parts"], "table": "other", "backend": "elsewhere"}}))
        with pytest.raises(BadValue, match="belongs to table 'other'"):
            library.sweep(grace=0, force=True)  # by a store that has seen the marker of its own

    def test_delete_all_removes_blobs(self, library: Store, blobs: Path) -> None:
        library.put(book())
        library.put(Letter(number=1, text=LONG))
        assert library.delete_all(collection(Book.primary(shelf="a"))) == 1
        assert library.delete_all(LETTER) == 1
        assert kept(blobs) == []

    @needs("transactions")
    def test_in_a_transaction(self, library: Store, blobs: Path) -> None:
        library.put(book())
        library.put(Letter(number=1, text=LONG))
        with library.transaction() as tx:
            tx.delete(EMMA)
            tx.update(LETTER, set_(Letter.text, LONGER))
            tx.insert(Letter(number=2, text=LONG))
        assert kept(blobs) == [LONGER, LONG]
        assert library.one(LETTER).text == LONGER


@needs("updates")
class TestBlobUpdates:
    def test_replace_and_remove(self, library: Store, blobs: Path) -> None:
        library.put(Letter(number=1, text=LONG))
        library.update(LETTER, set_(Letter.text, LONGER))
        assert (library.one(LETTER).text, kept(blobs)) == (LONGER, [LONGER])
        library.update(LETTER, remove(Letter.text))
        assert (library.one(LETTER).text, kept(blobs)) == (None, [])

    def test_of_other_fields_keep_it(self, library: Store, blobs: Path) -> None:
        library.put(book())
        new = library.update(EMMA, set_(Book.pages, 7), returning="new")
        assert (new.text.read(), kept(blobs)) == (LONG, [LONG])

    def test_create_the_item(self, library: Store, blobs: Path) -> None:
        library.update(EMMA, set_(Book.text, LazyBytes(LONG)), upsert=True)
        library.update(LETTER, set_(Letter.text, LONG), upsert=True)
        assert (library.one(EMMA).text.read(), library.one(LETTER).text) == (LONG, LONG)
        assert kept(blobs) == [LONG, LONG]

    def test_replace_what_another_writer_has_put(self, library: Store, blobs: Path, stores: Stores) -> None:
        library.put(Letter(number=1, text=LONG))
        stores.rival_puts(Letter(number=1, text=SHORT))
        library.update(LETTER, set_(Letter.text, LONGER))
        assert library.one(LETTER).text == LONGER
        library.sweep(grace=0, force=True, remove=True)  # the rival, who knows of no blobs, has left one
        assert kept(blobs) == [LONGER]


@needs("conditions")
class TestLostBlobs:
    def test_are_errors_that_name_them(self, library: Store, blobs: Path) -> None:
        library.put(Letter(number=1, text=LONG))
        library.put(book(text=LONG))
        for path in files(blobs):
            path.unlink()
        with pytest.raises(ItemInvalid, match=r"Letter under .* the blob [0-9a-f]{32} does not exist"):
            library.get(LETTER)
        with pytest.raises(ItemInvalid, match=r"Book under .* does not exist"):
            library.one(EMMA).text.read()

    def test_other_content_is_an_error(self, library: Store, blobs: Path) -> None:
        library.put(Letter(number=1, text=LONG))
        (path,) = files(blobs)
        path.write_bytes(LONG[::-1])
        with pytest.raises(ItemInvalid, match="SHA-256"):
            library.get(LETTER)
