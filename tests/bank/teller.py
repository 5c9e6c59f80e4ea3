"""A writer of the bank: one thread, which reads, writes and checks until it has to stop, or is killed."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from odm import BackendError, OdmError, OutcomeUnknown, Store, Throttled, TransactionFailed, increment, set_
from tests.bank.models import (
    FIXED,
    GUARDS,
    KINDS,
    TEMPORARY,
    VAULT,
    Account,
    Guard,
    Ledger,
    account,
    keys,
    kind_of,
    wrong_guards,
    wrong_now,
)
from tests.bank.tally import Tally

KINDS_OF_WORK: Final = {
    "move": 8,
    "shift": 5,
    "spread": 2,
    "open_": 4,
    "shut": 4,
    "leave": 3,
    "come_back": 3,
    "visit": 4,
    "visit_safely": 4,
    "look": 10,
    "list_": 3,
}


class Teller:
    """One writer.

    Args:
        db: the store, which the writers of a process share.
        number: the writer's number.
        tally: where it counts.
        tell: called with a fault that it finds.
    """

    def __init__(self, db: Store, number: int, tally: Tally, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self.db, self.number, self.tally = db, number, tally
        self.safe = db.with_options(retry_safe=True)
        self.ledger = Ledger.primary(writer=number)

    def tell(self, fault: str) -> None:
        """Report a fault."""
        self._tell(f"writer {self.number}: {fault}")

    def run(self) -> None:
        """Work until it has to stop."""
        sure = False
        while not self.tally.stopped[0]:
            try:
                sure = sure or self.begin()
                getattr(self, *random.choices(list(KINDS_OF_WORK), list(KINDS_OF_WORK.values())))()
            except TransactionFailed as refused:
                self.count("refused")
                if refused.reasons[-1] is not None:
                    self.tell(f"its own ledger refused transaction {self.acked + 1}: {refused}")
            except OdmError as error:
                sure = False
                if not isinstance(error, Throttled | OutcomeUnknown | BackendError):
                    self.tell(f"{type(error).__name__}: {error}")
                self.count({Throttled: "throttled", OutcomeUnknown: "unknown"}.get(type(error), "failed"))
            except Exception as error:  # the process must not go on without this thread unnoticed
                self.tell(f"{error!r}")
                raise

    def count(self, column: str) -> None:
        self.tally.add(self.number, column)

    @property
    def acked(self) -> int:
        """The number of the last transaction that is known to be committed."""
        return self.tally.get(self.number, "acked")

    def begin(self) -> bool:
        """Find out whether the last transaction was committed: after this write of its ledger it cannot be any more."""
        self.db.update(self.ledger, increment(Ledger.starts, 1))
        self.check_ledger(1)
        self.count("begun")
        return True

    def check_ledger(self, more: int) -> None:
        """Check that the ledger has what was acknowledged, and at most so many more."""
        stored = self.db.one(self.ledger).number
        if not self.acked <= stored <= self.acked + more:
            self.tell(f"the ledger has {stored} transactions, and {self.acked} were acknowledged")
        self.tally.set(self.number, "acked", stored)

    @contextmanager
    def sure(self) -> Iterator[None]:
        """A block whose outcome must be known, because the server answers some of the calls."""
        try:
            yield
        except OutcomeUnknown as error:
            self.tell(f"the outcome must be known: {error}")
            raise

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A transaction that also counts itself in the ledger."""
        with self.sure(), self.db.transaction() as tx:
            yield tx
            tx.update(self.ledger, set_(Ledger.number, self.acked + 1), when=Ledger.number == self.acked)
        self.tally.set(self.number, "acked", self.acked + 1)
        self.count("committed")
        if random.random() < 0.2:
            self.check_ledger(0)

    def move(self) -> None:
        """Move money without a read before."""
        giver, taker = keys(random.sample(FIXED, 2))
        amount = 2 * random.randint(1, 50)
        with self.transaction() as tx:
            tx.update(giver, increment(Account.money, -amount), when=Account.money >= amount)
            tx.update(taker, increment(Account.money, amount))

    def shift(self) -> None:
        """Move money after a read, which changes the kinds of both accounts."""
        names = random.sample(FIXED, 2)
        read = [one for one in self.db.get_many(keys(names), atomic=True) if one is not None]
        amount = random.randint(1, 50)
        with self.transaction() as tx:
            for one, by in zip(read, (-amount, amount), strict=True):
                new = one.money + by
                actions = set_(Account.money, new), set_(Account.kind, kind_of(new))
                tx.update(one.primary(name=one.name), *actions, when=Account.money == one.money)

    def spread(self) -> None:
        """Move money from one account to five."""
        giver, *takers = keys(random.sample(FIXED, 6))
        with self.transaction() as tx:
            tx.update(giver, increment(Account.money, -10), when=Account.money >= 10)
            for taker in takers:
                tx.update(taker, increment(Account.money, 2))

    def open_(self) -> None:
        """Make an account, with money of the vault."""
        amount = 2 * random.randint(1, 50)
        with self.transaction() as tx:
            tx.insert(account(random.choice(TEMPORARY[1:]), amount))
            vault = Account.primary(name=VAULT)
            tx.update(vault, increment(Account.money, -amount), when=Account.money >= amount)

    def shut(self) -> None:
        """Delete an account; its money goes to the vault."""
        found = self.db.get(Account, name=random.choice(TEMPORARY[1:]))
        if found is None:
            return
        with self.transaction() as tx:
            tx.delete(Account.primary(name=found.name), when=Account.money == found.money)
            tx.update(Account.primary(name=VAULT), increment(Account.money, found.money))

    def leave(self) -> None:
        """A guard leaves, if the other one is on duty."""
        one, other = random.sample(GUARDS, 2)
        with self.transaction() as tx:
            tx.check(Guard.primary(name=other), when=Guard.on == True)  # noqa: E712  # a condition
            tx.update(Guard.primary(name=one), set_(Guard.on, False))

    def come_back(self) -> None:
        """A guard comes back: a single write."""
        self.db.update(Guard.primary(name=random.choice(GUARDS)), set_(Guard.on, True))

    def visit(self) -> None:
        """Count a visit, which may be lost or counted if its answer is lost."""
        self.count("visits begun")
        self.db.update(Account.primary(name=random.choice(FIXED)), increment(Account.visits))
        self.count("visits done")

    def visit_safely(self) -> None:
        """Count a visit exactly once, also if answers are lost."""
        self.count("safe visits begun")
        with self.sure():
            self.safe.update(Account.primary(name=random.choice(FIXED)), increment(Account.safe_visits))
        self.count("safe visits done")

    def look(self) -> None:
        """Read many accounts at one instant."""
        fault = (
            wrong_guards(self.db) if random.random() < 0.2 else wrong_now(self.db, random.choice((FIXED, TEMPORARY)))
        )
        self.count("reads")
        if fault:
            self.tell(fault)

    def list_(self) -> None:
        """Read an index: every account that it finds has the kind that was asked for."""
        kind = random.choice(KINDS)
        found = list(self.db.query(Account.by_kind(kind=kind)))
        self.count("reads")
        if any(one.kind != kind or kind_of(one.money) != kind for one in found):
            self.tell(f"a query of the {kind} accounts found {found}")
