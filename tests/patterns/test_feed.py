"""Feeds and followers: what is delivered, where a follower continues, and what it makes of shards that split and merge.

Shards are those of a scripted feed, since the bundled engine has one shard. The feeds of clouds have their own tests.
"""

import asyncio
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from threading import Event, Thread
from types import new_class
from typing import Any

import pytest
from attrs import Factory, define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import stream_handler
from odm import (
    AsyncStore,
    BadCursor,
    BadValue,
    Conflict,
    Entity,
    ItemInvalid,
    PrimaryKey,
    Store,
    Table,
    Unsupported,
    set_,
)
from odm.backends.dynamodb import streams
from odm.backends.local import Faults, LocalFile, Memory
from odm.changes import Change, Changed, Inserted, Removed
from odm.immutable import evolve
from odm.patterns.feed import Feed
from odm.patterns.follower import END, AsyncFollower, Follower, Positions, positions
from odm.protocol import requests as req
from odm.protocol.changes import ChangePage, ChangeRecord, ChangeShard
from odm.protocol.connection import Connection, ForwardingConnection
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.effort import times

shelf = Table("shelf")


class Book(Entity, table=shelf):
    name: str
    pages: int = 0

    primary = PrimaryKey("BOOK#{name}")


class Film(Entity, table=shelf):
    name: str

    primary = PrimaryKey("FILM#{name}")


@pytest.fixture
def db() -> Store:
    store = Store(shelf, Memory(changes=True))
    store.create()
    return store


@pytest.fixture
def state() -> Store:
    store = Store(positions, Memory())
    store.create()
    return store


def noted(feed: Feed) -> list[Any]:
    """The items of all changes that the feed delivers to a handler of books."""
    seen: list[Any] = []
    feed.on(Book)(lambda change: seen.append(change.new or change.old))
    return seen


def test_handlers_get_the_changes_of_their_entities(db: Store, state: Store) -> None:
    feed = Feed(shelf)
    books, films = list[Change[Any]](), list[Change[Any]]()
    both, all_ = list[Change[Any]](), list[Change[Any]]()

    @feed.on(Book)
    def _book(change: Change[Book]) -> None:
        books.append(change)

    feed.on(Film)(films.append)
    feed.on(Book, Film)(both.append)
    feed.on()(all_.append)
    old, new = Book(name="a"), Book(name="a", pages=3)
    db.put(old)
    db.put(new)
    db.put(Film(name="f"))
    db.delete(new)
    assert Follower(db, feed, state=state, name="one").drain() == 4
    assert [(type(one), one.old, one.new) for one in books] == [
        (Inserted, None, old),
        (Changed, old, new),
        (Removed, new, None),
    ]
    assert [one.new for one in films] == [Film(name="f")]
    assert both == all_ == [*books[:2], *films, books[2]]


def test_a_change_without_an_item_is_one_of_any_entity() -> None:
    feed, seen = Feed(shelf), list[Any]()
    feed.on(Book)(seen.append)
    change: Removed[Any] = Removed(key=("BOOK#a", ""))
    assert feed.deliver([change]) is None
    assert seen == [change]


def test_delivery_stops_at_the_first_change_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    feed, seen, many = Feed(shelf), list[Any](), list[Any]()

    @feed.on(Book)
    def _each(change: Change[Book]) -> None:
        if change.new == Book(name="2"):
            raise ValueError("two is wrong")
        seen.append(change)

    feed.on_many(Book)(many.append)
    changes = [Inserted(key=("", ""), new=Book(name=str(n))) for n in range(4)]
    assert feed.deliver(changes) == 2
    assert seen == changes[:2]
    assert many == [changes[:2]]
    assert "two is wrong" in caplog.text
    assert feed.deliver(changes[:2]) is None


def test_a_failing_list_begins_again_at_its_first_change() -> None:
    feed = Feed(shelf)

    @feed.on_many(Book)
    def _fail(changes: list[Change[Book]]) -> None:
        raise ValueError

    assert feed.deliver([Inserted(key=("", ""), new=new) for new in (Film(name="f"), Book(name="b"))]) == 1


def test_a_follower_continues_behind_what_was_handled(db: Store, state: Store) -> None:
    feed, seen, wrong = Feed(shelf), [], {"3"}

    @feed.on(Book)
    def _each(change: Inserted[Book]) -> None:
        assert change.new is not None
        if change.new.name in wrong:
            raise ValueError(change.new.name)
        seen.append(change.new.name)

    for n in range(6):
        db.put(Book(name=str(n)))
    follower = Follower(db, feed, state=state, name="one", size=4)
    for _ in range(2):
        with pytest.raises(ValueError, match="3"):
            follower.drain()
        assert seen == ["0", "1", "2"]
    wrong.clear()
    assert Follower(db, feed, state=state, name="one").drain() == 3
    assert seen == list("012345")
    assert Follower(db, feed, state=state, name="two").drain() == 6


def test_of_two_followers_of_a_name_one_is_refused(db: Store, state: Store) -> None:
    feed = Feed(shelf)
    seen = noted(feed)
    first, second = (Follower(db, feed, state=state, name="one") for _ in range(2))
    db.put(Book(name="a"))
    assert (first.poll(), second.poll()) == (1, 0)
    db.put(Book(name="b"))
    assert first.poll() == 1
    with pytest.raises(Conflict):
        second.poll()
    assert second.poll() == 0
    assert [book.name for book in seen] == ["a", "b", "b"]


class Killed(BaseException):
    """The program ends."""


def _kill() -> None:
    raise Killed


def test_it_is_stopped_at_every_request() -> None:
    """Each change is handled, those of an item in order, wherever the program ends."""
    stop = 0
    for stop in count():
        faults = Faults()
        db, state = Store(shelf, Memory(changes=True, faults=faults)), Store(positions, Memory(faults=faults))
        db.create()
        state.create()
        for n in range(3):
            db.put(Book(name="a", pages=n))
            db.put(Book(name=str(n)))
        db.delete(Book, name="a")
        feed = Feed(shelf)
        seen = noted(feed)
        faults.before("any", _kill, after=stop)
        with suppress(Killed):
            Follower(db, feed, state=state, name="one", size=2).drain()
        faults.clear()
        Follower(db, feed, state=state, name="one", size=2).drain()
        pages = [book.pages for book in seen if book.name == "a"]
        assert all(later - earlier <= 1 for earlier, later in pairwise(pages)), "a change was skipped"
        assert (pages[0], pages[-2:]) == (0, [2, 2])
        assert {book.name for book in seen} == {"a", "0", "1", "2"}
        if not faults.happened:
            break
    assert stop > 12


def test_a_lambda_function_calls_the_handlers() -> None:
    feed, names = Feed(stream_handler.library), list[str]()

    @feed.on(stream_handler.Loan)
    def _each(change: Change[stream_handler.Loan]) -> None:
        if change.new is not None and change.new.renewals:
            raise ValueError("renewed")
        names.append(type(change).__name__)

    function = streams.handler(feed)
    renewed = stream_handler.EVENT["Records"][3]["dynamodb"]["SequenceNumber"]
    assert function(stream_handler.EVENT, None) == {"batchItemFailures": [{"itemIdentifier": renewed}]}
    assert names == ["Inserted", "Inserted"]
    assert function({"Records": stream_handler.EVENT["Records"][4:]}, None) == {"batchItemFailures": []}
    assert names == ["Inserted", "Inserted", "Removed"]


def test_async_handlers_are_awaited(db: Store) -> None:
    feed, seen = Feed(shelf), list[Any]()

    @feed.on(Book)
    async def _each(change: Change[Book]) -> None:
        await asyncio.sleep(0)
        seen.append(change.new)

    @feed.on_many(Book)
    async def _many(changes: list[Change[Book]]) -> None:
        await asyncio.sleep(0)
        seen.append(len(changes))

    db.put(Book(name="a"))

    async def follow() -> None:
        state = AsyncStore(positions, Memory())
        await state.create()
        async with AsyncStore(shelf, db.backend) as store:
            follower = AsyncFollower(store, feed, state=state, name="one")
            assert await follower.drain() == 1
            assert await follower.poll() == 0
            with suppress(TimeoutError):
                await asyncio.wait_for(follower.run(idle=0.001), 0.05)

    asyncio.run(follow())
    assert seen == [Book(name="a"), 1]
    assert asyncio.run(feed.adeliver([Inserted(key=("", ""), new=Book(name="b"))])) is None


def test_a_sync_follower_does_not_take_async_handlers(db: Store, state: Store) -> None:
    feed = Feed(shelf)

    @feed.on(Book)
    async def _each(change: Change[Book]) -> None: ...

    db.put(Book(name="a"))
    with pytest.raises(BadValue, match="a function is async, and this call cannot await it"):
        Follower(db, feed, state=state, name="one").poll()


def test_it_runs_until_it_is_stopped(db: Store, state: Store) -> None:
    feed, stop, got = Feed(shelf), Event(), Event()
    feed.on(Book)(lambda _: got.set())
    thread = Thread(target=Follower(db, feed, state=state, name="one").run, args=(stop,), kwargs={"idle": 0.01})
    thread.start()
    db.put(Book(name="a"))
    assert got.wait(20)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()


def test_what_cannot_be_followed_is_refused(db: Store, state: Store) -> None:
    feed, other = Feed(shelf), Table("other")
    with pytest.raises(BadValue, match="pass the Table whose changes to handle"):
        Feed(Book)  # type: ignore[arg-type]
    with pytest.raises(BadValue, match="is not an entity of this table"):
        feed.on(Positions)
    with pytest.raises(BadValue, match="pass the store of its table"):
        Follower(Store(other, Memory()), feed, state=state, name="one")
    with pytest.raises(BadValue, match=r"pass Store\(positions, ...\)"):
        Follower(db, feed, state=db, name="one")
    with pytest.raises(BadValue, match="the number of changes to read at once"):
        Follower(db, feed, state=state, name="one", size=0)
    bare = Store(shelf, Memory())
    bare.create()
    with pytest.raises(Unsupported, match=r"Memory\(changes=True\)"):
        Follower(bare, feed, state=state, name="one").poll()


def _entity(name: str, table: Table) -> Any:
    body = {"__annotations__": {"name": str}, "primary": PrimaryKey(f"{name}#{{name}}")}
    return new_class(name, (Entity,), {"table": table}, lambda space: space.update(body))


def test_items_of_other_programs_are_met_as_by_every_call(state: Store) -> None:
    library, wider = Table("shelf"), Table("shelf")
    known, theirs = _entity("Known", library), _entity("Theirs", wider)
    backend = Memory(changes=True)
    other = Store(wider, backend)
    other.create()
    other.put(theirs(name="a"))
    Store(library, backend).put(known(name="b"))
    feed, seen = Feed(library), list[Any]()
    feed.on()(seen.append)
    with pytest.raises(ItemInvalid, match="Theirs"):
        Follower(Store(library, backend), feed, state=state, name="one").poll()
    assert Follower(Store(library, backend, on_unknown="skip"), feed, state=state, name="one", size=1).drain() == 1
    assert [change.new for change in seen] == [known(name="b")]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_items_that_do_not_fit_count_as_absent_where_they_are_skipped(state: Store, is_async: bool) -> None:
    loose = Table("shelf")
    theirs = new_class("Book", (Entity,), {"table": loose}, lambda body: body.update(_loose_book()))
    backend = Memory(changes=True)
    others, db = Store(loose, backend), Store(shelf, backend)
    others.create()
    others.put(theirs(name="a", pages="many"))  # unfit from the start
    others.put(theirs(name="a", pages=1))  # fixed
    others.put(theirs(name="a", pages="many"))  # broken again
    others.put(theirs(name="a", pages="few"))
    others.delete(theirs, name="a")
    db.put(Book(name="b"))
    feed, seen = Feed(shelf), list[Any]()
    feed.on()(seen.append)
    with pytest.raises(ItemInvalid, match="pages"):
        Follower(db, feed, state=state, name="one").poll()
    errors: list[ItemInvalid] = []
    if is_async:

        async def drained() -> int:
            async with (
                AsyncStore(shelf, backend, on_invalid=errors.append) as source,
                AsyncStore(positions, state.backend) as places,
            ):
                return await AsyncFollower(source, feed, state=places, name="two", size=1).drain()

        assert asyncio.run(drained()) == 3
    else:
        skipping = Store(shelf, backend, on_invalid=errors.append)
        assert Follower(skipping, feed, state=state, name="two", size=1).drain() == 3
    one = Book(name="a", pages=1)
    assert [(type(change), change.old, change.new) for change in seen] == [
        (Inserted, None, one),
        (Removed, one, None),
        (Inserted, None, Book(name="b")),
    ]
    assert [error.item["pages"] for error in errors] == ["many", "many", "many", "many", "few", "few"]


def _loose_book() -> dict[str, Any]:
    return {
        "__annotations__": {"name": str, "pages": Any},
        "primary": PrimaryKey("BOOK#{name}"),
        "__module__": __name__,
    }


@define
class Scripted:
    """A feed of shards that split and merge.

    Attributes:
        shards: the records of each shard.
        parents: the parents of each shard.
        listed: children are listed with their parent, as by DynamoDB; else a shard reports them at its end.
        closed: the shards that have ended.
    """

    shards: dict[str, list[ChangeRecord]]
    parents: dict[str, tuple[str, ...]] = Factory(dict)
    listed: bool = True
    closed: set[str] = field(factory=set)
    reads: list[str] = field(factory=list)

    def answer(self, request: req.ListShards | req.ReadChanges) -> Any:
        if isinstance(request, req.ListShards):
            begun = [shard for shard in self.shards if self.listed or not self.parents.get(shard)]
            return tuple(ChangeShard(shard, next(iter(self.parents.get(shard, ())), None)) for shard in begun)
        self.reads.append(request.shard)
        lines = (request.after or "0").split("\n")
        needed = self.parents.get(request.shard, ())
        if not self.listed and needed and len(lines) < len(needed) and not lines[0].isdigit():
            return ChangePage((), request.after)  # the other parents have not ended yet
        begin = int(lines[0]) if lines[0].isdigit() else 0
        records = self.shards[request.shard][begin : begin + request.limit]
        end = begin + len(records)
        placed = tuple(evolve(record, position=str(begin + n + 1)) for n, record in enumerate(records))
        page = ChangePage(placed, str(end))
        if end < len(self.shards[request.shard]) or request.shard not in self.closed:
            return page
        children = [shard for shard, parents in self.parents.items() if request.shard in parents]
        if self.listed:
            return evolve(page, position=None)
        return evolve(page, position=None, children=dict.fromkeys(children, f"from-{request.shard}"))


class ScriptedBackend(Memory):
    """A `Memory` with a scripted feed."""

    def __init__(self, script: Scripted) -> None:
        super().__init__()
        self.script = script

    def connect(self, schema: Schema) -> Connection[Any]:
        return ScriptedConnection(super().connect(schema), self.script)


class ScriptedConnection(ForwardingConnection[Any]):
    script: Scripted

    def answer(self, request: req.Request) -> Any:
        if isinstance(request, req.ListShards | req.ReadChanges):
            return self.script.answer(request)
        return super().answer(request)


def record(name: str, number: int) -> ChangeRecord:
    new = {"_t": "Book", "name": name, "pages": number}
    return ChangeRecord("modify", Key(f"BOOK#{name}", ""), None, new, 0.0, f"{number:09}", str(number))


@pytest.mark.parametrize("listed", [True, False], ids=["as DynamoDB", "as Bigtable"])
def test_shards_that_split_and_merge_keep_the_order_of_items(listed: bool, state: Store) -> None:
    shards = {
        "whole": [record("a", 1), record("z", 2)],
        "low": [record("a", 3)],
        "high": [record("z", 4)],
        "again": [record("a", 5), record("z", 6)],
    }
    parents = {"low": ("whole",), "high": ("whole",), "again": ("low", "high")}
    if listed:
        parents["again"] = ("low",)  # DynamoDB names one parent; its streams do not merge
        shards["again"] = [record("a", 5)]
    script = Scripted(dict(shards), parents, listed, {"whole", "low"})
    store = Store(shelf, ScriptedBackend(script))
    feed = Feed(shelf)
    seen = noted(feed)
    follower = Follower(store, feed, state=state, name="one", size=1)
    follower.drain()
    assert [book.pages for book in seen if book.name == "a"] == ([1, 3, 5] if listed else [1, 3])
    script.closed.add("high")
    Follower(store, feed, state=state, name="one").drain()
    assert [book.pages for book in seen if book.name == "a"] == [1, 3, 5]
    assert [book.pages for book in seen if book.name == "z"] == ([2, 4] if listed else [2, 4, 6])
    kept = state.one(Positions, name="one").shards
    assert {shard for shard, position in kept.items() if position == END} >= ({"whole"} if listed else set())


def test_ended_shards_are_forgotten_when_they_are_no_longer_listed(state: Store) -> None:
    script = Scripted({"old": [record("a", 1)], "new": [record("a", 2)]}, {"new": ("old",)}, True, {"old"})
    store, feed = Store(shelf, ScriptedBackend(script)), Feed(shelf)
    seen = noted(feed)
    follower = Follower(store, feed, state=state, name="one")
    follower.drain()
    del script.shards["old"]
    script.shards["new"].append(record("a", 3))
    follower.drain()
    assert [book.pages for book in seen] == [1, 2, 3]
    assert list(state.one(Positions, name="one").shards) == ["new"]


def test_a_follower_that_was_away_for_too_long_is_told_so(state: Store) -> None:
    """Its last shard was read to its end, and is gone when it comes back, with what its children had first."""
    for late in ({"child": ("old",)}, {"another": ()}):
        script = Scripted({"old": [record("a", 1)]}, {}, True, {"old"})
        store, feed = Store(shelf, ScriptedBackend(script)), Feed(shelf)
        seen = noted(feed)
        follower = Follower(store, feed, state=state, name=f"of {late}")
        follower.drain()
        script.shards, script.parents = {shard: [record("a", 5)] for shard in late}, dict(late)
        for again in (follower, Follower(store, feed, state=state, name=f"of {late}")):
            with pytest.raises(BadCursor, match="did not read the feed for longer than changes are kept"):
                again.poll()
        state.delete(Positions, name=f"of {late}")
        assert follower.drain() == 1
        assert [book.pages for book in seen] == [1, 5]


def test_a_feed_without_news_costs_no_write(db: Store, state: Store) -> None:
    follower = Follower(db, Feed(shelf), state=state, name="one")
    db.put(Book(name="a"))
    follower.drain()
    with state.meter() as positions_meter, db.meter() as meter:
        follower.poll()
    assert (positions_meter.calls, meter.calls) == (0, 2)
    db.put(Book(name="b"))
    with state.meter() as positions_meter, db.meter() as meter:
        follower.poll()
    assert (positions_meter.calls, meter.calls) == (1, 2)
    assert positions_meter.write_units == 1


@settings(max_examples=times(30, 300))
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=30), st.integers(1, 7))
def test_what_is_delivered_makes_the_table(writes: list[tuple[str, int, bool]], size: int) -> None:
    db = Store(shelf, Memory(changes=True))
    db.create()
    state = Store(positions, Memory())
    state.create()
    feed, made = Feed(shelf), dict[Any, Any]()

    @feed.on(Book)
    def _apply(change: Change[Book]) -> None:
        assert made.get(change.key) == change.old
        made[change.key] = change.new

    for number, (name, pages, deletes) in enumerate(writes):
        if deletes:
            db.delete(Book, name=name)
        elif db.exists(Book, name=name):
            db.update(Book.primary(name=name), set_(Book.pages, pages))
        else:
            db.put(Book(name=name, pages=pages))
        if number % 5 == 0:
            Follower(db, feed, state=state, name="one", size=size).drain()
    Follower(db, feed, state=state, name="one", size=size).drain()
    assert {key: book for key, book in made.items() if book} == {db.key_of(book): book for book in db.scan(Book)}


def test_lost_changes_are_reported(tmp_path: Path, state: Store) -> None:
    db = Store(shelf, LocalFile(tmp_path / "shelf.db", changes=True))
    db.create()
    db.put(Book(name="a"))
    feed = Feed(shelf)
    noted(feed)
    Follower(db, feed, state=state, name="one").drain()
    db.drop()
    db.create()
    with pytest.raises(BadCursor, match="is not a position of the change feed"):
        Follower(db, feed, state=state, name="one").poll()
    state.delete(Positions, name="one")
    assert Follower(db, feed, state=state, name="one").poll() == 0
