"""Generated functions that write an entity as a backend's JSON text, without its item; see `odm.codec.emitter`.

A `Draft` is such an item to write, already encoded in the backend's form.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from odm.codec.attributes import TAG, TTL_ATTRIBUTE, VERSION
from odm.codec.depth import LEVELS
from odm.codec.emitter import (
    DATETIME_TEXT,
    FOUR_DIGITS,
    IS_DATETIME,
    IS_INT,
    Unsupported,
    Writes,
    WriteTable,
    written_as,
)
from odm.codec.lazy import LazyDict
from odm.codec.proofs import levels_of
from odm.codec.types.containers import DictType, ListType, SetType
from odm.codec.types.numbers import DIGITS, canonical_decimal
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.scalars import BOOL, DECIMAL, INT, STR, LiteralType
from odm.codec.types.stored import BINARY, NUMBER, SET, TEXT, StoredType
from odm.codec.types.times import DATETIME, in_utc
from odm.codec.types.unions import NullableType
from odm.expressions.nodes import Number, Value
from odm.immutable import Immutable

F = TypeVar("F")


class Drafts(Immutable, Generic[F], eq=False):
    """How a backend encodes items to write; see `EntityCodec.draft`.

    Attributes:
        emitter: of an entity's record, marks and TTL field; its function returns the form and ``most`` of a `Draft`.
        read: decodes a form.
    """

    emitter: Callable[[RecordType, Mapping[str, Value], str | None], Writes]
    read: Callable[[F], dict[str, Value]]


class Draft(LazyDict, Generic[F]):
    """An item to write, in the form that the backend sends; it is decoded from that form when it is read.

    Args:
        form: a text, or cells.
        most: the maximum size of the item in bytes, as `odm.protocol.limits.item_size` counts it.
        read: decodes a form.
        marks: the tag and version, which are often the only attributes read; see `EntityCodec.marks`.
        content: the decoded item, if it is known already.
    """

    __slots__ = ("_marks", "_read", "form", "most")

    def __init__(
        self,
        form: F,
        most: int,
        read: Callable[[F], dict[str, Value]],
        marks: Mapping[str, Value],
        content: dict[str, Value] | None = None,
    ) -> None:
        self._content = content  # without a call of the base
        self.form = form
        self.most = most
        self._read = read
        self._marks = marks

    def __getitem__(self, name: str) -> Value:
        return self._marks[name] if name in (TAG, VERSION) else self.content[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; most items have no version, which the base finds out by an exception."""
        return self._marks.get(name, default) if name in (TAG, VERSION) else self.content.get(name, default)

    def _make(self) -> dict[str, Value]:
        return self._read(self.form)

    def fresh(self) -> dict[str, Value]:
        """The item decoded from the form: unlike ``content``, it shares nothing with the entity."""
        return self._read(self.form)


quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring
"""The JSON text of a str, which escapes only what JSON requires; raises TypeError for any other type."""


def decimal_digits(value: Decimal) -> str:
    """The digits of the stored number of a Decimal."""
    text = str(value)
    # Short and without exponent: canonical without its trailing zeros.
    if "." in text and len(text) <= DIGITS and "E" not in text:
        digits = text.rstrip("0").rstrip(".")
        return digits if digits != "-0" else "0"
    return str(canonical_decimal(value))


class Spelling(Immutable, eq=False):
    """How a backend spells stored values in JSON: start and end of each kind.

    Attributes:
        text: around the JSON text of a str.
        number: around digits.
        list, map: around the parts, which are separated by commas.
        texts, numbers: around the members of a set, which are sorted and separated by commas.
        other: writes a stored value of any other kind.
        quote: around the digits of each member of a set of numbers.
        decimal: the digits of a Decimal; raises if they cannot be spelt.
        sets: the name of a last attribute, which lists the names of the attributes that are sets; "": they need no
            list. With a list, entities with sets inside other values, or with bytes, are not written by generated code.
    """

    text: tuple[str, str]
    number: tuple[str, str]
    list: tuple[str, str]
    map: tuple[str, str]
    texts: tuple[str, str]
    numbers: tuple[str, str]
    other: Callable[[Value], str]
    quote: str = '"'
    decimal: Callable[[Decimal], str] = decimal_digits
    sets: str = ""

    def digits(self, value: Number) -> str:
        """The digits of a stored number."""
        return str(value) if type(value) is int else self.decimal(Decimal(value))

    def any(self, value: Value) -> str:
        """The text of any stored value."""
        kind = type(value)
        if kind is str:
            return quoted(value).join(self.text)
        if kind is int:
            return str(value).join(self.number)
        if kind is dict:
            return ",".join([f"{quoted(name)}:{self.any(part)}" for name, part in value.items()]).join(self.map)
        return ",".join(map(self.any, value)).join(self.list) if kind is list else self.other(value)


def _utc(value: datetime) -> datetime:
    """The same instant in UTC; raises if the year has fewer than four digits."""
    if value.year < FOUR_DIGITS:
        raise ValueError
    return in_utc(value)


_NUMBERS: Final[Mapping[StoredType, tuple[str, str]]] = {
    INT: (IS_INT, "{0}"),
    DECIMAL: ("type({0}) is Decimal", "decimal({0})"),
}
"""The usual values of number types, and their digits."""


class _Part(Immutable):
    """How the text of a value is made: an expression between two constant texts.

    The expression has no quotes and no backslashes, which Python 3.11 does not allow inside an f-string.
    """

    expression: str
    around: tuple[str, str] = ("", "")
    is_text: bool = True

    @property
    def text(self) -> str:
        """The expression, as one whose value is a str."""
        return self.expression if self.is_text else f"str({self.expression})"

    @property
    def embedded(self) -> str:
        """The part in an f-string."""
        return f"{{{self.expression}}}".join(map(_literal, self.around))


class TextWrites(Writes):
    """Emits functions that make the JSON text of an entity's item, an object with its marks first; see `Writes`.

    Args:
        spelling: of the values.
        result: the expressions for the form of a `Draft` and its maximum size; the text is in ``made``.
        entity: its record, marks and TTL field.
    """

    def __init__(self, spelling: Spelling, result: str, *entity: Any) -> None:
        named = {"decimal": spelling.decimal, "digits": spelling.digits, "other": spelling.any, "quoted": quoted}
        super().__init__({**named, "utc": _utc}, *entity)
        self._spelling = spelling
        self._result = result
        self._numbers = WriteTable(_NUMBERS, "digits({0})", spelling.any)
        self._texts = WriteTable({}, "quoted({0})", spelling.any)
        self._others = WriteTable({}, "other({0})", spelling.any)

    @property
    def result(self) -> str:
        return self._result

    def body(self, fields: Sequence[RecordField], *, entity: bool) -> list[str]:
        lines, whole = [], ""
        for at, field in enumerate(fields):
            statements, text = self._field(field, f"f{at}", entity=entity)
            lines += statements
            whole += text
        if not entity:  # every field's text begins with a comma
            start, end = map(repr, self._spelling.map)
            return [*lines, f"made = {start} + {_f_string(whole)}[1:] + {end}"]
        if self.expiry:
            seconds = _Part(f"ttl_seconds({self.expiry})", self._spelling.number).embedded
            expiry = _f_string(_literal(f",{quoted(TTL_ATTRIBUTE)}:") + seconds)
            lines.append(f"expiry = {expiry} if {self.expiry} is not None else ''")
            whole += "{expiry}"
        if self._spelling.sets and (listed := self._listed(fields)):
            lines += listed
            whole += "{sets}"
        head = ",".join(f"{quoted(name)}:{self._spelling.any(value)}" for name, value in self.marks.items())
        text = f"{_literal('{' + head)}{whole}{_literal('}')}"
        return [*lines, f"made = {_f_string(text)}"]

    def _listed(self, fields: Sequence[RecordField]) -> list[str]:
        """Statements that make ``sets``: the attribute that lists those that are sets, or ""; none without sets."""
        name = self._spelling.sets
        if any(field.stored == name for field in fields):
            raise Unsupported
        named = [
            f"({self.name(quoted(field.stored))}, {self.is_stored(field, f'f{at}')}), "
            for at, field in enumerate(fields)
            if field.is_set
        ]
        start, end = map(self.name, (f",{quoted(name)}:[", "]"))
        there = f"sets = ','.join([name for name, there in ({''.join(named)}) if there])"
        return [there, f"if sets: sets = {start} + sets + {end}"] if named else []

    def _field(self, field: RecordField, var: str, *, entity: bool) -> tuple[list[str], str]:
        """Statements, and the part of the f-string for a field: a comma, its name and its value."""
        stored, type_, absent = self.is_stored(field, var), field.type, "''"
        name = _literal(f",{quoted(field.stored)}:")
        if isinstance(type_, NullableType):
            stored, type_ = f"{var} is not None", type_.inner
            null = _f_string(name + _literal(self._spelling.any(None)))
            if field.keeps_null:
                absent = f"{null} if {field.name!r} in given else ''"
            elif not field.omits_none:
                absent = null
        lines = []
        if type_ == DATETIME:
            unusual = f"not ({IS_DATETIME.format(var)})"
            lines.append(f"if {f'{stored} and {unusual}' if stored else unusual}: {var} = utc({var})")
            start, end = map(_literal, self._spelling.text)
            text = f'{name}{start}"{DATETIME_TEXT.format(var)}"{end}'
        elif levels_of(type_) >= LEVELS:
            text = f"{name}{{other(shallow({self.name(type_.dump)}({var})))}}"
        else:
            part = self._collection(type_, var) if entity and field.is_set else self._part(type_, var)
            text = name + part.embedded
        if not stored:
            return lines, text
        return [*lines, f"{var}t = {_f_string(text)} if {stored} else {absent}"], f"{{{var}t}}"

    def _part(self, type_: StoredType, var: str) -> _Part:
        """How the text of the value of a variable is made."""
        match type_:
            case NullableType():
                part = self._part(type_.inner, var)
                start, end = map(self.name, part.around)
                inner = f"{start} + {part.text} + {end}" if any(part.around) else part.expression
                return _Part(f"({self.name(self._spelling.any(None))} if {var} is None else {inner})")
            case RecordType():
                return _Part(self.called(type_, var))
            case LiteralType():
                return _Part(self.chosen(self._others, type_.stored, var))
            case _ if type_ == BOOL:
                return _Part(self.chosen(self._others, {(bool, value): value for value in (True, False)}, var))
            case _ if type_ == STR:
                return _Part(f"quoted({var})", self._spelling.text)
            case _ if type_.kinds == NUMBER:
                return _Part(self.either(self._numbers, type_, var), self._spelling.number, is_text=False)
            case _ if type_.kinds == TEXT:
                return _Part(self.either(self._texts, type_, var), self._spelling.text)
            case _ if self._spelling.sets and type_.kinds <= BINARY | SET:
                raise Unsupported
        return self._collection(type_, var)

    def _collection(self, type_: StoredType, var: str) -> _Part:
        """The same of a value with parts, or of any other value."""
        usual, text = self._several(type_, var)
        if self._spelling.sets and type_.kinds == SET and not usual:
            raise Unsupported
        return _Part(self.either(self._others, type_, var, usual, text))

    def _several(self, type_: StoredType, var: str) -> tuple[str, str]:
        """The condition for a usual value with parts, which is not empty, and its text; or none."""
        item, spelling = f"{var}_", self._spelling
        usual = f"type({var}) is {getattr(type_, 'of', dict).__name__} and {var}"
        match type_:
            case ListType():
                part, around = self._part(type_.item, item), spelling.list
                texts = f"[{part.text} for {item} in {var}]"
                between = part.around
            case DictType() if type_.key == STR:
                part, around = self._part(type_.item, item), spelling.map
                text = f"quoted({var}k) + {self.name(':' + part.around[0])} + {part.text}"
                texts = f"[{text} for {var}k, {item} in {var}.items()]"
                usual, between = f"{usual} and {self.name('')} not in {var}", ("", part.around[1])
            case SetType() if type_.item == STR or written_as(type_.item) in _NUMBERS:
                texts = f"[{self._part(type_.item, item).text} for {item} in sorted({var})]"  # one value, one text
                quotes = spelling.quote, spelling.quote
                around, between = (spelling.texts, ("", "")) if type_.item == STR else (spelling.numbers, quotes)
            case _:
                return "", ""
        start, end = between
        first, comma, last = map(self.name, (around[0] + start, f"{end},{start}", end + around[1]))
        return usual, f"{first} + {comma}.join({texts}) + {last}"


def _literal(text: str) -> str:
    """A text, escaped for an f-string."""
    return text.replace("{", "{{").replace("}", "}}")


def _f_string(text: str) -> str:
    return f"f{text!r}"
