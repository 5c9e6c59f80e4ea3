"""Writers that stop after any native call, lose any answer, or are overtaken: the index protocol.

Every case runs the real procedures on the emulator. After each step, queries of every index are correct,
and at the end a scrub leaves exactly the entries that items list.
"""

from collections.abc import Callable, Iterator
from itertools import product

import pytest

from odm.backends.bigtable.client.native import MutateRows
from odm.errors import OutcomeUnknown
from odm.protocol.requests import Request
from tests.backends.bigtable.stopping import Scene, Steps, World

pytestmark = [pytest.mark.one_of(18, 2), pytest.mark.slow]


Make = Callable[[Scene], Request]

FIRST: dict[str, tuple[bool, Make]] = {
    "put of a new item": (False, lambda scene: scene.put("2", "y")),
    "put, keys changed": (True, lambda scene: scene.put("2", "y")),
    "put, one key changed, one gone": (True, lambda scene: scene.put("2")),
    "put, keys unchanged": (True, lambda scene: scene.put("1", "x")),
    "insert": (False, lambda scene: scene.insert("2", "y")),
    "insert where an item is": (True, lambda scene: scene.insert("2", "y")),
    "update, keys changed": (True, lambda scene: scene.move("2")),
    "update of nothing": (False, lambda scene: scene.move("2")),
    "update outside the keys": (True, lambda scene: scene.touch()),
    "delete": (True, lambda scene: scene.delete()),
    "delete of nothing": (False, lambda scene: scene.delete()),
    "batch": (True, lambda scene: scene.batch("2")),
}
"""What the writer does, and whether the item exists before, with the keys 1 and x."""

SECOND: dict[str, tuple[Make, ...]] = {
    "nobody": (),
    "a put, other keys": (lambda scene: scene.put("3", "z"),),
    "a put, the same keys": (lambda scene: scene.put("2", "y"),),
    "an update": (lambda scene: scene.move("3"),),
    "an update outside the keys": (lambda scene: scene.touch(2),),
    "a delete": (lambda scene: scene.delete(),),
    "another item": (lambda scene: scene.put("2", "y", key=scene.other),),
    "away and back": (lambda scene: scene.put("3", "z"), lambda scene: scene.put("1", "x")),
    "a delete and a put": (lambda scene: scene.delete(), lambda scene: scene.put("1", "x")),
}
"""What a second writer does in between."""


@pytest.fixture(params=["row per item", "row per partition"])
def world(request: pytest.FixtureRequest, bigtable_emulator: str) -> Iterator[World]:
    made = World(bigtable_emulator, wide=request.param == "row per partition")
    yield made
    made.close()


def begun(world: World, first: str) -> tuple[Scene, Steps]:
    """A scene with a writer that has not made a call yet."""
    there, make = FIRST[first]
    scene = world.scene()
    if there:
        scene.do(scene.put("1", "x"))
    return scene, scene.writer(make(scene))


def overtake(scene: Scene, second: str) -> None:
    """Let the second writer finish."""
    for make in SECOND[second]:
        scene.do(make(scene))
        scene.check()


def calls_of(world: World, first: str) -> int:
    """How many calls the write makes without disturbance."""
    return begun(world, first)[1].run().calls


def ended(scene: Scene, writer: Steps) -> None:
    """Let the writer finish."""
    writer.run()
    scene.check()
    assert writer.error is None or isinstance(writer.error, OutcomeUnknown)


def finished(world: World, *scenes: Scene) -> None:
    """After a scrub, only listed entries are left, and queries find all of them."""
    for scene in scenes:
        scene.check_pages()
    world.scrub()
    world.check_scrubbed()
    for scene in scenes:
        scene.check()


cases = pytest.mark.parametrize(("first", "second"), [*product(FIRST, SECOND)])


@cases
def test_a_writer_that_stops_after_any_call(world: World, first: str, second: str) -> None:
    scene = world.scene()
    for made in range(calls_of(world, first) + 1):
        scene, writer = begun(world, first)
        writer.run(made)
        scene.check()
        overtake(scene, second)
    finished(world, scene)


@cases
def test_a_writer_that_is_overtaken_between_any_two_calls(world: World, first: str, second: str) -> None:
    scene = world.scene()
    for made in range(calls_of(world, first)):
        scene, writer = begun(world, first)
        writer.run(made)
        overtake(scene, second)
        ended(scene, writer)
        assert writer.error is None
        assert world.columns(scene.part) == world.listed(scene.part)  # and a scrub would find no garbage
    finished(world, scene)


@pytest.mark.parametrize("performed", [True, False], ids=["applied", "not applied"])
@cases
def test_an_answer_that_is_lost(world: World, first: str, second: str, performed: bool) -> None:
    scene = world.scene()
    for made in range(calls_of(world, first)):
        scene, writer = begun(world, first)
        writer.run(made).lose(performed=performed)
        scene.check()
        overtake(scene, second)
        ended(scene, writer)
    finished(world, scene)


LATE = ("put of a new item", "put, keys changed", "insert", "update, keys changed", "delete", "batch")
MEANWHILE = ("nobody", "a put, other keys", "a put, the same keys", "an update outside the keys", "a delete")


@pytest.mark.parametrize(("first", "second"), [*product(LATE, MEANWHILE)])
def test_a_call_that_is_applied_late(world: World, first: str, second: str) -> None:
    """Its answer was lost, and it is applied at any later time: before, between and after the next calls."""
    scene = world.scene()
    for made in range(calls_of(world, first)):
        landed = False
        moment = 0
        while not landed:
            scene, writer = begun(world, first)
            held = writer.run(made).lose(performed=False)
            overtake(scene, second)
            writer.run(moment)
            landed = writer.done
            world.connection.call(held)
            scene.check()
            ended(scene, writer)
            moment += 1
    finished(world, scene)


@pytest.mark.parametrize(("first", "second"), [*product(LATE, MEANWHILE)])
def test_a_claim_or_cleaning_that_is_applied_twice(world: World, first: str, second: str) -> None:
    """The second time is at the end."""
    scene = world.scene()
    for made in range(calls_of(world, first)):
        scene, writer = begun(world, first)
        again = writer.run(made).step()
        if isinstance(again, MutateRows):
            overtake(scene, second)
            ended(scene, writer)
            world.connection.call(again)
            scene.check()
    finished(world, scene)


@pytest.mark.parametrize("first", FIRST)
def test_each_write_without_disturbance(world: World, first: str) -> None:
    """The write is applied; or its outcome is unknown, if it is conditional and the row does not show it."""
    scene, writer = begun(world, first)
    before, after = scene.item, (writer.run(), scene.item)[1]
    for made, performed in product(range(writer.calls), [True, False]):
        scene, writer = begun(world, first)
        writer.run(made).lose(performed=performed)
        ended(scene, writer)
        assert scene.item in ([after] if writer.error is None else [before, after])
        assert writer.error is None or first in ("update outside the keys", "insert where an item is")
