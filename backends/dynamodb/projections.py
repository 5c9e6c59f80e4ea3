"""Queries through an index that does not hold whole items: its entries are read first, then their items by key.

An entry may be older than its item: an item that has gone, or has left the entry, is no result, and neither is one on
which the filter does not hold as it is now.
"""

from attrs import evolve

from odm.backends.dynamodb.batches import MAX_GETS, batch_get
from odm.backends.dynamodb.loading import AttributesItem, AttributesItems
from odm.backends.dynamodb.native import Steps
from odm.backends.dynamodb.schema import Layout
from odm.codec import TAG
from odm.expressions.evaluate import holds
from odm.expressions.nodes import paths
from odm.protocol.requests import BatchGet, Page, Position, Query


def needs_items(layout: Layout, request: Query) -> bool:
    """Whether the index alone cannot answer: it can count, by a filter on what it holds, if it holds the tags too."""
    if request.index is None or request.index not in layout.projections:
        return False
    shows_strangers = layout.exclusive or TAG in layout.projections[request.index]
    return not (request.count and shows_strangers and _decides(layout, request))


def entries_of(layout: Layout, request: Query) -> Query:
    """The request for the entries whose items may be the result: no more than are fetched at once."""
    filter_ = request.filter if _decides(layout, request) else None
    most = MAX_GETS if request.limit is None else min(request.limit, MAX_GETS)
    return evolve(request, filter=filter_, limit=most, count=False)


def whole_items(layout: Layout, request: Query, entries: Page, attempts: int) -> Steps[Page]:
    """The page with the items of these entries, in their order."""
    keys = tuple(dict.fromkeys(position.key for position in entries.positions))
    # As current as the index was read: a global one is never read consistently.
    wanted = BatchGet(keys, request.consistent and request.index in layout.local)
    found = dict(zip(keys, (yield from batch_get(layout, wanted, attempts)), strict=True))
    kept: list[tuple[AttributesItem, Position]] = []
    for position in entries.positions:
        item = found[position.key]
        if isinstance(item, AttributesItem) and _stands(layout, request, item, position):
            kept.append((item, position))
    items = AttributesItems([item.attributes for item, _ in kept], layout.hidden, layout.loader)
    strangers = layout.loader.strangers(items) if request.count else 0
    return Page(items, tuple(position for _, position in kept), entries.next, strangers=strangers)


def _stands(layout: Layout, request: Query, item: AttributesItem, position: Position) -> bool:
    """Whether the item still has this entry, and the filter holds on it."""
    names = layout.indexes[str(request.index)]
    entry = zip(names, position.index_key or (), strict=True)
    if not all(item.attributes.get(name) == {"S": text} for name, text in entry):
        return False
    return request.filter is None or holds(request.filter, item)


def _decides(layout: Layout, request: Query) -> bool:
    """Whether the index holds all that the filter looks at."""
    held = layout.projections[str(request.index)]
    return request.filter is None or all(path.root in held for path in paths(request.filter))
