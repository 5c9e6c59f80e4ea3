"""The targets of the bundled engine, and how a run stands to them.

Each is a ratio to a peer or to a floor of the same run, or a limit. Times are CPU time of the process where nothing
else is said; what is durable, and what another process answers, is by the clock.
"""

from collections.abc import Iterator
from statistics import median
from typing import Final

from attrs import frozen

from benchmarks.candidates import Clock
from benchmarks.results import Results
from benchmarks.sections import scaled_name
from benchmarks.timing import Samples, ratio


@frozen
class Target:
    """A ratio of two candidates in one operation.

    Attributes:
        row: its number in the list of targets.
        operation: which.
        ours: the candidate that has to be fast.
        peer: the one it is compared with.
        bound: how many times faster than the peer at least, or how many times slower at most.
        faster: which of the two.
        clock: whose time.
    """

    row: int
    operation: str
    ours: str
    peer: str
    bound: float
    faster: bool = False
    clock: Clock = "cpu"


TARGETS: Final = (
    Target(8, "get", "Memory", "moto + boto3", 100, faster=True),
    Target(8, "put", "Memory", "moto + boto3", 60, faster=True),
    Target(8, "query", "Memory", "moto + boto3", 100, faster=True),
    Target(8, "query", "Memory", "dynalite + boto3", 12, faster=True),
    Target(9, "get", "Memory", "dict + SortedDict", 4),
    Target(9, "put", "Memory", "dict + SortedDict", 4),
    Target(9, "query", "Memory", "dict + SortedDict", 1.6),
    Target(11, "put", "LocalFile", "append + fdatasync", 2, clock="wall"),
    Target(11, "batch", "LocalFile", "append + fdatasync", 0.2, clock="wall"),
    Target(12, "get", "LocalFile", "sqlite3", 2),
)
FLAT: Final = {"get": 2.0, "query": 1.5}
MEMORY_RATIO: Final = 2.2
SYNCS: Final = (1.0, 1.05)
"""Exactly one a commit; the checkpoints of the write-ahead log add one now and then."""
REOPEN_MS: Final = 20
IMPORT_RATIO: Final = 2.0
COMPILE_MS: Final = 1.0


@frozen
class Verdict:
    """One target and what the run found, as texts to print."""

    row: int
    what: str
    ours: str
    other: str
    ratio: str
    target: str
    hit: bool


def judge(results: Results) -> list[Verdict]:
    """The verdicts on all targets that the run has figures for, in order."""
    found = [*_compared(results), *_flat(results), *_sizes(results), *_file(results), *_start(results)]
    return sorted(found, key=lambda verdict: verdict.row)


def _compared(results: Results) -> Iterator[Verdict]:
    for size, by_name in results.operations.items():
        for target in TARGETS:
            times = by_name.get(target.operation, {})
            if target.ours in times and target.peer in times:
                what = f"{target.operation}, {size:,} items"
                yield against(target, what, times[target.ours], times[target.peer])


def against(target: Target, what: str, ours: Samples, peer: Samples) -> Verdict:
    """How the two of a target stand in what was measured."""
    over, under = (peer, ours) if target.faster else (ours, peer)
    times = ratio(over, under, target.clock)
    clock: Clock = "wall" if "wall" in (target.clock, ours.clock, peer.clock) else "cpu"
    return Verdict(
        target.row,
        f"{what}: {target.ours} / {target.peer} ({clock})",
        f"{median(ours.of(clock)):,.1f} us",
        f"{median(peer.of(clock)):,.1f} us",
        f"{times:.2f}x" if times < 10 else f"{times:.0f}x",
        f"{'>=' if target.faster else '<='} {target.bound:g}x{' faster' if target.faster else ''}",
        times >= target.bound if target.faster else times <= target.bound,
    )


def _flat(results: Results) -> Iterator[Verdict]:
    """The largest size next to the smallest, in turns."""
    if len(results.operations) < 2:
        return
    small, *_, large = sorted(results.operations)
    for name, bound in FLAT.items():
        times = results.operations[large][name]
        ours, other = times.get("Memory"), times.get(scaled_name(small))
        if ours is not None and other is not None:
            grown = ratio(ours, other)
            what = f"{name}, Memory: {large:,} / {small:,} items"
            texts = (f"{ours.median:,.1f} us", f"{other.median:,.1f} us", f"{grown:.2f}x", f"<= {bound:g}x")
            yield Verdict(10, what, *texts, grown <= bound)


def _sizes(results: Results) -> Iterator[Verdict]:
    for size, by_name in results.memory.items():
        if "Memory" in by_name:
            times = by_name["Memory"] / results.json
            texts = (f"{by_name['Memory']:,.0f} B", f"{results.json:,.0f} B", f"{times:.2f}x", f"<= {MEMORY_RATIO:g}x")
            yield Verdict(10, f"memory an item, {size:,} items: Memory / JSON", *texts, times <= MEMORY_RATIO)


def _file(results: Results) -> Iterator[Verdict]:
    if "LocalFile" in results.syncs:
        syncs = results.syncs["LocalFile"]
        yield Verdict(11, "syncs a durable put: LocalFile", f"{syncs:.2f}", "", "", "1", SYNCS[0] <= syncs <= SYNCS[1])
    for size, taken in results.reopen.items():
        what = f"reopen {size:,} items to the first answer: LocalFile"
        yield Verdict(12, what, f"{taken:.1f} ms", "", "", f"<= {REOPEN_MS} ms", taken <= REOPEN_MS)


def _start(results: Results) -> Iterator[Verdict]:
    figures = results.startup
    if not figures:
        return
    for ours, other in (("import odm", "import pydantic"), ("one odm entity", "one pydantic model")):
        times = figures[ours] / figures[other]
        texts = (f"{figures[ours]:.0f} ms", f"{figures[other]:.0f} ms", f"{times:.2f}x", f"<= {IMPORT_RATIO:g}x")
        yield Verdict(13, f"fresh process: {ours} / {other}", *texts, times <= IMPORT_RATIO)
    made = figures["class of an entity"]
    taken = figures["compile an entity"] + figures["first put and get of an entity"]
    texts = (f"{taken:.2f} ms", f"{made:.2f} ms", f"{taken / made:.2f}x", f"<= {COMPILE_MS:g} ms")
    yield Verdict(13, "compile an entity, with its first put and get / make its class", *texts, taken <= COMPILE_MS)
