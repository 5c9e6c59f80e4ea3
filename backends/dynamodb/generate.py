"""Generated code for each entity: from the attributes of an item to the input of its validation, in one step.

It makes of attributes what `RecordType.input` makes of the decoded item, and raises anything where one is not as usual:
then that is asked. So a type says here only how it usually is stored.
"""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast

from odm.backends.dynamodb.attributes import Attributes, from_attribute, read_binary, read_number
from odm.codec import TAG, VERSION, EntityCodec
from odm.codec.choices import EnumType, LiteralType
from odm.codec.containers import DictType, FixedTupleType, ListType, SetType
from odm.codec.loading import Load
from odm.codec.moments import DATE, DATETIME, DURATION, TIME
from odm.codec.records import RecordType
from odm.codec.scalars import BOOL, BYTES, COUNTER, DECIMAL, FLOAT, INT, STR, TextType
from odm.codec.stored import StoredType
from odm.codec.unions import NullableType, RootType

_INDENT: Final = "\n    "


def _decimal(text: str) -> Decimal:
    """What `DecimalType.load` makes of the number."""
    return Decimal(read_number(text))


def _float(text: str) -> float:
    """What `FloatType.load` makes of the number."""
    number = float(text)
    if number and len(text) < 40 and -1e125 < number < 1e125:  # what is 0 may have been -0, or too small
        return number
    return cast("float", FLOAT.load(read_number(text)))


_NAMES: Final[Mapping[str, object]] = {
    "Decimal": Decimal,
    "binary": read_binary,
    "date": date,
    "datetime": datetime,
    "decimal": _decimal,
    "floating": _float,
    "plain": from_attribute,
    "time": time,
    "timedelta": timedelta,
}
"""What generated code calls."""

_CANONICAL: Final = (
    "(Decimal(t) if (t := {0})[-1] != '0' and len(t) < 40 and 'E' not in t and 'e' not in t else decimal(t))"
)
"""A number whose text is as it stands after a canonical Decimal: a fraction does not end in 0."""

_SCALARS: Final[Mapping[StoredType, tuple[str, str, str]]] = {
    STR: ("S", "{0}", "{0}"),
    BOOL: ("BOOL", "{0}", "{0}"),
    BYTES: ("B", "binary({0})", "binary({0})"),
    INT: ("N", "int({0})", "int({0})"),
    COUNTER: ("N", "int({0})", "int({0})"),
    DECIMAL: ("N", _CANONICAL, _CANONICAL),
    FLOAT: ("N", "floating({0})", "floating({0})"),
    DATETIME: ("S", "{0}", "datetime.fromisoformat({0})"),
    DATE: ("S", "{0}", "date.fromisoformat({0})"),
    TIME: ("S", "{0}", "time.fromisoformat({0})"),
    DURATION: ("N", "timedelta(microseconds=int({0}))", "timedelta(microseconds=int({0}))"),
}
"""The kind of attribute, and what its content gives: for pydantic to take, and as the Python value."""


def generated_load(codec: EntityCodec) -> Load[Attributes]:
    """A function that loads items of this entity and version from attributes; what it raises means nothing."""
    module = _Module()
    version = codec.marks.get(VERSION)
    other = f"item[{TAG!r}]['S'] != {codec.tag!r} or "
    other += f"{VERSION!r} in item" if version is None else f"item[{VERSION!r}]['N'] != {str(version)!r}"
    lines = [
        "def load(items, validate):",
        "    made = []",
        "    for item in items:",
        f"        if {other}: raise ValueError",
        *(f"        {line}" for line in module.fields(codec.record)),
        "        made.append(validate(values))",
        "    return made",
    ]
    exec("\n".join((*module.functions, *lines)), module.names)  # made here, of reprs and names of its own
    return cast("Load[Attributes]", module.names["load"])


class _Module:
    """The source of the functions, and the objects that it names."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.names: dict[str, Any] = dict(_NAMES)
        self._records: dict[RecordType, str] = {}

    def name(self, thing: object) -> str:
        """A name for an object."""
        name = f"c{len(self.names)}"
        self.names[name] = thing
        return name

    def fields(self, record: RecordType) -> list[str]:
        """Statements that make `values`, the input of validation, from `item`."""
        always, lines = [], []
        for found in record.fields.values():
            at = f"item[{found.stored!r}]"
            value = self.value(found.type, at, raw=found.load is None)
            if found.required and not found.is_set:
                always.append(f"{found.name!r}: {value}")
                continue
            lines.append(f"if {found.stored!r} in item: values[{found.name!r}] = {value}")
            if found.fills_in:
                lines.append(f"else: values[{found.name!r}] = set()")
        return [f"values = {{{', '.join(always)}}}", *lines]

    def record(self, record: RecordType) -> str:
        """The name of the function that makes the input of a record inside an item."""
        name = self._records.get(record)
        if name is None:
            name = self._records[record] = f"r{len(self._records)}"  # before its fields, which may lead back to it
            self.functions.append(_INDENT.join((f"def {name}(item):", *self.fields(record), "return values")))
        return name

    def value(self, type_: StoredType, at: str, *, raw: bool) -> str:
        """An expression for the value of an attribute, of which ``at`` is one; ``raw``: its stored form will do."""
        match type_:
            case NullableType():
                return f"(None if 'NULL' in {at} else {self.value(type_.inner, at, raw=raw)})"
            case RootType():
                return self.value(type_.inner, at, raw=raw)
            case RecordType():
                return f"{self.record(type_)}({at}['M'])"
            case ListType():
                made = f"[{self.value(type_.item, 'e', raw=raw)} for e in {at}['L']]"
                return made if raw or type_.of is list else f"tuple({made})"
            case FixedTupleType():
                ats = [f"{at}['L'][{position}]" for position in range(len(type_.items))]
                parts = "".join(f"{self.value(t, part, raw=raw)}, " for t, part in zip(type_.items, ats, strict=True))
                return f"(({parts}) if len({at}['L']) == {len(type_.items)} else {self._else(type_, at, raw=raw)})"
            case DictType():
                key = "k" if raw or type_.key is STR else f"{self.name(type_.key.load)}(k)"
                return f"{{{key}: {self.value(type_.item, 'e', raw=raw)} for k, e in {at}['M'].items()}}"
            case SetType():
                return self._set(type_, at, raw=raw)
        kind, content = self._scalar(type_, raw=raw)
        if kind:
            return content.format(f"{at}[{kind!r}]")
        return self._else(type_, at, raw=raw)

    def _else(self, type_: StoredType, at: str, *, raw: bool) -> str:
        """The long way."""
        return f"plain({at})" if raw else f"{self.name(type_.load)}(plain({at}))"

    def _set(self, type_: SetType, at: str, *, raw: bool) -> str:
        kind, content = self._scalar(type_.item, raw=raw)
        if not kind:
            return self._else(type_, at, raw=raw)
        members = f"{at}['{kind}S']"
        made = members if content == "{0}" else f"[{content.format('e')} for e in {members}]"
        return made if raw else f"{self.name(type_.of)}({made})"

    def _scalar(self, type_: StoredType, *, raw: bool) -> tuple[str, str]:
        """The kind of attribute that a type without parts is stored as, and what its content gives; or nothing."""
        match type_:
            case TextType():
                return "S", "{0}" if raw else f"{self.name(type_.parse)}({{0}})"
            case EnumType():
                kinds = {kind for kind, _ in type_.members}
                by_content = self.name({value: member for (_, value), member in type_.members.items()})
                return {str: ("S", f"{by_content}[{{0}}]"), int: ("N", f"{by_content}[int({{0}})]")}.get(
                    kinds.pop() if len(kinds) == 1 else type(None), ("", "")
                )
            case LiteralType() if type_.lax():
                kinds = {kind for kind, _ in type_.loaded}
                return {str: ("S", "{0}"), int: ("N", "int({0})")}.get(
                    kinds.pop() if len(kinds) == 1 else type(None), ("", "")
                )
        kind, taken, value = _SCALARS.get(type_, ("", "", ""))
        return kind, taken if raw else value
