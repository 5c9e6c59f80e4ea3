"""Writes with large values, stopped after every step, and with a second writer between any two steps."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Annotated, Any

import fsspec
import pytest

from odm import (
    BackendError,
    Blob,
    Conflict,
    Entity,
    ItemExists,
    LazyBytes,
    OdmError,
    PrimaryKey,
    Store,
    Table,
    TransactionFailed,
    remove,
    set_,
    upgrade,
)
from odm.backends.local import Memory
from odm.extend import Calls
from odm.protocol.connection import CoreGen, perform, run
from odm.protocol.requests import Failed, Gather, Put
from odm.stores.blobs import MARKER
from tests.effort import full

papers = Table("papers")
A, B, C = b"a" * 20, b"b" * 20, b"c" * 20


class Paper(Entity, table=papers):
    name: str
    title: str = ""
    text: Annotated[LazyBytes | None, Blob(over=10)] = None
    figure: Annotated[LazyBytes | None, Blob(over=10)] = None

    primary = PrimaryKey("PAPER#{name}")


class Note(Entity, table=papers):
    name: str
    text: Annotated[bytes, Blob(over=10)]

    primary = PrimaryKey("NOTE#{name}")


KEY, OTHER = Paper.primary(name="p"), Paper.primary(name="q")
_PLACES = count()


class Stopped(Exception):
    """The program was stopped here."""


def paper(text: bytes | None, figure: bytes | None = None, name: str = "p") -> Paper:
    return Paper.model_validate({"name": name, "text": text, "figure": figure})


def put_unchanged(do: Calls) -> CoreGen[object]:
    found = yield from do.one(KEY)
    return (yield from do.put(found.model_copy(update={"title": "new"})))


def transact(do: Calls) -> CoreGen[object]:
    tx = do.transaction()
    tx.put(paper(B))
    tx.update(OTHER, set_(Paper.figure, LazyBytes(C)), upsert=False)
    yield from tx.commit()
    return None


def batch(do: Calls) -> CoreGen[object]:
    found = do.batch()
    found.put(paper(C))
    found.delete(OTHER)
    yield from found.send()
    return None


Write = Callable[[Calls], CoreGen[object]]

WRITES: dict[str, Write] = {
    "put": lambda do: do.put(paper(B, C)),
    "put short": lambda do: do.put(paper(b"short")),
    "put unchanged": put_unchanged,
    "insert": lambda do: do.insert(paper(B)),
    "update": lambda do: do.update(KEY, set_(Paper.text, LazyBytes(B)), set_(Paper.title, "t")),
    "update other field": lambda do: do.update(KEY, set_(Paper.title, "t")),
    "remove": lambda do: do.update(KEY, remove(Paper.figure)),
    "upsert": lambda do: do.update(KEY, set_(Paper.text, LazyBytes(C)), upsert=True),
    "delete": lambda do: do.delete(KEY),
    "delete all": lambda do: do.delete_all(KEY),
    "transaction": transact,
    "batch": batch,
}
SECOND = ("put", "put short", "update", "remove", "delete", "batch")


class World:
    """A table in memory with its blobs, and the first and second writer."""

    def __init__(self) -> None:
        self.place = f"memory://blobs-{next(_PLACES)}"
        self.db = Store(papers, Memory(), blobs=self.place)
        self.db.create()
        self.db.put(paper(A, A))
        self.db.put(paper(A, name="q"))
        self.steps = 0

    def blobs(self) -> dict[str, bytes]:
        fs, path = fsspec.core.url_to_fs(self.place)
        found = {str(one).rpartition("/")[2]: one for one in fs.find(path)}
        return {name: fs.cat_file(one) for name, one in found.items() if name != MARKER}

    def check(self) -> set[str]:
        """Every item's blob is there with its content; returns the blobs that no item refers to."""
        there, known = self.blobs(), set[str]()
        for item in self.db.scan_page().items:
            for value in item.attributes.values():
                if isinstance(value, dict):
                    data = there[value["blob"]]
                    assert (len(data), sha256(data).hexdigest()) == (value["size"], value["sha256"])
                    known.add(value["blob"])
        return there.keys() - known

    def send(self, request: Any, before: Callable[[], None]) -> Any:
        """Answer a request; each part of one to several is a step of its own."""
        if isinstance(request, Gather):
            return tuple(
                self._kept(one, before) if request.keep else self.send(one, before) for one in request.requests
            )
        before()
        self.steps += 1
        answer = perform(self.db._session.connection, request)
        self.check()
        return answer

    def _kept(self, request: Any, before: Callable[[], None]) -> Any:
        try:
            return self.send(request, before)
        except OdmError as error:
            return Failed(error)

    def write(self, name: str, before: Callable[[], None]) -> OdmError | None:
        try:
            run(WRITES[name](self.db._current_calls()), partial(self.send, before=before))
        except OdmError as error:
            return error
        return None


def stopping(world: World, after: int) -> Callable[[], None]:
    def before() -> None:
        if world.steps == after:
            raise Stopped

    return before


def stops(name: str) -> Iterator[World]:
    """The worlds in which a write was stopped after each of its steps; the last one is complete."""
    for after in count():
        world = World()
        try:
            world.write(name, stopping(world, after))
        except Stopped:
            yield world
        else:
            yield world
            return


@pytest.mark.parametrize("name", WRITES)
def test_stopped_after_every_step(name: str) -> None:
    orphans = set[str]()
    for world in stops(name):
        orphans = world.check()
        found = world.db.sweep(grace=0, force=True)
        assert set(found.orphans) == orphans
        assert world.db.sweep(grace=0, force=True, remove=True, remove_most=True).removed == len(orphans)
        assert world.check() == set()
    assert orphans == set() or name == "batch"  # a complete write leaves none, except a batch, which does not read


@pytest.mark.parametrize("second", SECOND if full() else ("put", "put short", "delete"))
@pytest.mark.parametrize("name", WRITES)
def test_with_a_second_writer_between_any_two_steps(name: str, second: str) -> None:
    for at in count():
        world = World()

        def between(world: World = world, at: int = at) -> None:
            if world.steps == at:
                world.steps += 1
                with suppress(OdmError):  # of the second writer only, such as of an update of an item that is gone
                    run(WRITES[second](world.db._current_calls()), partial(perform, world.db._session.connection))

        failed = world.write(name, between)
        assert failed is None or isinstance(failed, OdmError)
        orphans = world.check()
        assert set(world.db.sweep(grace=0, force=True).orphans) == orphans
        # Only a batch, which does not read what it replaces, leaves blobs.
        assert orphans == set() or "batch" in (name, second)
        if world.steps <= at:
            return


def test_a_blob_of_an_older_version_that_is_replaced_meanwhile_is_removed() -> None:
    """The older model keeps the pointer under another name, so the whole item must be unchanged."""
    old_letters, letters = Table("letters"), Table("letters")

    class OldLetter(Entity, table=old_letters, tag="Letter"):
        name: str
        body: Annotated[LazyBytes, Blob(over=10)]

        primary = PrimaryKey("LETTER#{name}")

    class Letter(Entity, table=letters, version=2):
        name: str
        text: Annotated[LazyBytes, Blob(over=10)]

        primary = PrimaryKey("LETTER#{name}")

        @upgrade(from_=1)
        @staticmethod
        def rename(item: dict[str, Any]) -> dict[str, Any]:
            return {**item, "text": item.pop("body")}

    place = f"memory://blobs-{next(_PLACES)}"
    backend = Memory()
    old, new = Store(old_letters, backend, blobs=place), Store(letters, backend, blobs=place)
    old.create()
    old.put(OldLetter(name="l", body=LazyBytes(A)))
    read = False

    def send(request: object) -> Any:
        nonlocal read
        answer = perform(new._session.connection, request)  # type: ignore[arg-type]
        if not read:
            read = True
            old.put(OldLetter(name="l", body=LazyBytes(B)))
        return answer

    run(new._current_calls().put(Letter(name="l", text=LazyBytes(C))), send)
    assert new.one(Letter, name="l").text.read() == C
    assert new.sweep(grace=0, force=True).orphans == ()


def test_a_reader_gets_the_old_value_or_the_new_one() -> None:
    for at in range(4):
        db = Store(papers, Memory(), blobs=f"memory://blobs-{next(_PLACES)}")
        db.create()
        db.put(Note(name="n", text=A))
        steps = 0

        def send(request: object, db: Store = db, at: int = at) -> Any:
            nonlocal steps
            if steps == at:
                db.put(Note(name="n", text=B))
            steps += 1
            return perform(db._session.connection, request)  # type: ignore[arg-type]

        found = run(db._current_calls().get(Note, name="n"), send)
        assert found in ([Note(name="n", text=A), Note(name="n", text=B)] if at > 1 else [Note(name="n", text=B)])


def test_what_an_unknown_outcome_uploaded_stays() -> None:
    world = World()

    def lose() -> None:
        if world.steps == 3:  # the read and two uploads
            raise ConnectionError

    with pytest.raises(ConnectionError):
        world.write("put", lose)
    assert len(world.check()) == 2


def test_a_failed_upload_removes_the_others() -> None:
    world = World()

    def lose() -> None:
        if world.steps == 2:  # the read and the first upload
            world.steps += 1
            raise BackendError("the service is away")

    assert isinstance(world.write("put", lose), BackendError)
    assert world.check() == set()
    assert sorted(world.blobs().values()) == [A, A, A]


def test_a_transaction_that_fails_removes_what_it_uploaded() -> None:
    world = World()
    world.db.delete(OTHER)
    failed = world.write("transaction", lambda: None)
    assert isinstance(failed, TransactionFailed)
    assert world.check() == set()
    assert sorted(world.blobs().values()) == [A, A]


def test_a_blob_that_was_replaced_is_not_kept() -> None:
    world = World()
    found = world.db.one(KEY)
    world.db.update(KEY, set_(Paper.text, LazyBytes(B)))
    with pytest.raises(Conflict, match="not that of the stored item"):
        world.db.put(found)
    with pytest.raises(TransactionFailed, match="not that of the stored item"), world.db.transaction() as tx:
        tx.put(found)
    assert world.check() == set()


@pytest.mark.parametrize("name", ["insert", "put", "upsert"])
def test_a_write_that_is_sent_again_after_a_lost_answer_keeps_its_blob(name: str) -> None:
    world = World()
    world.db.delete(KEY)

    def twice(request: Any) -> Any:
        answer = perform(world.db._session.connection, request)
        return perform(world.db._session.connection, request) if isinstance(request, Put) else answer

    with suppress(ItemExists):  # the first answer was lost, and the second one says so
        run(WRITES[name](world.db._current_calls()), twice)
    assert world.check() == set()
    found = world.db.one(KEY)
    assert found.text is not None
    assert found.text.read() in (B, C)
