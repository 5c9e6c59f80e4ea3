"""Concurrent writers and scrubs, one native call at a time, in random order.

Writers stop, answers are lost, calls are applied late. After every call, the entries that items list exist, and
queries of every index are correct; at the end a scrub leaves no other entries.
"""

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from odm.backends.bigtable.client.native import ReadRows
from odm.backends.bigtable.maintenance.scrub import Rules, collect
from odm.errors import OutcomeUnknown, Throttled
from odm.protocol.requests import Request
from tests.backends.bigtable.stopping import LEASE, Scene, Steps, World
from tests.effort import times

pytestmark = pytest.mark.slow

WRITERS = 3
CALLS = 60

REQUESTS: list[Callable[[Scene, Random], Request]] = [
    lambda scene, random: scene.put(random.choice("12"), random.choice(["x", "y", None])),
    lambda scene, random: scene.put(random.choice("12"), random.choice(["x", "y", None])),
    lambda scene, random: scene.put(random.choice("12"), "x", key=scene.other),
    lambda scene, random: scene.insert(random.choice("12"), random.choice(["x", None])),
    lambda scene, random: scene.move(random.choice("123")),
    lambda scene, random: scene.move(random.choice("123")),
    lambda scene, random: scene.touch(random.randrange(9)),
    lambda scene, random: scene.delete(),
    lambda scene, random: scene.delete(),
    lambda scene, random: scene.batch(random.choice("12")),
]


@pytest.fixture(params=["row per item", "row per partition"])
def world(request: pytest.FixtureRequest, bigtable_emulator: str) -> Iterator[World]:
    made = World(bigtable_emulator, wide=request.param == "row per partition")
    yield made
    made.close()


class Crowd:
    """Concurrent writers and a scrub on one scene.

    Attributes:
        writers: the writers, with the time at which each began; their claims are not older.
        late: calls that are not yet applied, with the time at which their writers began.
        scrubber: the running scrub.
    """

    def __init__(self, world: World, random: Random) -> None:
        self.world, self.random = world, random
        self.scene = world.scene()
        self.writers: list[tuple[float, Steps]] = []
        self.late: list[tuple[float, Any]] = []
        self.scrubber: Steps | None = None

    def act(self) -> None:
        """Make one random step."""
        chance = self.random.random()
        if chance < 0.12:
            self.scrub()
        elif chance < 0.17 and self.late:
            self.land(self.random.randrange(len(self.late)))
        elif len(self.writers) < WRITERS and (chance < 0.4 or not self.writers):
            request = self.random.choice(REQUESTS)(self.scene, self.random)
            self.writers.append((time.time(), self.scene.writer(request)))
        elif self.writers:
            self.write(self.random.randrange(len(self.writers)))

    def write(self, number: int) -> None:
        """Let a writer make its next call, with or without an answer, or stop it."""
        began, writer = self.writers[number]
        chance = self.random.random()
        if chance < 0.05:
            del self.writers[number]  # its claims are garbage from now on
            return
        if chance < 0.15:
            performed = self.random.random() < 0.5
            call = writer.lose(performed=performed)
            if not performed and not isinstance(call, ReadRows):
                self.late.append((began, call))
        else:
            writer.step()
        if writer.done:
            assert writer.error is None or isinstance(writer.error, OutcomeUnknown | Throttled)
            del self.writers[number]

    def land(self, number: int) -> None:
        """Apply a call that its writer no longer awaits."""
        _, call = self.late.pop(number)
        self.world.connection.call(call)

    def scrub(self) -> None:
        """Continue the scrub, or begin one when the lease of all writers but the active ones has passed."""
        if self.scrubber is None or self.scrubber.done:
            oldest = min((began for began, _ in (*self.writers, *self.late)), default=time.time())
            cutoff = int(oldest * 1000) / 1000
            rules = Rules(LEASE, clock=lambda: cutoff + LEASE)
            writer = self.world.procedures().writer
            self.scrubber = Steps(self.world, collect(writer, rules, lambda _: None))
        else:
            self.scrubber.step()


@pytest.mark.parametrize("seed", range(times(3, 30)))
def test_writers_and_scrubs_in_random_order(world: World, seed: int) -> None:
    crowd = Crowd(world, Random(seed))
    for _ in range(CALLS):
        crowd.act()
        crowd.scene.check()
    while crowd.late:
        crowd.land(0)
        crowd.scene.check()
    for _, writer in crowd.writers:
        writer.run()
        crowd.scene.check()
    if crowd.scrubber is not None:
        crowd.scrubber.run()
    crowd.scene.check_pages()
    world.scrub()
    crowd.scene.check()
    world.check_scrubbed()
