"""Many threads that increment one field of an index key of one item: ``python -m benchmarks.contention``.

Such an increment reads the item, and writes on the condition that it is unchanged. The peer is such a loop on boto3,
which pauses as botocore does after a throttled request to DynamoDB: up to 50 ms, twice as long after each failure, at
random. Prints Markdown on stdout; what is being done goes to stderr.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from attrs import frozen

from benchmarks.command import Benchmark, Run, say
from benchmarks.dynamodb.crowds import Turn, threads
from benchmarks.report import Row, Target
from benchmarks.services import Speaking
from benchmarks.stand_in import StandIn, dynamodb
from odm import AccessPattern, Backend, Entity, PrimaryKey, Store, Table, increment
from odm.backends.local import LocalFile, Memory
from tests import dynoxide

THREADS: Final = 32

WHAT: Final = f"{THREADS} threads increment a field of an index key of one item"

table = Table("contention")

Increment: TypeAlias = Callable[[], object]


class Job(Entity, table=table):
    """A job."""

    name: str
    level: int = 0

    primary = PrimaryKey("JOB#{name}", "DATA")
    by_level = AccessPattern("LEVEL", "{level}")


@frozen
class Place:
    """Where the item is stored. ``opened``: makes the function that increments it, from the server's address."""

    name: str
    server: StandIn | None
    opened: Callable[[str], AbstractContextManager[Increment]]

    @contextmanager
    def at(self) -> Iterator[Increment]:
        """The increment of the item, on a new table."""
        server = self.server
        serving = nullcontext("") if server is None else server.running(server.found())
        with serving as address, self.opened(address) as add:
            yield add


@contextmanager
def _odm(backend: Backend) -> Iterator[Increment]:
    with Store(table, backend) as db:
        db.create()
        db.put(Job(name="a"))
        yield lambda: db.update(Job.primary(name="a"), increment(Job.level))


def _served(address: str) -> AbstractContextManager[Increment]:
    return _odm(dynamodb(address))


@contextmanager
def _in_file(_: str) -> Iterator[Increment]:
    with tempfile.TemporaryDirectory() as folder, _odm(LocalFile(Path(folder, "jobs.db"))) as go:
        yield go


@contextmanager
def _boto3(address: str) -> Iterator[Increment]:
    with Store(table, dynamodb(address)) as db:
        db.create()
    service = Speaking()
    service.endpoint_url = address
    client: Any = service.session().client("dynamodb", endpoint_url=address)
    key = {"pk": {"S": "RAW"}, "sk": {"S": "RAW"}}

    def attributes(level: int) -> dict[str, Any]:
        return {"level": {"N": str(level)}, "by_levelpk": {"S": "LEVEL"}, "by_levelsk": {"S": f"{level:09}"}}

    client.put_item(TableName=table.name, Item=key | attributes(0))

    def add() -> None:
        failures = 0
        while True:
            item = client.get_item(TableName=table.name, Key=key, ConsistentRead=True)["Item"]
            try:
                client.put_item(
                    TableName=table.name,
                    Item=key | attributes(int(item["level"]["N"]) + 1),
                    ConditionExpression="#level = :level",
                    ExpressionAttributeNames={"#level": "level"},
                    ExpressionAttributeValues={":level": item["level"]},
                )
            except client.exceptions.ConditionalCheckFailedException:
                time.sleep(random.uniform(0, min(20, 0.05 * 2 ** min(failures, 10))))
                failures += 1
            else:
                return

    yield add


DYNOXIDE: Final = StandIn("Dynoxide", dynoxide.find, dynoxide.running, dynamodb)

MEMORY, FILE, ODM, BOTO3 = PLACES = (
    Place("odm, Memory", None, lambda _: _odm(Memory())),
    Place("odm, LocalFile", None, _in_file),
    Place("odm, Dynoxide", DYNOXIDE, _served),
    Place("boto3, Dynoxide", DYNOXIDE, _boto3),
)


def crowd(add: Increment, each: int) -> Turn:
    """Let all threads increment the item so many times."""
    return threads(lambda _: add(), [range(each)] * THREADS)


def _increments(run: Run) -> Iterator[Row]:
    crowds = {}
    for place in run.of(PLACES):
        say(place.name)
        with run.excused(place.name), place.at() as add:
            crowds[place.name] = [crowd(add, run.sizes[0]) for _ in range(run.rounds)]
    rates = {name: median(one.rate for one in found) for name, found in crowds.items()}
    tails = {name: median(one.p99 for one in found) for name, found in crowds.items()}
    yield Row(WHAT, "increments a second", rates, f"{WHAT}: increments", shown=True, unit="/s")
    yield Row(WHAT, "latency, p99, ms", tails, f"{WHAT}: p99 latency", shown=True, unit="ms")


SECTIONS: Final[Mapping[str, Callable[[Run], Iterator[Row]]]] = {"increments": _increments}

BENCHMARK: Final = Benchmark(
    module="benchmarks.contention",
    title="Contended writes",
    text=__doc__,
    entries=PLACES,
    sections=SECTIONS,
    targets=[Target(1, f"{WHAT}: p99", ODM.name, BOTO3.name, 1)],
    columns=[place.name for place in PLACES],
    packages=("pydantic", "botocore"),
    sizes=(10,),
    rounds=3,
)

if __name__ == "__main__":
    BENCHMARK.main()
