"""The item that a call is about."""

from typing import Any, NamedTuple

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.expressions.nodes import text_of
from odm.schema.entity import EntitySchema, Key, Values


class Target(NamedTuple):
    """The item that a call is about.

    Attributes:
        values: at least the values of its key fields.
        instance: the entity that was passed, or None if a key was.
    """

    entity: EntitySchema
    key: Key
    values: Values
    instance: Entity | None = None

    def __str__(self) -> str:
        primary = self.entity.primary
        values = ", ".join(f"{name}={text_of(self.values[name])}" for name in primary.fields)
        return f"{self.entity.name}.{primary.name}({values})"

    @property
    def query(self) -> Query[Any]:
        """The key in the form that a user writes."""
        primary = self.entity.primary
        return Query(self.entity.cls, primary.name, {name: self.values[name] for name in primary.fields})

    @property
    def revision(self) -> int | None:
        """The revision that the caller read, or None if it is not checked."""
        if self.entity.revision is None or self.instance is None:
            return None
        return self.entity.revision_of(vars(self.instance))
