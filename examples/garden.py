"""Garden temperatures, tall and wide: one row per day, or one row per month with a column per day.

The row keys are exactly ``VEGGIEGARDEN#20150301`` and ``VEGGIEGARDEN#201503``, whose columns are ``1`` to ``31``. The
tall form serves any range of days, and its rows never grow. The wide form reads a month as one item, and adds a day
with one request that reads nothing.
"""

import csv
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import Field

from odm import Backend, Columns, Entity, PrimaryKey, Store, Table, Unsupported, between, set_
from odm.backends.bigtable import Bigtable
from odm.backends.local import LocalFile

tall, wide = Table("garden-days"), Table("garden-months")
GARDEN, SEATTLE = "VEGGIEGARDEN", "SEATTLE"
MARCH = {1: 60.4, 2: 61.2, 3: 61.0, 4: 65.1, 5: 62.2, 31: 60.4}


class Day(Entity, table=tall):
    """The temperature of a day."""

    garden: str
    day: date
    temp: float

    primary = PrimaryKey("{garden}", "{day:%Y%m%d}")


class Month(Entity, table=wide):
    """The temperatures of a month by the day."""

    garden: str
    month: date
    temps: Annotated[dict[str, float], Columns] = Field(default_factory=dict)

    primary = PrimaryKey("{garden}", "{month:%Y%m}")


def read_weather() -> Iterator[tuple[date, float]]:
    """Each day of 2012 in Seattle, read from the file of the package `vega_datasets`: importing it imports pandas."""
    spec = find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise SystemExit("this example needs its data: pip install 'single-table-odm[cli]'")
    with Path(spec.origin).with_name("_data").joinpath("seattle-weather.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["date"].startswith("2012"):
                yield date.fromisoformat(row["date"].replace("/", "-")), float(row["temp_max"])


def main(backend: Backend) -> dict[str, list[str]]:
    """Store both gardens in both forms, and query each form for a range of days and for a month."""
    seattle = dict(read_weather())
    months = {day.replace(day=1): Month(garden=SEATTLE, month=day) for day in seattle if day.day == 1}
    for day, temp in seattle.items():
        months[day.replace(day=1)].temps[str(day.day)] = temp
    with Store(tall, backend) as days, Store(wide, backend) as rows:
        for db in (days, rows):
            db.create()
        march = Month.primary(garden=GARDEN, month=date(2015, 3, 1))
        rows.put(Month(garden=GARDEN, month=date(2015, 3, 1)))
        with days.batch() as batch, rows.batch() as whole:
            for number, temp in MARCH.items():
                batch.put(Day(garden=GARDEN, day=date(2015, 3, number), temp=temp))
                rows.update(march, set_(Month.temps[str(number)], temp))  # one request, whatever else is in the row
            for day, temp in seattle.items():
                batch.put(Day(garden=SEATTLE, day=day, temp=temp))
            for month in months.values():
                whole.put(month)

        def temps(garden: str, first: date, last: date) -> list[str]:
            query = Day.primary(garden=garden).where(between(Day.day, first, last))
            return [str(found.temp) for found in days.query(query)]

        july = rows.one(Month, garden=SEATTLE, month=date(2012, 7, 1)).temps
        assert sorted(temps(SEATTLE, date(2012, 7, 1), date(2012, 7, 31))) == sorted(map(str, july.values()))
        assert {int(number): temp for number, temp in rows.one(march).temps.items()} == MARCH
        answers = {
            "tall: first week of March": temps(GARDEN, date(2015, 3, 1), date(2015, 3, 7)),
            "tall: from July to August": temps(SEATTLE, date(2012, 7, 30), date(2012, 8, 2)),
            "wide: days of July, and the warmest": [str(len(july)), str(max(july.values()))],
        }
    assert answers == {
        "tall: first week of March": ["60.4", "61.2", "61.0", "65.1", "62.2"],
        "tall: from July to August": ["19.4", "22.8", "23.9", "23.3"],
        "wide: days of July, and the warmest": ["31", "28.3"],
    }
    return answers


def row() -> list[str]:
    """The row of a month on Bigtable, as ``cbt read`` prints it; this sends nothing."""
    month = Month(garden=GARDEN, month=date(2015, 3, 1), temps={str(day): temp for day, temp in MARCH.items()})
    with Store(wide, Bigtable("my-project", "my-instance")) as db:
        return [line for line in db.explain(month).stored.splitlines()[2:] if line]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "garden.db"))).items():
            print(f"{question}: {', '.join(answer)}")
    with suppress(Unsupported):  # Google's client is not installed
        print(*row(), sep="\n")
