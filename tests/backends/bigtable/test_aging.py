"""Items that Bigtable deletes by their age: a write writes every cell of the item again, so that none is older."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import pytest
from attrs import frozen

from odm import AccessPattern, Columns, Entity, MaxAge, PrimaryKey, Store, Stored, Table, add_to, remove, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import CheckAndMutateRow, ReadRows
from odm.backends.bigtable.client.native_admin import ColumnFamily, ModifyFamilies
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.driver import BigtableConnection
from odm.backends.bigtable.index.repair import drop_index
from odm.protocol.connection import Connection, run
from odm.schema.model import Schema

talk = Table(f"t{uuid.uuid4().hex[:16]}")


class Comment(Entity, table=talk, family="comments", gc=MaxAge(days=90)):
    id: str
    text: str = ""
    mood: str = "calm"
    note: Annotated[str, Stored("n", family="notes", gc=MaxAge(days=7))] = ""
    tags: Annotated[set[str], Columns] = set()

    primary = PrimaryKey("COMMENT#{id}")
    by_mood = AccessPattern("MOOD#{mood}", "{id}")


class Author(Entity, table=talk):
    id: str
    text: str = ""

    primary = PrimaryKey("AUTHOR#{id}")


RULE = MaxAge(days=1)


def songs(layout: Literal["row_per_item", "row_per_partition"]) -> tuple[Table, Any]:
    """A table of the lines of songs, and the class of the lines."""
    table = Table(f"w{uuid.uuid4().hex[:16]}", layout=layout)

    class Line(Entity, table=table, family="lines", gc=RULE):
        song: str
        number: int
        text: str = "la"
        mood: str = ""

        primary = PrimaryKey("SONG#{song}", "LINE#{number}")
        by_text = AccessPattern("TEXT#{text}", "{song}#{number}")

    return table, Line


KEY = Comment.primary(id="c")
OLD = 1_600_000_000_000_000


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator)


@pytest.fixture
def send(backend: Bigtable) -> Iterator[Callable[[Any], Any]]:
    """Sends a native request."""
    connection = backend.connect(talk.compile())
    yield connection.call
    connection.close()


@frozen
class LongAgo(Bigtable):
    """Writes cells with an old timestamp."""

    def connect(self, schema: Schema) -> Connection[Any]:
        return BigtableConnection(self, schema, now=lambda: OLD)


@pytest.fixture
def written(backend: Bigtable) -> Iterator[Store]:
    """A store with a comment that was written long ago."""
    with Store(talk, LongAgo("project", "instance", endpoint=backend.endpoint)) as past:
        past.create()
        past.put(Comment(id="c", text="a", note="b", tags={"x", "y"}))
    with Store(talk, backend) as store:
        yield store
        store.drop()


UPDATES: dict[str, tuple[Any, ...]] = {
    "one attribute": (set_(Comment.text, "new"),),
    "a key of an index": (set_(Comment.mood, "cross"),),
    "a removal": (remove(Comment.text),),
    "a member": (add_to(Comment.tags, "z"),),
    "an attribute of another family": (set_(Comment.note, "new"),),
}


def ages(send: Callable[[Any], Any]) -> dict[str, bool]:
    """By column, whether the cell is old."""
    (row,) = send(ReadRows(talk.name, keys=("COMMENT#c",), filter=Newest())).rows
    return {cell.qualifier.decode(): cell.timestamp == OLD for cell in row.cells}


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_writes_every_cell_again(update: str, written: Store, send: Callable[[Any], Any]) -> None:
    assert all(ages(send).values())
    written.update(KEY, *UPDATES[update])
    found = ages(send)
    assert {"_t", "~r", "_ix", "id", "mood", "tags", "tags#x", "n"} <= found.keys()
    assert [column for column, old in found.items() if old] == ([] if "another family" in update else ["n"])


def test_dropping_an_index_writes_every_cell_again(
    written: Store, send: Callable[[Any], Any], backend: Bigtable
) -> None:
    run(drop_index(talk.compile(), f"{talk.name}.by_mood", Retry()), send)
    found = ages(send)
    assert "_ix" not in found
    assert [column for column, old in found.items() if old] == ["n"]


def test_an_update_of_other_entities_needs_no_read(written: Store) -> None:
    assert isinstance(written.explain(Author.primary(id="a"), set_(Author.text, "x")).native, CheckAndMutateRow)
    assert isinstance(written.explain(KEY, set_(Comment.text, "x")).native, ReadRows)


@pytest.mark.parametrize("layout", ["row_per_item", "row_per_partition"])
def test_an_item_is_deleted_as_a_whole_some_time_after_its_last_write(
    layout: Any, backend: Bigtable, send: Callable[[Any], Any]
) -> None:
    table, line = songs(layout)
    first, second = (line.primary(song="s", number=number) for number in (1, 2))
    with Store(table, LongAgo("project", "instance", endpoint=backend.endpoint)) as past:
        past.create()
        past.put(line(song="s", number=1))
        past.put(line(song="s", number=2))
    with Store(table, backend) as store:
        store.update(second, set_(line.mood, "calm"))
        # The emulator applies rules only after a change of the families, and then about every second.
        send(ModifyFamilies(table.name, update={"lines": ColumnFamily(RULE)}))
        until = time.monotonic() + 10
        while store.exists(first) and time.monotonic() < until:
            time.sleep(0.1)
        assert not store.exists(first)
        assert store.one(second) == line(song="s", number=2, mood="calm")
        assert [line.number for line in store.query(line.by_text(text="la"))] == [2]
        store.insert(line(song="s", number=1))
        store.drop()
