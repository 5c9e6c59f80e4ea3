"""Random transactions against a dict of entities: the reasons are those that the model gives, and so is what is stored.

The model judges each operation on what it held before the transaction and changes Python objects; it knows nothing of
guards, entries or stored values.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from odm import (
    AccessPattern,
    ConditionFailed,
    Conflict,
    Entity,
    ItemExists,
    ItemNotFound,
    OdmError,
    PrimaryKey,
    Revision,
    Store,
    Table,
    TransactionFailed,
    increment,
    missing,
    remove,
    set_,
)
from odm.backends.local import Memory
from odm.stores.transactions import Transaction

table = Table("stock")


class Part(Entity, table=table):
    name: str
    place: str = "a"
    amount: Annotated[int, Field(ge=0, le=9)] = 0
    note: str | None = None
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("PART#{name}")
    by_place = AccessPattern("PLACE#{place}", "{amount}#{name}")
    noted = AccessPattern("NOTED", "{note}#{place}#{name}")


State: TypeAlias = dict[str, Part]
Outcome: TypeAlias = "type[OdmError] | Part | None"


class Step(NamedTuple):
    """One operation: the call, and what becomes of the part as it is stored; an error's class if it is refused."""

    name: str
    text: str
    call: Callable[[Transaction, Part | None], Any]
    outcome: Callable[[Part | None, Part | None], Outcome]


def changed(old: Part, **values: Any) -> Outcome:
    new = old.model_copy(update={**values, "revision": old.revision + 1})
    return new if 0 <= new.amount <= 9 else ConditionFailed


def checked(now: Part | None, read: Part | None, outcome: Callable[[Part], Outcome]) -> Outcome:
    """The outcome of an update by the entity as it was read, or by key where it was not."""
    if now is None:
        return ItemNotFound
    return Conflict if read is not None and read.revision != now.revision else outcome(now)


def put_outcome(now: Part | None, mine: Part) -> Outcome:
    if mine.revision == 0 and now is not None:
        return ItemExists
    if mine.revision != (0 if now is None else now.revision):
        return Conflict
    return mine.model_copy(update={"revision": mine.revision + 1})


def key(name: str) -> Any:
    return Part.primary(name=name)


def steps(name: str) -> st.SearchStrategy[Step]:
    """Operations on the part of this name; each is given the part as somebody has read it at some time, or None."""
    place, note = st.sampled_from(["a", "b", "a#b"]), st.sampled_from([None, "x", "y"])

    def mine(read: Part | None, place: str) -> Part:
        return Part(name=name, place=place) if read is None else read.model_copy(update={"place": place})

    def put(place: str) -> Step:
        return Step(
            name,
            f"put {place}",
            lambda tx, read: tx.put(mine(read, place)),
            lambda now, read: put_outcome(now, mine(read, place)),
        )

    def insert(place: str) -> Step:
        new = Part(name=name, place=place)
        return Step(
            name,
            f"insert {place}",
            lambda tx, _: tx.insert(new),
            lambda now, _: ItemExists if now is not None else new.model_copy(update={"revision": 1}),
        )

    def add(by: int) -> Step:
        return Step(
            name,
            f"add {by}",
            lambda tx, read: tx.update(read or key(name), increment(Part.amount, by)),
            lambda now, read: checked(now, read, lambda old: changed(old, amount=old.amount + by)),
        )

    def move(place: str, note: str | None) -> Step:
        action = remove(Part.note) if note is None else set_(Part.note, note)
        return Step(
            name,
            f"move {place} {note}",
            lambda tx, _: tx.update(key(name), set_(Part.place, place), action, when=Part.amount > 0),
            lambda now, _: checked(
                now, None, lambda old: changed(old, place=place, note=note) if old.amount > 0 else ConditionFailed
            ),
        )

    def upsert(by: int) -> Step:
        return Step(
            name,
            f"upsert {by}",
            lambda tx, _: tx.update(key(name), increment(Part.amount, by), upsert=True),
            lambda now, _: changed(now or Part(name=name), amount=(now.amount if now else 0) + by),
        )

    delete = Step(
        name,
        "delete",
        lambda tx, read: tx.delete(read or key(name)),
        lambda now, read: Conflict if read is not None and (now is None or now.revision != read.revision) else None,
    )
    delete_when = Step(
        name,
        "delete when",
        lambda tx, _: tx.delete(key(name), when=Part.amount == 0),
        lambda now, _: ConditionFailed if now is None or now.amount != 0 else None,
    )
    check = Step(
        name,
        "check",
        lambda tx, read: tx.check(read or key(name)),
        lambda now, read: checked(now, read, lambda old: old),
    )
    check_absent = Step(
        name,
        "check absent",
        lambda tx, _: tx.check(key(name), when=missing(Part.place)),
        lambda now, _: None if now is None else ConditionFailed,
    )
    by = st.sampled_from([-4, -1, 1, 4])
    fixed = st.sampled_from([delete, delete_when, check, check_absent])
    return st.one_of(
        place.map(put), place.map(insert), by.map(add), st.builds(move, place, note), by.map(upsert), fixed
    )


TRANSACTIONS = st.lists(
    st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, unique=True).flatmap(
        lambda names: st.tuples(*map(steps, names))
    ),
    min_size=1,
    max_size=12,
)


def agrees(db: Store, model: State) -> None:
    parts = sorted(model.values(), key=lambda part: (part.amount, part.name))
    assert db.get_many([key(name) for name in "xyz"]) == [model.get(name) for name in "xyz"]
    for place in ("a", "b", "a#b"):
        assert list(db.query(Part.by_place(place=place))) == [part for part in parts if part.place == place]
    noted = sorted((p for p in parts if p.note is not None), key=lambda part: (part.note, part.place, part.name))
    assert list(db.query(Part.noted())) == noted


@settings(max_examples=300, deadline=None)
@given(TRANSACTIONS, st.data())
def test_transactions_do_what_the_model_does(transactions: list[tuple[Step, ...]], data: st.DataObject) -> None:
    db = Store(table, Memory())
    db.create()
    model: State = {}
    history: dict[str, list[Part | None]] = {name: [None] for name in "xyz"}
    for transaction in transactions:
        read = {step.name: data.draw(st.sampled_from(history[step.name])) for step in transaction}
        outcomes = [step.outcome(model.get(step.name), read[step.name]) for step in transaction]
        expected = [outcome if isinstance(outcome, type) else None for outcome in outcomes]
        try:
            with db.transaction() as tx:
                for step in transaction:
                    step.call(tx, read[step.name])
            reasons: list[type | None] = [None] * len(transaction)
        except TransactionFailed as failure:
            reasons = [None if reason is None else type(reason) for reason in failure.reasons]
        assert reasons == expected
        if not any(expected):
            for step, outcome in zip(transaction, outcomes, strict=True):
                model.pop(step.name, None)
                if isinstance(outcome, Part):
                    model[step.name] = outcome
                    history[step.name].append(outcome)
        agrees(db, model)
