"""A process of the bank: several tellers, each a thread, that share a store, sync or async."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar, cast

from attrs import frozen

from odm import AsyncStore, Store
from odm.testing.bridge import blocking
from tests.bank.losing import LosingBigtable
from tests.bank.models import bank
from tests.bank.tally import Tally
from tests.bank.teller import Teller

T = TypeVar("T")

LOGGED: Final = {
    "starts over, because of another writer": "attempts given up",
    "waits for a transaction": "waits for others",
    "was aborted: another writer needed": "aborts of others",
    "was resolved": "locks resolved",
    "the answer to a lock was lost": "answers of locks lost",
    "the answer to a commit was lost": "answers of commits lost",
}
"""What the log says, and the columns in which it is counted."""


@frozen
class Settings:
    """How the bank runs.

    Attributes:
        address: that of the emulator.
        prefix: the prefix of the table.
        seconds: how long the tellers work.
        processes: how many processes.
        tellers: how many tellers each process has.
        kill_after: the most seconds between two kills.
        loses: how probable it is that a call, or its answer, is lost or late.
        abort_after: the age of a lock from which it may be resolved, in seconds.
        asynchronous: every other process is async.
    """

    address: str
    prefix: str = ""
    seconds: float = 10.0
    processes: int = 4
    tellers: int = 4
    kill_after: float = 4.0
    loses: float = 0.005
    abort_after: float = 3.0
    asynchronous: bool = True

    @property
    def backend(self) -> LosingBigtable:
        """The bad network."""
        return LosingBigtable("project", "bank", endpoint=self.address, abort_after=self.abort_after, loses=self.loses)


class Loop:
    """An event loop in a thread; several threads can wait for coroutines on it at the same time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, T], *, context: object = None) -> T:
        """Wait for a coroutine, as `asyncio.Runner.run`."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class Counted(logging.Handler):
    """Counts what the log says."""

    def __init__(self, tally: Tally, row: int) -> None:
        super().__init__(logging.INFO)
        self._tally, self._row = tally, row

    def emit(self, record: logging.LogRecord) -> None:
        """Count a message."""
        for part, column in LOGGED.items():
            if part in str(record.msg):
                self._tally.add(self._row, column)


def work(process: int, settings: Settings, tally: Tally, faults: Path) -> None:
    """The main function of a process."""
    log = logging.getLogger("odm")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(Counted(tally, settings.processes * settings.tellers + process))
    if settings.asynchronous and process % 2:
        store = blocking(AsyncStore(bank, settings.backend, prefix=settings.prefix), cast("asyncio.Runner", Loop()))
    else:
        store = Store(bank, settings.backend, prefix=settings.prefix)

    def tell(fault: str) -> None:
        with os.fdopen(os.open(faults, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a") as file:
            file.write(fault.replace("\n", " ") + "\n")

    first = process * settings.tellers
    tellers = [Teller(store, number, tally, tell) for number in range(first, first + settings.tellers)]
    threads = [Thread(target=teller.run) for teller in tellers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
