"""What to write in place of a name that other libraries have: ``order.save()``, ``Order.objects``, ``query.filter()``.

Each table maps names to what to write, where ``{0}`` is the name of the class or the pattern. `Hinted` uses one for an
attribute that does not exist; for any other name, the error is Python's own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final


def _table(lines: Mapping[str, str]) -> dict[str, str]:
    return {name: text for names, text in lines.items() for name in names.split()}


_READ: Final = (
    "write db.query({0}.by_...(...)) with a pattern, db.query(select({0}).where(...)), or db.scan({0}) for all"
)
_GET: Final = "write db.get({0}, ...) with the fields of its key by name"
_AGAIN: Final = f"{_GET}; it returns a new object"
_PUT: Final = "write db.put(entity), or db.insert(entity) if it must be new"
_BATCH: Final = "write with db.batch() as batch: batch.put(entity)"
_TOGETHER: Final = "write with db.transaction() as tx: tx.put(entity)"
_MANY: Final = "write db.get_many([{0}.primary(...), ...])"
_BLOCK_ENDS: Final = "leave it out, all is sent when the block ends"

ENTITY: Final = _table(
    {
        "save put upsert persist create insert add": _PUT,
        "objects query filter filter_by where all find find_all select scan list match": _READ,
        "get get_or_none get_by_id find_one first one fetch load": _GET,
        "refresh reload refresh_from_db": _AGAIN,
        "get_or_create": f"{_GET}, and if it is None, db.insert(entity), which raises ItemExists if another was faster",
        "update patch modify": "write db.update(entity, set_({0}.field, value))",
        "delete remove destroy": "write db.delete(entity)",
        "exists count": "write db.exists({0}, ...) or db.count(query)",
        "batch_get": _MANY,
        "batch_write bulk_create": _BATCH,
        "create_table delete_table": "write db.create() or db.drop()",
    }
)
"""Of an entity or its class, which does not know a store."""

PATTERN: Final = _table(
    {
        "query where filter reverse limit all first count get scan": "call the pattern with values, which makes a "
        "query, as in db.query(Order.by_date(customer_id=...))",
    }
)
"""Of a pattern, such as ``Order.by_date``."""

_ORDER: Final = (
    "write query.reverse() for the opposite of the order of the sort key; another order needs an AccessPattern with "
    "such a sort key"
)

QUERY: Final = _table(
    {
        "filter filter_by and_ having": "write query.where({0}.field > value)",
        "all fetch fetch_all run execute exec go to_list results items": "write list(db.query(query)), or loop over it",
        "first one one_or_none get scalar": "write db.first(query)",
        "count": "write db.count(query)",
        "exists": "write db.first(query) is not None",
        "order_by sort sort_by asc desc": _ORDER,
        "page paginate": "write db.page(query, size=25, after=cursor)",
        "offset skip start_after": "write db.page(query, after=page.cursor), which does not read the items before",
        "only values_list attributes project": "write db.query(query, only=[{0}.field])",
        "begins begins_with between gt gte lt lte eq": "write query.where({0}.field >= value), with between(...) or "
        "starts_with(...) too",
        "consistent consistent_read": "write db.query(query, consistent=False); True is the default",
        "delete remove": "write db.delete_all(query)",
        "update": "loop over db.query(query), with db.update(entity, set_({0}.field, value))",
    }
)

PAGE: Final = _table(
    {
        "next next_page next_cursor next_token last_evaluated_key LastEvaluatedKey": "write page.cursor",
        "has_next has_more has_next_page": "write page.cursor is not None",
        "prev previous_page previous_cursor prev_cursor": "write page.previous",
        "has_previous has_prev": "write page.previous is not None",
        "results data records rows Items": "write page.items",
        "total count": "write db.count(query)",
    }
)

STORE: Final = _table(
    {
        "save add put_item upsert": _PUT,
        "get_item find_one fetch load get_or_none": _GET,
        "find filter filter_by where select all list match": _READ,
        "update_item patch modify": "write db.update(entity_or_key, set_({0}.field, value))",
        "delete_item remove": "write db.delete(entity_or_key)",
        "batch_get batch_get_item get_batch": _MANY,
        "batch_write batch_write_item batch_put put_many put_all insert_many save_all add_all bulk_create": _BATCH,
        "transact transact_write transact_write_items begin session": _TOGETHER,
        "commit flush": "leave it out, each call is sent at once; for several together, with db.transaction() as tx:",
        "rollback": "raise an exception in the block of with db.transaction() as tx:, which discards it",
        "create_table create_tables create_all": "write db.create()",
        "drop_table delete_table drop_all": "write db.drop()",
        "paginate": "write db.page(query, size=25, after=cursor)",
        "refresh": _AGAIN,
    }
)

BATCH: Final = _table(
    {
        "save add put_item append upsert": "write batch.put(entity)",
        "insert": "a batch has no conditions: write batch.put(entity), which replaces an item with its key, or "
        "db.insert(entity), or tx.insert(entity) in a transaction",
        "update": "a batch has no conditions: write db.update(...), tx.update(...) in a transaction, or for parts of "
        "items that may not exist batch.merge(key, set_({0}.field, value))",
        "get": _MANY,
        "remove delete_item": "write batch.delete(entity_or_key)",
        "commit flush execute write": _BLOCK_ENDS,
    }
)

TRANSACTION: Final = _table(
    {
        "save add put_item": "write tx.put(entity)",
        "get get_item get_many one query page": "write db.get(...) before the block; the transaction depends on what "
        "you read by tx.check(key, when=...), by when= of a write, or by a Revision",
        "merge upsert": "write tx.update(key, set_({0}.field, value), upsert=True)",
        "remove delete_item": "write tx.delete(entity_or_key)",
        "condition_check require": "write tx.check(key, when=...)",
        "commit flush execute": _BLOCK_ENDS,
        "rollback abort cancel": "raise an exception in the block, which discards it",
    }
)


def hint(table: Mapping[str, str], name: str, owner: str = "Order") -> str | None:
    """What to write in place of a name; None: nothing is known of it."""
    text = table.get(name)
    return None if text is None else text.format(owner)


class Sync:
    """Says so to ``async with``."""

    __slots__ = ()

    if not TYPE_CHECKING:

        async def __aenter__(self) -> Any:
            raise TypeError(f"a {type(self).__name__} is not async: write with, or open an AsyncStore for async with")

        async def __aexit__(self, *error: object) -> None: ...


class Async:
    """Says so to a ``with`` without ``async``."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self) -> Any:
            raise TypeError(f"an {type(self).__name__} is async: write async with, or open a Store for with")

        def __exit__(self, *error: object) -> None: ...


class Hinted:
    """Says what to write in place of some attributes that do not exist. Costs nothing for those that do."""

    __slots__ = ()

    _odm_hints: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            known = hint(type(self)._odm_hints, name)
            if known is None:
                return object.__getattribute__(self, name)  # raises the error as without this method
            raise AttributeError(f"{type(self).__name__} has no {name!r}: {known}", name=name, obj=self)
