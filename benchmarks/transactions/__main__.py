"""Transactions in calls, rounds and time on each backend: ``python -m benchmarks.transactions``.

Prints Markdown on stdout. What is being done goes to stderr. Bigtable is Google's emulator, once with and once without
``transactions=True``, and DynamoDB is DynamoDB Local, all found as the tests find them. Times compare emulators, so
only calls and rounds carry over to the services.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice
from math import inf
from typing import Final

from attrs import frozen

from benchmarks.command import Benchmark, Run, say
from benchmarks.report import Row, Target
from benchmarks.stand_in import StandIn, dynamodb, with_transactions, without_transactions
from benchmarks.timing import Racer
from benchmarks.transactions.bank import ACCOUNTS, SINGLE, THREADS, Bank
from tests import dynamodb_local, emulator

PARTS: Final = {"before": "calls before the answer", "rounds": "one after the other", "after": "calls after it"}
"""What is counted, with its label."""

SECONDS: Final = 5
"""How long threads move money."""


@frozen
class Server(StandIn):
    """Where accounts are stored. ``together``: it has transactions of several items."""

    together: bool = True

    @contextmanager
    def at(self, address: str) -> Iterator[Bank]:
        """A new table of accounts, on the server at an address."""
        made = Bank(self.backend(address), together=self.together)
        try:
            made.db.create()
            made.fill(100)
            yield made
            made.db.drop()
        finally:
            made.db.close()


WITH, WITHOUT, LOCAL = SERVERS = (
    Server("Bigtable, transactions=True", emulator.find, emulator.running, with_transactions),
    Server("Bigtable without", emulator.find, emulator.running, without_transactions, together=False),
    Server("DynamoDB Local", dynamodb_local.find, dynamodb_local.running, dynamodb),
)


@contextmanager
def _started(run: Run) -> Iterator[dict[str, Bank]]:
    """The servers that can run here, each with its accounts."""
    with ExitStack() as stack:
        found = {}
        for server in run.of(SERVERS):
            with run.excused(server.name):
                say(f"starting {server.name}")
                found[server.name] = stack.enter_context(server.at(stack.enter_context(server.running(server.found()))))
        yield found


def _racer(call: Callable[[Bank, int], None], bank: Bank, arguments: Sequence[int]) -> Racer:
    """A call, ready to be timed, with these arguments in turn."""
    return Racer(partial(call, bank), lambda count, _: [*islice(cycle(arguments), count)], clock="wall")


def _transactions(run: Run) -> Iterator[Row]:
    with _started(run) as found:
        able = {name: one for name, one in found.items() if one.together}
        for size in run.sizes:
            what = f"a transaction of {size} updates"
            times = run.race(what, {name: _racer(Bank.update, one, [size]) for name, one in able.items()})
            counted = {name: one.counted(size) for name, one in able.items()}
            for part, label in PARTS.items():
                figures = {name: float(getattr(each, part)) for name, each in counted.items()}
                yield Row("Calls", f"{what}: {label}", figures, f"{what}: {label}", shown=True, unit="calls")
            yield Row("Microseconds on the clock", what, times, f"{what}: on the clock", shown=True)


def _single(run: Run) -> Iterator[Row]:
    with _started(run) as found:
        for name, call in SINGLE.items():
            racers = {who: _racer(call, one, range(ACCOUNTS)) for who, one in found.items()}
            times = run.race(name, racers)
            yield Row("Microseconds on the clock", name, times, f"{name}: on the clock", shown=True)


def _bank(run: Run) -> Iterator[Row]:
    with _started(run) as found:
        what = f"{THREADS} threads move money between {ACCOUNTS} accounts: transactions a second"
        say(what)
        seconds = min(SECONDS, max(0.2, run.seconds * run.rounds))
        figures = {name: one.moves_per_second(seconds) for name, one in found.items() if one.together}
        yield Row("Transactions a second", what, figures, what, shown=True, unit="calls")


SECTIONS: Final[Mapping[str, Callable[[Run], Iterator[Row]]]] = {
    "transactions": _transactions,
    "single": _single,
    "bank": _bank,
}

TARGETS: Final = [
    *(Target(1, name, WITH.name, WITHOUT.name, 1.25) for name in SINGLE),
    Target(2, "a transaction of 2 updates: on", WITH.name, LOCAL.name, 3),
    Target(3, "a transaction of 10 updates: on", WITH.name, LOCAL.name, 5),
    Target(4, "a transaction of 100 updates: on", WITH.name, LOCAL.name, 5),
    Target(5, f"{THREADS} threads", WITH.name, LOCAL.name, inf, least=0.15),
]
"""A single write pays little for locks; a transaction of three rounds is near one of a single call."""

BENCHMARK: Final = Benchmark(
    module="benchmarks.transactions",
    title="Transactions",
    text=__doc__,
    entries=SERVERS,
    sections=SECTIONS,
    targets=TARGETS,
    columns=[server.name for server in SERVERS],
    packages=("pydantic", "google-cloud-bigtable", "grpcio", "pyqwest", "botocore"),
    sizes=(2, 10, 100),
    turn=300,
)

if __name__ == "__main__":
    BENCHMARK.main()
