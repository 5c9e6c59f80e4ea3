"""Values of fields and of columns, and how they are compared; see `odm.patterns.sql`.

Item and row are compared by a digest of their values, so that each type needs a form in JSON in which two values are
equal if they are. `Comparison` refuses a type without such a form, or whose values a column cannot hold.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NewType, TypeAlias, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import pydantic
from pydantic import BaseModel, PlainSerializer, RootModel, WrapSerializer
from pydantic.fields import FieldInfo
from pydantic_core import MultiHostUrl, Url
from sqlalchemy import JSON, Column
from sqlalchemy.types import DateTime, String, Uuid

from odm import Blob, Compressed, LazyBytes

Kinds: TypeAlias = frozenset[str]
"""The kinds of JSON values that a type has: text, number, bool, null, list, dict."""

_SHOWN: Final = (
    *(UUID, PurePath, Url, MultiHostUrl, pydantic.AnyUrl, pydantic.PostgresDsn, pydantic.MongoDsn, pydantic.NatsDsn),
    *(ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
    *(ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network),
)
"""Classes whose values are equal if their texts are."""

_KINDS: Final[Mapping[Any, str]] = {
    NoneType: "null",
    bool: "bool",
    **dict.fromkeys((int, float, pydantic.ByteSize), "number"),
    **dict.fromkeys((str, pydantic.EmailStr, bytes, Decimal, datetime, date, time, timedelta), "text"),
    **dict.fromkeys((pydantic.AwareDatetime, pydantic.PastDatetime, pydantic.FutureDatetime), "text"),
    **dict.fromkeys((pydantic.PastDate, pydantic.FutureDate), "text"),
}


class Undefined(Exception):
    """Values of a type cannot be compared next to SQL. The message says why."""


def from_sql(value: Any) -> Any:
    """A value of a column for a field: times without a zone are UTC, which is what `to_sql` writes."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def to_sql(column: Column[Any], value: Any) -> Any:
    """A value of a field for its column."""
    if isinstance(value, datetime):
        value = value.astimezone(UTC)
        zoned = isinstance(column.type, DateTime) and column.type.timezone
        return value if zoned else value.replace(tzinfo=None)
    if isinstance(value, Enum) and getattr(column.type, "enum_class", None) is None:
        return value.value
    if isinstance(value, set | frozenset | tuple):  # of an ARRAY
        return list(value)
    as_text = isinstance(value, UUID) if not isinstance(column.type, String) else isinstance(value, _SHOWN)
    return str(value) if as_text and not isinstance(column.type, Uuid) else value


def plain(value: Any, *, mixed: bool = False) -> Any:
    """A value as JSON, equal for equal values whichever database they come from.

    Args:
        value: of a type that `Comparison` accepts.
        mixed: texts and numbers may stand for each other in the type: numbers have a form of their own.
    """
    match value:
        case Enum():
            return plain(value.value, mixed=mixed)
        case int() | float() | Decimal() if mixed and not isinstance(value, bool):
            return {"number": _digits(Decimal(str(value)))}
        case None | bool() | int() | str():
            return value
        case float():
            return repr(value + 0.0)  # -0.0 is 0.0
        case Decimal():
            return _digits(value)
        case datetime():
            zoned: datetime = from_sql(value)
            return zoned.astimezone(UTC).isoformat()
        case bytes() | bytearray():
            return value.hex()
        case Mapping():
            return {str(name): plain(element, mixed=mixed) for name, element in value.items()}
        case set() | frozenset():
            return sorted((plain(element, mixed=mixed) for element in value), key=repr)
        case list() | tuple():
            return [plain(element, mixed=mixed) for element in value]
        case date() | time() | timedelta():
            return str(value)
        case _:
            assert isinstance(value, _SHOWN)  # `Comparison` refuses all others
            return str(value)


def comparisons(
    cls: type[BaseModel], columns: Mapping[str, Column[Any]], revision: str | None
) -> tuple[set[str], str | None]:
    """How the fields of an entity are compared with their columns.

    Args:
        cls: the entity.
        columns: the columns by field.
        revision: the field with `odm.Revision`.

    Returns:
        The fields that are compared as ``mixed``, see `plain`; and the revision if a condition must compare it, because
        it compares no field with `odm.Compressed`.

    Raises:
        Undefined: a field cannot be compared.
    """
    compared: dict[str, Comparison] = {}
    for name, column in columns.items():
        try:
            compared[name] = Comparison(cls, name, column)
        except Undefined as why:
            raise Undefined(f"field {name!r} {why}") from None
    compressed = [name for name, comparison in compared.items() if comparison.compressed]
    if compressed and revision is None:
        raise Undefined(
            f"field {compressed[0]!r} is Compressed, and no condition of a write compares it: give {cls.__name__} a "
            "Revision"
        )
    return {name for name, comparison in compared.items() if comparison.mixed}, revision if compressed else None


class Comparison:
    """How the values of a field are compared with those of its column.

    Args:
        cls: the entity.
        name: the field.
        column: its column.

    Attributes:
        mixed: a part of the type is a number or another value, see `plain`.
        compressed: a part of it has `odm.Compressed`, which no condition of a write compares.

    Raises:
        Undefined: they cannot be compared.
    """

    def __init__(self, cls: type[BaseModel], name: str, column: Column[Any]) -> None:
        self.mixed = self.compressed = False
        self._column, self._document = column.name, isinstance(column.type, JSON)
        self._seen: list[Any] = []  # models and aliases may lead back to themselves
        self._kinds_of_field(cls, name, cls.model_fields[name])

    def _kinds_of_field(self, cls: type[Any], name: str, info: FieldInfo) -> Kinds:
        """The kinds of a field of a model."""
        decorators = cls.__pydantic_decorators__
        serialized = {field for serializer in decorators.field_serializers.values() for field in serializer.info.fields}
        if info.exclude or decorators.model_serializers or serialized & {"*", name}:
            raise Undefined(f"is written as a serializer or exclude= of {cls.__name__} says: remove it")
        return self._marked(info.annotation, info.metadata)

    def _marked(self, annotation: Any, marks: Iterable[Any]) -> Kinds:
        for mark in marks:
            if isinstance(mark, Blob):
                raise Undefined("has Blob, and its value is outside of the item: keep its name in a column")
            if isinstance(mark, PlainSerializer | WrapSerializer):
                raise Undefined("is written as its serializer says: remove that")
            self.compressed = self.compressed or isinstance(mark, Compressed)
        return self._kinds(annotation)

    def _kinds(self, annotation: Any) -> Kinds:
        origin, args = get_origin(annotation), get_args(annotation)
        if annotation is Any or annotation is object:
            raise Undefined("has a part of any type, and SQL keeps no types: declare one")
        if annotation is pydantic.JsonValue:
            if not self._document:
                raise Undefined(
                    f"has the type JsonValue, which column {self._column!r} cannot hold: declare it as JSON"
                )
            self.mixed = True
            return frozenset({"number", "text", "bool", "list", "dict"})
        if annotation is bytes and self._document:
            raise Undefined(f"has bytes, which column {self._column!r} of JSON cannot hold: declare it as LargeBinary")
        for known, kind in _KINDS.items():  # by identity: an annotation need not be hashable
            if annotation is known:
                return frozenset({kind}) - {"null"}
        if origin is Annotated:
            return self._marked(args[0], args[1:])
        if origin in {Union, UnionType}:
            return self._union(annotation, args)
        if origin is Literal:
            return self._union(annotation, tuple(dict.fromkeys(map(type, args))))
        if isinstance(annotation, NewType):
            return self._kinds(annotation.__supertype__)
        if hasattr(annotation if origin is None else origin, "__value__"):
            return self._alias(annotation, args)
        if (origin or annotation) in _CONTAINERS:
            for arg in args or (Any,):
                if arg is not Ellipsis:
                    self._kinds(arg)
            return frozenset({"dict" if (origin or annotation) is dict else "list"})
        if isinstance(annotation, type):
            return self._class(annotation)
        raise Undefined(f"has the type {annotation}, which has no comparison: declare another type")

    def _alias(self, alias: Any, args: tuple[Any, ...]) -> Kinds:
        if alias in self._seen:
            return frozenset()  # they are counted where it begins
        self._seen.append(alias)
        return self._kinds(get_origin(alias).__value__[args] if args else alias.__value__)

    def _class(self, cls: type[Any]) -> Kinds:
        if issubclass(cls, Enum):
            return self._union(cls, tuple(dict.fromkeys(type(member.value) for member in cls)))
        if issubclass(cls, _SHOWN):
            return frozenset({"text"})
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            self._hints(cls)
            return frozenset({"list"})
        if issubclass(cls, RootModel):
            return self._kinds_of_field(cls, "root", cls.model_fields["root"])
        if not issubclass(cls, BaseModel) and not is_dataclass(cls):
            why = "its bytes are not in the item" if cls is LazyBytes else "it has no comparison next to SQL"
            raise Undefined(f"has the type {cls.__name__}, and {why}: declare another type")
        if cls not in self._seen:
            self._seen.append(cls)
            if issubclass(cls, BaseModel):
                for name, info in cls.model_fields.items():
                    self._kinds_of_field(cls, name, info)
            else:
                self._hints(cls)
        return frozenset({"dict"})

    def _hints(self, cls: type[Any]) -> None:
        for hint in get_type_hints(cls, include_extras=True).values():
            self._kinds(hint)

    def _union(self, annotation: Any, members: tuple[Any, ...]) -> Kinds:
        """The kinds of a union. SQL keeps no types, so that the value must show of which member it is."""
        kinds = [some for some in map(self._kinds, members) if some]
        together: Kinds = frozenset().union(*kinds)
        overlap = len(together) < sum(map(len, kinds)) and together not in ({"number"}, {"dict"})
        models = len(kinds) > 1 and together == {"dict"} and any(get_origin(member) is dict for member in members)
        if overlap or models or (len(together) > 1 and not self._document):
            raise Undefined(
                f"has the type {annotation}, and column {self._column!r} does not keep of which type a value is: "
                "declare one type"
            )
        self.mixed = self.mixed or (len(kinds) > 1 and "number" in together)
        return together


_CONTAINERS: Final = (list, tuple, set, frozenset, dict)


def _digits(value: Decimal) -> str:
    """All digits of a number, without those that do not change it: 1.50 is 1.5, and -0 is 0."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
