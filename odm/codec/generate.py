"""Generated functions that dump entities: `RecordType.dump` unrolled for one class; see `odm.codec.emitter`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from odm.codec.choices import LiteralType
from odm.codec.containers import DictType, ListType
from odm.codec.emitter import DATETIME_TEXT, IS_DATETIME, IS_INT, Collects, WriteTable
from odm.codec.moments import DATETIME
from odm.codec.records import RecordType
from odm.codec.scalars import BOOL, DECIMAL, INT, STR
from odm.codec.stored import StoredType
from odm.expressions.nodes import Value

_TABLE: Final = WriteTable(
    {
        STR: ("type({0}) is str and {0}.isascii()", "{0}"),
        BOOL: ("type({0}) is bool", "{0}"),
        INT: (IS_INT, "{0}"),
        DECIMAL: ("type({0}) is Decimal", "canonical_decimal({0})"),
        DATETIME: (IS_DATETIME, f"f'{DATETIME_TEXT}'"),
    },
    rest="{0}",
    constant=lambda value: value,
)


def generated_dump(record: RecordType, marks: Mapping[str, Value]) -> Callable[[Any], dict[str, Value] | None]:
    """A function that makes the item of an entity, `EntityCodec.marks` first; None if it cannot."""
    return _Dumps({}, record, marks, None).writer()


class _Dumps(Collects):
    """Emits functions that make dicts."""

    whole = "{{{0}}}"
    entry = "{0}: {1}"
    add = "made[{0}] = {1}"
    table = _TABLE

    def value(self, table: WriteTable, type_: StoredType, var: str) -> str:
        part = f"{var}_"
        match type_:
            case RecordType():
                return self.called(type_, var)
            case LiteralType() if all(kind is str for kind, _ in type_.stored):
                usual = f"type({var}) is str and {var} in {self.name({*type_.values})}"
                return self.either(table, type_, var, usual, var)
            case ListType():
                made = f"[{self.value(table, type_.item, part)} for {part} in {var}]"
                return self.either(table, type_, var, f"type({var}) is {type_.of.__name__}", made)
            case DictType():
                key, item = self.value(table, type_.key, f"{var}k"), self.value(table, type_.item, part)
                made = f"{{{key}: {item} for {var}k, {part} in {var}.items()}}"
                return self.either(table, type_, var, f"type({var}) is dict and '' not in {var}", made)
        return super().value(table, type_, var)
