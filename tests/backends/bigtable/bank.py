"""A bank on Bigtable's emulator: processes move money in transactions, lose answers, and are killed.

``python -m tests.backends.bigtable.bank --seconds 300`` runs it for five minutes, with four processes of four threads
each that move money, and one that reads.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Annotated, Any, Final

from attrs import define, field
from google.api_core.exceptions import ServiceUnavailable

from odm import (
    AccessPattern,
    Counter,
    Entity,
    OutcomeUnknown,
    PrimaryKey,
    Store,
    Table,
    Throttled,
    TransactionFailed,
    increment,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.filters import Newest
from odm.backends.bigtable.native import Concurrent, Mutated, MutateRows, Native, Read, ReadRows
from odm.backends.bigtable.scrub import scrub
from odm.protocol.requests import Notice, Sleep
from tests import emulator

ACCOUNTS: Final = 10
MONEY: Final = 100
THREADS: Final = 4
KINDS: Final = ("gold", "blue", "red")
LOST: Final = 0.01
"""The share of calls whose answer is lost; half of them are applied."""

bank = Table("bank", transactions=True)


class Account(Entity, table=bank):
    number: str
    cents: int = 0
    kind: str = KINDS[0]
    visits: Annotated[int, Counter] = 0

    primary = PrimaryKey("ACCOUNT#{number}", "DATA")
    by_kind = AccessPattern("KIND#{kind}", "{number}")


KEYS: Final[list[Any]] = [Account.primary(number=str(number)) for number in range(ACCOUNTS)]


def opened(address: str, prefix: str) -> Store:
    """A store of the bank."""
    return Store(bank, Bigtable("project", "instance", endpoint=address), prefix=prefix)


@define
class Report:
    """What one process did: transactions that were applied, snapshots that were read, and what was wrong."""

    moved: int = 0
    read: int = 0
    faults: list[str] = field(factory=list)


class Teller:
    """One process of the bank."""

    def __init__(self, address: str, prefix: str, seconds: float, seed: str) -> None:
        self.db, self.seed = opened(address, prefix), seed
        self.end = time.monotonic() + seconds
        self.report = Report()
        self._lose(self.db._session.connection, random.Random(seed))

    def run(self) -> Report:
        """Work until the time is up."""
        threads = [Thread(target=self._work, args=(self._move, f"{self.seed}-{number}")) for number in range(THREADS)]
        threads.append(Thread(target=self._work, args=(self._read, self.seed)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.db.close()
        return self.report

    def _lose(self, connection: Any, chance: random.Random) -> None:
        """Lose some answers of a connection."""
        call = connection.call

        def lossy(native: Native) -> Any:
            if isinstance(native, Concurrent | Sleep | Notice) or chance.random() >= LOST:
                return call(native)
            if chance.random() < 0.5:
                call(native)
            failure = ServiceUnavailable("the answer was lost")  # type: ignore[no-untyped-call]
            if isinstance(native, ReadRows):
                return Read(failure=failure)
            if isinstance(native, MutateRows):
                return Mutated(failure=failure)
            raise failure

        connection.call = lossy

    def _work(self, step: Callable[[random.Random], None], seed: str) -> None:
        chance = random.Random(seed)
        while time.monotonic() < self.end:
            try:
                step(chance)
            except Throttled:
                continue
            except Exception as error:  # noqa: BLE001  # reported by the process
                self.report.faults.append(repr(error))

    def _move(self, chance: random.Random) -> None:
        source, target = chance.sample(KEYS, 2)
        cents = chance.randrange(1, 5)
        try:
            with self.db.transaction() as tx:
                tx.update(source, increment(Account.cents, -cents), when=Account.cents >= cents)
                tx.update(target, increment(Account.cents, cents), set_(Account.kind, chance.choice(KINDS)))
        except TransactionFailed:
            return
        self.report.moved += 1
        if chance.random() < 0.1:
            with suppress(OutcomeUnknown):
                self.db.update(source, increment(Account.visits, 1))
        if chance.random() < 0.1:
            safe = self.db.with_options(retry_safe=True)
            safe.update(target, set_(Account.kind, chance.choice(KINDS)))

    def _read(self, _chance: random.Random) -> None:
        found = self.db.get_many(KEYS, atomic=True)
        total = sum(one.cents for one in found if one is not None)
        self.report.read += 1
        if total != ACCOUNTS * MONEY or None in found:
            self.report.faults.append(f"a snapshot has {total} cents")
        time.sleep(0.05)


def run(address: str, prefix: str, seconds: float, processes: int, chance: random.Random) -> Report:
    """Run the bank, kill processes and start others, and check what is left.

    Returns:
        The sums over the processes that ended by themselves.
    """
    db = opened(address, prefix)
    db.create()
    for number in range(ACCOUNTS):
        db.put(Account(number=str(number), cents=MONEY))
    end = time.monotonic() + seconds
    running = [_started(address, prefix, seconds, f"{number}") for number in range(processes)]
    killed = 0
    while (left := end - time.monotonic()) > 2:
        time.sleep(min(left - 2, chance.uniform(1, 2)))
        place = chance.randrange(processes)
        running[place].kill()
        running[place].communicate()
        killed += 1
        running[place] = _started(address, prefix, max(2.0, end - time.monotonic()), f"{processes + killed}")
    total = Report()
    for process in running:
        out, _ = process.communicate()
        told = json.loads(out.splitlines()[-1])
        total.moved += told["moved"]
        total.read += told["read"]
        total.faults += told["faults"]
    total.faults += _faults(db, prefix)
    db.drop()
    db.close()
    return total


def _started(address: str, prefix: str, seconds: float, seed: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", __name__ if __name__ != "__main__" else "tests.backends.bigtable.bank"]
    command += ["--address", address, "--prefix", prefix, "--seconds", f"{seconds}", "--seed", seed]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _faults(db: Store, prefix: str) -> Iterator[str]:
    """What is wrong at the end."""
    found = db.get_many(KEYS)
    if sum(one.cents for one in found if one is not None) != ACCOUNTS * MONEY:
        yield f"the accounts have {found}"
    listed = [one for kind in KINDS for one in db.query(Account.by_kind(kind=kind))]
    if sorted(map(str, listed)) != sorted(map(str, found)):
        yield f"the index has {listed}"
    backend: Any = db.backend
    scrub(backend, bank, prefix=prefix, clock=lambda: time.time() + 100)
    scrub(backend, bank, prefix=prefix, clock=lambda: time.time() + 8000)
    connection = db._session.connection
    for table in ("bank.tx", "bank.tx.transactions"):
        rows = connection.call(ReadRows(prefix + table, filter=Newest())).rows
        left = {cell.qualifier for row in rows for cell in row.cells} & {b"~x", b"state"}
        if left:
            yield f"{table} has {left} after a scrub"
    if db.get_many(KEYS) != found:
        yield "a scrub changed the accounts"


def main() -> None:
    """Run one process of the bank if an address is given, else all of it."""
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=300.0)
    options.add_argument("--processes", type=int, default=4)
    options.add_argument("--address")
    options.add_argument("--prefix", default="bank-")
    options.add_argument("--seed", default="0")
    given = options.parse_args()
    if given.address is not None:
        done = Teller(given.address, given.prefix, given.seconds, given.seed).run()
    else:
        with emulator.running(emulator.find(os.environ)) as address:
            done = run(address, given.prefix, given.seconds, given.processes, random.Random(given.seed))
    print(json.dumps({"moved": done.moved, "read": done.read, "faults": done.faults}))  # noqa: T201


if __name__ == "__main__":
    main()
