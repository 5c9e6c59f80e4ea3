"""Queries on an index that does not project all attributes: index entries are read first, then their items by key.

An entry may be older than its item. A result is left out if the item was deleted, no longer has this index entry, or no
longer matches the filter.
"""

from odm.backends.dynamodb.batches import MAX_GETS, batch_get
from odm.backends.dynamodb.client.native import Steps
from odm.backends.dynamodb.client.retry import Attempts
from odm.backends.dynamodb.items.attributes import Attribute, from_attribute
from odm.backends.dynamodb.items.codec import write_index_key
from odm.backends.dynamodb.items.layout import Layout
from odm.backends.dynamodb.items.loading import AttributesItem, DescribedItem
from odm.codec import TAG
from odm.expressions.evaluate import holds
from odm.expressions.nodes import roots_of
from odm.immutable import evolve
from odm.protocol.requests import BatchGet, Page, Position, Query
from odm.schema.entity import Key


def needs_items(layout: Layout, request: Query) -> bool:
    """Whether the query has to read the items too.

    For a count, the index alone suffices if it projects the tag and all attributes of the filter.
    """
    held = _held(layout, request)
    if held is None:
        return False
    if layout.described is not None:
        return True
    shows_strangers = layout.exclusive or TAG in held
    return not (request.count and shows_strangers and _decides(layout, request))


def entries_of(layout: Layout, request: Query) -> Query:
    """The query for the index entries: at most as many as one BatchGetItem reads."""
    decides = _decides(layout, request)
    filter_, wanted = (request.filter, request.limit) if decides else (None, request.examine or request.limit)
    most = MAX_GETS if wanted is None else min(wanted, MAX_GETS)
    return evolve(request, filter=filter_, limit=most, count=False, only=None)


def whole_items(layout: Layout, request: Query, entries: Page, attempts: Attempts) -> Steps[Page]:
    """The page with the items of these index entries, in the same order."""
    keys = tuple(dict.fromkeys(position.key for position in entries.positions))
    # A global index cannot be read consistently, so reading its items consistently would have no benefit.
    wanted = BatchGet(keys, request.consistent and request.index in layout.local)
    found = dict(zip(keys, (yield from batch_get(layout, wanted, attempts)), strict=True))
    kept: list[tuple[AttributesItem | DescribedItem, Position]] = []
    following = entries.next
    for position in entries.positions:
        item = found[position.key]
        if isinstance(item, AttributesItem | DescribedItem) and _stands(layout, request, item, position):
            if len(kept) == request.limit:
                following = kept[-1][1]
                break
            kept.append((item, position))
    items = layout.items([item.attributes for item, _ in kept])
    strangers = layout.loader.strangers(items) if request.count else 0
    positions = tuple(position for _, position in kept)
    return Page(items, positions, following, strangers=strangers, examined=entries.examined)


def _stands(layout: Layout, request: Query, item: AttributesItem | DescribedItem, position: Position) -> bool:
    """Whether the item still has this index entry and matches the filter."""
    entry = write_index_key(layout, str(request.index), position.index_key or Key(""))
    if not all(_equal(item.attributes.get(name), value) for name, value in entry.items()):
        return False
    return request.filter is None or holds(request.filter, item)


def _equal(found: Attribute | None, wanted: Attribute) -> bool:
    """Whether a stored attribute has this value; a number may be written in another way."""
    return found is not None and found.keys() == wanted.keys() and from_attribute(found) == from_attribute(wanted)


def _decides(layout: Layout, request: Query) -> bool:
    """Whether the index projects all attributes of the filter."""
    held = _held(layout, request) or ()
    if layout.described is not None:
        return request.filter is None
    return request.filter is None or roots_of(request.filter).issubset(held)


def _held(layout: Layout, request: Query) -> tuple[str, ...] | None:
    """The attributes that the index holds besides keys, in the existing table if it was described; None: all."""
    index = request.index
    if index is None:
        return None
    return layout.held[index] if index in layout.held else layout.projections.get(index)
