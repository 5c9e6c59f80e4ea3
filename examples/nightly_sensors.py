"""The nightly job of smart meters: the table of a day, derived from the rows of all days, and verified.

By day each reading is merged into the row of its meter and day, ``0000987654#20170726``, with up to 96 columns. At
night `odm.patterns.derive` reads the rows in parts, makes an item of each row of the day for ``SENSOR_20170726``, and
compares both sides by counts and checksums. The job can be killed and started again. Where Apache Beam is installed,
the script derives the table with it too, as Dataflow, Flink or Spark would, and compares the two item by item.
"""

import tempfile
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from odm import Backend, Columns, Entity, PrimaryKey, Store, Table, select, set_
from odm.backends.local import LocalFile
from odm.patterns.derive import derive

sensors, nightly = Table("SENSOR"), Table("SENSOR_20170726")

DAY = date(2017, 7, 26)
KNOWN = {"0000": 12.34, "0015": 13.45, "2330": 27.89, "2345": 28.9}
"""Readings of meter 987654; those between them are on a line."""


class Readings(Entity):
    """What a meter read in a day, by the time of day: "0000", "0015", …, "2345"."""

    meter: Annotated[int, Field(ge=0, lt=10**10)]
    readings: Annotated[dict[str, float], Columns] = Field(default_factory=dict)


class SensorDay(Readings, table=sensors):
    """A day of a meter."""

    day: date

    primary = PrimaryKey("{meter}", "{day:%Y%m%d}")


class Sensor(Readings, table=nightly):
    """A meter in the table of one day."""

    primary = PrimaryKey("{meter}")


ROWS = select(SensorDay).where(SensorDay.day == DAY)
"""The rows of the day: a scan that filters by this condition."""


def sensor(row: SensorDay) -> Sensor:
    """The item that is derived from a row."""
    return Sensor(meter=row.meter, readings=row.readings)


def fill(db: Store) -> None:
    """A day of one meter, quarter by quarter; half an hour of a hundred others; and the next day's first reading."""
    with db.batch() as batch:
        for quarter in range(96):
            time = f"{quarter // 4:02}{quarter % 4 * 15:02}"
            value = KNOWN.get(time, round(13.45 + 14.44 * (quarter - 1) / 93, 2))
            batch.merge(SensorDay.primary(meter=987654, day=DAY), set_(SensorDay.readings[time], value))
        for meter in range(4_000_000_001, 4_000_000_101):
            for time in ("0000", "0015"):
                batch.merge(SensorDay.primary(meter=meter, day=DAY), set_(SensorDay.readings[time], 0.5))
        batch.merge(SensorDay.primary(meter=987654, day=date(2017, 7, 27)), set_(SensorDay.readings["0000"], 29.1))


def main(backend: Backend) -> dict[str, list[str]]:
    """Derive the table of the day, and once more after another program has changed it."""
    with Store(sensors, backend) as source, Store(nightly, backend) as target:
        source.create()
        target.create()
        fill(source)
        night = partial(derive, source, ROWS, into=target, make=sensor, makes=Sensor)
        done = night(replace=True)
        assert done.verified is not None
        assert done.verified.same
        row = source.one(SensorDay, meter=987654, day=DAY)
        assert target.one(Sensor, meter=987654).readings == row.readings
        assert {time: row.readings[time] for time in KNOWN} == KNOWN

        target.delete(Sensor, meter=4_000_000_001)
        target.update(Sensor.primary(meter=987654), set_(Sensor.readings["2345"], 0.0))
        target.put(Sensor(meter=5_000_000_000))
        found = night(write=False).verified
        assert found is not None
        again = night(replace=True)
        assert again.verified is not None
        return {
            "derived": [f"{done.items} items", f"{len(row.readings)} readings of meter {row.meter}"],
            "what another program changed": [str(difference) for difference in found.differences],
            "derived again": [f"{again.items} items, {again.removed} removed, same: {again.verified.same}"],
        }


def open_sensors(file: Path) -> Store:
    """The store of the rows, for a worker of Beam."""
    return Store(sensors, LocalFile(file))


def open_nightly(file: Path, prefix: str = "") -> Store:
    """The store of the day, for a worker of Beam."""
    return Store(nightly, LocalFile(file), prefix=prefix)


def by_beam(file: Path, pipeline: Callable[[], Any] | None = None) -> str:
    """Derive the table with Apache Beam under another prefix, and compare it with the first, item by item.

    Args:
        file: the file on which `main` ran.
        pipeline: makes the pipeline; default: ``beam.Pipeline``, which takes its runner from the command line.
    """
    if find_spec("apache_beam") is None:
        return "Apache Beam is not installed: pip install 'single-table-odm[beam]'"
    from apache_beam import Map, Pipeline  # pyright: ignore[reportMissingImports]

    from odm.beam import Derive

    by_workers = partial(open_nightly, file, "beam-")
    with by_workers() as target, open_nightly(file) as by_hand:
        target.create()
        with (pipeline or Pipeline)() as work:
            _ = work | Derive(partial(open_sensors, file), ROWS, into=by_workers, make=sensor) | Map(print)
        derived = {found.meter: found for found in target.scan(Sensor)}
        assert derived == {found.meter: found for found in by_hand.scan(Sensor)}
        return f"{len(derived)} items, equal to those derived by hand"


def script() -> None:
    """Derive the table of a day in a file, and with Beam."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "sensors.db")
        for step, answer in main(LocalFile(file)).items():
            print(f"{step}: {answer}")
        print(f"with Apache Beam: {by_beam(file)}")


if __name__ == "__main__":
    import_module(Path(__file__).stem).script()  # not __main__: Beam's workers import these functions
