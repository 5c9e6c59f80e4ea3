"""The DynamoDB backend next to its peers, in one run: ``python -m benchmarks.dynamodb``.

Prints Markdown on stdout: the times of every race, and how they stand to the targets. What is being done goes to
stderr. Peers come with ``pip install -e '.[async,bench]'``.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from attrs import evolve

from benchmarks.command import Benchmark, Run, always, say
from benchmarks.contender import Call, Entry
from benchmarks.dynamodb import crowds, encoding, shapes, starts
from benchmarks.dynamodb.answers import Canned, Loopback
from benchmarks.fresh import in_turns, printed
from benchmarks.pages import Page, orders
from benchmarks.report import Row, Target
from benchmarks.services import Service
from benchmarks.timing import Clock, Samples

RESOURCE: Final = "boto3 resource + Pydantic"
CLIENT: Final = "boto3 client + Pydantic"

ENTRIES: Final = (
    Entry("odm", "libraries.ours:Odm"),
    Entry("boto3 resource", "libraries.boto:ResourceDicts"),
    Entry(RESOURCE, "libraries.boto:Resource"),
    Entry(CLIENT, "libraries.boto:Client"),
    Entry("PynamoDB", "libraries.pynamo:Pynamo"),
    Entry("by hand", "dynamodb.floor:ByHand"),
    Entry("odm, async", "libraries.ours:AsyncOdm"),
    Entry("dynamoxy, async", "libraries.dynamoxy_models:Dynamoxy"),
    Entry("pydynox", "libraries.pydynox_models:Pydynox"),
    Entry("pydynox, async", "libraries.pydynox_models:AsyncPydynox"),
)

SYNC: Final = ("odm", "boto3 resource", RESOURCE, CLIENT, "PynamoDB")
"""Those that run over botocore, and so can be answered in this process."""

ASYNC: Final = ("odm, async", "dynamoxy, async", "pydynox", "pydynox, async")

ALL: Final = "all, from the interpreter to the first get"

CROWD: Final = ("odm", CLIENT, "PynamoDB", *ASYNC)
"""Those that may be used by many at once."""

CROWDS: Final = (50, 500)

FEW: Final = 100
"""Items of a page that comes over HTTP."""


NAMES: Final[Mapping[Call, str]] = {"get": "get", "put": "put", "query": f"query of {FEW}, an item"}


def _entries(*names: str) -> list[Entry]:
    return [entry for entry in ENTRIES if entry.name in names]


def _decoded(
    run: Run, section: str, what: str, pages: Sequence[Page], *names: str, shown: bool = False
) -> Iterator[Row]:
    """Decode pages, a race each."""
    for page in pages:
        with run.loaded(_entries(*names), always(page), _canned) as found:
            times = run.calls(page.name, found, "query")
        yield Row(section, page.name, times, what.format(page.name), shown)


def _canned(_: Entry) -> Service:
    return Canned()


def _loopback(_: Entry, connections: int = Loopback.connections) -> Service:
    return Loopback(connections)


def decode(run: Run) -> Iterator[Row]:
    """Decode pages of orders, and of several classes."""
    section, what = "Decode a page, an item: row 1 (microseconds of CPU)", "decode a page of {}, an item"
    yield from _decoded(run, section, what, [orders(size) for size in run.sizes], *SYNC, "by hand", shown=True)
    yield from _decoded(run, section, what, [shapes.three_classes(size) for size in run.sizes], *SYNC, shown=True)


def validators(run: Run) -> Iterator[Row]:
    """Decode orders whose classes take part in their validation."""
    section = "Decode orders whose classes take part in their validation, an item: row 3 (microseconds of CPU)"
    yield from _decoded(run, section, "validators: {}", shapes.validating(run.sizes[0]), "odm", CLIENT, "PynamoDB")


def others(run: Run) -> Iterator[Row]:
    """Decode other shapes."""
    section = "Decode other shapes, an item: row 4 (microseconds of CPU)"
    yield from _decoded(run, section, "shapes: {}", shapes.shapes(run.sizes[0]), "odm", RESOURCE, CLIENT)


def encode(run: Run) -> Iterator[Row]:
    """Make bodies, with nothing sent."""
    page = orders(FEW)
    with run.loaded(_entries("odm", RESOURCE, "PynamoDB"), always(page), _canned) as found:
        racers = {
            who: encoding.racer(page, make(page), found[of])
            for who, (make, of) in encoding.ENCODERS.items()
            if of in found
        }
        times = run.race("encode", racers)
    yield Row("Encode a model: row 5 (microseconds of CPU)", "PutItem", times, "encode a PutItem", shown=True)


def calls(run: Run) -> Iterator[Row]:
    """Single calls, answered in this process."""
    section = "Calls, answered in this process: row 6 (microseconds of CPU)"
    yield from _called(run, section, _entries(*SYNC), _canned, "answered in the process")


def http(run: Run) -> Iterator[Row]:
    """Single calls over HTTP."""
    section = "Calls over HTTP on the loopback: row 6 (microseconds of CPU)"
    entries = [entry for entry in ENTRIES if entry.name != "by hand"]
    rows = list(_called(run, section, entries, _loopback, "over HTTP"))
    for row in rows:
        yield from (row, _on_the_clock(row))


def _on_the_clock(row: Row) -> Row:
    return evolve(row, name=f"{row.name}, on the clock", label=f"{row.label}, on the clock", clock="wall")


def _called(
    run: Run, section: str, entries: Sequence[Entry], service: Callable[[Entry], Service], how: str
) -> Iterator[Row]:
    with run.loaded(entries, always(orders(FEW)), service) as found:
        for call, name in NAMES.items():
            yield Row(section, name, run.calls(how, found, call), f"{name}, {how}", shown=True)


def concurrent(run: Run) -> Iterator[Row]:
    """Many gets at once over HTTP, in threads, or in tasks where async; a pool has a connection for each."""
    crowds.allow_connections()
    for at_once in CROWDS:
        section = f"{at_once} gets at once over HTTP, from a pool of {at_once} connections (on the clock)"
        with run.loaded(_entries(*CROWD), always(orders(FEW)), partial(_loopback, connections=at_once)) as found:
            say(f"{at_once} gets at once")
            turns = crowds.measured(found, at_once, run.rounds, run.seconds)
        label = f"get, {at_once} at once on {at_once} connections"
        yield Row(section, "requests a second", crowds.rates(turns), f"{label}, throughput", shown=True, unit="/s")
        yield Row(section, "latency, p99, ms", crowds.tails(turns), f"{label}, p99 latency", shown=True, unit="ms")
        yield Row(section, "us of CPU a request", crowds.costs(turns), f"{label}, CPU a request")


def start(run: Run) -> Iterator[Row]:
    """From the start of a process to its first item, over HTTP."""
    section = "From the start of a process to its first item, over HTTP (milliseconds of CPU)"
    entries = _entries(*(of for _, of in starts.PROGRAMS.values()))
    with run.loaded(entries, always(orders(FEW)), _loopback) as found:
        say("start")
        urls = {name: found[of].service.endpoint_url for name, (_, of) in starts.PROGRAMS.items() if of in found}
        measured = in_turns({name: partial(started, name, url) for name, url in urls.items()}, run.rounds)
    for step in (*starts.STEPS, ALL):
        times = {
            name: Samples("cpu", [one[step][0] for one in taken], [one[step][1] for one in taken])
            for name, taken in measured.items()
        }
        row = Row(section, step, times, f"start of a process: {step}", shown=True, unit="ms")
        yield from (row, evolve(_on_the_clock(row), shown=step == ALL))


def started(name: str, url: str) -> dict[str, tuple[float, float]]:
    """The milliseconds of each step of a fresh process, of CPU and on the clock."""
    found = printed("-m", "benchmarks.dynamodb.starts", name, url, str(time.time()), variables=starts.ENVIRONMENT)
    steps, before = {}, (0.0, 0.0)
    for line in found.splitlines():
        step, cpu, wall = line.split("\t")
        after = 1000 * float(cpu), 1000 * float(wall)
        steps[step], before = (after[0] - before[0], after[1] - before[1]), after
    return steps | {ALL: before}


CLOCKS: Final[tuple[Clock, ...]] = ("cpu", "wall")

HTTP: Final[Sequence[tuple[Call, str, str]]] = (
    ("get", "odm", "pydynox"),
    ("put", "odm", "pydynox"),
    ("get", "odm, async", "dynamoxy, async"),
    ("get", "odm, async", "pydynox, async"),
    ("put", "odm, async", "dynamoxy, async"),
    ("put", "odm, async", "pydynox, async"),
    ("query", "odm", "dynamoxy, async"),
    ("query", "odm, async", "dynamoxy, async"),
)
"""The calls over HTTP, and the peers that they are held to."""

TARGETS: Final = (
    Target(1, "decode", "odm", RESOURCE, 5.5, faster=True),
    Target(1, "decode", "odm", "PynamoDB", 7, faster=True),
    Target(3, "validators", "odm", "PynamoDB", 5, faster=True),
    Target(4, "shapes", "odm", CLIENT, 6, faster=True),
    Target(5, "encode", "odm", "PynamoDB", 12, faster=True),
    Target(5, "encode", "odm", RESOURCE, 18, faster=True),
    Target(5, "encode", "odm", "Pydantic to_json", 2.5),
    Target(6, "get, answered in the process", "odm", "PynamoDB", 1.6, faster=True),
    Target(6, f"{NAMES['query']}, over HTTP", "odm", RESOURCE, 4.5, faster=True),
    *(
        Target(7, f"{NAMES[call]}, over HTTP", ours, peer, 0.9, clock=clock)
        for call, ours, peer in HTTP
        for clock in CLOCKS
    ),
)

BENCHMARK: Final = Benchmark(
    module="benchmarks.dynamodb",
    title="The DynamoDB backend next to its peers",
    text=__doc__,
    entries=ENTRIES,
    sections={
        "decode": decode,
        "validators": validators,
        "shapes": others,
        "encode": encode,
        "calls": calls,
        "http": http,
        "start": start,
        "concurrent": concurrent,
    },
    targets=TARGETS,
    columns=("odm", "by hand", RESOURCE, CLIENT, "PynamoDB", *ASYNC),
    packages=(
        "pydantic",
        "pydantic-core",
        "boto3",
        "botocore",
        "aiobotocore",
        "httptools",
        "pynamodb",
        "dynamoxy",
        "pydynox",
    ),
    shown=("decode", "encode", "calls", "http", "start", "concurrent"),
)

if __name__ == "__main__":
    BENCHMARK.main()
