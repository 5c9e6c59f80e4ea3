"""What companions learn of their entity, and when they may refuse it."""

from collections.abc import Sequence
from datetime import datetime
from types import new_class
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from odm import TTL, Entity, PrimaryKey, SchemaError, Store, Stored, Table, Unsupported
from odm.backends.bigtable import Bigtable
from odm.backends.local import Memory
from odm.extend import Companion, SchemaView, primary_key
from odm.schema.lockfile import compare, describe


class Copy(Companion):
    """Keeps some fields, and notes what it is asked."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields
        self.made: type[Any] = Entity
        self.asked: list[tuple[str, bool]] = []

    def entities(self, entity: type[Entity]) -> Sequence[type[Entity]]:
        key = primary_key(entity)
        fields = self.copies(entity, (*key.fields, *self.fields))
        self.made = self.make(entity, Entity, fields, {"primary": PrimaryKey(f"COPY#{key.partition}")})
        return [self.made]

    def check(self, entity: type[Entity], schema: SchemaView, *, transactions: bool) -> None:
        assert schema.entity(self.made).tag == f"{entity.__name__}.kept"
        self.asked.append((entity.__name__, transactions))
        if not transactions:
            raise Unsupported("one item at a time")


class Later(Entity, table=Table("later")):
    size: Annotated[int, Field(ge=0, lt=10)]
    ends: Annotated[datetime, TTL] | None = None
    text: Annotated["Text | None", Stored("t")] = None
    primary = PrimaryKey("LATER#{size}")
    kept = Copy("ends", "text")


Text = Annotated[str, Field(max_length=3)]


def test_it_is_asked_at_compile_time_and_where_a_store_connects() -> None:
    table = Table("notes")

    class Note(Entity, table=table):
        note_id: str
        primary = PrimaryKey("NOTE#{note_id}")
        kept = Copy()

    copied = vars(Note)["kept"]
    table.compile()
    assert copied.asked == [("Note", True)]
    with Store(table, Memory()) as db:
        db.create()
    assert copied.asked == [("Note", True)]
    with Store(table, Bigtable("p", "i", endpoint="localhost:1")) as db, pytest.raises(Unsupported, match="one item"):
        db.create()
    assert copied.asked == [("Note", True), ("Note", False)]


def test_its_fields_are_those_of_the_entity_without_roles_and_none() -> None:
    assert Later.__odm_table__ is not None
    Later.__odm_table__.compile()
    made = vars(Later)["kept"].made
    assert (made.__name__, made.__odm_tag__) == ("Later.kept", "Later.kept")
    assert list(made.model_fields) == ["size", "ends", "text"]
    assert all(info.is_required() for info in made.model_fields.values())
    moment = datetime.fromisoformat("2026-01-01T00:00Z")
    assert made(size=3, ends=moment, text="a").ends == moment
    for wrong in ({"size": 10}, {"ends": None}, {"text": None}, {"text": "abcd"}):
        with pytest.raises(ValidationError):
            made(**{"size": 3, "ends": moment, "text": "a", **wrong})
    compiled = Later.__odm_table__.compile().entity(made)
    assert compiled.ttl is None
    assert compiled.codec.stored == {"size": "size", "ends": "ends", "text": "t"}


def test_an_entity_without_a_key_of_its_own_is_refused_as_ever() -> None:
    class Keyless(Entity, table=Table("keyless")):
        kept = Copy()

    assert Keyless.__odm_table__ is not None
    with pytest.raises(SchemaError, match="Keyless has no primary key"):
        Keyless.__odm_table__.compile()


def test_the_lock_file_tells_that_it_has_nothing_of_what_is_stored() -> None:
    def declared(**more: Any) -> Table:
        table = Table("notes")
        body = {"__module__": __name__, "__annotations__": {"text": str}, "primary": PrimaryKey("NOTE#{text}"), **more}
        new_class("Note", (Entity,), {"table": table}, lambda names: names.update(body))
        return table

    bare, kept = describe(declared().compile()), describe(declared(kept=Copy()).compile())
    (finding,) = compare("notes", bare, kept)
    assert (finding.level, finding.where, finding.change) == ("backfill", "Note.kept", "new companion")
    assert finding.fix == "odm backfill MODULE:TABLE Note.kept PLACE"
    together = compare("notes", bare.model_copy(update={"entities": {}}), kept)
    assert {(one.level, one.where) for one in together} == {("safe", "Note"), ("safe", "Note.kept")}
