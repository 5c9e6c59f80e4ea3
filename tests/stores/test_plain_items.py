"""A backend may answer with items as plain dicts; what a read returns can be saved then too."""

from collections.abc import Callable
from typing import Any

import pytest

from odm import Entity, PrimaryKey, Store, Table
from odm.backends.local import Memory
from odm.immutable import evolve
from odm.protocol.connection import Backend, Connection, ForwardingConnection, NativeGen
from odm.protocol.requests import Page, Request
from odm.schema.model import Schema

shelf = Table("shelf")


class Book(Entity, table=shelf):
    shelf_id: str
    title: str
    tags: list[str] = []
    notes: dict[str, list[int]] = {}

    primary = PrimaryKey("SHELF#{shelf_id}", "{title}")


class Plain(Backend):
    """A `Memory` whose items are dicts, the same ones at each read."""

    name = "plain"

    def __init__(self) -> None:
        self._memory = Memory()

    def connect(self, schema: Schema) -> Connection[Any]:
        return PlainConnection(self._memory.connect(schema), {})


class PlainConnection(ForwardingConnection[Any]):
    stored: dict[str, dict[str, Any]]

    def steps(self, request: Request) -> NativeGen[Any, Any]:
        answer = yield from self.inner.steps(request)
        if isinstance(answer, Page):
            return evolve(answer, items=[self._plain(item) for item in answer.items])
        if isinstance(answer, tuple):
            return tuple(self._plain(item) if hasattr(item, "load") else item for item in answer)
        return self._plain(answer) if hasattr(answer, "load") else answer

    def answer(self, request: Request) -> Any:
        steps = self.steps(request)
        try:
            native = next(steps)
            while True:
                native = steps.send(self.call(native))
        except StopIteration as end:
            return end.value

    def _plain(self, item: Any) -> dict[str, Any]:
        return self.stored.setdefault(repr(item), dict(item))


KEY = Book.primary(shelf_id="s", title="t")
READS: dict[str, Callable[[Store], Any]] = {
    "get": lambda db: db.get(KEY),
    "get_many": lambda db: db.get_many([KEY])[0],
    "query": lambda db: next(iter(db.query(Book.primary(shelf_id="s")))),
    "page": lambda db: db.page(Book.primary(shelf_id="s")).items[0],
    "first": lambda db: db.first(Book.primary(shelf_id="s")),
    "scan": lambda db: next(iter(db.scan(Book))),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_a_read_returns_is_saved(read: Callable[[Store], Any]) -> None:
    db = Store(shelf, Plain())
    db.create()
    db.put(Book(shelf_id="s", title="t", tags=["a"], notes={"x": [1]}))
    book = read(db)
    book.tags.append("b")
    book.notes["x"].append(2)
    assert db.save(book).tags == ["a", "b"]
    assert db.one(KEY) == Book(shelf_id="s", title="t", tags=["a", "b"], notes={"x": [1, 2]})
