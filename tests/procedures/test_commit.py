"""Retries of the pipeline of writes, step by step: the test answers its requests."""

from typing import Any

from odm import AccessPattern, Entity, PrimaryKey, Shards, Store, Table, missing, set_
from odm.backends.local import Memory
from odm.extend import Companion, CompanionWrites, Effect
from odm.procedures.calls import Calls
from odm.procedures.companions.intent import concerned
from odm.procedures.writing.update import new_entries
from odm.protocol import requests as req
from odm.protocol.turns import Turn

table = Table("first")


class First(Companion):
    """Keeps the first text that a note had; later texts are ignored."""

    def entities(self, entity: type[Entity]) -> list[type[Entity]]:
        fields = {"note_id": str, "text": str}
        declared = {"primary": PrimaryKey(f"FIRST#{entity.__name__}#{{note_id}}")}
        self.made: Any = self.make(entity, Entity, fields, declared)
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


def test_companions_of_a_changed_item_are_asked_again() -> None:
    """The lost write of a companion is left out of the retry, but not after the item itself has changed."""
    steps = Calls(Store(table, Memory())._session).update(Note.primary(note_id="n"), set_(Note.text, "mine"))
    assert isinstance(next(steps), req.Get)
    both = steps.send(stored(Note(note_id="n", text="a")))
    assert isinstance(both, req.Transact)
    made: Any = Note.first.made
    lost = req.Refusals((None, req.Refused(stored(made(note_id="n", text="theirs")))))
    assert isinstance(steps.send(lost), Turn)
    assert isinstance(next(steps), req.Update)
    assert isinstance(steps.send(req.Refused(stored(Note(note_id="n", text="b")))), req.Wait)
    again = next(steps)
    assert isinstance(again, req.Transact)
    assert [type(one).__name__ for one in again.operations] == ["Update", "Put"]


queue = Table("queue")


class Job(Entity, table=queue):
    job_id: str
    state: str = "new"
    note: str = ""

    primary = PrimaryKey("JOB#{job_id}")
    by_state = AccessPattern("STATE#{state}", "{job_id}", shards=Shards(4, by="job_id", was=2))
    first = First()


def test_a_move_between_shards_concerns_no_companion() -> None:
    """The item does not change, so the move depends only on the fields of the index key."""
    schema = queue.compile()
    target = schema.target(Job(job_id="j"))
    change = new_entries(target, [schema.entity(Job).pattern("by_state")])
    assert concerned(change) == ()
