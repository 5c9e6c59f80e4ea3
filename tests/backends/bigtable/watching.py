"""What must hold in every order of calls of clients of a table with transactions: the invariants of the protocol.

A `Role` says what a client may do to the committed state, and which answers are right. The observer remembers the
committed states so far, when each client began, and which of its operations are committed.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from attrs import Factory, define, evolve, field, frozen

from odm.backends.bigtable.client.native import Call
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.transactions.lock_cells import MARK
from odm.backends.bigtable.transactions.resolve import Locks, Resolver
from odm.errors import OdmError, OutcomeUnknown
from odm.protocol.connection import run
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    Delete,
    Get,
    Page,
    Put,
    Query,
    Refusals,
    Refused,
    Request,
    Scan,
    Transact,
    Update,
)
from odm.schema.entity import Key
from tests.backends.bigtable.exploring import Client, Explored, Make, Moment, World
from tests.backends.bigtable.native_server import NativeServer
from tests.backends.bigtable.tx_states import (
    SCHEMA,
    Effect,
    State,
    Value,
    X,
    Y,
    change,
    columns,
    committed,
    effect,
    insert,
    listed,
    locked,
    put,
    record,
    tx,
    view,
)

Write: TypeAlias = Put | Update | Delete | Transact | BatchWrite

Judge: TypeAlias = Callable[[Any, Sequence[State]], bool]
"""Whether an answer is right, by the committed states from the begin of the client to its answer."""


@frozen
class Role:
    """A client and what it may do.

    Attributes:
        client: the client.
        effects: its operations; each may be committed once.
        judge: judges its answer.
        again: its operations may be committed again if an answer is lost, as puts without a condition may.
    """

    client: Client
    effects: tuple[Effect, ...] = ()
    judge: Judge = lambda _answer, _states: True
    again: bool = False


def writes(name: str, request: Write, **options: Any) -> Role:
    """A client that writes."""
    if isinstance(request, BatchWrite):
        effects = tuple(effect(one) for one in request.operations)
    else:
        effects = (effect(*(request.operations if isinstance(request, Transact) else (request,))),)
    again = isinstance(request, BatchWrite) or (isinstance(request, Put) and request.condition is None)
    return Role(Client.of(name, request, **options), effects, again=again)


def reads(name: str, *keys: Any, atomic: bool = True) -> Role:
    """A client that reads items, as they were at one instant or each by itself."""
    names = [key.partition for key in keys]

    def judge(answer: Any, states: Sequence[State]) -> bool:
        got = [_without_zero(item) for item in answer]
        shown = [[_item(state.get(name)) for name in names] for state in states]
        return got in shown if atomic else all(got[n] in (one[n] for one in shown) for n in range(len(names)))

    return Role(Client.of(name, BatchGet(keys, atomic=atomic)), judge=judge)


def gets(name: str, key: Any, **options: Any) -> Role:
    """A client that reads an item."""
    request = Get(key, **options)

    def judge(answer: Any, states: Sequence[State]) -> bool:
        return _without_zero(answer) in [_item(state.get(key.partition)) for state in states]

    return Role(Client.of(name, request), judge=judge)


def queries(name: str, team: str) -> Role:
    """A client that queries the index: what has the key all the time is found, and nothing else than has it once."""

    def judge(answer: Page, states: Sequence[State]) -> bool:
        rows = zip(answer.positions, answer.items, strict=True)
        found = {place.key.partition: _without_zero(item) for place, item in rows}
        there = [{key: _item(value) for key, value in state.items() if _has(value, team)} for state in states]
        right = all(any(one.get(key) == item for one in there) for key, item in found.items())
        return right and all(key in found for key in there[0] if all(key in one for one in there))

    return Role(Client.of(name, Query(team, index="by_team")), judge=judge)


def counts(name: str) -> Role:
    """A client that counts all items."""

    def judge(answer: Page, states: Sequence[State]) -> bool:
        return answer.strangers == 0 and answer.count in [len(state) for state in states]

    return Role(Client.of(name, Scan(count=True)), judge=judge)


def scans(name: str, tag: str) -> Role:
    """A client that scans for the items of one entity; others, which it need not return, are as they are, too."""

    def judge(answer: Page, states: Sequence[State]) -> bool:
        found = [_without_zero(dict(item)) for item in answer.items]
        items = [[_item(value) for value in state.values()] for state in states]
        mine = [[one for one in some if one is not None and one["_t"] == tag] for some in items]
        right = all(any(one in some for some in items) for one in found)
        return right and all(one in found for one in mine[0] if all(one in some for some in mine))

    return Role(Client.of(name, Scan(tag=tag)), judge=judge)


def resolves(name: str, *keys: Any) -> Role:
    """A client that resolves the locks of rows, however young they are."""

    def make(procedures: Procedures) -> Any:
        writer = procedures.writer
        assert isinstance(writer.places.locks, Locks)
        resolver = Resolver(writer.places.locks, writer.retry, writer.now)
        return resolver.unlocked([key.partition for key in keys], writer.places.locks.cells.whole)

    return Role(Client(name, make, abort_after=0))


def does(name: str, make: Make) -> Role:
    """A client that changes nothing that counts, such as a scrub."""
    return Role(Client(name, make, abort_after=0))


def _item(value: Value | None) -> dict[str, Any] | None:
    return None if value is None else _without_zero(dict(value[0]))


def _without_zero(item: Any) -> dict[str, Any] | None:
    """An item without a counter that is 0, which a row may lack."""
    return None if item is None else {name: one for name, one in item.items() if name != "views" or one}


def _has(value: Value, team: str) -> bool:
    return any(key.partition == team for _, key in value[1])


@frozen
class Seen:
    """What the observer remembers.

    Attributes:
        states: the numbers of the committed states so far.
        begins: for each client, which of them was the last before its first call.
        done: for each client, its operations that are committed, as bits.
        judged: for each client, whether its answer was judged.
    """

    states: tuple[int, ...]
    begins: tuple[int | None, ...]
    done: tuple[int, ...]
    judged: tuple[bool, ...]


@define
class Observer:
    """Checks each step of some roles."""

    roles: Sequence[Role]
    faults: int = 0
    known: list[State] = field(factory=list)
    _numbers: dict[Any, int] = field(factory=dict)
    _ends: dict[Any, None] = Factory(dict)

    def first(self, server: NativeServer) -> Seen:
        """What it remembers at first."""
        count = len(self.roles)
        return Seen((self._number(committed(server)),), (None,) * count, (0,) * count, (False,) * count)

    def watch(self, before: Moment, after: Moment, client: int, call: Call) -> Seen:
        """Check a step."""
        seen: Seen = before.seen
        if seen.begins[client] is None:
            seen = evolve(seen, begins=_with(seen.begins, client, len(seen.states) - 1))
        if after.server.changed != before.server.changed:
            seen = self._changed(seen, after, client)
        node = after.places[client].node
        if node.answered and not seen.judged[client]:
            seen = evolve(seen, judged=_with(seen.judged, client, True))
            self._judge(seen, client, node.answer)
        if node.paused and node is not before.places[client].node and after.faults == self.faults:
            self._holds_nothing(after.server, client)
        return seen

    def _changed(self, seen: Seen, after: Moment, client: int) -> Seen:
        assert listed(after.server) <= columns(after.server), "an entry that is listed has no column"
        state = committed(after.server)
        number = self._number(state)
        if number == seen.states[-1]:
            return seen
        role, old = self.roles[client], self.known[seen.states[-1]]
        for bit, one in enumerate(role.effects):
            fresh = not seen.done[client] & 1 << bit or (role.again and after.faults < self.faults)
            if fresh and one(old) == state:
                done = _with(seen.done, client, seen.done[client] | 1 << bit)
                return evolve(seen, states=(*seen.states, number), done=done)
        raise AssertionError(f"this is not an operation of {role.client.name}: {old} became {state}")

    def _judge(self, seen: Seen, client: int, answer: Any) -> None:
        role = self.roles[client]
        begin = seen.begins[client]
        assert begin is not None
        states = [self.known[number] for number in seen.states[begin:]]
        done = seen.done[client]
        if isinstance(answer, Refused | Refusals):
            assert not done, "it is refused, and committed"
            assert any(one(state) is None for one in role.effects for state in states), f"refused wrongly: {states}"
        elif isinstance(answer, OdmError):
            assert isinstance(answer, OutcomeUnknown), f"it fails: {answer!r}"
            assert self.faults, f"no answer was lost: {answer!r}"
        else:
            for bit, one in enumerate(role.effects):
                assert done & 1 << bit or any(one(state) == state for state in states), f"not done: {states}"
            assert role.judge(answer, states), f"a wrong answer: {answer!r} of {states}"

    def _holds_nothing(self, server: NativeServer, client: int) -> None:
        name = self.roles[client].client.name
        for lock in locked(server).values():
            mine = lock.id.startswith(name) and record(server, lock.id) is None
            assert not mine, f"{name} waits while it holds a lock"

    def at_end(self, moment: Moment) -> None:
        """Nobody goes on: resolving all locks changes nothing that counts, and leaves no lock."""
        key = tuple(sorted(moment.server.rows.items()))
        if key in self._ends:
            return
        self._ends[key] = None
        server = moment.server.copy()
        state = committed(server)
        procedures = Procedures(SCHEMA, now=lambda: server.now, ids=lambda: "end", abort_after=0)
        places = procedures.writer.places
        assert isinstance(places.locks, Locks)
        resolver = Resolver(places.locks, procedures.retry, procedures.now)
        rows = [key for table, key in server.rows if table == SCHEMA.name]
        run(resolver.unlocked(rows, places.locks.cells.whole), server.call)
        assert committed(server) == state
        assert not locked(server)
        assert not any(MARK in key for key in state)
        assert listed(server) <= columns(server)

    def _number(self, state: State) -> int:
        key = tuple(state.items())
        if key not in self._numbers:
            self._numbers[key] = len(self.known)
            self.known.append(state)
        return self._numbers[key]


def _with(values: Any, at: int, value: Any) -> Any:
    return (*values[:at], value, *values[at + 1 :])


def filled(*requests: Request) -> NativeServer:
    """A server on which these requests were made."""
    server = NativeServer.of(SCHEMA)
    numbers = iter(range(1000))
    procedures = Procedures(SCHEMA, now=lambda: server.now, ids=lambda: f"0{next(numbers)}")
    for request in requests:
        run(procedures.steps(request), server.call)
    return server


def explore(server: NativeServer, *roles: Role, most: int = 1_000_000, **options: Any) -> Explored:
    """Run the roles in every order. Raises `Wrong` with what happened."""
    observer = Observer(roles, options.get("faults", 0))
    clients = [role.client for role in roles]
    first = observer.first(server)
    world = World(SCHEMA, server, clients, observer.watch, observer.at_end, first=first, **options)
    return world.explore(most)


BOTH = filled(put(X, 5, "A"), put(Y, 6), view(X), view(Y))
ONLY_Y = filled(put(Y, 6), view(Y))
P = Key("P#1")
PLAIN = filled(put(P, 1, tag="Plain"), put(Y, 6), view(P, 1, "Plain"), view(Y))
NOTHING = NativeServer.of(SCHEMA)

MOVES = tx(put(X, 1, "B"), change(Y, 1))
ADDS = tx(change(Y, 10), change(X, 20))
PLAINS = tx(put(P, 3, tag="Plain"), change(Y, 1))
INSERTS = tx(insert(X, 1, "A"), change(Y, 1))


def first(name: str, request: Write, pauses: int = 0) -> Role:
    """A transaction that makes so many further attempts."""
    return writes(name, request, pauses=pauses)


def now(name: str, request: Write) -> Role:
    """A writer that breaks each lock that it meets."""
    return writes(name, request, abort_after=0)
