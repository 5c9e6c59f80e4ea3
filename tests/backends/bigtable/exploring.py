"""Runs several procedures in every order of their native calls, on a server in memory.

A procedure is a function of the answers that it got. So it is begun again for each sequence of answers, and what it
does next is kept (`Play`). A state is the tables, and which answers each procedure has. Each state is visited once.

What can happen in a state: a call is applied, in any order if several were sent together; a call is *lost*, so that it
has no answer and is applied at any later time, or never; a client *stops*, and what it has sent may still be applied.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import count
from math import inf
from random import Random
from typing import Any, TypeAlias

from attrs import Factory, define, evolve, field, frozen
from google.api_core import exceptions

from odm.backends.bigtable.client.native import Call, Concurrent, Mutated, MutateRows, Read, ReadRows, Steps
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.requests import Procedures
from odm.errors import OdmError
from odm.protocol.connection import Later
from odm.protocol.requests import Notice, Request, Sleep
from odm.schema.model import Schema
from tests.backends.bigtable.native_server import NativeServer

google: Any = exceptions
LOST: Any = google.DeadlineExceeded("lost by the test")

Make: TypeAlias = Callable[[Procedures], Steps[Any]]


class Clock:
    """A clock that only the pauses of its procedure move."""

    def __init__(self, server_micros: int) -> None:
        self.seconds, self._start = 0.0, server_micros

    def __call__(self) -> float:
        return self.seconds

    def micros(self) -> int:
        """The time for timestamps."""
        return self._start + int(self.seconds) * 1_000_000


@frozen
class Client:
    """A procedure to run.

    Attributes:
        name: begins the ids of its attempts, so it sorts transactions that began at the same time.
        make: makes the procedure.
        abort_after: the age from which it breaks the locks of older transactions; 0: at once.
        pauses: after so many it does not go on.
    """

    name: str
    make: Make
    abort_after: float = inf
    pauses: int = 2

    @classmethod
    def of(cls, name: str, request: Request, **options: Any) -> "Client":
        """A client that makes a request."""
        return cls(name, lambda procedures: procedures.steps(request), **options)


class _Run:
    """A running procedure, up to its next calls.

    Attributes:
        calls: those; empty: it has ended, or does not go on.
        together: they were sent together.
        answer: its result or error, as soon as it has one.
        pauses: the number of its pauses.
    """

    def __init__(self, client: Client, schema: Schema, now: int) -> None:
        clock, numbers = Clock(now), count(1)
        ids = lambda: f"{client.name}{next(numbers)}"  # noqa: E731
        retry = Retry(clock=clock, jitter=lambda: 1.0)
        made = Procedures(schema, retry, clock.micros, ids, abort_after=client.abort_after)
        self._clock, self._most = clock, client.pauses
        self._steps: Steps[Any] = client.make(made)
        self._later: list[Steps[None]] = []
        self.calls: tuple[Call, ...] = ()
        self.together = False
        self.answer: Any = None
        self.answered = False
        self.pauses = 0
        self._go_on(lambda: next(self._steps))

    def give(self, answer: Any) -> None:
        """Continue with an answer."""
        if isinstance(answer, Exception):
            self._go_on(lambda: self._steps.throw(answer))
        else:
            self._go_on(lambda: self._steps.send(answer))

    def _go_on(self, resume: Callable[[], Any]) -> None:
        self.calls = ()
        while True:
            try:
                native = resume()
            except StopIteration as done:
                self._ended(done.value)
            except OdmError as error:
                assert not self.answered, "work after the answer must not raise errors"
                self._ended(error)
            else:
                if isinstance(native, Sleep):
                    self.pauses += 1
                    self._clock.seconds += native.seconds
                    if self.pauses > self._most:
                        return
                elif isinstance(native, Later):
                    self._later.append(native.steps)
                elif not isinstance(native, Notice):
                    self.together = isinstance(native, Concurrent)
                    self.calls = native.calls if isinstance(native, Concurrent) else (native,)
                    return
                resume = lambda: self._steps.send(None)  # noqa: E731
                continue
            if not self._later:
                return
            self._steps = self._later.pop(0)
            resume = lambda: next(self._steps)  # noqa: E731

    def _ended(self, answer: Any) -> None:
        if not self.answered:
            self.answer, self.answered = answer, True


@define(eq=False)
class Node:
    """What a procedure does after some answers.

    Attributes:
        number: of the node.
        path: the answers.
        run: the procedure, if it stands there.
        paused: it paused before it made these calls.
    """

    number: int
    path: tuple[Any, ...]
    calls: tuple[Call, ...]
    together: bool
    answer: Any
    answered: bool
    pauses: int
    paused: bool
    run: _Run | None
    after: dict[Hashable, "Node"] = field(factory=dict)


class Play:
    """What a client may do, as far as that was explored."""

    def __init__(self, client: Client, schema: Schema, now: int) -> None:
        self.client = client
        self._schema, self._now = schema, now
        self._numbers = count()
        self.begin = self._node((), _Run(client, schema, now), 0)

    def after(self, node: Node, answer: Any) -> Node:
        """The node after an answer."""
        key = _key(answer)
        if key not in node.after:
            run, node.run = node.run, None
            if run is None:
                run = _Run(self.client, self._schema, self._now)
                for one in node.path:
                    run.give(one)
            run.give(answer)
            node.after[key] = self._node((*node.path, answer), run, node.pauses)
        return node.after[key]

    def _node(self, path: tuple[Any, ...], run: _Run, pauses: int) -> Node:
        more = run.pauses > pauses
        return Node(next(self._numbers), path, run.calls, run.together, run.answer, run.answered, run.pauses, more, run)


def _key(answer: Any) -> Hashable:
    if isinstance(answer, tuple):
        return tuple(map(_key, answer))
    if isinstance(answer, Read):
        return tuple((row.key, row.cells) for row in answer.rows), answer.failure is None
    if isinstance(answer, Mutated):
        return tuple(sorted(answer.answers.items())), answer.failure is None
    return "lost" if answer is LOST else answer


def lost(call: Call) -> Any:
    """The answer to a call that is not answered."""
    if isinstance(call, ReadRows):
        return Read((), None, LOST)
    return Mutated({}, LOST) if isinstance(call, MutateRows) else LOST


@frozen
class Place:
    """Where a client stands.

    Attributes:
        node: what it does.
        answers: the answers to those of its calls that were applied, with their numbers.
        stopped: it does not go on.
    """

    node: Node
    answers: tuple[tuple[int, Any], ...] = ()
    stopped: bool = False

    @property
    def key(self) -> Hashable:
        """The same for equal places."""
        return self.node.number, tuple((number, _key(one)) for number, one in self.answers), self.stopped

    @property
    def left(self) -> Iterator[int]:
        """The calls that were not applied."""
        there = [number for number, _ in self.answers]
        return (number for number in range(len(self.node.calls)) if number not in there)


@frozen
class Moment:
    """A state of the world.

    Attributes:
        server: the tables.
        places: where each client stands.
        late: calls whose answers were lost, with their client, and their place in it; they may still be applied.
        faults: how many calls may still be lost.
        crashes: how many clients may still stop.
        seen: what the observer remembers.
        trail: what happened, the last event first.
    """

    server: NativeServer
    places: tuple[Place, ...]
    late: tuple[tuple[int, Call, tuple[int, int]], ...]
    faults: int
    crashes: int
    seen: Any = None
    trail: Any = None

    @property
    def key(self) -> int:
        """The same for equal states."""
        rows = tuple(sorted(self.server.rows.items()))
        places = tuple(place.key for place in self.places)
        late = tuple(sorted((client, at) for client, _, at in self.late))
        return hash((rows, self.server.now, places, late, self.faults, self.crashes, self.seen))

    @property
    def events(self) -> list[str]:
        """What happened, in order."""
        found, trail = [], self.trail
        while trail is not None:
            event, trail = trail
            found.append(" ".join(map(str, event)))
        return found[::-1]

    @property
    def ended(self) -> bool:
        """Whether no client goes on."""
        return all(place.stopped or not place.node.calls for place in self.places)


class Wrong(AssertionError):
    """What must not be."""


Watch: TypeAlias = Callable[[Moment, Moment, int, Call], Any]
"""Called with the states before and after a call of a client; returns what it remembers; raises `Wrong`."""


@frozen
class Explored:
    """Attributes: the states and ends that were found, and whether these are all."""

    states: int
    ends: int
    complete: bool


@define
class World:
    """Some clients on a server.

    Attributes:
        schema: of the table.
        server: the tables at first.
        clients: the clients.
        watch: checks each step.
        at_end: checks each state in which no client goes on.
        faults: how many calls may be lost.
        crashes: how many clients may stop.
        lossy: the calls that may be lost.
        hides: the calls whose order does not matter.
    """

    schema: Schema
    server: NativeServer
    clients: Sequence[Client]
    watch: Watch
    at_end: Callable[[Moment], None]
    faults: int = 0
    crashes: int = 0
    lossy: Callable[[Call], bool] = lambda call: not isinstance(call, ReadRows)
    hides: Callable[[Call], bool] = lambda _: False
    first: Any = None
    plays: list[Play] = Factory(
        lambda self: [Play(one, self.schema, self.server.now) for one in self.clients], takes_self=True
    )

    def explore(self, most: int) -> Explored:
        """Visit all states, at most so many. Raises `Wrong` with what happened."""
        begin = tuple(Place(play.begin) for play in self.plays)
        stack = [Moment(self.server, begin, (), self.faults, self.crashes, self.first)]
        known = {stack[0].key}
        ends, random = 0, Random(0)
        while stack:
            at = random.randrange(len(stack))  # if not all states are visited, they are of all kinds
            stack[at], stack[-1] = stack[-1], stack[at]
            moment = stack.pop()
            if moment.ended:
                ends += 1
                self._end(moment)
            for following in self._following(moment):
                if (key := following.key) not in known:
                    if len(known) >= most:
                        return Explored(len(known), ends, complete=False)
                    known.add(key)
                    stack.append(following)
        return Explored(len(known), ends, complete=True)

    def _end(self, moment: Moment) -> None:
        try:
            self.at_end(moment)
        except AssertionError as wrong:
            raise Wrong("\n".join((*moment.events, f"at the end: {wrong}"))) from wrong

    def _following(self, moment: Moment) -> Iterator[Moment]:
        if (hidden := self._hidden(moment)) is not None:
            client, number, call = hidden
            yield self._applied(moment, client, number, call)
            return
        for client, place in enumerate(moment.places):
            for number in place.left:
                call = place.node.calls[number]
                if place.stopped and isinstance(call, ReadRows):
                    continue
                yield self._applied(moment, client, number, call)
                if moment.faults and not place.stopped and self.lossy(call):
                    yield self._lost(moment, client, number, call)
            if moment.crashes and place.node.calls and not place.stopped and place.node.path:
                stopped = _with(moment.places, client, evolve(place, stopped=True))
                event = self.clients[client].name, "stops"
                yield evolve(moment, places=stopped, crashes=moment.crashes - 1, trail=(event, moment.trail))
        for at, (client, call, _) in enumerate(moment.late):
            left = moment.late[:at] + moment.late[at + 1 :]
            server = moment.server.copy()
            answer = server.call(call)
            following = evolve(moment, server=server, late=left)
            yield self._watched(moment, following, client, call, ("late", answer))

    def _hidden(self, moment: Moment) -> tuple[int, int, Call] | None:
        """A call whose order does not matter, because no other client reads what it writes."""
        if moment.faults or moment.crashes:
            return None
        for client, place in enumerate(moment.places):
            for number in () if place.stopped else place.left:
                if self.hides(place.node.calls[number]):
                    return client, number, place.node.calls[number]
        return None

    def _applied(self, moment: Moment, client: int, number: int, call: Call) -> Moment:
        server = moment.server.copy()
        try:
            answer = server.call(call)
        except exceptions.GoogleAPICallError as failure:
            answer = failure
        places = self._answered(moment.places, client, number, answer)
        return self._watched(moment, evolve(moment, server=server, places=places), client, call, answer)

    def _lost(self, moment: Moment, client: int, number: int, call: Call) -> Moment:
        places = self._answered(moment.places, client, number, lost(call))
        late = (*moment.late, (client, call, (moment.places[client].node.number, number)))
        event = self.clients[client].name, call, "no answer"
        made = evolve(moment, places=places, late=late, faults=moment.faults - 1, trail=(event, moment.trail))
        return self._remembered(moment, made, client, call)

    def _answered(self, places: tuple[Place, ...], client: int, number: int, answer: Any) -> tuple[Place, ...]:
        place = places[client]
        answers = tuple(sorted((*place.answers, (number, answer)), key=lambda one: one[0]))
        if len(answers) < len(place.node.calls) or place.stopped:
            return _with(places, client, evolve(place, answers=answers))
        given = tuple(one for _, one in answers) if place.node.together else answers[0][1]
        return _with(places, client, Place(self.plays[client].after(place.node, given)))

    def _watched(self, before: Moment, after: Moment, client: int, call: Call, answer: Any) -> Moment:
        event = self.clients[client].name, call, "->", answer
        return self._remembered(before, evolve(after, trail=(event, before.trail)), client, call)

    def _remembered(self, before: Moment, after: Moment, client: int, call: Call) -> Moment:
        try:
            return evolve(after, seen=self.watch(before, after, client, call))
        except AssertionError as wrong:
            raise Wrong("\n".join((*after.events, str(wrong)))) from wrong


def _with(places: tuple[Place, ...], client: int, place: Place) -> tuple[Place, ...]:
    return (*places[:client], place, *places[client + 1 :])
