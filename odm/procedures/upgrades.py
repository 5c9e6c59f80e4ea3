"""Upgrades stored items of an older version for a write.

An update names attributes of the current model, so it never changes an older item in place: it puts the upgraded and
changed item, on the condition that the stored item is unchanged since the read.
"""

from attrs import evolve

from odm.codec import TAG, TTL_ATTRIBUTE, VERSION
from odm.expressions.nodes import Compare, Condition, Const, Item, Missing, Path, Value
from odm.procedures.context import Context
from odm.protocol.predicates import equals, every
from odm.schema.entity import EntitySchema, Key


def version_is(entity: EntitySchema) -> Condition:
    """The condition that the item was written by a model of the entity's version."""
    path = Path((VERSION,))
    return Missing(path) if entity.version == 1 else Compare("=", path, Const(entity.version))


def up_to_date(context: Context, entity: EntitySchema, item: Item, key: Key) -> Item:
    """The item as the current model would store it; the same item if it is of the current version.

    Attributes that the model does not know are kept.

    Raises:
        ItemInvalid: the item cannot be upgraded, or has no tag.
    """
    if entity.codec.upgrades.current(item) and TAG in item:
        return item
    instance = evolve(context, skip_unknown=False).decode(item, key)  # an unknown item is an error here
    attributes = entity.codec.upgrades.apply(entity.name, item, str(key))
    return unknown(entity, attributes) | entity.codec.encode(instance)


def unknown(entity: EntitySchema, item: Item) -> dict[str, Value]:
    """The attributes that the model does not know."""
    known = {*entity.codec.stored.values(), TTL_ATTRIBUTE}
    return {name: value for name, value in item.items() if name not in known}


def unchanged(entity: EntitySchema, item: Item) -> Condition | None:
    """The condition that every attribute equals that of this item, and no other attribute of the model exists."""
    absent = [Missing(Path((name,))) for name in (*entity.codec.stored.values(), VERSION) if name not in item]
    return every(*(equals(name, item) for name in item), *absent)
