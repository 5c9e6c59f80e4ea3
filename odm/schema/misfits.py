"""Stored items that the models would not find, because another ``key_style`` wrote the items than the models declare.

`Store.create` reads a few items of a table that exists, and refuses such a table: reads by key would find nothing, and
puts would write second items next to the stored ones.

Only an item whose key one form of the models makes, and the other does not, is evidence. So items of other programs, of
entities that the models do not have, and under the keys of a former template never are.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from odm.codec import TAG
from odm.codec.types.blobs import placeholders
from odm.errors import OdmError, SchemaError
from odm.schema.compile import Style, compile_schema
from odm.schema.entity import Key
from odm.schema.evidence import Stored
from odm.schema.model import Schema

S = TypeVar("S")

FEW: Final = 10
"""The number of stored items that are read."""


def with_keys(schema: Schema, *, verbatim: bool, sorts: bool) -> Schema | None:
    """The same models with other options for keys; None if they cannot have them.

    Args:
        schema: the schema of the models.
        verbatim: whether ``key_style`` is "verbatim".
        sorts: whether the table has a sort key, also if no entity has a sort template.
    """
    style = Style(
        schema.keys,
        row_key_join=schema.row_key_join,
        verbatim=verbatim,
        tag=schema.tag,
        ttl=schema.ttl,
        wide=schema.wide,
        transactions=schema.transactions,
    )
    entities = [(entity.cls, tag) for tag, entity in schema.entities.items()]
    try:
        return compile_schema(schema.name, entities, style, sorts=sorts)
    except SchemaError:
        return None


def key_made(schema: Schema, stored: Stored) -> Key | None:
    """The key that the models make for a stored item; None if they do not have its entity, or cannot read it."""
    entity = schema.entities.get(str(stored.item.get(TAG)))
    if entity is None or not isinstance(stored.item[TAG], str):
        return None
    try:
        instance = entity.codec.decode(placeholders(entity.blobs, stored.item), str(stored.key))
        return entity.key(vars(instance))
    except OdmError:
        return None


def other_keys(schema: Schema, items: Iterable[S], read: Callable[[Schema, S], Stored]) -> str | None:
    """Why the models would not find one of these items: it was written with the other ``key_style``.

    Args:
        schema: the schema of the models.
        items: stored items, as a backend has them.
        read: reads such an item for a schema.

    Returns:
        The message of the refusal; None: no item shows it.
    """

    def fits(schema: Schema, item: S) -> Stored | None:
        try:
            stored = read(schema, item)
        except OdmError:  # another program's
            return None
        return stored if key_made(schema, stored) == stored.key else None

    unlike = [item for item in items if fits(schema, item) is None]
    other = with_keys(schema, verbatim=not schema.verbatim, sorts=not schema.hash_only) if unlike else None
    if other is None:
        return None
    for item in unlike:
        if (stored := fits(other, item)) is not None:
            name = other.entities[str(stored.item[TAG])].name
            return refusal(schema, " | ".join(filter(None, stored.key)), name, style_of(other), style_of(schema))
    return None


def style_of(schema: Schema) -> str:
    """The ``key_style`` of a schema, as a table declares it."""
    return f'key_style="{"verbatim" if schema.verbatim else "escaped"}"'


def refusal(schema: Schema, where: str, entity: str, has: str, says: str) -> str:
    """The message for a table with another option than its models say.

    Args:
        schema: the schema of the models.
        where: the stored key.
        entity: the entity of the stored item, or its attribute.
        has: the option that the item was written with.
        says: the option that the models declare.
    """
    return (
        f"table {schema.name!r} has the item {where!r} of {entity}, written with {has}, and the models declare {says}, "
        f"so they would not find what is stored: declare {has} as before, or move the items: scan them with models "
        "that declare it, and put them into a table with another name, or of a store with a prefix"
    )
