"""odm's Bigtable emulator next to Google's: ``python -m benchmarks.emulators``.

Prints Markdown on stdout. What is being done goes to stderr. Calls are made with Google's data client, which runs in
the process of odm's emulator, as in tests. Google's emulator is a program of its own, found as the tests find it.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import Any, Final

import grpc
from attrs import frozen
from google.cloud.bigtable.data import BigtableDataClient, Mutation, ReadRowsQuery, RowMutationEntry, SetCell
from google.cloud.bigtable_admin_v2 import types

from benchmarks.command import Benchmark, Run, say
from benchmarks.report import Row, Target
from benchmarks.timing import Racer
from odm.backends.bigtable.emulator import VARIABLE, emulator
from tests import emulator as google

CELLS: Final = 8
BULK: Final = 1000
"""The rows of a MutateRows."""

_tables = count(1)


@frozen
class Server:
    """An emulator. ``running``: starts it, and gives its address."""

    name: str
    running: Callable[[], AbstractContextManager[str]]


def _google() -> AbstractContextManager[str]:
    return google.running(google.find(os.environ))


OWN, GOOGLE = SERVERS = (Server("odm", emulator), Server("Google", _google))


@contextmanager
def _client(server: Server) -> Iterator[tuple[Any, str]]:
    """The data client on an emulator, and its address."""
    with server.running() as address:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = address
        try:
            with BigtableDataClient(project="p") as client:
                yield client, address
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before


def _new_table(client: Any, address: str) -> Any:
    request = types.CreateTableRequest.pb()
    made = request(parent="projects/p/instances/i", table_id=f"t{next(_tables)}", table={"column_families": {"d": {}}})
    with grpc.insecure_channel(address) as channel:
        method = "/google.bigtable.admin.v2.BigtableTableAdmin/CreateTable"
        channel.unary_unary(method, request.SerializeToString, types.Table.pb().FromString)(made)
    return client.get_table("i", made.table_id)


def _entries(rows: int) -> list[RowMutationEntry]:
    cells: list[Mutation] = [SetCell("d", f"column{n}", b"a value of 21 bytes, x", 1000) for n in range(CELLS)]
    return [RowMutationEntry(f"row{number:06}", cells) for number in range(rows)]


def _written_and_scanned(client: Any, address: str, entries: list[RowMutationEntry]) -> Callable[[object], None]:
    def call(_: object) -> None:
        table = _new_table(client, address)
        for start in range(0, len(entries), BULK):
            table.bulk_mutate_rows(entries[start : start + BULK])
        assert len(table.read_rows(ReadRowsQuery())) == len(entries)

    return call


def _started(server: Server) -> Callable[[object], None]:
    def call(_: object) -> None:
        with server.running():
            pass

    return call


def _racer(call: Callable[[object], None], items: int = 1) -> Racer:
    return Racer(call, lambda calls, _: [None] * calls, items, clock="wall")


def _rows(run: Run) -> Iterator[Row]:
    with ExitStack() as stack:
        found = {}
        for server in run.of(SERVERS):
            with run.excused(server.name):
                say(f"starting {server.name}")
                found[server.name] = stack.enter_context(_client(server))
        for size in run.sizes:
            what = f"write and scan {size:,} rows, a row"
            entries = _entries(size)
            racers = {
                who: _racer(_written_and_scanned(client, address, entries), size)
                for who, (client, address) in found.items()
            }
            yield Row("Microseconds on the clock", what, run.race(what, racers), what, shown=True)


def _start(run: Run) -> Iterator[Row]:
    what = "start and stop"
    racers = {}
    for server in run.of(SERVERS):
        with run.excused(server.name), server.running():
            racers[server.name] = _racer(_started(server))
    milliseconds = {who: times.median / 1000 for who, times in run.race(what, racers).items()}
    yield Row("Milliseconds on the clock", what, milliseconds, what, shown=True, unit="ms")


SECTIONS: Final[Mapping[str, Callable[[Run], Iterator[Row]]]] = {"rows": _rows, "start": _start}

TARGETS: Final = [
    Target(1, "write and scan 10,000", OWN.name, GOOGLE.name, 2, clock="wall"),
    Target(2, "start", OWN.name, None, 100),
]
"""A test must not wait for its emulator: at most twice as long as for Google's, and 100 ms to start and stop."""

BENCHMARK: Final = Benchmark(
    module="benchmarks.emulators",
    title="Bigtable emulators",
    text=__doc__,
    entries=SERVERS,
    sections=SECTIONS,
    targets=TARGETS,
    columns=[server.name for server in SERVERS],
    packages=("google-cloud-bigtable", "grpcio", "sortedcontainers", "google-re2"),
    sizes=(10_000,),
    rounds=5,
    turn=1,
)

if __name__ == "__main__":
    BENCHMARK.main()
