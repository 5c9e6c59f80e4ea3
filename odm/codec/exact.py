"""Exact forms: in a table of other programs a field accepts only the stored form that it would write.

Otherwise an entity would show what no condition finds: of a price that is stored as text, ``price == 100`` would be
true in Python, and false in the store; and a put would change the type that other programs read. Values of the tables
that odm writes alone need no check.

Equal numbers have one form, as in DynamoDB. A member of a nested model that the model does not have, and one that is
not stored and has a default, are no other form. Blobs and compressed values have several forms, which no condition
compares.
"""

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from odm.codec.types.blobs import BlobType
from odm.codec.types.compressed import CompressedType
from odm.codec.types.containers import DictType, FixedTupleType, ListType, SetType, list_type, set_type
from odm.codec.types.forms import (
    UUID_TEXT,
    BoolFormType,
    BytesTextType,
    JsonTextType,
    NumberTextType,
    UUIDFormType,
    form_type,
    forms_of,
)
from odm.codec.types.records import RecordType
from odm.codec.types.scalars import BOOL, BYTES, STR, DecimalType
from odm.codec.types.stored import NOTHING, Kind, StoredType, Unfit, Unreadable, kind_of, refusal_of, show
from odm.codec.types.times import (
    DATE,
    DATETIME,
    ISO_FORMS,
    EpochType,
    FormatType,
    IsoType,
    epoch_type,
    format_type,
    iso_type,
)
from odm.codec.types.unions import UnionType, bare, with_places
from odm.expressions.nodes import Value

_NAMES: Final[Mapping[Kind | None, str]] = {
    "NULL": "NULL",
    "BOOL": "a bool (BOOL)",
    "N": "a number (N)",
    "S": "text (S)",
    "B": "bytes (B)",
    "L": "a list (L)",
    "M": "a map (M)",
    "SET": "a set (SS, NS or BS)",
}
_TYPES: Final[Mapping[Kind | None, str]] = {
    "BOOL": "bool",
    "N": "int or Decimal",
    "S": "str",
    "B": "bytes",
    "L": "list",
    "M": "dict[str, Any] or a model",
    "SET": "set",
}


def same_form(type_: StoredType, stored: Value, written: Any) -> bool:
    """Whether a stored value has the form in which a field of this type writes what it has read from it.

    Args:
        type_: of the field.
        stored: the stored value.
        written: what the field would write; `NOTHING` if it would not write anything.
    """
    if type(stored) is not type(written):
        return isinstance(bare(type_), BlobType | CompressedType)
    if type(stored) is list:
        inner = bare(type_)
        types = inner.items if isinstance(inner, FixedTupleType) else (_item_of(inner),) * len(stored)
        return len(stored) == len(written) == len(types) and all(map(same_form, types, stored, written))
    if type(stored) is dict:
        return _same_members(bare(type_), stored, written)
    if type(stored) is frozenset:
        return stored == written and {*map(kind_of, stored)} == {*map(kind_of, written)}
    return stored == written or isinstance(bare(type_), BlobType | CompressedType)


def _same_members(type_: StoredType, stored: Mapping[str, Value], written: Mapping[str, Value]) -> bool:
    records = [member for member in _members(type_) if isinstance(member, RecordType)]
    if not records:
        item = _item_of(type_)
        return stored.keys() == written.keys() and all(same_form(item, stored[key], written[key]) for key in stored)
    types = {field.stored: field.type for record in records for field in record.fields.values()}
    return all(
        same_form(types[name], value, written.get(name, NOTHING)) for name, value in stored.items() if name in types
    )


def _members(type_: StoredType) -> tuple[StoredType, ...]:
    inner = bare(type_)
    return tuple(map(bare, inner.members)) if isinstance(inner, UnionType) else (inner,)


def _item_of(type_: StoredType) -> StoredType:
    """The type of the elements or members, as far as the comparison needs it."""
    item_types = [member.item for member in _members(type_) if isinstance(member, ListType | DictType | SetType)]
    return item_types[0] if len(item_types) == 1 else STR


def other_form(type_: StoredType, stored: Value, written: Any, *, omits_none: bool) -> str:
    """What is wrong with the form of a stored value, and which declaration accepts it; follows the field's name.

    Args:
        type_: of the field.
        stored: the stored value.
        written: what the field would write instead; `NOTHING` if it would write nothing or cannot read it.
        omits_none: the field is not stored if it is None.
    """
    cell = _refused_cell(type_, stored)
    if cell is not None:
        advice = _cell_advice(bare(type_), cell[1])
    elif stored is None and omits_none:
        advice = 'declare it with Stored(null="keep")'
    else:
        advice = _advice(bare(type_), stored)
    return f"{_fault(type_, stored, written, omits_none=omits_none)}: {advice}"


def _fault(type_: StoredType, stored: Value, written: Any, *, omits_none: bool) -> str:
    """What is wrong with the form of a stored value; arguments as for `other_form`."""
    cell = _refused_cell(type_, stored)
    if cell is not None:
        why, data = cell
        return f"has the cell {show(data)}, and {why}"
    kind = kind_of(stored)
    form = "NULL" if stored is None else f"{_NAMES[kind]}, {show(stored)}"
    if stored is None and omits_none:
        return f"is stored as {form}, and is not stored where it is None"
    loaded = type_.load(stored)
    if isinstance(loaded, Unreadable) and loaded.reason:
        would = loaded.reason
    elif written is NOTHING and kind in type_.kinds:
        would = f"the field, {type_.text}, cannot hold it"
    elif written is NOTHING:
        writes = " or ".join(
            _NAMES[form_kind] for form_kind in _NAMES if form_kind in type_.kinds and form_kind != "NULL"
        )
        would = f"the form of the field, {type_.text}, is {writes}"
    elif kind_of(written) != kind:
        would = f"the field, {type_.text}, writes {_NAMES[kind_of(written)]}"
    else:
        would = f"the field, {type_.text}, would write {show(written)}"
    return f"is stored as {form}, and {would}"


def other_entry(type_: StoredType, stored: Value, written: Any, *, cells: bool) -> tuple[str, str] | None:
    """The first entry of a stored dict that has another form, and what is wrong with it; None: there is none.

    Args:
        type_: of the dict.
        stored: the stored dict.
        written: what the field would write instead; `NOTHING` if it cannot read it.
        cells: each entry is a cell of other programs, so `odm.Stored` of the field is that of the values.
    """
    of = bare(type_)
    if not isinstance(of, DictType) or not isinstance(stored, dict):
        return None
    if "" in stored:  # it is nowhere stored: Bigtable's backend reads a column without a key like that
        reason = next(iter(stored[""]), "") if isinstance(stored[""], dict) else "has no name"
        return "", f"{reason}: delete it, or leave the family out of the model"
    for key, value in stored.items():
        if not _is_key(of, key):
            return key, f"has a key that {of.text} does not have: declare the keys as str"
        other = written.get(key, NOTHING) if isinstance(written, dict) else _again(of.item, value)
        if not same_form(of.item, value, other):
            if cells:
                return key, other_form(of.item, value, other, omits_none=False)
            advice = f"declare the values as {_TYPES.get(kind_of(value), 'a type that may be None')}"
            return key, f"{_fault(of.item, value, other, omits_none=False)}: {advice}"
    return None


def _is_key(of: DictType, key: str) -> bool:
    try:
        return bool(of.key.dump(of.key.load(key)) == key)
    except Unfit:
        return False


def _again(type_: StoredType, stored: Value) -> Any:
    """What is written of a value that was read; `NOTHING` if that cannot be stored."""
    try:
        return type_.dump(type_.load(stored))
    except Unfit:
        return NOTHING


def _refused_cell(type_: StoredType, stored: Value) -> tuple[str, bytes] | None:
    """The reason and the bytes of a cell that Bigtable's encoding of the field does not read: one member of a dict."""
    if (refusal := refusal_of(stored)) is not None:
        return refusal
    if type(stored) is not dict or len(stored) != 1 or "M" in type_.kinds:
        return None
    [(why, data)] = stored.items()
    return (why, data) if isinstance(data, bytes) else None


def _cell_advice(type_: StoredType, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not text:
        advice = _advice(type_, data)
        if advice.startswith("declare it with Stored"):
            return f'{advice}, and Cell(..., "bytes")'
        return 'declare it with the encoding that the other program writes, or as bytes with Cell(..., "bytes")'
    return f'as text, with Cell(..., "text"), {_advice(type_, text)}'


def _advice(type_: StoredType, stored: Value) -> str:
    for declaration, candidate in _candidates(type_, stored):
        try:
            loaded = candidate.load(stored)
            if isinstance(loaded, Unreadable):
                continue
            if isinstance(candidate, JsonTextType):
                fits = _JSON_KINDS.get(str(stored)[:1]) in candidate.inner.kinds
            else:
                fits = same_form(candidate, stored, candidate.dump(loaded))
            if fits:
                return f"declare it with {declaration}"
        except (Unfit, ValueError, TypeError, ArithmeticError):
            continue
    if isinstance(type_, _TIMES) and isinstance(stored, str | int | Decimal):
        return f"declare it as {'str' if isinstance(stored, str) else 'int or Decimal'} to keep all of it"
    if kind_of(stored) in type_.kinds and type_ in (STR, BYTES):
        return "the model changes it when it reads it: remove that validator or setting, or correct the stored item"
    return f"declare it as {_TYPES.get(kind_of(stored), 'a type that may be None')}, or correct the stored item"


_JSON_KINDS: Final[Mapping[str, Kind]] = {"[": "L", "{": "M"}
_TIMES: Final = (type(DATETIME), type(DATE), EpochType, FormatType, IsoType)
_TEXT_FORMS: Final = (
    *("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%3fZ", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%S%:z"),
    *("%Y-%m-%dT%H:%M:%S.%3f%:z", "%Y-%m-%dT%H:%M:%S.%f%:z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f"),
    *("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y%m%dT%H%M%SZ", "%Y-%m-%d", "%Y%m%d", "%Y/%m/%d"),
)
_DATE_FORMS: Final = ("%Y-%m-%d", "%Y%m%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")


def _is_date(type_: StoredType) -> bool:
    return type_ == DATE or getattr(type_, "of", None) is date


def _candidates(type_: StoredType, stored: Value) -> Iterator[tuple[str, StoredType]]:
    """Declarations of a field of this Python type, with the stored type of each."""
    if isinstance(type_, _TIMES):
        of = date if _is_date(type_) else datetime
        for form in _DATE_FORMS if of is date else _TEXT_FORMS:
            yield f'Stored(format="{form}")', format_type(form, of)
        for name in ISO_FORMS if of is datetime else ():
            yield f'Stored(format="{name}")', iso_type(name)
        for unit in ("d", "s", "ms", "us", "ns") if of is date else ("s", "ms", "us", "ns", "s.f"):
            yield f'Stored(epoch="{unit}")', epoch_type(unit, of)
        yield "no Stored(format=) or Stored(epoch=)", DATE if of is date else DATETIME
        return
    plain = _plain(type_)
    for form in forms_of(plain):
        yield f'Stored(format="{form}")', form_type(plain, form)
    if plain is not type_:
        yield "no Stored(format=)", plain
    if isinstance(plain, DecimalType) and isinstance(stored, str) and (places := len(stored.partition(".")[2])):
        fixed = with_places(plain, places)
        yield f'Stored(format="text") and Field(decimal_places={places})', form_type(fixed, "text")
    if isinstance(type_, ListType):
        yield f"set[{type_.item.text}]", set_type(type_.item, set)
    if isinstance(type_, SetType):
        yield f"list[{type_.item.text}]", list_type(type_.item)


def _plain(type_: StoredType) -> StoredType:
    """The type without the form that it is stored in."""
    match type_:
        case NumberTextType() | JsonTextType():
            return type_.inner
        case BoolFormType():
            return BOOL
        case BytesTextType():
            return BYTES
        case UUIDFormType():
            return UUID_TEXT
    return type_
