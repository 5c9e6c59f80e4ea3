"""How calls are timed: contenders in turns, in one process, so that a busy time affects all of them.

The garbage collector runs as it does in an application. Arguments are made beforehand. Both the CPU time of the process
and the time on the clock are kept; a comparison takes the clock where a contender works outside of the process.
"""

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from statistics import median
from typing import Any, Final, Literal

from attrs import define, field, frozen

Clock = Literal["cpu", "wall"]
Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine in a loop."""

MOST_CALLS: Final = 1000


@define
class Samples:
    """The times of one call of one contender, a round each, in microseconds an item or the unit of their row."""

    clock: Clock
    cpu: list[float] = field(factory=list)
    wall: list[float] = field(factory=list)

    def of(self, clock: Clock) -> list[float]:
        """The times by one clock."""
        return self.wall if clock == "wall" else self.cpu

    @property
    def median(self) -> float:
        """The median by the contender's own clock."""
        return median(self.of(self.clock))


def ratio(over: Samples, under: Samples, clock: Clock) -> float:
    """How many times ``over`` is ``under``: the median of the rounds, each compared within itself."""
    return median(a / b for a, b in zip(over.of(clock), under.of(clock), strict=True))


@frozen
class Racer:
    """A call to be timed.

    Attributes:
        call: takes one argument; a coroutine function if ``run`` is given.
        arguments: makes so many arguments for a turn.
        items: how many items a call counts for.
        run: runs a coroutine of it in its own loop; None where it is not async.
        clock: "wall" if it works outside of this process.
    """

    call: Callable[[Any], Any]
    arguments: Callable[[int, int], Sequence[Any]]
    items: int = 1
    run: Run | None = None
    clock: Clock = "cpu"


def race(racers: Mapping[str, Racer], rounds: int, seconds: float) -> dict[str, Samples]:
    """The times of calls, by contender: each has its turn in each round, of about so many seconds."""
    calls = {who: _calls(racer, seconds) for who, racer in racers.items()}
    samples = {who: Samples(racer.clock) for who, racer in racers.items()}
    for turn in range(rounds):
        for who, racer in racers.items():
            cpu, wall = _timed(racer, racer.arguments(calls[who], turn + 2))
            items = 1e-6 * calls[who] * racer.items
            samples[who].cpu.append(cpu / items)
            samples[who].wall.append(wall / items)
    return samples


def _calls(racer: Racer, seconds: float) -> int:
    """How many calls fill a turn, by a few that also warm up."""
    wall = 0.0
    for tries in (1, 3):
        _, wall = _timed(racer, racer.arguments(tries, 1))
        if wall > seconds:
            return 1
    return max(1, min(MOST_CALLS, int(3 * seconds / wall)))


def _timed(racer: Racer, arguments: Sequence[Any]) -> tuple[float, float]:
    """CPU and wall seconds of calls with these arguments, one after another."""
    call = racer.call
    if racer.run is not None:
        timed: tuple[float, float] = racer.run(_timed_async(call, arguments))
        return timed
    cpu, wall = time.process_time(), time.perf_counter()
    for each in arguments:
        call(each)
    return time.process_time() - cpu, time.perf_counter() - wall


async def _timed_async(call: Callable[[Any], Any], arguments: Sequence[Any]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    for each in arguments:
        await call(each)
    return time.process_time() - cpu, time.perf_counter() - wall
