"""The requests that the core sends to a backend. A backend needs to understand nothing else.

They are frozen values: keys are encoded text, conditions and actions are lowered AST nodes with stored names, items are
plain stored values. A backend turns each request into native requests with a pure function, and returns the response
that the docstring of the request states. Keys are ordered by their UTF-8 bytes, which is also the order of Python
strings. Every range is ``[lo, hi)``.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, assert_never

from odm.errors import BadValue
from odm.expressions.nodes import Action, Condition, Increment, Item
from odm.immutable import Immutable, field
from odm.protocol.limits import PORTABLE, Limits
from odm.protocol.reading import Only, Page, Part, Partitions, Position, Sample
from odm.protocol.table_requests import (
    AdminRequest,
    AlterTables,
    CreateTables,
    DropTables,
    IdentifyTable,
    ListTables,
    MeasureTable,
    Printed,
    TableIdentity,
    TableSize,
)
from odm.protocol.waits import Notice, Sleep, Wait
from odm.schema.entity import Key


class _Patterned(Printed, kw_only=True):
    """A request that serves one pattern: ``pattern`` is its name for `odm.results.Meter`, such as "Order.by_date".

    It has no effect on the request, so requests that differ only in it are equal.
    """

    pattern: str = field(default="", eq=False, repr=False)


Presence: TypeAlias = Literal["absent", "expired", "present", "own"]
"""What is known of the condition of a write: where it holds, there is

* "absent": no item;
* "expired": no item, or an expired one;
* "present": an item;
* "own": an item with the ``tag`` of the write, which the condition names.
"""


class Get(_Patterned):
    """Read one item. Response: ``Item | None``.

    ``former``: the item also has the former values of its fields, as `odm.codec.WAS`; otherwise a backend may leave
    them out. ``only``: these attributes of the item are needed; None: all.
    """

    key: Key
    consistent: bool = True
    former: bool = field(default=False, kw_only=True)
    only: Only | None = field(default=None, kw_only=True)


class BatchGet(Printed):
    """Read any number of items, no key twice. Response: ``tuple[Item | None, ...]`` in the order of the keys.

    ``patterns`` are parallel to the keys; see ``pattern`` of a `Get`. ``tags``: only the tags of the items are needed;
    a backend may leave out all other attributes; ``expected``: it may also answer None for an item with this tag.
    ``atomic``: the items as they were at one instant. ``former``, ``only``: as for a `Get`.
    """

    keys: tuple[Key, ...]
    consistent: bool = True
    patterns: tuple[str, ...] = field(default=(), kw_only=True, eq=False, repr=False)
    tags: bool = field(default=False, kw_only=True)
    expected: str | None = field(default=None, kw_only=True, eq=False, repr=False)
    atomic: bool = field(default=False, kw_only=True)
    former: bool = field(default=False, kw_only=True)
    only: Only | None = field(default=None, kw_only=True)


class Put(_Patterned):
    """Write a whole item; replaces any item under its key. Response: ``Written | Refused``.

    ``tag``: only replace an item with this tag; if the stored item has another tag, or no tag, another program wrote
    it, and the put is `Refused`. None: replace any item.

    ``entries`` are all secondary index entries of the new item: index name to index key. Other entries of the replaced
    item are removed in the same step.
    ``condition`` is evaluated on the item before the write; on an absent item, every path is missing. ``presence`` is
    what the core knows of it, so that no backend has to look for it there; None: nothing, as in a request made by hand.
    ``once``: never apply it twice: if the answer was lost and the item was absent before, do not retry, because writes
    of other items depend on it.
    ``known``: only replace these attributes, and keep all others of the replaced item; None: replace the whole item.
    """

    key: Key
    item: Item
    entries: Mapping[str, Key] = field(factory=dict)
    condition: Condition | None = None
    once: bool = field(default=False, kw_only=True)
    tag: str | None = field(default=None, kw_only=True, repr=False)
    known: frozenset[str] | None = field(default=None, kw_only=True)
    presence: Presence | None = field(default=None, kw_only=True, eq=False, repr=False)

    def over(self, item: Item | None) -> Item:
        """The new item, when it replaces this one."""
        if self.known is None or item is None:
            return self.item
        return {**{name: value for name, value in item.items() if name not in self.known}, **self.item}


class Update(_Patterned):
    """Change attributes of one item. Response: ``Written | Refused``.

    Only existing items are updated: the item must have the ``tag``, and its model the ``version``; `condition_of` has
    both with the condition. ``entries`` has only entries that change: index name to the new index key, or to None to
    remove the entry. Right-hand sides see the previous item. ``returning`` states which item `Written` carries.
    ``limits`` are the limits of the new item, for a backend that does not enforce its own. ``base`` is the item from
    which the entries were computed. If it was read, it is the object that the backend returned; a backend whose write
    checks that the item is unchanged need not read it again. ``fixed`` has attributes that an action computes from
    their former value, and that have this value wherever the condition holds; it may lack some.
    """

    key: Key
    actions: tuple[Action, ...]
    entries: Mapping[str, Key | None] = field(factory=dict)
    condition: Condition | None = None
    returning: Literal["none", "old", "new"] = "none"
    limits: Limits = PORTABLE
    tag: str | None = field(default=None, kw_only=True, repr=False)
    version: int | None = field(default=None, kw_only=True, repr=False)
    base: Item | None = field(default=None, kw_only=True, eq=False, repr=False)
    fixed: Item = field(factory=dict, kw_only=True, eq=False, repr=False)


class Delete(_Patterned):
    """Remove one item with its index entries. Response: ``Written | Refused``.

    ``tag`` and ``presence`` are as for a `Put`.

    ``unindexed``: items with such a key never have index entries, because their entity has no access patterns.
    """

    key: Key
    condition: Condition | None = None
    tag: str | None = field(default=None, kw_only=True, repr=False)
    unindexed: bool = field(default=False, kw_only=True, eq=False, repr=False)
    presence: Presence | None = field(default=None, kw_only=True, eq=False, repr=False)


class Check(_Patterned):
    """Check a condition and the ``tag`` of one item, as for a `Put`. Only allowed in a `Transact`."""

    key: Key
    condition: Condition | None = None
    tag: str | None = field(default=None, kw_only=True, repr=False)
    presence: Presence | None = field(default=None, kw_only=True, eq=False, repr=False)


Operation: TypeAlias = Put | Update | Delete | Check
"""The operations of a `Transact`."""


class Transact(Printed):
    """Operations that are all applied, or none; no key twice. Response: ``Written | Refusals``.

    Every condition is evaluated, and every update applied, on the state before the transaction. No reader sees a part
    of it. ``returning`` of updates is ignored. ``limits`` are the limits of the new items, as for an `Update`.
    ``once``: if its response is lost, it is retried until the outcome is known, and it is applied only once.
    """

    operations: tuple[Operation, ...]
    limits: Limits = PORTABLE
    once: bool = False


class BatchWrite(Printed):
    """Any number of unconditional puts and deletes, no key twice; not atomic. Response: None when all are applied.

    They have no ``tag``: the core first reads the tags of the stored items with a `BatchGet`.
    """

    operations: tuple[Put | Delete, ...]


class Merge(_Patterned):
    """Write parts of one item without reading it; creates the item if it does not exist. Response: `Written | Refused`.

    It is idempotent unless it has an `Increment`, and its item has no index entries.

    ``actions`` are a `Set` or `Remove` of a whole attribute that is not in Columns, or of one member of a dict in
    Columns, an `AddTo` or `DiscardFrom` of a set in Columns, and an `Increment` or `AddValue` of an aggregate, from 0
    or from nothing. A dict of which a member is written or removed is created if it does not exist.
    ``marks`` are the tag and the key fields: a new item gets them, a stored item keeps its own. ``tag`` is as for a
    `Put`, except that a backend that cannot check it without a read writes nevertheless. ``limits`` are those of the
    new item, for a backend that knows it and does not enforce its own.
    """

    key: Key
    actions: tuple[Action, ...]
    marks: Item
    tag: str | None = field(default=None, kw_only=True, repr=False)
    limits: Limits = field(default=PORTABLE, kw_only=True, eq=False, repr=False)


class BatchMerge(Printed):
    """Any number of merges, no key twice; not atomic. Response: ``tuple[Written | Refused | Failed, ...]``, in order.

    Only for a backend that makes several at once, see `odm.protocol.connection.Connection.merges_together`.
    """

    operations: tuple[Merge, ...]


class Query(_Patterned):
    """One page of the items of a partition, by key range. Response: `Page`.

    ``lo`` and ``hi`` bound the sort key (of the index, if ``index`` is set); if ``hi`` is None, to the end. ``limit``
    is the most items to return *after* the filter; None: the backend chooses the size of a page. ``examine``: the page
    ends after about as many items were read *before* the filter, which bounds its cost; None: it ends where the limit
    or the backend ends it. ``after``: continue after this position, in the order of the query. ``count``: only the
    number of items is needed; items and positions may be left out. ``only``: as for a `Get`; the filter is evaluated on
    whole items nevertheless.
    """

    partition: str
    lo: str = ""
    hi: str | None = None
    index: str | None = None
    filter: Condition | None = None
    reverse: bool = False
    limit: int | None = None
    after: Position | None = None
    consistent: bool = True
    count: bool = False
    examine: int | None = None
    only: Only | None = field(default=None, kw_only=True)


class Split(_Patterned):
    """Divide the table into parts that can be scanned concurrently. Response: ``tuple[Part, ...] | None``.

    Every item is in exactly one of at most ``parts`` parts; all items of a partition are in the same one. None: the
    backend numbers its parts, as ``segment`` of a `Scan` does.
    """

    parts: int


class Scan(_Patterned):
    """One page of all items of the table, in unspecified order. Response: `Page`.

    ``segment`` is ``(number, of)``, 0 <= number < of: return only that part of the items. For one ``of``, every item is
    in exactly one segment, which never changes; all items of a partition are in the same one. ``part``: return only
    this part, from the response to a `Split`. ``entries``: the page also has the index entries of each item,
    and the items have their former values, see ``former`` of a `Get`.

    ``tag``: items with the tag of another entity are not needed, but those with an unknown tag are; a backend may
    return them. ``only``: as for a `Query`. ``partitions``: only items with these partition keys; a backend whose
    partitions have no order raises `Unsupported`. ``sample``: only a random part of the items. ``examine``: with a
    filter, as for a `Query`.
    """

    filter: Condition | None = None
    limit: int | None = None
    after: Position | None = None
    consistent: bool = True
    count: bool = False
    segment: tuple[int, int] | None = None
    part: Part | None = None
    entries: bool = False
    tag: str | None = field(default=None, kw_only=True)
    only: Only | None = field(default=None, kw_only=True)
    partitions: Partitions | None = field(default=None, kw_only=True)
    sample: Sample | None = field(default=None, kw_only=True)
    examine: int | None = field(default=None, kw_only=True)


class ListShards(_Patterned):
    """The shards of the table's change feed. Response: ``tuple[ChangeShard, ...]``, parents before their children.

    The response has every shard with changes that can still be read, or those from which the others can be reached.
    """


class ReadChanges(_Patterned):
    """A page of a shard's changes. Response: `odm.protocol.changes.ChangePage`.

    ``after``: a position from an earlier page; None: the oldest change that can be read. The page has at most ``limit``
    changes, and none if there is no newer one now. Raises BadCursor if changes after the position were lost.
    """

    shard: str
    after: str | None = None
    limit: int = 100


_Writes: TypeAlias = Put | Update | Delete | Transact | BatchWrite | Merge | BatchMerge
Feeds: TypeAlias = ListShards | ReadChanges
Request: TypeAlias = Get | BatchGet | _Writes | Query | Split | Scan | Feeds | AdminRequest

Response: TypeAlias = Any
"""The response to a request; its docstring states the type, which Python's types cannot express."""


def repeatable(request: Request) -> bool:
    """Whether sending the request twice has the same effect and response as sending it once."""
    match request:
        case Update() | Delete() | Transact():  # the second delete would not find the item that the first removed
            return False
        case Put(condition=condition):
            return condition is None
        case Get() | BatchGet() | Query() | Split() | Scan() | ListShards() | ReadChanges():
            return True
        case Merge(actions=actions):
            return not any(isinstance(action, Increment) for action in actions)
        case BatchMerge(operations):
            return all(map(repeatable, operations))
        case BatchWrite() | CreateTables() | DropTables() | ListTables() | AlterTables():
            return True
        case IdentifyTable() | MeasureTable():
            return True
        case _:
            assert_never(request)


def writes(request: Request) -> bool:
    """Whether the request changes items."""
    return isinstance(request, _Writes)


class Gather(Immutable):
    """Run requests concurrently. Response: the tuple of their responses, in order.

    ``keep``: the response to a failed request is `Failed`, so that the other responses are not lost.
    """

    requests: tuple[Request, ...]
    keep: bool = False


class Failed(Immutable):
    """The response to a failed request of a `Gather`."""

    error: Exception


class Written(Immutable):
    """The write was applied. ``item``: see ``returning`` of an `Update`. ``existed``: a `Delete` found an item."""

    item: Item | None = None
    existed: bool = True


class Refused(Immutable):
    """The condition did not hold and nothing was written. ``item``: the stored item; None if it is absent."""

    item: Item | None = None


class Refusals(Immutable):
    """A transaction was refused and nothing was written.

    ``reasons`` has an entry for each operation, in order: `Refused` if its condition did not hold, a `BadValue` if its
    actions do not fit the stored item, None if it did not cause the refusal.
    """

    reasons: tuple[Refused | BadValue | None, ...]


__all__ = [
    "AdminRequest",
    "AlterTables",
    "BatchGet",
    "BatchMerge",
    "BatchWrite",
    "Check",
    "CreateTables",
    "Delete",
    "DropTables",
    "Failed",
    "Gather",
    "Get",
    "IdentifyTable",
    "Key",
    "ListShards",
    "ListTables",
    "MeasureTable",
    "Merge",
    "Notice",
    "Only",
    "Operation",
    "Page",
    "Part",
    "Partitions",
    "Position",
    "Presence",
    "Put",
    "Query",
    "ReadChanges",
    "Refusals",
    "Refused",
    "Request",
    "Response",
    "Sample",
    "Scan",
    "Sleep",
    "Split",
    "TableIdentity",
    "TableSize",
    "Transact",
    "Update",
    "Wait",
    "Written",
    "repeatable",
]
