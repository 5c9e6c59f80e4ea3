"""Keeps the former values of fields with `odm.CellVersions`, and reads them.

They are stored with the item, as `odm.codec.WAS`; Bigtable stores each as a version of the field's cell. A write that
may change such a field reads the item first, and has the condition that the field and its former values are unchanged.
So no value is lost, also if several programs write at the same time.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeAlias, TypeVar

from odm._published import public_in
from odm.codec import WAS
from odm.errors import BadValue
from odm.expressions.evaluate import apply, equal
from odm.expressions.nodes import Action, Condition, Exists, Item, Path, Remove, Set, Value
from odm.expressions.references import path_of
from odm.immutable import Immutable, evolve
from odm.procedures.context import Context
from odm.procedures.writing.update import ItemUpdate
from odm.procedures.writing.upgrades import up_to_date
from odm.procedures.writing.write import Write
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import check_item
from odm.protocol.predicates import equals
from odm.schema.entity import EntitySchema, Target

T_co = TypeVar("T_co", covariant=True)

Former: TypeAlias = list[list[Value]]
"""The former values of one field; see `odm.codec.WAS`."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@public_in("odm.results")
class CellVersion(Immutable, Generic[T_co]):
    """One value that a field has, or had.

    Attributes:
        value: the value.
        at: when it was written, by the store's clock, in UTC and whole milliseconds; 1970-01-01 if that was before the
            field had the marker. Each version of a field is later than the one before.
    """

    value: T_co
    at: datetime


def keeps(intent: Write | ItemUpdate) -> bool:
    """Whether a write may change a field with CellVersions, so that it must read the item first."""
    entity = intent.target.entity
    if not entity.versioned or intent.name in ("delete", "check"):
        return False
    if isinstance(intent, Write) or intent.upsert or intent.whole is not None:
        return True
    return _sets(entity, intent.actions)


def remembering(context: Context, target: Target, operation: req.Operation, there: Item | None) -> req.Operation:
    """The operation, which also keeps the former values.

    Args:
        context: the context of the store.
        target: the item.
        operation: a put or an update of the item; any other is returned unchanged.
        there: the stored item, with its former values; None: it is absent.

    Raises:
        BadValue: an action does not fit the stored item.
        ItemTooLarge: the item with its former values is too large.
        ItemInvalid: the stored item is of an older version and cannot be upgraded.
    """
    if not isinstance(operation, req.Put | req.Update):
        return operation
    entity = target.entity
    item = None if there is None else up_to_date(context, entity, there, target.key)
    if isinstance(operation, req.Update):
        former = _former(context, entity, item, apply(operation.actions, item or {}))
        # Bigtable writes a field with its times, so an update that sets it names them even if they stay.
        if former == (item or {}).get(WAS, {}) and not _sets(entity, operation.actions):
            return operation
        path = Path((WAS,))
        kept = Set(path, former) if former else Remove(path)
        return evolve(operation, actions=(*operation.actions, kept))
    put = first_put(context, entity, operation, item)
    check_item(put.item, target.key, put.entries, entity, context.limits, entity.local)
    return put


def first_put(context: Context, entity: EntitySchema, put: req.Put, there: Item | None = None) -> req.Put:
    """The put, with the former values of the item that it replaces; None: there is no such item."""
    former = _former(context, entity, there, put.item)
    plain = {name: value for name, value in put.item.items() if name != WAS}
    return evolve(put, item={**plain, WAS: former} if former else plain)


def _former(context: Context, entity: EntitySchema, old: Item | None, new: Item) -> dict[str, Former]:
    """The former values of all fields after a write, by stored name; without fields that are not stored."""
    now = round(context.clock() * 1000)
    before: dict[str, Former] = {} if old is None else old.get(WAS, {})
    versions: dict[str, Former] = {}
    for name, count in entity.versioned.items():
        stored = entity.codec.stored[name]
        if stored not in new:
            continue
        former = before.get(stored, [])
        if old is None or stored not in old:
            versions[stored] = [[now]]
        elif not equal(old[stored], new[stored]):
            newest = former[0][0] if former else 0
            versions[stored] = [[max(now, newest + 1)], [newest, old[stored]], *former[1:]][:count]
        else:
            versions[stored] = former[:count] or [[0]]
    return versions


def _sets(entity: EntitySchema, actions: Iterable[Action]) -> bool:
    """Whether one of the actions is on a field with CellVersions."""
    roots = {action.path.root for action in actions}
    return any(entity.codec.stored[name] in roots for name in entity.versioned)


def same_values(entity: EntitySchema, there: Item) -> list[Condition]:
    """The conditions that the fields with CellVersions, and their former values, are as in this item."""
    return [equals(name, there) for name in (*(entity.codec.stored[field] for field in entity.versioned), WAS)]


def cell_versions(context: Context, which: object, field: Any) -> CoreGen[list[CellVersion[Any]]]:
    """The values of a field of an item, newest first.

    Raises:
        BadValue: the field does not keep versions, or belongs to another entity.
        ItemInvalid: a stored value does not fit the model.
    """
    target = context.schema.target(which)
    context.check_key(target)
    entity, path = target.entity, path_of(field)
    lowered = entity.codec.lower_stored(Exists(path))
    if path.root not in entity.versioned or len(path.segments) > 1:
        raise BadValue(
            f"{entity.name}.{path} keeps no former values: declare {path.root}: Annotated[..., CellVersions(5)]"
        )
    assert isinstance(lowered, Exists)
    stored, key = lowered.path.root, target.key
    item = context.living((yield req.Get(key, pattern=entity.primary.full_name, former=True)))
    if item is None or type(context.decode(item, key)) is not entity.cls:
        return []
    item = up_to_date(context, entity, item, key)
    if stored not in item:
        return []
    (newest,), *former = item.get(WAS, {}).get(stored, [[0]])
    return [
        CellVersion(entity.codec.read({stored: value}, [path.root], str(key))[path.root], _time(at))
        for at, value in [(newest, item[stored]), *former][: entity.versioned[path.root]]
    ]


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
