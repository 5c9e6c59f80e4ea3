"""Requests of the core → native requests: one generator per request, which does no I/O and returns the response."""

from functools import partial
from typing import Any, Final, Literal, assert_never

from odm.backends.dynamodb.batches import batch_get, batch_write
from odm.backends.dynamodb.codec import read_entries, read_position, write_position
from odm.backends.dynamodb.errors import translated
from odm.backends.dynamodb.expressions import Expressions
from odm.backends.dynamodb.loading import AttributesItem, AttributesItems
from odm.backends.dynamodb.native import Call, Steps
from odm.backends.dynamodb.projections import entries_of, needs_items, whole_items
from odm.backends.dynamodb.ranges import bounds
from odm.backends.dynamodb.schema import Layout
from odm.backends.dynamodb.tables import create, drop
from odm.backends.dynamodb.transactions import transact, transact_get
from odm.backends.dynamodb.writes import delete, put, update
from odm.codec import TAG, Lazy
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Condition, Item
from odm.protocol import requests as req
from odm.protocol.predicates import of_tags

MAX_LIMIT: Final = 2**31 - 1
"""The largest Limit that DynamoDB's API accepts; a page ends much earlier, at 1 MB."""


def steps_of(layout: Layout, request: req.Request, attempts: int) -> Steps[Any]:
    """The native requests that perform one request of the core.

    Args:
        layout: the layout of the table.
        request: the request.
        attempts: the total number of attempts for requests that botocore does not retry.

    Raises:
        OdmError: the translated failure of the service or client.
    """
    try:
        return (yield from _steps(layout, request, attempts))
    except Exception as error:
        known = translated(error, request, layout.table)
        if known is None:
            raise
        raise known from error


def _steps(layout: Layout, request: req.Request, attempts: int) -> Steps[Any]:
    match request:
        case req.Get():
            return _get(layout, request)
        case req.BatchGet(atomic=True):
            return transact_get(layout, request, attempts)
        case req.BatchGet():
            return batch_get(layout, request, attempts)
        case req.Put():
            return put(layout, request, attempts)
        case req.Update():
            return update(layout, request, attempts)
        case req.Delete():
            return delete(layout, request, attempts)
        case req.Transact():
            return transact(layout, request, attempts)
        case req.BatchWrite():
            return batch_write(layout, request, attempts)
        case req.Query():
            return _query(layout, request, attempts)
        case req.Split():
            return _numbered()
        case req.Scan():
            return _scan(layout, request)
        case req.CreateTables():
            return create(layout)
        case req.DropTables():
            return drop(layout)
        case _:
            assert_never(request)


def _get(layout: Layout, request: req.Get) -> Steps[Item | None]:
    # Inlined from write_key, because this is the most frequent request.
    key = {name: {"S": text} for name, text in zip(layout.keys, request.key, strict=False)}
    arguments: dict[str, Any] = {"TableName": layout.table, "Key": key}
    if request.consistent:
        arguments["ConsistentRead"] = True
    response = yield Call("get_item", arguments)
    return AttributesItem(response["Item"], layout.hidden, layout.loader) if "Item" in response else None


def _query(layout: Layout, request: req.Query, attempts: int) -> Steps[req.Page]:
    if not needs_items(layout, request):
        return (yield from _entries(layout, request))
    page = yield from _entries(layout, entries_of(layout, request))
    return (yield from whole_items(layout, request, page, attempts))


def _entries(layout: Layout, request: req.Query) -> Steps[req.Page]:
    sort_bounds = bounds(request.lo, request.hi)
    if sort_bounds is None:
        return req.Page()
    names = layout.keys if request.index is None else layout.indexes[request.index]
    expressions = Expressions()
    arguments: dict[str, Any] = {"TableName": layout.table}
    if request.index is not None:
        arguments["IndexName"] = request.index
    arguments["KeyConditionExpression"] = expressions.key_condition(names, request.partition, sort_bounds)
    if request.reverse:
        arguments["ScanIndexForward"] = False
    # A global index is eventually consistent, and DynamoDB rejects ConsistentRead for it.
    consistent = request.consistent and (request.index is None or request.index in layout.local)
    arguments |= _paged(layout, request, expressions, consistent)
    response = yield Call("query", arguments)
    return _page(layout, request, response)


def _numbered() -> Steps[None]:
    """DynamoDB numbers the segments of a scan, so no request is needed to split it."""
    yield from ()


def _scan(layout: Layout, request: req.Scan) -> Steps[req.Page]:
    arguments = {"TableName": layout.table} | _paged(layout, request, Expressions(), request.consistent)
    if request.segment is not None:
        arguments["Segment"], arguments["TotalSegments"] = request.segment
    response = yield Call("scan", arguments)
    return _page(layout, request, response)


def _paged(layout: Layout, request: req.Query | req.Scan, expressions: Expressions, consistent: bool) -> dict[str, Any]:
    """The arguments that are common to queries and scans."""
    arguments: dict[str, Any] = {}
    filter_ = _filter(layout, request)
    if filter_ is not None:
        arguments["FilterExpression"] = expressions.condition(filter_)
    if _counts(request) == "tags":
        arguments["ProjectionExpression"] = expressions.name(TAG)
    arguments |= expressions.arguments()
    if request.limit is not None and request.filter is None:
        arguments["Limit"] = min(request.limit, MAX_LIMIT)  # DynamoDB applies Limit before the filter
    if _counts(request) == "number":
        arguments["Select"] = "COUNT"
    if consistent:
        arguments["ConsistentRead"] = True
    if request.after is not None:
        arguments["ExclusiveStartKey"] = write_position(layout, _index(request), request.after)
    return arguments


def _page(layout: Layout, request: req.Query | req.Scan, response: Any) -> req.Page:
    index, last = _index(request), response.get("LastEvaluatedKey")
    following = read_position(layout, index, last) if last else None
    if _counts(request) == "number":
        strangers = response["ScannedCount"] - response["Count"] if request.filter is None else 0
        return req.Page(next=following, count=response["Count"] + strangers, strangers=strangers)
    found = response["Items"]
    if _counts(request) == "tags":
        tagged = AttributesItems(found, layout.hidden, layout.loader)
        return req.Page(next=following, count=len(found), strangers=layout.loader.strangers(tagged))
    kept = found if request.limit is None else found[: request.limit]
    positions = Lazy(kept, partial(read_position, layout, index))
    if len(kept) < len(found):
        following = positions[-1]
    items = AttributesItems(kept, layout.hidden, layout.loader)
    entries = Lazy(kept, partial(read_entries, layout)) if isinstance(request, req.Scan) and request.entries else ()
    strangers = layout.loader.strangers(items) if request.count else 0
    return req.Page(items, positions, following, entries=entries, strangers=strangers)


def _filter(layout: Layout, request: req.Query | req.Scan) -> Condition | None:
    """The filter of the request. A count without a filter gets one on the tags of the entities.

    DynamoDB returns the scanned count next to the count, so one request counts the items with and without an entity.
    """
    if request.filter is None and request.count and not layout.exclusive:
        return of_tags(layout.loader.tags)
    return request.filter


def _counts(request: req.Query | req.Scan) -> Literal["number", "tags"] | None:
    """What a count reads: only the number, or the tags, if the filter may match items without an entity.

    A count with a filter and a limit reads the items, because DynamoDB applies Limit before the filter.
    """
    if not request.count or (request.limit is not None and request.filter is not None):
        return None
    return "tags" if request.filter is not None and holds(request.filter, {}) else "number"


def _index(request: req.Query | req.Scan) -> str | None:
    return request.index if isinstance(request, req.Query) else None
