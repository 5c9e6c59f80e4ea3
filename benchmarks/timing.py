"""How operations are timed: candidates in turns, in one process, so that a busy time affects all of them.

The garbage collector runs as it does in an application. Arguments are made beforehand. Both the CPU time of the process
and the time on the clock are kept; a comparison takes the clock where a candidate works outside of the process.
"""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from statistics import median
from typing import Any, Final

from attrs import define, field, frozen

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


@frozen
class Racer:
    """A call to be timed.

    Attributes:
        call: takes the number of the call; the coroutine function of an async one.
        items: how many items a call counts for.
        run: runs a coroutine of it in its own loop; None where it is not async.
    """

    call: Callable[[int], Any]
    items: int = 1
    run: Callable[[Coroutine[Any, Any, Any]], Any] | None = None


def race(racers: Mapping[str, Racer], rounds: int, seconds: float) -> dict[str, Samples]:
    """The times of calls, in turns.

    Args:
        racers: who takes part, by name.
        rounds: how often each has its turn.
        seconds: how long a turn takes, about; at least one call.
    """
    calls = {}
    for who, racer in racers.items():
        _timed(racer.call, range(2), racer.run)  # warms up
        _, wall = _timed(racer.call, range(2), racer.run)
        calls[who] = max(1, min(MOST_CALLS, int(2 * seconds / wall)))
    samples = {who: Samples("cpu") for who in racers}
    for _ in range(rounds):
        for who, racer in racers.items():
            cpu, wall = _timed(racer.call, range(calls[who]), racer.run)
            items = 1e-6 * calls[who] * racer.items
            samples[who].cpu.append(cpu / items)
            samples[who].wall.append(wall / items)
    return samples


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
            cpu, wall = _timed_of(candidate, name, arguments)
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
        _, wall = _timed_of(candidate, name, [argument(candidate, name, chosen, 1) for _ in range(tries)])
        if wall > seconds:
            return 1
    return max(1, min(MOST_CALLS, int(3 * seconds / wall)))


def _timed_of(candidate: Candidate, name: Operation, arguments: Sequence[Any]) -> tuple[float, float]:
    method = candidate.operation(name)
    assert method is not None
    return _timed(method, arguments, candidate.run if asyncio.iscoroutinefunction(method) else None)


def _timed(
    method: Callable[[Any], Any], arguments: Sequence[Any], run: Callable[[Coroutine[Any, Any, Any]], Any] | None
) -> tuple[float, float]:
    """CPU and wall seconds of calls with these arguments, one after another."""
    if run is not None:
        timed: tuple[float, float] = run(_times_async(method, arguments))
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
