"""Many gets at once: in threads for what is sync, in tasks for what is async.

Each worker waits for its answer before it asks again, so a request waits for about as many others as there are
workers. Latencies are those that a worker sees. Times are on the clock.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from statistics import median
from typing import Any, Final

from attrs import frozen

from benchmarks.contender import Contender
from benchmarks.timing import Samples

A_SECOND: Final = 70_000
"""So many requests are made for a second of a turn; they take much longer, so there are fewer turns than elsewhere."""

FEWER: Final = 3


@frozen
class Turn:
    """What one turn of a contender took, in seconds.

    Attributes:
        latencies: of each request.
        wall: from the first request to the last answer.
        cpu: CPU time of this process meanwhile.
    """

    latencies: Sequence[float]
    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.wall

    @property
    def p99(self) -> float:
        """The milliseconds that one request in a hundred takes longer than."""
        return 1000 * sorted(self.latencies)[math.ceil(0.99 * len(self.latencies)) - 1]


def measured(contenders: Mapping[str, Contender], at_once: int, rounds: int, seconds: float) -> dict[str, list[Turn]]:
    """The turns of each contender, after one that opens the connections."""
    each = max(1, int(seconds * A_SECOND) // at_once)
    found: dict[str, list[Turn]] = {name: [] for name in contenders}
    for contender in contenders.values():
        turn(contender, at_once, each)
    for _ in range(max(1, rounds // FEWER)):
        for name, contender in contenders.items():
            found[name].append(turn(contender, at_once, each))
    return found


def turn(contender: Contender, at_once: int, each: int) -> Turn:
    """Let so many workers ask for so many orders each."""
    get: Any = contender.call("get")
    shares = [[(worker * each + n) % contender.page.size for n in range(each)] for worker in range(at_once)]
    found: Turn = threads(get, shares) if contender.run is None else contender.run(_tasks(get, shares))
    return found


def threads(call: Callable[[int], Any], shares: Sequence[Sequence[int]]) -> Turn:
    """Let a thread for each share make its calls, all from the same instant on."""
    ready = threading.Barrier(len(shares) + 1)

    def work(share: Sequence[int]) -> list[float]:
        ready.wait()
        latencies = []
        for number in share:
            begun = time.perf_counter()
            call(number)
            latencies.append(time.perf_counter() - begun)
        return latencies

    with ThreadPoolExecutor(len(shares)) as pool:
        workers = [pool.submit(work, share) for share in shares]
        ready.wait()
        cpu, wall = time.process_time(), time.perf_counter()
        latencies = [latency for worker in workers for latency in worker.result()]
        return Turn(latencies, time.perf_counter() - wall, time.process_time() - cpu)


async def _tasks(get: Callable[[int], Any], shares: Sequence[Sequence[int]]) -> Turn:
    async def work(share: Sequence[int]) -> list[float]:
        latencies = []
        for number in share:
            begun = time.perf_counter()
            await get(number)
            latencies.append(time.perf_counter() - begun)
        return latencies

    cpu, wall = time.process_time(), time.perf_counter()
    found = await asyncio.gather(*map(work, shares))
    return Turn([latency for each in found for latency in each], time.perf_counter() - wall, time.process_time() - cpu)


def rates(found: Mapping[str, Sequence[Turn]]) -> dict[str, float]:
    """Requests a second, by contender."""
    return {name: median(each.rate for each in turns) for name, turns in found.items()}


def tails(found: Mapping[str, Sequence[Turn]]) -> dict[str, float]:
    """The latencies of the slowest hundredth, in milliseconds, by contender."""
    return {name: median(each.p99 for each in turns) for name, turns in found.items()}


def costs(found: Mapping[str, Sequence[Turn]]) -> dict[str, Samples]:
    """The microseconds that a request takes, by contender."""

    def samples(turns: Sequence[Turn]) -> Samples:
        counts = [1e-6 * len(each.latencies) for each in turns]
        pairs = list(zip(turns, counts, strict=True))
        return Samples("cpu", [each.cpu / count for each, count in pairs], [each.wall / count for each, count in pairs])

    return {name: samples(turns) for name, turns in found.items()}


def allow_connections() -> None:
    """Let this process, and those that it starts, open as many files as the system allows: connections are files."""
    _, most = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (most, most))
