"""How operations are timed: candidates in turns, in one process, so that a busy moment falls on all of them.

The garbage collector runs as it does in an application. Arguments are made beforehand. Both the CPU time of the process
and the time on the clock are kept; a comparison takes the clock where a candidate works outside of the process.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

from attrs import define, field

from benchmarks.candidates import TRANSACTED, Candidate, Clock, Operation

BATCH: Final = 100
MOST_CALLS: Final = 1000
SEED: Final = 20260105


@define
class Samples:
    """The times of one operation of one candidate, a round each, in microseconds an item."""

    clock: Clock
    cpu: list[float] = field(factory=list)
    wall: list[float] = field(factory=list)

    def of(self, clock: Clock) -> list[float]:
        """The times by one clock."""
        return self.wall if clock == "wall" else self.cpu

    @property
    def median(self) -> float:
        """The median by the candidate's own clock."""
        return median(self.of(self.clock))


def ratio(over: Samples, under: Samples, clock: Clock = "cpu") -> float:
    """How many times ``over`` is ``under``: the median of the rounds, each compared within itself.

    Args:
        over: the times above the line.
        under: the times below it.
        clock: by which; the wall's where one of them has no other.
    """
    by: Clock = "wall" if "wall" in (clock, over.clock, under.clock) else "cpu"
    return median(a / b for a, b in zip(over.of(by), under.of(by), strict=True))


def measure(candidates: dict[str, Candidate], name: Operation, rounds: int, seconds: float) -> dict[str, Samples]:
    """The times of one operation.

    Args:
        candidates: those that have it, by name.
        name: the operation.
        rounds: how often each has its turn.
        seconds: how long a turn takes, about; at least one call.
    """
    chosen = random.Random(SEED)
    calls = {who: _calls(candidate, name, chosen, seconds) for who, candidate in candidates.items()}
    samples = {who: Samples(candidate.clock) for who, candidate in candidates.items()}
    for turn in range(rounds):
        for who, candidate in candidates.items():
            arguments = [argument(candidate, name, chosen, turn + 2) for _ in range(calls[who])]
            cpu, wall = _timed(candidate, name, arguments)
            items = 1e-6 * len(arguments) * items_in(name)
            samples[who].cpu.append(cpu / items)
            samples[who].wall.append(wall / items)
    return samples


def items_in(name: Operation) -> int:
    """How many items a call of the operation counts for."""
    return {"batch": BATCH, "transact": TRANSACTED}.get(name, 1)


def argument(candidate: Candidate, name: Operation, chosen: random.Random, edition: int) -> Any:
    """What a call of the operation takes: a number, an order, or several."""
    if name in ("batch", "transact"):
        numbers = chosen.sample(range(candidate.size), min(items_in(name), candidate.size))
        return [candidate.order(number, edition) for number in numbers]
    number = chosen.randrange(candidate.size)
    return candidate.order(number, edition) if name == "put" else number


def _calls(candidate: Candidate, name: Operation, chosen: random.Random, seconds: float) -> int:
    """How many calls fill a turn, by a few that also warm up."""
    wall = 0.0
    for tries in (1, 3):
        _, wall = _timed(candidate, name, [argument(candidate, name, chosen, 1) for _ in range(tries)])
        if wall > seconds:
            return 1
    return max(1, min(MOST_CALLS, int(3 * seconds / wall)))


def _timed(candidate: Candidate, name: Operation, arguments: Sequence[Any]) -> tuple[float, float]:
    """CPU and wall seconds of calls with these arguments, one after another."""
    method = candidate.operation(name)
    assert method is not None
    if asyncio.iscoroutinefunction(method):
        timed: tuple[float, float] = candidate.run(_times_async(method, arguments))
        return timed
    cpu, wall = time.process_time(), time.perf_counter()
    for each in arguments:
        method(each)
    return time.process_time() - cpu, time.perf_counter() - wall


async def _times_async(method: Callable[[Any], Any], arguments: Sequence[Any]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    for each in arguments:
        await method(each)
    return time.process_time() - cpu, time.perf_counter() - wall
