"""Generated code for each entity: from the cells of a row to the input of its validation, in one step.

It makes of cells what `RecordType.input` makes of the decoded item, and raises anything where one is not as usual: then
that is asked. So a type says here only how it usually is stored; lists, dicts, sets and models are JSON in one cell.
"""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Final, cast

from odm.backends.bigtable.cells import MARKS, NUMBER, TEXT_MARKS, read, read_counter, read_text, write, write_text
from odm.backends.bigtable.codec import NO_MEMBERS, joined
from odm.backends.bigtable.columns import Count, Member, Slot, shape_of
from odm.backends.bigtable.native import Row
from odm.codec import TAG, VERSION, EntityCodec
from odm.codec.choices import EnumType, LiteralType
from odm.codec.containers import DictType, SetType
from odm.codec.loading import Load
from odm.codec.moments import DATE, DATETIME, DURATION, TIME
from odm.codec.records import RecordField
from odm.codec.scalars import BOOL, BYTES, COUNTER, DECIMAL, FLOAT, INT, STR, TextType
from odm.codec.stored import StoredType
from odm.codec.unions import NullableType, RootType, bare
from odm.expressions.nodes import Value


def _plain(cell: bytes) -> Value:
    """What a cell holds, but an empty set, which is no attribute."""
    value = read(cell)
    if value == NO_MEMBERS:
        raise ValueError
    return value


def _decimal(cell: bytes) -> Any:
    """What `DecimalType.load` makes of the number."""
    return DECIMAL.load(read(cell))


def _floating(cell: bytes) -> Any:
    """What `FloatType.load` makes of the number."""
    if NUMBER.fullmatch(cell) and len(cell) < 40 and (number := float(cell)):  # what is 0 may have been -0
        return number
    return FLOAT.load(read(cell))


def _joined(cells: Mapping[Slot, bytes], name: str) -> Value:
    """An attribute whose members may have columns, but an empty set."""
    whole = read(cells[name])
    members = {slot.member: cell for slot, cell in cells.items() if type(slot) is Member and slot.name == name}
    value = joined(whole, members) if members else whole
    if value == NO_MEMBERS:
        raise ValueError
    return value


_NAMES: Final[Mapping[str, object]] = {
    "BOOLS": {write(True): True, write(False): False},
    "DECLARED": frozenset(range(256)) - frozenset(map(ord, TEXT_MARKS)),
    "NULL": write(None),
    "PLAIN": frozenset(range(256)) - frozenset(map(ord, MARKS)),
    "date": date,
    "datetime": datetime,
    "decimal": _decimal,
    "floating": _floating,
    "joined": _joined,
    "plain": _plain,
    "read": read,
    "read_counter": read_counter,
    "read_text": read_text,
    "shape_of": shape_of,
    "time": time,
    "timedelta": timedelta,
}
"""What generated code calls. What begins with a byte of PLAIN is text as it is; of DECLARED, where text is declared."""

_TEXT: Final = "(c.decode() if (c := {0}) and c[0] in PLAIN else plain(c))"
_DATED: Final = "(c.decode() if (c := {0})[4:5] == b'-' and 48 <= c[0] < 58 else plain(c))"
"""A text that begins with a year, and so is no number."""

_DECLARED: Final = "(c.decode() if (c := {0}) and c[0] in DECLARED else read_text(c))"
"""A text whose attribute is declared as text."""

_WHOLE: Final = "(int(c) if (c := {0}).isdigit() and c[0] != 48 else plain(c))"

_BYTES: Final = "(c[1:] if (c := {0})[:1] == b'\\0' else plain(c))"
_DURATION: Final = f"timedelta(microseconds={_WHOLE})"

_SCALARS: Final[Mapping[StoredType, tuple[str, str]]] = {
    STR: (_TEXT, _TEXT),
    BOOL: ("BOOLS[{0}]", "BOOLS[{0}]"),
    BYTES: (_BYTES, _BYTES),
    INT: (_WHOLE, _WHOLE),
    COUNTER: (_WHOLE, _WHOLE),
    DECIMAL: ("decimal({0})", "decimal({0})"),
    FLOAT: ("floating({0})", "floating({0})"),
    DATETIME: (_DATED, f"datetime.fromisoformat({_DATED})"),
    DATE: (_DATED, f"date.fromisoformat({_DATED})"),
    TIME: ("plain({0})", "time.fromisoformat(plain({0}))"),
    DURATION: (_DURATION, _DURATION),
}
"""What a cell gives: for pydantic to take, and as the Python value."""


def generated_load(codec: EntityCodec, texts: frozenset[str]) -> Load[Row]:
    """A function that loads items of this entity and version from rows; what it raises means nothing.

    Args:
        codec: of the entity.
        texts: the attributes of the table that are declared as text.
    """
    return _Module(texts).load(codec)


class _Module:
    """The source of the function, and the objects that it names."""

    def __init__(self, texts: frozenset[str]) -> None:
        self.names: dict[str, Any] = dict(_NAMES)
        self._texts = texts

    def name(self, thing: object) -> str:
        """A name for an object."""
        name = f"c{len(self.names)}"
        self.names[name] = thing
        return name

    def load(self, codec: EntityCodec) -> Load[Row]:
        """The function."""
        version = codec.marks.get(VERSION)
        other = f"cells[{TAG!r}] != {write(codec.tag)!r} or "
        other += f"{VERSION!r} in cells" if version is None else f"cells[{VERSION!r}] != {write(version)!r}"
        lines = [
            "def load(rows, validate):",
            "    made, columns = [], None",
            "    for row in rows:",
            "        if row.columns is not columns:",
            "            columns = row.columns",
            "            shape = shape_of(columns)",
            f"            if not (shape.counted <= {self._counters(codec)} and shape.parted <= {self._parted(codec)}):",
            "                raise ValueError",
            "            if shape.doubled: raise ValueError",
            "            slots = shape.slots",
            "        cells = dict(zip(slots, row.values))",
            f"        if {other}: raise ValueError",
            *(f"        {line}" for line in self._fields(codec)),
            "        made.append(validate(values))",
            "    return made",
        ]
        exec("\n".join(lines), self.names)  # made here, of reprs and names of its own
        return cast("Load[Row]", self.names["load"])

    def _counters(self, codec: EntityCodec) -> str:
        return self.name(frozenset(field.stored for field in codec.record.fields.values() if field.type == COUNTER))

    def _parted(self, codec: EntityCodec) -> str:
        return self.name(frozenset(field.stored for field in codec.record.fields.values() if _has_members(field)))

    def _fields(self, codec: EntityCodec) -> list[str]:
        """Statements that make `values`, the input of validation, from `cells`."""
        always, lines = [], []
        for field in codec.record.fields.values():
            at = f"cells[{field.stored!r}]"
            value = self._value(field, at)
            if field.required and not field.is_set and field.type != COUNTER:
                always.append(f"{field.name!r}: {value}")
                continue
            lines.append(f"if {field.stored!r} in cells: values[{field.name!r}] = {value}")
            if field.type == COUNTER:
                count = f"cells[{self.name(Count(field.stored))}]"
                lines.append(f"elif {count[6:-1]} in cells: values[{field.name!r}] = read_counter({count})")
            elif field.fills_in:
                lines.append(f"else: values[{field.name!r}] = set()")
        return [f"values = {{{', '.join(always)}}}", *lines]

    def _value(self, field: RecordField, at: str) -> str:
        if _has_members(field):
            made = f"joined(cells, {field.stored!r})"
            return made if field.load is None else f"{self.name(field.load)}({made})"
        if field.stored in self._texts:
            return self.text(field.type, at, raw=field.load is None)
        return self.value(field.type, at, raw=field.load is None)

    def text(self, type_: StoredType, at: str, *, raw: bool) -> str:
        """An expression as of `value`, where the attribute is declared as text."""
        match type_:
            case NullableType():
                return f"(None if {at} == NULL else {self.text(type_.inner, at, raw=raw)})"
            case RootType():
                return self.text(type_.inner, at, raw=raw)
            case EnumType():
                return f"{self.name(_by_cell({value: member for (_, value), member in type_.members.items()}))}[{at}]"
            case LiteralType():
                return f"{self.name(_by_cell({stored: value for (_, stored), value in type_.loaded.items()}))}[{at}]"
            case TextType() if not raw:
                return f"{self.name(type_.parse)}({_DECLARED.format(at)})"
        if type_ in {DATETIME, DATE, TIME}:
            return _SCALARS[type_][not raw].replace("plain(", "read_text(").format(at)
        return _DECLARED.format(at) if raw else f"{self.name(type_.load)}({_DECLARED.format(at)})"

    def value(self, type_: StoredType, at: str, *, raw: bool) -> str:
        """An expression for the value of a cell, of which ``at`` is one; ``raw``: its stored form will do."""
        match type_:
            case NullableType():
                return f"(None if {at} == NULL else {self.value(type_.inner, at, raw=raw)})"
            case RootType():
                return self.value(type_.inner, at, raw=raw)
            case TextType():
                return _TEXT.format(at) if raw else f"{self.name(type_.parse)}({_TEXT.format(at)})"
            case EnumType():
                return f"{self.name({write(value): member for (_, value), member in type_.members.items()})}[{at}]"
            case LiteralType():
                return f"{self.name({write(stored): value for (_, stored), value in type_.loaded.items()})}[{at}]"
        taken, made = _SCALARS.get(type_, ("", ""))
        if taken:
            return (taken if raw else made).format(at)
        return f"plain({at})" if raw else f"{self.name(type_.load)}(plain({at}))"


def _by_cell(values: Mapping[Value, Any]) -> dict[bytes, Any]:
    """What the cells of some values stand for, also those that show their type by themselves."""
    return {cell: made for value, made in values.items() for cell in (write(value), write_text(value))}


def _has_members(field: RecordField) -> bool:
    """Whether the field's members may be in columns; also where they no longer are, members count."""
    return isinstance(bare(field.type), SetType | DictType)
