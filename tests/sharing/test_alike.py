"""The same calls on a table that another program made have the same results on every backend: random calls.

``pytest --full --times 10 tests/sharing`` makes more calls.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final, Literal
from uuid import uuid4

import boto3
import pytest

from odm import Entity, OdmError, Query, Store
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.protocol.connection import Backend
from tests.effort import times
from tests.sharing.existing import NOON, Models, Picks, models

SESSION = boto3.Session(aws_access_key_id="alike", aws_secret_access_key="x", region_name="eu-west-1")

Call = Callable[[Store], Any]


KINDS: Final[dict[str, tuple[str | None, Literal["verbatim", "escaped"]]]] = {
    "shapes": (None, "verbatim"),
    "tags": ("EntityType", "verbatim"),
    "escaped": ("EntityType", "escaped"),
}


@pytest.fixture(params=KINDS)
def known(request: pytest.FixtureRequest) -> Models:
    return models(*KINDS[request.param])


@pytest.fixture(params=["moto_server", "dynamodb_local"])
def stores(request: pytest.FixtureRequest, known: Models, tmp_path: Path) -> Iterator[dict[str, Store]]:
    """A store on each backend."""
    endpoint = request.getfixturevalue(request.param)
    backends: dict[str, Backend] = {
        "memory": Memory(),
        "file": LocalFile(tmp_path / "existing.db"),
        request.param: DynamoDB(SESSION, endpoint_url=endpoint),
    }
    prefix = f"{uuid4().hex[:8]}-"
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(Store(known.table, backend, prefix=prefix, clock=NOON.timestamp))
            for name, backend in backends.items()
        }
        for db in found.values():
            db.create()
        yield found


@pytest.mark.parametrize("seed", range(times(1, 2)))
def test_the_same_calls_have_the_same_results(stores: dict[str, Store], known: Models, seed: int) -> None:
    calls = Calls(known, Random(seed))
    done: list[str] = []
    failures: set[str] = set()
    for number in range(times(80, 250)):
        name, call = calls.next()
        done.append(name)
        results = {backend: _result(call, db) for backend, db in stores.items()}
        first = next(iter(results.values()))
        assert all(result == first for result in results.values()), f"{name}, step {number} of seed {seed}: {results}"
        failures.update(first if isinstance(first, set) else ())
        if number % 10 == 9:
            states = {backend: _sorted(db.scan()) for backend, db in stores.items()}
            assert all(state == states["memory"] for state in states.values()), f"after {done[-10:]}: {states}"
    assert {"ConditionFailed", "ItemNotFound"} <= failures


def _result(call: Call, db: Store) -> Any:
    """What a call returns, or the class of its error in a set."""
    try:
        return call(db)
    except OdmError as error:
        return {type(error).__name__}


def _sorted(items: Any) -> list[str]:
    return sorted(_shown(item) for item in items)


def _shown(item: Any) -> str:
    values = {name: sorted(v) if isinstance(v, set) else v for name, v in dict(item).items()} if item else None
    return f"{type(item).__name__} {values}"


class Calls:
    """Random calls, each with its name."""

    def __init__(self, known: Models, random: Random) -> None:
        self._pick = Picks(known, random)
        self._random = random
        self._of = known

    def next(self) -> tuple[str, Call]:
        kinds = [self._put, self._put, self._update, self._update, self._delete, self._query, self._query, self._query]
        kind = self._random.choice([*kinds, self._get, self._batch, self._transact, self._scan])
        return kind()

    def _put(self) -> tuple[str, Call]:
        entity, kind = self._pick.entity(), self._random.random()
        if kind < 0.4:
            return f"put {entity!r}", lambda db: _shown(db.put(entity))
        if kind < 0.6:
            return f"insert {entity!r}", lambda db: _shown(db.insert(entity))
        when = self._pick.condition(type(entity), reading=False)
        return f"put {entity!r} when {when}", lambda db: _shown(db.put(entity, when=when))

    def _update(self) -> tuple[str, Call]:
        cls = type(self._pick.entity())
        key, actions = self._pick.key(cls), self._pick.actions(cls)
        when = self._pick.condition(cls, reading=False) if self._random.random() < 0.5 else None
        upsert = self._random.random() < 0.4
        returning: Any = self._random.choice(["none", "old", "new"])
        name = f"update {key} {[*map(str, actions)]} {when=!s} {returning=} {upsert=}"
        return name, lambda db: _shown(db.update(key, *actions, when=when, returning=returning, upsert=upsert))

    def _delete(self) -> tuple[str, Call]:
        cls = type(self._pick.entity())
        key = self._pick.key(cls)
        when = self._pick.condition(cls, reading=False) if self._random.random() < 0.6 else None
        if self._random.random() < 0.1:
            query, _ = self._pick.query()
            return f"delete_all {query}", lambda db: db.delete_all(query)
        return f"delete {key} {when=!s}", lambda db: db.delete(key, when=when)

    def _get(self) -> tuple[str, Call]:
        key, keys = self._pick.key(), list({str(key): key for key in (self._pick.key() for _ in range(4))}.values())
        atomic = self._random.random() < 0.5
        choices: list[tuple[str, Call]] = [
            (f"get {key}", lambda db: _shown(db.get(key))),
            (f"exists {key}", lambda db: db.exists(key)),
            (f"get_many {[*map(str, keys)]} {atomic=}", lambda db: [*map(_shown, db.get_many(keys, atomic=atomic))]),
        ]
        return self._random.choice(choices)

    def _query(self) -> tuple[str, Call]:
        query, order = self._pick.query()
        limited = query.limit(self._random.choice([1, 2, 3]))
        size = self._random.choice([1, 2])
        exact = order == "all"
        choices: list[tuple[str, Call]] = [
            (f"query {query}", lambda db: [*map(_shown, db.query(query))] if exact else _sorted(db.query(query))),
            (f"count {query}", lambda db: db.count(query)),
            (f"exists {query}", lambda db: db.exists(query)),
            (f"first {query}", lambda db: _shown(db.first(query)) if exact else db.first(query) is None),
            (f"limit {limited}", lambda db: [*map(_shown, db.query(limited))] if exact else len([*db.query(limited)])),
            (f"count {limited}", lambda db: db.count(limited)),
            (f"pages of {size} {query}", lambda db: _paged(db, query, size, exact=exact)),
        ]
        return self._random.choice(choices)

    def _batch(self) -> tuple[str, Call]:
        changes = self._changes()

        def call(db: Store) -> None:
            with db.batch() as batch:
                for change in changes:
                    batch.put(change) if isinstance(change, Entity) else batch.delete(change)

        return f"batch {[*map(repr, changes)]}", call

    def _changes(self) -> list[Any]:
        return [
            self._pick.entity() if self._random.random() < 0.5 else self._pick.key()
            for _ in range(self._random.randrange(1, 4))
        ]

    def _transact(self) -> tuple[str, Call]:
        steps = []
        for change in self._changes():
            cls = type(change) if isinstance(change, Entity) else self._pick.random.choice([self._of.comment])
            when = self._pick.condition(cls, reading=False) if self._random.random() < 0.3 else None
            kind = self._random.choice(
                ["put", "insert"] if isinstance(change, Entity) else ["delete", "update", "check"]
            )
            key: Any = change if isinstance(change, Entity) else self._pick.key(cls)
            steps.append((kind, key, when, self._pick.actions(cls)))

        def call(db: Store) -> None:
            with db.transaction() as tx:
                for kind, change, when, actions in steps:
                    match kind:
                        case "put":
                            tx.put(change, when=when)
                        case "insert":
                            tx.insert(change)
                        case "delete":
                            tx.delete(change, when=when)
                        case "update":
                            tx.update(change, *actions, when=when, upsert=when is None)
                        case _:
                            tx.check(change, when=when)

        return (
            f"transaction {[(kind, str(change), str(when), [*map(str, a)]) for kind, change, when, a in steps]}",
            call,
        )

    def _scan(self) -> tuple[str, Call]:
        cls = type(self._pick.entity())
        condition = self._pick.condition(cls, reading=True)
        return f"scan {cls.__name__} {condition}", lambda db: _sorted(db.scan(cls, condition))


def _paged(db: Store, query: Query[Any], size: int, *, exact: bool) -> list[str]:
    """The results of all pages."""
    found: list[str] = []
    after = None
    while True:
        page = db.page(query, size=size, after=after)
        assert len(page.items) <= size
        found += map(_shown, page.items)
        after = page.cursor
        if after is None:
            return found if exact else sorted(found)
