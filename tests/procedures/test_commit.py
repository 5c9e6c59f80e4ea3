"""What the pipeline of writes sends again, step by step: the test answers its requests."""

from typing import Any

from odm import Companion, CompanionWrites, Effect, Entity, PrimaryKey, Store, Table, missing, set_
from odm.backends.local import Memory
from odm.protocol import requests as req
from odm.stores.calls import StoreCalls

table = Table("first")


class First(Companion):
    """Keeps the first text that a note ever had: a later one loses."""

    def entities(self, entity: type[Entity]) -> list[type[Entity]]:
        fields = {"note_id": str, "text": str}
        self.made: Any = self.make(entity, Entity, fields, {"primary": PrimaryKey("FIRST#{note_id}")})
        return [self.made]

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        new: Any = effect.new
        made = self.made(note_id=new.note_id, text=new.text)
        tx.put(made, when=missing(self.made.text), lose=True)


class Note(Entity, table=table):
    note_id: str
    text: str = ""

    primary = PrimaryKey("NOTE#{note_id}")
    first = First()


def stored(entity: Entity) -> Any:
    schema = table.compile()
    return schema.entity(type(entity)).codec.encode(entity)


def test_companions_of_an_item_that_has_changed_are_asked_again() -> None:
    """The write of a companion that lost is left out, but not any more when the item itself has changed since."""
    steps = StoreCalls(Store(table, Memory())._session).update(Note.primary(note_id="n"), set_(Note.text, "mine"))
    assert isinstance(next(steps), req.Get)
    both = steps.send(stored(Note(note_id="n", text="a")))
    assert isinstance(both, req.Transact)
    made: Any = Note.first.made
    lost = req.Refusals((None, req.Refused(stored(made(note_id="n", text="theirs")))))
    assert isinstance(steps.send(lost), req.Update)
    again = steps.send(req.Refused(stored(Note(note_id="n", text="b"))))
    assert isinstance(again, req.Transact)
    assert [type(one).__name__ for one in again.operations] == ["Update", "Put"]
