"""What meters, the log and `explain` say about transactions on Bigtable."""

import logging
from collections.abc import Callable, Iterator

import attrs
import pytest

from odm import BadValue, Entity, PrimaryKey, Store, Table, increment, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import CheckAndMutateRow, Native
from odm.results import Meter

bank = Table("reports", transactions=True)


class Account(Entity, table=bank):
    name: str
    cents: int = 0

    primary = PrimaryKey("ACCOUNT#{name}", "DATA")


ANN, BOB = Account.primary(name="ann"), Account.primary(name="bob")


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator, abort_after=0.05)


@pytest.fixture
def db(backend: Bigtable) -> Iterator[Store]:
    db = Store(bank, backend)
    db.create()
    db.put(Account(name="ann", cents=5))
    yield db
    db.drop()
    db.close()


class Stopped(BaseException):
    """The program of a transaction has stopped."""


def move(db: Store) -> None:
    with db.transaction() as tx:
        tx.update(ANN, increment(Account.cents, -1))
        tx.put(Account(name="bob", cents=1))


def stop_at_the_commit(db: Store, monkeypatch: pytest.MonkeyPatch, *, committed: bool = False) -> None:
    connection = db._session.connection
    call = connection.call

    def until(native: Native) -> object:
        if isinstance(native, CheckAndMutateRow) and native.table.endswith(".transactions"):
            if committed:
                call(native)
            raise Stopped
        return call(native)

    with monkeypatch.context() as patched:
        patched.setattr(connection, "call", until)
        with pytest.raises(Stopped):
            move(db)


def counted(meter: Meter) -> tuple[int, int, int]:
    return meter.aborted, meter.waited, meter.resolved


def test_a_write_that_meets_a_lock_is_counted_and_logged(
    db: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop_at_the_commit(db, monkeypatch)
    with caplog.at_level(logging.INFO, "odm.bigtable"), db.meter() as meter:
        db.update(ANN, increment(Account.cents, 1))
    aborted, waited, resolved = counted(meter)
    assert (aborted, resolved) == (0, 1)
    assert waited >= 1
    said = caplog.text
    assert "a write of table reports.tx waits for a transaction" in said
    assert "a transaction of table reports.tx was aborted: another writer needed its row" in said
    assert "a lock of a transaction of table reports.tx was resolved: aborted" in said
    assert "ann" not in said


def test_a_transaction_that_starts_over_is_counted_and_logged(
    db: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connection = db._session.connection
    call = connection.call
    changed: list[Native] = []

    def meddle(native: Native) -> object:
        answer = call(native)
        if "lookup" in str(native) and not changed:  # after the read of the transaction
            changed.append(native)
            Store(bank, db.backend).update(ANN, increment(Account.cents, 10))
        return answer

    with monkeypatch.context() as patched, caplog.at_level(logging.INFO, "odm.bigtable"), db.meter() as meter:
        patched.setattr(connection, "call", meddle)
        move(db)
    assert counted(meter) == (1, 0, 0)
    assert "a transaction of table reports.tx starts over, because of another writer" in caplog.text
    assert db.get(ANN) == Account(name="ann", cents=14)


CALLS: dict[str, tuple[Callable[[Store], object], int, int, int]] = {
    "get": (lambda db: db.get(ANN), 1, 2, 3),
    "query": (lambda db: list(db.query(Account.primary(name="ann"))), 1, 2, 3),
    "scan": (lambda db: list(db.scan(Account)), 1, 3, 4),
    "put": (lambda db: db.put(Account(name="ann", cents=9)), 1, 6, 7),
    "update": (lambda db: db.update(ANN, set_(Account.cents, 7)), 1, 6, 7),
    "update that reads first": (lambda db: db.update(ANN, increment(Account.cents, 1)), 2, 5, 6),
    "delete": (lambda db: db.delete(ANN), 1, 6, 7),
}
"""Calls, with their requests if they meet no lock, a committed one, and an undecided one."""


@pytest.mark.parametrize("name", CALLS)
def test_what_a_lock_costs_those_who_meet_it(backend: Bigtable, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    call, *expected = CALLS[name]
    found = []
    for committed in (None, True, False):
        with Store(bank, attrs.evolve(backend, abort_after=1e-6), prefix=f"cost{committed}-") as db:
            db.create()
            db.put(Account(name="ann", cents=5))
            if committed is not None:
                stop_at_the_commit(db, monkeypatch, committed=committed)
            with db.meter() as meter:
                call(db)
            found.append(meter.calls)
            db.drop()
    assert found == expected


@pytest.mark.usefixtures("db")
def test_without_rivals_nothing_is_counted(backend: Bigtable) -> None:
    own = Store(bank, backend)  # closed to wait for what goes on after the answer
    with own.meter() as meter:
        move(own)
        own.close()
    assert counted(meter) == (0, 0, 0)
    assert meter.calls == 7  # a read, two locks, the commit; two rows; the record


def test_a_transaction_is_explained_in_its_block(db: Store) -> None:
    with db.transaction() as tx:
        with pytest.raises(BadValue, match="no operations yet"):
            db.explain(tx)
        tx.insert(Account(name="cid"))
        tx.update(ANN, increment(Account.cents, -1))
        explained = db.explain(tx)
    assert explained.operations == ("insert Account.primary(name='cid')", "update Account.primary(name='ann')")
    assert dict(explained.rows())["requests"].startswith("one to read 2 items, unless")
    assert "2 that lock rows" in str(explained)
    assert "lookup reports.tx" in str(explained.native)
