"""A table with transactions for tests in memory: requests, and the committed state that they must agree with.

The committed state is found without the backend's readers: a locked row is what the server makes of what is staged, if
the record says "committed"; otherwise its attributes, with the counters that its lock has.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

from odm import AccessPattern, Counter, Entity, PrimaryKey, Table
from odm.backends.bigtable.admin.schema import name_of
from odm.backends.bigtable.client.native import COUNTERS, ENTRIES, RECORD, Cell, Row
from odm.backends.bigtable.rows.codec import Form, stored
from odm.backends.bigtable.rows.keys import entry_row, index_table, with_row_keys
from odm.backends.bigtable.transactions.lock_cells import Lock, LockCells
from odm.expressions.evaluate import apply, holds
from odm.expressions.nodes import Action, Compare, Condition, Const, Increment, Item, Path, Remove, Set
from odm.immutable import evolve
from odm.protocol.predicates import ABSENT, EXISTS, condition_of, every
from odm.protocol.requests import Check, Delete, Operation, Put, Transact, Update
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.native_server import Cells, NativeServer

deals = Table("deals", transactions=True)


class Deal(Entity, table=deals):
    """Has a number, an index and a counter."""

    name: str
    n: int = 0
    team: str | None = None
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("{name}")
    by_team = AccessPattern("{team}", index="by_team")


class Plain(Entity, table=deals):
    """Has no index, so it is put without a read."""

    name: str
    n: int = 0
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("P#{name}")


COMPILED: Final = deals.compile()
SCHEMA: Final[Schema] = with_row_keys(evolve(COMPILED, name=name_of(COMPILED)))
INDEX: Final = index_table(SCHEMA.name, "by_team")
RECORDS: Final = f"{SCHEMA.name}.transactions"
OF_ROW: Final = Form.of(SCHEMA)
LOCK_CELLS: Final = LockCells(SCHEMA.name, OF_ROW.owned)

X, Y, Z = Key("x"), Key("y"), Key("z")

Value: TypeAlias = tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, Key], ...]]
"""An item and its index keys, sorted by name."""

State: TypeAlias = Mapping[str, Value]
"""The committed items by row key; those that do not exist are left out."""

Effect: TypeAlias = Callable[[State], State | None]
"""What an operation makes of a committed state; None: it is refused."""


def entries(team: str | None) -> dict[str, Key]:
    """The index keys of an item of a team."""
    return {} if team is None else {"by_team": Key(team, team)}


def put(key: Key, n: int, team: str | None = None, *, when: Condition | None = None, tag: str = "Deal") -> Put:
    """Write a whole item."""
    item: dict[str, Any] = {"_t": tag, "n": n} | ({} if team is None else {"team": team})
    return Put(key, item, entries(team), when, presence="absent" if when == ABSENT else None)


def insert(key: Key, n: int, team: str | None = None) -> Put:
    """Insert an item."""
    return put(key, n, team, when=ABSENT)


def change(key: Key, by: int) -> Update:
    """Add to a number."""
    return _update(key, (Increment(Path(("n",)), by),))


def assign(key: Key, n: int) -> Update:
    """Set a number, which needs no read."""
    return _update(key, (Set(Path(("n",)), n),))


def spend(key: Key, by: int) -> Update:
    """Subtract from a number that is large enough."""
    return evolve(change(key, -by), condition=at_least(by))


def move(key: Key, team: str | None) -> Update:
    """Change the index key."""
    path = Path(("team",))
    actions: tuple[Action, ...] = (Remove(path),) if team is None else (Set(path, team),)
    return Update(key, actions, {"by_team": None, **entries(team)}, tag="Deal")


def view(key: Key, by: int = 1, tag: str = "Deal") -> Update:
    """Increment the counter."""
    return Update(key, (Increment(Path(("views",)), by),), tag=tag)


def live(key: Key) -> Check:
    """Check that there is an item."""
    return Check(key, EXISTS)


def rich(key: Key, least: int) -> Check:
    """Check that a number is large enough."""
    return Check(key, every(EXISTS, at_least(least)))


def at_least(least: int) -> Condition:
    """The number is large enough."""
    return Compare(">=", Path(("n",)), Const(least))


def tx(*operations: Operation) -> Transact:
    """A transaction."""
    return Transact(operations)


def _update(key: Key, actions: tuple[Action, ...]) -> Update:
    return Update(key, actions, tag="Deal")


def value_of(item: Item, keys: Mapping[str, Key]) -> Value:
    """An item to compare; its counter is always there."""
    full = {"views": 0, **item}
    return tuple(sorted(full.items())), tuple(sorted(keys.items()))


def committed(server: NativeServer) -> State:
    """The committed state of all items."""
    found = {key: _value(server, key, cells) for (table, key), cells in server.rows.items() if table == SCHEMA.name}
    return {key: value for key, (value, _) in sorted(found.items()) if value is not None}


def listed(server: NativeServer) -> set[tuple[str, str]]:
    """The columns that committed lists have: index row and qualifier."""
    items = [(key, cells) for (table, key), cells in server.rows.items() if table == SCHEMA.name]
    return {column for key, cells in items for column in _value(server, key, cells)[1]}


def columns(server: NativeServer) -> set[tuple[str, str]]:
    """The columns of index rows: row and qualifier."""
    rows = [(key, cells) for (table, key), cells in server.rows.items() if table == INDEX]
    return {(key, cell.qualifier.decode()) for key, cells in rows for cell in cells if cell.family == ENTRIES}


def locked(server: NativeServer) -> dict[str, Lock]:
    """The locks, by row key."""
    rows = [(key, cells) for (table, key), cells in server.rows.items() if table == SCHEMA.name]
    found = {key: LOCK_CELLS.lock_of(Row(key.encode(), cells)) for key, cells in rows}
    return {key: lock for key, lock in found.items() if lock is not None}


def record(server: NativeServer, id: str) -> bytes | None:
    """What the record of a transaction says."""
    cells = server.rows.get((RECORDS, id), ())
    return next((one.value for one in cells if (one.family, one.qualifier) == (RECORD, b"state")), None)


Held: TypeAlias = tuple[Value | None, tuple[tuple[str, str], ...]]
_known: dict[tuple[Cells, bytes | None], Held] = {}
_locks: dict[Cells, Lock | None] = {}


def _value(server: NativeServer, key: str, cells: Cells) -> Held:
    """The committed item of a row, and the index columns that it lists."""
    if cells not in _locks:
        _locks[cells] = LOCK_CELLS.lock_of(Row(key.encode(), cells))
    lock = _locks[cells]
    said = None if lock is None else record(server, lock.id)
    known = _known.get((cells, said))
    if known is None:
        known = _known[cells, said] = _read(key, _shown(server, cells, lock, said))
    return known


def _shown(server: NativeServer, cells: Cells, lock: Lock | None, said: bytes | None) -> Cells:
    if lock is None:
        return cells
    if said == b"committed" and lock.after is not None:
        return server.after(cells, lock.after, SCHEMA.name)
    kept = [cell for cell in cells if cell.family != COUNTERS and cell.qualifier not in (b"~x", b"~r")]
    was = [] if lock.was is None else [Cell("d", b"~r", lock.was.encode(), 0)]
    return (*kept, *was, *lock.counters)


def _read(key: str, cells: Cells) -> Held:
    newest = {(cell.family, cell.qualifier): cell for cell in reversed(cells)}
    held = stored(Row(key.encode(), newest.values()), OF_ROW) if newest else None
    if held is None:
        return None, ()
    assert held.revision
    rows = tuple((entry_row(one.key, Key(key)), one.qualifier) for one in held.entries)
    return value_of(held.item, {one.index: one.key for one in held.entries}), rows


def effect(*operations: Operation) -> Effect:
    """What operations make of a committed state, together."""
    return lambda state: _applied(state, operations)


def _applied(state: State, operations: Iterable[Operation]) -> State | None:
    made: dict[str, Value] = dict(state)
    for one in operations:
        before = state.get(one.key.partition)
        item = None if before is None else dict(before[0])
        if (condition := condition_of(one)) is not None and not holds(condition, item):
            return None
        if isinstance(one, Delete):
            made.pop(one.key.partition, None)
        elif isinstance(one, Put):
            made[one.key.partition] = value_of(one.item, one.entries)
        elif isinstance(one, Update):
            assert before is not None
            assert item is not None
            keys = {**dict(before[1]), **one.entries}
            after = apply(one.actions, item)
            made[one.key.partition] = value_of(after, {name: key for name, key in keys.items() if key is not None})
    return dict(sorted(made.items()))
