"""The requests of the core to a backend: nothing else reaches it.

Frozen values: keys are encoded text, conditions and actions are lowered AST nodes over stored names, items are
plain stored values. A backend turns each into native requests with a pure function and answers with the
response named in the operation's docstring. The order of keys is that of their UTF-8 bytes, which is also
the order of Python strings; every range is ``[lo, hi)``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never, cast

from attrs import AttrsInstance, Factory, field, fields, frozen

from odm.errors import BadValue
from odm.expressions.nodes import Action, Condition, Item
from odm.protocol.limits import PORTABLE, Limits
from odm.schema.entity import Key


class _Printed:
    """Requests print without default values, so that `explain` can show them."""

    __slots__ = ()

    def __str__(self) -> str:
        parts = []
        for attribute in fields(cast("type[AttrsInstance]", type(self))):
            value = getattr(self, attribute.name)
            if attribute.repr and value != attribute.default and value not in ("", {}, None):
                parts.append(f"{attribute.name}={value if isinstance(value, Condition) else repr(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


@frozen
class _Patterned(_Printed):
    """A request that serves one pattern: ``pattern`` is its name for `odm.Meter`, such as "Order.by_date".

    It has no effect on the request, so requests that differ only in it are equal.
    """

    pattern: str = field(default="", kw_only=True, eq=False, repr=False)


class Position(NamedTuple):
    """The place of one item in a query or scan: its key, and its index key when an index is read."""

    key: Key
    index_key: Key | None = None


@frozen
class Get(_Patterned):
    """Read one item. Response: ``Item | None``."""

    key: Key
    consistent: bool = True


@frozen
class BatchGet(_Printed):
    """Read many items, any number of keys, none twice. Response: ``tuple[Item | None, ...]`` in the keys' order.

    ``patterns`` are parallel to the keys; see ``pattern`` of a `Get`. ``tags``: only the tags of the items are needed,
    and the items may hold nothing else.
    """

    keys: tuple[Key, ...]
    consistent: bool = True
    patterns: tuple[str, ...] = field(default=(), kw_only=True, eq=False, repr=False)
    tags: bool = field(default=False, kw_only=True)


@frozen
class Put(_Patterned):
    """Write a whole item over whatever is there. Response: ``Written | Refused``.

    ``tag``: over nothing but an item of this tag; an item of another tag, or without one, is `Refused`. Another program
    wrote it. None: over any item.

    ``entries`` are all secondary index entries that the item has from now on: index name to index key; entries of
    the item that it replaces, and that are not listed, go in the same step.
    ``condition`` is judged on the item as it is before the write; on an absent item, every path is missing.
    ``once``: it is never done twice, so where no item was and the answer was lost, it is not sent again: what else is
    written rests on it.
    """

    key: Key
    item: Item
    entries: Mapping[str, Key] = Factory(dict)
    condition: Condition | None = None
    once: bool = field(default=False, kw_only=True)
    tag: str | None = field(default=None, kw_only=True, repr=False)


@frozen
class Update(_Patterned):
    """Change attributes of one item. Response: ``Written | Refused``.

    Only existing items are updated: the condition that the core sends always implies it, and asks for the tag.
    ``entries`` holds only what changes: index name to the new index key, or to None to leave the index. Right-hand
    sides see the previous item. ``returning`` says which item `Written` carries. ``limits`` bounds the item that comes
    of it, where the backend does not do that by itself. ``base`` is the item from which the entries were worked out, as
    the backend gave it if it was read: one whose write checks that the item is unchanged need not read it
    again.
    """

    key: Key
    actions: tuple[Action, ...]
    entries: Mapping[str, Key | None] = Factory(dict)
    condition: Condition | None = None
    returning: Literal["none", "old", "new"] = "none"
    limits: Limits = PORTABLE
    base: Item | None = field(default=None, kw_only=True, eq=False, repr=False)


@frozen
class Delete(_Patterned):
    """Remove one item with its index entries. Response: ``Written | Refused``; ``tag`` as of a `Put`."""

    key: Key
    condition: Condition | None = None
    tag: str | None = field(default=None, kw_only=True, repr=False)


@frozen
class Check(_Patterned):
    """Judge a condition on one item, and its ``tag``, as those of a `Put` are. Only inside of a `Transact`."""

    key: Key
    condition: Condition | None = None
    tag: str | None = field(default=None, kw_only=True, repr=False)


Operation: TypeAlias = Put | Update | Delete | Check
"""What a `Transact` may hold."""


@frozen
class Transact(_Printed):
    """Operations that are all applied, or none; no key twice. Response: ``Written | Refusals``.

    Every condition is judged, and every update applied, on the state before the transaction. Nobody sees a part of it.
    ``returning`` of updates is ignored. ``limits`` bounds the resulting items, as for an `Update`.
    ``once``: if its response is lost, it is sent again until the outcome is known, and it is applied once.
    """

    operations: tuple[Operation, ...]
    limits: Limits = PORTABLE
    once: bool = False


@frozen
class BatchWrite(_Printed):
    """Unconditional puts and deletes, any number, no key twice; not atomic. Response: None when all are applied.

    They have no ``tag``: the core first reads the tags of the stored items with a `BatchGet`.
    """

    operations: tuple[Put | Delete, ...]


@frozen
class Query(_Patterned):
    """One page of the items of a partition, by key range. Response: `Page`.

    ``lo``/``hi`` bound the sort key (of the index, when ``index`` is set), ``hi`` None = to the end. ``limit`` is the
    most items to return *after* the filter, None = as many as the backend likes to send at once. ``after`` continues
    behind a position, in the direction of reading. ``count``: only the number is wanted; items and positions may be
    left out.
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


class Part(NamedTuple):
    """A part of a table, between two places that only the backend that made it understands."""

    start: str
    end: str | None


@frozen
class Split(_Patterned):
    """Divide the table into parts that can be scanned concurrently. Response: ``tuple[Part, ...] | None``.

    The parts, ``parts`` at most, hold every item exactly once, all items of a partition in the same one. None: the
    backend knows parts by their numbers, as ``segment`` of a `Scan` has them.
    """

    parts: int


@frozen
class Scan(_Patterned):
    """One page of all items of the table, in unspecified order. Response: `Page`.

    ``segment`` ``(number, of)``: only that part of the items, 0 <= number < of. The parts of one ``of`` hold every item
    exactly once, all items of a partition in the same one, for every reader, at any time. ``part``: only that part, of
    the response to a `Split`. ``entries``: the page has the index entries of each item, too.
    """

    filter: Condition | None = None
    limit: int | None = None
    after: Position | None = None
    consistent: bool = True
    count: bool = False
    segment: tuple[int, int] | None = None
    part: Part | None = None
    entries: bool = False


@frozen
class CreateTables(_Printed):
    """Create the table with its indexes; what exists is not changed. Response: None."""


@frozen
class DropTables(_Printed):
    """Delete the table with all its items; no error if it is absent. Response: None."""


Request: TypeAlias = (
    Get | BatchGet | Put | Update | Delete | Transact | BatchWrite | Query | Split | Scan | CreateTables | DropTables
)

Response: TypeAlias = Any
"""What a request brings: its docstring says what. A type cannot depend on a value."""


def repeatable(request: Request) -> bool:
    """Whether sending the request twice has the same effect and response as sending it once."""
    match request:
        case Update() | Delete() | Transact():  # the second delete would not find the item that the first removed
            return False
        case Put(condition=condition):
            return condition is None
        case Get() | BatchGet() | BatchWrite() | Query() | Split() | Scan() | CreateTables() | DropTables():
            return True
        case _:
            assert_never(request)


def writes(request: Request) -> bool:
    """Whether the request changes items."""
    return isinstance(request, Put | Update | Delete | Transact | BatchWrite)


@frozen
class Gather:
    """Run requests concurrently. Response: the tuple of their responses, in order.

    ``keep``: a request that fails has `Failed` as its response, so that those of the others are known too.
    """

    requests: tuple[Request, ...]
    keep: bool = False


@frozen
class Sleep:
    """A pause before a retry, as a native request or one of the core."""

    seconds: float

    def __str__(self) -> str:
        return f"sleep {self.seconds:.3f}s"


@frozen
class Failed:
    """The response to a failed request of a `Gather`."""

    error: Exception


@frozen
class Written:
    """The write was applied; ``item``: as an `Update` has in ``returning``; ``existed``: a `Delete` found an item."""

    item: Item | None = None
    existed: bool = True


@frozen
class Refused:
    """The condition did not hold and nothing was written; ``item`` as it was judged (None: absent)."""

    item: Item | None = None


@frozen
class Refusals:
    """A transaction was refused and nothing was written.

    ``reasons`` has an entry per operation, in order: None where the operation was not at fault, `Refused` where its
    condition did not hold, and a `BadValue` where its actions do not fit the item as it is.
    """

    reasons: tuple[Refused | BadValue | None, ...]


@frozen
class Page:
    """One page of a query or scan.

    ``positions`` are in the order of ``items``. ``next`` is where to go on: None exactly when the backend knows that
    nothing follows; a page may be empty and still have a ``next``. ``entries``, in the order of ``items``, if a `Scan`
    asked for them: index name to stored index key. ``strangers``: how many of the items that a request
    with ``count`` counted have a tag that no entity of the schema has, or none.
    """

    items: Sequence[Item] = ()
    positions: Sequence[Position] = ()
    next: Position | None = None
    count: int = field(default=Factory(lambda self: len(self.items), takes_self=True))
    entries: Sequence[Mapping[str, Key]] = ()
    strangers: int = 0


__all__ = [
    "BatchGet",
    "BatchWrite",
    "Check",
    "CreateTables",
    "Delete",
    "DropTables",
    "Failed",
    "Gather",
    "Get",
    "Key",
    "Operation",
    "Page",
    "Part",
    "Position",
    "Put",
    "Query",
    "Refusals",
    "Refused",
    "Request",
    "Response",
    "Scan",
    "Sleep",
    "Split",
    "Transact",
    "Update",
    "Written",
    "repeatable",
]
