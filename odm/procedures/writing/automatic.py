"""Assigns the fields whose value is the store's: Id, CreatedAt and UpdatedAt."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from odm.entities.entity import Entity
from odm.errors import BadValue, brief
from odm.expressions.nodes import Action, Path, Set, Value
from odm.procedures.context import Context
from odm.procedures.ids import ulid_text, uuid7
from odm.schema.automatic import Automatic
from odm.schema.entity import EntitySchema

E = TypeVar("E", bound=Entity)


def assigned(context: Context, entity: EntitySchema, instance: E, *, written: bool = True) -> E:
    """The entity that a put stores: a copy with its automatic fields assigned, or the same if it has none.

    ``written``: assign UpdatedAt, too.
    """
    fields = entity.automatic
    if fields is None:
        return instance
    values, changes, now = vars(instance), dict[str, Any](), context.clock()
    if fields.id is not None and values[fields.id] is None:
        changes[fields.id] = _new(context, fields)
    if fields.created is not None and values[fields.created] is None:
        changes[fields.created] = _time(fields, fields.created, now)
    if fields.updated is not None and written:
        changes[fields.updated] = _time(fields, fields.updated, now)
    if not changes:
        return instance
    # As the model would take them: a validator of the field may change the value, which is then also in the key.
    return instance.model_copy(update={name: entity.codec.validate(name, value) for name, value in changes.items()})


def with_time(context: Context, entity: EntitySchema, actions: Sequence[Action]) -> Sequence[Action]:
    """The actions of an update, with the one that sets UpdatedAt."""
    fields = entity.automatic
    if fields is None or fields.updated is None:
        return actions
    return (*actions, Set(Path((fields.updated,)), _time(fields, fields.updated, context.clock())))


def of_new_item(context: Context, entity: EntitySchema, item: dict[str, Value]) -> dict[str, Value]:
    """The item that an upsert creates, with its Id and CreatedAt."""
    fields, codec = entity.automatic, entity.codec
    if fields is None:
        return item
    attributes, now = dict(item), context.clock()
    if fields.id is not None and codec.stored[fields.id] not in item:
        attributes[codec.stored[fields.id]] = codec.value(fields.id, _new(context, fields))
    if fields.created is not None and codec.stored[fields.created] not in item:
        attributes[codec.stored[fields.created]] = codec.value(fields.created, _time(fields, fields.created, now))
    if fields.updated is not None:  # the same as the time of its creation
        attributes[codec.stored[fields.updated]] = codec.value(fields.updated, _time(fields, fields.updated, now))
    return attributes


def times_of(entity: EntitySchema) -> set[str]:
    """The stored names of CreatedAt and UpdatedAt."""
    fields = entity.automatic
    names = () if fields is None else (fields.created, fields.updated)
    return {entity.codec.stored[name] for name in names if name is not None}


def check_settable(entity: EntitySchema, field: str) -> None:
    """Raise BadValue for an action on an automatic field."""
    fields = entity.automatic
    if fields is None or field not in (fields.id, fields.created, fields.updated):
        return
    if field == fields.updated:
        raise BadValue(f"{entity.name}.{field} is the UpdatedAt, which odm sets by itself: leave it out")
    word = "Id" if field == fields.id else "CreatedAt"
    raise BadValue(f"{entity.name}.{field} is the {word}, which does not change: leave it out, or put the whole entity")


def new_id(context: Context, cls: object) -> Any:
    """A new id for an entity of a class.

    Raises:
        BadValue: the class is not an entity of the table, or has no Id.
    """
    if not (isinstance(cls, type) and issubclass(cls, Entity)):
        raise BadValue(f"new_id({brief(cls)}): give an entity class that has a field with Id()")
    fields = context.schema.entity(cls).automatic
    if fields is None or fields.id is None:
        raise BadValue(f"new_id({cls.__name__}): the class has no id: declare id: Annotated[str, Id()] = AUTO")
    return _new(context, fields)


def _new(context: Context, fields: Automatic) -> Any:
    if fields.form == "ulid":
        return ulid_text(context.ids.ulid(context.clock, context.random))
    identifier = uuid7(context.ids.uuid7(context.clock, context.random))
    return identifier if fields.as_uuid else str(identifier)


def _time(fields: Automatic, name: str, now: float) -> datetime:
    """The time, as far as the field stores it."""
    try:
        return fields.truncate[name](datetime.fromtimestamp(now, UTC))
    except (ValueError, OverflowError):
        raise BadValue(f"the store's clock returns {now} s since 1970, which is not a time: set the clock") from None
