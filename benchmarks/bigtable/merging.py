"""Merges of cells next to Google's batcher: a row for each meter and day, a column for each quarter of an hour."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import date
from random import Random
from time import time_ns
from typing import Annotated, Any, Final

from google.cloud.bigtable.data import BigtableDataClient, Mutation, RowMutationEntry, SetCell
from pydantic import Field

from benchmarks.contender import SEED
from benchmarks.libraries.data_client import emulator as only_emulator
from benchmarks.timing import Racer
from odm import Columns, Entity, PrimaryKey, Store, Table, set_
from odm.backends.bigtable import Bigtable

BATCHER: Final = "data client, batcher"
DAY: Final = date(2026, 1, 5)
QUARTERS: Final = tuple(f"{quarter // 4:02}{quarter % 4 * 15:02}" for quarter in range(96))

meters = Table("merged-meters")

Readings = list[tuple[int, list[tuple[str, float]]]]
"""The readings of meters: the time of day and the value of each."""


class MeterDay(Entity, table=meters):
    """A day of a meter."""

    meter: Annotated[int, Field(ge=0, lt=10**10)]
    day: date
    readings: Annotated[dict[str, float], Columns] = Field(default_factory=dict)

    primary = PrimaryKey("{meter}", "{day:%Y%m%d}")


def readings(rows: int, cells: int, edition: int) -> Readings:
    """So many meters, each with as many readings."""
    chosen = Random(SEED + edition)
    start = chosen.randrange(96 - cells + 1)
    names = QUARTERS[start : start + cells]
    return [(meter, [(name, chosen.randrange(10_000) / 100) for name in names]) for meter in range(rows)]


def with_odm(store: Store, parallel: int = 1) -> Callable[[Readings], None]:
    """Merges with a batch of odm."""

    def merge(given: Readings) -> None:
        with store.batch(parallel=parallel) as batch:
            for meter, values in given:
                key = MeterDay.primary(meter=meter, day=DAY)
                batch.merge(key, *[set_(MeterDay.readings[name], value) for name, value in values])

    return merge


def with_batcher(client: BigtableDataClient) -> Callable[[Readings], None]:
    """Sets the same cells with Google's batcher."""
    table = client.get_table("instance", meters.name)

    def write(given: Readings) -> None:
        with table.mutations_batcher() as batcher:
            for meter, values in given:
                now = time_ns() // 1_000_000 * 1000
                cells: list[Mutation] = [
                    SetCell("d", f"readings#{name}", str(value).encode(), now) for name, value in values
                ]
                batcher.append(RowMutationEntry(f"{meter:010}#{DAY:%Y%m%d}", cells))

    return write


def racers(stack: ExitStack, address: str, rows: int, cells: int) -> Iterator[tuple[str, Racer]]:
    """What is measured, on an emulator; the time is that of a cell."""

    def arguments(count: int, edition: int) -> Sequence[Readings]:
        return [readings(rows, cells, edition + number) for number in range(count)]

    store = stack.enter_context(Store(meters, Bigtable("project", "instance", endpoint=address)))
    store.create()
    with only_emulator(address):
        client = stack.enter_context(BigtableDataClient(project="project"))
    calls: dict[str, Callable[[Readings], Any]] = {"odm": with_odm(store), BATCHER: with_batcher(client)}
    for name, call in calls.items():
        given = readings(rows, cells, 0)
        call(given)
        found = store.get_many([MeterDay.primary(meter=meter, day=DAY) for meter, _ in given])
        assert name != "odm" or [list(one.readings.items()) for one in found if one] == [values for _, values in given]
        yield name, Racer(call, arguments, rows * cells)
