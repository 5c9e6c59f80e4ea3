"""Copies of the newest item: every order of the requests of several writers, and declarations that are not valid."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from types import new_class
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from odm import AccessPattern, BadValue, Entity, PrimaryKey, SchemaError, Store, Stored, Table, Unsupported
from odm import set_ as set_to
from odm.backends.local import Memory
from odm.extend import Calls, Gen
from odm.patterns.current import Current
from tests.effort import times
from tests.patterns.interleaving import Crowd, OneByOne, Program, every_order, random_order, stored_by

states = Table("states")


class State(Entity, table=states):
    device: str
    number: int
    text: str = ""

    primary = PrimaryKey("DEVICE#{device}", "{number}")
    newest = Current("NEWEST#{device}")


def write(number: int, text: str, do: Calls) -> Gen[Any]:
    return (yield from do.put(State(device="d", number=number, text=text)))


def change(number: int, text: str, do: Calls) -> Gen[Any]:
    return (yield from do.update(State.primary(device="d", number=number), set_to(State.text, text)))


def read(do: Calls) -> Gen[Any]:
    return (yield from do.get(State.newest(device="d")))


def refresh(do: Calls) -> Gen[Any]:
    return (yield from State.newest.refresh(device="d")(do))


def written(numbers: str, do: Calls) -> Gen[None]:
    for number in numbers:
        yield from do.put(State(device="d", number=int(number), text="old"))


def left_behind(do: Calls) -> Gen[None]:
    """A copy that an interrupted writer left behind its item."""
    yield from written("25", do)
    yield from do.put(State.newest.copy(State(device="d", number=2, text="old")))


CROWDS: dict[str, tuple[Program, Sequence[Program]]] = {
    "two firsts": (partial(written, ""), (partial(write, 3, "x"), partial(write, 4, "y"))),
    "newer and late": (partial(written, "4"), (partial(write, 3, "x"), partial(write, 5, "y"))),
    "one item twice": (partial(written, "4"), (partial(write, 5, "x"), partial(write, 5, "y"))),
    "put and update of the newest": (partial(written, "5"), (partial(write, 5, "x"), partial(change, 5, "y"))),
    "update of an older one": (partial(written, "45"), (partial(change, 4, "x"), partial(write, 6, "y"))),
    "read and newer": (left_behind, (read, partial(write, 6, "y"))),
    "read and update": (left_behind, (read, partial(change, 5, "y"))),
    "refresh and newer": (left_behind, (refresh, partial(write, 6, "y"))),
    "two reads": (left_behind, (read, read)),
}


def newest(crowd: Crowd) -> State | None:
    return crowd.store.first(State.primary(device="d").reverse())


def copied(crowd: Crowd) -> Any:
    copy = crowd.store.get(State.newest.all(device="d"))
    return None if copy is None else State(**vars(copy))


def check(crowd: Crowd, *, stopped: bool) -> None:
    """No copy is of the future; when no writer was stopped, the copy is of the newest item; a read repairs it."""
    if not stopped:
        assert copied(crowd) == newest(crowd)
    found = crowd.store.run(read)
    assert found == newest(crowd)
    assert copied(crowd) == newest(crowd)


@pytest.fixture
def make() -> Callable[..., Callable[[], Crowd]]:
    def of(before: Program, *programs: Program) -> Callable[[], Crowd]:
        stored = stored_by(states, before)
        return lambda: Crowd(states, stored, programs)

    return of


@pytest.mark.parametrize("name", CROWDS)
def test_every_order(name: str, make: Any) -> None:
    before, programs = CROWDS[name]
    seen = set()
    for crowd in every_order(make(before, *programs)):
        if (crowd.stored, bool(crowd.at_work)) not in seen:
            seen.add((crowd.stored, bool(crowd.at_work)))
            check(crowd, stopped=bool(crowd.at_work))
    assert len(seen) > 2


@pytest.mark.parametrize("seed", range(3))
def test_many_in_random_order(seed: int, make: Any) -> None:
    random = Random(seed)
    for _ in range(60):
        programs = [partial(random.choice([write, change]), random.randrange(3, 8), text) for text in "vwxyz"]
        crowd = make(partial(written, "34567"), *programs, read)()
        for _ in random_order(crowd, random):
            pass
        check(crowd, stopped=True)


@settings(max_examples=times(50, 500))
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.sampled_from(["put", "update", "delete"]))))
@pytest.mark.parametrize("together", [True, False])
def test_the_copy_is_that_of_a_model(together: bool, writes: list[tuple[str, int, str]]) -> None:
    backend = Memory()
    db = Store(states, backend if together else OneByOne(backend))
    db.create()
    items: dict[tuple[str, int], State] = {}
    model: dict[str, State] = {}
    for place, (device, number, kind) in enumerate(writes):
        item = State(device=device, number=number, text=str(place))
        if kind == "delete":
            db.delete(item)
            items.pop((device, number), None)
            if number == 5:
                refreshed = db.run(State.newest.refresh(device=device))
                own = {at: one for (its, at), one in items.items() if its == device}
                left = own[max(own)] if own else None
                assert refreshed == left
                model.pop(device, None)
                model |= {} if left is None else {device: left}
            continue
        if kind == "update" and (device, number) in items:
            db.update(item, set_to(State.text, item.text))
        else:
            db.put(item)
        items[device, number] = item
        if device not in model or model[device].number <= number:
            model[device] = item
    copies = {copy.device: State(**vars(copy)) for copy in db.scan(State.newest.entity)}
    assert copies == model
    if together:
        assert {device: db.get(State.newest(device=device)) for device in model} == model


def entity(current: Current, key: tuple[str, str] = ("DEVICE#{device}", "{at}#{probe}"), **patterns: Any) -> Any:
    body = {
        "__module__": __name__,
        "__annotations__": {"device": str, "at": int, "probe": int, "tags": list[str], "room": str},
        "primary": PrimaryKey(*key),
        "newest": current,
        **patterns,
    }
    return new_class("Probe", (Entity,), {"table": Table("probes")}, lambda names: names.update(body))


@pytest.mark.parametrize(
    ("current", "said"),
    [
        (Current("ROOM#{room}", by="at"), "'room' is not in the primary key .*: its copies have keys of these fields"),
        (Current("NEWEST#{device}"), "whose highest value is the newest: at, probe is left"),
        (Current("NEWEST#{device}", by="room"), "for a field outside of the primary key use odm.patterns.pointer"),
        (Current("NEWEST#{device}#{at}#{probe}"), "whose highest value is the newest: none is left"),
    ],
)
def test_a_wrong_declaration(current: Current, said: str) -> None:
    with pytest.raises(SchemaError, match=rf"Probe\.newest = Current\(.*{said}"):
        entity(current).__odm_table__.compile()


def test_without_transactions_a_pattern_finds_the_newest() -> None:
    current = Current("NEWEST#{device}", by="at")
    probe = entity(current, ("DEVICE#{device}", "{probe}#{at}"))
    backend = OneByOne(Memory())
    with pytest.raises(Unsupported, match=r'add by_at = AccessPattern\("NEWEST#{device}", "{at}#{probe}"\)'):
        Store(probe.__odm_table__, backend).create()
    with Store(probe.__odm_table__, Memory()) as db:
        db.create()
        db.put(probe(device="d", at=1, probe=2, tags=[], room="r"))
        with pytest.raises(Unsupported, match="refresh: no pattern finds the newest item: add by_at"):
            db.run(probe.newest.refresh(device="d"))
    better = entity(Current("NEWEST#{device}", by="at"), by_at=AccessPattern("AT#{device}", "{at}#{probe}"))
    Store(better.__odm_table__, backend).create()


optionals = Table("optional")


class Optional(Entity, table=optionals):
    """Fields that may be None, with and without a default."""

    name: str
    number: int
    required: str | None
    given: Annotated[int | None, Field(ge=0)] = 3
    none: Annotated[str, Stored("n")] | None = None
    made: list[str] | None = Field(default_factory=list)

    primary = PrimaryKey("OPTIONAL#{name}", "{number}")
    newest = Current("NEWEST#{name}")


def test_fields_may_be_none_in_a_copy_as_in_its_item() -> None:
    with Store(optionals, Memory()) as db:
        db.create()
        for number, item in enumerate(
            (
                Optional(name="a", number=1, required=None, given=None, none=None, made=None),
                Optional(name="a", number=2, required="r", given=5, none="n", made=["m"]),
                Optional(name="a", number=3, required=None),
            )
        ):
            db.put(item)
            assert db.get(Optional.newest(name="a")) == item, number


def test_wrong_keys_are_refused() -> None:
    with pytest.raises(BadValue, match="device"):
        State.newest()
    with pytest.raises(BadValue, match="name"):
        State.newest(name="d")


def test_it_prints_as_it_is_declared() -> None:
    assert repr(Current("A#{x}", by="at")) == 'Current("A#{x}", by="at")'
    assert repr(State.newest) == "State.newest"
    assert str(State.newest(device="d")).startswith("State.newest(device='d'")
