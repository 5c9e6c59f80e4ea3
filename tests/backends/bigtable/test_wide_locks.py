"""Transactions over several wide rows, stopped before any call: all of each is applied, or nothing.

What is right is asked of the engine: the same calls, with or without the transaction.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Annotated, Any, Final

import pytest
from google.api_core import exceptions

from odm import (
    AccessPattern,
    Counter,
    Entity,
    ItemTooLarge,
    OdmError,
    PrimaryKey,
    Store,
    Table,
    collection,
    increment,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest, ValueRange, chain, newest
from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    Concurrent,
    Mutated,
    MutateRows,
    Native,
    Read,
    ReadRows,
    Row,
)
from odm.backends.bigtable.client.retry import LEASE_SECONDS
from odm.backends.bigtable.maintenance.scrub import Scrubbed, scrub
from odm.backends.bigtable.rows import wide as wide_size
from odm.backends.bigtable.rows.cells import read_counter, write_counter
from odm.backends.local import Memory
from odm.protocol.requests import Sleep

pytestmark = [pytest.mark.one_of(3), pytest.mark.slow]

MINUTE: Final = 60.0

google: Any = exceptions

bank = Table("bank", layout="row_per_partition", transactions=True)


class Account(Entity, table=bank, family="accounts"):
    owner: str
    name: str
    kind: str = "old"
    money: int = 0
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("{owner}", "ACCOUNT#{name}")
    by_kind = AccessPattern("KIND#{kind}", "{owner}#{name}")


class Note(Entity, table=bank):
    owner: str
    number: int
    text: str = ""
    reads: Annotated[int, Counter] = 0

    primary = PrimaryKey("{owner}", "NOTE#{number}")


class Plain(Entity, table=bank):
    """Has no Counter."""

    owner: str
    number: int

    primary = PrimaryKey("{owner}", "PLAIN#{number}")


class Stopped(BaseException):
    """The program of a transaction has stopped."""


def begin(db: Store, *owners: str) -> None:
    """The items before the transaction."""
    one, other = owners
    db.put(Account(owner=one, name="ann", kind=f"{one}-old", money=5, views=2))
    db.put(Account(owner=one, name="zoe", kind=f"{one}-old", money=7))
    db.put(Note(owner=one, number=1, text="x"))
    db.put(Note(owner=other, number=1, text="checked", reads=3))
    db.put(Note(owner=other, number=2))
    db.put(Note(owner=other, number=3, text="put", reads=1))


def transact(db: Store, one: str, other: str) -> None:
    """An update, an insert, a delete, a check and a put, of two partitions."""
    with db.transaction() as tx:
        ann = Account.primary(owner=one, name="ann")
        tx.update(ann, increment(Account.money, -1), set_(Account.kind, f"{one}-new"), increment(Account.views, 10))
        tx.insert(Account(owner=other, name="bob", kind=f"{one}-new", money=1))
        tx.delete(Note, owner=one, number=1)
        tx.check(Note.primary(owner=other, number=1), when=Note.text == "checked")
        tx.put(Note(owner=other, number=3, text="replaced"))


class Bank:
    """A store whose transactions can be stopped before one of their calls."""

    def __init__(self, address: str) -> None:
        self.backend = Bigtable("project", "widelocks", endpoint=address, abort_after=0.01)
        self.db = Store(bank, self.backend)
        self.db.create()
        self.connection: Any = self.db._session.connection
        self._owners = count(1)

    def settle(self) -> None:
        """Wait for the work after the answers, which makes calls, too."""
        self.connection._procedures.background.wait()

    def owners(self) -> tuple[str, str]:
        """Two new partitions, when nothing is under way any more."""
        self.settle()
        number = next(self._owners)
        return f"o{number:04}a", f"o{number:04}b"

    def stopped_after(self, monkeypatch: pytest.MonkeyPatch, calls: int, work: Callable[[], object]) -> list[Native]:
        """Do something that stops after this many calls. Returns these calls."""
        call, made = self.connection.call, list[Native]()

        def counting(native: Native) -> Any:
            if isinstance(native, Concurrent):
                return tuple(map(counting, native.calls))
            if len(made) == calls:
                raise Stopped
            made.append(native)
            return call(native)

        with monkeypatch.context() as patched:
            patched.setattr(self.connection, "call", counting)
            patched.setattr(self.connection._procedures.writer.background, "start", lambda work: work())
            try:
                work()
            except Stopped:
                return made
        assert len(made) <= calls
        return made

    def losing(self, monkeypatch: pytest.MonkeyPatch, lost: int, performed: bool, work: Callable[[], object]) -> None:
        """Do something that does not get the answer to one of its calls."""
        call, made = self.connection.call, count()

        def losing(native: Native) -> Any:
            if isinstance(native, Concurrent):
                return tuple(map(outcome_of, native.calls))
            if isinstance(native, Sleep) or next(made) != lost:
                return call(native)
            if performed:
                call(native)
            failure = google.DeadlineExceeded("lost by the test")
            if isinstance(native, MutateRows):
                return Mutated({}, failure)
            if isinstance(native, ReadRows):
                return Read((), None, failure)
            raise failure

        def outcome_of(native: Native) -> Any:
            try:
                return losing(native)
            except google.DeadlineExceeded as failure:
                return failure

        with monkeypatch.context() as patched:
            patched.setattr(self.connection, "call", losing)
            patched.setattr(self.connection._procedures.writer.background, "start", lambda work: work())
            work()

    def scrub(self, after: float, **options: Any) -> Scrubbed:
        """Scrub when this many seconds have passed."""
        self.settle()
        return scrub(self.backend, bank, clock=lambda: time.time() + after, **options)

    def rows(self, owners: tuple[str, ...] | None = None, end: str = "") -> list[Row]:
        """The cells of partitions, or of all rows of a table."""
        self.settle()
        rows = self.connection.call(ReadRows(f"bank.tx{end}", filter=Newest())).rows
        return [row for row in rows if owners is None or row.text in owners]

    def has_locks(self, owners: tuple[str, ...]) -> bool:
        return any(b"##_x" in name for row in self.rows(owners) for _, name in row.columns)

    def check_sizes(self, owners: tuple[str, ...]) -> None:
        """The size of each row is that of its documents, revisions and locks."""
        for row in self.rows(owners):
            cells = [cell for cell in row.cells if cell.family != "c" and cell.value]
            size = next(cell.value for cell in row.cells if (cell.family, cell.qualifier) == ("c", b"\xff"))
            assert read_counter(size) == sum(len(cell.qualifier) + len(cell.value) for cell in cells)


def is_commit(native: Native) -> bool:
    return isinstance(native, CheckAndMutateRow) and native.table.endswith(".transactions")


@pytest.fixture(scope="module")
def made(bigtable_emulator: str) -> Iterator[Bank]:
    made = Bank(bigtable_emulator)
    yield made
    made.db.drop()
    made.db.close()


def oracle(owners: tuple[str, str], *, transacted: bool) -> Store:
    """The engine with the items, before or after the transaction."""
    db = Store(bank, Memory())
    db.create()
    begin(db, *owners)
    if transacted:
        transact(db, *owners)
    return db


def seen(db: Store, owners: tuple[str, str]) -> dict[str, Any]:
    """What each way to read shows of two partitions."""
    one, other = owners
    keys: list[Any] = [Account.primary(owner=one, name="ann"), Account.primary(owner=other, name="bob")]
    keys += [
        Note.primary(owner=one, number=1),
        Note.primary(owner=other, number=1),
        Note.primary(owner=other, number=3),
    ]
    partitions: list[Any] = [collection(Note.primary(owner=owner)) for owner in owners]
    kinds = [Account.by_kind(kind=f"{one}-{kind}") for kind in ("old", "new")]
    return {
        "get": [db.get(key) for key in keys],
        "get_many": db.get_many(keys),
        "query": [list(db.query(one)) for one in partitions],
        "reverse": [list(db.query(one.reverse())) for one in partitions],
        "pages": [pages(db, one, size) for one in partitions for size in (1, 2)],
        "range": list(db.query(Note.primary(owner=other).where(Note.number >= 2))),
        "count": [db.count(one) for one in partitions],
        "index": [list(db.query(kind)) for kind in kinds],
        "only": [db.get(key, only=[Account.money]) for key in keys[:2]],
        "at once": db.get_many(keys, atomic=True),
    }


def pages(db: Store, query: Any, size: int) -> list[Any]:
    found, page = list[Any](), db.page(query, size=size)
    while True:
        found += page.items
        if page.cursor is None:
            return found
        page = db.page(query, size=size, after=page.cursor)


def calls_of(made: Bank, monkeypatch: pytest.MonkeyPatch) -> int:
    owners = made.owners()
    begin(made.db, *owners)
    return len(made.stopped_after(monkeypatch, 1000, lambda: transact(made.db, *owners)))


def stops(made: Bank, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[tuple[str, str], bool]]:
    """New partitions with the transaction, stopped after each number of calls; and whether it was committed."""
    for number in range(calls_of(made, monkeypatch) + 1):
        owners = made.owners()
        begin(made.db, *owners)

        def work(owners: tuple[str, str] = owners) -> None:
            transact(made.db, *owners)

        sent = made.stopped_after(monkeypatch, number, work)
        yield owners, any(map(is_commit, sent))


def test_readers_see_all_or_nothing(made: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = 0
    for owners, committed in stops(made, monkeypatch):
        made.check_sizes(owners)
        locked += made.has_locks(owners)
        shown, right = seen(made.db, owners), seen(oracle(owners, transacted=committed), owners)
        for way, items in right.items():
            assert (way, shown[way]) == (way, items)
        scanned: Any = list(made.db.scan())
        assert [item for item in scanned if item.owner in owners] == list(oracle(owners, transacted=committed).scan())
    assert locked > 8


def batch(db: Store, one: str, other: str) -> None:
    with db.batch() as work:
        work.delete(Note, owner=one, number=1)
        work.put(Note(owner=one, number=7))
        work.put(Note(owner=other, number=3, text="batch"))
        work.put(Account(owner=one, name="ann", kind="batch"))


def together(db: Store, one: str, other: str) -> None:
    with db.transaction() as tx:
        tx.update(Account.primary(owner=one, name="ann"), increment(Account.money, 20))
        tx.put(Note(owner=other, number=1, text="together"))
        tx.insert(Account(owner=one, name="new"))


WRITES: dict[str, Callable[[Store, str, str], object]] = {
    "put": lambda db, one, other: db.put(Account(owner=one, name="ann", kind="put")),
    "put without entries": lambda db, one, other: db.put(Note(owner=other, number=3, text="later")),
    "put of what is inserted": lambda db, one, other: db.put(Account(owner=other, name="bob", money=9)),
    "insert": lambda db, one, other: db.insert(Account(owner=other, name="bob", money=9)),
    "insert of what is deleted": lambda db, one, other: db.insert(Note(owner=one, number=1, text="again")),
    "update": lambda db, one, other: db.update(Account.primary(owner=one, name="ann"), set_(Account.money, 50)),
    "increment": lambda db, one, other: db.update(Account.primary(owner=one, name="ann"), increment(Account.views, 1)),
    "increment of what is checked": lambda db, one, other: db.update(
        Note.primary(owner=other, number=1), increment(Note.reads, 1)
    ),
    "increment of what is inserted": lambda db, one, other: db.update(
        Account.primary(owner=other, name="bob"), increment(Account.views, 1)
    ),
    "delete": lambda db, one, other: db.delete(Account, owner=one, name="ann"),
    "delete without entries": lambda db, one, other: db.delete(Note, owner=other, number=3),
    "batch": batch,
    "delete_all": lambda db, one, other: db.delete_all(collection(Note.primary(owner=other))),
    "transaction in a partition": lambda db, one, other: together(db, one, one),
    "transaction over partitions": together,
    "repeated": transact,
}


def outcome(work: Callable[[], object]) -> str:
    try:
        work()
    except OdmError as error:
        return type(error).__name__
    return "done"


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", WRITES)
def test_writers_come_before_or_after_it(made: Bank, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write = WRITES[name]
    for owners, committed in stops(made, monkeypatch):
        right = oracle(owners, transacted=committed)
        expected = outcome(lambda: write(right, *owners))  # noqa: B023
        assert outcome(lambda: write(made.db, *owners)) == expected  # noqa: B023
        made.connection._procedures.background.wait()
        assert seen(made.db, owners) == seen(right, owners)


def test_a_scrub_ends_it(made: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = [*stops(made, monkeypatch)]
    assert any(made.has_locks(owners) for owners, _ in stopped)
    made.scrub(MINUTE - 10)
    assert any(made.has_locks(owners) for owners, _ in stopped)
    assert made.scrub(MINUTE + 5).locks > 8
    for owners, committed in stopped:
        assert not made.has_locks(owners)
        made.check_sizes(owners)
        assert seen(made.db, owners) == seen(oracle(owners, transacted=committed), owners)
    assert made.scrub(2 * LEASE_SECONDS + 5).records > 0
    assert made.rows(end=".transactions") == []
    listed = [cell for row in made.rows(end=".by_kind") for cell in row.cells]
    assert len(listed) == sum(isinstance(item, Account) for item in made.db.scan())


@pytest.mark.parametrize("options", [{"repair": True}, {"expired": True}])
def test_a_scrub_that_reads_items_ends_it_too(made: Bank, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = [*stops(made, monkeypatch)]
    made.scrub(MINUTE + 5, **options)
    for owners, committed in stopped:
        assert options.get("expired") or not made.has_locks(owners)  # no entity expires
        assert seen(made.db, owners) == seen(oracle(owners, transacted=committed), owners)


@pytest.mark.parametrize("performed", [True, False], ids=["applied", "not applied"])
def test_answers_that_are_lost(made: Bank, performed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(calls_of(made, monkeypatch)):
        owners = made.owners()
        begin(made.db, *owners)
        made.losing(monkeypatch, number, performed, lambda: transact(made.db, *owners))  # noqa: B023
        assert not made.has_locks(owners)
        made.check_sizes(owners)
        assert seen(made.db, owners) == seen(oracle(owners, transacted=True), owners)


@pytest.mark.parametrize("texts", [(None, None), ("x", None)], ids=["both absent", "one absent"])
def test_a_lock_on_an_absent_item_after_the_read_of_a_transaction_in_its_partition(
    made: Bank, texts: tuple[str | None, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = owners = made.owners()
    for number, text in enumerate(texts):
        if text is not None:
            made.db.put(Note(owner=one, number=number, text=text))
    made.db.put(Note(owner=one, number=9))
    call, commits = made.connection.call, list[Native]()

    def locking(native: Native) -> Any:
        if isinstance(native, CheckAndMutateRow) and native.table == "bank.tx":
            commits.append(native)
            if len(commits) == 1:
                made.stopped_after(monkeypatch, 3, partial(pair, made.db, one, other))  # two locks, no commit
                assert made.has_locks(owners)
        return call(native)

    with monkeypatch.context() as patched:
        patched.setattr(made.connection, "call", locking)
        with made.db.transaction() as tx:
            for number in range(2):
                tx.put(Note(owner=one, number=number, text="mine"))
    assert not any(b"##_x" in name for row in made.rows((one,)) for _, name in row.columns)
    assert [made.db.get(Note, owner=one, number=number).text for number in range(2)] == ["mine", "mine"]  # type: ignore[union-attr]
    assert made.db.get(Note, owner=other, number=1) is None
    made.check_sizes((one,))


def pair(db: Store, one: str, other: str) -> None:
    with db.transaction() as tx:
        for owner in (one, other):
            tx.put(Note(owner=owner, number=1, text="yours"))


def inserted(db: Store, one: str, other: str) -> None:
    with db.transaction() as tx:
        tx.insert(Note(owner=one, number=5))
        tx.delete(Note, owner=other, number=2)


def test_a_full_row_takes_checks_and_deletes_but_no_items(made: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = owners = made.owners()
    begin(made.db, *owners)
    monkeypatch.setattr(wide_size, "MAX_ROW", 1)
    full = chain(newest("c", wide_size.SENTINEL), ValueRange(write_counter(1), b"\x80"))
    monkeypatch.setattr(wide_size, "FULL", full)
    with pytest.raises(ItemTooLarge):
        inserted(made.db, one, other)
    with made.db.transaction() as tx:
        tx.delete(Note, owner=one, number=9)
        tx.delete(Note, owner=other, number=2)
    assert made.db.get(Note, owner=other, number=2) is None
    assert not made.has_locks(owners)


def test_calls_of_a_transaction_in_one_partition_are_as_few_as_without_locks(
    made: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = made.owners()
    begin(made.db, one, other)

    def work() -> None:
        with made.db.transaction() as tx:
            tx.put(Note(owner=one, number=1, text="y"))
            tx.put(Note(owner=one, number=2))

    sent = made.stopped_after(monkeypatch, 1000, work)
    assert [type(one).__name__ for one in sent] == ["ReadRows", "MutateRow", "CheckAndMutateRow"]
    assert len(made.stopped_after(monkeypatch, 1000, work)) == 2


@pytest.mark.parametrize(
    ("keys", "calls"),
    [
        ([("a", 1), ("a", 2)], ["ReadRows"]),
        ([("a", 1), ("b", 4)], ["ReadRows", "ReadRows"]),
        # the counters of both may change and change back: the items are checked in a transaction, which reads once more
        ([("a", 1), ("b", 1)], ["ReadRows"] * 2 + ["CheckAndMutateRow"] * 5 + ["MutateRow"]),
    ],
)
def test_reads_of_several_items_at_one_instant(
    made: Bank, keys: list[tuple[str, int]], calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = dict(zip("ab", made.owners(), strict=True))
    for name, number in (("a", 1), ("a", 2), ("b", 1)):
        made.db.put(Note(owner=owners[name], number=number, reads=1))
    made.db.put(Plain(owner=owners["b"], number=4))
    asked: list[Any] = [
        (Plain if number == 4 else Note).primary(owner=owners[name], number=number) for name, number in keys
    ]
    sent = made.stopped_after(monkeypatch, 1000, lambda: made.db.get_many(asked, atomic=True))
    assert [type(one).__name__ for one in sent] == calls
