"""`get_many(atomic=True)` reads all items as they were at one instant."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from uuid import uuid4

import boto3
import pytest

from odm import Entity, ItemTooLarge, PrimaryKey, Store, Table, Throttled, increment
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.protocol.connection import Backend
from tests.effort import times

table = Table("accounts")
READS = times(60, 400)


class Account(Entity, table=table):
    name: str
    balance: int = 0
    note: str = ""

    primary = PrimaryKey("ACCOUNT#{name}", "A")


KEYS = [Account.primary(name=name) for name in ("ann", "bob")]


@pytest.fixture(params=["memory", "file", "dynamodb"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    def dynamodb() -> Backend:
        session = boto3.Session(uuid4().hex, "secret", region_name="eu-west-1")
        return DynamoDB(session, endpoint_url=request.getfixturevalue("dynamodb_local"))

    backends: dict[str, Callable[[], Backend]] = {
        "memory": Memory,
        "file": lambda: LocalFile(tmp_path / "accounts.db"),
        "dynamodb": dynamodb,
    }
    with Store(table, backends[request.param]()) as store:
        store.create()
        yield store


def transfer(db: Store, done: Event) -> None:
    while not done.is_set():
        with suppress(Throttled), db.transaction() as tx:
            tx.update(KEYS[0], increment(Account.balance, -1))
            tx.update(KEYS[1], increment(Account.balance, 1))


def test_a_transfer_is_seen_whole(db: Store) -> None:
    db.put(Account(name="ann", balance=1000))
    db.put(Account(name="bob", balance=0))
    found: list[int] = []
    done = Event()
    with ThreadPoolExecutor() as threads:
        writing = threads.submit(transfer, db, done)
        try:
            while len(found) < READS or db.one(KEYS[1]).balance == 0:
                with suppress(Throttled):
                    ann, bob = db.get_many(KEYS, atomic=True)
                    assert ann is not None
                    assert bob is not None
                    found.append(ann.balance + bob.balance)
        finally:
            done.set()
        writing.result()
    assert set(found) == {1000}


def test_more_than_4_mb_are_refused(db: Store) -> None:
    names = [f"n{number}" for number in range(12)]
    for name in names:
        db.put(Account(name=name, note="x" * 390_000))
    keys = [Account.primary(name=name) for name in names]
    assert None not in db.get_many(keys[:10], atomic=True)
    with pytest.raises(ItemTooLarge):
        db.get_many(keys, atomic=True)
