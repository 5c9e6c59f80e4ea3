"""Stored forms of other types that a field asks for: ``Stored(format="text")`` of an int, and others.

A form loads only the text, number or bytes that it would write. See `odm.codec.types.times` for times.
"""

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from odm.cache import pattern
from odm.codec.types.compressed import parts_of
from odm.codec.types.containers import AnyType, DictType, FixedTupleType, ListType
from odm.codec.types.numbers import canonical
from odm.codec.types.records import RecordType
from odm.codec.types.scalars import BOOL, BYTES, FixedDecimalType, FloatType, NumberType, TextType
from odm.codec.types.stored import BINARY, LIST, MAP, NUMBER, SET, TEXT, StoredType, Unfit, Unreadable, unfit
from odm.codec.types.unions import bare
from odm.errors import brief
from odm.expressions.nodes import Number, Value
from odm.immutable import Immutable

if TYPE_CHECKING:
    from json import JSONDecoder


class FormType(StoredType):
    """A form of a type: it loads what it would write, and nothing else."""

    def load(self, value: Value) -> Any:
        try:
            loaded = self.parsed(value)
            form = self.dump(loaded)
        except (Unfit, ValueError, TypeError, AttributeError, ArithmeticError):
            loaded = form = None
        return loaded if form == value and type(form) is type(value) else Unreadable(value, f"it is not {self.text}")

    def parsed(self, value: Any) -> Any:
        """The value of what is stored, which may be of any form; raises for most that it does not write."""
        raise NotImplementedError

    def lax(self) -> bool:
        return False


class NumberTextType(FormType):
    """A number as text, in plain digits: 100, -2.5. A Decimal with ``decimal_places`` has that many: 9.50.

    Attributes:
        inner: the type of the number.
    """

    inner: NumberType

    def dump(self, value: Any) -> Value:
        return self._written(self.inner.dump(value))

    def parsed(self, value: Any) -> Any:
        return self.inner.load(canonical(Decimal(value))) if _PLAIN_NUMBER().fullmatch(value) else None

    def loose(self, value: Any) -> Value:
        return self._written(canonical(value))

    def _written(self, number: Any) -> str:
        if isinstance(self.inner, FixedDecimalType):
            number = self.inner.load(number)  # a number of more places, which only a comparison has, stays
        return _digits(number)


_PLAIN_NUMBER: Final = pattern(r"-?[0-9]{1,126}(\.[0-9]{1,130})?")


class BoolFormType(FormType):
    """A bool as one of two numbers or texts.

    Attributes:
        stored: what is stored for True and for False.
    """

    stored: Mapping[bool, Value]

    def __eq__(self, other: object) -> bool:
        return type(other) is BoolFormType and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[object, ...]:
        return (self.text, self.kinds, *self.stored.values())

    def dump(self, value: Any) -> Value:
        if type(value) is not bool:
            raise unfit("bool", value)
        return self.stored[value]

    def parsed(self, value: Any) -> Any:
        return next((flag for flag, form in self.stored.items() if form == value), None)


class BytesTextType(FormType):
    """Bytes as text.

    Attributes:
        write, read: bytes to text and back.
    """

    write: Callable[[bytes], str]
    read: Callable[[str], bytes]

    def dump(self, value: Any) -> Value:
        if not isinstance(value, bytes | bytearray):
            raise unfit("bytes", value)
        return self.write(bytes(value))

    def parsed(self, value: Any) -> Any:
        return self.read(value)


class UUIDFormType(FormType):
    """A UUID in another text than the usual one, or as its 16 bytes.

    Attributes:
        write, read: UUID to what is stored and back.
    """

    write: Callable[[UUID], Value]
    read: Callable[[Any], UUID]

    @property
    def ordered(self) -> bool:
        return True  # as all its forms have the digits in order

    def dump(self, value: Any) -> Value:
        if not isinstance(value, UUID):
            raise unfit("UUID", value)
        return self.write(value)

    def parsed(self, value: Any) -> Any:
        return self.read(value)


class JsonTextType(FormType):
    """A list, dict or model as JSON text, as another language writes it.

    Attributes:
        inner: the type of the value.
        name: one of `JSON_FORMS`.
    """

    inner: StoredType
    name: str

    def dump(self, value: Any) -> Value:
        return _json(self.inner.dump(value), JSON_FORMS[self.name], self.inner)

    def load(self, value: Value) -> Any:
        try:
            inner = _canonical(_decoder().decode(value))
            text = _json(inner, JSON_FORMS[self.name], self.inner)
        except (Unfit, ValueError, TypeError, RecursionError):
            inner = text = None
        return (
            self.inner.load(inner)
            if text == value
            else Unreadable(value, f"odm writes other JSON for format={self.name!r}: declare the field as str")
        )

    def loose(self, value: Any) -> Value:
        raise Unfit("is compared with JSON text, of which equal values may have several: compare it with None", value)


class _JsonStyle(Immutable):
    """How a language writes JSON: what is between members, and after a key; whether only in ASCII; and numbers.

    ``float``: how it writes a number of a type that is float.
    """

    comma: str
    colon: str
    ascii: bool
    number: Callable[[Number], str]
    float: Callable[[Number], str]


def _javascript_number(number: Number) -> str:
    """As Number::toString of ECMA-262 writes it; all digits of a number that no double is."""
    sign, digits, exponent = Decimal(repr(float(number))).normalize().as_tuple()
    point = len(digits) + int(exponent)  # the number is 0.DIGITS, moved by so many places
    if Decimal(repr(float(number))) != number or -6 < point <= 21:
        return _digits(number)
    first, *rest = map(str, digits)
    fraction = f".{''.join(rest)}" if rest else ""
    return f"{'-' * sign}{first}{fraction}e{point - 1:+}"


def _python_number(number: Number) -> str:
    """As repr() of a float writes a fraction; all digits of a whole number, and of a fraction that no float is."""
    return _digits(number) if isinstance(number, int) else _python_float(number)


def _python_float(number: Number) -> str:
    """As repr() of a float writes it, with .0 if it is whole; all digits of a number that no float is."""
    return repr(float(number)) if Decimal(repr(float(number))) == number else _digits(number)


def _digits(number: Number) -> str:
    return f"{number:f}" if isinstance(number, Decimal) else str(number)


JSON_FORMS: Final = {
    "JSON.stringify": _JsonStyle(",", ":", ascii=False, number=_javascript_number, float=_javascript_number),
    "json.dumps": _JsonStyle(", ", ": ", ascii=True, number=_python_number, float=_python_float),
}
"""The JSON texts of other languages, by the name of the function: JavaScript's, and Python's without options."""


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")


@cache
def _decoder() -> "JSONDecoder":
    from json import JSONDecoder

    return JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def _canonical(value: Any) -> Value:
    """The stored value of decoded JSON, whose numbers may be written in several ways."""
    match value:
        case int() | Decimal() if not isinstance(value, bool):
            return canonical(value)
        case list():
            return [_canonical(part) for part in value]
        case dict():
            return {key: _canonical(part) for key, part in value.items()}
    scalar: Value = value
    return scalar


def _json(value: Value, style: _JsonStyle, type_: StoredType | None = None) -> str:
    """JSON text; the standard encoder cannot write exact decimals.

    Args:
        value: a stored value.
        style: how to write it.
        type_: the type of the field or member; None: it is not known.
    """
    plain = None if type_ is None else bare(type_)
    match value:
        case list():
            elements = (_json(part, style, _type_at(plain, at)) for at, part in enumerate(value))
            return f"[{style.comma.join(elements)}]"
        case dict():
            members = (
                f"{_json(k, style)}{style.colon}{_json(part, style, _type_at(plain, k))}" for k, part in value.items()
            )
            return f"{{{style.comma.join(members)}}}"
        case int() | Decimal() if not isinstance(value, bool):
            return style.float(value) if type(plain) is FloatType else style.number(value)
        case bytes() | frozenset():
            raise Unfit(f"is of type {type(value).__name__}, which JSON does not have: declare text or a list", value)
    from json import dumps

    return dumps(value, ensure_ascii=style.ascii)


def _type_at(type_: StoredType | None, at: int | str) -> StoredType | None:
    """The type of an element or member, if one type of container decides it."""
    match type_:
        case ListType() | DictType():
            return type_.item
        case FixedTupleType() if isinstance(at, int) and at < len(type_.items):
            return type_.items[at]
        case RecordType():
            return next((of.type for of in type_.fields.values() if of.stored == at), None)
    return None


UUID_TEXT: Final = TextType("UUID", TEXT, UUID, UUID)

_BYTES: Final[Mapping[str, tuple[Callable[[bytes], str], Callable[[str], bytes]]]] = {
    "base64": (lambda value: b64encode(value).decode(), lambda text: b64decode(text, validate=True)),
    "base64url": (
        lambda value: urlsafe_b64encode(value).decode().rstrip("="),
        lambda text: urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}"),
    ),
    "hex": (bytes.hex, bytes.fromhex),
}
_UUIDS: Final[Mapping[str, tuple[Callable[[UUID], Value], Callable[[Any], UUID]]]] = {
    "upper": (lambda value: str(value).upper(), UUID),
    "hex": (lambda value: value.hex, UUID),
    "HEX": (lambda value: value.hex.upper(), UUID),
    "bytes": (lambda value: value.bytes, lambda value: UUID(bytes=value)),
}


def form_type(type_: StoredType, form: str) -> StoredType:
    """The type in the form that ``Stored(format=...)`` names.

    Raises:
        ValueError: the type has no such form; the message follows the type.
    """
    if type_ == BOOL:
        return _bool_form(form)
    known = forms_of(type_)
    if form not in known:
        names = " or ".join(map(repr, known))
        raise ValueError(
            f"format={brief(form)} is not a form of {type_.text}: {f'write {names}' if names else 'drop format='}"
        )
    if type_ == BYTES:
        return BytesTextType(f"bytes as {form}", TEXT, *_BYTES[form])
    if type_ == UUID_TEXT:
        return UUIDFormType(f"UUID as {form}", BINARY if form == "bytes" else TEXT, *_UUIDS[form])
    if isinstance(type_, NumberType):
        return NumberTextType(f"{type_.text} as text", TEXT, type_)
    if not _is_json(type_):
        raise ValueError("has bytes or sets inside, which JSON does not have: declare text and lists")
    return JsonTextType(f"{type_.text} as JSON text", TEXT, type_, form)


def forms_of(type_: StoredType) -> Collection[str]:
    """The forms of a type besides its usual one; of a bool some of those there may be."""
    if type_ == BOOL:
        return ("number", "true/false", "True/False", "yes/no", "Y/N", "1/0", "on/off")
    if type_ == BYTES:
        return _BYTES.keys()
    if type_ == UUID_TEXT:
        return _UUIDS.keys()
    if isinstance(type_, NumberType):
        return ("text",)
    return JSON_FORMS.keys() if isinstance(type_, ListType | FixedTupleType | DictType | RecordType | AnyType) else ()


def _is_json(type_: StoredType) -> bool:
    return not any(part.kinds & (BINARY | SET) and not part.kinds & (LIST | MAP) for part in parts_of(type_))


def _bool_form(form: str) -> BoolFormType:
    if form == "number":
        return BoolFormType("bool as 1 or 0", NUMBER, {True: 1, False: 0})
    true, slash, false = form.partition("/")
    if not slash or true == false:
        raise ValueError(
            f"format={brief(form)} is not a form of bool: write 'number' for 1 and 0, or the texts of True and False, "
            "as in 'yes/no'"
        )
    return BoolFormType(f"bool as {true} or {false}", TEXT, {True: true, False: false})
