"""Scans of one class, and others, while rows are locked that its filter leaves out."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any
from uuid import uuid4

import pytest

from odm import Counter, Entity, PrimaryKey, Store, Table, increment, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import CheckAndMutateRow, Native

table = Table("locked-scans", transactions=True)
RECORDS = ".transactions"


class Account(Entity, table=table):
    name: str
    money: int = 0
    visits: Annotated[int, Counter] = 0

    primary = PrimaryKey("ACCOUNT#{name}", "DATA")


class Guard(Entity, table=table):
    name: str
    on: bool = True

    primary = PrimaryKey("GUARD#{name}", "DATA")


class Stopped(BaseException):
    """The program of a transaction has stopped."""


@pytest.fixture
def db(bigtable_emulator: str) -> Iterator[Store]:
    with Store(table, Bigtable("project", "scans", endpoint=bigtable_emulator), prefix=f"{uuid4().hex[:8]}-") as db:
        db.create()
        db.put(Account(name="ann", money=5))
        db.put(Guard(name="bob"))
        db.put(Guard(name="cid"))
        yield db


def stopped(db: Store, monkeypatch: pytest.MonkeyPatch, when: Callable[[Native], bool]) -> None:
    """Make a transaction whose program stops before the first call for which ``when`` holds."""
    connection: Any = db._session.connection
    call = connection.call

    def until(native: Native) -> Any:
        if when(native):
            raise Stopped
        return call(native)

    with monkeypatch.context() as patched:
        patched.setattr(connection, "call", until)
        patched.setattr(connection._procedures.writer.background, "start", lambda work: work())
        with pytest.raises(Stopped):
            transact(db)


def transact(db: Store) -> None:
    """A transaction that locks items of two classes, one of them only for a check."""
    with db.transaction() as tx:
        tx.check(Guard.primary(name="bob"))
        tx.update(Guard.primary(name="cid"), set_(Guard.on, False))
        tx.update(Account.primary(name="ann"), increment(Account.money, 1))


def commits(native: Native) -> bool:
    """Whether a call writes a record."""
    return isinstance(native, CheckAndMutateRow) and native.table.endswith(RECORDS)


def carries_forward() -> Callable[[Native], bool]:
    """Whether a call comes after that which commits."""
    committed: list[Native] = []

    def when(native: Native) -> bool:
        if committed:
            return True
        committed.extend([native] if commits(native) else [])
        return False

    return when


@pytest.mark.parametrize("committed", [False, True])
def test_a_scan_of_one_class_leaves_out_locked_rows_of_others(
    db: Store, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    stopped(db, monkeypatch, carries_forward() if committed else commits)
    ann = Account(name="ann", money=5 + committed)
    guards = [Guard(name="bob"), Guard(name="cid", on=not committed)]
    assert list(db.scan(Account)) == [ann]
    assert list(db.scan(Guard)) == guards
    assert list(db.scan()) == [ann, *guards]
    assert list(db.scan(Guard, Guard.on == False)) == guards[1 : 1 + committed]  # noqa: E712
    assert list(db.scan(Account, Account.money == 5)) == [ann][committed:]
