"""Readings of meters, a table a month: the next table is made ahead, and old months go by dropping their table.

The tables are ``meter-readings-2026-01``, ``meter-readings-2026-02``, … A scheduled function rotates them every night;
here a clock that the example sets moves through half a year.
"""

import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from odm import Backend, BadValue, Entity, PrimaryKey, Table
from odm.backends.dynamodb import Provisioned, TableOptions
from odm.backends.local import LocalFile
from odm.patterns.time_series import SeriesStore, TimeSeries

table = Table("meter-readings")


class Reading(Entity, table=table):
    """What a meter showed at a time."""

    meter: str
    at: datetime
    kwh: float

    primary = PrimaryKey("METER#{meter}", "{at}")  # odm: ignore[missing-ttl]  # old tables are dropped


READINGS = TimeSeries(
    Reading,
    by="at",
    period="month",
    keep=3,
    ahead=1,
    # On DynamoDB. On AWS also table_class="standard_infrequent_access", which no local stand-in has.
    old=TableOptions(Provisioned(read=1, write=1)),
)
FIRST = date(2026, 1, 1)


def readings_of(day: date) -> Iterator[Reading]:
    """Two readings of each of two meters."""
    for hour in (6, 18):
        for number, meter in enumerate(("m1", "m2")):
            at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
            yield Reading(meter=meter, at=at, kwh=day.toordinal() % 7 + hour / 10 + number)


def nightly(db: SeriesStore[Reading], today: date) -> list[str]:
    """What a scheduled function calls; returns the names of the tables that it makes and drops."""
    done = db.rotate(drop=True, now=today)
    return [f"{step.kind} {step.table[-7:]}" for step in done.steps if step.kind in ("create", "drop")]


def half_a_year(db: SeriesStore[Reading], set_clock: Callable[[date], None]) -> list[str]:
    """Rotate each night, and store the readings of every fifth day."""
    log: list[str] = []
    for number in range(0, 180, 5):
        today = FIRST + timedelta(days=number)
        set_clock(today)
        log += nightly(db, today)
        db.put_all(readings_of(today))
    return log


def main(backend: Backend) -> dict[str, list[str]]:
    """Half a year of readings, of which three months are kept."""
    now = [0.0]

    def set_clock(today: date) -> None:
        now[0] = datetime(today.year, today.month, today.day, 3, tzinfo=UTC).timestamp()

    with READINGS.open(backend, clock=lambda: now[0]) as db:
        for month in range(1, 13):  # those of an earlier run
            db.store_of(date(2026, month, 1)).drop()
        answers = {"tables": half_a_year(db, set_clock)}
        spring = Reading.primary(meter="m1").where(
            Reading.at >= datetime(2026, 4, 25, tzinfo=UTC), Reading.at < datetime(2026, 5, 7, tzinfo=UTC)
        )
        answers["across two months"] = [f"{one.at:%d %b %Hh}" for one in db.query(spring)]
        page = db.page(spring.reverse(), size=5)
        rest = db.page(spring.reverse(), size=5, after=page.cursor)
        answers["two pages, newest first"] = [f"{one.at:%d %b %Hh}" for one in (*page.items, *rest.items)]
        newest = db.first(Reading.primary(meter="m2").reverse())
        answers["the newest of m2"] = [] if newest is None else [f"{newest.at:%d %b %Hh}: {newest.kwh}"]
        answers["kept of m1"] = [str(db.count(Reading.primary(meter="m1")))]
        try:
            db.put(Reading(meter="m1", at=datetime(2026, 1, 31, tzinfo=UTC), kwh=1))
        except BadValue as error:
            answers["a late reading of January"] = [str(error).partition("keeps ")[2].partition(":")[0]]
    assert answers == {
        "tables": [
            *(f"create 2026-0{month}" for month in (1, 2, 3, 4, 5)),
            *("drop 2026-01", "create 2026-06", "drop 2026-02", "create 2026-07", "drop 2026-03"),
        ],
        "across two months": ["26 Apr 06h", "26 Apr 18h", "01 May 06h", "01 May 18h", "06 May 06h", "06 May 18h"],
        "two pages, newest first": ["06 May 18h", "06 May 06h", "01 May 18h", "01 May 06h", "26 Apr 18h", "26 Apr 06h"],
        "the newest of m2": ["25 Jun 18h: 6.8"],
        "kept of m1": ["36"],
        "a late reading of January": ["3 periods, now from 2026-04-01 on"],
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "meters.db"))).items():
            print(f"{question}: {', '.join(answer)}")
