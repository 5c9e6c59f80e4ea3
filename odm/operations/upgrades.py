"""Bringing a stored item of an older version up to its model's: what an update does first.

An update names attributes of the model as it is now, so an older item is first rewritten whole, with its index entries,
in a put that holds only while nobody else has changed the item.
"""

from odm.codec import VERSION
from odm.expressions.nodes import Compare, Condition, Const, Item, Missing, Path
from odm.operations import ir
from odm.operations.context import Context
from odm.operations.guards import equals, every
from odm.operations.limits import check_item
from odm.schema.model import EntitySchema, Key


def version_is(entity: EntitySchema) -> Condition:
    """The item was written by a model of the entity's version."""
    path = Path((VERSION,))
    return Missing(path) if entity.version == 1 else Compare("=", path, Const(entity.version))


def rewrite(context: Context, entity: EntitySchema, item: Item, key: Key) -> ir.Put:
    """The put that replaces an item of another version by what the model makes of it, if it is still as it was read.

    Attributes that the model does not know stay. The Revision stays too: what the item says has not changed.

    Raises:
        ItemInvalid: the item can not be upgraded.
        ItemTooLarge: the upgraded item or its keys are over the limits.
    """
    codec = entity.codec
    instance = context.decode(item, key)
    known = set(codec.stored.values())
    attributes = codec.upgrades.apply(entity.name, item, str(key))
    others = {name: value for name, value in attributes.items() if name not in known}
    upgraded = {**others, **codec.encode(instance)}
    entries = entity.entries(vars(instance), upgraded)
    check_item(upgraded, key, entries, entity, context.limits)
    absent = [Missing(Path((name,))) for name in (*sorted(known), VERSION) if name not in item]
    return ir.Put(key, upgraded, entries, every(*(equals(name, item) for name in item), *absent))
