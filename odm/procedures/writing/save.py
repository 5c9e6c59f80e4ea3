"""Saving what changed: an entity that was read is compared with the stored item of which it was made.

The read leaves that item in the entity (`odm.entities.entity.hold_stored`): the backend's own form of it, which shares
no list or dict with the entity. What differs becomes an update of whole fields.
"""

from typing import Any

from odm.codec import TAG, Draft, NativeItem
from odm.codec.types.blobs import pointer_of
from odm.entities.entity import Entity, stored_of
from odm.errors import BadValue
from odm.expressions.evaluate import equal
from odm.expressions.nodes import Item, Path, Set, Value
from odm.procedures.context import Context
from odm.procedures.writing.update import ItemUpdate, Returning, item_update
from odm.procedures.writing.write import checked_entity
from odm.schema.entity import EntitySchema


def save_update(context: Context, instance: Any, returning: Returning = "none") -> ItemUpdate | None:
    """The update of the fields in which an entity differs from the stored item that it was made of.

    Returns:
        The intent; None if no field differs.

    Raises:
        BadValue: the entity was not read, a field of its key has changed, or a value cannot be stored.
    """
    entity = checked_entity(context, instance)
    codec, read = entity.codec, _read(context, entity, instance)
    # Both as the current model stores them: another form of the same value is not a change.
    before, after = codec.encode(codec.decode(read)), codec.encode(instance)
    changed = [name for name, stored in codec.stored.items() if not _same(entity, before, after, stored)]
    for name in changed:
        if name in entity.primary.fields:
            raise BadValue(
                f"{entity.name}.{name} is part of the primary key, and has changed since the entity was read: insert() "
                "it as an item under the new key, and delete the one under the old key"
            )
    if not changed:
        return None
    actions = [Set(Path((name,), entity.cls), vars(instance)[name]) for name in changed]
    now = instance.model_copy()  # user code may change the entity before a transaction is committed
    return item_update(context, now, actions, None, returning, read=read)


def _read(context: Context, entity: EntitySchema, instance: Entity) -> Item:
    """The stored item that the entity was made of, as objects that nothing else has.

    Raises:
        BadValue: the entity was not read.
    """
    held = stored_of(instance)
    if held is None:
        raise BadValue(
            f"{entity.name} was not read from a store, so odm does not know what has changed in it: put() it as a "
            "whole, or update() its item with actions. A copy, such as of model_copy or pickle, does not count as read"
        )
    if isinstance(held, Draft):
        return held.fresh()
    if isinstance(held, NativeItem) or (isinstance(held, dict) and isinstance(held.get(TAG), str)):
        return dict(held)
    item = context.item_of(held)
    if item is None:
        raise BadValue(
            f"{entity.name} was read by a store of another backend, so odm does not know what is stored in this one: "
            "put() it as a whole, or read it from this store"
        )
    return dict(item)


def _same(entity: EntitySchema, item: Item, other: Item, stored: str) -> bool:
    if stored not in item or stored not in other:
        return (stored in item) == (stored in other)
    if stored in entity.blobs:
        return bool(_content(item[stored]) == _content(other[stored]))
    return equal(item[stored], other[stored])


def _content(value: Value) -> Value:
    """What distinguishes large values: the names of their blobs differ at every encoding."""
    pointer = pointer_of(value)
    return value if pointer is None else [pointer["size"], pointer["sha256"]]
