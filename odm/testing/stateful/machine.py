"""`StoreMachine`: random calls on several stores and on a ``Model``, which must agree after each call.

Every call of an `odm.Store` has a rule. After each call, the machine compares the answers, all items, and every index:
forwards, backwards, counted and page by page. It keeps cursors and follows them after later writes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odm import ItemNotFound, OdmError, Store, TransactionFailed
from odm.testing.stateful import strategies
from odm.testing.stateful.entities import EPOCH, Locked, Note, Task, table
from odm.testing.stateful.listings import LISTINGS, LONG, OF_TASKS, Listing
from odm.testing.stateful.model import Model, Predicate, Write, class_of

STALE = 8
"""The number of entities that are remembered when read, to write them back when they are stale."""


class _Held(NamedTuple):
    """A page with a next page: the cursor of each store, and the position."""

    listing: Listing
    cursors: Sequence[str]
    last: Any
    remaining: int | None


class StoreMachine(RuleBasedStateMachine):
    """Drives stores against a ``Model``; a subclass opens them.

    Attributes:
        most: the most operations in a transaction.
        retry_safe: updates are safe to retry, and return no item.
    """

    most: ClassVar[int] = 4
    retry_safe: ClassVar[bool] = False

    def open(self, clock: Callable[[], float]) -> list[Store]:
        """The stores to compare, created and empty, with this clock."""
        raise NotImplementedError

    @initialize(writes=st.lists(strategies.UNCHECKED, min_size=8, max_size=16))
    def start(self, writes: list[Write]) -> None:
        self.seconds = EPOCH.timestamp()
        self.model = Model(table.compile(), self.clock)
        self.stores = self.open(self.clock)
        self.read: list[Any] = []
        self.held: list[_Held] = []
        self.batch(writes)

    def clock(self) -> float:
        return self.seconds

    def teardown(self) -> None:
        for store in getattr(self, "stores", ()):
            store.drop()
            store.close()

    def agree(self, call: Callable[[Store], Any], expected: Callable[[], Any]) -> Any:
        """Make the same call on every store; the answers must be equal to the model's."""
        outcome = _outcome(expected)
        for store in self.stores:
            assert _outcome(partial(call, store)) == outcome, store
        return outcome

    def write(self, write: Write) -> None:
        self.agree(write.on, lambda: write.on_model(self.model))

    @rule(write=strategies.PUTS)
    def put(self, write: Write) -> None:
        self.write(write)

    @rule(write=strategies.INSERTS)
    def insert(self, write: Write) -> None:
        self.write(write)

    @rule(write=strategies.UPDATES, options=strategies.RETURNING)
    def update(self, write: Write, options: dict[str, Any]) -> None:
        self.write(write if self.retry_safe else write._replace(options=options))

    @rule(write=strategies.UPSERTS)
    def upsert(self, write: Write) -> None:
        self.write(write)

    @rule(write=strategies.DELETES)
    def delete(self, write: Write) -> None:
        self.write(write)

    @rule(key=st.sampled_from(strategies.KEYS))
    def get(self, key: Any) -> None:
        self.agree(lambda store: store.one(key), lambda: self._existing(key))
        if (entity := self.model.find(key)) is not None:
            self.read = [*self.read[-STALE + 1 :], entity.model_copy(deep=True)]

    def _existing(self, key: Any) -> Any:
        entity = self.model.find(key)
        if entity is None:
            raise ItemNotFound("")
        return entity

    @precondition(lambda self: self.read)
    @rule(at=st.integers(0, STALE - 1), call=st.sampled_from(["put", "delete"]))
    def write_what_was_read(self, at: int, call: str) -> None:
        self.write(Write(call, self.read[at % len(self.read)]))

    @precondition(lambda self: self.read)
    @rule(at=st.integers(0, STALE - 1), write=strategies.UPDATES)
    def update_what_was_read(self, at: int, write: Write) -> None:
        which = self.read[at % len(self.read)]
        if type(which) is class_of(write.which):
            self.write(write._replace(which=which))

    @rule(writes=st.lists(strategies.UNCHECKED, max_size=6))
    def batch(self, writes: list[Write]) -> None:
        def call(store: Store) -> None:
            with store.batch() as batch:
                for write in writes:
                    write.on(batch)

        self.agree(call, lambda: self.model.batch(writes))

    @rule(writes=st.lists(strategies.IN_TRANSACTION, max_size=4))
    def transaction(self, writes: list[Write]) -> None:
        distinct = list({self.model.identity(write.which): write for write in writes}.values())[: self.most]

        def call(store: Store) -> None:
            with store.transaction() as tx:
                for write in distinct:
                    write.on(tx)

        self.agree(call, lambda: self.model.transaction(distinct))

    @precondition(lambda self: self.most > 1)
    @rule(keys=st.lists(st.sampled_from(strategies.KEYS), max_size=6))
    def get_at_once(self, keys: list[Any]) -> None:
        self.agree(lambda store: store.get_many(keys, atomic=True), lambda: [self.model.find(key) for key in keys])

    @rule(segments=st.integers(2, 5), cls=st.sampled_from([None, Task, Locked, Note]))
    def scan_in_parts(self, segments: int, cls: type[Any] | None) -> None:
        expected = {
            self.model.identity(entity): entity for entity in self.model.living if cls is None or type(entity) is cls
        }
        for store in self.stores:
            entities = list(store.scan(segments=segments) if cls is None else store.scan(cls, segments=segments))
            assert len(entities) == len(expected)
            assert {self.model.identity(entity): entity for entity in entities} == expected

    @rule(listing=st.sampled_from(OF_TASKS), test=strategies.TESTS)
    def delete_all_where(self, listing: Listing, test: Predicate) -> None:
        filtered = listing.where(test)
        self.agree(lambda store: store.delete_all(filtered.query), lambda: self.model.delete_all(filtered.matches))

    @rule(listing=st.sampled_from(LISTINGS))
    def delete_all(self, listing: Listing) -> None:
        self.agree(lambda store: store.delete_all(listing.query), lambda: self.model.delete_all(listing.matches))

    @rule(seconds=st.sampled_from([0.4, 1, 3]))
    def time_passes(self, seconds: float) -> None:
        self.seconds += seconds

    @rule(
        listing=st.sampled_from(LONG) | st.sampled_from(LISTINGS),
        tests=st.lists(strategies.TESTS, max_size=2),
        most=st.none() | st.integers(1, 4),
        down=st.booleans(),
        size=st.integers(1, 2),
    )
    def page(self, listing: Listing, tests: list[Predicate], most: int | None, down: bool, size: int) -> None:
        if listing in OF_TASKS:
            for test in tests:
                listing = listing.where(test)
        listing = listing.reversed() if down else listing
        listing = listing if most is None else listing.limited(most)
        self.compare(listing, size)
        self._turn(listing, listing.results(self.model.living), size, [None] * len(self.stores), most)

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0, 5), size=st.integers(1, 2))
    def follow(self, at: int, size: int) -> None:
        held = self.held.pop(at % len(self.held))
        rest = held.listing.behind(self.model.living, held.last, held.remaining)
        self._turn(held.listing, rest, size, held.cursors, held.remaining)

    def _turn(
        self, listing: Listing, expected: list[Any], size: int, cursors: Sequence[str | None], remaining: int | None
    ) -> None:
        """Read one page on each store, and keep its cursor if there is a next page."""
        pages = [s.page(listing.query, size=size, after=c) for s, c in zip(self.stores, cursors, strict=True)]
        following = []
        for page in pages:
            assert list(page.items) == expected[:size]
            assert (page.cursor is not None) == (len(expected) > size)
            following += [page.cursor] if page.cursor is not None else []
        if following:
            last = listing.order(expected[size - 1])
            self.held = [
                *self.held[-5:],
                _Held(listing, following, last, None if remaining is None else remaining - size),
            ]

    @invariant()
    def every_item_agrees(self) -> None:
        living = {self.model.identity(item): item for item in self.model.living}
        items = [living.get(self.model.identity(key)) for key in strategies.KEYS]
        for store in getattr(self, "stores", ()):
            assert {self.model.identity(item): item for item in store.scan()} == living
            assert store.get_many(strategies.KEYS) == items
            for cls in (Task, Locked, Note):
                assert len(list(store.scan(cls))) == sum(type(item) is cls for item in living.values())

    @invariant()
    def every_index_agrees(self) -> None:
        for listing in LISTINGS:
            expected = listing.results(self.model.living)
            for store in self.stores:
                assert list(store.query(listing.query)) == expected
                assert list(_pages(store, listing.query.reverse(), 3)) == expected[::-1]

    def compare(self, listing: Listing, size: int) -> None:
        """Read the results of one query in every way, and compare them."""
        expected = listing.results(self.model.living)
        for store in self.stores:
            assert list(store.query(listing.query)) == expected
            assert list(_pages(store, listing.query, size)) == expected
            assert store.count(listing.query) == len(expected)
            assert store.first(listing.query) == (expected[0] if expected else None)


def _outcome(call: Callable[[], Any]) -> Any:
    """The outcome of a call: its answer, or its error and the item of the error."""
    try:
        return "answer", call()
    except TransactionFailed as error:
        return TransactionFailed, [reason and _told(reason) for reason in error.reasons]
    except OdmError as error:
        return _told(error)


def _told(error: OdmError) -> tuple[type[OdmError], Any]:
    return type(error), getattr(error, "item", None)


def _pages(store: Store, query: Any, size: int) -> Iterator[Any]:
    """All results, page by page; every page but the last must be full."""
    cursor = None
    while True:
        page = store.page(query, size=size, after=cursor)
        yield from page.items
        if page.cursor is None:
            return
        assert len(page.items) == size
        cursor = page.cursor
