"""Companions on a backend without transactions: they learn whether the item was written, and can set a deadline for it.

The conformance suite tests what they write. Here time passes between the writes, or one of two writes is refused.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from odm import Conflict, Entity, ItemExists, OdmError, PrimaryKey, Store, Table, TransactionFailed
from odm.backends.local import Memory
from odm.extend import Calls, Companion, CompanionWrites, Effect, Gen
from odm.protocol import contention
from odm.testing.clock import Clock
from tests.patterns.interleaving import OneByOne


class Late(Companion):
    """Sets a deadline for the write of the item, which the write may miss."""

    deletes: ClassVar[bool] = True

    def __init__(self) -> None:
        self.takes: list[float] = []
        self.tried: list[Effect[Any]] = []
        self.clock = Clock()

    def without_transaction(self, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
        self.tried.append(effect)
        until = do.now() + 10
        self.clock.advance(self.takes.pop(0) if self.takes else 0)
        yield from commit(until=until)


class Outer(Companion):
    """Records the error that it receives from the write of the item."""

    told: list[type[Exception] | None]

    def without_transaction(self, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
        try:
            yield from commit()
        except OdmError as error:
            self.told.append(type(error))
            raise


class Refused(Companion):
    """Its own write is refused, before or after the item is written."""

    after = True

    def without_transaction(self, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
        if self.after:
            yield from commit()
        raise ItemExists("taken")


notes = Table("notes")
late, outer, refused = Late(), Outer(), Refused()


class Note(Entity, table=notes):
    name: str
    text: str = ""

    primary = PrimaryKey("NOTE#{name}")
    late = late


class Memo(Entity, table=notes):
    name: str

    primary = PrimaryKey("MEMO#{name}")
    outer = outer
    refused = refused


@pytest.fixture
def db() -> Store:
    late.takes, late.tried, outer.told, refused.after = [], [], [], True
    store = Store(notes, OneByOne(Memory()), clock=late.clock)
    store.create()
    return store


def test_a_write_that_misses_the_deadline_is_planned_again(db: Store) -> None:
    late.takes = [11, 11]
    db.put(Note(name="a", text="1"))
    assert [effect.old for effect in late.tried] == [None, None, None]
    late.takes, late.tried = [11], []
    db.put(Note(name="a", text="2"))
    assert [effect.old for effect in late.tried] == [None, Note(name="a", text="1")]
    assert db.one(Note, name="a").text == "2"
    late.takes, late.tried = [9], []
    assert db.delete(Note, name="a")
    assert len(late.tried) == 1


def test_a_write_that_always_misses_the_deadline_is_a_conflict(db: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "LONGEST_SECONDS", 0.0)
    late.takes = [11] * 100
    with pytest.raises(Conflict, match="Call again later"):
        db.insert(Note(name="a"))
    assert not db.exists(Note, name="a")


def test_a_transaction_that_always_misses_the_deadline_has_a_reason(db: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "LONGEST_SECONDS", 0.0)
    late.takes = [11] * 100
    with pytest.raises(TransactionFailed, match="Call again later") as failed, db.transaction() as tx:
        tx.insert(Note(name="a"))
    assert [type(reason) for reason in failed.value.reasons] == [Conflict]
    assert not db.exists(Note, name="a")


def test_an_error_after_the_write_of_the_item_is_another_than_its_own(db: Store) -> None:
    with pytest.raises(ItemExists, match="taken"):
        db.put(Memo(name="a"))
    assert db.exists(Memo, name="a")
    (told,) = outer.told
    assert told is not None
    assert not issubclass(told, ItemExists)


def test_an_error_before_the_write_of_the_item_looks_like_its_own(db: Store) -> None:
    refused.after = False
    with pytest.raises(ItemExists, match="taken"):
        db.put(Memo(name="a"))
    assert not db.exists(Memo, name="a")
    assert outer.told == [ItemExists]


def test_a_transaction_does_not_fail_as_one_when_items_were_written(db: Store) -> None:
    with pytest.raises(ItemExists, match="taken"), db.transaction() as tx:
        tx.put(Memo(name="a"))
    assert db.exists(Memo, name="a")


class Freed(Companion):
    """Deletes its own item with the item."""

    deletes: ClassVar[bool] = True

    def entities(self, entity: type[Entity]) -> list[type[Entity]]:
        self.made: Any = self.make(entity, Entity, {"name": str}, {"primary": PrimaryKey("FREED#{name}")})
        return [self.made]

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        if effect.new is None and effect.old is not None:
            tx.delete(self.made.primary(name=effect.old.name))


rooms, strangers = Table("rooms"), Table("rooms")


class Room(Entity, table=rooms):
    name: str

    primary = PrimaryKey("ROOM#{name}")
    freed = Freed()


class Stranger(Entity, table=strangers):
    name: str

    primary = PrimaryKey("FREED#{name}")


def test_the_delete_of_a_companion_skips_an_item_of_another_program() -> None:
    backend = OneByOne(Memory())
    theirs, db = Store(strangers, backend), Store(rooms, backend, on_unknown="skip")
    db.create()
    theirs.put(Stranger(name="a"))
    db.put(Room(name="a"))
    assert db.delete(Room, name="a") is True
    assert theirs.exists(Stranger, name="a")
