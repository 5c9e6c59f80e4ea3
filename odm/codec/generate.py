"""Generated functions that dump records: `RecordType.dump` unrolled for one class, with usual values treated inline.

They give what it gives, or raise anything: then the caller asks it, and it finds the value or words the fault. So a
type says here only what its usual values are, and its own `dump` is asked for the rest.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

from odm.codec.choices import LiteralType
from odm.codec.containers import DictType, ListType
from odm.codec.moments import DATETIME, UTC_TEXT
from odm.codec.numbers import DIGITS, canonical_decimal
from odm.codec.records import RecordField, RecordType
from odm.codec.scalars import BOOL, DECIMAL, INT, STR
from odm.codec.stored import StoredType
from odm.codec.unions import NullableType
from odm.expressions.nodes import Value

_INDENT: Final = "\n    "
_SAFE: Final = 10**DIGITS
_USUAL: Final[Mapping[StoredType, tuple[str, str]]] = {
    STR: ("type({0}) is str and {0}.isascii()", "{0}"),
    BOOL: ("type({0}) is bool", "{0}"),
    INT: (f"type({{0}}) is int and -{_SAFE} < {{0}} < {_SAFE}", "{0}"),
    DECIMAL: ("type({0}) is Decimal", "canonical_decimal({0})"),
    DATETIME: (
        "type({0}) is datetime and {0}.tzinfo is UTC",
        "UTC_TEXT % ({0}.year, {0}.month, {0}.day, {0}.hour, {0}.minute, {0}.second, {0}.microsecond)",
    ),
}
"""What the values of a type usually are, and their stored form."""

_NAMES: Final[Mapping[str, object]] = {
    "Decimal": Decimal,
    "canonical_decimal": canonical_decimal,
    "datetime": datetime,
    "UTC": UTC,
    "UTC_TEXT": UTC_TEXT,
}
"""What they are told with."""


def generated_dump(record: RecordType, marks: Mapping[str, Value]) -> Callable[[Any], dict[str, Value]]:
    """A function that makes the item of an entity, `EntityCodec.marks` first; what it raises means nothing."""
    module = _Module()
    entry = module.function(record, "".join(f"{name!r}: {value!r}, " for name, value in marks.items()))
    names = module.names
    exec("\n\n".join(module.functions), names)  # made above, of reprs and names of its own
    found: Callable[[Any], dict[str, Value]] = names[entry]
    return found


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

    def function(self, record: RecordType, head: str = "") -> str:
        """The name of the function that dumps a record; ``head`` begins the dict that it makes."""
        name = f"dump{len(self.functions)}"
        at = len(self.functions)
        self.functions.append("")
        if not head:
            self._records[record] = name  # before its fields are looked at, because they may lead back to it
        plain = isinstance(record.values, attrgetter)
        lines = [
            f"def {name}(record):",
            f"if type(record) is not {self.name(record.cls)}:",
            "    raise TypeError",
            "values = record.__dict__" if plain else f"values = {self.name(record.values)}(record)",
            *self._fields(list(record.fields.values()), head),
            "return item",
        ]
        self.functions[at] = _INDENT.join(lines)
        return name

    def _fields(self, fields: list[RecordField], head: str) -> list[str]:
        """Statements that fill the item in the order of the fields."""
        first = next((at for at, field in enumerate(fields) if not field.always), len(fields))
        lines = [f"f{at} = values[{field.name!r}]" for at, field in enumerate(fields)]
        parts = [f"{field.stored!r}: {self.value(field.type, f'f{at}')}" for at, field in enumerate(fields[:first])]
        lines.append(f"item = {{{head}{', '.join(parts)}}}")
        for at, field in enumerate(fields[first:], first):
            there = f"f{at} is not None" if field.omits_none else ""
            there += " and " * (field.omits_none and field.is_set)
            there += f"f{at} != {self.name(frozenset())}" if field.is_set else ""
            keep = f"item[{field.stored!r}] = {self.value(field.type, f'f{at}')}"
            lines.append(f"if {there}: {keep}" if there else keep)
        return lines

    def value(self, type_: StoredType, var: str) -> str:
        """An expression for the stored form of what a variable holds."""
        part = f"{var}_"
        match type_:
            case NullableType():
                return f"(None if {var} is None else {self.value(type_.inner, var)})"
            case RecordType():
                return f"{self._records.get(type_) or self.function(type_)}({var})"
            case ListType():
                usual = f"type({var}) is {type_.of.__name__}"
                made = f"[{self.value(type_.item, part)} for {part} in {var}]"
            case DictType():
                usual = f"type({var}) is dict and '' not in {var}"
                key, item = self.value(type_.key, f"{var}k"), self.value(type_.item, part)
                made = f"{{{key}: {item} for {var}k, {part} in {var}.items()}}"
            case LiteralType() if all(kind is str for kind, _ in type_.stored):
                usual, made = f"type({var}) is str and {var} in {self.name(frozenset(type_.values))}", var
            case _:
                usual, made = (text.format(var) for text in _USUAL.get(type_, ("", "")))
        dump = f"{self.name(type_.dump)}({var})"
        return f"({made} if {usual} else {dump})" if usual else dump
