"""Transactions on the engine are atomic, in single requests and between threads and tasks."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as FilePath
from random import Random
from typing import Annotated

import pytest
from pydantic import Field

from odm import (
    AccessPattern,
    AsyncStore,
    ConditionFailed,
    Entity,
    PrimaryKey,
    Store,
    Table,
    TransactionFailed,
    increment,
)
from odm.backends.local import LocalFile, Memory
from odm.backends.local.file import FileStorage
from odm.backends.local.storage import Record
from odm.errors import BackendError, BadValue, ItemTooLarge
from odm.expressions.nodes import Append, Compare, Const, Increment, Missing, Path, Set
from odm.procedures.writing.transaction import Operations
from odm.protocol.limits import Limits
from odm.protocol.requests import (
    Check,
    Delete,
    Get,
    Key,
    Put,
    Query,
    Refusals,
    Refused,
    Scan,
    Transact,
    Update,
    Written,
)
from tests.backends.local.support import Send, reading, set_record, writing

KEYS = [Key("p", str(n)) for n in range(5)]
N = Path(("n",))


def one() -> Compare:
    return Compare("=", N, Const(1))


class TestEngine:
    def test_applies_all(self, send: Send) -> None:
        send(Put(KEYS[0], {"n": 1}, {"by_x": Key("X", "0")}))
        send(Put(KEYS[1], {"n": 1}, {"by_x": Key("X", "1"), "by_y": Key("Y", "1")}))
        operations = (
            Delete(KEYS[0], one()),
            Update(KEYS[1], (Increment(N, 1),), {"by_x": Key("X", "9"), "by_y": None}, one()),
            Put(KEYS[2], {"n": 3}, {"by_x": Key("X", "3")}, Missing(N)),
            Check(KEYS[3], Missing(N)),
            Delete(KEYS[4]),
        )
        assert send(Transact(operations)) == Written()
        assert send(Query("p")).items == ({"n": 2}, {"n": 3})
        assert send(Query("X", index="by_x")).items == ({"n": 3}, {"n": 2})
        assert send(Query("Y", index="by_y")).items == ()

    def test_or_applies_nothing(self, send: Send) -> None:
        send(Put(KEYS[0], {"n": 1, "s": "x"}, {"by_x": Key("X", "0")}))
        operations = (
            Delete(KEYS[0]),
            Put(KEYS[1], {"n": 1}, {"by_x": Key("X", "1")}),
            Check(KEYS[2], one()),
        )
        assert send(Transact(operations)) == Refusals((None, None, Refused(None)))
        assert send(Transact((Delete(KEYS[0], Missing(N)), *operations[1:2]))) == Refusals(
            (Refused({"n": 1, "s": "x"}), None)
        )
        assert send(Scan()).items == ({"n": 1, "s": "x"},)
        assert send(Query("X", index="by_x")).items == ({"n": 1, "s": "x"},)

    @pytest.mark.parametrize(
        "unfit",
        [
            Update(KEYS[1], (Increment(Path(("s",)), 1),)),
            Update(KEYS[1], (Append(Path(("list",)), ("x" * 410_000,)),)),
            Put(KEYS[1], {"n": 1j}),
        ],
    )
    def test_an_operation_that_does_not_fit_is_the_reason(self, send: Send, unfit: Put | Update) -> None:
        send(Put(KEYS[1], {"s": "x"}))
        answer = send(Transact((Put(KEYS[0], {"n": 1}), unfit)))
        assert isinstance(answer, Refusals)
        assert answer.reasons[0] is None
        assert isinstance(answer.reasons[1], BadValue)
        assert send(Scan()).items == ({"s": "x"},)

    def test_a_missing_index_fails_before_the_first_change(self, send: Send) -> None:
        with pytest.raises(BackendError, match="by_z"):
            send(Transact((Put(KEYS[0], {"n": 1}), Put(KEYS[1], {"n": 1}, {"by_z": Key("Z", "1")}))))
        assert send(Scan()).items == ()

    def test_updates_that_make_the_items_too_large_together(self, send: Send) -> None:
        keys = [Key("p", str(n)) for n in range(12)]
        for key in keys:
            send(Put(key, {"text": "x" * 350_000}))
        updates = tuple(Update(key, (Set(N, 1),)) for key in keys)
        with pytest.raises(ItemTooLarge, match="4194304"):
            send(Transact(updates))
        assert all("n" not in send(Get(key)) for key in keys)
        assert send(Transact(updates[:11])) == Written()
        assert send(Transact(updates, Limits(transaction_bytes=None))) == Written()


def test_get_many_of_a_file_reads_one_snapshot(tmp_path: FilePath) -> None:
    reader, writer = (FileStorage(tmp_path / "db", "shop", timeout=5) for _ in range(2))
    writer.create([])

    def write(data: bytes) -> None:
        with writing(writer) as view:
            set_record(view, KEYS[0], Record(data, {}))
            set_record(view, KEYS[1], Record(data, {}))

    def keys() -> Iterator[Key]:
        yield KEYS[0]
        write(b"new")
        yield KEYS[1]

    write(b"old")
    with reading(reader) as view:
        assert view.get_many(keys()) == [b"old", b"old"]
        assert view.get_many(KEYS[:2]) == [b"new", b"new"]
    reader.close()
    writer.close()


bank = Table("bank")


class Account(Entity, table=bank):
    name: str
    balance: Annotated[int, Field(ge=0, lt=1000)]
    moves: int = 0

    primary = PrimaryKey("ACCOUNT#{name}")
    by_balance = AccessPattern(
        "ACCOUNTS", "{balance}#{name}"
    )  # so every transfer reads, adds a condition and may retry


NAMES = ("a", "b", "c")
TOTAL = 30


def opened(backend: Memory | LocalFile) -> Store:
    db = Store(bank, backend)
    db.create()
    for name in NAMES:
        db.insert(Account(name=name, balance=TOTAL // len(NAMES)))
    return db


def transfer(tx: Operations, random: Random) -> None:
    source, target = random.sample(NAMES, 2)
    amount = random.randint(1, 5)
    tx.update(Account.primary(name=source), increment(Account.balance, -amount), increment(Account.moves))
    tx.update(Account.primary(name=target), increment(Account.balance, amount), increment(Account.moves))


def is_overdrawn(failure: TransactionFailed) -> bool:
    """Whether the only reason is an account that would exceed its bounds."""
    return {type(reason) for reason in failure.reasons} == {type(None), ConditionFailed}


def check(db: Store) -> None:
    accounts = [db.one(Account, name=name) for name in NAMES]
    assert sum(account.balance for account in accounts) == TOTAL
    assert list(db.query(Account.by_balance())) == sorted(accounts, key=lambda account: (account.balance, account.name))


def test_threads_keep_the_sum(backend: Memory | LocalFile) -> None:
    db = opened(backend)
    keys = [Account.primary(name=name) for name in NAMES]

    def transfers(seed: int) -> int:
        random, done = Random(seed), 0
        for _ in range(30):
            try:
                with db.transaction() as tx:
                    transfer(tx, random)
                done += 1
            except TransactionFailed as failure:
                if not is_overdrawn(failure):
                    raise
        return done

    def reads(_: int) -> None:
        for _ in range(60):
            assert sum(account.balance for account in db.get_many(keys) if account) == TOTAL
            assert sum(account.balance for account in db.query(Account.by_balance())) == TOTAL

    tasks: list[Callable[[int], int | None]] = [transfers, reads, transfers]
    with ThreadPoolExecutor(len(tasks)) as pool:
        done = [run.result() for run in [pool.submit(task, seed) for seed, task in enumerate(tasks)]]
    check(db)
    assert sum(db.one(key).moves for key in keys) == 2 * sum(count or 0 for count in done)
    db.close()


async def test_tasks_keep_the_sum(backend: Memory | LocalFile) -> None:
    opened(backend).close()
    async with AsyncStore(bank, backend) as db:

        async def moved(seed: int) -> bool:
            try:
                async with db.transaction() as tx:
                    transfer(tx, Random(seed))
            except TransactionFailed as failure:
                if not is_overdrawn(failure):
                    raise
                return False
            return True

        done = sum(await asyncio.gather(*map(moved, range(30))))
        moves = sum([account.moves async for account in db.query(Account.by_balance())])
        assert moves == 2 * done > 0
    with Store(bank, backend) as blocking:
        check(blocking)


def test_a_transaction_outlives_the_store(tmp_path: FilePath) -> None:
    with opened(LocalFile(tmp_path / "bank.db")) as db, db.transaction() as tx:
        tx.update(Account.primary(name="a"), increment(Account.balance, -3))
        tx.put(Account(name="d", balance=3))
    with Store(bank, LocalFile(tmp_path / "bank.db")) as again:
        assert [account.name for account in again.query(Account.by_balance())] == ["d", "a", "b", "c"]
