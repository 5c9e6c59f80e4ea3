"""Requests of the core → native requests: one generator per request, which does no I/O and returns the response."""

import time
from functools import partial
from typing import Any, Final, Literal, assert_never, cast

from odm.backends.dynamodb.batches import batch_get, batch_write
from odm.backends.dynamodb.client.errors import MALFORMED, DamagedAnswer, translated
from odm.backends.dynamodb.client.native import Call, Native, Steps
from odm.backends.dynamodb.client.retry import Attempts, sent_again
from odm.backends.dynamodb.expressions import Expressions, projected, projection
from odm.backends.dynamodb.feed import list_shards, read_changes
from odm.backends.dynamodb.items.codec import read_entries, read_position, write_key, write_position
from odm.backends.dynamodb.items.described import native_value, reading_filter
from odm.backends.dynamodb.items.layout import Layout
from odm.backends.dynamodb.items.loading import AttributesItem
from odm.backends.dynamodb.key_conditions import native_bounds, several_range
from odm.backends.dynamodb.projections import entries_of, needs_items, whole_items
from odm.backends.dynamodb.tables import alter, check_index, create, drop, identify, measure, names
from odm.backends.dynamodb.transactions import transact, transact_get
from odm.backends.dynamodb.writes import delete, merge, put, update
from odm.codec import Lazy
from odm.errors import OdmError, Unsupported
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Condition, Item
from odm.protocol import requests as req
from odm.protocol.predicates import of_tags

NO_ORDER: Final = (
    "DynamoDB hashes partition keys, so a range of them is not stored together: use a condition, which reads the whole "
    "table, or declare an access pattern whose sort key begins with the field, and query it"
)
"""Why a scan cannot read a range of partitions."""

MAX_LIMIT: Final = 2**31 - 1
"""The largest Limit that DynamoDB's API accepts; a page ends much earlier, at 1 MB."""


def steps_of(layout: Layout, request: req.Request, attempts: Attempts, steps: Steps[Any] | None = None) -> Steps[Any]:
    """The native requests that perform one request of the core, with their retries.

    Args:
        layout: the layout of the table.
        request: the request.
        attempts: returns the most attempts at each native request.
        steps: the steps to take instead of the request's; their errors name the request.

    Raises:
        OdmError: the translated failure of the service or client.
    """
    steps = _steps(layout, request, attempts) if steps is None else steps
    try:
        native = next(steps)
        while True:
            started = time.time()
            try:
                response = yield native
            except Exception as error:  # noqa: BLE001  # sent again, or judged by the steps
                try:
                    response = yield from sent_again(native, error, started, attempts)
                except Exception as last:  # noqa: BLE001  # judged by the steps
                    native = steps.throw(last)
                    continue
            native = _next(steps, response)
    except StopIteration as done:
        return done.value
    except Exception as error:
        known = translated(error, request, layout.table)
        if known is None:
            raise
        raise known from error


def _next(steps: Steps[Any], response: Any) -> Native:
    """The next native request, after a response that the steps read.

    Raises:
        StopIteration: it was the last response.
        DamagedAnswer: the response lacks what DynamoDB returns.
    """
    try:
        return steps.send(response)
    except OdmError:
        raise
    except MALFORMED as error:
        raise DamagedAnswer(f"the response is not as DynamoDB's, at {type(error).__name__}: {error}") from error


def _steps(layout: Layout, request: req.Request, attempts: Attempts) -> Steps[Any]:
    match request:
        case req.Get():
            return _get(layout, request)
        case req.BatchGet(atomic=True):
            return transact_get(layout, request)
        case req.BatchGet():
            return batch_get(layout, request, attempts)
        case req.Put():
            return put(layout, request)
        case req.Update():
            return update(layout, request)
        case req.Delete():
            return delete(layout, request)
        case req.Transact():
            return transact(layout, request)
        case req.BatchWrite():
            return batch_write(layout, request, attempts)
        case req.Merge():
            return merge(layout, request)
        case req.BatchMerge():
            raise NotImplementedError(f"table {layout.table!r}: merges are sent one by one")  # see `merges_together`
        case req.Query():
            return _query(layout, request, attempts)
        case req.Split():
            return _numbered()
        case req.Scan():
            return _scan(layout, request)
        case req.ListShards():
            return list_shards(layout)
        case req.ReadChanges():
            return read_changes(layout, request)
        case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
            return _administer(layout, request)
        case req.IdentifyTable() | req.MeasureTable():
            return _administer(layout, request)
        case _:
            assert_never(request)


def _administer(layout: Layout, request: req.AdminRequest) -> Steps[Any]:
    match request:
        case req.CreateTables():
            return create(layout)
        case req.DropTables():
            return drop(layout)
        case req.ListTables(beginning):
            return names(beginning)
        case req.AlterTables(options, dry_run):
            return alter(layout, options, dry_run=dry_run)
        case req.IdentifyTable():
            return identify(layout)
        case req.MeasureTable():
            return measure(layout)
        case _:
            assert_never(request)


def _get(layout: Layout, request: req.Get) -> Steps[Item | None]:
    # Inlined from write_key, because this is the most frequent request.
    key: dict[str, Any] = {name: {"S": text} for name, text in zip(layout.keys, request.key, strict=False)}
    if layout.types:
        key = write_key(layout, layout.keys, request.key)
    arguments: dict[str, Any] = {"TableName": layout.table, "Key": key}
    if request.consistent:
        arguments["ConsistentRead"] = True
    if request.only is not None:
        arguments |= projected(layout, request.only)
    response = yield Call("get_item", arguments)
    if "Item" not in response:
        return None
    item = response["Item"]
    if type(item) is not dict:
        raise TypeError(f"its Item is a {type(item).__name__}")
    if layout.described is not None:
        return layout.item(item)
    return AttributesItem(item, layout.hidden, layout.loader)


def _query(layout: Layout, request: req.Query, attempts: Attempts) -> Steps[req.Page]:
    if request.index is not None and request.index not in layout.held:
        yield from check_index(layout, request.index)
    if not needs_items(layout, request):
        return (yield from _entries(layout, request))
    page = yield from _entries(layout, entries_of(layout, request))
    return (yield from whole_items(layout, request, page, attempts))


def _entries(layout: Layout, request: req.Query) -> Steps[req.Page]:
    expressions = Expressions()
    condition = _key_condition(layout, request, expressions)
    if condition is None:
        return req.Page()
    arguments: dict[str, Any] = {"TableName": layout.table}
    if request.index is not None:
        arguments["IndexName"] = request.index
    arguments["KeyConditionExpression"] = condition
    if request.reverse:
        arguments["ScanIndexForward"] = False
    # A global index is eventually consistent, and DynamoDB rejects ConsistentRead for it.
    consistent = request.consistent and (request.index is None or request.index in layout.local)
    arguments |= _paged(layout, request, expressions, consistent)
    response = yield Call("query", arguments)
    return _page(layout, request, response)


def _key_condition(layout: Layout, request: req.Query, expressions: Expressions) -> str | None:
    """The condition on the key attributes of a query; None if no key is in its range."""
    names = layout.keys if request.index is None else layout.indexes[request.index]
    if request.index in layout.several:
        equal, sort, lo, hi = several_range(layout, request)
    else:
        equal = {names[0]: native_value(request.partition, layout.types.get(names[0], "S"))}
        sort, lo, hi = names[1] if len(names) > 1 else "", request.lo, request.hi
    found = native_bounds(lo, hi, layout.types.get(sort, "S"))
    return None if found is None else expressions.key_condition(equal, sort, found)


def _numbered() -> Steps[None]:
    """DynamoDB numbers the segments of a scan, so no request is needed to split it."""
    yield from ()


def _scan(layout: Layout, request: req.Scan) -> Steps[req.Page]:
    if request.partitions is not None:
        raise Unsupported(f"table {layout.table!r}: {NO_ORDER}")
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
    counts = _counts(layout, request)
    if counts == "tags":
        arguments["ProjectionExpression"] = expressions.name(layout.tag)
    elif request.only is not None and _filters_all(layout, request):
        text = projection(layout, request.only, _index(request), expressions)
        if text is not None:
            arguments["ProjectionExpression"] = text
    arguments |= expressions.arguments()
    # DynamoDB applies Limit before the filter.
    most = request.limit if request.filter is None else request.examine
    if most is not None:
        arguments["Limit"] = min(most, MAX_LIMIT)
    if counts == "number":
        arguments["Select"] = "COUNT"
    if consistent:
        arguments["ConsistentRead"] = True
    if request.after is not None:
        arguments["ExclusiveStartKey"] = write_position(layout, _index(request), request.after)
    return arguments


def _page(layout: Layout, request: req.Query | req.Scan, response: Any) -> req.Page:
    index, last = _index(request), response.get("LastEvaluatedKey")
    following = read_position(layout, index, last) if last else None
    examined = response["ScannedCount"]
    counts = _counts(layout, request)
    if counts == "number":
        strangers = examined - response["Count"] if request.filter is None else 0
        count = response["Count"] + strangers
        return req.Page(next=following, count=count, strangers=strangers, examined=examined)
    found = response["Items"]
    if type(found) is not list:
        raise TypeError(f"its Items are a {type(found).__name__}")
    if counts == "tags":
        tagged = layout.items(found)
        strangers = layout.loader.strangers(tagged)
        return req.Page(next=following, count=len(found), strangers=strangers, examined=examined)
    if not _filters_all(layout, request):
        found = [one for one in found if holds(cast("Condition", request.filter), layout.item(one))]
    kept = found if request.limit is None else found[: request.limit]
    positions = Lazy(kept, partial(read_position, layout, index))
    if len(kept) < len(found):
        following = positions[-1]
    items = layout.items(kept)
    entries = Lazy(kept, partial(read_entries, layout)) if isinstance(request, req.Scan) and request.entries else ()
    strangers = layout.loader.strangers(items) if request.count else 0
    return req.Page(items, positions, following, len(kept), entries, strangers=strangers, examined=examined)


def _filter(layout: Layout, request: req.Query | req.Scan) -> Condition | None:
    """The filter of the request. A count without a filter gets one on the tags of the entities.

    DynamoDB returns the scanned count next to the count, so one request counts the items with and without an entity.
    """
    filter_ = request.filter
    if filter_ is None and _counts(layout, request) == "number" and not layout.exclusive:
        filter_ = of_tags(layout.loader.tags)
    return (
        filter_ if layout.described is None else reading_filter(layout.described, filter_, _barred(layout, request))[0]
    )


def _filters_all(layout: Layout, request: req.Query | req.Scan) -> bool:
    """Whether DynamoDB can apply the whole filter of the request."""
    if layout.described is None:
        return True
    return reading_filter(layout.described, request.filter, _barred(layout, request))[1]


def _barred(layout: Layout, request: req.Query | req.Scan) -> tuple[str, ...]:
    """The attributes that DynamoDB does not allow in the filter of a query: those of the key."""
    if isinstance(request, req.Scan):
        return ()
    return layout.keys if request.index is None else layout.indexes[request.index]


def _counts(layout: Layout, request: req.Query | req.Scan) -> Literal["number", "tags"] | None:
    """What a count reads: only the number, or the tags, if the filter may match items without an entity.

    A count with a filter and a limit reads the items, because DynamoDB applies Limit before the filter.
    """
    if not request.count or (request.limit is not None and request.filter is not None):
        return None
    if layout.described is not None:
        told = layout.described.tells_by_tag or (layout.exclusive and request.filter is None)
        if not told or not _filters_all(layout, request):
            return None
    return "tags" if request.filter is not None and holds(request.filter, None) else "number"


def _index(request: req.Query | req.Scan) -> str | None:
    return request.index if isinstance(request, req.Query) else None
