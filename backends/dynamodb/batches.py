"""BatchGet and BatchWrite, in as many native requests as they need.

DynamoDB may process only a part of a batch, if it throttles requests or the response exceeds 16 MB. It returns the rest
as UnprocessedKeys or UnprocessedItems, and odm sends these again.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from odm.backends.dynamodb.client.errors import hot_spots, is_conflict, is_throttled
from odm.backends.dynamodb.client.native import Call, Steps, backoff
from odm.backends.dynamodb.client.retry import Attempts
from odm.backends.dynamodb.expressions import only_tags, projected
from odm.backends.dynamodb.items.codec import read_key, write_key, write_put
from odm.backends.dynamodb.items.layout import Layout
from odm.errors import Throttled
from odm.expressions.nodes import Item
from odm.protocol.requests import BatchGet, BatchWrite, Delete, Put
from odm.schema.entity import Key

MAX_GETS = 100
"""The maximum keys of one BatchGetItem (AWS: Service, account, and table quotas)."""

MAX_WRITES = 25
"""The maximum operations of one BatchWriteItem (same source)."""

T = TypeVar("T")


def batch_get(layout: Layout, request: BatchGet, attempts: Attempts) -> Steps[tuple[Item | None, ...]]:
    """Read the keys, 100 per request.

    Raises:
        Throttled: as many requests in a row as ``attempts`` returns processed no key.
    """
    found: dict[Key, Item] = {}

    def send(keys: Sequence[Key]) -> Steps[list[Key]]:
        wanted: dict[str, Any] = {"Keys": [write_key(layout, layout.keys, key) for key in keys]}
        if request.consistent:
            wanted["ConsistentRead"] = True
        if request.tags and (layout.described is None or layout.described.tells_by_tag):
            wanted |= only_tags(layout.tag, *layout.keys)
        wanted |= projected(layout, request.only)
        response = yield Call("batch_get_item", {"RequestItems": {layout.table: wanted}})
        for attributes in response["Responses"].get(layout.table, ()):
            found[read_key(layout, layout.keys, attributes)] = layout.item(attributes)
        unprocessed = response.get("UnprocessedKeys", {}).get(layout.table, {}).get("Keys", ())
        return [read_key(layout, layout.keys, attributes) for attributes in unprocessed]

    yield from _until_done(layout, request.keys, MAX_GETS, attempts, send)
    return tuple(found.get(key) for key in request.keys)


def batch_write(layout: Layout, request: BatchWrite, attempts: Attempts) -> Steps[None]:
    """Write the operations, 25 per request.

    Raises:
        Throttled: as many requests in a row as ``attempts`` returns processed no operation.
    """
    by_key = {operation.key: operation for operation in request.operations}

    def send(operations: Sequence[Put | Delete]) -> Steps[list[Put | Delete]]:
        writes = [_write_request(layout, operation) for operation in operations]
        response = yield Call("batch_write_item", {"RequestItems": {layout.table: writes}})
        unprocessed = response.get("UnprocessedItems", {}).get(layout.table, ())
        return [by_key[_written_key(layout, write)] for write in unprocessed]

    yield from _until_done(layout, request.operations, MAX_WRITES, attempts, send)


def _write_request(layout: Layout, operation: Put | Delete) -> dict[str, Any]:
    if isinstance(operation, Put):
        return {"PutRequest": {"Item": write_put(layout, operation)}}
    return {"DeleteRequest": {"Key": write_key(layout, layout.keys, operation.key)}}


def _written_key(layout: Layout, write: dict[str, Any]) -> Key:
    attributes = write["PutRequest"]["Item"] if "PutRequest" in write else write["DeleteRequest"]["Key"]
    return read_key(layout, layout.keys, attributes)


def _until_done(
    layout: Layout,
    work: Sequence[T],
    size: int,
    attempts: Attempts,
    send: Callable[[Sequence[T]], Steps[list[T]]],
) -> Steps[None]:
    """Send the work in chunks. Unprocessed entries move to the end of the queue, and the next request waits.

    Raises:
        Throttled: DynamoDB processes no more entries; ``left`` has the unprocessed entries.
    """
    left, fruitless = list(work), 0
    while left:
        chunk, rest = left[:size], left[size:]
        try:
            unprocessed = yield from send(chunk)
        except Exception as error:
            if not (is_throttled(error) or is_conflict(error)):
                raise
            raise Throttled(_given_up(layout, len(left), len(work)) + hot_spots(error), left) from error
        left = rest + unprocessed
        # Only answers that process nothing count: a throttled batch goes on as long as some of it is written.
        fruitless = fruitless + 1 if len(unprocessed) == len(chunk) else 0
        if fruitless and fruitless >= attempts():
            raise Throttled(_given_up(layout, len(left), len(work)), left)
        if unprocessed:
            yield backoff(fruitless)


def _given_up(layout: Layout, left: int, whole: int) -> str:
    return (
        f"{left} of {whole} operations of a batch on table {layout.table!r} were not processed: DynamoDB throttled "
        f"them, or transactions are writing the same items. The {left} left are in .left of this error; "
        "send these again later, or spread the load over more partitions"
    )
