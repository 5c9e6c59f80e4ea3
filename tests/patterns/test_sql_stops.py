"""Next to SQL: every part may stop after every step, and in the end the rows and the items are the same."""

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from odm import ConditionFailed, ItemNotFound, OdmError, set_
from odm.backends.local import LocalFile
from odm.extend import in_threads
from odm.patterns.sql import Push, ReadThrough
from odm.patterns.sql_push import LEASE
from odm.patterns.two_stores import Pause, Steps, _done
from tests.effort import times
from tests.patterns.sql_shop import Customer, Shop, opened

pytestmark = pytest.mark.slow


class Worker:
    """A program that makes one step at a time, and may be stopped after each."""

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self._answer: Any = None
        self._error: OdmError | None = None
        self.ended = False

    def step(self) -> None:
        """Make the next step; an error of it is raised in the program."""
        try:
            asked = self._steps.send(self._answer) if self._error is None else self._steps.throw(self._error)
        except (StopIteration, OdmError):
            self.ended = True
            return
        self._answer, self._error = None, None
        if isinstance(asked, Pause):
            return
        try:
            self._answer = _done(asked, Event())
        except OdmError as error:
            self._error = error

    def run(self, steps: int = 1000) -> None:
        """Make so many steps, or all."""
        for _ in range(steps):
            if not self.ended:
                self.step()

    def kill(self) -> None:
        """Stop without another step."""
        self._steps.close()
        self.ended = True


def settle(site: Shop) -> None:
    """Let all parts do their work until nothing is left."""
    site.clock[0] += 1000
    follower = None if site.rows.applied is None else site.follower()
    for _ in range(20):
        pushed = Push(site.rows).drain(site.db, site.engine)
        followed = 0 if follower is None else follower.drain()
        if not pushed and not followed:
            assert site.waiting() == 0
            return
    raise AssertionError("it does not come to an end")


class Stopped(Exception):
    """A handler fails after its work."""


def programs(site: Shop, random: Random) -> dict[str, Callable[[], Worker | None]]:
    """The programs of a random run. Without an applied table, only rows change, of one customer."""
    ids, names = ("ab", "xyz") if site.rows.applied is not None else ("a", "xy")

    def follow() -> None:
        follower = site.follower()
        if random.random() < 0.3:
            follower._feed.on_many(Customer)(_fail)
        with suppress(Stopped):
            follower.poll()

    def write() -> None:
        which, kind = random.choice(ids), random.choice(["set", "set", "put", "delete", "visit"])
        with suppress(ItemNotFound, ConditionFailed):
            if kind == "set":
                site.db.update(Customer.primary(customer_id=which), set_(Customer.name, random.choice(names)))
            elif kind == "visit":
                site.db.update(Customer.primary(customer_id=which), set_(Customer.visits, random.randrange(9)))
            elif kind == "put":
                site.db.put(Customer(customer_id=which, name=random.choice(names)))
            else:
                site.db.delete(Customer, customer_id=which)

    push, read = Push(site.rows), ReadThrough(site.rows, missing_ttl=5)
    others = {"item": write, "follow": follow} if site.rows.applied is not None else {}
    return {
        **others,
        "row": lambda: site.change(random.choice(ids), random.choice([*names, None])),
        "push": lambda: Worker(push._drained(site.db, site.engine)),
        "load": lambda: Worker(read._got(site.db, site.engine, {"customer_id": random.choice(ids)})),
    }


def _fail(_: object) -> None:
    raise Stopped


def random_run(site: Shop, random: Random, length: int) -> None:
    """Programs that change rows and items, while drains, loaders and followers work, and some of them are stopped."""
    begin, working = programs(site, random), list[Worker]()
    for _ in range(length):
        if working and random.random() < 0.7:
            worker = random.choice(working)
            if random.random() < 0.05:
                worker.kill()
            else:
                worker.step()
            working = [one for one in working if not one.ended]
        else:
            begun = begin[random.choice(list(begin))]()
            if begun is not None and len(working) < 4:
                working.append(begun)
        if random.random() < 0.03:
            site.clock[0] += random.choice([3, 70])
    while working:
        worker = random.choice(working)
        worker.kill() if random.random() < 0.1 else worker.step()
        working = [one for one in working if not one.ended]


def test_rows_and_items_agree_after_any_run() -> None:
    for seed in range(times(15, 60)):
        with opened("sqlite://") as site:
            random_run(site, Random(seed), 120)
            settle(site)
            assert site.names() == site.items(), seed


def test_rows_and_items_agree_in_postgresql(postgresql_url: str) -> None:
    for seed in range(times(3, 10)):
        with opened(postgresql_url) as site:
            random_run(site, Random(seed), 120)
            settle(site)
            assert site.names() == site.items(), seed


def test_pushed_rows_and_items_agree_after_any_run() -> None:
    """No handler writes back, so nothing repairs what the drains and loaders leave."""
    for seed in range(times(40, 150)):
        with opened("sqlite://", parts="outbox") as site:
            random_run(site, Random(seed), 80)
            settle(site)
            assert site.names() == site.items(), seed


def drain(site: Shop) -> Worker:
    return Worker(Push(site.rows)._drained(site.db, site.engine))


def test_a_drain_that_was_stopped_at_any_step_is_continued() -> None:
    """Another drain works at the same time, and the row changes in between, there and back."""
    with opened("sqlite://", parts="outbox") as site:
        for first, second in product(range(12), range(12)):
            which = f"{first} {second}"
            site.change(which, "x")
            drain(site).run()
            site.change(which, None)
            stopped, other = drain(site), drain(site)
            stopped.run(first)
            site.change(which, "x")
            other.run(second)
            stopped.run(1)
            stopped.kill()
            other.kill()
            settle(site)
            item = site.db.get(Customer, customer_id=which)
            assert item is not None, (first, second)
            assert item.name == "x", (first, second)


def test_a_late_drain_does_not_write_an_older_row() -> None:
    with opened("sqlite://", parts="outbox") as site:
        site.change("a", "x")
        drain(site).run()
        site.change("a", "y")
        late = drain(site)
        late.run(4)  # the time, its entries, the item, the row
        site.change("a", "z")
        drain(site).run()
        late.run(1)
        assert site.items() == {"a": "z"}


def test_a_late_drain_leaves_the_entry_that_another_one_has_taken() -> None:
    with opened("sqlite://", parts="outbox") as site:
        site.change("a", "x")
        late, other = drain(site), drain(site)
        late.run(5)
        site.clock[0] += LEASE + 1
        other.run(2)
        late.run()
        assert site.waiting() == 1
        other.run()
        assert site.waiting() == 0


def test_programs_at_the_same_time(tmp_path: Path, postgresql_url: str) -> None:
    """Threads that change rows and items, two drains, a loader and a follower, all of them on servers or files."""
    backend = LocalFile(tmp_path / "shop.db", changes=True)
    with opened(postgresql_url, backend) as site:

        def rows() -> None:
            random = Random(1)
            for _ in range(60):
                with suppress(IntegrityError):
                    site.change(random.choice("abc"), random.choice(["x", "y", None]))

        def items() -> None:
            random = Random(2)
            for _ in range(60):
                customer_id = random.choice("abc")
                ReadThrough(site.rows).get(site.db, site.engine, customer_id=customer_id)
                with suppress(ItemNotFound):
                    key = Customer.primary(customer_id=customer_id)
                    site.db.update(key, set_(Customer.name, random.choice("zw")))

        def push() -> None:
            for _ in range(30):
                Push(site.rows).drain(site.db, site.engine)

        def follow() -> None:
            follower = site.follower()
            for _ in range(30):
                follower.poll()

        in_threads([rows, items, push, push, follow], 5)
        settle(site)
        assert site.names() == site.items()
