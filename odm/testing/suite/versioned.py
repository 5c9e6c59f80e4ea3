"""`Versioned`: the newest version, older versions, and the items after a writer was stopped."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel

from odm import (
    BadValue,
    ConditionFailed,
    Conflict,
    Entity,
    ItemExists,
    ItemNotFound,
    PrimaryKey,
    Revision,
    Store,
    Stored,
    Table,
    increment,
    set_,
)
from odm.patterns.versioned import Versioned
from odm.testing.capabilities import Capabilities, needs
from odm.testing.stores import Stores

KEEP = 3
papers = Table("papers")
papers_before = Table("papers")


class Part(BaseModel):
    """A nested model."""

    title: str
    pages: Annotated[int, Stored("p")] = 1


class Paper(Entity, table=papers):
    """A document with fields of several types, and with ``keep=`` for its versions."""

    paper_id: str
    text: str
    price: Decimal = Decimal(0)
    note: Annotated[str | None, Stored("n")] = None
    parts: list[Part] = []  # noqa: RUF012  # pydantic copies defaults
    words: set[str] = set()  # noqa: RUF012
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("PAPER#{paper_id}", "v0")
    history = Versioned("PAPER#{paper_id}", "v{version}", keep=KEEP)


class Quote(Entity, table=papers):
    """Keeps all its versions, in another partition."""

    symbol: str
    day: int
    price: Decimal
    number: Annotated[int, Revision] = 0

    primary = PrimaryKey("QUOTE#{symbol}", "{day}")
    believed = Versioned("BELIEVED#{symbol}", "{day}#{number}")


class PaperBefore(Entity, table=papers_before, tag="Paper"):
    """A Paper before it had versions."""

    paper_id: str
    text: str
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("PAPER#{paper_id}", "v0")


KEY = Paper.primary(paper_id="p")
NEW = Paper(paper_id="p", text="1")


def edited(paper: Paper, **changes: Any) -> Paper:
    """The paper with these changes."""
    return paper.model_copy(update=changes)


def written(archive: Store, last: int) -> Paper:
    """A paper with so many versions; the text of each is its number."""
    paper = archive.put(NEW)
    for number in range(2, last + 1):
        paper = archive.put(edited(paper, text=str(number)))
    return paper


def window(last: int, keep: int = KEEP) -> range:
    """The versions that are kept when ``last`` is the newest."""
    return range(max(1, last - keep + 1), last + 1)


def kept(archive: Store) -> list[tuple[int, str]]:
    """The version and text of each item in the history."""
    return [(paper.version, paper.text) for paper in archive.query(Paper.history(paper_id="p"))]


def version(archive: Store, number: int) -> Paper | None:
    """A version by its number."""
    return archive.get(Paper.history.version(number, paper_id="p"))


@pytest.fixture
def archive(stores: Stores) -> Store:
    """A store of the papers."""
    return stores.open(papers)


@needs("conditions", "updates")
class TestVersioned:
    def test_keeps_the_last_versions_unchanged(self, archive: Store) -> None:
        first = archive.insert(edited(NEW, parts=[Part(title="a", pages=2)], words={"x"}, note="n"))
        second = archive.put(edited(first, price=Decimal("1.50"), note=None))
        third = archive.update(second, set_(Paper.text, "3"), increment(Paper.price), returning="new")
        assert [version(archive, number) for number in range(1, 5)] == [first, second, third, None]
        fourth = archive.update(KEY, set_(Paper.words, set()), returning="new")
        assert [paper.version for paper in (first, second, third, fourth)] == [1, 2, 3, 4]
        assert [version(archive, number) for number in range(1, 5)] == [None, second, third, fourth]
        assert archive.get(KEY) == fourth
        assert kept(archive) == [(2, "1"), (3, "3"), (4, "3")]

    def test_has_a_history_that_is_queried_like_any(self, archive: Store) -> None:
        written(archive, 3)
        query = Paper.history(paper_id="p")
        kind = Paper.history.entity
        assert [paper.text for paper in archive.query(query.reverse().limit(2))] == ["3", "2"]
        assert [paper.text for paper in archive.query(query.where(kind.version >= 2, kind.text < "3"))] == ["2"]
        page = archive.page(query, size=2)
        assert [paper.text for paper in (*page.items, *archive.page(query, size=2, after=page.cursor).items)] == list(
            "123"
        )
        assert archive.count(Paper.history(paper_id="q")) == 0

    def test_compares_versions(self, archive: Store) -> None:
        archive.put(edited(written(archive, 1), text="2", price=Decimal(2)))
        assert archive.run(Paper.history.compare(1, 2, paper_id="p")) == {
            "text": ("1", "2"),
            "price": (Decimal(0), Decimal(2)),
        }
        assert archive.run(Paper.history.compare(2, 2, paper_id="p")) == {}

    def test_goes_back_by_a_new_version(self, archive: Store) -> None:
        newest = written(archive, 3)
        assert archive.run(Paper.history.revert(to=2, paper_id="p")) == edited(newest, text="2", version=4)
        assert kept(archive) == [(2, "2"), (3, "3"), (4, "2")]

    def test_has_no_version_that_is_not_kept(self, archive: Store) -> None:
        written(archive, 4)
        assert archive.get(Paper.history.version(1, paper_id="q")) is None
        for procedure in (
            Paper.history.compare(1, 4, paper_id="p"),
            Paper.history.compare(4, 5, paper_id="p"),
            Paper.history.revert(to=1, paper_id="p"),
            Paper.history.revert(to=1, paper_id="q"),
        ):
            with pytest.raises(ItemNotFound, match=r"Paper\.history\.(compare|revert)\(.*paper_id"):
                archive.run(procedure)
        for number in (0, -1, True, "1"):
            with pytest.raises(BadValue, match="is not a version number"):
                version(archive, number)  # type: ignore[arg-type]

    def test_keeps_what_was_not_written_out(self, archive: Store) -> None:
        paper = written(archive, 2)
        for refused, write in (
            (Conflict, lambda: archive.put(edited(paper, version=1, text="x"))),
            (Conflict, lambda: archive.update(edited(paper, version=1), set_(Paper.text, "x"))),
            (ItemExists, lambda: archive.insert(NEW)),
            (ConditionFailed, lambda: archive.put(edited(paper, text="x"), when=Paper.text == "1")),
            (ConditionFailed, lambda: archive.update(KEY, set_(Paper.text, "x"), when=Paper.text == "1")),
            (ItemNotFound, lambda: archive.update(Paper.primary(paper_id="q"), set_(Paper.text, "x"))),
            (Conflict, lambda: archive.delete(edited(paper, version=1))),
            # The item would fit, but its version, which has more attributes, would not.
            (BadValue, lambda: archive.put(edited(paper, text="x" * 409_530))),
        ):
            with pytest.raises(refused):
                write()
        assert kept(archive) == [(1, "1"), (2, "2")]
        assert archive.get(KEY) == paper

    def test_is_deleted_with_its_item_and_starts_again(self, archive: Store) -> None:
        for delete in (
            lambda: archive.delete(KEY),
            lambda: archive.delete(archive.one(KEY)),
            lambda: archive.delete_all(Paper.primary(paper_id="p")),
            partial(deleted_together, archive),
        ):
            written(archive, 4)
            delete()
            assert list(archive.scan()) == []
        assert archive.delete(KEY) is False
        assert written(archive, 2).version == 2
        assert kept(archive) == [(1, "1"), (2, "2")]

    def test_may_lie_apart_and_keep_everything(self, archive: Store) -> None:
        quote = archive.put(Quote(symbol="Z", day=1, price=Decimal("559.40")))
        for cents in range(12):
            quote = archive.put(quote.model_copy(update={"price": Decimal(cents)}))
        archive.put(Quote(symbol="Z", day=2, price=Decimal(1)))
        assert [newest.day for newest in archive.query(Quote.primary(symbol="Z"))] == [1, 2]
        assert [archived.number for archived in archive.query(Quote.believed(symbol="Z", day=1))] == [*range(1, 14)]
        assert archive.count(Quote.believed(symbol="Z")) == 14
        first = archive.one(Quote.believed.version(1, symbol="Z", day=1))
        assert first == Quote(symbol="Z", day=1, price=Decimal("559.40"), number=1)
        archive.delete(quote)
        assert [type(entity) for entity in archive.scan()].count(Quote) == 1
        assert archive.count(Quote.believed(symbol="Z")) == 1

    def test_is_written_by_transactions(self, archive: Store) -> None:
        with archive.transaction() as tx:
            assert tx.insert(NEW).version == 1
        with archive.transaction() as tx:
            tx.update(KEY, set_(Paper.text, "2"))
        with archive.transaction() as tx:
            tx.put(edited(archive.one(KEY), text="3"))
        assert kept(archive) == [(1, "1"), (2, "2"), (3, "3")]

    def test_begins_with_what_was_there_before(self, archive: Store, stores: Stores) -> None:
        before = stores.open(papers_before)
        before.put(before.put(before.put(PaperBefore(paper_id="p", text="3", version=0))))
        assert archive.one(KEY).version == 3
        assert version(archive, 3) == archive.one(KEY)
        archive.update(KEY, set_(Paper.text, "4"))
        assert kept(archive) == [(3, "3"), (4, "4")]
        paper = archive.put(edited(archive.one(KEY), text="5"))
        assert [version(archive, number) for number in (2, 3, 4, 5)] == [
            None,
            *(edited(paper, text=str(number), version=number) for number in (3, 4, 5)),
        ]
        archive.delete(KEY)
        assert list(archive.scan()) == []


def deleted_together(archive: Store) -> None:
    """Delete the paper in a transaction."""
    with archive.transaction() as tx:
        tx.delete(KEY)


@needs("conditions", "updates")
class TestVersionedStopped:
    """Wherever a program is stopped, no version is lost; the next write leaves no other items."""

    @pytest.mark.parametrize("kind", ["insert", "put", "update", "delete"])
    def test_and_then_continued(self, archive: Store, stores: Stores, kind: str) -> None:
        after, stopped = 0, True
        while stopped:
            archive.delete(KEY)
            paper = NEW if kind == "insert" else written(archive, 3)
            works: dict[str, Callable[[], object]] = {
                "insert": partial(archive.insert, paper),
                "put": partial(archive.put, edited(paper, text="4")),
                "update": partial(archive.update, KEY, set_(Paper.text, "4")),
                "delete": partial(archive.delete, KEY),
            }
            stopped = stores.stopped(works[kind], after=after)
            check_versions(archive, paper)
            last = archive.get(KEY)
            archive.put(NEW if last is None else edited(last, text="on"))
            number = 1 if last is None else last.version + 1
            assert [stored for stored, _ in kept(archive)] == [*window(number)]
            check_versions(archive, paper)
            after += 1
        assert after > 1


def check_versions(archive: Store, paper: Paper) -> None:
    """Check that the newest paper is among the versions, and that older versions are unchanged."""
    newest = archive.get(KEY)
    last = 0 if newest is None else newest.version
    versions = [version(archive, number) for number in range(1, last + 3)]
    assert {number for number, stored in enumerate(versions, 1) if stored is not None} >= {*window(last)}
    assert all(stored is None or stored.version == number <= last for number, stored in enumerate(versions, 1))
    assert newest is None or versions[last - 1] == newest
    if last > paper.version > 0:
        assert versions[paper.version - 1] == paper


class Step(NamedTuple):
    """A call that `odm.patterns.versioned` documents, and what it costs.

    Attributes:
        call: the call.
        units: its units, of reads and of writes.
        together: its requests with transactions.
        apart: those without transactions.
        reading: those without transactions, if all writes read first.
        items: the number of items in its transaction.
        sentinels: the calls that first write what later transactions of a wide row need.
    """

    call: Callable[[Store], object]
    units: tuple[int, int]
    together: int
    apart: int
    reading: int
    items: int = 0
    sentinels: int = 0

    def calls(self, capabilities: Capabilities) -> int:
        """Its calls on a backend."""
        if capabilities.locks == "partitions":
            more = capabilities.transaction_calls(self.items) - 1 + self.sentinels
            return self.together + more if self.items else self.reading
        if capabilities.locks and self.items:
            return self.together - 1 + capabilities.transaction_calls(self.items)
        if capabilities.transactions is True:
            return self.together
        return self.reading if capabilities.reads_first else self.apart


STEPS: Sequence[Step] = [
    Step(lambda db: db.insert(NEW), (1, 4), 2, 4, 4, items=2),
    Step(lambda db: db.put(edited(NEW, text="2", version=1)), (1, 4), 2, 5, 6, items=2, sentinels=1),
    Step(lambda db: db.update(KEY, set_(Paper.text, "3")), (1, 4), 2, 5, 5, items=2),
    Step(lambda db: db.update(KEY, set_(Paper.text, "4")), (1, 6), 2, 6, 7, items=3),
    Step(lambda db: version(db, 2), (2, 0), 2, 2, 2),
    Step(lambda db: db.run(Paper.history.compare(2, 3, paper_id="p")), (3, 0), 2, 2, 2),
    Step(lambda db: db.run(Paper.history.revert(to=3, paper_id="p")), (3, 6), 4, 8, 10, items=3),
    Step(lambda db: db.delete(KEY), (3, 1 + KEEP), 4 + KEEP, 4 + KEEP, 5 + 2 * KEEP),
]


@needs("conditions", "updates")
class TestVersionedCosts:
    """The costs that `odm.patterns.versioned` documents."""

    def test_of_versions_are_requests(self, archive: Store, capabilities: Capabilities) -> None:
        for step in STEPS:
            with capabilities.whole(archive) as meter:
                step.call(archive)
            assert meter.calls == step.calls(capabilities)

    def test_of_versions_are_units(self, archive: Store, capabilities: Capabilities) -> None:
        for step in STEPS:
            with archive.meter() as meter:
                step.call(archive)
            assert (meter.read_units, meter.write_units) == step.units or not capabilities.units
