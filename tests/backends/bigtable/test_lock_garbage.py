"""Scrub in a table with transactions: it resolves old locks, and removes old records when they are not needed."""

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from odm import AccessPattern, Counter, Entity, ItemNotFound, PrimaryKey, Store, Table, increment, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import CheckAndMutateRow, MutateRow, Native, ReadRows
from odm.backends.bigtable.client.retry import LEASE_SECONDS
from odm.backends.bigtable.maintenance.drop_rows import Dropper
from odm.backends.bigtable.maintenance.scrub import Scrubbed, scrub
from odm.immutable import evolve

MINUTE = 60.0

bank = Table("bank", transactions=True)


class Account(Entity, table=bank):
    name: str
    kind: str = "old"
    money: int = 0
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("ACCOUNT#{name}", "DATA")
    by_kind = AccessPattern("KIND#{kind}", "{name}")


class Stopped(BaseException):
    """The program of a transaction has stopped."""


class Bank:
    """A store whose transactions can be stopped before one of their calls."""

    def __init__(self, address: str, prefix: str) -> None:
        self.backend = Bigtable("project", "instance", endpoint=address, abort_after=0.01)
        self.prefix = prefix
        self.db = Store(bank, self.backend, prefix=prefix)
        self.db.create()
        self.connection: Any = self.db._session.connection

    def stopped_before(self, monkeypatch: pytest.MonkeyPatch, when: Callable[[Native], bool]) -> None:
        """Make a transaction whose program stops before the first call for which ``when`` holds."""
        call = self.connection.call

        def until(native: Native) -> Any:
            if when(native):
                raise Stopped
            return call(native)

        with monkeypatch.context() as patched:
            patched.setattr(self.connection, "call", until)
            patched.setattr(self.connection._procedures.writer.background, "start", lambda work: work())
            with pytest.raises(Stopped):
                self.transact()

    def transact(self) -> None:
        """A transaction that changes an item with a key of it, and inserts another."""
        with self.db.transaction() as tx:
            tx.update(Account.primary(name="ann"), increment(Account.money, -1), set_(Account.kind, "new"))
            tx.insert(Account(name="bob", money=1))

    def scrub(self, after: float) -> Scrubbed:
        """Scrub when this many seconds have passed."""
        return scrub(self.backend, bank, prefix=self.prefix, clock=lambda: time.time() + after)

    def cells(self, end: str = "") -> set[str]:
        """The qualifiers in a table."""
        rows = self.connection.call(ReadRows(f"{self.prefix}bank.tx{end}", filter=Newest())).rows
        return {cell.qualifier.decode() for row in rows for cell in row.cells}


@pytest.fixture
def made(bigtable_emulator: str, request: pytest.FixtureRequest) -> Iterator[Bank]:
    made = Bank(bigtable_emulator, f"g{abs(hash(request.node.name)) % 10**8}x")
    made.db.put(Account(name="ann", money=5))
    yield made
    made.db.drop()
    made.db.close()


def is_commit(native: Native) -> bool:
    return isinstance(native, CheckAndMutateRow) and native.table.endswith(".transactions")


def is_forward(native: Native) -> bool:
    return isinstance(native, CheckAndMutateRow) and any(
        getattr(one, "family", "") == "d" and type(one).__name__ == "DeleteFamily" for one in native.matched
    )


def is_removal(native: Native) -> bool:
    return isinstance(native, MutateRow) and native.table.endswith(".transactions")


def test_a_transaction_that_was_not_committed_is_undone(made: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    made.stopped_before(monkeypatch, is_commit)
    assert made.scrub(MINUTE - 5) == Scrubbed(rows=2)
    assert made.scrub(MINUTE + 5) == Scrubbed(rows=2, locks=2)
    assert "~x" not in made.cells()
    assert made.db.get(Account, name="ann") == Account(name="ann", money=5)
    with pytest.raises(ItemNotFound):
        made.db.update(Account.primary(name="bob"), set_(Account.money, 1))
    done = made.scrub(2 * LEASE_SECONDS + 5)
    assert (done.columns, done.records) == (2, 1)
    assert made.cells(".transactions") == set()


def test_a_transaction_that_was_committed_is_carried_out(made: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    made.stopped_before(monkeypatch, is_forward)
    assert made.db.get(Account, name="bob") == Account(name="bob", money=1)
    assert made.scrub(MINUTE - 5).locks == 0
    assert made.scrub(MINUTE + 5).locks == 2
    assert "~x" not in made.cells()
    assert made.db.get(Account, name="ann") == Account(name="ann", money=4, kind="new")
    assert made.cells(".transactions") == {"state", "rows"}
    assert made.scrub(2 * LEASE_SECONDS - 5).records == 0
    assert made.scrub(2 * LEASE_SECONDS + 5).records == 1
    assert made.cells(".transactions") == set()


def test_a_record_is_no_row_of_another_program(made: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays after a transaction whose program has stopped, and does not prevent that all rows are deleted."""
    made.stopped_before(monkeypatch, is_forward)
    made.scrub(MINUTE + 5)
    assert made.cells(".transactions")
    dropper = Dropper(made.backend, evolve(bank.compile(), name=f"{made.prefix}bank"), None)
    assert dropper.look().foreign is None
    dropper.drop()
    assert made.cells() == made.cells(".by_kind") == made.cells(".transactions") == set()
