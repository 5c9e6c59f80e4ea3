"""The page of a video in calls, bytes and time on each backend: ``python -m benchmarks.video``.

Prints Markdown on stdout. What is being done goes to stderr. Bigtable is Google's emulator, once with a row for each
video and once with a row for each item, and DynamoDB is Dynoxide and DynamoDB Local, all found as the tests find them.
A server in between counts the bytes of the connection, headers and framing included and TLS not. Times are measured
without that server. They compare emulators, so only calls and bytes carry over to the services.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Final

from attrs import frozen

from benchmarks import relay
from benchmarks.command import Benchmark, Run, say
from benchmarks.relay import Relay
from benchmarks.report import Row
from benchmarks.stand_in import StandIn, bigtable, dynamodb
from benchmarks.timing import Racer
from benchmarks.video.site import ACTIONS, Action, Layout, Site
from tests import dynamodb_local, dynoxide, emulator

COUNTED: Final = 5
"""Calls whose requests and bytes are counted, after one that opens the connection; their median is shown."""


@frozen
class Server(StandIn):
    """Where videos are stored. ``layout``: of the table, on Bigtable."""

    layout: Layout = "row_per_item"

    @contextmanager
    def at(self, address: str, comments: int) -> "Iterator[Measured]":
        """A new table of videos, on the server at an address."""
        with relay.running(address) as counting:
            direct = Site(self.backend(address), self.layout, comments)
            relayed = Site(self.backend(counting.address), self.layout, comments)
            with direct.db, relayed.db:
                direct.db.create()
                direct.check()
                yield Measured(direct, relayed, counting)
                direct.db.drop()


@frozen
class Measured:
    """One server: the videos on it, directly and through a relay that counts bytes."""

    direct: Site
    relayed: Site
    relay: Relay

    def counted(self, action: Action) -> tuple[float, float]:
        """The native requests of an action, and their bytes and those of the responses."""
        calls, sizes = [], []
        for argument in action.arguments(self.relayed, 1 + COUNTED):
            before = self.relay.counted()
            with self.relayed.db.meter() as used:
                action.call(self.relayed, argument)
            calls.append(used.calls)
            sizes.append(self.relay.counted() - before)
        return median(calls[1:]), median(sizes[1:])

    def racer(self, action: Action) -> Racer:
        """The action, ready to be timed."""
        call, arguments = partial(action.call, self.direct), partial(action.arguments, self.direct)
        return Racer(call, lambda count, edition: arguments(count), clock="wall")


SERVERS: Final = (
    Server("Bigtable, row per partition", emulator.find, emulator.running, bigtable, "row_per_partition"),
    Server("Bigtable, row per item", emulator.find, emulator.running, bigtable),
    Server("DynamoDB (Dynoxide)", dynoxide.find, dynoxide.running, dynamodb),
    Server("DynamoDB (DynamoDB Local)", dynamodb_local.find, dynamodb_local.running, dynamodb),
)


@contextmanager
def _started(run: Run, comments: int) -> Iterator[dict[str, Measured]]:
    """The servers that can run here, each with its videos."""
    with ExitStack() as stack:
        found = {}
        for server in run.of(SERVERS):
            with run.excused(server.name):
                say(f"starting {server.name}")
                address = stack.enter_context(server.running(server.found()))
                found[server.name] = stack.enter_context(server.at(address, comments))
        yield found


def _measured(action: Action, run: Run) -> Iterator[Row]:
    for comments in run.sizes:
        what = action.name.format(f"{comments:,}")
        with _started(run, comments) as found:
            counted = {name: one.counted(action) for name, one in found.items()}
            times = run.race(what, {name: one.racer(action) for name, one in found.items()})
        calls, sizes = ({name: each[part] for name, each in counted.items()} for part in (0, 1))
        yield Row("Calls", what, calls, f"{what}: calls", shown=True, unit="calls")
        yield Row("Bytes", what, sizes, f"{what}: on the wire", shown=True, unit="B")
        yield Row("Microseconds on the clock", what, times, f"{what}: on the clock", shown=True, clock="wall")
        yield Row("Microseconds of CPU of the client", what, times, what, clock="cpu")


SECTIONS: Final[Mapping[str, Callable[[Run], Iterator[Row]]]] = {
    name: partial(_measured, action) for name, action in ACTIONS.items()
}

BENCHMARK: Final = Benchmark(
    module="benchmarks.video",
    title="The page of a video",
    text=__doc__,
    entries=SERVERS,
    sections=SECTIONS,
    targets=[],
    columns=[server.name for server in SERVERS],
    packages=("pydantic", "google-cloud-bigtable", "grpcio", "pyqwest", "botocore"),
    sizes=(500,),
    turn=60,
)

if __name__ == "__main__":
    BENCHMARK.main()
