"""Conditions of writes, transactions, batches and expiry."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from odm import (
    BadValue,
    ConditionFailed,
    ItemExists,
    ItemNotFound,
    ItemTooLarge,
    Transaction,
    TransactionFailed,
    increment,
    set_,
)
from tests.facts.fact import Case, fact
from tests.facts.model import Passing, Text, Thing

WHEN, PUT, DELETE = "S updateItem/conditions", "S putItem/conditions", "S deleteItem/basic"
LIMITS, WRITE, BATCH = "S limits/transactionLimits", "S transactions/transactWrite", "S limits/batchLimits"
D_TRANSACTIONS: Final = "D transaction-apis"
D_TTL: Final = "D TTL"
BATCHES, GETS = "S batchWriteItem/basic", "S batchGetItem/basic"


def text(case: Case, number: object, pad: str = "") -> Text:
    return Text(id=case.id, sort=str(number), pad=pad)


def count(case: Case) -> int:
    return case.db.count(Text.primary(id=case.id))


def pads(case: Case) -> list[str]:
    return [one.pad for one in case.db.query(Text.primary(id=case.id))]


def key(case: Case, number: object) -> Any:
    return Text.primary(id=case.id, sort=str(number))


def together(case: Case, made: Callable[[Case], Sequence[Callable[[Transaction], object]]]) -> Any:
    """Run a transaction of these operations on items 1, 2 and 3; returns the reasons if it fails, otherwise None."""
    with case.db.batch() as batch:
        for number in (1, 2, 3):
            batch.put(text(case, number, "old"))
    try:
        with case.db.transaction() as tx:
            for operation in made(case):
                operation(tx)
    except TransactionFailed as failure:
        assert pads(case) == ["old"] * 3  # nothing was done
        return [type(reason).__name__ for reason in failure.reasons]
    return None


def transacted(case: Case, number: int, pad: str = "") -> int:
    with case.db.transaction() as tx:
        for one in range(number):
            tx.put(text(case, one, pad))
    return len(pads(case))


def batched(case: Case, numbers: int, pad: str = "") -> int:
    with case.db.batch() as batch:
        for number in range(numbers):
            batch.put(text(case, f"{number:04}", pad))
    return count(case)


def got(case: Case, numbers: int, atomic: bool = False) -> int:
    batched(case, numbers)
    found = case.db.get_many([key(case, f"{number:04}") for number in range(numbers)], atomic=atomic)
    return len([one for one in found if one is not None])


def _order(case: Case) -> list[str | None]:
    """The items of a batch read come in the order of its keys, absent ones as None, a key twice as two items."""
    batched(case, 3)
    found = case.db.get_many([key(case, name) for name in ("0002", "absent", "0000", "0002")])
    return [one and one.sort for one in found]


def _twice(case: Case) -> list[str]:
    with case.db.batch() as batch:
        batch.put(text(case, 1, "first"))
        batch.put(text(case, 1, "second"))
        batch.put(text(case, 2))
        batch.delete(key(case, 2))
    return pads(case)


def _mixed(case: Case) -> int:
    batched(case, 5)
    with case.db.batch() as batch:
        batch.delete(key(case, "0000"))
        batch.delete(key(case, "absent"))
        batch.put(text(case, "new"))
        batch.put(case.thing())
    return count(case)


def _done(case: Case) -> list[str]:
    """A put, an update and a delete, each of its own item, which all hold."""
    case.db.put(text(case, 2, "old"))
    case.db.put(text(case, 3, "old"))
    with case.db.transaction() as tx:
        tx.put(text(case, 1, "new"))
        tx.update(key(case, 2), set_(Text.pad, "new"), when=Text.pad == "old")
        tx.delete(key(case, 3), when=Text.pad == "old")
    return pads(case)


_TOGETHER: list[tuple[str, Callable[[Case], Sequence[Callable[[Transaction], object]]], Any, str]] = [
    (
        "insert of what is there",
        lambda case: [lambda tx: tx.put(text(case, 1)), lambda tx: tx.insert(text(case, 2))],
        ["NoneType", "ItemExists"],
        WRITE,
    ),
    (
        "an update whose condition fails",
        lambda case: [
            lambda tx: tx.update(key(case, 1), set_(Text.pad, "new"), when=Text.pad == "new"),
            lambda tx: tx.delete(key(case, 2)),
        ],
        ["ConditionFailed", "NoneType"],
        WRITE,
    ),
    (
        "an update of what is absent",
        lambda case: [lambda tx: tx.update(key(case, 9), set_(Text.pad, "new")), lambda tx: tx.delete(key(case, 2))],
        ["ItemNotFound", "NoneType"],
        WRITE,
    ),
    (
        "a check of what is absent",
        lambda case: [lambda tx: tx.put(text(case, 1)), lambda tx: tx.check(key(case, 9))],
        ["NoneType", "ItemNotFound"],
        WRITE,
    ),
    (
        "a check that fails, twice",
        lambda case: [
            lambda tx: tx.check(key(case, 1), when=Text.pad == "new"),
            lambda tx: tx.put(text(case, 2)),
            lambda tx: tx.check(key(case, 3), when=Text.pad == "new"),
        ],
        ["ConditionFailed", "NoneType", "ConditionFailed"],
        WRITE,
    ),
    (
        "two checks that hold",
        lambda case: [lambda tx: tx.check(key(case, 1), when=Text.pad == "old"), lambda tx: tx.check(key(case, 2))],
        None,
        WRITE,
    ),
    ("delete of what is absent", lambda case: [lambda tx: tx.delete(key(case, 9))], None, DELETE),
    (
        "an item twice",
        lambda case: [lambda tx: tx.put(text(case, 1)), lambda tx: tx.delete(key(case, 1))],
        BadValue,
        WRITE,
    ),
    (
        "an item twice, once in a check",
        lambda case: [lambda tx: tx.check(key(case, 1)), lambda tx: tx.update(key(case, 1), set_(Text.pad, "new"))],
        BadValue,
        WRITE,
    ),
]


def _safe(case: Case) -> tuple[int, int]:
    """Two updates that are retried until they are known to be done, one after the other."""
    safe = case.db.with_options(retry_safe=True)
    case.db.put(case.thing(0))
    for _ in range(2):
        safe.update(case.key, increment(Thing.x))
    return case.db.one(case.key).x, case.used(lambda: safe.update(case.key, increment(Thing.x))).calls


def _conditional(case: Case, write: Callable[[Case], object]) -> Any:
    case.db.put(case.thing(5, 1))
    write(case)
    found = case.db.get(case.key)
    return found and found.y


X: Final = Thing.x
_CONDITIONAL: list[tuple[str, Callable[[Case], object], Any, str]] = [
    ("put whose condition holds", lambda case: case.db.put(case.thing(6, 2), when=X == 5), 2, PUT),
    ("put whose condition fails", lambda case: case.db.put(case.thing(6, 2), when=X == 6), ConditionFailed, PUT),
    ("insert over an item", lambda case: case.db.insert(case.thing(6, 2)), ItemExists, PUT),
    ("delete whose condition holds", lambda case: case.db.delete(case.key, when=X == 5), None, DELETE),
    ("delete whose condition fails", lambda case: case.db.delete(case.key, when=X == 6), ConditionFailed, DELETE),
    ("update whose condition holds", lambda case: case.db.update(case.key, set_(Thing.y, 2), when=X == 5), 2, WHEN),
    (
        "update whose condition fails",
        lambda case: case.db.update(case.key, set_(Thing.y, 2), when=X == 6),
        ConditionFailed,
        WHEN,
    ),
]


def _absent(case: Case, write: Callable[[Case], Any]) -> Any:
    returned = write(case)
    return returned, case.db.get(case.key)


PAST: Final = datetime(2001, 2, 3, tzinfo=UTC)
FUTURE: Final = datetime(2286, 1, 1, 12, 30, 59, tzinfo=UTC)


def passing(case: Case, until: datetime | None) -> Passing:
    return Passing(id=case.id, until=until)


def _expired(case: Case, ask: Callable[[Case, Any], Any], until: datetime | None) -> Any:
    case.db.put(passing(case, until))
    return ask(case, Passing.primary(id=case.id, sort="-"))


_TTL: list[tuple[str, Callable[[Case, Any], Any], Any, Any]] = [
    # what is done, the outcome where the time has passed, and where it has not
    ("get", lambda case, one: case.db.get(one) is not None, False, True),
    ("exists", lambda case, one: case.db.exists(one), False, True),
    ("query", lambda case, _: len(list(case.db.query(Passing.primary(id=case.id)))), 0, 1),
    ("count", lambda case, _: case.db.count(Passing.primary(id=case.id)), 0, 1),
    ("get_many", lambda case, one: len([found for found in case.db.get_many([one]) if found]), 0, 1),
    ("delete", lambda case, one: case.db.delete(one), False, True),
    ("update", lambda case, one: case.db.update(one, increment(Passing.count)), ItemNotFound, None),
    ("insert", lambda case, _: case.db.insert(passing(case, FUTURE)).until, FUTURE, ItemExists),
]


def _until(case: Case, query: Any) -> datetime | None:
    until: datetime | None = case.db.one(query).until
    return until


FACTS = [
    *(fact(name, outcome, source, _conditional, write) for name, write, outcome, source in _CONDITIONAL),
    fact("delete of what is absent", (False, None), DELETE, _absent, lambda case: case.db.delete(case.key)),
    fact(
        "put with a condition on what is absent",
        ConditionFailed,
        PUT,
        lambda case: case.db.put(case.thing(1), when=X == 1),
    ),
    *(fact(f"transaction: {name}", outcome, source, together, made) for name, made, outcome, source in _TOGETHER),
    fact("transaction of a put, an update and a delete", ["new", "new"], WRITE, _done),
    fact("transaction of 100 puts", 100, LIMITS, transacted, 100),
    fact("transaction of 101 puts", BadValue, LIMITS, transacted, 101),
    fact("transaction of 3.5 MB", 10, LIMITS, transacted, 10, "p" * 350_000),
    fact("transaction of 4.2 MB", ItemTooLarge, LIMITS, transacted, 12, "p" * 350_000),
    fact("updates with retry_safe are done once each", (2, 1), WRITE, _safe),
    fact("batch of 25 puts", 25, BATCH, batched, 25),
    fact("batch of 26 puts: odm sends two", 26, BATCH, batched, 26),
    fact("batch of 120 puts", 120, BATCH, batched, 120),
    fact("batch of 25 puts of 20 KB", 25, BATCH, batched, 25, "p" * 20_000),
    fact("batch of no writes", 0, BATCH, batched, 0),
    fact("batch with a key twice: the last write counts", ["second"], "S batchWriteItem/validation", _twice),
    fact("batch of puts and deletes, also of what is absent", 5, BATCHES, _mixed),
    fact("batch read of 100 keys", 100, BATCH, got, 100),
    fact("batch read of 101 keys: odm sends two", 101, BATCH, got, 101),
    fact("batch read of no keys", 0, BATCH, got, 0),
    fact("batch read with an absent key and a key twice", ["0002", None, "0000", "0002"], GETS, _order),
    fact("atomic read of 100 keys", 100, LIMITS, got, 100, True),
    fact("atomic read of 101 keys", BadValue, LIMITS, got, 101, True),
    *(fact(f"{name} of what expired in 2001", outcome, D_TTL, _expired, ask, PAST) for name, ask, outcome, _ in _TTL),
    *(fact(f"{name} of what expires in 2286", outcome, D_TTL, _expired, ask, FUTURE) for name, ask, _, outcome in _TTL),
    fact("get of what has no time to live", True, D_TTL, _expired, _TTL[0][1], None),
    fact("a time to live, put and read", FUTURE, D_TTL, _expired, _until, FUTURE),
]
