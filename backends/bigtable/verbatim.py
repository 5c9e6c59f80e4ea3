"""Keys of tables with keys as they are: on Bigtable, each part of such a key is one escaped component.

So no text of a key contains the separators of row keys, and keys sort as before; see `odm.keys.text`.
"""

from collections.abc import Callable
from typing import Any, TypeVar, assert_never, cast

from odm.backends.bigtable.layout import Layout, is_wide
from odm.backends.bigtable.native import Steps
from odm.immutable import evolve
from odm.keys.text import escape, unescape
from odm.protocol import requests as req
from odm.protocol.changes import ChangePage
from odm.schema.entity import Key
from odm.schema.model import Schema
from odm.schema.row_keys import UNAMBIGUOUS

R = TypeVar("R", bound=req.Request | req.Check)


def with_row_keys(schema: Schema) -> Schema:
    """The schema with the separator that such keys need, and the ids of items in wide rows."""
    needed = schema.escapes_row_keys or is_wide(schema)
    return evolve(schema, row_key_join=UNAMBIGUOUS) if needed else schema


def steps_of(steps: Callable[[req.Request], Steps[Any]], request: req.Request) -> Steps[Any]:
    """The steps of a request with escaped keys; the keys of the response are as they are."""
    response = yield from steps(escaped(request))
    if isinstance(response, req.Page):
        return evolve(
            response,
            positions=[_position(position, unescape) for position in response.positions],
            next=response.next and _position(response.next, unescape),
            entries=[_entries(entries, unescape) for entries in response.entries],
        )
    if isinstance(response, ChangePage):
        return evolve(response, records=tuple(evolve(one, key=_key(one.key, unescape)) for one in response.records))
    return response


def row_key_of(schema: Schema, key: Key) -> str:
    """The row key of an item with this key, as the models make it; the opposite of `stored_key`.

    Raises:
        ItemTooLarge: the row key is longer than Bigtable allows.
    """
    return Layout.of(schema).row_key(_key(key, escape) if schema.escapes_row_keys else key)


def stored_key(schema: Schema, key: Key) -> Key:
    """The key of a row, as the models make it."""
    return _key(key, unescape) if schema.escapes_row_keys else key


def escaped(request: R) -> R:
    """The request with escaped keys."""
    return cast("R", _escaped(request))


def _key(key: Key, change: Callable[[str], str]) -> Key:
    # The key of a scan is a whole row key.
    partition, _, sort = key.partition.partition(UNAMBIGUOUS) if change is unescape else (key.partition, "", "")
    return Key(change(partition), change(key.sort or sort))


def _position(position: req.Position, change: Callable[[str], str]) -> req.Position:
    index_key = position.index_key
    return req.Position(_key(position.key, change), None if index_key is None else _key(index_key, change))


def _entries(entries: Any, change: Callable[[str], str]) -> dict[str, Any]:
    return {index: None if key is None else _key(key, change) for index, key in entries.items()}


def _escaped(request: req.Request | req.Check) -> req.Request | req.Check:
    match request:
        case req.Get() | req.Merge() | req.Delete() | req.Check():
            return evolve(request, key=_key(request.key, escape))
        case req.Put() | req.Update():
            return evolve(request, key=_key(request.key, escape), entries=_entries(request.entries, escape))
        case req.BatchGet(keys):
            return evolve(request, keys=tuple(_key(key, escape) for key in keys))
        case req.Transact(operations):
            return evolve(request, operations=tuple(map(escaped, operations)))
        case req.BatchWrite(operations):
            return evolve(request, operations=tuple(map(escaped, operations)))
        case req.BatchMerge(operations):
            return evolve(request, operations=tuple(map(escaped, operations)))
        case req.Query(partition, lo, hi):
            return evolve(
                request,
                partition=escape(partition),
                lo=escape(lo),
                hi=None if hi is None else escape(hi),
                after=request.after and _position(request.after, escape),
            )
        case req.Scan():
            return _escaped_scan(request)
        case req.Split() | req.ListShards() | req.ReadChanges():
            return request
        case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
            return request
        case req.IdentifyTable() | req.MeasureTable():
            return request
        case _:
            assert_never(request)


def _escaped_scan(request: req.Scan) -> req.Scan:
    if request.partitions is not None:
        lo, hi = request.partitions
        request = evolve(request, partitions=req.Partitions(escape(lo), None if hi is None else escape(hi)))
    if request.after is None:
        return request
    key = _key(request.after.key, escape)
    row_key = f"{key.partition}{UNAMBIGUOUS}{key.sort}" if key.sort else key.partition
    return evolve(request, after=req.Position(Key(row_key)))
