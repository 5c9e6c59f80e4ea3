"""Generated functions that write records as a backend's JSON text: what dumping and spelling would give, in one walk.

As in `odm.codec.generate`, usual values are treated inline, and whatever such a function raises means nothing: then
the caller dumps the record and spells its values one by one.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from attrs import frozen

from odm.codec.attributes import TTL_ATTRIBUTE, ttl_seconds
from odm.codec.choices import LiteralType
from odm.codec.containers import DictType, ListType, SetType
from odm.codec.depth import LEVELS, check_levels
from odm.codec.generate import FOUR_DIGITS, IS_DECIMAL, IS_INT, MOMENT, UNUSUAL_MOMENT, Module
from odm.codec.moments import DATETIME, in_utc
from odm.codec.numbers import DIGITS, canonical_decimal
from odm.codec.proofs import levels_of
from odm.codec.records import RecordField, RecordType
from odm.codec.scalars import BOOL, DECIMAL, INT, STR
from odm.codec.stored import NUMBER, TEXT, StoredType
from odm.codec.unions import NullableType
from odm.expressions.nodes import Value

quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring
"""The JSON text of a str, in which only what must be is escaped; a TypeError for anything else."""


@frozen(eq=False)
class Spelling:
    """How a backend spells stored values in JSON: start and end of each kind.

    Attributes:
        text: around the JSON text of a str.
        number: around digits.
        list, map: around the parts, between which are commas.
        texts, numbers: around the members of a set, which are sorted and in quotes, with commas between.
        other: the text of a stored value of any other kind.
    """

    text: tuple[str, str]
    number: tuple[str, str]
    list: tuple[str, str]
    map: tuple[str, str]
    texts: tuple[str, str]
    numbers: tuple[str, str]
    other: Callable[[Value], str]

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


def generated_writer(
    record: RecordType, marks: Mapping[str, Value], ttl: str | None, spelling: Spelling
) -> Callable[[Any], str]:
    """A function that makes the JSON text of an entity's item: an object with `EntityCodec.marks` first.

    Args:
        record: the entity's.
        marks: one or more.
        ttl: the field that says when the item expires.
        spelling: of the values.
    """
    head = ",".join(f"{quoted(name)}:{spelling.any(value)}" for name, value in marks.items())
    return _Writes(spelling, ttl).compiled(record, head)


def decimal_digits(value: Decimal) -> str:
    """The digits of the stored number of a Decimal."""
    text = str(value)
    # Short, near to one and without zeros at its end, it is canonical as it is.
    if "." in text and text[-1] != "0" and len(text) <= DIGITS and "E" not in text:
        return text
    return str(canonical_decimal(value))


def _moment(value: datetime) -> datetime:
    """The moment in UTC, of a year with four digits; what it raises means nothing."""
    if value.year < FOUR_DIGITS:
        raise ValueError
    return in_utc(value)


def shallow(value: Value) -> Value:
    """The value of a field that can nest too deep, if it does not."""
    check_levels(value)
    return value


_NUMBERS: Final[Mapping[StoredType, tuple[str, str]]] = {
    INT: (IS_INT, "{0}"),
    DECIMAL: (IS_DECIMAL, "decimal_digits({0})"),
}
"""What the values of a type usually are, and their digits."""


@frozen
class _Part:
    """How a value's text is made: an expression between two constant texts.

    The expression has no quotes and no backslashes, which an f-string of Python 3.11 does not allow there.
    """

    start: str
    made: str
    end: str
    is_text: bool = True

    @property
    def text(self) -> str:
        """The expression, as one whose value is a str."""
        return self.made if self.is_text else f"str({self.made})"

    @property
    def embedded(self) -> str:
        """The part of an f-string."""
        return f"{_literal(self.start)}{{{self.made}}}{_literal(self.end)}"


class _Writes(Module):
    """Functions that make texts."""

    def __init__(self, spelling: Spelling, ttl: str | None) -> None:
        super().__init__()
        self.names |= {
            "quoted": quoted,
            "decimal_digits": decimal_digits,
            "moment": _moment,
            "shallow": shallow,
            "ttl_seconds": ttl_seconds,
            "other": spelling.any,
        }
        self._spelling = spelling
        self._ttl = ttl

    def body(self, fields: list[RecordField], head: str) -> list[str]:
        lines, whole = [], _literal(head)
        for at, field in enumerate(fields):
            statements, text = self._field(field, f"f{at}")
            lines += statements
            whole += text
        if not head:  # every field's text begins with a comma
            start, end = map(repr, self._spelling.map)
            return [*lines, f"return {start} + {_f_string(whole)}[1:] + {end}"]
        names = [field.name for field in fields]
        if self._ttl is not None:
            lines.append(self._expiry(f"f{names.index(self._ttl)}"))
            whole += "{expiry}"
        return [*lines, f"return {_f_string(_literal('{') + whole + _literal('}'))}"]

    def _field(self, field: RecordField, var: str) -> tuple[list[str], str]:
        """What stands in the f-string for a field with its name and a comma before it, and statements before that."""
        there, type_, absent = self.there(field, var), field.type, "''"
        name = _literal(f",{quoted(field.stored)}:")
        if isinstance(type_, NullableType):
            there, type_ = f"{var} is not None", type_.inner
            absent = absent if field.omits_none else _f_string(name + _literal(self._spelling.any(None)))
        lines = []
        if type_ == DATETIME:
            unusual = UNUSUAL_MOMENT.format(var)
            lines.append(f"if {f'{there} and ({unusual})' if there else unusual}: {var} = moment({var})")
            start, end = map(_literal, self._spelling.text)
            text = f'{name}{start}"{MOMENT.format(var)}"{end}'
        elif levels_of(type_) >= LEVELS:
            text = f"{name}{{other(shallow({self.name(type_.dump)}({var})))}}"
        else:
            text = name + self._part(type_, var).embedded
        if not there:
            return lines, text
        return [*lines, f"{var}t = {_f_string(text)} if {there} else {absent}"], f"{{{var}t}}"

    def _expiry(self, var: str) -> str:
        seconds = _Part(self._spelling.number[0], f"ttl_seconds({var})", self._spelling.number[1])
        text = _literal(f",{quoted(TTL_ATTRIBUTE)}:") + seconds.embedded
        return f"expiry = {_f_string(text)} if {var} is not None else ''"

    def _part(self, type_: StoredType, var: str) -> _Part:
        """How the text is made of what a variable holds."""
        dump = f"{self.name(type_.dump)}({var})"
        match type_:
            case NullableType():
                inner = self._joined(self._part(type_.inner, var))
                return _Part("", f"({self._constant(self._spelling.any(None))} if {var} is None else {inner})", "")
            case RecordType():
                return _Part("", self.called(type_, var), "")
            case ListType():
                usual, made = f"type({var}) is {type_.of.__name__}", self._list(type_, var)
                return _Part("", f"({made} if {usual} and {var} else other({dump}))", "")
            case DictType() if type_.key == STR:
                usual, made = f"type({var}) is dict and {self._constant('')} not in {var}", self._map(type_, var)
                return _Part("", f"({made} if {usual} and {var} else other({dump}))", "")
            case SetType() if type_.item == STR or type_.item in _NUMBERS:
                usual, made = f"type({var}) is {type_.of.__name__}", self._set(type_, var)
                return _Part("", f"({made} if {usual} and {var} else other({dump}))", "")
            case LiteralType():
                return self._chosen(type_.stored, var)
            case _ if type_ == BOOL:
                return self._chosen({(bool, True): True, (bool, False): False}, var)
            case _ if type_ == STR:
                return _Part(self._spelling.text[0], f"quoted({var})", self._spelling.text[1])
            case _:
                return self._scalar(type_, var, dump)

    def _scalar(self, type_: StoredType, var: str, dump: str) -> _Part:
        spelling = self._spelling
        usual, made = (text.format(var) for text in _NUMBERS.get(type_, ("", "")))
        either = f"({made} if {usual} else {dump})" if usual else dump
        if type_.kinds == NUMBER:
            return _Part(spelling.number[0], either, spelling.number[1], is_text=False)
        if type_.kinds == TEXT:
            return _Part(spelling.text[0], f"quoted({dump})", spelling.text[1])
        return _Part("", f"other({dump})", "")

    def _chosen(self, stored: Mapping[tuple[type, Any], Value], var: str) -> _Part:
        """The text is one of a few."""
        texts = {key: self._spelling.any(value) for key, value in stored.items()}
        return _Part("", f"{self.name(texts)}[type({var}), {var}]", "")

    def _list(self, type_: ListType, var: str) -> str:
        """The text of a list that is not empty."""
        part, (start, end) = self._part(type_.item, f"{var}_"), self._spelling.list
        texts = f"map(quoted, {var})" if type_.item == STR else f"[{part.text} for {var}_ in {var}]"
        between = self._constant(f"{part.end},{part.start}")
        return f"{self._constant(start + part.start)} + {between}.join({texts}) + {self._constant(part.end + end)}"

    def _set(self, type_: SetType, var: str) -> str:
        """The text of a set that is not empty; its members are sorted, so that one value always gives one text."""
        spelling, part = self._spelling, self._part(type_.item, f"{var}_")
        start, end = spelling.texts if type_.item == STR else spelling.numbers
        quote = "" if type_.item == STR else '"'
        members = f"[{part.made if type_.item == STR else f'str({part.made})'} for {var}_ in sorted({var})]"
        between = self._constant(f"{quote},{quote}")
        return f"{self._constant(start + quote)} + {between}.join({members}) + {self._constant(quote + end)}"

    def _map(self, type_: DictType, var: str) -> str:
        """The text of a dict that is not empty, with keys of type str."""
        part, (start, end) = self._part(type_.item, f"{var}_"), self._spelling.map
        text = f"quoted({var}k) + {self._constant(':' + part.start)} + {part.text}"
        texts = f"[{text} for {var}k, {var}_ in {var}.items()]"
        between = self._constant(f"{part.end},")
        return f"{self._constant(start)} + {between}.join({texts}) + {self._constant(part.end + end)}"

    def _joined(self, part: _Part) -> str:
        """The part as one expression."""
        if not part.start and not part.end:
            return part.made
        return f"{self._constant(part.start)} + {part.text} + {self._constant(part.end)}"

    def _constant(self, text: str) -> str:
        return self.name(text)


def _literal(text: str) -> str:
    """A text as it stands in an f-string."""
    return text.replace("{", "{{").replace("}", "}}")


def _f_string(text: str) -> str:
    return f"f{text!r}"
