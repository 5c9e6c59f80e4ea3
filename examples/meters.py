"""Smart meters: one row per meter and day, with a new column every quarter of an hour.

The row keys are exactly ``0000987654#20170726``. A reading is merged into the row, which need not exist, without
reading or rewriting it; a batch merges the readings of a quarter of an hour of many meters. At night a scan copies the
rows of a day to a separate table, ``SENSOR_20170726``, which can be dropped later.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field

from odm import Backend, Columns, Entity, PrimaryKey, Store, Table, Unsupported, set_
from odm.backends.bigtable import Bigtable
from odm.backends.local import LocalFile

meters = Table("meters")


class Readings(Entity):
    """What a meter has read in a day, by the time of day: "0000", "0015", …, "2345"."""

    meter: Annotated[int, Field(ge=0, lt=10**10)]
    readings: Annotated[dict[str, float], Columns] = Field(default_factory=dict)


class MeterDay(Readings, table=meters):
    """A day of a meter."""

    day: date

    primary = PrimaryKey("{meter}", "{day:%Y%m%d}")


def sensors(day: date) -> tuple[Table, type[Readings]]:
    """The table of one day, and the entity in it."""
    table = Table(f"SENSOR_{day:%Y%m%d}")

    class Sensor(Readings, table=table):
        primary = PrimaryKey("{meter}")

    return table, Sensor


DAY = date(2017, 7, 26)
METER = 987654
OTHERS = range(4_000_000_001, 4_000_000_101)
"""A hundred other meters."""

KNOWN = {"0000": 12.34, "0015": 13.45, "2330": 27.89, "2345": 28.9}


def day_of_readings() -> Iterator[tuple[str, float]]:
    """A day's 96 readings: those that the case knows, and a curve between them."""
    for quarter in range(96):
        time = f"{quarter // 4:02}{quarter % 4 * 15:02}"
        yield time, KNOWN.get(time, round(13.45 + (27.89 - 13.45) * (quarter - 1) / 93, 2))


def copy_day(backend: Backend, day: date) -> list[Readings]:
    """Make the table of a day by a scan of all days, and read it."""
    table, sensor = sensors(day)
    with Store(meters, backend) as source, Store(table, backend) as target:
        target.create()
        with target.batch() as batch:
            for found in source.scan(MeterDay, MeterDay.day == day):
                batch.put(sensor(meter=found.meter, readings=found.readings))
        return sorted(target.scan(sensor), key=lambda found: found.meter)


def merge_quarter(db: Store, day: date, time: str, readings: Mapping[int, float]) -> None:
    """Add one reading of each meter, in a batch; on Bigtable thousands of rows are one request."""
    with db.batch() as batch:
        for meter, value in readings.items():
            batch.merge(MeterDay.primary(meter=meter, day=day), set_(MeterDay.readings[time], value))


def main(backend: Backend) -> dict[str, list[float] | list[int] | list[str]]:
    """Read a meter for a day, quarter by quarter, and the others for half an hour; then make the table of the day."""
    with Store(meters, backend) as db:
        db.create()
        for time, value in day_of_readings():
            merge_quarter(db, DAY, time, {METER: value})
        for time, value in (("0000", 0.5), ("0015", 0.75)):
            merge_quarter(db, DAY, time, dict.fromkeys(OTHERS, value))
        merge_quarter(db, date(2017, 7, 27), "0000", {METER: 29.1})
        day = db.one(MeterDay, meter=METER, day=DAY).readings
        other = db.one(MeterDay, meter=OTHERS[-1], day=DAY).readings
        days = [f"{found.day} {len(found.readings)}" for found in db.query(MeterDay.primary(meter=METER))]
    return {
        "the first and the last two": [day[time] for time in KNOWN],
        "days and readings of the meter": days,
        "readings of another meter": [other[time] for time in sorted(other)],
        "meters in the nightly table": [found.meter for found in copy_day(backend, DAY)][:2],
    }


def row() -> list[str]:
    """The row of a day on Bigtable, as ``cbt read`` prints it; this sends nothing."""
    day = MeterDay(meter=METER, day=DAY, readings=KNOWN)
    with Store(meters, Bigtable("my-project", "my-instance")) as db:
        return [line for line in db.explain(day).stored.splitlines()[2:] if line]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "meters.db"))).items():
            print(f"{question}: {answer}")
    with suppress(Unsupported):  # Google's client is not installed
        print(*row(), sep="\n")
