"""Rows to entities without decoding the items first, by generated code; see `odm.codec.loading`.

`odm.codec.emitter` makes the code. Lists, dicts, sets and models are JSON in one cell.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from odm.backends.bigtable.client.native import Row
from odm.backends.bigtable.rows.cells import (
    MARKS,
    NUMBER,
    SIDE_COLUMNS,
    TEXT_MARKS,
    Count,
    Member,
    Slot,
    qualifier,
    read,
    read_counter,
    read_qualifier,
    read_text,
    shape_of,
    write,
    write_text,
)
from odm.backends.bigtable.rows.codec import NO_MEMBERS, SURELY_FITS, UNREADABLE, Form, decode, is_item, joined
from odm.codec import TAG, EntityCodec, NativeItem, NativeItems
from odm.codec.depth import LEVELS
from odm.codec.emitter import DATETIME_TEXT, IS_DATETIME, IS_INT, Collects, Reads, ReadTable, Unsupported, WriteTable
from odm.codec.loading import Loader as EntityLoader
from odm.codec.loading import Loads
from odm.codec.proofs import levels_of
from odm.codec.types.containers import DictType, SetType
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.scalars import AGGREGATE, BOOL, BYTES, COUNTER, DECIMAL, FLOAT, INT, STR, EnumType, LiteralType
from odm.codec.types.stored import StoredType
from odm.codec.types.times import DATE, DATETIME, DURATION, TIME
from odm.codec.types.unions import bare
from odm.codec.writers import Drafts
from odm.expressions.nodes import Item, Value

Cells: TypeAlias = list[tuple[str, bytes]]
"""Columns and their values."""


def _plain(cell: bytes) -> Value:
    """The value of a cell; raises ValueError for an empty set, which is not stored."""
    value = read(cell)
    if value == NO_MEMBERS:
        raise ValueError
    return value


def _decimal(cell: bytes) -> Any:
    """The result of `DecimalType.load`."""
    return DECIMAL.load(read(cell))


def _floating(cell: bytes) -> Any:
    """The result of `FloatType.load`."""
    if NUMBER.fullmatch(cell) and len(cell) < 40 and (number := float(cell)):  # 0 may stand for -0
        return number
    return FLOAT.load(read(cell))


def _joined(cells: Mapping[Slot, bytes], name: str) -> Value:
    """The value of an attribute whose members may have columns; raises ValueError for an empty set."""
    whole = read(cells[name])
    members = {slot.member: cell for slot, cell in cells.items() if type(slot) is Member and slot.name == name}
    value = joined(whole, members) if members else whole
    if value == NO_MEMBERS:
        raise ValueError
    return value


_NAMES: Final[Mapping[str, object]] = {
    "BOOLS": {write(True): True, write(False): False},
    "MARKS": MARKS,
    "Decimal": Decimal,
    "TEXT_MARKS": TEXT_MARKS,
    "DECLARED": frozenset(range(256)) - frozenset(map(ord, TEXT_MARKS)),
    "NULL": write(None),
    "PLAIN": frozenset(range(256)) - frozenset(map(ord, MARKS)),
    "decimal": _decimal,
    "floating": _floating,
    "is_number": NUMBER.fullmatch,
    "is_usual": re.compile(r"-?(0|[1-9][0-9]{0,18})\.[0-9]{0,17}[1-9]", re.ASCII).fullmatch,
    "joined": _joined,
    "plain": _plain,
    "read_counter": read_counter,
    "read_text": read_text,
    "shape_of": shape_of,
    "timedelta": timedelta,
    "write": write,
    "write_text": write_text,
    "most": lambda cells: sum([4 * len(column) + 3 * len(cell) for column, cell in cells]) + 4 * len(cells),
}
"""The names in generated code. PLAIN: the first bytes of plain text; DECLARED: the same if it is declared as text;
``is_usual``: whether the text of a Decimal is also the text of its stored number."""

_TEXT: Final = "(c.decode() if (c := {0}) and c[0] in PLAIN else plain(c))"
_DATED: Final = "(c.decode() if (c := {0})[4:5] == b'-' and 48 <= c[0] < 58 else plain(c))"
"""A text that begins with a year and a hyphen, so it is not a number."""

_DATED_DECLARED: Final = _DATED.replace("plain(", "read_text(")
_DECLARED: Final = "(c.decode() if (c := {0}) and c[0] in DECLARED else read_text(c))"
"""The cell of an attribute that is declared as text."""

_WHOLE: Final = "(int(c) if (c := {0}).isdigit() and c[0] != 48 else plain(c))"

_NULL: Final = "{0} == NULL"
_READS: Final = ReadTable(
    _NULL,
    {
        STR: _TEXT,
        BOOL: "BOOLS[{0}]",
        BYTES: "(c[1:] if (c := {0})[:1] == b'\\0' else plain(c))",
        INT: _WHOLE,
        COUNTER: _WHOLE,
        AGGREGATE: _WHOLE,
        DECIMAL: "(Decimal(c.decode()) if is_number(c := {0}) and c != b'-0' else decimal(c))",
        FLOAT: "floating({0})",
        DATETIME: _DATED,
        DATE: _DATED,
        TIME: "plain({0})",
        DURATION: f"timedelta(microseconds={_WHOLE})",
    },
    rest="plain({0})",
)
"""How a cell is read."""

_READS_DECLARED: Final = ReadTable(
    _NULL,
    {STR: _DECLARED, DATETIME: _DATED_DECLARED, DATE: _DATED_DECLARED, TIME: "read_text({0})"},
    rest=_DECLARED,
)
"""How the cell of an attribute that is declared as text is read."""

_WRITES: Final = WriteTable(
    {
        STR: ("type({0}) is str and {0}[:1] not in MARKS", "{0}.encode()"),
        BOOL: ("type({0}) is bool", "(b'true' if {0} else b'false')"),
        INT: (IS_INT, "b'%d' % {0}"),
        DECIMAL: ("type({0}) is Decimal and is_usual(t := str({0}))", "t.encode()"),
        DATETIME: (IS_DATETIME, f"f'{DATETIME_TEXT}'.encode()"),
    },
    rest="write({0})",
    constant=write,
)
"""How a cell is written."""

_WRITES_DECLARED: Final = WriteTable(
    {
        STR: ("type({0}) is str and {0}[:1] not in TEXT_MARKS", "{0}.encode()"),
        DATETIME: _WRITES.usual[DATETIME],
    },
    rest="write_text({0})",
    constant=write_text,
)
"""How the cell of an attribute that is declared as text is written."""

_WRITES_DEEP: Final = WriteTable({}, rest="write(shallow({0}))", constant=write)
"""How the cell of an attribute that can exceed 32 levels is written."""


def write_item(codec: EntityCodec, entity: Any, form: Form) -> Item:
    """The item of an entity, in cells if generated code can write them, else as `EntityCodec.encode` returns it.

    Raises:
        BadValue: as `EntityCodec.encode`.
    """
    if form.kinds and not form.kinds.keys().isdisjoint(codec.stored.values()):
        return codec.encode(entity)  # some attributes have other cells
    return codec.draft(entity, _drafts(form.texts))


@lru_cache(maxsize=256)
def _drafts(texts: frozenset[str]) -> Drafts[Cells]:
    """Writes the items of a table that declares these attributes as text; shared by its stores."""
    return Drafts(partial(_Cells, texts), partial(_read, texts))


def _read(texts: frozenset[str], cells: Cells) -> dict[str, Value]:
    named = ((read_qualifier(column.encode())[0], cell) for column, cell in cells)
    return {name: (read_text if name in texts else read)(cell) for name, cell in named}


class _Cells(Collects):
    """Emits functions that make cells."""

    whole = "[{0}]"
    entry = "({0}, {1})"
    add = "made.append(({0}, {1}))"
    table = _WRITES

    def __init__(self, texts: frozenset[str], *entity: Any) -> None:
        super().__init__(_NAMES, *entity)
        self._texts = texts

    def column(self, name: str) -> str:
        column = qualifier(name)
        if len(column) > SURELY_FITS or name in SIDE_COLUMNS:
            raise Unsupported
        return repr(column)

    def field(self, field: RecordField, var: str) -> str:
        table = _WRITES_DECLARED if field.stored in self._texts else _WRITES
        return self.value(_WRITES_DEEP if levels_of(field.type) >= LEVELS else table, field.type, var)


class CellReads(Reads):
    """Emits functions that read cells."""

    def __init__(self, texts: frozenset[str]) -> None:
        super().__init__(_NAMES)
        self._texts = texts
        self._places: dict[str, str] = {}

    def opening(self, record: RecordType) -> Iterable[str]:
        counters = frozenset(field.stored for field in record.fields.values() if field.type == COUNTER)
        parted = frozenset(field.stored for field in record.fields.values() if _has_members(field))
        fits = f"shape.counted <= {self.name(counters)} and shape.parted <= {self.name(parted)}"
        return (
            "if item.columns is not columns:",
            "    columns = item.columns",
            "    shape = shape_of(columns)",
            f"    if shape.doubled or not ({fits}): raise ValueError",
            "    places = shape.places.get",
            *(f"    {place} = places({name!r})" for name, place in self._places.items()),
            "cells = item.values",
            *(["item = dict(zip(shape.slots, cells))"] if counters or parted else ()),
        )

    def at(self, stored: str) -> str:
        return f"cells[{self._place(stored)}]"

    def has(self, stored: str) -> str:
        return f"{self._place(stored)} is not None"

    def _place(self, stored: str) -> str:
        """The variable for the position of an attribute's cell, which is the same in all rows with the same columns."""
        return self._places.setdefault(stored, f"place{len(self._places)}")

    def unlike(self, at: str, value: Value) -> str:
        return f"{at} != {write(value)!r}"

    def absent(self, field: RecordField) -> list[str]:
        if field.type != COUNTER:
            return super().absent(field)
        count = self.name(Count(field.stored))
        return [f"elif {count} in item: values[{field.name!r}] = read_counter(item[{count}])"]

    def field(self, field: RecordField, at: str) -> str:
        if _has_members(field):
            made = f"joined(item, {field.stored!r})"
            return made if field.load is None else f"{self.name(field.load)}({made})"
        table = _READS_DECLARED if field.stored in self._texts else _READS
        return self.value(table, field.type, at, raw=field.load is None)

    def usual(self, table: ReadTable, type_: StoredType, at: str, *, raw: bool) -> str:
        if isinstance(type_, EnumType | LiteralType):
            writes = (write, write_text) if table is _READS_DECLARED else (write,)
            cells = {cell(stored): value for (_, stored), value in type_.loaded.items() for cell in writes}
            return f"{self.name(cells)}[{at}]"
        return self.scalar(table, type_, at, raw=raw)


def _has_members(field: RecordField) -> bool:
    """Whether the field's members may have columns: a row may have some even if the field is no longer in Columns."""
    return isinstance(bare(field.type), SetType | DictType)


_SHORT: Final = 64
"""The maximum bytes of the cells of tags that are kept. The items of a page have few tags; one of another program may
be of any length."""

_known_tag: Final = lru_cache(maxsize=1024)(read)


class RowItem(NativeItem):
    """A stored item as its row.

    Args:
        row: a row with an item.
        loader: loads the entities.
    """

    __slots__ = ("_loader", "row")

    def __init__(self, row: Row, loader: "Loader") -> None:
        self._content = None  # inlined from the base class for speed
        self.row = row
        self._loader = loader

    def load(self) -> Any:
        try:
            tag = _tag(self.row)
        except (KeyError, TypeError):
            return None
        return self._loader.load(self.row, tag)

    def _make(self) -> dict[str, Value]:
        made = decode(self.row, self._loader.form)
        assert made is not None
        return made

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; a plain cell is decoded without the others."""
        shape = shape_of(self.row.columns)
        if name in shape.parted or name in shape.counted:
            return self.content.get(name, default)
        place = shape.places.get(name)
        try:
            value = NO_MEMBERS if place is None else self._loader.readers.get(name, read)(self.row.values[place])
        except UNREADABLE:
            return self.content.get(name, default)  # raises a BackendError that names the cell
        return default if value == NO_MEMBERS else value


class RowItems(NativeItems[Row]):
    """A page of stored items as their rows; see `RowItem`."""

    __slots__ = ("_loader",)

    def __init__(self, parts: Sequence[Row], loader: "Loader") -> None:
        super().__init__(parts, loader.made_of)
        self._loader = loader

    def load_all(self) -> list[Any] | None:
        return self._loader.load_all(self.parts)

    @property
    def misread(self) -> Sequence[int]:
        form = self._loader.form
        return [at for at, row in enumerate(self.parts) if form.misread(row)] if form.encodes else ()


class Loader(EntityLoader[Row]):
    """Loads entities from the rows of their items.

    Args:
        form: the form of their table.
        codecs: the codecs of the entities.
    """

    def __init__(self, form: Form, codecs: Iterable[EntityCodec] = ()) -> None:
        super().__init__(_loads(form.texts), codecs)
        self.form = form
        self.readers = form.readers

    def item(self, row: Row | None) -> RowItem | None:
        """The item of a row; None if there is no row or no item in it."""
        if row is None:
            return None
        try:
            tag = shape_of(row.columns).places.get(TAG)
        except ValueError:
            tag = None
        has_tag = tag is not None and row.values[tag] != b""
        return RowItem(row, self) if has_tag or is_item(row, self.form) else None

    def made_of(self, row: Row) -> RowItem:
        """The item of a row that has one."""
        return RowItem(row, self)


def _tag(row: Row) -> str:
    try:
        cell = row.values[shape_of(row.columns).places[TAG]]
        tag: str = _known_tag(cell) if len(cell) <= _SHORT else read(cell)
    except UNREADABLE as fault:
        if isinstance(fault, KeyError):  # there is no tag
            raise
        raise TypeError("the tag cannot be read") from fault
    return tag


@lru_cache(maxsize=256)
def _loads(texts: frozenset[str]) -> Loads[Row]:
    """Loads the items of a table that declares these attributes as text; shared by its stores."""
    return Loads(partial(CellReads, texts), _tag)
