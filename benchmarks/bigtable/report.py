"""The figures as Markdown, and how they stand to the targets."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Final

from benchmarks.bigtable.contender import Call
from benchmarks.bigtable.races import CONTENDERS, RACES, Figures
from benchmarks.report import NONE, table, us, verdicts
from benchmarks.results import versions
from benchmarks.targets import Target, Verdict, against
from benchmarks.timing import Samples

PACKAGES: Final = ("pydantic", "pydantic-core", "google-cloud-bigtable", "grpcio", "protobuf")

PEER: Final = "data client"
MODELS: Final = "data client + Pydantic"
TARGETS: Final[Mapping[Call, float]] = {"get": 2, "put": 1.6, "batch": 4, "scan": 2}
"""How many times faster than the vendor's data client, which gives and takes its own rows, odm is with its entities."""


def full(figures: Figures) -> str:
    """Everything that was found."""
    parts = [
        f"# The Bigtable backend next to Google's data client\n\n{_line()}",
        "## Microseconds of CPU\n\n" + _times(figures, "cpu"),
        "## Microseconds on the clock\n\n" + _times(figures, "wall"),
        "## Targets, by CPU\n\n" + verdicts(judge(figures)),
    ]
    return "\n\n".join(parts) + "\n"


def readme(figures: Figures) -> str:
    """The table that the README shows."""
    return _times(figures, "cpu") + "\n\n" + _line() + "\n"


def judge(figures: Figures) -> list[Verdict]:
    """The verdicts on all targets that the run has figures for: against the vendor's own rows, and against models."""
    return list(_judged(figures))


def _judged(figures: Figures) -> Iterator[Verdict]:
    for row, (call, bound) in enumerate(TARGETS.items(), 1):
        times = figures.times.get(call, {})
        for ours, peer in (("odm", PEER), ("odm", MODELS), ("odm, rows", PEER), ("odm, async", f"{PEER}, async")):
            if ours in times and peer in times:
                what = RACES[call].format(figures.size)
                yield against(Target(row, what, ours, peer, bound, faster=True), what, times[ours], times[peer])


def _times(figures: Figures, clock: str) -> str:
    shown = [who for who in CONTENDERS if any(who in times for times in figures.times.values())]
    rows = [
        [RACES[call].format(figures.size), *(_us(times[who], clock) if who in times else NONE for who in shown)]
        for call, times in figures.times.items()
    ]
    return table(["µs", *shown], rows)


def _us(samples: Samples, clock: str) -> str:
    return us(median(samples.cpu if clock == "cpu" else samples.wall))


def _line() -> str:
    return ", ".join(f"{name} {version}" for name, version in versions(PACKAGES).items())
