"""The names by which `Faults` selects requests: those of the store's methods."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, assert_never, get_args

from odm.protocol import requests as req
from odm.schema.entity import Key

CallName: TypeAlias = Literal[
    "get",
    "get_many",
    "query",
    "scan",
    "put",
    "insert",
    "update",
    "merge",
    "delete",
    "batch",
    "transaction",
    "changes",
    "create",
    "drop",
    "list_tables",
    "alter",
    "identify",
    "measure",
]
"""The most specific name of a request."""

Operation: TypeAlias = CallName | Literal["read", "write", "any"]
"""The requests that a fault applies to.

* ``get``: also sent by `Store.one`, `Store.exists` and updates that read the item first.
* ``get_many``: also sent by transactions that read items first.
* ``query``: also sent by `Store.page`, `Store.first`, `Store.count` and `Store.delete_all`, whose deletes are a
  ``batch``.
* ``put``: includes inserts; ``insert`` is only a put that fails if the item exists.
* ``changes``: reads of the change feed.
* ``merge``: a merge outside of a batch; those of a batch are a ``batch``.
* ``read`` and ``write``: all requests for items, except the read of the tags before a batch: no fault applies to it.
"""

GROUPS: Final[Mapping[str, frozenset[str]]] = {
    "put": frozenset({"put", "insert"}),
    "read": frozenset({"get", "get_many", "query", "scan"}),
    "write": frozenset({"put", "insert", "update", "merge", "delete", "batch", "transaction"}),
    "any": frozenset(get_args(CallName)),
}
"""The names that include other names."""

NAMES: Final = (*get_args(CallName), "read", "write", "any")
"""All names."""

WITHOUT_KEYS: Final = frozenset({"scan", "changes", "create", "drop", "list_tables", "alter", "identify", "measure"})
"""Requests that are not for items or a partition."""


def call_name_of(request: req.Request) -> CallName:
    """The most specific name of a request."""
    match request:
        case req.Get():
            return "get"
        case req.BatchGet():
            return "get_many"
        case req.Query():
            return "query"
        case req.Split() | req.Scan():
            return "scan"
        case req.Put(presence=presence):
            return "insert" if presence in ("absent", "expired") else "put"
        case req.Update():
            return "update"
        case req.Delete():
            return "delete"
        case req.Merge():
            return "merge"
        case req.BatchWrite() | req.BatchMerge():
            return "batch"
        case req.Transact():
            return "transaction"
        case req.ListShards() | req.ReadChanges():
            return "changes"
        case req.CreateTables():
            return "create"
        case req.DropTables():
            return "drop"
        case req.ListTables():
            return "list_tables"
        case req.AlterTables():
            return "alter"
        case req.IdentifyTable():
            return "identify"
        case req.MeasureTable():
            return "measure"
        case _:
            assert_never(request)


def keys_of(request: req.Request) -> tuple[Key, ...]:
    """The keys of the items in a request; for a query its partition and the start of its range."""
    match request:
        case req.Get(key=key) | req.Put(key=key) | req.Update(key=key) | req.Delete(key=key) | req.Merge(key=key):
            return (key,)
        case req.BatchGet(keys=keys):
            return keys
        case req.BatchWrite(operations) | req.BatchMerge(operations) | req.Transact(operations):
            return tuple(operation.key for operation in operations)
        case req.Query(partition=partition, lo=lo):
            return (Key(partition, lo),)
        case req.Split() | req.Scan() | req.ListShards() | req.ReadChanges():
            return ()
        case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
            return ()
        case req.IdentifyTable() | req.MeasureTable():
            return ()
        case _:
            assert_never(request)


def call_names_of(operation: str) -> frozenset[str]:
    """The most specific names that a name includes."""
    return GROUPS.get(operation, frozenset({operation}))
