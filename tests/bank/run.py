"""Runs the bank: starts its processes, kills some, and checks the table at the end."""

import multiprocessing
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from attrs import evolve, field, frozen

from odm import OdmError, Store
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import ReadRows
from odm.backends.bigtable.maintenance.scrub import Scrubbed, scrub
from tests.bank.losing import LATEST
from tests.bank.models import FIXED, TEMPORARY, Account, Ledger, bank, fill, wrong_guards, wrong_index, wrong_now
from tests.bank.tally import Tally
from tests.bank.worker import Settings, work

SPAWN: Final = multiprocessing.get_context("spawn")
LATER: Final = 3 * 3600.0
"""The seconds by which the clock of the scrub is ahead: more than two leases."""

STOPPING: Final = 60.0
"""The seconds in which a process must have ended."""


@frozen
class Report:
    """What was measured, and what was found wrong."""

    settings: Settings
    counted: dict[str, int]
    kills: int
    scrubbed: Scrubbed
    faults: list[str] = field(factory=list)

    def __str__(self) -> str:
        per_second = self.counted["committed"] / self.settings.seconds
        rows = [f"{count:>9} {name}" for name, count in self.counted.items() if name != "acked"]
        rows += [f"{self.kills:>9} kills", f"{per_second:>9.1f} committed transactions a second"]
        return "\n".join([*rows, f"          {self.scrubbed}", *self.faults, f"{len(self.faults)} faults"])


def run(settings: Settings, folder: Path) -> Report:
    """Run the bank.

    Args:
        settings: how.
        folder: an empty folder, for the faults that the processes find.
    """
    writers = settings.processes * settings.tellers
    quiet = evolve(settings, loses=0.0)
    with Store(bank, quiet.backend, prefix=settings.prefix) as db:
        db.create()
        fill(db, writers)
        tally, faults = Tally(writers + settings.processes), folder / "faults"
        kills, found = _work(settings, tally, faults)
        time.sleep(2 * LATEST)  # calls of killed processes may still be under way in the server
        found += faults.read_text().splitlines() if faults.exists() else []
        found += _checked(db, settings, tally, kills)
        scrubbed = scrub(quiet.backend, bank, prefix=settings.prefix, clock=lambda: time.time() + LATER)
        found += _checked(db, settings, tally, kills)
        found += _left(db, settings.prefix)
        return Report(settings, dict(tally.sums()), kills, scrubbed, found)


class Processes:
    """The processes of the bank."""

    def __init__(self, settings: Settings, tally: Tally, faults: Path) -> None:
        self._settings, self._tally, self._faults = settings, tally, faults
        self._running: list[tuple[BaseProcess, int]] = []
        self.kills = 0
        for number in range(settings.processes):
            self._running.append(self._started(number))

    def _started(self, number: int) -> tuple[BaseProcess, int]:
        begun = self._begun(number)
        process = SPAWN.Process(target=work, args=(number, self._settings, self._tally, self._faults))
        process.start()
        return process, begun

    def _begun(self, number: int) -> int:
        first = number * self._settings.tellers
        return sum(self._tally.get(writer, "begun") for writer in range(first, first + self._settings.tellers))

    def working(self) -> list[int]:
        """Those that have begun to work: to start one takes seconds on a busy machine."""
        return [number for number, (_, begun) in enumerate(self._running) if self._begun(number) > begun]

    def kill_one(self) -> None:
        """Kill one that works, and start it again."""
        if working := self.working():
            number = random.choice(working)
            self._running[number][0].kill()
            self._running[number][0].join()
            self._running[number] = self._started(number)
            self.kills += 1

    def stop(self) -> list[str]:
        """Tell all to stop, and wait. Returns what is wrong."""
        self._tally.stopped[0] = 1
        for process, _ in self._running:
            process.join(STOPPING)
        wrong = [f"a process ended with {one.exitcode}" for one, _ in self._running if one.exitcode != 0]
        for process, _ in self._running:
            process.kill()
        return wrong


def _work(settings: Settings, tally: Tally, faults: Path) -> tuple[int, list[str]]:
    """Let the processes work, and kill some. Returns the number of kills, and faults."""
    processes = Processes(settings, tally, faults)
    latest = time.monotonic() + STOPPING
    while len(processes.working()) < settings.processes and time.monotonic() < latest:
        time.sleep(0.05)
    end = time.monotonic() + settings.seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, random.uniform(0.5, 1) * settings.kill_after))
        if time.monotonic() < end:
            processes.kill_one()
    return processes.kills, processes.stop()


def _checked(db: Store, settings: Settings, tally: Tally, kills: int) -> list[str]:
    """What is wrong in the table; if it cannot be read, with all of its rows."""
    try:
        return _wrong(db, settings, tally, kills)
    except OdmError as error:
        rows = db._session.connection.call(ReadRows(f"{settings.prefix}{bank.name}.tx", filter=Newest())).rows
        return [f"{type(error).__name__}: {error}", *(f"{row.text}: {row.cells}" for row in rows)]


def _wrong(db: Store, settings: Settings, tally: Tally, kills: int) -> list[str]:
    """What is wrong in the table, when nobody writes."""
    wrong = [wrong_now(db, FIXED), wrong_now(db, TEMPORARY), wrong_guards(db), wrong_index(db)]
    for ledger in db.scan(Ledger):
        acked = tally.get(ledger.writer, "acked")
        if not acked <= ledger.number <= acked + 1:
            wrong.append(f"the ledger {ledger} has not the {acked} transactions that were acknowledged")
    accounts = [one for one in db.scan(Account) if one.name in FIXED]
    counted = dict(tally.sums())
    for name, found in (
        ("visits", sum(one.visits for one in accounts)),
        ("safe visits", sum(one.safe_visits for one in accounts)),
    ):
        if not counted[f"{name} done"] <= found <= counted[f"{name} begun"]:
            wrong.append(f"{found} {name} for {counted[f'{name} done']} of {counted[f'{name} begun']}")
    open_ = counted["safe visits begun"] - counted["safe visits done"]
    if open_ > settings.tellers * kills + counted["unknown"] + counted["throttled"] + counted["failed"]:
        wrong.append(f"{open_} safe visits did not end")
    return [one for one in wrong if one]


def _left(db: Store, prefix: str) -> list[str]:
    """Locks and records that are left in the raw tables."""
    connection = db._session.connection  # no public call shows locks
    name = f"{prefix}{bank.name}.tx"
    rows = connection.call(ReadRows(name, filter=Newest())).rows
    locked = [f"row {row.text!r} is locked" for row in rows if any(cell.qualifier == b"~x" for cell in row.cells)]
    records = connection.call(ReadRows(f"{name}.transactions", filter=Newest())).rows
    return locked + [f"record {row.text!r} is left" for row in records]
