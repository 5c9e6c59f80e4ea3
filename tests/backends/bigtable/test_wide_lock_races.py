"""Many transactions over wide rows at once, next to all other writes: nothing is lost, and readers see none in part."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Annotated, Any, Final

import pytest

from odm import AccessPattern, Counter, Entity, PrimaryKey, Store, Table, TransactionFailed, increment
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import ReadRows
from tests.effort import full

bank = Table("lockbank", layout="row_per_partition", transactions=True)

TOTAL: Final = 600
TURNS: Final = 60 if full() else 12
PLACES: Final = [(bank, number) for bank in ("north", "south", "west") for number in range(2)]


class Account(Entity, table=bank, family="accounts"):
    bank: str
    number: int
    balance: int = TOTAL // 6
    touched: int = 0
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("{bank}", "ACCOUNT#{number}")


class Note(Entity, table=bank):
    """Exists in all banks with the same text, or in none."""

    bank: str
    text: str = ""

    primary = PrimaryKey("{bank}", "NOTE")
    by_text = AccessPattern("NOTES", "{text}#{bank}")


ACCOUNTS: Final = [Account.primary(bank=where, number=number) for where, number in PLACES]
NOTES: Final = [Note.primary(bank=where) for where in ("north", "south", "west")]


def transfer(db: Store, turn: int, random: Random) -> None:
    one, other = random.sample(ACCOUNTS, 2)
    with db.transaction() as tx:
        tx.update(one, increment(Account.balance, -turn))
        tx.update(other, increment(Account.balance, turn))


def count(db: Store, turn: int, random: Random) -> None:
    db.update(ACCOUNTS[0], increment(Account.views, 1))


def touch(db: Store, turn: int, random: Random) -> None:
    db.update(ACCOUNTS[0], increment(Account.touched, 1))


def count_in_transaction(db: Store, turn: int, random: Random) -> None:
    with db.transaction() as tx:
        for account in (ACCOUNTS[0], ACCOUNTS[-1]):
            tx.update(account, increment(Account.views, 1))


def note(db: Store, turn: int, random: Random) -> None:
    name = random.choice(["put", "insert", "delete"])
    try:
        with db.transaction() as tx:
            for where in ("north", "south", "west"):
                getattr(tx, name)(Note(bank=where, text=f"{turn}"))
    except TransactionFailed:
        assert name == "insert"


def look(db: Store, turn: int, random: Random) -> None:
    found: Any = db.get_many(ACCOUNTS, atomic=True)
    assert sum(one.balance for one in found) == TOTAL
    notes: Any = db.get_many(NOTES, atomic=True)
    assert len({None if one is None else one.text for one in notes}) == 1


WORKS: Final[list[Callable[[Store, int, Random], None]]] = [
    transfer,
    transfer,
    count,
    touch,
    count_in_transaction,
    note,
    note,
    look,
]


@pytest.fixture
def db(bigtable_emulator: str) -> Iterator[Store]:
    with Store(bank, Bigtable("project", "lockbank", endpoint=bigtable_emulator)) as store:
        store.create()
        for where, number in PLACES:
            store.put(Account(bank=where, number=number))
        yield store
        store.drop()


def test_many_transactions_next_to_all_other_writes(db: Store) -> None:
    def run(number: int) -> None:
        random = Random(number)
        for turn in range(TURNS):
            WORKS[number](db, turn, random)

    with ThreadPoolExecutor(len(WORKS)) as pool:
        list(pool.map(run, range(len(WORKS))))
    connection: Any = db._session.connection
    found: Any = db.get_many(ACCOUNTS)
    assert sum(one.balance for one in found) == TOTAL
    assert (found[0].views, found[-1].views, found[0].touched) == (2 * TURNS, TURNS, TURNS)
    look(db, 0, Random())
    connection._procedures.background.wait()
    listed = connection.call(ReadRows("lockbank.tx.by_text", filter=Newest())).rows
    assert sorted(map(repr, db.query(Note.by_text()))) == sorted(map(repr, db.scan(Note)))
    assert sum(len(row.cells) for row in listed) == len(list(db.scan(Note)))
    rows = connection.call(ReadRows("lockbank.tx", filter=Newest())).rows
    assert not [name for row in rows for _, name in row.columns if name.endswith(b"##_x")]
