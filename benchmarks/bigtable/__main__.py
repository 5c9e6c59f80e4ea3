"""The Bigtable backend next to Google's data client, in one run: ``python -m benchmarks.bigtable``.

Prints Markdown on stdout: the times of every call, and how they stand to the targets. What is being done goes to
stderr. Calls go to Google's emulator, found as the tests find it; scans through a server of ours that packs the rows,
since the emulator sends every row in a message of its own, which hides what reading them costs.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

from attrs import evolve, frozen

from benchmarks.bigtable import merging, packing
from benchmarks.command import Benchmark, Run, always
from benchmarks.contender import Call, Entry
from benchmarks.pages import Page, readings
from benchmarks.report import Row, Target
from benchmarks.services import Service
from odm import Store
from odm.backends.bigtable import Bigtable
from tests import emulator

EXCLUSIVE: Final = "odm, exclusive"
"""odm where the table says that no other program writes to it, as the data client takes for granted."""

ENTRIES: Final = (
    Entry("odm", "libraries.ours:Odm"),
    Entry(EXCLUSIVE, "libraries.ours:Odm"),
    Entry("odm, rows", "libraries.ours:OdmRows"),
    Entry("data client", "libraries.data_client:Rows"),
    Entry("data client + Pydantic", "libraries.data_client:Models"),
    Entry("odm, async", "libraries.ours:AsyncOdm"),
    Entry("data client, async", "libraries.data_client:AsyncRows"),
)
"""odm comes first: the others read what it puts."""


@frozen
class Answering(Service):
    """What speaks Bigtable at an address; it stays when a contender closes."""

    address: str
    creates = False

    def backend(self) -> Bigtable:
        return Bigtable("project", "instance", endpoint=self.address)


CALLS: Final[Mapping[str, tuple[Call, str]]] = {
    "get": ("get", "point read"),
    "put": ("put", "single write"),
    "batch": ("batch", "bulk write of {} rows, a row"),
    "scan": ("query", "scan of {} rows, a row"),
}


def _pages(page: Page) -> Callable[[Entry], Page]:
    """The page of each contender."""
    exclusive = evolve(page, exclusive=True)
    return lambda entry: exclusive if entry.name == EXCLUSIVE else page


def _raced(call: Call, name: str, run: Run) -> Iterator[Row]:
    """One call, by both clocks.

    Raises:
        EmulatorMissing: there is no emulator.
    """
    # The data client logs at each retry that it has no exporter for metrics on an emulator.
    logging.getLogger("google.cloud.bigtable").setLevel(logging.CRITICAL)
    for size in run.sizes:
        page = readings(size)
        with ExitStack() as stack:
            address = stack.enter_context(emulator.running(emulator.find(os.environ)))
            with Store(page.table, Answering(address).backend()) as store:
                store.create()
            if call == "query":
                address = stack.enter_context(packing.running(address))
            found = stack.enter_context(run.loaded(ENTRIES, _pages(page), always(Answering(address))))
            times = run.calls(f"{size:,} rows", found, call)
        what = name.format(size)
        yield Row("Microseconds of CPU", what, times, what, shown=True)
        yield Row("Microseconds on the clock", what, times, what, clock="wall")


def _merged(cells: int, rows: Callable[[int], int], run: Run) -> Iterator[Row]:
    """Merges of so many cells in each row, by both clocks.

    Raises:
        EmulatorMissing: there is no emulator.
    """
    logging.getLogger("google.cloud.bigtable").setLevel(logging.CRITICAL)
    for size in run.sizes:
        number = rows(size)
        with ExitStack() as stack:
            address = stack.enter_context(emulator.running(emulator.find(os.environ)))
            found = dict(merging.racers(stack, address, number, cells))
            what = f"merge of {cells} cell{'s' * (cells > 1)} in each of {number:,} rows, a cell"
            times = run.race(what, found)
        yield Row("Merges: microseconds of CPU", what, times, what)
        yield Row("Merges: microseconds on the clock", what, times, what, clock="wall")


MERGES: Final[Mapping[str, Callable[[Run], Iterator[Row]]]] = {
    "merge": partial(_merged, 96, lambda size: max(1, size // 10)),
    "merge one": partial(_merged, 1, lambda size: size),
}
"""Whole days of a tenth of the meters, and one reading of each."""

ROWS: Final = {"point read": (1, 4), "single write": (2, 3), "bulk write": (3, 4), "scan": (4, 2)}
"""The number of a target, and how many times faster than the data client, which gives and takes its own rows."""

PAIRS: Final = (
    ("odm", "data client"),
    ("odm", "data client + Pydantic"),
    (EXCLUSIVE, "data client"),
    ("odm, rows", "data client"),
    ("odm, async", "data client, async"),
)

BENCHMARK: Final = Benchmark(
    module="benchmarks.bigtable",
    title="The Bigtable backend next to Google's data client",
    text=__doc__,
    entries=ENTRIES,
    sections={**{name: partial(_raced, *call) for name, call in CALLS.items()}, **MERGES},
    targets=[
        Target(number, what, ours, peer, bound, faster=True)
        for what, (number, bound) in ROWS.items()
        for ours, peer in PAIRS
    ]
    + [Target(5, "merge", "odm", merging.BATCHER, 2)],
    columns=[entry.name for entry in ENTRIES],
    packages=("pydantic", "pydantic-core", "google-cloud-bigtable", "grpcio", "protobuf", "pyqwest"),
    turn=60,
)

if __name__ == "__main__":
    BENCHMARK.main()
