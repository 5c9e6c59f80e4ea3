"""A big scan: several workers read parts of the table concurrently, in small pages, at a limited rate.

A scan uses the same capacity as the application. Small pages and a rate limit leave enough for the application, and
concurrent parts save time. Each part can be read by its own process, which continues from its last cursor after a stop.
"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from odm import Backend, Entity, PrimaryKey, Store, Table
from odm.backends.local import LocalFile

sensors = Table("sensors")


class Reading(Entity, table=sensors):
    """What a sensor has measured."""

    sensor: int
    number: int
    value: float

    primary = PrimaryKey("SENSOR#{sensor}", "{number}")


class Pace:
    """Limits the items per second that all workers read together."""

    def __init__(self, items_per_second: float) -> None:
        self._seconds = 1 / items_per_second
        self._lock = Lock()
        self._free = time.monotonic()

    def take(self, items: int) -> None:
        """Wait until the rate allows what was read."""
        with self._lock:
            self._free = max(self._free, time.monotonic()) + items * self._seconds
            wait = self._free - time.monotonic()
        time.sleep(max(0, wait))


def read_part(db: Store, cursor: str | None, pace: Pace) -> list[float]:
    """All values of a part of the table."""
    values: list[float] = []
    while True:
        page = db.scan_page(cursor, size=50, consistent=False)
        pace.take(len(page.items))
        values += [item.entity.value for item in page.items if isinstance(item.entity, Reading)]
        if (cursor := page.cursor) is None:
            return values


def main(backend: Backend) -> dict[str, float]:
    """Store a thousand readings and average them, at no more than 5,000 a second."""
    with Store(sensors, backend) as db:
        db.create()
        with db.batch() as batch:
            for number in range(1000):
                batch.put(Reading(sensor=number % 20, number=number, value=number / 4))

        started, pace = time.monotonic(), Pace(items_per_second=5000)
        parts = db.parts(4)
        with ThreadPoolExecutor(len(parts)) as workers:
            values = [v for found in workers.map(lambda part: read_part(db, part, pace), parts) for v in found]
        assert time.monotonic() - started >= 1000 / 5000
        # Without a rate limit, one call reads the parts concurrently.
        assert sorted(values) == sorted(reading.value for reading in db.scan(Reading, segments=4))
    answers = {"readings": len(values), "their mean": sum(values) / len(values)}
    assert answers == {"readings": 1000, "their mean": 124.875}
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "sensors.db"))).items():
            print(f"{question}: {answer}")
