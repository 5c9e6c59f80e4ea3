"""Who runs against whom, on the emulator and on a server that packs rows."""

import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any, Final

from attrs import Factory, define, frozen

from benchmarks.bigtable import server
from benchmarks.bigtable.contender import Call, Contender
from benchmarks.bigtable.ours import AsyncOdm, Odm, OdmRows
from benchmarks.bigtable.readings import fields
from benchmarks.bigtable.vendor import AsyncData, Data, DataModels
from benchmarks.timing import Racer, Samples, race
from tests import emulator

CONTENDERS: Final[Mapping[str, Callable[[str, int], Contender]]] = {
    "odm": Odm,
    "odm, rows": OdmRows,
    "data client": Data,
    "data client + Pydantic": DataModels,
    "odm, async": AsyncOdm,
    "data client, async": AsyncData,
}
"""By the names that tables show."""

RACES: Final[Mapping[Call, str]] = {
    "get": "point read",
    "put": "single write",
    "batch": "bulk write of {} rows, a row",
    "scan": "scan of {} rows, a row",
}
PACKED: Final = ("scan",)
"""Calls that go to the server that packs rows; the others go to the emulator."""


@frozen
class Settings:
    """What to measure, and how long.

    Attributes:
        calls: of `RACES`.
        size: rows of a scan and of a bulk write.
        rounds: how often each contender has its turn.
        seconds: how long a turn takes, about.
    """

    calls: Sequence[Call]
    size: int
    rounds: int
    seconds: float


@define
class Figures:
    """What a run found.

    Attributes:
        size: rows of a scan and of a bulk write.
        times: microseconds a row, by call and contender.
    """

    size: int
    times: dict[Call, dict[str, Samples]] = Factory(dict)

    def as_json(self) -> dict[str, Any]:
        """Everything, for a program to read; times are medians."""
        return {
            "rows": self.size,
            "microseconds": {
                call: {who: {"cpu": median(s.cpu), "wall": median(s.wall)} for who, s in times.items()}
                for call, times in self.times.items()
            },
        }


def measure(settings: Settings) -> Figures:
    """Measure all that is asked for.

    Raises:
        EmulatorMissing: there is no emulator, which all but scans need.
    """
    # The data client logs at each retry that it has no exporter for metrics on an emulator.
    logging.getLogger("google.cloud.bigtable").setLevel(logging.CRITICAL)
    figures = Figures(settings.size)
    with ExitStack() as stack:
        if any(call not in PACKED for call in settings.calls):
            address = stack.enter_context(emulator.running(emulator.find(os.environ)))
            _races(settings, figures, address, [call for call in settings.calls if call not in PACKED])
        if any(call in PACKED for call in settings.calls):
            address = stack.enter_context(server.running())
            _races(settings, figures, address, [call for call in settings.calls if call in PACKED])
    return figures


def _races(settings: Settings, figures: Figures, address: str, calls: Sequence[Call]) -> None:
    """Fill a server, and race on it."""
    expected = [fields(number) for number in range(settings.size)]
    with ExitStack() as stack:
        found: dict[str, Contender] = {}
        for name, kind in CONTENDERS.items():
            contender = kind(address, settings.size)
            stack.callback(contender.close)
            if isinstance(contender, Odm):
                contender.fill(create=calls != list(PACKED))
            contender.check(expected, calls)
            found[name] = contender
        for call in calls:
            sys.stderr.write(f"... {call}\n")
            gc.collect()
            gc.freeze()  # what was made at the start is nobody's to collect
            figures.times[call] = race(_racers(found, call), settings.rounds, settings.seconds)


def _racers(found: Mapping[str, Contender], call: Call) -> dict[str, Racer]:
    racers = {who: contender.racer(call) for who, contender in found.items()}
    return {who: racer for who, racer in racers.items() if racer is not None}
