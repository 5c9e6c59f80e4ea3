"""Batches of several requests at once, and of merges: an error of one request loses nothing of the others."""

import asyncio
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from odm import AsyncStore, BackendError, ItemInvalid, ItemTooLarge, Store, Throttled, set_
from odm.backends.local import Faults, Memory
from odm.testing.bridge import blocking
from odm.testing.merging import Day, TheirDay, days, their_days

MONDAY = date(2024, 1, 1)


def key(number: int) -> Any:
    return Day.primary(meter=f"{number:03}", day=MONDAY)


def day(number: int, **fields: Any) -> Day:
    return Day(meter=f"{number:03}", day=MONDAY, **fields)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture(params=["sync", "async"])
def db(request: pytest.FixtureRequest, faults: Faults) -> Iterator[Store]:
    backend = Memory(faults=faults)
    with asyncio.Runner() as runner:
        store = Store(days, backend) if request.param == "sync" else blocking(AsyncStore(days, backend), runner)
        store.create()
        yield store
        store.close()


def send(db: Store, left: Any, parallel: int = 1) -> None:
    """Send entries as an error's ``left`` has them."""
    with db.batch(parallel=parallel) as batch:
        for entry in left:
            if isinstance(entry, Day):
                batch.put(entry)
            elif isinstance(entry, tuple):
                batch.merge(*entry)
            else:
                batch.delete(entry)


def test_left_has_what_any_request_did_not_apply(db: Store, faults: Faults) -> None:
    send(db, [day(n) for n in range(100, 130)])
    faults.throttle("batch", on=key(10), done=3, times=1)
    faults.throttle("batch", on=key(110), done=0, times=1)
    faults.throttle("batch", on=key(210), done=None, times=1)
    entries = [
        *(day(n, note="put") for n in range(30)),
        *(key(n) for n in range(100, 130)),
        *((key(n), set_(Day.note, "merged")) for n in range(200, 240)),
    ]
    with pytest.raises(Throttled, match="3 requests") as raised:
        send(db, entries, parallel=4)
    left = raised.value.left
    assert 0 < len(left) < len(entries)
    assert set(map(str, left)) < set(map(str, entries))
    send(db, left)
    assert {int(found.meter): found.note for found in db.scan(Day)} == {
        **dict.fromkeys(range(30), "put"),
        **dict.fromkeys(range(200, 240), "merged"),
    }


def test_a_failure_comes_with_what_was_throttled(db: Store, faults: Faults) -> None:
    faults.fail("batch", on=key(0), times=1)
    faults.throttle("batch", on=key(60), done=0, times=1)
    with pytest.raises(BackendError, match="the service failed") as raised:
        send(db, [day(n) for n in range(75)], parallel=3)
    assert [one.meter for one in raised.value.left] == [f"{n:03}" for n in (*range(25), *range(50, 75))]
    assert len(list(db.scan())) == 25
    send(db, raised.value.left)
    assert len(list(db.scan())) == 75


def test_a_put_with_a_merge_is_left_as_both(db: Store, faults: Faults) -> None:
    faults.throttle("batch", done=0, times=1)
    entries = [day(1), (key(1), set_(Day.readings["a"], 1.0)), (key(2), set_(Day.note, "n"))]
    with pytest.raises(Throttled) as raised:
        send(db, entries[:2])
    assert list(raised.value.left) == entries[:2]
    faults.throttle("batch", done=0, times=1)
    with pytest.raises(Throttled) as raised:
        send(db, entries[2:])
    assert list(raised.value.left) == entries[2:]


def test_an_item_of_another_program_keeps_nothing_else_from_being_merged(db: Store) -> None:
    with Store(their_days, db.backend) as theirs:
        theirs.put(TheirDay(meter="001", day=MONDAY))
        with pytest.raises(ItemInvalid, match="TheirDay") as raised:
            send(db, [(key(n), set_(Day.note, "n")) for n in range(3)])
        assert raised.value.left == ()
        assert theirs.get(TheirDay, meter="001", day=MONDAY) == TheirDay(meter="001", day=MONDAY)
        with pytest.raises(ItemInvalid, match="TheirDay"):
            send(db, [*map(day, range(100)), *map(key, range(100, 110))], parallel=4)
        assert db.get_many([key(0), key(2), key(3), key(99)]) == [day(0, note="n"), day(2, note="n"), None, None]


def test_an_item_that_becomes_too_large_keeps_nothing_else_from_being_merged(db: Store) -> None:
    db.put(day(1, note="x" * 300_000))
    with pytest.raises(ItemTooLarge) as raised:
        send(db, [(key(n), set_(Day.place, {"a": "y" * 200_000})) for n in range(3)])
    assert [entry[0] for entry in raised.value.left] == [key(1)]
    assert [found.meter for found in db.scan(Day) if found.place] == ["000", "002"]
    with pytest.raises(ItemTooLarge):
        db.merge(key(1), set_(Day.place, {"a": "y" * 200_000}))


def test_many_merges_are_sent_before_the_block_ends(db: Store, faults: Faults) -> None:
    with db.batch() as batch:
        for n in range(110):
            batch.merge(key(n), *(set_(Day.readings[str(at)], 1.0) for at in range(96)))
        assert len(list(db.scan())) == 105
    assert len(list(db.scan())) == 110


def test_a_merge_uses_the_write_units_of_an_update() -> None:
    with Store(days, Memory()) as db:
        db.create()
        with db.meter() as meter:
            db.merge(key(1), set_(Day.note, "n"))
            with db.batch() as batch:
                batch.merge(key(1), set_(Day.note, "m"))
                batch.merge(key(2), set_(Day.note, "m"))
        assert (meter.calls, meter.write_units, meter.read_units) == (2, 3.0, 0.0)
