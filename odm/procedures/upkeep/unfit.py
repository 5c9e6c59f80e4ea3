"""Stored items that do not fit their model: finds them in a whole table, and deletes one that nobody has changed."""

from typing import Any

from odm.codec import TAG
from odm.entities.query import Query
from odm.errors import ItemInvalid, OdmError
from odm.expressions.nodes import Item
from odm.immutable import Immutable, field
from odm.procedures.context import Context
from odm.procedures.writing.upgrades import unchanged
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.expressions import check_condition
from odm.protocol.predicates import has_tag
from odm.schema.entity import EntitySchema, Key
from odm.schema.model import Schema


class UnfitItem(Immutable):
    """A stored item that does not fit its model.

    Attributes:
        entity: the entity whose tag it has.
        key: the key that it is stored under; of a scan of Bigtable, the whole row key if it cannot be split.
        call: the call of its primary key; None if its key fields cannot be read.
        error: why it does not fit, with the stored item.
    """

    entity: EntitySchema
    key: Key
    call: Query[Any] | None
    error: ItemInvalid = field(eq=False)


def unfit_page(
    schema: Schema, context: Context, entity: EntitySchema | None, after: req.Position | None, size: int
) -> CoreGen[tuple[list[UnfitItem], int, req.Position | None]]:
    """The items of a page of the table that do not fit, the number of items read, and where the next page begins.

    Items that have expired and items of no entity are neither checked nor counted.

    Args:
        schema: of the table.
        context: of the store.
        entity: only items of this entity; None: those of all.
        after: where the page begins; None: at the start of the table.
        size: the most items to read.
    """
    page: req.Page = yield req.Scan(
        None if entity is None else has_tag(entity.tag),
        limit=size if entity is None else None,
        examine=None if entity is None else size,
        after=after,
        pattern="scan()" if entity is None else f"scan({entity.name})",
        tag=None if entity is None else entity.tag,
    )
    unfit: list[UnfitItem] = []
    number, now = 0, context.now()
    for item, position in zip(page.items, page.positions, strict=True):
        if not schema.knows(item) or now.expired(item):
            continue
        number += 1
        try:
            context.check_fit(item, position.key)
        except ItemInvalid as error:
            unfit.append(_unfit(schema, item, position.key, error))
    return unfit, number, page.next


def _unfit(schema: Schema, item: Item, key: Key, error: ItemInvalid) -> UnfitItem:
    entity = schema.entities[item[TAG]]
    try:
        values = entity.codec.read(item, entity.primary.sources, str(key))
        expected = entity.key(values)
    except OdmError:  # its key fields do not fit either
        return UnfitItem(entity, key, None, error)
    if not key.sort and not schema.hash_only:  # a row key of Bigtable, not split
        end = f"{schema.row_key_separator}{expected.sort}"
        if expected.sort and key.partition.endswith(end):
            key = Key(key.partition.removesuffix(end), expected.sort)
    named = {name: values[name] for name in entity.primary.fields}
    same = expected == key or entity.primary.shards is not None
    return UnfitItem(entity, key, Query(entity.cls, entity.primary.name, named) if same else None, error)


def delete_unchanged(unfit: UnfitItem) -> CoreGen[bool]:
    """Delete an item with its index entries, if it is still as it was read; returns False if it is not.

    The items that its declarations keep elsewhere, such as unique values, stay: they follow from fields that cannot be
    read.

    Raises:
        BadValue: the condition is too large for DynamoDB.
    """
    condition = unchanged(unfit.entity, unfit.error.item)
    assert condition is not None  # it names the tag
    check_condition(condition)
    answer = yield req.Delete(unfit.key, condition, pattern=unfit.entity.primary.full_name)
    if isinstance(answer, req.Refused):
        return answer.item is None  # another program deleted it
    return True
