"""Conditions that the core adds to the user's condition: existence, tag, expiry, revision.

On every backend, an expired item counts as absent, even if the backend has not removed it yet. So each condition is
rewritten to have the same result for an expired item as for an absent one.
"""

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

from odm.codec import TAG, TTL_ATTRIBUTE, VERSION
from odm.expressions.evaluate import holds
from odm.expressions.nodes import And, Compare, Condition, Const, Exists, IsIn, Item, Missing, Not, Or, Path, Value
from odm.immutable import Immutable
from odm.protocol.requests import Check, Delete, Operation, Put, Update
from odm.schema.entity import EntitySchema

EXISTS = Exists(Path((TAG,)))
ABSENT = Missing(Path((TAG,)))

_EXPIRY = Path((TTL_ATTRIBUTE,))
_FIRST = Missing(Path((VERSION,)))
"""The item was written by the first version of its model."""


class Now(Immutable):
    """The instant, in epoch seconds, at which a call evaluates expiry."""

    seconds: int

    def expired(self, item: Item | None) -> bool:
        """Whether the item's TTL has passed; a value that is not a number never expires."""
        ttl = None if item is None else item.get(TTL_ATTRIBUTE)
        return isinstance(ttl, int | Decimal) and not isinstance(ttl, bool) and ttl <= self.seconds

    def living(self, item: Item | None) -> Item | None:
        """The item, or None if it has expired."""
        return None if self.expired(item) else item

    @property
    def alive(self) -> Condition:
        """The item has not expired; true for an absent item."""
        return Not(self.gone)

    @property
    def gone(self) -> Condition:
        """The item has expired; false for an absent item."""
        return Compare("<=", _EXPIRY, Const(self.seconds))


def every(*conditions: Condition | None) -> Condition | None:
    """The conjunction of the conditions, without those that are None; None if all are."""
    there: list[Condition] = []
    for condition in conditions:
        if condition is not None:
            there.extend(condition.conditions if isinstance(condition, And) else (condition,))
    return And(tuple(there)) if len(there) > 1 else there[0] if there else None


def judged(entity: EntitySchema, condition: Condition | None, now: Now) -> Condition | None:
    """The condition, which treats an expired item as an absent one."""
    if entity.ttl is None or condition is None:
        return condition
    if not holds(condition, None):
        return every(now.alive, condition)
    return Or((now.gone, condition))


def equals(stored: str, item: Item) -> Condition:
    """The attribute has the same value as in this item."""
    path = Path((stored,))
    return Compare("=", path, Const(item[stored])) if stored in item else Missing(path)


def same_at(path: Path, item: Item) -> Condition:
    """The attribute, or the entry of a dict, has the same value as in this item."""
    if len(path.segments) == 1:
        return equals(path.root, item)
    entries, key = item.get(path.root), path.segments[1]
    if not isinstance(entries, dict) or key not in entries:
        return Missing(path)
    return Compare("=", path, Const(entries[key]))


@lru_cache(maxsize=1024)  # part of every write
def has_tag(tag: str) -> Condition:
    """The item belongs to the entity of this tag."""
    return Compare("=", Path((TAG,)), Const(tag))


def version_is(entity: EntitySchema) -> Condition:
    """The item was written by a model of the entity's version."""
    return has_version(entity.version)


@lru_cache(maxsize=1024)  # part of every update
def has_version(number: int) -> Condition:
    """The item was written by a model of this version."""
    return _FIRST if number == 1 else Compare("=", Path((VERSION,)), Const(number))


def is_own(update: Update, item: Item | None) -> bool:
    """Whether a stored item has the tag and the version that an update requires."""
    if update.tag is not None and (item is None or item.get(TAG) != update.tag):
        return False
    if update.version == 1:
        return item is None or VERSION not in item
    return update.version is None or holds(has_version(update.version), item)


def condition_of(operation: Operation) -> Condition | None:
    """The condition of a write, in which that of an update also requires its tag and version."""
    if not isinstance(operation, Update):
        return operation.condition
    tag = None if operation.tag is None else has_tag(operation.tag)
    version = None if operation.version is None else has_version(operation.version)
    return every(tag, version, operation.condition)


def of_tags(tags: Iterable[str]) -> Condition:
    """The item belongs to one of the entities of these tags."""
    choices = [Const(tag) for tag in sorted(tags)]
    # DynamoDB allows at most 100 operands of IN.
    lists = [IsIn(Path((TAG,)), tuple(choices[start : start + 100])) for start in range(0, len(choices), 100)]
    return lists[0] if len(lists) == 1 else Or(tuple(lists)) if lists else IsIn(Path((TAG,)), ())


def over_own(tag: str) -> Condition:
    """The item is absent or has this tag: the condition of a write with a ``tag``."""
    return Or((ABSENT, has_tag(tag)))


def guarded(operation: Put | Delete | Check) -> Condition | None:
    """The condition of a write, extended so that it never overwrites an item without its tag; see `requests.Put`."""
    tag, presence = operation.tag, operation.presence
    if tag is None or presence in ("absent", "own"):
        return operation.condition
    # Without a fact, no shortcut: this holds of every condition.
    return every(has_tag(tag) if presence == "present" else over_own(tag), operation.condition)


def requires(condition: Condition | None, part: Condition) -> bool:
    """Whether a condition is ``part``, or a conjunction that contains it."""
    return condition == part or (isinstance(condition, And) and part in condition.conditions)


def revision_is(entity: EntitySchema, number: Value) -> Condition:
    """The item exists, with this revision; an item stored before its entity had a Revision has revision 0."""
    assert entity.revision is not None
    path = Path((entity.codec.stored[entity.revision],))
    same = Compare("=", path, Const(number))
    return same if number else And((EXISTS, Or((Missing(path), same))))
