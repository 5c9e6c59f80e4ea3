"""Prove that an application survives a cloud: time, throttling, lost answers, indexes that lag, competitors.

The application sells seats. Its code comes first; each function below it is a test, on the bundled engine in memory.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

from odm import (
    TTL,
    AccessPattern,
    AsyncStore,
    ConditionFailed,
    Entity,
    ItemExists,
    OutcomeUnknown,
    PrimaryKey,
    Store,
    Table,
    Throttled,
    missing,
    set_,
)
from odm.backends.local import Faults, Memory
from odm.testing import Clock

theatre = Table("theatre")
T = TypeVar("T")


class Seat(Entity, table=theatre):
    """A seat of a show, and who bought it."""

    show: str
    number: str
    buyer: str | None = None

    primary = PrimaryKey("SHOW#{show}", "SEAT#{number}")
    by_buyer = AccessPattern("BUYER#{buyer}", "{show}#{number}")


class Hold(Entity, table=theatre):
    """Keeps a seat for a buyer who is still looking for their card; it expires."""

    show: str
    number: str
    holder: str
    until: Annotated[datetime, TTL]

    primary = PrimaryKey("SHOW#{show}", "HOLD#{number}")


def hold(db: Store, show: str, number: str, holder: str, now: datetime) -> bool:
    """Keep a seat for ten minutes; False if another buyer has it."""
    try:
        db.insert(Hold(show=show, number=number, holder=holder, until=now + timedelta(minutes=10)))
    except ItemExists:
        return False
    return True


def buy(db: Store, show: str, number: str, buyer: str) -> bool:
    """Buy a seat; False if another buyer was faster."""
    key = Seat.primary(show=show, number=number)
    try:
        db.update(key, set_(Seat.buyer, buyer), when=missing(Seat.buyer))
    except ConditionFailed:
        return False
    except OutcomeUnknown:  # bought or not? The seat knows
        return db.one(key).buyer == buyer or buy(db, show, number, buyer)
    return True


def patiently(call: Callable[[], T], wait: Callable[[float], object], attempts: int = 4) -> T:
    """The result of a call that is tried again, after longer and longer pauses, while the store throttles it."""
    for attempt in range(1, attempts):
        try:
            return call()
        except Throttled:
            wait(0.1 * 2**attempt)
    return call()


def a_hold_ends() -> list[bool]:
    """A clock that the test moves shows what happens ten minutes later."""
    clock = Clock(datetime(2030, 1, 1, tzinfo=UTC))
    with opened(Memory(clock=clock)) as db:
        first = hold(db, "hamlet", "A1", "ann", clock.now())
        second = hold(db, "hamlet", "A1", "bob", clock.now())
        clock.advance(timedelta(minutes=10))
        third = hold(db, "hamlet", "A1", "bob", clock.now())
    return [first, second, third]


def a_throttled_put_is_tried_again() -> list[float]:
    """The pauses of an application whose put is refused twice."""
    faults, pauses = Faults(), list[float]()
    with opened(Memory(faults=faults)) as db:
        faults.throttle("put", times=2)
        patiently(lambda: db.put(Seat(show="hamlet", number="A2")), pauses.append)
        assert db.exists(Seat, show="hamlet", number="A2")
    return pauses


def a_lost_answer_is_looked_up() -> list[bool]:
    """The application buys each seat once, whether the write arrived or not."""
    faults, bought = Faults(), list[bool]()
    with opened(Memory(faults=faults)) as db:
        for applied in (True, False):
            seat = db.put(Seat(show="hamlet", number=f"A{applied:d}"))
            faults.lose("update", applied=applied)
            bought.append(buy(db, seat.show, seat.number, "ann"))
        assert db.count(Seat.by_buyer(buyer="ann")) == 2
    return bought


def an_index_lags() -> list[int]:
    """What a buyer sees on a page that asks a global index: right away, and two seconds later."""
    clock, seen = Clock(), list[int]()
    with opened(Memory(clock=clock, index_lag=2)) as db:
        db.put(Seat(show="hamlet", number="A1", buyer="ann"))
        seen.append(db.count(Seat.by_buyer(buyer="ann")))
        clock.advance(2)
        seen.append(db.count(Seat.by_buyer(buyer="ann")))
    return seen


def a_competitor_is_faster() -> list[bool]:
    """Bob buys between Ann's click and her write."""
    faults = Faults()
    with opened(Memory(faults=faults)) as db:
        db.put(Seat(show="hamlet", number="A1"))
        faults.before("update", lambda: buy(db, "hamlet", "A1", "bob"))
        ann = buy(db, "hamlet", "A1", "ann")
        return [ann, db.one(Seat, show="hamlet", number="A1").buyer == "bob"]


async def a_slow_store() -> list[str]:
    """An async application that does not wait longer than it wants to."""
    faults = Faults()
    faults.delay("get", 60)
    async with AsyncStore(theatre, Memory(faults=faults)) as db:
        await db.create()
        try:
            async with asyncio.timeout(0.01):
                await db.get(Seat, show="hamlet", number="A1")
        except TimeoutError:
            return ["gave up", *(fault.operation for fault in faults.happened)]
    return []


def opened(backend: Memory) -> Store:
    """A store whose table is there."""
    db = Store(theatre, backend)
    db.create()
    return db


def main() -> dict[str, list[bool] | list[float] | list[int] | list[str]]:
    """Every test, and what it found."""
    return {
        "a hold ends": a_hold_ends(),
        "a throttled put is tried again": a_throttled_put_is_tried_again(),
        "a lost answer is looked up": a_lost_answer_is_looked_up(),
        "an index lags": an_index_lags(),
        "a competitor is faster": a_competitor_is_faster(),
        "a slow store": asyncio.run(a_slow_store()),
    }


if __name__ == "__main__":
    for test, found in main().items():
        print(f"{test}: {found}")
