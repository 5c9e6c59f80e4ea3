"""Current metrics of all hosts: the newest metrics of each host as a copy, all of them in one query.

Each put stores a metric in the history of its host, and as the host's current one if it is the newest. Agents send late
and twice, and in any order: a late metric never replaces a newer one. The copies of all hosts are one partition,
sharded by host, so the page that shows 100,000 hosts reads no history.
"""

import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from odm import Backend, Entity, PrimaryKey, Shards, Store, Table
from odm.backends.local import LocalFile
from odm.patterns.bulk_load import bulk_load
from odm.patterns.current import Current

fleet = Table("fleet", transactions=True)


class Metric(Entity, table=fleet):
    """What a host has measured at one time."""

    host: str
    at: datetime
    cpu: float
    disk: int

    primary = PrimaryKey("HOST#{host}", "{at:ms}")  # odm: ignore[missing-ttl]  a TTL field would end it
    current = Current("CURRENT", "{host}", shards=Shards(4, by="host"))


START = datetime(2026, 11, 27, 8, tzinfo=UTC)


def metrics(hosts: int, rounds: int) -> Iterable[Metric]:
    """Metrics of hosts every five seconds."""
    random = Random(1)
    for n in range(rounds):
        for host in range(hosts):
            at = START + timedelta(seconds=5 * n)
            cpu = round(random.random(), 2)
            yield Metric(host=f"server{host}.example.com", at=at, cpu=cpu, disk=random.randrange(100))


def main(backend: Backend) -> dict[str, list[str]]:
    """Load what the hosts have sent, store late and repeated metrics, and show the current ones."""
    sent = list(metrics(6, 4))
    late = sent[:6] + sent[-3:] * 2
    Random(2).shuffle(late)
    with Store(fleet, backend) as db:
        db.create()
        db.run(bulk_load(sent[6:-3], new=True))
        for metric in late:
            db.put(metric)
        newest = list(db.query(Metric.current.all()))
        busy = list(db.query(Metric.current.all().where(Metric.current.entity.cpu > 0.5)))
        one = db.one(Metric.current(host="server3.example.com"))
        history = db.count(Metric.primary(host="server3.example.com"))
    assert [copy.at for copy in newest] == [START + timedelta(seconds=15)] * 6
    return {
        "current": [shown(copy) for copy in newest],
        "busy": [copy.host for copy in busy],
        "server 3": [shown(one), f"{history} metrics"],
    }


def shown(metric: Metric) -> str:
    """A metric as text."""
    return f"{metric.host} {metric.at:%H:%M:%S} cpu {metric.cpu} disk {metric.disk}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "fleet.db"))).items():
            print(f"{question}: {'; '.join(answer)}")
