"""Server metrics: all metrics of a host by time, and the newest of each host, both written by one call.

The row keys are exactly ``server1.bbb.com#1426535612045`` in METRIC and ``server1.bbb.com`` in CURRENT_METRIC. The
newest only moves forward: a metric that arrives late or twice fails the condition, which is not an error.
"""

import csv
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated

from odm import Backend, Columns, ConditionFailed, Entity, PrimaryKey, Store, Table, missing
from odm.backends.local import LocalFile

metrics = Table("METRIC")
newest = Table("CURRENT_METRIC")

Values = Annotated[dict[str, int | float], Columns]


class Metric(Entity, table=metrics):
    """What a host has measured at one time, by the name of the measure."""

    host: str
    at: datetime
    values: Values

    primary = PrimaryKey("{host}", "{at:ms}")  # odm: ignore[missing-ttl]  a TTL field would end it


class CurrentMetric(Entity, table=newest):
    """The newest of a host."""

    host: str
    at: datetime
    values: Values

    primary = PrimaryKey("{host}")


class Recorder:
    """Keeps both tables."""

    def __init__(self, backend: Backend) -> None:
        self.all = Store(metrics, backend)
        self.current = Store(newest, backend)
        for db in (self.all, self.current):
            db.create()

    def record(self, metric: Metric) -> None:
        """Store a metric; if it is the newest of its host, as that too."""
        self.all.put(metric)
        self.forward(metric)

    def forward(self, metric: Metric) -> None:
        """Move the newest of a host forward, in one step; another writer may have been faster."""
        current = CurrentMetric(host=metric.host, at=metric.at, values=metric.values)
        with suppress(ConditionFailed):
            self.current.put(current, when=missing(CurrentMetric.at) | (CurrentMetric.at < metric.at))

    def close(self) -> None:
        """Close both stores."""
        for db in (self.all, self.current):
            db.close()


METRIC = Metric(
    host="server1.bbb.com",
    at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1426535612045),
    values={"CPU/CPU1_USR": 0.02, "CPU/CPU1_NICE": 0.0, "IO/BLK_READ": 253453634, "MIO/BLK_WRTN": 657365234},
)
THERMOMETER = "thermometer.seattle.example"


def read_temperatures(hours: int) -> Iterable[Metric]:
    """The first hours of 2010, read from the file of the package `vega_datasets`: importing it imports pandas."""
    spec = find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise SystemExit("this example needs its data: pip install 'single-table-odm[cli]'")
    with Path(spec.origin).with_name("_data").joinpath("seattle-temps.csv").open(encoding="utf-8", newline="") as lines:
        for row in islice(csv.DictReader(lines), hours):
            at = datetime.strptime(row["date"], "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
            yield Metric(host=THERMOMETER, at=at, values={"AIR/TEMP_F": float(row["temp"])})


def main(backend: Backend) -> dict[str, list[str]]:
    """Store the metrics of two hosts, some of them late and twice, and ask for a day and for the newest."""
    recorder = Recorder(backend)
    recorder.record(METRIC)
    temperatures = list(read_temperatures(240))
    with recorder.all.batch() as batch:
        for metric in temperatures:
            batch.put(metric)
    late = temperatures[-24:] * 2
    Random(1).shuffle(late)
    for metric in late:
        recorder.record(metric)

    day = Metric.primary(host=THERMOMETER).where(
        Metric.at >= datetime(2010, 1, 9, 6, tzinfo=UTC), Metric.at < datetime(2010, 1, 9, 9, tzinfo=UTC)
    )
    answers = {
        "metrics of the thermometer": [str(recorder.all.count(Metric.primary(host=THERMOMETER)))],
        "in a morning": [shown(metric) for metric in recorder.all.query(day)],
        "the newest of each host": sorted(shown(metric) for metric in recorder.current.scan(CurrentMetric)),
    }
    recorder.close()
    return answers


def shown(metric: Metric | CurrentMetric) -> str:
    """A metric as text."""
    values = ", ".join(f"{name} {value}" for name, value in sorted(metric.values.items()))
    return f"{metric.host} {metric.at:%Y-%m-%d %H:%M:%S}: {values}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "metrics.db"))).items():
            print(f"{question}: {'; '.join(answer)}")
