"""Explores every order in which the requests of several writers can reach a store that writes one item at a time.

The writers are real procedures: generators of requests, which are replayed for each state. A state consists of the
stored items, the position of each writer, the requests in flight, and the time. The steps from a state are:

* the next request of a writer is applied and answered;
* once in a run, a writer is stopped, or loses an answer, or its request is applied now and a second time later. The
  request of a stopped writer, or the one without an answer, is never applied, or at any later time;
* once in a run, a long time passes. Requests in flight are then never applied. It does not pass while a writer is about
  to write an item in reliance on its earlier writes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from attrs import Factory, define, field, frozen

from odm import OutcomeUnknown, Store
from odm.expressions.evaluate import apply, holds
from odm.expressions.nodes import Item, Set
from odm.extend import Calls, Gen
from odm.protocol import requests as req
from odm.protocol.predicates import condition_of
from odm.schema.entity import Key

Stored: TypeAlias = dict[Key, Item]
Work: TypeAlias = Callable[[Calls], Gen[Any]]

LOST = OutcomeUnknown("lost by the test")
LONG = 10 * 3600


class Settled(Protocol):
    """Checks the stored items when no steps are left; ``well``: the run had no fault."""

    def __call__(self, stored: Stored, *, well: bool) -> None: ...


class Wrong(AssertionError):
    """A state that must not occur."""


def done(stored: Stored, request: Any) -> tuple[Stored, Any]:
    """The stored items after a request, and its answer."""
    item = stored.get(request.key)
    if isinstance(request, req.Get):
        return stored, item
    if (condition := condition_of(request)) is not None and not holds(condition, item):
        return stored, req.Refused(item)
    if isinstance(request, req.Put):
        return {**stored, request.key: request.item}, req.Written()
    if isinstance(request, req.Update):
        assert item is not None
        return {**stored, request.key: apply(request.actions, item)}, req.Written()
    assert isinstance(request, req.Delete)
    return {key: one for key, one in stored.items() if key != request.key}, req.Written(existed=item is not None)


@frozen
class Place:
    """The position of a writer: the answers that it received, each with its time.

    Attributes:
        pending: its next request; None: it has ended.
    """

    writer: int
    answers: tuple[tuple[Any, float], ...]
    pending: Any

    def relies(self, stored: Stored) -> bool:
        """Whether its next request writes an item with a new mark."""
        request = self.pending
        if isinstance(request, req.Put):
            marks = {name: value for name, value in request.item.items() if name.startswith("_c_")}
        elif isinstance(request, req.Update):
            sets = [action for action in request.actions if isinstance(action, Set)]
            marks = {action.path.root: action.value for action in sets if action.path.root.startswith("_c_")}
        else:
            return False
        old = stored.get(request.key) or {}
        return any(old.get(name) != value for name, value in marks.items())


@frozen
class State:
    """One state. It has numbers for stored items, places and requests, so that it is small."""

    stored: int
    places: tuple[int | None, ...]
    flying: frozenset[int] = frozenset()
    late: bool = False
    fault: bool = False


@define
class Exploration:
    """All states that some writers can reach.

    Attributes:
        store: the store of the writers' calls; no request is sent to it.
        time: the time of its clock, in a list of one.
        begin: called with the number of a writer before the writer is replayed.
        check: checks the stored items in every state.
        settled: checks the stored items in every state without further steps.
        faults: whether writers are stopped, answers lost, and so on.
    """

    store: Store
    time: list[float]
    works: Sequence[Work]
    begin: Callable[[int], None]
    check: Callable[[Stored], None]
    settled: Settled
    faults: bool = True
    _stored: list[Stored] = Factory(list)
    _places: list[Place] = Factory(list)
    _requests: list[Any] = Factory(list)
    _numbers: dict[Any, int] = Factory(dict)
    _moves: dict[Any, Any] = Factory(dict)
    states: dict[State, tuple[State, str] | None] = field(factory=dict, init=False)

    def run(self, stored: Stored) -> int:
        """Explore; returns the number of states.

        Raises:
            Wrong: a check failed; the message has the steps to the state.
        """
        now = self.time[0]
        first = State(self._of_stored(stored), tuple(self._place(n, ((None, now),)) for n in range(len(self.works))))
        self.states = {first: None}
        left = [first]
        while left:
            state = left.pop()
            following = list(self._next(state))
            if not any(label[0].isdigit() for label, _ in following):
                self._look(state, partial(self.settled, well=not state.fault))
            for label, one in following:
                if one not in self.states:
                    self.states[one] = (state, label)
                    self._look(one, self.check)
                    left.append(one)
        return len(self.states)

    def _look(self, state: State, check: Callable[[Stored], None]) -> None:
        try:
            check(self._stored[state.stored])
        except AssertionError as error:
            raise Wrong(f"{error}\n{self._way(state)}") from error

    def _way(self, state: State) -> str:
        lines: list[str] = []
        step = self.states[state]
        while step is not None:
            lines.append(step[1])
            step = self.states[step[0]]
        return "\n".join(reversed(lines))

    def _next(self, state: State) -> Iterator[tuple[str, State]]:
        for number, at in enumerate(state.places):
            if at is not None and self._places[at].pending is not None:
                yield from self._of_writer(state, number, at)
        for request in state.flying:
            stored, _ = self._done(state.stored, request)
            yield self._told("lands", request), self._moved(state, stored=stored, flying=state.flying - {request})
        if not state.late and self.faults:
            yield from self._later(state)

    def _of_writer(self, state: State, number: int, at: int) -> Iterator[tuple[str, State]]:
        place = self._places[at]
        request = self._of_request(place.pending)
        stored, answer = self._done(state.stored, request)
        after = self._place(number, (*place.answers, (answer, self._now(state))))

        def to(place: int | None) -> tuple[int | None, ...]:
            return (*state.places[:number], place, *state.places[number + 1 :])

        yield self._told(f"{number}", request), self._moved(state, stored=stored, places=to(after))
        if state.fault or not self.faults:
            return
        writes = not isinstance(place.pending, req.Get)
        ways = [state.flying, state.flying | {request}] if writes else [state.flying]
        for flying in ways:
            label = self._told(f"stopped {number}", request)
            yield label, self._moved(state, places=to(None), flying=flying, fault=True)
        if writes:
            told = self._place(number, (*place.answers, (LOST, self._now(state))))
            for flying in ways:
                label = self._told(f"lost for {number}", request)
                yield label, self._moved(state, places=to(told), flying=flying, fault=True)
        if isinstance(place.pending, req.Put) and not place.pending.once:
            flying = state.flying | {request}
            label = self._told(f"twice by {number}", request)
            yield label, self._moved(state, stored=stored, places=to(after), flying=flying, fault=True)

    def _later(self, state: State) -> Iterator[tuple[str, State]]:
        stored = self._stored[state.stored]
        if not any(at is not None and self._places[at].relies(stored) for at in state.places):
            yield "later", self._moved(state, flying=frozenset(), late=True)

    def _now(self, state: State) -> float:
        return self.time[0] + LONG * state.late

    def _moved(self, state: State, **changes: Any) -> State:
        old = (state.stored, state.places, state.flying, state.late, state.fault)
        names = ("stored", "places", "flying", "late", "fault")
        return State(**{**dict(zip(names, old, strict=True)), **changes})

    def _told(self, what: str, request: int) -> str:
        return f"{what}: {self._requests[request]}"

    def _done(self, stored: int, request: int) -> tuple[int, Any]:
        move = self._moves.get((stored, request))
        if move is None:
            after, answer = done(self._stored[stored], self._requests[request])
            move = self._moves[stored, request] = (self._of_stored(after), answer)
        return move

    def _of_stored(self, stored: Stored) -> int:
        return self._number(_frozen(stored), self._stored, lambda: stored)

    def _of_request(self, request: Any) -> int:
        return self._number((type(request), _frozen(str(request))), self._requests, lambda: request)

    def _place(self, writer: int, answers: tuple[tuple[Any, float], ...]) -> int:
        key = (writer, tuple((_frozen(str(answer)), at) for answer, at in answers))
        return self._number(key, self._places, lambda: Place(writer, answers, self._replay(writer, answers)))

    def _number(self, key: Any, known: list[Any], make: Callable[[], Any]) -> int:
        number = self._numbers.get(key)
        if number is None:
            known.append(make())
            number = self._numbers[key] = len(known) - 1
        return number

    def _replay(self, writer: int, answers: Sequence[tuple[Any, float]]) -> Any:
        """The request of a writer after these answers; None: it has ended."""
        start = self.time[0]
        self.begin(writer)
        steps = self.works[writer](Calls(self.store._session))
        pending: Any = None
        try:
            for answer, at in answers:
                self.time[0] = at
                pending = steps.throw(answer) if answer is LOST else steps.send(answer)
                while isinstance(pending, req.Wait):
                    pending = steps.send(None)
        except StopIteration:
            return None
        finally:
            self.time[0] = start
        return pending


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), _frozen(one)) for name, one in value.items()))
    if isinstance(value, set | frozenset):
        return tuple(sorted(value))
    return value if isinstance(value, str | tuple) else repr(value)
