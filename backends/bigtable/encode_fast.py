"""Generated code for each entity: from its fields to the cells of its item, in one step.

It gives what `EntityCodec.encode` and then `odm.backends.bigtable.cells` give, or raises anything where a value is not
as usual: then these are asked, which find the value or word the fault.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from odm.backends.bigtable.cells import MARKS, TEXT_MARKS, qualifier, read_qualifier, write, write_text
from odm.backends.bigtable.codec import SURELY_FITS
from odm.backends.bigtable.columns import SIDE_COLUMNS
from odm.backends.bigtable.form import Form
from odm.codec import TTL_ATTRIBUTE, Draft, EntityCodec, ttl_seconds
from odm.codec.choices import LiteralType
from odm.codec.depth import LEVELS
from odm.codec.generate import IS_INT, MOMENT, UNUSUAL_MOMENT, Module
from odm.codec.moments import DATETIME
from odm.codec.proofs import levels_of
from odm.codec.records import RecordField, RecordType
from odm.codec.scalars import BOOL, INT, STR
from odm.codec.stored import StoredType
from odm.codec.unions import NullableType
from odm.codec.writers import shallow
from odm.expressions.nodes import Item, Value

Cells: TypeAlias = list[tuple[str, bytes]]
"""Columns and their values."""

_USUAL: Final[Mapping[StoredType, tuple[str, str]]] = {
    STR: ("type({0}) is str and {0}[:1] not in MARKS", "{0}.encode()"),
    BOOL: ("type({0}) is bool", "(b'true' if {0} else b'false')"),
    INT: (IS_INT, "b'%d' % {0}"),
    DATETIME: (f"not ({UNUSUAL_MOMENT})", f"f'{MOMENT}'.encode()"),
}
"""What the values of a type usually are, and their cells."""

_TEXT: Final = ("type({0}) is str and {0}[:1] not in TEXT_MARKS", "{0}.encode()")
"""The same for a text whose attribute is declared as text."""


def write_item(codec: EntityCodec, entity: Any, form: Form) -> Item:
    """The item of an entity, as `EntityCodec.encode` gives it, in cells if nothing about it is unusual.

    Raises:
        BadValue: as `EntityCodec.encode`.
    """
    if form.kinds and not form.kinds.keys().isdisjoint(codec.stored.values()):
        return codec.encode(entity)  # some of it is in other cells
    try:
        generated = codec.generated(
            (write_item, form.texts), lambda record, marks, ttl: _generated_cells(record, marks, ttl, form.texts)
        )
        cells: Cells = generated(entity)
        # Where it is to be checked, it is looked at right away, and made sooner than it is read from the cells.
        made = None if codec.sure else codec.encode(entity)
    except Exception:  # noqa: BLE001  # generated code does not say what is wrong
        return codec.encode(entity)
    # An element, a digit or a level of an item counts no more than three bytes, and each has one in its cell at least.
    most = sum([4 * len(column) + 3 * len(cell) for column, cell in cells]) + 4 * len(cells)
    return Draft(cells, most, lambda cells: _read(cells, form), codec.marks, made)


def _read(cells: Cells, form: Form) -> dict[str, Value]:
    named = ((read_qualifier(column.encode())[0], cell) for column, cell in cells)
    return {name: form.read(name, cell) for name, cell in named}


def _generated_cells(
    record: RecordType, marks: Mapping[str, Value], ttl: str | None, texts: frozenset[str]
) -> Callable[[Any], Cells]:
    head = ", ".join(f"({qualifier(name)!r}, {write(value)!r})" for name, value in marks.items())
    return _Module(ttl, texts).compiled(record, head)


class _Module(Module):
    """Functions that make cells."""

    def __init__(self, ttl: str | None, texts: frozenset[str]) -> None:
        super().__init__()
        self.names |= {
            "MARKS": MARKS,
            "NULL": write(None),
            "TEXT_MARKS": TEXT_MARKS,
            "write": write,
            "write_text": write_text,
            "shallow": shallow,
            "ttl_seconds": ttl_seconds,
        }
        self._ttl = ttl
        self._texts = texts

    def body(self, fields: list[RecordField], head: str) -> list[str]:
        first = next((at for at, field in enumerate(fields) if not field.always), len(fields))
        always = [self._cell(field, f"f{at}") for at, field in enumerate(fields[:first])]
        lines = [f"cells = [{', '.join((head, *always))}]"]
        for at, field in enumerate(fields[first:], first):
            there, keep = self.there(field, f"f{at}"), f"cells.append({self._cell(field, f'f{at}')})"
            lines.append(f"if {there}: {keep}" if there else keep)
        if self._ttl is not None:
            moment = f"f{[field.name for field in fields].index(self._ttl)}"
            expiry = f"cells.append(({qualifier(TTL_ATTRIBUTE)!r}, write(ttl_seconds({moment}))))"
            lines.append(f"if {moment} is not None: {expiry}")
        return [*lines, "return cells"]

    def _cell(self, field: RecordField, var: str) -> str:
        column = qualifier(field.stored)
        if len(column) > SURELY_FITS or field.stored in SIDE_COLUMNS:
            raise ValueError
        return f"({column!r}, {self._value(field.type, var, declared=field.stored in self._texts)})"

    def _value(self, type_: StoredType, var: str, *, declared: bool) -> str:
        """An expression for the cell of what a variable holds; ``declared``: its attribute is declared as text."""
        if isinstance(type_, NullableType):
            return f"(NULL if {var} is None else {self._value(type_.inner, var, declared=declared)})"
        if isinstance(type_, LiteralType):
            cell = write_text if declared else write
            return f"{self.name({key: cell(value) for key, value in type_.stored.items()})}[type({var}), {var}]"
        dump = f"{self.name(type_.dump)}({var})"
        if declared and type_ != DATETIME:
            usual, made = (text.format(var) for text in _TEXT)
            return f"({made} if {usual} else write_text({dump}))" if type_ == STR else f"write_text({dump})"
        written = f"write(shallow({dump}))" if levels_of(type_) >= LEVELS else f"write({dump})"
        usual, made = (text.format(var) for text in _USUAL.get(type_, ("", "")))
        return f"({made} if {usual} else {written})" if usual else written
