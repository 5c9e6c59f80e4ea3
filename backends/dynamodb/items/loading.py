"""Attributes → entities, without decoding the items first; see `odm.codec.loading`.

`odm.codec.emitter` makes the code from attributes to the input of validation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, cast

from odm.backends.dynamodb.client.errors import MALFORMED
from odm.backends.dynamodb.items.attributes import Attributes, from_attribute, read_binary, read_number
from odm.codec import TAG, EntityCodec, NativeItem, NativeItems
from odm.codec.emitter import Reads, ReadTable
from odm.codec.loading import Loader as EntityLoader
from odm.codec.loading import Loads
from odm.codec.types.containers import DictType, FixedTupleType, ListType, SetType
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.scalars import AGGREGATE, BOOL, BYTES, COUNTER, DECIMAL, FLOAT, INT, STR, EnumType, LiteralType
from odm.codec.types.stored import StoredType
from odm.codec.types.times import DATE, DATETIME, DURATION, TIME
from odm.errors import BackendError
from odm.expressions.nodes import Value


def _decimal(text: str) -> Decimal:
    """The result of `DecimalType.load`."""
    return Decimal(read_number(text))


def _float(text: str) -> float:
    """The result of `FloatType.load`."""
    number = float(text)
    if number and len(text) < 40 and -1e125 < number < 1e125:  # 0 may stand for -0 or a number that is too small
        return number
    return cast("float", FLOAT.load(read_number(text)))


_NAMES: Final[Mapping[str, object]] = {
    "Decimal": Decimal,
    "binary": read_binary,
    "decimal": _decimal,
    "floating": _float,
    "plain": from_attribute,
    "timedelta": timedelta,
}
"""The functions that generated code calls."""

_CANONICAL: Final = (
    "(Decimal(t) if (t := {0})[-1] != '0' and len(t) < 40 and 'E' not in t and 'e' not in t else decimal(t))"
)
"""A Decimal; the text is canonical already if it is short and does not end in 0."""

_TABLE: Final = ReadTable(
    null="'NULL' in {0}",
    usual={
        **dict.fromkeys((STR, BOOL, DATETIME, DATE, TIME), "{0}"),
        **dict.fromkeys((INT, COUNTER, AGGREGATE), "int({0})"),
        BYTES: "binary({0})",
        DECIMAL: _CANONICAL,
        FLOAT: "floating({0})",
        DURATION: "timedelta(microseconds=int({0}))",
    },
    rest="plain({0})",
)
"""How the content of an attribute is read."""


class AttributeReads(Reads):
    """Emits functions that read attributes."""

    def __init__(self) -> None:
        super().__init__(_NAMES)

    def unlike(self, at: str, value: Value) -> str:
        return f"{at}[{'S' if isinstance(value, str) else 'N'!r}] != {str(value)!r}"

    def field(self, field: RecordField, at: str) -> str:
        return self.value(_TABLE, field.type, at, raw=field.load is None)

    def usual(self, table: ReadTable, type_: StoredType, at: str, *, raw: bool) -> str:
        match type_:
            case RecordType():
                return self.called(type_, f"{at}['M']")
            case ListType():
                made = f"[{self.value(table, type_.item, 'e', raw=raw)} for e in {at}['L']]"
                return made if raw or type_.of is list else f"tuple({made})"
            case FixedTupleType():
                ats = [(part, f"{at}['L'][{position}]") for position, part in enumerate(type_.items)]
                parts = "".join(f"{self.value(table, part, place, raw=raw)}, " for part, place in ats)
                return f"(({parts}) if len({at}['L']) == {len(ats)} else {self.rest(table, type_, at, raw=raw)})"
            case DictType():
                key = "k" if raw or type_.key is STR else f"{self.name(type_.key.load)}(k)"
                return f"{{{key}: {self.value(table, type_.item, 'e', raw=raw)} for k, e in {at}['M'].items()}}"
            case SetType():
                members = f"{at}['{_kind(type_.item)}S']"
                content = self.scalar(table, type_.item, "e", raw=raw)
                made = members if content == "e" else f"[{content} for e in {members}]"
                return content and (made if raw else f"{self.name(type_.of)}({made})")
        return self.scalar(table, type_, f"{at}[{_kind(type_)!r}]", raw=raw)

    def scalar(self, table: ReadTable, type_: StoredType, content: str, *, raw: bool) -> str:
        if not isinstance(type_, EnumType | LiteralType):
            return super().scalar(table, type_, content, raw=raw)
        kinds = {kind for kind, _ in type_.loaded}
        if kinds not in ({str}, {int}):
            return ""
        content = content if kinds == {str} else f"int({content})"
        found = {stored: value for (_, stored), value in type_.loaded.items()}
        return content if type_.lax() else f"{self.name(found)}[{content}]"


def _kind(type_: StoredType) -> str:
    """The kind of attribute that stores a type, if there is only one."""
    return "".join(type_.kinds)


class AttributesItem(NativeItem):
    """A stored item as its attributes.

    Args:
        attributes: the attributes by name, including key attributes.
        hidden: the names of attributes that are not part of the item.
        loader: loads the entities.
    """

    __slots__ = ("_hidden", "_loader", "attributes")

    def __init__(self, attributes: Attributes, hidden: frozenset[str], loader: "Loader") -> None:
        self._content = None  # inlined from the base class for speed
        self.attributes = attributes
        self._hidden = hidden
        self._loader = loader

    def load(self) -> Any:
        return self._loader.load(self.attributes, self.attributes.get(TAG, {}).get("S"))

    def _make(self) -> dict[str, Any]:
        hidden = self._hidden
        try:
            return {name: from_attribute(value) for name, value in self.attributes.items() if name not in hidden}
        except MALFORMED as error:
            raise _unreadable(error) from error

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; the others are not decoded."""
        found = None if name in self._hidden else self.attributes.get(name)
        try:
            return default if found is None else from_attribute(found)
        except MALFORMED as error:
            raise _unreadable(error) from error


def _unreadable(error: Exception) -> BackendError:
    return BackendError(
        f"an attribute of an item is not as DynamoDB sends it, at {type(error).__name__}: {error}: check endpoint_url, "
        "and any proxy in between"
    )


class AttributesItems(NativeItems[Attributes]):
    """A page of stored items as their attributes; see `AttributesItem`."""

    __slots__ = ("_loader",)

    def __init__(self, parts: Sequence[Attributes], hidden: frozenset[str], loader: "Loader") -> None:
        super().__init__(parts, lambda attributes: AttributesItem(attributes, hidden, loader))
        self._loader = loader

    def load_all(self) -> list[Any] | None:
        return self._loader.load_all(self.parts)


class DescribedItem(NativeItem):
    """A stored item as its attributes, in a table whose items have the form of other programs.

    Args:
        attributes: the attributes by name, including key attributes.
        read: makes the item; see `odm.backends.dynamodb.items.described`.
    """

    __slots__ = ("_read", "attributes")

    def __init__(self, attributes: Attributes, read: Callable[[Attributes], dict[str, Any]]) -> None:
        self._content = None
        self.attributes = attributes
        self._read = read

    def load(self) -> Any:
        return None

    def _make(self) -> dict[str, Any]:
        try:
            return self._read(self.attributes)
        except MALFORMED as error:
            raise _unreadable(error) from error


class DescribedItems(NativeItems[Attributes]):
    """A page of such items."""

    def __init__(self, parts: Sequence[Attributes], read: Callable[[Attributes], dict[str, Any]]) -> None:
        super().__init__(parts, lambda attributes: DescribedItem(attributes, read))

    def load_all(self) -> list[Any] | None:
        return None


class Loader(EntityLoader[Attributes]):
    """Loads entities from the attributes of their items.

    Args:
        codecs: the codecs of the entities.
    """

    def __init__(self, codecs: Iterable[EntityCodec] = ()) -> None:
        super().__init__(_LOADS, codecs)


def _tag(attributes: Attributes) -> str:
    tag: str = attributes[TAG]["S"]
    return tag


_LOADS: Final = Loads(AttributeReads, _tag)
