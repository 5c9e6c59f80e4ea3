"""The bundled engine next to its peers and floors, in one run: ``python -m benchmarks.engine --sizes 10k,100k,1m``.

Prints Markdown on stdout: the times of every operation, what items take of memory and file, start-up, and how all that
stands to the targets. What is being done goes to stderr. Peers come with ``pip install -e '.[bench]'``; dynalite is
installed by npm at its first use.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import Benchmark, Run, say
from benchmarks.contender import CALLS, TRANSACTED, Call, Contender
from benchmarks.engine import calls, processes, programs, rules
from benchmarks.engine.entries import ENTRIES, page_of, service_of, started
from benchmarks.pages import many_customers
from benchmarks.report import Row, Target
from benchmarks.services import DYNALITE

IN_MEMORY: Final = ("Memory", "Memory + index", "dict + SortedDict", "moto + boto3", "dynamoxy")
DURABLE: Final = ("LocalFile", "LocalFile + index", "sqlite3", "append + fdatasync")
JSON: Final = "as plain JSON"
SMALLEST: Final = "Memory, smallest size"
"""`Memory` at the smallest size, which stays loaded to be measured in turns with the larger ones."""

NAMES: Final[Mapping[Call, str]] = {
    "get": "get",
    "put": "put",
    "query": "query of 100",
    "query index": "query of 100 by an index",
    "update": "update",
    "batch": "batch put of 100, an item",
    "transact": f"transaction of {TRANSACTED} puts, an item",
}
GROWING: Final = ("get", "put", "query")
"""What the documentation shows of larger sizes too."""


def operations(run: Run) -> Iterator[Row]:
    """The times of every call, at each size; then the sizes of files, and how soon one answers again."""
    smallest, *larger = sorted(run.sizes)
    with TemporaryDirectory(dir=run.folder) as text, ExitStack() as kept:
        folder, small = Path(text), dict[str, Contender]()
        if larger and (run.names is None or "Memory" in run.names):
            small[SMALLEST] = kept.enter_context(started("Memory", smallest, folder))
            small[SMALLEST].load()
        for size in (smallest, *larger):
            entries = [entry for entry in ENTRIES if entry.largest is None or size <= entry.largest]
            with run.loaded(
                entries, partial(page_of, size=size), partial(service_of, size=size, folder=folder)
            ) as found:
                yield from _timed(run, size, {**found, **(small if size != smallest else {})})
            yield from _files(run, size, found)


def _timed(run: Run, size: int, contenders: Mapping[str, Contender]) -> Iterator[Row]:
    section, first = f"{size:,} items, microseconds (CPU; dynalite on the clock)", size == min(run.sizes)
    for call in CALLS:
        times = run.calls(f"{size:,} items", contenders, call)
        if times:
            label = f"{NAMES[call]}, {size:,} items"
            yield Row(section, NAMES[call], times, label, call in GROWING or (first and call != "query index"))
            if call in ("put", "batch"):
                clock = ("on the clock", first and call == "put")
                yield Row(section, f"{NAMES[call]}, on the clock", times, f"{label}, {clock[0]}", clock[1], "wall")


def _files(run: Run, size: int, closed: Mapping[str, Contender]) -> Iterator[Row]:
    paths = {who: each.service.path for who, each in closed.items() if who.startswith("LocalFile")}
    if paths:
        taken = {who: path.stat().st_size / size for who, path in paths.items()}
        yield Row("File, bytes an item", f"{size:,} items", taken, f"file an item, {size:,} items", unit="B")
    if "LocalFile" in paths:
        with run.excused("reopen"):
            again = {"LocalFile": processes.reopen_ms(paths["LocalFile"], size)}
            yield Row("Reopen, ms to the first answer", f"{size:,} items", again, f"reopen, {size:,} items", unit="ms")


def memory(run: Run) -> Iterator[Row]:
    """The memory of an item, next to its plain JSON."""
    for size in run.sizes:
        taken = dict[str, float]()
        for entry in run.of(ENTRIES):
            if entry.name in IN_MEMORY and (entry.largest is None or size <= entry.largest):
                say(f"memory of {entry.name}, {size:,} items")
                with run.excused(f"memory of {entry.name}"):
                    taken[entry.name] = processes.memory_per_item(entry.name, size)
        label = f"memory an item, {size:,} items"
        yield Row("Memory, bytes an item", f"{size:,} items", taken | {JSON: json_bytes()}, label, shown=True, unit="B")


def json_bytes(count: int = 1000) -> float:
    """The mean size of an order as plain JSON."""
    page = many_customers(count)
    return sum(len(page.model(number).model_dump_json()) for number in range(count)) / count


def syncs(run: Run) -> Iterator[Row]:
    """How often a put makes the disk write."""
    found = dict[str, float]()
    for entry in run.of(ENTRIES):
        if entry.name in DURABLE:
            say(f"syncs of {entry.name}")
            with run.excused(f"syncs of {entry.name}"):
                found[entry.name] = processes.syncs_per_put(entry.name)
    if found:
        yield Row("Syncs a put", "fsync + fdatasync", found, "syncs a durable put", unit="syncs")


def startup(run: Run) -> Iterator[Row]:
    """What odm costs before the first item, in ms of CPU."""
    say("startup")
    section = "Start, ms of CPU"
    yield Row(section, "a fresh process", processes.import_ms(run.rounds), "fresh process", unit="ms")
    net = "Start net of Python, ms of CPU"
    yield Row(net, "programs", processes.start_ms(run.rounds), "programs", unit="ms")
    bare = processes.start_ms(2, cached=False)
    yield Row(net, "programs without byte code", bare, "without byte code", unit="ms")
    yield Row(section, "one of twenty entities", processes.compile_ms(run.rounds), "one of twenty entities", unit="ms")


TARGETS: Final = (
    Target(8, "get", "Memory", "moto + boto3", 100, faster=True),
    Target(8, "put", "Memory", "moto + boto3", 60, faster=True),
    Target(8, "query of 100,", "Memory", "moto + boto3", 100, faster=True),
    Target(8, "query of 100,", "Memory", "dynalite + boto3", 12, faster=True),
    Target(9, "get", "Memory", "dict + SortedDict", 4),
    Target(9, "put", "Memory", "dict + SortedDict", 4),
    Target(9, "query of 100,", "Memory", "dict + SortedDict", 1.6),
    Target(10, "get", "Memory", SMALLEST, 2),
    Target(10, "query of 100,", "Memory", SMALLEST, 1.5),
    Target(10, "memory", "Memory", JSON, 2.2),
    Target(11, "put", "LocalFile", "append + fdatasync", 2, clock="wall"),
    Target(11, "batch", "LocalFile", "append + fdatasync", 0.2, clock="wall"),
    # Exactly one a commit; the checkpoints of the write-ahead log add one now and then.
    Target(11, "syncs", "LocalFile", None, 1.05, least=1),
    Target(12, "get", "LocalFile", "sqlite3", 2),
    Target(12, "reopen", "LocalFile", None, 20),
    Target(13, "fresh process", "import odm", "import pydantic", 2),
    Target(13, "fresh process", "one odm entity", "one pydantic model", 2),
    # Of CPU time, which varies by a fifth on a busy machine. In instructions (cachegrind) they are 2.0, 2.4 and 2.7;
    # the goal is 1.5 for the import and 2 up to the first get on Memory.
    Target(13, "programs", programs.IMPORT, programs.PYDANTIC, 1.6),
    Target(13, "programs", programs.MEMORY, programs.PYDANTIC, 2),
    Target(13, "programs", programs.DYNAMODB, programs.PYDANTIC, 2.4),
    Target(13, "one of twenty", "compile an entity, with its first put and get", None, 1),
    # 3 of about 75 microseconds.
    Target(14, "set_ of", rules.LIMITED, rules.FREE, 1.04),
    *(Target(15, call, call, calls.GET, most) for call, most in calls.TARGETS.items()),
    *(Target(15, native, native, calls.GET, most) for native, (_, _, most) in calls.NATIVE.items()),
)

BENCHMARK: Final = Benchmark(
    module="benchmarks.engine",
    title="The bundled engine next to its peers",
    text=__doc__,
    entries=ENTRIES,
    sections={
        "operations": operations,
        "memory": memory,
        "syncs": syncs,
        "startup": startup,
        "rules": rules.rows,
        "calls": calls.rows,
        "native": calls.native_rows,
    },
    targets=TARGETS,
    columns=(
        "Memory",
        "LocalFile",
        "dynamoxy",
        "dynalite + boto3",
        "moto + boto3",
        "PynamoDB + moto",
        "dict + SortedDict",
    ),
    packages=(
        "pydantic",
        "pydantic-core",
        "sortedcontainers",
        "attrs",
        "msgspec",
        "boto3",
        "moto",
        "pynamodb",
        "dynamoxy",
    ),
    sizes=(10_000, 100_000, 1_000_000),
    rounds=9,
    more={"sqlite": sqlite3.sqlite_version, "dynalite": DYNALITE},
)

if __name__ == "__main__":
    BENCHMARK.main()
