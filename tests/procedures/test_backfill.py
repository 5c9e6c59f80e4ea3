"""Backfills next to other writers: in every order of their requests, nothing is lost and everything is found."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import Entity, OdmError, PrimaryKey, Query, Store, Table, Unsupported, increment, set_
from odm.backends.local import Memory
from odm.extend import Calls, Companion, CompanionWrites, Effect, Gen
from odm.protocol import requests as req
from odm.protocol.connection import Backend, perform, run
from odm.results import Backfilled
from odm.testing import filling
from odm.testing.filling import Job, Member, OldJob, OldMember, OldSheet, Sheet
from tests.effort import times
from tests.patterns.interleaving import OneByOne

Program = Callable[[Calls], Gen[Any]]


class Writer:
    """A program that sends one request at a time; it does not wait."""

    def __init__(self, steps: Gen[Any], send: Callable[[req.Request], Any]) -> None:
        self._steps, self._send = steps, send
        self._asked: list[Any] = []
        self._answers: list[Any] = []
        self._together = False
        self.result: Any = None
        self.error: OdmError | None = None
        self.done = False
        self._go_on(None)

    def step(self) -> None:
        """Send the next request."""
        request = self._asked[len(self._answers)]
        try:
            self._answers.append(None if isinstance(request, req.Wait) else self._send(request))
        except OdmError as error:
            self._answers.append(req.Failed(error))
        if len(self._answers) == len(self._asked):
            self._go_on(tuple(self._answers) if self._together else self._answers[0])

    def _go_on(self, answer: Any) -> None:
        self._answers = []
        try:
            asked: Any = self._steps.send(answer)
            while isinstance(asked, req.Wait) or asked == req.Gather(()):
                asked = self._steps.send(None if isinstance(asked, req.Wait) else ())
        except StopIteration as ended:
            self.done, self.result = True, ended.value
            return
        except OdmError as error:
            self.done, self.error = True, error
            return
        self._together = isinstance(asked, req.Gather)
        self._asked = [*asked.requests] if isinstance(asked, req.Gather) else [asked]


@frozen
class World:
    """What was stored by an old model, and the programs of a new one.

    Attributes:
        old, now: the tables.
        before: the stored items.
        target: what the backfill fills.
        works: what other writers may do, by the item that they write.
        tidy: checks that nothing is left over if nobody was stopped.
        alike: writers of one item send as many requests as they would without a backfill.
        find: for a living item, how the filled declaration finds it; None: it should not.
    """

    old: Table
    now: Table
    before: Sequence[Entity]
    target: object
    works: Sequence[tuple[str, Program]]
    find: Callable[[Store, Any], Any]
    alike: bool = True
    tidy: Callable[[Store], None] = lambda _: None


class Crowd:
    """The backfill, if there is one, and other writers, on a store of that world."""

    def __init__(self, world: World, backend: Backend, works: Sequence[Program], *, backfill: bool) -> None:
        old = Store(world.old, backend)
        old.create()
        for item in world.before:
            old.put(item)
        self.world = world
        self.db = Store(world.now, backend)
        self.db.create()
        self._connection = self.db._session.connection
        self._do = Calls(self.db._session)
        self._far = Backfilled()
        self.filler = self._backfill() if backfill else None
        self.others = [Writer(work(self._do), self._send) for work in works]

    def _backfill(self) -> Writer:
        steps = self._do.backfill(self.world.target, size=2, after=self._far.cursor, on_progress=self._note)
        return Writer(steps, self._send)

    def _note(self, far: Backfilled) -> None:
        self._far = far

    def _send(self, request: req.Request) -> Any:
        return run(self._connection.steps(request), self._connection.call)

    def stop(self) -> None:
        """Stop the backfill, and continue it from its last progress."""
        assert self.filler is not None
        if not self.filler.done:
            self.filler = self._backfill()

    def living(self) -> dict[tuple[str, str], Any]:
        """The items of the entities of the world, by key."""
        kinds = {type(item).__odm_tag__ for item in self.world.before}
        found = [one for one in self.db.scan() if type(one).__odm_tag__ in kinds]
        return {self.db.key_of(one): one for one in found}

    def check(self, alone: dict[tuple[str, str], Any]) -> None:
        """All writers have ended: the items are those without a backfill, and each is found."""
        living = self.living()
        assert living == alone
        assert self.filler is not None
        assert self.filler.error is None, repr(self.filler.error)
        assert self._far.failures == ()
        for item in living.values():
            self.world.find(self.db, item)


def ran(
    world: World,
    backend: Callable[[], Backend],
    works: Sequence[Program],
    choose: Callable[[int], int],
    stop: int | None = None,
) -> None:
    """Run a backfill and other writers in an order; then see what these writers do alone in the same order.

    Args:
        world: what there is.
        backend: makes a backend.
        works: the other writers.
        choose: takes a number of writers, and chooses the one whose request is next.
        stop: the backfill is stopped after so many requests, and continued.
    """
    crowd = Crowd(world, backend(), works, backfill=True)
    alone = Crowd(world, backend(), works, backfill=False)
    assert crowd.filler is not None
    steps = 0
    while True:
        working = [at for at, writer in enumerate(crowd.others) if not writer.done]
        if crowd.filler.done and not working:
            break
        at = choose(len(working) + (not crowd.filler.done))
        if at < len(working):
            crowd.others[working[at]].step()
            if not alone.others[working[at]].done:
                alone.others[working[at]].step()
            continue
        crowd.filler.step()
        steps += 1
        if steps == stop:
            crowd.stop()
    for writer in alone.others:
        while not writer.done:
            writer.step()
    assert [type(one.error) for one in crowd.others] == [type(one.error) for one in alone.others]
    crowd.check(alone.living())
    if stop is None:
        world.tidy(crowd.db)


def every_order(of: Callable[[Callable[[int], int]], None]) -> int:
    """Run something once for all the choices that it can be given; returns how many there are."""
    given: list[int] = []
    total = 0
    while True:
        taken: list[tuple[int, int]] = []

        def choose(among: int, given: list[int] = given, taken: list[tuple[int, int]] = taken) -> int:
            at = given[len(taken)] if len(taken) < len(given) else 0
            taken.append((at, among))
            return at

        of(choose)
        total += 1
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return total
        given = [*(at for at, _ in taken[:-1]), taken[-1][0] + 1]


def update(which: Query[Any], *actions: Any) -> Program:
    return lambda do: do.update(which, *actions)


def put(entity: Entity) -> Program:
    return lambda do: do.put(entity)


def insert(entity: Entity) -> Program:
    return lambda do: do.insert(entity)


def delete(which: Query[Any]) -> Program:
    return lambda do: do.delete(which)


def reput(which: Query[Any], **changes: Any) -> Program:
    """Reads an item, and puts it changed: of two such writers one may lose, also without a backfill."""

    def steps(do: Calls) -> Gen[None]:
        item = yield from do.get(which)
        if item is not None:
            yield from do.put(item.model_copy(update=changes))

    return steps


def by_state(db: Store, job: Job) -> None:
    found = [one for state in ("new", "done", "odd") for one in db.query(Job.by_state(state=state))]
    assert [one for one in found if one.job_id == job.job_id] == [job] * (job.state is not None)


def by_last(db: Store, sheet: Sheet) -> None:
    found = [one for last in ("Lee", "Roy", "Fox") for one in db.query(Sheet.by_last(last=last))]
    assert [one for one in found if one.sheet_id == sheet.sheet_id] == [sheet] * bool(sheet.last)
    (raw,) = [item for item in db.scan_page().items if item.entity == sheet]
    assert raw.attributes["_v"] == 2


def by_email(db: Store, member: Member) -> None:
    if member.email is not None:
        assert db.get(Member.unique_email(email=member.email)) == member
        (mark,) = [raw.attributes["_c_unique_email"] for raw in db.scan_page().items if raw.entity == member]
        assert mark in db.one(Member.unique_email.claim(email=member.email)).claim_ids  # (I) of odm.patterns.claims


def each_claim_is_held(db: Store) -> None:
    raws = [raw.attributes for raw in db.scan_page().items]
    claimed = {one["email"]: one["claim_ids"] for one in raws if one["_t"] == "Member.unique_email"}
    held = {one["email"]: {one["_c_unique_email"]} for one in raws if one["_t"] == "Member" and one.get("email")}
    assert claimed == held


def by_pointer(db: Store, member: Member) -> None:
    value = db.run(Member.newest.value(team=member.team))
    assert value is not None
    assert value >= member.number


JOB, OTHER = Job.primary(job_id="a"), Job.primary(job_id="b")
SHEET = Sheet.primary(sheet_id="a")
ANN, BOB = Member.primary(team="t", number=1), Member.primary(team="t", number=2)
WORLDS = {
    "a pattern": World(
        filling.jobs,
        filling.jobs_now,
        [OldJob(job_id="a"), OldJob(job_id="b", state="done", note="n"), OldJob(job_id="c", state=None)],
        Job.by_state,
        [
            ("a", update(JOB, set_(Job.state, "done"))),
            ("a", update(JOB, set_(Job.note, "x"))),
            ("a", reput(JOB, state="odd")),
            ("a", delete(JOB)),
            ("b", delete(OTHER)),
            ("a", insert(Job(job_id="a", state="odd"))),
            ("aa", insert(Job(job_id="aa", state="odd"))),
            ("b", update(OTHER, set_(Job.state, None))),
        ],
        by_state,
    ),
    "whole items": World(
        filling.pages,
        filling.pages_now,
        [OldSheet(sheet_id="a", name="Ann Lee"), OldSheet(sheet_id="b", name="Bo")],
        Sheet,
        [
            ("a", update(SHEET, set_(Sheet.color, "red"))),
            ("a", update(SHEET, set_(Sheet.last, "Roy"))),
            ("a", put(Sheet(sheet_id="a", first="Di", last="Fox"))),
            ("c", put(Sheet(sheet_id="c", first="Di", last="Fox"))),
            ("a", reput(SHEET, color="blue")),
            ("a", delete(SHEET)),
            ("b", update(Sheet.primary(sheet_id="b"), set_(Sheet.last, "Roy"))),
            ("b", delete(Sheet.primary(sheet_id="b"))),
        ],
        by_last,
        alike=False,
    ),
    "a unique value": World(
        filling.members,
        filling.members_now,
        [OldMember(team="t", number=1, email="a"), OldMember(team="t", number=2, email="b")],
        Member.unique_email,
        [
            ("ann", update(ANN, set_(Member.email, "c"))),
            ("ann", update(ANN, set_(Member.note, "x"))),
            ("bob", update(BOB, set_(Member.email, None))),
            ("ann", put(Member(team="t", number=1, email="d"))),
            ("ann", put(Member(team="t", number=1, email="a", note="y"))),
            ("ann", delete(ANN)),
            ("bob", delete(BOB)),
            ("new", insert(Member(team="t", number=7, email="e"))),
        ],
        by_email,
        alike=False,
        tidy=each_claim_is_held,
    ),
    "a pointer": World(
        filling.members,
        filling.members_now,
        [OldMember(team="t", number=1), OldMember(team="t", number=2), OldMember(team="u", number=1)],
        Member.newest,
        [
            ("ann", update(ANN, set_(Member.note, "x"))),
            ("new", put(Member(team="t", number=3))),
            ("old", put(Member(team="u", number=0))),
            ("bob", delete(BOB)),
            ("ann", delete(ANN)),
        ],
        by_pointer,
        alike=False,
    ),
}
BACKENDS: dict[str, Callable[[], Backend]] = {"together": Memory, "one by one": lambda: OneByOne(Memory())}

worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
backends = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


def apart(world: World, works: Sequence[tuple[str, Program]]) -> bool:
    """Whether the result of these writers can be compared with that of the writers alone."""
    return world.alike or len({key for key, _ in works}) == len(works)


@pytest.mark.one_of(2)
@backends
@worlds
def test_one_writer_at_every_step(world: World, backend: Callable[[], Backend]) -> None:
    for _, program in world.works:
        assert every_order(lambda choose, program=program: ran(world, backend, [program], choose)) > 3  # type: ignore[misc]


@pytest.mark.full
@pytest.mark.parametrize("name", ["a pattern", "whole items"])
def test_two_writers_at_every_step(name: str) -> None:
    world = WORLDS[name]
    for some in combinations(world.works, 2):
        if apart(world, some):
            programs = [program for _, program in some]
            every_order(lambda choose, programs=programs: ran(world, Memory, programs, choose))  # type: ignore[misc]


@backends
@worlds
def test_a_stop_at_every_step(world: World, backend: Callable[[], Backend]) -> None:
    for stop in range(1, 12):
        for _, program in world.works[:2]:
            ran(world, backend, [program], lambda among: among - 1, stop)


@backends
@worlds
@given(data=st.data())
@settings(max_examples=times(20, 300), deadline=None)
def test_any_writers_in_any_order(world: World, backend: Callable[[], Backend], data: st.DataObject) -> None:
    works = data.draw(st.lists(st.sampled_from(world.works), max_size=4).filter(lambda some: apart(world, some)))
    stop = data.draw(st.none() | st.integers(1, 12))
    ran(world, backend, [program for _, program in works], lambda n: data.draw(st.integers(0, n - 1)), stop)


totals = Table("totals")


class Total(Companion):
    """Counts items; with ``marks``, it marks those that it has counted."""

    def __init__(self, *, marks: bool) -> None:
        self.marks = marks
        self.made: Any = None

    def entities(self, entity: type[Entity]) -> list[type[Entity]]:
        key = PrimaryKey(f"{self.name.upper()}#{{name}}")
        self.made = self.make(entity, Entity, {"name": str, "count": (int, 0)}, {"primary": key})
        return [self.made]

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        if effect.old is None:
            tx.update(self.made.primary(name="all"), increment(self.made.count), upsert=True)
            if self.marks:
                tx.mark("counted")


class OldThing(Entity, table=totals, tag="Thing"):
    name: str

    primary = PrimaryKey("THING#{name}")


totals_now = Table("totals")


class Thing(Entity, table=totals_now):
    name: str

    primary = PrimaryKey("THING#{name}")
    total = Total(marks=True)
    careless = Total(marks=False)


def test_a_companion_that_counts_must_mark_the_item() -> None:
    backend = Memory()
    old, db = Store(totals, backend), Store(totals_now, backend)
    old.create()
    for name in "abc":
        old.put(OldThing(name=name))
    with pytest.raises(Unsupported, match=r"backfill of Thing\.careless: .* tx\.mark"):
        db.backfill(Thing.careless)
    for written in (3, 0):
        assert db.backfill(Thing.total).written == written
        assert db.one(Thing.total.made.primary(name="all")).count == 3


def test_a_rate_makes_it_wait() -> None:
    backend = Memory()
    old, db = Store(filling.jobs, backend), Store(filling.jobs_now, backend)
    old.create()
    db.create()
    for n in range(5):
        old.put(OldJob(job_id=f"j{n}"))
    pauses: list[float] = []

    def send(request: Any) -> Any:
        if isinstance(request, req.Sleep):
            pauses.append(request.seconds)
            return None
        return perform(db._session.connection, request)

    run(Calls(db._session).backfill(Job.by_state, rate=2), send)
    assert [round(pause) for pause in pauses] == [1, 2]  # two items a second, in pages of two
