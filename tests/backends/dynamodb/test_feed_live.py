"""The stream of a table on moto, DynamoDB Local and Dynoxide as a change feed, sync and async."""

import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import AsyncStore, Entity, ItemInvalid, PrimaryKey, Store, Table, Unsupported
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.streams import decode_all
from odm.changes import Change, Changed, Changes, ChangeShard, Inserted, Removed
from odm.extend import Calls, Gen, procedure
from odm.testing.bridge import blocking

pytestmark = pytest.mark.slow

notes = Table("notes")


class Note(Entity, table=notes):
    box: str
    number: int
    text: str = ""

    primary = PrimaryKey("BOX#{box}", "NOTE#{number}")


@procedure
def shards_of(do: Calls) -> Gen[Sequence[ChangeShard]]:
    return (yield from do.change_shards())


@procedure
def page_of(do: Calls, shard: str, after: str | None, size: int) -> Gen[Changes]:
    return (yield from do.changes(shard, after, size=size))


@pytest.fixture(params=["endpoint", "dynamodb_local", "dynoxide"])
def served(request: pytest.FixtureRequest) -> str:
    """The endpoint of a server with streams; the first is moto's."""
    return str(request.getfixturevalue(request.param))


class Place:
    """A new table with a stream, and stores of it."""

    def __init__(self, endpoint: str, runner: asyncio.Runner | None) -> None:
        self.session = boto3.Session(uuid.uuid4().hex, "secret", region_name="eu-west-1")
        self.endpoint = endpoint
        self.prefix = f"{uuid.uuid4()}-"
        self._runner = runner
        self._opened: list[Store] = []

    def open(self, **options: Any) -> Store:
        """A store, as another process would open it."""
        backend = DynamoDB(self.session, endpoint_url=self.endpoint, stream="new_and_old_images")
        if self._runner is None:
            store = Store(notes, backend, prefix=self.prefix, **options)
        else:
            store = blocking(AsyncStore(notes, backend, prefix=self.prefix, **options), self._runner)
        self._opened.append(store)
        return store

    def close(self) -> None:
        self._opened[0].drop()
        for store in self._opened:
            store.close()


@pytest.fixture(params=["sync", "async"])
def place(request: pytest.FixtureRequest, served: str) -> Iterator[Place]:
    with asyncio.Runner() as runner:
        place = Place(served, None if request.param == "sync" else runner)
        place.open().create()
        yield place
        place.close()


def applied(content: Mapping[Any, Note], changes: Sequence[Change[Any]]) -> dict[Any, Note]:
    """The content of a table after changes, each of which must fit the content before it."""
    after = dict(content)
    for change in changes:
        assert after.get(change.key) == change.old
        assert isinstance(change, Changed if change.old and change.new else Inserted if change.new else Removed)
        after.pop(change.key, None)
        if change.new is not None:
            after[change.key] = change.new
    return after


WRITES = st.lists(
    st.tuples(st.sampled_from(["put", "put", "delete", "batch"]), st.integers(0, 3), st.sampled_from("xyz")),
    max_size=8,
)


@pytest.mark.one_of(3)
def test_the_changes_of_a_stream_give_the_content_of_its_table(place: Place) -> None:
    db = place.open()
    [shard] = db.run(shards_of())
    content: dict[Any, Note] = {}
    position: str | None = None
    reader = place.open()
    orders: dict[Any, str] = {}

    @given(writes=WRITES, size=st.integers(1, 5), restart=st.booleans())
    @settings(max_examples=15, deadline=None)
    def check(writes: Sequence[tuple[str, int, str]], size: int, restart: bool) -> None:
        nonlocal content, position, reader
        for what, number, text in writes:
            note = Note(box="a", number=number, text=text)
            if what == "put":
                db.put(note)
            elif what == "delete":
                db.delete(note)
            else:
                with db.batch() as batch:
                    batch.put(note)
                    batch.put(Note(box="b", number=number, text=text))
        if restart:
            reader = place.open()
        while True:
            page = reader.run(page_of(shard.id, position, size))
            assert len(page.items) <= size
            content = applied(content, [change for change, _ in page.items])
            for change, _ in page.items:
                assert change.order > orders.get(change.key, "")
                orders[change.key] = change.order
            position = page.position
            assert position is not None
            if not page.items:
                break
        stored = [*db.query(Note.primary(box="a")), *db.query(Note.primary(box="b"))]
        assert sorted(content.values(), key=repr) == sorted(stored, key=repr)

    check()
    assert content


def test_items_of_other_programs_are_refused_or_skipped(place: Place) -> None:
    strict, lenient = place.open(), place.open(on_unknown="skip")
    strict.put(Note(box="a", number=1))
    table = place.session.resource("dynamodb", endpoint_url=place.endpoint).Table(f"{place.prefix}notes")
    table.put_item(Item={"pk": "BOX#a", "sk": "OTHER#1", "price": 3})
    strict.put(Note(box="a", number=2))
    [shard] = strict.run(shards_of())
    with pytest.raises(ItemInvalid, match="has no tag"):
        strict.run(page_of(shard.id, None, 10))
    page = lenient.run(page_of(shard.id, None, 10))
    assert [change.new for change, _ in page.items] == [Note(box="a", number=1), Note(box="a", number=2)]
    assert lenient.run(page_of(shard.id, page.position, 10)).items == []


def test_pages_and_lambda_events_have_the_same_changes(place: Place) -> None:
    db = place.open()
    db.put(Note(box="a", number=1))
    db.put(Note(box="a", number=1, text="b"))
    db.delete(Note(box="a", number=1))
    [shard] = db.run(shards_of())
    changes = [change for change, _ in db.run(page_of(shard.id, None, 10)).items]
    assert [type(change) for change in changes] == [Inserted, Changed, Removed]
    event = {"Records": [change.record for change in changes]}
    assert list(decode_all(event, notes, prefix=place.prefix)) == changes


def test_a_store_whose_table_has_no_stream(served: str) -> None:
    session = boto3.Session(uuid.uuid4().hex, "secret", region_name="eu-west-1")
    prefix = f"{uuid.uuid4()}-"
    with Store(notes, DynamoDB(session, endpoint_url=served), prefix=prefix) as db:
        db.create()
        with pytest.raises(Unsupported, match=r"stream='new_and_old_images'"):
            db.run(shards_of())
        with Store(notes, DynamoDB(session, endpoint_url=served, stream="keys_only"), prefix=prefix) as with_stream:
            with_stream.create()
        db.put(Note(box="a", number=1))
        [shard] = db.run(shards_of())
        [(change, _)] = db.run(page_of(shard.id, None, 1)).items
        assert (change.key, change.new, change.entity) == (("BOX#a", "NOTE#a1"), None, None)
        db.drop()
