"""A bank whose accounts are changed by transactions and by single writes."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from threading import Thread, current_thread
from typing import Annotated, Any, Final

from attrs import frozen

from odm import Backend, Counter, Entity, PrimaryKey, Store, Table, increment, set_

ACCOUNTS: Final = 10
"""The accounts between which threads move money; and how many threads there are."""

THREADS: Final = 8

bank = Table("bank")


class Account(Entity, table=bank):
    """An account."""

    number: str
    cents: int = 0
    owner: str = "Ann Example, 1 Example Street, Exampleton"
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("ACCOUNT#{number}", "DATA")


class Bank:
    """The accounts in one backend.

    Args:
        backend: where they are stored.
        together: the backend has transactions of several items.
    """

    def __init__(self, backend: Backend, *, together: bool = True) -> None:
        self.together = together
        self._backend = backend
        self.db = Store(bank, backend)

    def key(self, number: int) -> Any:
        """The key of an account."""
        return Account.primary(number=f"{number:06}")

    def account(self, number: int) -> Account:
        """A new account."""
        return Account(number=f"{number:06}", cents=1000)

    def fill(self, count: int) -> None:
        """Store the first accounts."""
        with self.db.batch() as batch:
            for number in range(count):
                batch.put(self.account(number))

    def update(self, count: int) -> None:
        """Change this number of accounts in one transaction."""
        with self.db.transaction() as tx:
            for number in range(count):
                tx.update(self.key(number), increment(Account.cents, 1))

    def move(self, source: int, target: int) -> None:
        """Move money between two accounts."""
        with self.db.transaction() as tx:
            tx.update(self.key(source), increment(Account.cents, -1))
            tx.update(self.key(target), increment(Account.cents, 1))

    def put(self, number: int) -> None:
        """Put an account."""
        self.db.put(self.account(number))

    def set(self, number: int) -> None:
        """Set a field of an account."""
        self.db.update(self.key(number), set_(Account.owner, "Bob"))

    def count(self, number: int) -> None:
        """Increment a Counter of an account."""
        self.db.update(self.key(number), increment(Account.views, 1))

    def get(self, number: int) -> None:
        """Get an account."""
        self.db.get(self.key(number))

    def moves_per_second(self, seconds: float) -> float:
        """Let threads move money between a few accounts. Returns the transactions per second."""
        self.fill(ACCOUNTS)
        end = time.monotonic() + seconds
        done = [0] * THREADS

        def work(mine: int) -> None:
            random = Random(mine)
            while time.monotonic() < end:
                self.move(*random.sample(range(ACCOUNTS), 2))
                done[mine] += 1

        threads = [Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = self.db.get_many([self.key(number) for number in range(ACCOUNTS)], atomic=True)
        assert sum(one.cents for one in found if one is not None) == ACCOUNTS * 1000
        return sum(done) / seconds

    def counted(self, count: int) -> "Counted":
        """The calls of a transaction of this number of accounts."""
        self.update(count)
        self._finish()
        with self.db.meter() as meter, _rounds(self.db) as rounds:
            self.update(count)
            before, needed = meter.calls, sum(rounds)
            self._finish()
        return Counted(before, needed or 1, meter.calls - before)

    def _finish(self) -> None:
        """Wait for what is sent after the answers: close the store, and open another."""
        self.db.close()
        self.db = Store(bank, self._backend)


@frozen
class Counted:
    """The calls of a transaction before its answer, how many of them are one after the other, and those after it."""

    before: int
    rounds: int
    after: int


@contextmanager
def _rounds(db: Store) -> Iterator[list[int]]:
    """Count the requests of this thread, of which those that are sent at the same time are one."""
    connection: Any = db._session.connection
    call, mine = connection.call, current_thread()
    rounds: list[int] = []

    def counted(native: Any) -> Any:
        if current_thread() is mine:
            rounds.append(1)
        return call(native)

    connection.call = counted
    try:
        yield rounds
    finally:
        del connection.call


SINGLE: Final[Mapping[str, Callable[[Bank, int], None]]] = {
    "get": Bank.get,
    "put": Bank.put,
    "update of a field": Bank.set,
    "increment of a Counter": Bank.count,
}
"""Calls for one item, by name."""
