"""The functions that users write conditions and actions with.

To type checkers a reference has the type of its field, so arguments are typed as field and value; at run time a
reference arrives.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel

from odm._published import public
from odm.errors import BadValue, brief
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    Append,
    Between,
    Condition,
    Const,
    Contains,
    DiscardFrom,
    Exists,
    Increment,
    IsIn,
    Missing,
    Not,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
    Size,
    StartsWith,
)
from odm.expressions.references import Reference, SizeReference, operand_of, path_of

T = TypeVar("T")


@public
def field(name: str) -> Any:
    """A reference by name, for ``when=`` inside a class body, where the class does not exist yet.

    Args:
        name: a field of the entity being declared.
    """
    return Reference(Path((name,)))


@public
def some(reference: T | None) -> T:
    """The same reference, with ``None`` taken away for type checkers: ``some(Order.opened_at) > january``."""
    return reference  # type: ignore[return-value]


@public
def between(reference: T, low: T, high: T) -> Condition:
    """``low <= reference <= high``, both ends included."""
    return Between(operand_of(reference), operand_of(low), operand_of(high))


@public
def starts_with(reference: str | bytes | None, prefix: str | bytes) -> Condition:
    """The text or bytes field begins with ``prefix``."""
    return StartsWith(path_of(reference), Const(prefix))


@public
def contains(reference: Any, value: Any) -> Condition:
    """A text field holds ``value`` as a substring, or a list or set field holds it as an element."""
    return Contains(path_of(reference), Const(value))


@public
def size(reference: Any) -> int:
    """The size of a field, to compare with a number: UTF-16 units of text, bytes, or number of elements.

    For type checkers it is an int, so that ``size(Order.lines) > 3`` checks.
    """
    return SizeReference(Size(path_of(reference)))  # type: ignore[return-value]


@public
def exists(reference: Any) -> Condition:
    """The attribute is stored. A field whose default is None is not stored while it is None."""
    return Exists(path_of(reference))


@public
def missing(reference: Any) -> Condition:
    """The attribute is not stored."""
    return Missing(path_of(reference))


@public
def is_in(reference: T, choices: Iterable[T]) -> Condition:
    """The field equals one of the choices.

    Raises:
        BadValue: there are no choices, so nothing could match; or they are one text, whose characters would be.
    """
    if isinstance(choices, str | bytes):
        raise BadValue(
            f"is_in({brief(reference)}, {brief(choices)}) takes a list of choices: write [{brief(choices)}] for one"
        )
    if not isinstance(choices, Iterable) or isinstance(choices, type):
        raise BadValue(f"is_in({brief(reference)}, {brief(choices)}) takes a list of choices: write [value, ...]")
    constants = tuple(Const(choice) for choice in choices)
    if not constants:
        raise BadValue(f"is_in({brief(reference)}, ...) needs at least one choice")
    return IsIn(operand_of(reference), constants)


@public
def not_(condition: Condition | bool) -> Condition:
    """The condition does not hold; at run time ``~condition`` is the same."""
    return Not(checked(condition, "not_()"))


@public
def set_(reference: T, value: T) -> Action:
    """Give the field this value; for a whole field, its validator runs."""
    if type(reference) is not Reference and isinstance(reference, type | Mapping):
        raise TypeError(
            f"set_({brief(reference)}, ...) takes one field: for a dict of fields, write *set_fields(Order, changes)"
        )
    return Set(path_of(reference), value)


@public
def set_fields(entity: type[BaseModel], values: Mapping[str, object]) -> list[Action]:
    """A `set_` for each field of a dict, such as the changes that an API got.

    ::

        db.update(key, *set_fields(Order, body.model_dump(exclude_unset=True)))

    A dict for a field that holds a model sets the members that it names, and leaves the others. If the field has no
    value yet, it gets the model's defaults with these members. ``set_(Order.address, value)`` replaces the whole value.
    Lists, and fields of type dict, are replaced.

    Args:
        entity: the entity class.
        values: the new values by field name; an alias or a stored name is not one. None empties an optional field.

    Raises:
        BadValue: a name is not a field of the entity. The call that gets the actions checks the values, and refuses
            fields of the primary key, and no actions at all.
    """
    if not isinstance(entity, type) or not issubclass(entity, BaseModel):
        raise BadValue(
            f"set_fields({brief(entity)}, ...): give the entity class first, as in set_fields(Order, changes)"
        )
    if not isinstance(values, Mapping):
        why = "write model.model_dump(exclude_unset=True)" if isinstance(values, BaseModel) else "give a dict"
        raise BadValue(f"set_fields({entity.__name__}, {brief(values)}) takes new values by field name: {why}")
    for name in values:
        if name not in entity.model_fields:
            raise BadValue(f"set_fields({entity.__name__}, ...): {_no_field(entity, name)}")
    return [Set(Path((name,), entity), value, isinstance(value, Mapping)) for name, value in values.items()]


def _no_field(entity: type[BaseModel], name: object) -> str:
    for field_name, info in entity.model_fields.items():
        if name in (info.alias, info.validation_alias, info.serialization_alias):
            return f"{name!r} is an alias of {field_name!r}: give field names, as model_dump() does with by_alias=False"
    near = get_close_matches(str(name), entity.model_fields, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(entity.model_fields)}"
    return f"{entity.__name__} has no field {name!r}: {hint}"


@public
def set_if_missing(reference: T, value: T) -> Action:
    """Give the field this value unless it is stored already."""
    return SetIfMissing(path_of(reference), value)


@public
def remove(reference: Any) -> Action:
    """Remove the attribute; the field then reads as its default."""
    return Remove(path_of(reference))


@public
def increment(reference: float | Decimal | None, by: int | Decimal = 1) -> Action:
    """Add ``by`` (negative to subtract) to a number; an absent field counts as its default, or 0."""
    return Increment(path_of(reference), by)


@public
def add_value(reference: int | None, value: int) -> Action:
    """Add a value to an aggregate: a field with `odm.Sum`, `odm.Min` or `odm.Max`.

    A Sum adds it. A Min or Max becomes the value if that is less or greater, or if the field is not stored.
    """
    return AddValue(path_of(reference), value)


@public
def append(reference: Sequence[T] | None, *values: T) -> Action:
    """Put values at the end of a list; an absent field counts as its default, or empty."""
    return Append(path_of(reference), values)


@public
def prepend(reference: Sequence[T] | None, *values: T) -> Action:
    """Put values at the front of a list; an absent field counts as its default, or empty."""
    return Prepend(path_of(reference), values)


@public
def add_to(reference: AbstractSet[T], *members: T) -> Action:
    """Add members to a set."""
    return AddTo(path_of(reference), _members("add_to", reference, members))


@public
def discard_from(reference: AbstractSet[T], *members: T) -> Action:
    """Remove members from a set; members that are not in it are ignored."""
    return DiscardFrom(path_of(reference), _members("discard_from", reference, members))


def _members(function: str, reference: object, members: tuple[T, ...]) -> frozenset[T]:
    try:
        return frozenset(members)
    except TypeError as error:
        listed = ", ".join(map(brief, members))
        raise TypeError(
            f"{function}({brief(reference)}, {listed}): {error}; give the members one by one, as in "
            f"{function}({brief(reference)}, *members)"
        ) from error


def checked(condition: object, where: str) -> Condition:
    """The condition itself.

    Raises:
        TypeError: it is a plain bool (a comparison that did not involve a field) or anything else.
    """
    if isinstance(condition, Condition):
        return condition
    hint = (
        " (did a comparison not involve a field, as in order.total instead of Order.total, or a property or computed "
        "field?)"
    )
    raise TypeError(
        f"{where} takes conditions on fields, not {brief(condition)}{hint if isinstance(condition, bool) else ''}"
    )


__all__ = [
    "add_to",
    "add_value",
    "append",
    "between",
    "checked",
    "contains",
    "discard_from",
    "exists",
    "field",
    "increment",
    "is_in",
    "missing",
    "not_",
    "prepend",
    "remove",
    "set_",
    "set_if_missing",
    "size",
    "some",
    "starts_with",
]
