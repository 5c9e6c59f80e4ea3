"""What a user calls the requests of the engine: the words of the store, for `Faults`."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, assert_never, get_args

from odm.expressions.nodes import And, Condition, Or
from odm.protocol.predicates import ABSENT
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    DropTables,
    Get,
    Put,
    Query,
    Request,
    Scan,
    Split,
    Transact,
    Update,
)
from odm.schema.entity import Key

CallName: TypeAlias = Literal[
    "get", "get_many", "query", "scan", "put", "insert", "update", "delete", "batch", "transaction", "create", "drop"
]
"""The narrowest word for a request."""

Operation: TypeAlias = CallName | Literal["read", "write", "any"]
"""Which requests a fault is for.

``get`` is also what `Store.one`, `Store.exists`, and an update that has to look first send; a transaction that has to
look first sends ``get_many``. ``query`` is also what `Store.page`, `Store.first`, `Store.count` and `Store.delete_all`
send, whose deletes are a ``batch``. ``put`` means inserts too, and ``insert`` only a put that an existing item refuses.
``read`` and ``write`` are all requests for items, but the read of tags with which a batch begins: a fault of ``batch``
meets its writes.
"""

GROUPS: Final[Mapping[str, frozenset[str]]] = {
    "put": frozenset({"put", "insert"}),
    "read": frozenset({"get", "get_many", "query", "scan"}),
    "write": frozenset({"put", "insert", "update", "delete", "batch", "transaction"}),
    "any": frozenset(get_args(CallName)),
}
"""The words that stand for more than themselves."""

NAMES: Final = (*get_args(CallName), "read", "write", "any")
"""All words."""

WITHOUT_KEYS: Final = frozenset({"scan", "create", "drop"})
"""Requests that are not for items or a partition."""


def call_name_of(request: Request) -> CallName:
    """The narrowest word for a request."""
    match request:
        case Get():
            return "get"
        case BatchGet():
            return "get_many"
        case Query():
            return "query"
        case Split() | Scan():
            return "scan"
        case Put(condition=condition):
            return "insert" if _forbids_an_item(condition) else "put"
        case Update():
            return "update"
        case Delete():
            return "delete"
        case BatchWrite():
            return "batch"
        case Transact():
            return "transaction"
        case CreateTables():
            return "create"
        case DropTables():
            return "drop"
        case _:
            assert_never(request)


def _forbids_an_item(condition: Condition | None) -> bool:
    if isinstance(condition, And | Or):
        return any(map(_forbids_an_item, condition.conditions))
    return condition == ABSENT


def keys_of(request: Request) -> tuple[Key, ...]:
    """The keys of the items that a request names; of a query its partition and the start of its range."""
    match request:
        case Get(key=key) | Put(key=key) | Update(key=key) | Delete(key=key):
            return (key,)
        case BatchGet(keys=keys):
            return keys
        case BatchWrite(operations=operations) | Transact(operations=operations):
            return tuple(operation.key for operation in operations)
        case Query(partition=partition, lo=lo):
            return (Key(partition, lo),)
        case Split() | Scan() | CreateTables() | DropTables():
            return ()
        case _:
            assert_never(request)


def call_names_of(operation: str) -> frozenset[str]:
    """The narrowest words that a word stands for."""
    return GROUPS.get(operation, frozenset({operation}))
