"""Fields and tags with the names of a core schema's own keys, such as "type", are fields like any other."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from odm import Entity, PrimaryKey, Store, Table, set_
from odm.backends.local import Memory

table = Table("named")


class Kind(BaseModel):
    kind: Literal["type"] = "type"
    type: Annotated[str, StringConstraints(to_lower=True)] = ""


class Other(BaseModel):
    kind: Literal["other"] = "other"


class Named(Entity, table=table):
    type: str
    metadata: str = ""
    default: Annotated[str, StringConstraints(to_lower=True)] = ""
    one: Annotated[Kind | Other, Field(discriminator="kind")] = Kind()

    primary = PrimaryKey("NAMED#{type}")


def test_they_are_stored_and_updated() -> None:
    with Store(table, Memory()) as db:
        db.create()
        put = db.put(Named(type="a"))
        assert db.one(Named, type="a") == put
        changed = db.update(put, set_(Named.default, "B"), set_(Named.one, Other()), returning="new")
        assert (changed.default, changed.one) == ("b", Other())
