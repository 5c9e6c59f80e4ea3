"""`Versioned`: invalid declarations, the fields of versions, and concurrent writers."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import new_class
from typing import Annotated, Any, Literal
from uuid import uuid4

import boto3
import pytest
from pydantic import BaseModel, ConfigDict, Field

from odm import (
    TTL,
    AccessPattern,
    AsyncStore,
    Backend,
    Conflict,
    Counter,
    Entity,
    ItemExists,
    OutcomeUnknown,
    PrimaryKey,
    Revision,
    SchemaError,
    Store,
    Stored,
    Table,
    increment,
    set_,
    upgrade,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.extend import Calls, Gen, procedure
from odm.patterns.versioned import Versioned
from odm.testing.suite.versioned import Paper, window
from tests.patterns.interleaving import OneByOne


def declared(history: Versioned, **fields: Any) -> Table:
    """A table with an entity that has this history, and some invalid fields."""
    table = Table("docs")
    body = {
        "__module__": __name__,
        "__annotations__": {"doc_id": str, "version": Annotated[int, Revision], **fields},
        "version": 0,
        "primary": PrimaryKey("DOC#{doc_id}", "v0"),
        "history": history,
    }
    new_class("Doc", (Entity,), {"table": table}, lambda names: names.update(body))
    return table


@pytest.mark.parametrize(
    ("history", "fields", "wrong"),
    [
        (Versioned("DOC#{doc_id}", "v{version}"), {"version": int}, "add version: "),
        (Versioned("DOC#{doc_id}", "v{version}"), {"ends": Annotated[datetime, TTL]}, "TTL"),
        (Versioned("DOC#{doc_id}", "v{version}"), {"life_": str}, "rename"),
        (Versioned("DOC#{doc_id}", "v{version}", keep=0), {}, "keep="),
        (Versioned("DOC#{doc_id}", "v{version}", keep=True), {}, "keep="),
        (Versioned("DOC#{doc_id}", "v"), {}, r"\{version\} last"),
        (Versioned("DOC", "v{version}"), {}, "with doc_id"),
        (Versioned("DOC#{doc_id}", "v{version}#{doc_id}"), {}, "last"),
        (Versioned("DOC#{doc_id}", "{title}#{version}"), {"title": str}, "with doc_id"),
        (Versioned("DOC#{doc_id}#{version}", "v{version}"), {}, "last"),
        (Versioned("DOC#{nobody}", "v{version}"), {}, "with doc_id"),
        (Versioned("DOC#{doc_id}", "{version:4}"), {}, "version"),
    ],
    ids=range(12),
)
def test_invalid_versions_are_refused_when_the_table_compiles(
    history: Versioned, fields: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(SchemaError, match=wrong):
        declared(history, **fields).compile()


def test_a_version_cannot_have_the_key_of_its_item() -> None:
    declared(Versioned("DOC#{doc_id}", "v{version}")).compile()

    class Doc(Entity, table=Table("docs")):
        doc_id: str
        version: Annotated[int, Revision] = 0

        primary = PrimaryKey("DOC#{doc_id}", "va0")
        history = Versioned("DOC#{doc_id}", "v{version}")

    with pytest.raises(SchemaError, match="can have the same key"):
        Doc.history(doc_id="d")


def test_they_print() -> None:
    assert repr(Versioned("D#{a}", "{b}")) == 'Versioned("D#{a}", "{b}")'
    assert repr(Versioned("D#{a}", "{b}", keep=2)) == 'Versioned("D#{a}", "{b}", keep=2)'
    assert repr(Paper.history) == "Paper.history"
    assert repr(Paper.history.version(3, paper_id="p")) == "Paper.history.version(3, paper_id='p')"
    assert repr(Paper.history.compare(1, 2, paper_id="p")) == "Paper.history.compare(1, 2, paper_id='p')"
    assert repr(Paper.history.revert(to=3, paper_id="p")) == "Paper.history.revert(to=3, paper_id='p')"


def test_an_abstract_base_has_no_versions() -> None:
    class Base(Entity):
        history = Versioned("DOC#{doc_id}", "v{version}")

    with pytest.raises(SchemaError, match="Base has no versions: declare"):
        Base.history(doc_id="d")


class Kind(StrEnum):
    """An Enum of text."""

    A = "a"


class Cat(BaseModel):
    """One member of a union."""

    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    """The other member of the union."""

    kind: Literal["dog"] = "dog"


library = Table("library")


class Numbered(Entity):
    """The common base of entities with versions."""

    name: str
    version: Annotated[int, Revision, Stored("v")] = 0


class Book(Numbered, table=library, version=2):
    """An entity with many features of a model."""

    model_config = ConfigDict(use_enum_values=True, frozen=True)

    title: str = Field("none", alias="Title", max_length=9)
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(default_factory=list)
    kind: Kind = Kind.A
    read: Annotated[int, Counter] = 0
    seen: datetime | None = None

    primary = PrimaryKey("BOOK#{name}")
    by_title = AccessPattern("TITLE#{title}")
    history = Versioned("BOOK#{name}", "{version:desc}")

    @upgrade(from_=1)
    @staticmethod
    def _upgrade(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "title": item["title"].upper()}


class Film(Numbered, table=library):
    """Another entity with the same base."""

    primary = PrimaryKey("FILM#{name}")
    history = Versioned("FILM#{name}", "{version}", keep=1)


def test_versions_have_what_their_entity_has() -> None:
    with Store(library, Memory()) as db:
        db.create()
        first = db.put(
            Book(name="b", Title="One", pets=[Cat(), Dog()], kind=Kind.A, seen=datetime(2024, 1, 1, tzinfo=UTC))
        )
        second = db.update(first, increment(Book.read, 2), set_(Book.title, "Two"), returning="new")
        found = [db.get(Book.history.version(number, name="b")) for number in (1, 2)]
        assert found == [first, second]
        assert [type(one.kind) for one in found if one] == [str, str]
        assert [one.version for one in db.query(Book.history(name="b"))] == [2, 1]
        assert db.count(Book.by_title(title="One")) == 0
        assert db.run(Book.history.compare(1, 2, name="b")) == {"title": ("One", "Two"), "read": (0, 2)}
        stored = {raw.sort: raw.attributes for raw in db.scan_page().items}
        assert {name: item["_v"] for name, item in stored.items()} == dict.fromkeys(stored, 2)
        assert all("v" in item and "version" not in item for item in stored.values())


def test_versions_are_upgraded_with_their_entity() -> None:
    older = Table("library")

    class OldBook(Entity, table=older, tag="Book"):
        name: str
        title: str
        version: Annotated[int, Revision, Stored("v")] = 0

        primary = PrimaryKey("BOOK#{name}", "Book")
        history = Versioned("BOOK#{name}", "{version:desc}")

    backend = Memory()
    with Store(older, backend) as before, Store(library, backend) as db:
        before.create()
        db.create()
        before.put(before.put(OldBook(name="b", title="one")))
        assert [book.title for book in db.query(Book.history(name="b"))] == ["ONE", "ONE"]
        db.update(Book.primary(name="b"), set_(Book.title, "Two"))
        assert db.run(Book.history.compare(2, 3, name="b")) == {"title": ("ONE", "Two")}


def test_one_version_may_be_kept() -> None:
    with Store(library, Memory()) as db:
        db.create()
        film = db.put(Film(name="f"))
        for number in range(2, 5):
            film = db.put(film)
            assert [one.version for one in db.query(Film.history(name="f"))] == [number]


@pytest.mark.parametrize("backend", [Memory(), OneByOne(Memory())], ids=["together", "apart"])
def test_an_item_from_before_the_revision_is_kept_like_any_version(backend: Backend) -> None:
    older, newer = Table("notes"), Table("notes")

    class OldNote(Entity, table=older, tag="Note"):
        name: str
        primary = PrimaryKey("NOTE#{name}", "now")

    class Note(Entity, table=newer):
        name: str
        text: str = ""
        version: Annotated[int, Revision] = 0
        primary = PrimaryKey("NOTE#{name}", "now")
        history = Versioned("NOTE#{name}", "v{version}", keep=2)

    with Store(older, backend) as before, Store(newer, backend) as db:
        before.create()
        db.create()
        before.put(OldNote(name="n"))
        for kept in ([0, 1], [1, 2], [2, 3]):
            db.update(Note.primary(name="n"), set_(Note.text, f"of {kept}"))
            assert [one.version for one in db.query(Note.history(name="n"))] == kept


def test_a_lost_answer_of_a_transaction_of_one_raises_outcome_unknown() -> None:
    class Lost(Versioned):
        def without_transaction(self, do: Calls, effect: Any, commit: Any) -> Gen[None]:
            yield from super().without_transaction(do, effect, commit)
            raise OutcomeUnknown("by the test")

    table = declared(Lost("DOC#{doc_id}", "v{version}"))
    doc: Any = next(entity.cls for entity in table.compile().entities.values() if entity.companions)
    with Store(table, OneByOne(Memory())) as db:
        db.create()
        with pytest.raises(OutcomeUnknown), db.transaction() as tx:
            tx.put(doc(doc_id="d"))
        assert db.one(doc, doc_id="d").version == 1


THREADS, TIMES, KEPT = 8, 6, 40
notes = Table("notes")


class Note(Entity, table=notes):
    """A note of which most versions are kept."""

    note_id: str
    text: str
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("NOTE#{note_id}", "v0")
    history = Versioned("NOTE#{note_id}", "v{version}", keep=KEPT)


@procedure
def add(do: Calls, note_id: str, text: str) -> Gen[Note]:
    """Put another version; retries until it succeeds."""
    while True:
        note = yield from do.get(Note, note_id=note_id)
        new = Note(note_id=note_id, text=text) if note is None else note.model_copy(update={"text": text})
        try:
            return (yield from do.put(new))
        except (Conflict, ItemExists):
            continue


def in_threads(backend: Backend) -> None:
    """Every thread puts; each version is stored once, under the number that its writer received."""
    with Store(notes, backend) as db:
        db.create()
        note_id = uuid4().hex  # the services keep items of earlier tests

        def work(thread: int) -> list[Note]:
            return [db.run(add(note_id, f"{thread}.{time}")) for time in range(TIMES)]

        with ThreadPoolExecutor(THREADS) as pool:
            put = [note for some in pool.map(work, range(THREADS)) for note in some]
        check(put, list(db.query(Note.history(note_id=note_id))), db.one(Note, note_id=note_id))


def check(put: list[Note], kept: list[Note], newest: Note) -> None:
    """Check that the stored versions are those that were acknowledged."""
    total = THREADS * TIMES
    assert len({note.text for note in put}) == total
    assert sorted(note.version for note in put) == [*range(1, total + 1)]
    assert [note.version for note in kept] == [*window(total, KEPT)]
    assert len(kept) == KEPT
    by_number = {note.version: note.text for note in put}
    assert [note.text for note in kept] == [by_number[number] for number in window(total, KEPT)]
    assert newest.text == by_number[total]


def test_threads_lose_no_version_in_memory() -> None:
    in_threads(Memory())


def test_threads_lose_no_version_in_a_file(tmp_path: Path) -> None:
    in_threads(LocalFile(tmp_path / "notes.db"))


def test_threads_lose_no_version_on_dynamodb_local(dynamodb_local: str) -> None:
    session = boto3.Session(aws_access_key_id="race", aws_secret_access_key="secret", region_name="eu-west-1")
    in_threads(DynamoDB(session, endpoint_url=dynamodb_local))


def test_threads_lose_no_version_on_bigtable(bigtable_emulator: str) -> None:
    in_threads(Bigtable("race", "instance", endpoint=bigtable_emulator))


async def test_tasks_lose_no_version_on_bigtable(bigtable_emulator: str) -> None:
    async with AsyncStore(notes, Bigtable("race-async", "instance", endpoint=bigtable_emulator)) as db:
        await db.create()

        async def work(task: int) -> list[Note]:
            return [await db.run(add("p", f"{task}.{time}")) for time in range(TIMES)]

        put = [note for some in await asyncio.gather(*map(work, range(THREADS))) for note in some]
        check(put, [note async for note in db.query(Note.history(note_id="p"))], await db.one(Note, note_id="p"))


def test_deletes_next_to_writers_leave_no_versions(bigtable_emulator: str) -> None:
    with Store(notes, Bigtable("race-delete", "instance", endpoint=bigtable_emulator)) as db:
        db.create()

        def work(thread: int) -> None:
            for time in range(TIMES):
                if thread < 2:
                    db.delete(Note, note_id="p")
                else:
                    db.run(add("p", f"{thread}.{time}"))

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        newest = db.get(Note, note_id="p")
        kept = [note.version for note in db.query(Note.history(note_id="p"))]
        assert kept == ([] if newest is None else [*window(newest.version, KEPT)])
        db.delete(Note, note_id="p")
        assert list(db.scan()) == []
