"""Wide rows through a store: the calls that each operation sends, families, pages and counters, against the engine."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Annotated, Any

import pytest

from odm import (
    AccessPattern,
    Counter,
    Entity,
    ItemTooLarge,
    PrimaryKey,
    SchemaError,
    Store,
    Stored,
    Table,
    TransactionFailed,
    Unsupported,
    collection,
    increment,
    remove,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest, ValueRange, chain, newest
from odm.backends.bigtable.client.native import Read, ReadRows
from odm.backends.bigtable.rows import wide as wide_size
from odm.backends.bigtable.rows.cells import read_counter, write_counter
from odm.backends.bigtable.writes import wide as wide_writes
from odm.backends.local import Memory
from odm.entities.query import Query
from tests.effort import times

videos = Table("videos", layout="row_per_partition")


class Video(Entity, table=videos):
    video_id: str
    title: str = ""
    likes: Annotated[int, Counter] = 0
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("{video_id}", "A")


class Comment(Entity, table=videos, family="comments"):
    video_id: str
    at: Annotated[int, "seconds"]
    text: str = ""
    stars: Annotated[int, Counter] = 0

    primary = PrimaryKey("{video_id}", "COMMENT#{at:desc}")


class Tag(Entity, table=videos, family="tags"):
    video_id: str
    tag: str

    primary = PrimaryKey("{video_id}", "COMMENT#{tag}#TAG")


class Watched:
    """A store on the emulator that notes its native requests, and one on the engine with the same calls."""

    def __init__(self, address: str) -> None:
        self.sent: list[Any] = []
        self.db = Store(videos, Bigtable("project", "wide", endpoint=address), on_request=self._note)
        self.memory = Store(videos, Memory())
        for store in (self.db, self.memory):
            store.drop()
            store.create()

    def _note(self, info: Any) -> None:
        self.sent.append(info.native)

    def calls(self) -> list[str]:
        """The kinds of the requests since the last call."""
        sent, self.sent = self.sent, []
        return [type(one).__name__ for one in sent]


@pytest.fixture
def watched(bigtable_emulator: str) -> Iterator[Watched]:
    made = Watched(bigtable_emulator)
    made.calls()
    yield made
    made.db.drop()
    made.db.close()


def comments(number: int) -> list[Comment]:
    return [Comment(video_id="0123", at=at, text=f"text {at}") for at in range(number)]


def filled(watched: Watched, number: int) -> None:
    for store in (watched.db, watched.memory):
        store.put(Video(video_id="0123", title="t", likes=3))
        with store.batch() as batch:
            for comment in comments(number):
                batch.put(comment)
    watched.calls()


def test_what_each_call_sends(watched: Watched) -> None:
    db, video = watched.db, Video(video_id="0123")
    db.put(video)
    assert watched.calls() == ["CheckAndMutateRow"]
    db.update(video, increment(Video.likes, 1), increment(Video.views, 2))
    assert watched.calls() == ["CheckAndMutateRow"]
    db.update(Video.primary(video_id="0123"), set_(Video.title, "t"))
    assert watched.calls() == ["ReadRows", "CheckAndMutateRow"]
    loaded = db.one(Video, video_id="0123")
    assert (loaded.likes, loaded.views, loaded.title) == (1, 2, "t")
    watched.calls()
    db.update(loaded, set_(Video.title, "u"), when=Video.likes == 1)
    assert watched.calls() == ["ReadRows", "CheckAndMutateRow"]
    db.insert(Comment(video_id="0123", at=1))
    assert watched.calls() == ["CheckAndMutateRow"]
    db.delete(Comment, video_id="0123", at=1)
    assert watched.calls() == ["CheckAndMutateRow"]
    with db.transaction() as tx:
        tx.insert(Comment(video_id="0123", at=2))
        tx.insert(Comment(video_id="0123", at=3))
    assert watched.calls() == ["ReadRows", "CheckAndMutateRow"]


def test_the_video_page_is_one_request(watched: Watched) -> None:
    filled(watched, 500)
    query: Query[Any] = collection(Video.primary(video_id="0123"))
    page = watched.db.page(query, size=11)
    assert watched.calls() == ["ReadRows"]
    video, *newest = page.items
    assert (video.likes, [one.at for one in newest]) == (3, [*range(499, 489, -1)])
    after = watched.db.page(query, size=20, after=page.cursor)
    assert [one.at for one in after.items] == [*range(489, 469, -1)]
    assert watched.calls() == ["ReadRows"]
    last = watched.db.page(Comment.primary(video_id="0123").where(Comment.at < 20), size=20)
    assert ([one.at for one in last.items], last.cursor) == ([*range(19, -1, -1)], None)
    assert watched.calls() == ["ReadRows"]


def test_five_hundred_comments_are_deleted_in_one_mutation(watched: Watched) -> None:
    filled(watched, 500)
    assert watched.db.delete_all(collection(Video.primary(video_id="0123"))) == 501
    assert watched.calls() == ["ReadRows", "MutateRows"]
    assert list(watched.db.scan()) == []


def test_an_increment_of_an_absent_item_leaves_nothing(watched: Watched) -> None:
    with pytest.raises(Exception, match="does not exist"):
        watched.db.update(Video.primary(video_id="0123"), increment(Video.likes, 1))
    watched.db.put(Video(video_id="0123"))
    assert watched.db.one(Video, video_id="0123").likes == 0


def test_a_check_of_a_counter_holds_at_the_commit(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    db, key = watched.db, Video.primary(video_id="0123")
    db.put(Video(video_id="0123", likes=1))
    commit, rivals = wide_writes._Asked.call, [lambda: db.update(key, increment(Video.likes, -1))]

    def overtaken(asked: Any, writer: Any) -> Any:
        if rivals:
            rivals.pop()()
        return commit(asked, writer)

    monkeypatch.setattr(wide_writes._Asked, "call", overtaken)
    with pytest.raises(TransactionFailed):
        checked(db, key)
    assert (db.one(key).likes, db.count(Comment.primary(video_id="0123"))) == (0, 0)


def checked(db: Store, key: Query[Video]) -> None:
    """Insert a comment if the video has a like."""
    with db.transaction() as tx:
        tx.check(key, when=Video.likes >= 1)
        tx.insert(Comment(video_id="0123", at=1))


def test_a_check_of_a_counter_that_is_missing(watched: Watched) -> None:
    db, key = watched.db, Comment.primary(video_id="0123", at=1)
    watched.memory.put(Comment(video_id="0123", at=1))
    db.put(Comment(video_id="0123", at=1))
    with db.transaction() as tx:
        tx.check(key, when=Comment.stars == 0)
        tx.insert(Comment(video_id="0123", at=2))
    assert db.count(Comment.primary(video_id="0123")) == 2


old = Table("videos", layout="row_per_partition")


class Film(Entity, table=old, tag="Video"):
    """The video of a program whose models have other Counters: views is a plain number, and likes is unknown."""

    video_id: str
    title: str = ""
    views: int = 0

    primary = PrimaryKey("{video_id}", "A")


def batched(db: Store, film: Film) -> None:
    with db.batch() as batch:
        batch.put(film)


@pytest.mark.parametrize(
    "again",
    [
        lambda db, film: (db.delete(film), db.insert(film)),
        lambda db, film: db.put(film),
        batched,
    ],
    ids=["delete and insert", "put", "batch"],
)
def test_a_count_is_gone_with_its_item(watched: Watched, again: Callable[[Store, Film], object]) -> None:
    """Also if a program wrote the item whose models do not have the Counter, or have a plain number."""
    watched.db.put(Video(video_id="0123", likes=5, views=7))
    with Store(old, watched.db.backend) as db:
        assert db.one(Film, video_id="0123").views == 7
        again(db, Film(video_id="0123", views=1))
        assert db.one(Film, video_id="0123").views == 1
    assert watched.db.one(Video, video_id="0123").views == 1
    assert watched.db.one(Video, video_id="0123").likes == 0


def test_keys_that_are_too_long_for_a_filter_of_all_families(watched: Watched) -> None:
    """With many families a filter of all of them has no space for long sort keys; the server's limit is 20 KB."""
    table = Table("many", layout="row_per_partition")

    class Note(Entity, table=table):
        pad: str
        name: str
        primary = PrimaryKey("{pad}", "NOTE#{name}")

    for number in range(12):
        names = {"__module__": __name__, "__annotations__": {"pad": str}, "primary": PrimaryKey("{pad}", f"F{number}")}
        type(f"F{number}", (Entity,), names, table=table, family=f"f{number}")
    with Store(table, watched.db.backend) as db:
        db.create()
        db.put(Note(pad="p", name="n" * 400))
        assert db.get(Note, pad="p", name="n" * 400) is not None
        for call in (db.put, db.insert, db.delete, lambda one: db.get(Note, pad="p", name=one.name)):
            with pytest.raises(ItemTooLarge, match="13 families"):
                call(Note(pad="p", name="n" * 1000))
        db.drop()


def test_items_of_one_partition_are_read_at_one_instant(watched: Watched) -> None:
    filled(watched, 150)
    keys = [Comment.primary(video_id="0123", at=at) for at in range(100)]
    assert watched.db.get_many(keys, atomic=True) == comments(100)
    assert watched.calls() == ["ReadRows"]
    with pytest.raises(Unsupported, match="one row at a time"):
        watched.db.get_many([*keys[:2], Comment.primary(video_id="0124", at=1)], atomic=True)


def test_explain_says_that_a_reverse_query_reads_its_whole_range(watched: Watched) -> None:
    assert "to the end" in str(watched.db.explain(Comment.primary(video_id="1").reverse()))
    assert "to the end" not in str(watched.db.explain(Comment.primary(video_id="1")))
    assert "to the end" not in str(watched.memory.explain(Comment.primary(video_id="1").reverse()))


@pytest.mark.parametrize("seed", range(times(2, 12)))
def test_queries_over_several_families_are_as_on_the_engine(watched: Watched, seed: int) -> None:
    random = Random(seed)
    for _ in range(2):
        for store in (watched.db, watched.memory):
            dice = Random(seed)
            with store.batch() as batch:
                for _ in range(60):
                    video = str(dice.randrange(2))
                    batch.put(Comment(video_id=video, at=dice.randrange(40), stars=dice.randrange(3)))
                    batch.put(Tag(video_id=video, tag=f"b{dice.randrange(30):02}"))
                    batch.put(Video(video_id=video, views=dice.randrange(3)))
    for _ in range(40):
        video = str(random.randrange(2))
        low, high = sorted((random.randrange(40), random.randrange(40)))
        query: Query[Any] = random.choice(
            [
                collection(Video.primary(video_id=video)),
                Comment.primary(video_id=video),
                Comment.primary(video_id=video).where(Comment.at >= low, Comment.at < high),
                Comment.primary(video_id=video).where(Comment.stars == 1),
                Tag.primary(video_id=video),
                collection(Comment.primary(video_id=video)).limit(random.randrange(1, 30)),
            ]
        )
        query = query.reverse() if random.random() < 0.3 else query
        assert list(watched.db.query(query)) == list(watched.memory.query(query))
        assert watched.db.count(query) == watched.memory.count(query)
        cursors: list[str | None] = [None, None]
        while True:
            size = random.randrange(1, 9)
            pages = [
                store.page(query, size=size, after=cursor)
                for store, cursor in zip((watched.db, watched.memory), cursors, strict=True)
            ]
            assert pages[0].items == pages[1].items
            cursors = [page.cursor for page in pages]
            assert (cursors[0] is None) == (cursors[1] is None)
            if cursors[0] is None:
                break
    found = sorted(map(repr, watched.db.scan()))
    assert found == sorted(map(repr, watched.memory.scan()))
    assert sorted(map(repr, watched.db.scan(segments=3))) == found


def row_cells(db: Store) -> dict[tuple[str, bytes], bytes]:
    """The cells of the only row of a store's table."""
    read: Read = db._session.connection.call(ReadRows(db.table.name, filter=Newest()))
    (row,) = read.rows
    return {(cell.family, cell.qualifier): cell.value for cell in row.cells}


def size_cell(db: Store) -> int:
    """The size of the row that its cell shows."""
    return read_counter(row_cells(db)["c", b"\xff"])


def held_bytes(db: Store) -> int:
    """The bytes of the documents and revisions of the row."""
    return sum(len(name) + len(value) for (family, name), value in row_cells(db).items() if family != "c")


class TestSize:
    """A row takes no more items before it is too large to be read; here from 3,000 bytes."""

    MOST = 3000

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        full = chain(newest("c", wide_size.SENTINEL), ValueRange(write_counter(self.MOST), b"\x80"))
        monkeypatch.setattr(wide_size, "MAX_ROW", self.MOST)
        monkeypatch.setattr(wide_size, "FULL", full)

    @staticmethod
    def together(db: Store, one: Comment) -> None:
        with db.transaction() as tx:
            tx.put(one)
            tx.put(Comment(video_id="0123", at=one.at + 1000, text=one.text))

    @staticmethod
    def batched(db: Store, one: Comment) -> None:
        with db.batch() as batch:
            batch.put(one)

    @pytest.mark.parametrize("how", ["put", "insert", "transaction", "batch"])
    def test_a_full_row_takes_no_more_items(self, watched: Watched, how: str) -> None:
        db = watched.db
        calls: dict[str, Callable[[Comment], object]] = {
            "put": db.put,
            "insert": db.insert,
            "transaction": partial(self.together, db),
            "batch": partial(self.batched, db),
        }
        for at in range(2):
            calls[how](Comment(video_id="0123", at=at, text="x" * 500))
        with pytest.raises(ItemTooLarge, match=r"partition '0123' of table 'videos' has \d+ bytes in one row"):
            list(map(calls[how], [Comment(video_id="0123", at=at, text="x" * 500) for at in range(2, 7)]))
        with suppress(ItemTooLarge):  # a batch is refused earlier, as it counts all of its items
            db.put(Comment(video_id="0123", at=9, text="x" * 500))
        count = db.count(collection(Video.primary(video_id="0123")))
        with pytest.raises(ItemTooLarge):
            db.update(Comment.primary(video_id="0123", at=0), set_(Comment.text, "y" * 2000))
        db.put(Video(video_id="0124"))
        db.delete(Comment, video_id="0123", at=0)
        assert db.count(collection(Video.primary(video_id="0123"))) == count - 1
        db.delete_all(collection(Video.primary(video_id="0123")))
        db.put(Video(video_id="0123"))

    def test_an_update_adds_to_the_size_what_it_adds_to_the_row(self, bigtable_emulator: str) -> None:
        table = Table("sized", layout="row_per_partition")

        class Note(Entity, table=table):
            pad: str
            name: str
            shelf: str | None = None
            count: Annotated[int, Counter] = 0

            primary = PrimaryKey("{pad}", "NOTE#{name}")
            by_shelf = AccessPattern("SHELF#{shelf}", "{name}")

        with Store(table, Bigtable("project", "sized", endpoint=bigtable_emulator)) as db:
            db.create()
            for shelf in ("a", "b" * 40, None, "c"):
                db.put(Note(pad="p", name="n", shelf=shelf))
                db.update(Note.primary(pad="p", name="n"), set_(Note.shelf, "d" * 30), set_(Note.count, 4))
                assert size_cell(db) == held_bytes(db)
            db.update(Note.primary(pad="p", name="n"), remove(Note.shelf))
            assert size_cell(db) == held_bytes(db)
            db.delete(Note, pad="p", name="n")
            assert size_cell(db) == 0
            db.drop()

    def test_items_that_replace_others_are_measured(self, watched: Watched) -> None:
        for _ in range(20):
            watched.db.put(Comment(video_id="0123", at=1, text="x" * 500))
        assert watched.calls().count("MutateRow") in (2, 3, 4)
        for number in range(20):
            watched.db.update(Comment.primary(video_id="0123", at=1), set_(Comment.text, f"{number}" * 200))
        assert "MutateRow" not in watched.calls()


class TestSchemas:
    def test_a_field_with_a_family_of_its_own(self) -> None:
        table = Table("rows", layout="row_per_partition")

        class One(Entity, table=table):
            id: str
            text: Annotated[str, Stored(family="texts")]
            primary = PrimaryKey("{id}", "ONE")

        with pytest.raises(SchemaError, match=r"One\.text has the family 'texts'"):
            Store(table, Bigtable("p", "i", endpoint="localhost:1")).get(One, id="1")

    def test_sort_keys_that_would_not_sort(self) -> None:
        table = Table("rows", layout="row_per_partition")

        class One(Entity, table=table):
            id: str
            name: str
            primary = PrimaryKey("{id}", "{name}")

        class Two(Entity, table=table):
            id: str
            name: str
            end: str
            primary = PrimaryKey("{id}", "{name:<6}#{end}")

        with pytest.raises(SchemaError, match="would not sort correctly in their row"):
            Store(table, Bigtable("p", "i", endpoint="localhost:1")).get(One, id="1", name="a")

    def test_without_sort_keys_the_layouts_are_the_same(self, bigtable_emulator: str) -> None:
        table = Table("flat", layout="row_per_partition")

        class One(Entity, table=table):
            id: str
            primary = PrimaryKey("{id}")

        db = Store(table, Bigtable("p", "i", endpoint=bigtable_emulator))
        assert "d:_t" in str(db.explain(One(id="1")))
