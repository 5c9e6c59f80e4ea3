"""`Compressed`: long text and bytes, which other programs can read."""
# ruff: noqa: D101  # a test's name says what it shows

import gzip
from typing import Annotated

import pytest
from pydantic import BaseModel

from odm import BadValue, Compressed, Entity, ItemInvalid, PrimaryKey, Store, Table, missing, select, set_
from odm.testing.capabilities import needs
from odm.testing.stores import Stores
from odm.testing.suite.copying import all_of

pages = Table("pages")


class Part(BaseModel):
    """A part of a page."""

    text: Annotated[str, Compressed("gzip", over=20)] = ""


class Page(Entity, table=pages):
    """Has long text and bytes."""

    page_id: str
    body: Annotated[str, Compressed("gzip", over=20)] = ""
    image: Annotated[bytes | None, Compressed("gzip", over=20)] = None
    parts: list[Part] = []  # noqa: RUF012  # pydantic copies defaults

    primary = PrimaryKey("PAGE#{page_id}")


LONG = "ein langer Text über Öl " * 20
MAGIC = gzip.compress(b"", mtime=0)  # bytes that begin like a compressed value
KEY = Page.primary(page_id="p")


@pytest.fixture
def written(stores: Stores) -> Store:
    """A store without items."""
    return stores.open(pages)


class TestCompressed:
    def test_values_read_back(self, written: Store) -> None:
        values = [("", b""), ("short", None), (LONG, LONG.encode()), ("0", MAGIC)]
        pages = [
            Page(page_id=str(number), body=body, image=image, parts=[Part(text=body)])
            for number, (body, image) in enumerate(values)
        ]
        with written.batch() as batch:
            for page in pages:
                batch.put(page)
        assert written.get_many([Page.primary(page_id=page.page_id) for page in pages]) == pages
        assert sorted(written.scan(Page), key=lambda page: page.page_id) == pages
        assert list(written.query(Page.primary(page_id="2"))) == pages[2:3]
        stored = {raw.attributes["page_id"]: raw.attributes["body"] for raw in all_of(written)}
        assert stored == {"0": "", "1": "short", "2": gzip.compress(LONG.encode(), 6, mtime=0), "3": "0"}

    @needs("conditions", "updates")
    def test_updates_and_conditions(self, written: Store) -> None:
        written.put(Page(page_id="p"))
        changed = written.update(KEY, set_(Page.body, LONG), when=missing(Page.image), returning="new")
        assert changed.body == LONG
        written.update(KEY, set_(Page.image, b"x"), when=Page.image == None)  # noqa: E711
        assert written.get(KEY) == Page(page_id="p", body=LONG, image=b"x")
        for use in (
            lambda: written.update(KEY, set_(Page.body, ""), when=Page.body == LONG),
            lambda: written.count(select(Page).where(Page.page_id == "p", Page.parts == [])),
        ):
            with pytest.raises(BadValue, match="compressed"):
                use()

    def test_a_damaged_value_makes_the_item_invalid(self, written: Store) -> None:
        written.put(Page(page_id="p", body=LONG))
        (raw,) = written.scan_page().items
        damaged = {**raw.attributes, "body": raw.attributes["body"][:-9]}
        written.put_raw([type(raw)(raw.entity, damaged, raw.partition, raw.sort)])
        for read in (
            lambda: written.get(KEY),
            lambda: list(written.scan()),
            lambda: written.get(KEY, only=[Page.body]),
        ):
            with pytest.raises(ItemInvalid, match="body: the compressed value cannot be read: it is cut off"):
                read()
