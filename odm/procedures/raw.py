"""Raw stored items: reads them by page and part of the table, and writes them unchanged.

The put of an entity increments its revision, writes its companions' items, and removes attributes that the model does
not know. A copy of raw items does none of this; it only computes their keys and index entries again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odm._published import public_in
from odm.codec import TTL_ATTRIBUTE, EntityCodec
from odm.codec.types.blobs import pointer_of
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, ItemInvalid, Unsupported, brief
from odm.expressions.nodes import Condition, Item
from odm.immutable import Immutable, evolve, field
from odm.procedures.batch import check_strangers, check_unconditional
from odm.procedures.blobs import new_values
from odm.procedures.context import Context
from odm.procedures.reading.scan import MOST_CONCURRENT, Segment
from odm.procedures.unprocessed import send_batch
from odm.procedures.writing.upgrades import judged, passing_older
from odm.procedures.writing.write import put_request
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import check_item
from odm.protocol.predicates import every, has_tag
from odm.schema.entity import EntitySchema, Key, Target
from odm.schema.evidence import same_entry


@public_in("odm.results")
class RawItem(Immutable):
    """A stored item, for `odm.Store.put_raw` of another store.

    Attributes:
        entity: the decoded item, upgraded if it is of an older version.
        attributes: the unchanged stored values by stored names, with tag and version, and with attributes that the
            model does not know.
        partition: its partition key.
        sort: its sort key; "" in a table without sort keys.
        stale: the names of the indexes in which its entry differs from the model's, is missing, or should not exist.
            `odm.Store.put_raw` fixes them.
    """

    entity: Entity
    attributes: Mapping[str, Any] = field(repr=False)
    partition: str
    sort: str = ""
    stale: frozenset[str] = frozenset()

    @property
    def expires(self) -> int | None:
        """The instant when it expires, in seconds since the epoch; None: never."""
        attribute: int | None = self.attributes.get(TTL_ATTRIBUTE)
        return attribute


def segments(parts: int) -> CoreGen[list[Segment]]:
    """The parts of the table for concurrent reads, at most as many as requested.

    Raises:
        BadValue: the number is out of range.
    """
    if type(parts) is not int or not 1 <= parts <= MOST_CONCURRENT:
        raise BadValue(f"parts({brief(parts)}): give the number of parts to read, 1 to {MOST_CONCURRENT}")
    if parts == 1:
        return [Segment()]
    ranges: tuple[req.Part, ...] | None = yield req.Split(parts, pattern="scan()")
    if ranges is None:
        return [Segment((number, parts)) for number in range(parts)]
    return [Segment(part=part) for part in ranges]


def scan_page(
    context: Context,
    segment: Segment,
    size: int,
    *,
    expired: bool,
    consistent: bool,
    where: Query[Any] | None = None,
) -> CoreGen[tuple[list[RawItem], req.Position | None]]:
    """A page of a part of the table, and the position where the next page begins, or None at the end.

    ``size`` limits the items that are read and paid for, including those left out by a filter or here: without
    ``where`` no filter is sent, and with it the scan has a number of items to examine.

    Raises:
        BadValue: an argument is out of range, or ``where`` is more than an entity with conditions.
        ItemInvalid: an item does not fit its model, or is stored under another key than its model computes, unless the
            store skips such items.
    """
    if type(size) is not int or size < 1:
        raise BadValue(f"scan_page(size={brief(size)}): give the number of items to read, an int of 1 or more")
    entity = filter_ = None
    if where is not None:
        entity, filter_ = _where(context, where)
    scan = req.Scan(
        context.filter(entity, passing_older(context, entity, filter_), expired=expired) if where else None,
        limit=None if where else size,
        examine=size if where else None,
        after=segment.after,
        consistent=consistent,
        segment=segment.number,
        part=segment.part,
        entries=True,
        pattern="scan()" if entity is None else f"scan({entity.name})",
        tag=None if entity is None else entity.tag,
    )
    page: req.Page = yield scan
    now = context.now()
    items, positions = judged(context, entity, filter_, page.items, page.positions)
    entries = dict(zip(page.positions, page.entries, strict=True))
    if context.on_invalid is None:
        entities: Sequence[Any] = context.decode_all(items, positions)
    else:
        items, positions, entities = context.fitting(items, positions)
    raw_items: list[RawItem] = []
    for entity, item, position in zip(entities, items, positions, strict=True):
        if entity is None or (now.expired(item) and not expired):
            continue
        try:
            raw_items.append(_raw(context, entity, dict(item), position.key, entries[position]))
        except ItemInvalid as error:
            context.skip_invalid(error, item)
    return raw_items, page.next


def _where(context: Context, where: Query[Any]) -> tuple[EntitySchema, Condition]:
    """The entity and the filter of ``select(Order).where(...)``."""
    if where != Query(where.entity, conditions=where.conditions):
        raise BadValue(
            f"scan_page(where={where}): a page of a scan takes an entity and conditions only, such as "
            f"select({where.entity.__name__}).where(...): read a partition, an order or a limit with page()"
        )
    entity = context.schema.entity(where.entity)
    filter_ = every(*map(entity.codec.lower, where.conditions), has_tag(entity.tag))
    assert filter_ is not None
    context.check_filter(entity, filter_)
    return entity, filter_


def raw_item(context: Context, instance: Entity) -> RawItem:
    """The item that a batch would put for an entity, except that its automatic fields are left as they are.

    Raises:
        BadValue: it cannot be stored, or a batch cannot put it.
    """
    target, _, request = put_request(evolve(context, encode=EntityCodec.encode), instance, batched=True, copied=True)
    check_unconditional(target, request)
    if any(True for _ in new_values(request)):
        raise BadValue(f"{target} has a value that is kept in a blob, so it has no item before it is put: put() it")
    return RawItem(instance, request.item, *target.key)


def _raw(context: Context, entity: Entity, item: Item, stored: Key, entries: Mapping[str, Key]) -> RawItem:
    schema = context.schema.entity(type(entity))
    key = schema.key(vars(entity))
    known = stored.sort or context.schema.hash_only  # "" in a table with sort keys: a row key that cannot be split
    if known and key != stored:
        raise ItemInvalid(
            f"a {schema.name} is stored under {stored}, but its model computes the key {key}: read it with the "
            "model that wrote it; `odm plan` reports what else is orphaned",
            str(stored),
            item,
        )
    return RawItem(entity, item, *key, _stale(schema, _entries(context, schema, entity), entries))


def _entries(context: Context, schema: EntitySchema, entity: Entity) -> dict[str, Key]:
    """The index entries that a put of the entity would write."""
    return schema.entries(vars(entity), schema.codec.encode(entity), context.random)


def _stale(schema: EntitySchema, expected: Mapping[str, Key], entries: Mapping[str, Key]) -> frozenset[str]:
    patterns = {str(pattern.index): pattern for pattern in schema.patterns.values()}
    return frozenset(
        index
        for index in {*expected, *entries}
        if index not in patterns or not same_entry(patterns[index], entries.get(index), expected.get(index))
    )


def put_raw(context: Context, items: Sequence[RawItem]) -> CoreGen[None]:
    """Write raw items, with the index entries of the current models; replaces items under their keys.

    Raises:
        BadValue: an argument is not a `RawItem`.
        ItemTooLarge: an item is larger than the store allows; nothing was sent.
        ItemInvalid: a key holds an item of another program; nothing was sent.
        Throttled: ``left`` has the items that were not written.
    """
    if not isinstance(items, Iterable):
        raise BadValue(f"put_raw({brief(items)}): give a list of items of scan_page()")
    writes = {target.key: (target, put, item) for item in items for target, put in [_put(context, item)]}
    targets = {key: target for key, (target, _, _) in writes.items()}
    raw_items = {key: item for key, (_, _, item) in writes.items()}
    puts = yield from check_strangers(context, {key: put for key, (_, put, _) in writes.items()}, targets, raw_items)
    if puts:
        yield from send_batch(req.BatchWrite(puts), raw_items)


def _put(context: Context, item: RawItem) -> tuple[Target, req.Put]:
    if not isinstance(item, RawItem):
        raise BadValue(f"put_raw() takes the items of a scan_page(), not {brief(item)}: put() an entity")
    schema = context.schema.entity(type(item.entity))
    key = schema.key(vars(item.entity))
    if any(pointer_of(item.attributes.get(stored)) is not None for stored in schema.blobs):
        raise Unsupported(
            f"put_raw() of a {schema.name} with a value in a blob: two items would refer to one blob, and the first "
            "that is changed removes it: read its bytes and put() an entity with them"
        )
    entries = _entries(context, schema, item.entity)
    check_item(item.attributes, key, entries, schema, context.limits, schema.local)
    target = Target(schema, key, vars(item.entity))
    return target, req.Put(key, item.attributes, entries, pattern=schema.primary.full_name)
