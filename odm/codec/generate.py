"""Generated functions that dump records: `RecordType.dump` unrolled for one class, with usual values treated inline.

They give what it gives, or raise anything: then the caller asks it, and it finds the value or words the fault. So a
type says here only what its usual values are, and its own `dump` is asked for the rest. `odm.codec.writers` generates
in the same way what goes on from there to a backend's text.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

from odm.codec.choices import LiteralType
from odm.codec.containers import DictType, ListType
from odm.codec.moments import DATETIME
from odm.codec.numbers import DIGITS, canonical_decimal
from odm.codec.records import RecordField, RecordType
from odm.codec.scalars import BOOL, DECIMAL, INT, STR
from odm.codec.stored import StoredType
from odm.codec.unions import NullableType
from odm.expressions.nodes import Value

_INDENT: Final = "\n    "
_SAFE: Final = 10**DIGITS

# What the values of a type usually are.
IS_INT: Final = f"type({{0}}) is int and -{_SAFE} < {{0}} < {_SAFE}"
IS_DECIMAL: Final = "type({0}) is Decimal"

FOUR_DIGITS: Final = 1000
UNUSUAL_MOMENT: Final = f"type({{0}}) is not datetime or {{0}}.tzinfo is not UTC or {{0}}.year < {FOUR_DIGITS}"
MOMENT: Final = (
    "{{{0}.year}}-{{TWO[{0}.month]}}-{{TWO[{0}.day]}}T"
    "{{TWO[{0}.hour]}}:{{TWO[{0}.minute]}}:{{TWO[{0}.second]}}.{{{0}.microsecond:06}}Z"
)
"""The stored form of any other datetime, as in an f-string: what formats two digits is looked up, which is faster."""

_USUAL: Final[Mapping[StoredType, tuple[str, str]]] = {
    STR: ("type({0}) is str and {0}.isascii()", "{0}"),
    BOOL: ("type({0}) is bool", "{0}"),
    INT: (IS_INT, "{0}"),
    DECIMAL: (IS_DECIMAL, "canonical_decimal({0})"),
    DATETIME: (f"not ({UNUSUAL_MOMENT})", f"f'{MOMENT}'"),
}
"""What the values of a type usually are, and their stored form."""

_NAMES: Final[Mapping[str, object]] = {
    "Decimal": Decimal,
    "canonical_decimal": canonical_decimal,
    "datetime": datetime,
    "UTC": UTC,
    "TWO": [f"{number:02}" for number in range(60)],
}
"""What they are told with."""


def generated_dump(record: RecordType, marks: Mapping[str, Value]) -> Callable[[Any], dict[str, Value]]:
    """A function that makes the item of an entity, `EntityCodec.marks` first; what it raises means nothing."""
    head = "".join(f"{name!r}: {value!r}, " for name, value in marks.items())
    return _Dumps().compiled(record, head)


class Module(ABC):
    """The source of the functions, one a record, and the objects that it names."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.names: dict[str, Any] = dict(_NAMES)
        self._records: dict[RecordType, str] = {}

    def name(self, thing: object) -> str:
        """A name for an object."""
        name = f"c{len(self.names)}"
        self.names[name] = thing
        return name

    def compiled(self, record: RecordType, head: str) -> Callable[[Any], Any]:
        """The function of an entity; ``head`` begins what it makes."""
        entry = self._function(record, head)
        exec("\n\n".join(self.functions), self.names)  # made here, of reprs and names of its own
        found: Callable[[Any], Any] = self.names[entry]
        return found

    def called(self, record: RecordType, var: str) -> str:
        """An expression for what the function of a record makes of what a variable holds."""
        return f"{self._records.get(record) or self._function(record)}({var})"

    def _function(self, record: RecordType, head: str = "") -> str:
        name = f"dump{len(self.functions)}"
        at = len(self.functions)
        self.functions.append("")
        if not head:
            self._records[record] = name  # before its fields are looked at, because they may lead back to it
        plain = isinstance(record.values, attrgetter)
        fields = list(record.fields.values())
        lines = [
            f"def {name}(record):",
            f"if type(record) is not {self.name(record.cls)}:",
            "    raise TypeError",
            "values = record.__dict__" if plain else f"values = {self.name(record.values)}(record)",
            *(f"f{at} = values[{field.name!r}]" for at, field in enumerate(fields)),
            *self.body(fields, head),
        ]
        self.functions[at] = _INDENT.join(lines)
        return name

    def there(self, field: RecordField, var: str) -> str:
        """An expression for whether a field is stored at all; "" if it always is."""
        there = f"{var} is not None" if field.omits_none else ""
        there += " and " * (field.omits_none and field.is_set)
        return there + (f"{var} != {self.name(frozenset())}" if field.is_set else "")

    @abstractmethod
    def body(self, fields: list[RecordField], head: str) -> list[str]:
        """The statements that return what the function makes; field number n is in the variable ``fn``."""


class _Dumps(Module):
    """Functions that make dicts."""

    def body(self, fields: list[RecordField], head: str) -> list[str]:
        first = next((at for at, field in enumerate(fields) if not field.always), len(fields))
        parts = [f"{field.stored!r}: {self.value(field.type, f'f{at}')}" for at, field in enumerate(fields[:first])]
        lines = [f"item = {{{head}{', '.join(parts)}}}"]
        for at, field in enumerate(fields[first:], first):
            there = self.there(field, f"f{at}")
            keep = f"item[{field.stored!r}] = {self.value(field.type, f'f{at}')}"
            lines.append(f"if {there}: {keep}" if there else keep)
        return [*lines, "return item"]

    def value(self, type_: StoredType, var: str) -> str:
        """An expression for the stored form of what a variable holds."""
        part = f"{var}_"
        match type_:
            case NullableType():
                return f"(None if {var} is None else {self.value(type_.inner, var)})"
            case RecordType():
                return self.called(type_, var)
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
