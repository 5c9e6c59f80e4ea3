"""Random calls on entities with companions, on every backend and on a model in plain Python, which must agree.

The model has the highest value so far, the holder of each unique value, and the versions that are kept. After each call
the test compares the answers, then all items, including those of the patterns.

``pytest --full --times 300 tests/patterns/test_stateful_patterns.py`` is the long run.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import boto3
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from odm import (
    ItemExists,
    ItemNotFound,
    OdmError,
    Store,
    TransactionFailed,
    increment,
    missing,
    remove,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.testing.stateful.model import Change, Predicate, Write
from tests.effort import times
from tests.patterns.promises import (
    EPOCH,
    HELD,
    NAMES,
    POINTERS,
    USERS,
    WORDS,
    Account,
    Document,
    Follows,
    Order,
    Price,
    Promises,
    User,
    network,
    plays,
    table,
)

pytestmark = pytest.mark.slow

ACCOUNTS = st.builds(
    Account,
    name=st.sampled_from(NAMES),
    email=st.none() | WORDS,
    tenant=st.none() | WORDS,
    nick=st.none() | WORDS,
    group=st.sampled_from([None, "x", "x", "x#y"]),
    level=st.none() | st.sampled_from([-2, 0, 1]),
    note=st.just("") | WORDS,
)
DOCUMENTS = st.builds(Document, doc_id=st.sampled_from(NAMES[:2]), text=WORDS, revision=st.integers(0, 6))
PRICES = st.builds(
    Price,
    item=st.sampled_from(NAMES[:3]),
    code=st.none() | WORDS,
    amount=st.integers(-120, 120),
    revision=st.integers(0, 4),
)
MOMENTS = st.none() | st.sampled_from([1, 3, 1000]).map(lambda s: EPOCH + timedelta(seconds=s))
ORDERS = st.builds(Order, customer=st.sampled_from(NAMES[:2]), number=st.integers(0, 12), expires=MOMENTS)
ENTITIES = ACCOUNTS | DOCUMENTS | PRICES | ORDERS


def key_of(item: Any) -> Any:
    """The key of an item."""
    match item:
        case Account():
            return Account.primary(name=item.name)
        case Document():
            return Document.primary(doc_id=item.doc_id)
        case Price():
            return Price.primary(item=item.item)
        case _:
            return Order.primary(customer=item.customer, number=item.number)


def _set(cls: Any, name: str) -> Callable[[Any], Change]:
    return lambda value: Change(name, set_(getattr(cls, name), value), lambda _: value)


def _removed(cls: Any, name: str) -> st.SearchStrategy[Change]:
    return st.just(Change(name, remove(getattr(cls, name)), lambda _: None))


def _more(cls: Any, name: str, least: float, most: float) -> st.SearchStrategy[Change]:
    def change(by: int) -> Change:
        return Change(name, increment(getattr(cls, name), by), lambda it: (getattr(it, name) or 0) + by, (least, most))

    return st.sampled_from([-2, 1, 3]).map(change)


_CHANGES: dict[type, Any] = {
    Account: st.one_of(
        *((st.none() | WORDS).map(_set(Account, name)) for name in ("email", "tenant", "nick", "group")),
        *(_removed(Account, name) for name in ("email", "tenant", "nick", "group", "level")),
        st.integers(-3, 3).map(_set(Account, "level")),
        _more(Account, "level", -3, 3),
        WORDS.map(_set(Account, "note")),
    ),
    Document: WORDS.map(_set(Document, "text")),
    Price: st.one_of(
        (st.none() | WORDS).map(_set(Price, "code")),
        _removed(Price, "code"),
        st.integers(-120, 120).map(_set(Price, "amount")),
        _more(Price, "amount", float("-inf"), float("inf")),
    ),
    Order: MOMENTS.map(_set(Order, "expires")),
}
CHANGES = {
    cls: st.lists(change, min_size=1, max_size=3, unique_by=lambda change: change.field).map(tuple)
    for cls, change in _CHANGES.items()
}
WHEN: dict[Any, list[Predicate]] = {
    Account: [
        Predicate(Account.email == "x", lambda it: it is not None and it.email == "x"),
        Predicate(missing(Account.level), lambda it: it is None or it.level is None),
    ],
    Document: [Predicate(Document.text == "x", lambda it: it is not None and it.text == "x")],
    Price: [Predicate(Price.amount > 0, lambda it: it is not None and it.amount > 0)],
    Order: [Predicate(missing(Order.expires), lambda it: it is None or it.expires is None)],
}


@st.composite
def writes(draw: Any, *, together: bool = False) -> Write:
    """Any write of any entity."""
    item = draw(ENTITIES)
    call = draw(st.sampled_from(["put", "put", "insert", "update", "update", "upsert", "delete"]))
    which = draw(st.sampled_from([item, key_of(item)])) if call in ("update", "delete") else item
    when = draw(st.none() | st.none() | st.sampled_from(WHEN[type(item)]))
    if call in ("put", "insert"):
        return Write(call, which, when=when if call == "put" else None)
    if call == "delete":
        return Write(call, which, when=when if not together else None)
    changes = draw(CHANGES[type(item)])
    if call == "upsert":
        return Write("update", key_of(item), changes, options={"upsert": True})
    options = {} if together else {"returning": draw(st.sampled_from(["none", "old", "new"]))}
    return Write(call, which, changes, when, options)


class PatternMachine(RuleBasedStateMachine):
    """Drives stores against `Promises`; a subclass opens them."""

    most: ClassVar[int] = 4

    def open(self) -> list[Store]:
        raise NotImplementedError

    def clock(self) -> float:
        return self.seconds

    @initialize(some=st.lists(writes(), max_size=6))
    def start(self, some: list[Write]) -> None:
        self.seconds = EPOCH.timestamp()
        self.model = Promises(self.clock)
        self.edges: dict[tuple[str, str], int] = {}
        self.total = 0
        self.stores = self.open()
        self.read: list[Any] = []
        for write in some:
            self.write(write)

    def teardown(self) -> None:
        for store in getattr(self, "stores", ()):
            store.drop()
            store.close()

    def agree(self, call: Callable[[Store], Any], expected: Callable[[], Any]) -> Any:
        wanted = outcome(expected)
        for store in self.stores:
            assert outcome(partial(call, store)) == wanted, store
        return wanted

    @rule(write=writes())
    def write(self, write: Write) -> None:
        self.agree(write.on, lambda: write.on_model(self.model))

    @rule(at=st.integers(0, 20), call=st.sampled_from(["put", "delete"]), later=st.booleans())
    def write_what_is_stored(self, at: int, call: str, later: bool) -> None:
        if self.model.living:
            item = self.model.living[at % len(self.model.living)]
            self.write(Write(call, self.read.pop() if self.read and later else item.model_copy(deep=True)))
            self.read = [*self.read[-3:], item.model_copy(deep=True)]

    @rule(at=st.integers(0, 20), data=st.data())
    def update_what_is_stored(self, at: int, data: st.DataObject) -> None:
        if self.model.living:
            item = self.model.living[at % len(self.model.living)].model_copy(deep=True)
            self.write(Write("update", item, data.draw(CHANGES[type(item)]), options={"returning": "new"}))

    @rule(some=st.lists(writes(together=True), max_size=4))
    def transaction(self, some: list[Write]) -> None:
        self.together(some)

    def together(self, some: list[Write]) -> None:
        distinct = list({self.model.identity(write.which): write for write in some}.values())[: self.most]

        def call(store: Store) -> None:
            with store.transaction() as tx:
                for write in distinct:
                    write.on(tx)

        self.agree(call, lambda: self.model.transaction(distinct))

    @rule(cls=st.sampled_from([Document, Price]), name=st.sampled_from(NAMES[:2]), texts=st.lists(WORDS, min_size=1))
    def edit(self, cls: type[Any], name: str, texts: list[str]) -> None:
        """Several versions of one item."""
        key = Document.primary(doc_id=name) if cls is Document else Price.primary(item=name)
        for text in texts[:4]:
            change = _set(Document, "text")(text) if cls is Document else _set(Price, "amount")(len(text))
            self.write(Write("update", key, (change,), options={"upsert": True}))

    @rule(at=st.integers(0, 20), email=WORDS)
    def insert_again(self, at: int, email: str) -> None:
        """Insert an existing item with another unique value: the value must not stay claimed."""
        accounts = [item for item in self.model.living if type(item) is Account]
        if accounts:
            self.write(Write("insert", accounts[at % len(accounts)].model_copy(update={"email": email})))

    @rule(orders=st.lists(ORDERS, min_size=2, max_size=4))
    def order(self, orders: list[Order]) -> None:
        """Move one pointer several times in a transaction."""
        self.together([Write("put", order) for order in orders])

    @rule(group=WORDS)
    def delete_all(self, group: str) -> None:
        self.agree(
            lambda store: store.delete_all(Account.by_group(group=group)),
            lambda: self.model.delete_all(
                lambda it: type(it) is Account and it.group == group and it.level is not None
            ),
        )

    @rule()
    def delete_prices(self) -> None:
        self.agree(
            lambda store: store.delete_all(Price.by_amount().where(Price.amount > 50)),
            lambda: self.model.delete_all(lambda it: type(it) is Price and it.amount > 50),
        )

    @rule(seconds=st.sampled_from([1, 3]))
    def time_passes(self, seconds: float) -> None:
        self.seconds += seconds

    @rule(cls=st.sampled_from([Document, Price]), name=st.sampled_from(NAMES[:2]), to=st.integers(1, 5))
    def revert(self, cls: type[Any], name: str, to: int) -> None:
        named = "doc_id" if cls is Document else "item"

        def expected() -> Any:
            there = self.model.find(cls.primary(**{named: name}))
            old = self.model.histories.get((cls.__name__, name), {}).get(to)
            if there is None or old is None:
                raise ItemNotFound("")
            return self.model.put(old.model_copy(update={"revision": there.revision}))

        self.agree(lambda store: store.run(cls.history.revert(to=to, **{named: name})), expected)

    @rule(one=st.sampled_from(USERS), two=st.sampled_from(USERS), since=st.integers(0, 9), gone=st.booleans())
    def follow(self, one: str, two: str, since: int, gone: bool) -> None:
        for store in self.stores:
            if gone:
                assert store.delete(Follows, follower=one, followed=two) == ((one, two) in self.edges)
            else:
                store.put(Follows(follower=one, followed=two, since=since))
        self.edges.pop((one, two), None)
        if not gone:
            self.edges[one, two] = since

    @rule(user=st.sampled_from(USERS))
    def remove_node(self, user: str) -> None:
        for store in self.stores:
            store.run(network.remove_node(User.primary(user=user)))
        self.edges = {ends: since for ends, since in self.edges.items() if user not in ends}

    @rule(by=st.integers(-3, 5), reset=st.booleans())
    def count(self, by: int, reset: bool) -> None:
        reset = reset and self.most > 1
        for store in self.stores:
            store.run(plays.reset(by, song="s") if reset else plays.add(by, song="s"))
        self.total = by if reset else self.total + by

    @invariant()
    def every_item_agrees(self) -> None:
        for store in getattr(self, "stores", ()):
            found = [item for cls in (Account, Document, Price, Order) for item in store.scan(cls)]
            living = {self.model.identity(item): item for item in self.model.living}
            assert {self.model.identity(item): item for item in found} == living
            assert store.run(plays.total(song="s")) == self.total
            edges = {(one.follower, one.followed): one.since for one in store.scan(Follows)}
            assert edges == self.edges
            for user in USERS:
                out = [(one.since, one.followed) for one in store.query(Follows.out(follower=user))]
                assert out == sorted((since, two) for (one, two), since in self.edges.items() if one == user)
                into = [(one.since, one.follower) for one in store.query(Follows.into(followed=user))]
                assert into == sorted((since, one) for (one, two), since in self.edges.items() if two == user)

    @invariant()
    def every_index_agrees(self) -> None:
        for store in getattr(self, "stores", ()):
            accounts = [it for it in self.model.living if type(it) is Account]
            for word in ["x", "y", "x#y", "é"]:
                grouped = [it for it in accounts if it.group == word and it.level is not None]
                assert list(store.query(Account.by_group(group=word))) == sorted(
                    grouped, key=lambda it: (it.level, it.name)
                )
                noted = [it for it in accounts if it.note == word]
                assert list(store.query(Account.noted(note=word))) == sorted(noted, key=lambda it: it.name)

    @invariant()
    def every_claim_agrees(self) -> None:
        """Each unique value has its claim, and there are no other claims."""
        for store in getattr(self, "stores", ()):
            stored = {self.model.identity(it): it for it in self.model.stored.values()}
            for cls, named in HELD.items():
                for name, fields in named.items():
                    made = getattr(cls, name)._unique._claims[cls]
                    found = {
                        (cls, name, *(getattr(claim, f) for f in fields)): self.model.identity(made.owner(claim))
                        for claim in store.scan(made.claim_class)
                    }
                    assert found == {
                        claim: self.model.identity(item)
                        for claim, item in self.model.claims.items()
                        if claim[:2] == (cls, name)
                    }
                    for claim, owner in found.items():
                        values = dict(zip(fields, claim[2:], strict=True))
                        assert store.get(getattr(cls, name)(**values)) == stored[owner]

    @invariant()
    def every_pointer_agrees(self) -> None:
        for store in getattr(self, "stores", ()):
            for at, (value, _) in self.model.pointers.items():
                fields, _ = POINTERS[at[0]][at[1]]
                key = dict(zip(fields, at[2:], strict=True))
                assert store.get(getattr(at[0], at[1])(**key)) == self.model.pointed(at), (at, store)
                assert store.run(getattr(at[0], at[1]).value(**key)) == value
            for cls, named in POINTERS.items():
                for name in named:
                    there = len([at for at in self.model.pointers if at[:2] == (cls, name)])
                    assert len(list(store.scan(getattr(cls, name).items))) == there

    @invariant()
    def every_history_agrees(self) -> None:
        for store in getattr(self, "stores", ()):
            for cls, named in ((Document, "doc_id"), (Price, "item")):
                expected = {i: h for i, h in self.model.histories.items() if i[0] == cls.__name__}
                assert len(list(store.scan(cls.history.entity))) == sum(map(len, expected.values()))
                for (_, name), history in expected.items():
                    key = {named: name}
                    kept = list(store.query(cls.history(**key)))
                    assert [(v.revision, content(v)) for v in kept] == [
                        (n, content(history[n])) for n in sorted(history)
                    ]
                    last = max(history)
                    for n in (1, last - 3, last - 1, last, last + 1):
                        if n > 0:
                            assert store.get(cls.history.version(n, **key)) == history.get(n)


def content(item: Any) -> Any:
    return {name: value for name, value in vars(item).items() if name != "life_"}


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return "answer", call()
    except TransactionFailed as error:
        return TransactionFailed, [reason and told(reason) for reason in error.reasons]
    except OdmError as error:
        return told(error)


def told(error: OdmError) -> Any:
    return type(error), None if isinstance(error, ItemExists) else getattr(error, "item", None)


class OnEngine(PatternMachine):
    def open(self) -> list[Store]:
        self.folder = tempfile.TemporaryDirectory()
        return opened(self, [Memory(), LocalFile(Path(self.folder.name) / "patterns.db")])

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


class OnService(PatternMachine):
    """Uses its own tables in each run."""

    backend: ClassVar[Any]
    numbers: ClassVar[Iterator[int]] = count()

    def open(self) -> list[Store]:
        return opened(self, [self.backend], prefix=f"p{next(self.numbers)}-")


class OnBigtable(OnService):
    most = 1


def opened(machine: PatternMachine, backends: Sequence[Any], prefix: str = "") -> list[Store]:
    stores = [Store(table, backend, prefix=prefix, clock=machine.clock) for backend in backends]
    for store in stores:
        store.create()
    return stores


def run(machine: type[PatternMachine], steps: int, length: int) -> None:
    often = settings(
        max_examples=steps // length,
        stateful_step_count=length,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(machine, settings=often)


def test_on_the_bundled_engine() -> None:
    run(OnEngine, times(150, 300), 30)


def test_on_dynamodb(dynamodb_local: str) -> None:
    session = boto3.Session(aws_access_key_id="patterns", aws_secret_access_key="x", region_name="eu-west-1")
    OnService.backend = DynamoDB(session, endpoint_url=dynamodb_local)
    run(OnService, times(20, 40), 20)


def test_on_bigtable(bigtable_emulator: str) -> None:
    OnBigtable.backend = Bigtable("project", "patterns", endpoint=bigtable_emulator)
    run(OnBigtable, times(40, 100), 20)
