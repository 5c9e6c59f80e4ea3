"""Transactions in a wide row, stopped after any call, overtaken, or unanswered: they are applied whole, or not."""

from collections.abc import Callable, Iterator
from itertools import product

import pytest

from odm.backends.bigtable.client.native import CheckAndMutateRow
from odm.errors import BadValue, OutcomeUnknown, Unsupported
from odm.expressions.nodes import Append, Compare, Const, Path, Set
from odm.immutable import evolve
from odm.protocol.predicates import ABSENT, EXISTS
from odm.protocol.requests import Check, Delete, Put, Refusals, Refused, Request, Transact, Update, Written
from odm.schema.entity import Key
from tests.backends.bigtable.stopping import Scene, Steps, World

pytestmark = [pytest.mark.one_of(4), pytest.mark.slow]

Make = Callable[[Scene], Request]


def both(scene: Scene) -> Transact:
    """Put one item, and another one."""
    return Transact((scene.put("2", "x"), scene.put("2", "y", key=scene.other)))


def moved(scene: Scene) -> Transact:
    """Remove the item that exists, and insert the other."""
    return Transact((Delete(scene.key, EXISTS), scene.put("2", "y", key=scene.other, when=ABSENT)))


def checked(scene: Scene) -> Transact:
    """Change the item if the other does not exist."""
    return Transact((scene.move("2"), Check(scene.other, ABSENT)))


def removed(scene: Scene) -> Transact:
    """Remove both."""
    return Transact((Delete(scene.key), Delete(scene.other)))


FIRST: dict[str, Make] = {
    "both": both,
    "both of two": both,
    "moved": moved,
    "checked": checked,
    "removed": removed,
}
"""What the transaction does. One item exists before, with the keys 1 and x, or two."""
SECOND: dict[str, tuple[Make, ...]] = {
    "nobody": (),
    "a put": (lambda scene: scene.put("3", "z"),),
    "an insert of the other": (lambda scene: scene.put("3", "z", key=scene.other),),
    "a delete": (lambda scene: scene.delete(),),
    "the same": (lambda scene: scene.put("1", "x"),),
    "a transaction": (lambda scene: Transact((scene.put("3"), scene.put("3", key=scene.other))),),
}


@pytest.fixture
def world(bigtable_emulator: str) -> Iterator[World]:
    made = World(bigtable_emulator, wide=True)
    yield made
    made.close()


def begun(world: World, first: str) -> tuple[Scene, Steps]:
    scene = world.scene()
    scene.do(scene.put("1", "x"))
    if first == "both of two":
        scene.do(scene.put("1", "y", key=scene.other))
    return scene, scene.writer(FIRST[first](scene))


def items(scene: Scene) -> dict[Key, str]:
    """The items of the scene: the values of their attribute a."""
    return {key: str(held.item["a"]) for key, held in scene.world.items(scene.part)}


def outcomes(world: World, first: str, second: str) -> list[dict[Key, str]]:
    """The values after both writers in either order, and after only the second, by key of an equal scene."""
    found: list[dict[Key, str]] = []
    for order in ("first", "second", "only"):
        scene, writer = begun(world, first)
        if order == "first":
            writer.run()
        for make in SECOND[second]:
            scene.do(make(scene))
        if order == "second":
            scene.do(FIRST[first](scene))
        found.append({Key("S", key.sort): value for key, value in items(scene).items()})
    return found


cases = pytest.mark.parametrize(("first", "second"), [*product(FIRST, SECOND)])


@cases
def test_stopped_or_overtaken_after_any_call(world: World, first: str, second: str) -> None:
    allowed = outcomes(world, first, second)
    scene, writer = begun(world, first)
    for made, goes_on in product(range(writer.run().calls), (False, True)):
        scene, writer = begun(world, first)
        writer.run(made)
        scene.check()
        for make in SECOND[second]:
            scene.do(make(scene))
            scene.check()
        if goes_on:
            writer.run()
            scene.check()
            assert writer.error is None
        assert {Key("S", key.sort): value for key, value in items(scene).items()} in allowed
    scene.check_pages()
    world.scrub()
    world.check_scrubbed()


@pytest.mark.parametrize("performed", [True, False], ids=["applied", "not applied"])
@cases
def test_an_answer_that_is_lost(world: World, first: str, second: str, performed: bool) -> None:
    allowed = outcomes(world, first, second)
    scene, writer = begun(world, first)
    for made in range(writer.run().calls):
        scene, writer = begun(world, first)
        writer.run(made).lose(performed=performed)
        for make in SECOND[second]:
            scene.do(make(scene))
            scene.check()
        writer.run()
        scene.check()
        assert writer.error is None or isinstance(writer.error, OutcomeUnknown)
        assert {Key("S", key.sort): value for key, value in items(scene).items()} in allowed
    world.scrub()
    world.check_scrubbed()


def to_commit(writer: Steps) -> Steps:
    """Let a writer make its calls up to the next commit."""
    while not isinstance(writer.pending, CheckAndMutateRow):
        writer.step()
    return writer


def test_commits_that_were_lost_need_not_have_had_the_same_items(world: World) -> None:
    scene = world.scene()
    writer = to_commit(scene.writer(Transact((scene.put("2"), Delete(scene.other)))))
    writer.lose(performed=False)  # the other item did not exist
    scene.do(scene.put("1", key=scene.other))
    to_commit(writer).lose(performed=True)
    writer.run()
    assert (writer.error, writer.answer) == (None, Written())
    assert items(scene) == {scene.key: "2"}
    scene.check()
    world.scrub()
    world.check_scrubbed()
    scene.check()


def test_a_lost_transaction_that_must_not_be_applied_twice(world: World) -> None:
    """The lost commit may be applied, and its items deleted, before the next commit."""
    scene = world.scene()
    once = evolve(scene.put("2", when=ABSENT), once=True)
    writer = to_commit(scene.writer(Transact((once, scene.put("2", key=scene.other, when=ABSENT)))))
    writer.lose(performed=False)
    writer.run()
    assert isinstance(writer.error, OutcomeUnknown)


def test_a_predicate_that_is_too_large_is_refused_before_anything_is_written(world: World) -> None:
    scene = world.scene()
    keys = [Key(scene.part, f"{number:03}" + "i" * 600) for number in range(30)]
    puts = (Put(key, {"_t": "T", "a": "1"}, scene.entries({"a": "1"}), ABSENT) for key in keys)
    with pytest.raises(Unsupported, match="20 KB"):
        scene.do(Transact(tuple(puts)))
    assert world.columns(scene.part) == set()


def test_each_operation_has_its_reason(world: World) -> None:
    scene = world.scene()
    scene.do(scene.put("1"))
    other = Update(scene.other, (Set(Path(("a",)), "2"),), condition=EXISTS)
    assert scene.do(Transact((scene.put("2", when=ABSENT), other))) == Refusals(
        (Refused({"_t": "T", "a": "1"}), Refused(None))
    )
    appended = Update(scene.key, (Append(Path(("a",)), ("x",)),), condition=EXISTS)
    refusals = scene.do(Transact((appended, scene.put("2", key=scene.other))))
    assert isinstance(refusals.reasons[0], BadValue)
    assert refusals.reasons[1] is None
    assert items(scene) == {scene.key: "1"}


def test_checks_alone_are_one_read(world: World) -> None:
    scene = world.scene()
    scene.do(scene.put("1"))
    is_1 = Compare("=", Path(("a",)), Const("1"))
    writer = scene.writer(Transact((Check(scene.key, is_1), Check(scene.other, ABSENT)))).run()
    assert (writer.calls, writer.answer) == (1, Written())


def test_a_hundred_items_are_one_mutation(world: World) -> None:
    scene = world.scene()
    keys = [Key(scene.part, f"i{number:03}") for number in range(100)]
    writer = scene.writer(Transact(tuple(Put(key, {"_t": "T", "a": "1"}, condition=ABSENT) for key in keys))).run()
    assert (writer.calls, writer.answer) == (2, Written())
    writer = scene.writer(Transact(tuple(Update(key, (Set(Path(("a",)), "2"),), {}, EXISTS) for key in keys))).run()
    assert (writer.calls, writer.answer) == (2, Written())
    assert [*items(scene).values()] == ["2"] * 100


def test_keys_that_are_too_long_for_one_predicate(world: World) -> None:
    scene = world.scene()
    puts = (Put(Key(scene.part, f"{number:03}" + "i" * 600), {"_t": "T"}, condition=ABSENT) for number in range(30))
    with pytest.raises(Unsupported, match="20 KB"):
        scene.do(Transact(tuple(puts)))


def test_items_of_two_partitions_are_refused(world: World) -> None:
    one, two = world.scene(), world.scene()
    with pytest.raises(Unsupported, match="one row at a time"):
        one.do(Transact((one.put("1"), two.put("1"))))
