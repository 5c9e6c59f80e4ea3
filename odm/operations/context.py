"""What every operation is given: the schema, and the clock that judges expiry."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from odm.codec import TAG
from odm.entities.query import Query
from odm.errors import BadValue, ItemInvalid, KeyValueError
from odm.expressions.nodes import Item
from odm.operations.guards import Now
from odm.schema.model import EntitySchema, Key, Schema


def key_call(entity: EntitySchema) -> str:
    """How the key of an entity is written, for messages."""
    return f"{entity.name}.{entity.primary.name}({', '.join(f'{name}=...' for name in entity.primary.fields)})"


@frozen
class Context:
    """The schema of a store's table and its clock (epoch seconds)."""

    schema: Schema
    clock: Callable[[], float] = time.time

    def now(self) -> Now:
        """The moment of a call."""
        return Now(int(self.clock()))

    def decode(self, item: Item, key: Key) -> Any:
        """The entity of a stored item, by its tag.

        Raises:
            ItemInvalid: the tag is unknown, or the attributes do not validate.
        """
        entity = self.schema.entities.get(item.get(TAG, ""))
        if entity is None:
            raise ItemInvalid(
                f"the item under {key} of table {self.schema.name!r} has the tag {item.get(TAG)!r}, and no entity "
                "of the table has: declare one with tag=..., or remove the item",
                str(key),
                item,
            )
        return entity.codec.decode(item, str(key))

    def key_of(self, query: object) -> tuple[EntitySchema, Key, Mapping[str, Any]]:
        """The entity, item key and key values that a call of the primary key names.

        Raises:
            KeyValueError: a key field is missing.
            BadValue: it is not a call of the primary key.
        """
        if not isinstance(query, Query):
            entity = self.schema.by_class.get(query) if isinstance(query, type) else None
            name, call = (repr(query), "Entity.primary(...)") if entity is None else (entity.name, key_call(entity))
            raise BadValue(f"{name} is not a key: write {call} with every key field")
        entity = self.schema.entity(query.entity)
        lacking = [name for name in entity.primary.fields if name not in query.values]
        plain = query.scope == "entity" and not query.conditions and query.most is None
        if query.pattern != entity.primary.name or lacking or not plain:
            why = f"{lacking[0]!r} is missing" if lacking and plain else "it is a query"
            kind = KeyValueError if lacking else BadValue
            raise kind(f"{query} is not the key of one item, {why}: write {key_call(entity)}")
        return entity, entity.key(query.values), query.values
