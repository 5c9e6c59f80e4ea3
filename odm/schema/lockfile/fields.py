"""From compiled records to descriptions of their fields.

Only what affects the stored form is described: a list and a tuple of any length are the same, and the names of models
and enums are omitted, because they are not stored.
"""

from enum import Flag
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias

from pydantic.fields import FieldInfo

from odm.codec.types.containers import DictType, FixedTupleType, ListType, SetType
from odm.codec.types.models import Place, field_infos
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.scalars import EnumType, LiteralType
from odm.codec.types.stored import NOTHING, StoredType, Unfit
from odm.codec.types.unions import NullableType, RootType, UnionType, bare
from odm.expressions.nodes import Value, text_of
from odm.schema.lockfile.description import FieldLock
from odm.schema.lockfile.limits import limits_of
from odm.schema.lockfile.validators import name_of, validators_of

_Fields: TypeAlias = dict[str, FieldLock]
_Described: TypeAlias = tuple[str, tuple[_Fields, ...]]

_CONSTANT: Final = (list, dict, tuple, str, bytes, int, float, bool)
"""Default factories that make the same value each time."""
"""The text of a type, and the fields of each model in it, in order."""


def describe_fields(record: RecordType, above: tuple[RecordType, ...] = ()) -> _Fields:
    """The fields of a record by stored name; ``above`` are the records that contain it, outermost first."""
    infos = field_infos(record.cls)
    return {field.stored: _field(field, infos[field.name], (*above, record)) for field in record.fields.values()}


def _field(field: RecordField, info: FieldInfo, records: tuple[RecordType, ...]) -> FieldLock:
    type_ = bare(field.type)
    text, models = _describe(type_, records)
    values = None
    if isinstance(type_, EnumType | LiteralType):
        text, values = _kinds(type_.values), tuple(map(_plain, sorted(type_.values, key=repr)))
    absent, default = _absent(field, info, records[-1].cls)
    return FieldLock(
        type=text,
        field=None if field.name == field.stored else field.name,
        values=values,
        optional="NULL" in field.type.kinds,
        absent=absent,
        default=default,
        limits=limits_of(info),
        validators=validators_of(info, records[-1].cls, field.name),
        models=models,
    )


def _absent(
    field: RecordField, info: FieldInfo, cls: type[Any]
) -> tuple[Literal["error", "none", "default", "factory"], str | None]:
    """The kind of value that the field has in an item without it, and the value or what makes it."""
    if field.omits_none:
        return "none", None
    if field.is_set:
        return "default", "set()"  # whatever the declared default is
    if field.required:
        return "error", None
    default = field.factory() if field.factory in _CONSTANT else field.default
    if info.default_factory is not None and default is NOTHING:
        validated = info.validate_default or Place(cls, field.name).configured("validate_default")
        return "factory", f"{name_of(info.default_factory)}(){', validated' if validated else ''}"
    try:
        return "default", text_of(field.type.dump(default))
    except Unfit:  # validation makes another value of it
        return "default", type(default).__name__


def _describe(type_: StoredType, records: tuple[RecordType, ...]) -> _Described:
    match type_:
        case RecordType() if type_ in records:  # a recursive model: its fields are described above
            return f"model, as {len(records) - records.index(type_)} above", ()
        case RecordType():
            return "model", (describe_fields(type_, records),)
        case NullableType():
            text, models = _describe(type_.inner, records)
            return f"{text} | None", models
        case RootType():
            return _describe(type_.inner, records)
        case UnionType():
            return _join(
                "{}", " | ", sorted((_describe(member, records) for member in type_.members), key=itemgetter(0))
            )
        case ListType():
            return _join("list[{}]", "", [_describe(type_.item, records)])
        case SetType():
            return _join("set[{}]", "", [_describe(type_.item, records)])
        case DictType():
            return _join("dict[{}]", ", ", [_describe(type_.key, records), _describe(type_.item, records)])
        case FixedTupleType():
            names = getattr(type_.of, "_fields", ())  # stored by position: the names show a change of order
            parts = [_describe(item, records) for item in type_.items]
            named = [(f"{name}: {text}", models) for name, (text, models) in zip(names, parts, strict=False)]
            return _join("tuple[{}]", ", ", named or parts)
        case EnumType() | LiteralType() if not _combines(type_):
            return f"{_kinds(type_.values)} of {', '.join(sorted(map(text_of, type_.values)))}", ()
        case EnumType():
            return _kinds(type_.values), ()
        case _:
            return type_.text, ()


def _join(around: str, between: str, parts: list[_Described]) -> _Described:
    text = around.format(between.join(text for text, _ in parts))
    return text, tuple(fields for _, models in parts for fields in models)


def _combines(type_: StoredType) -> bool:
    """Whether values other than the declared ones are allowed: combinations of flags."""
    return isinstance(type_, EnumType) and issubclass(type_.cls, Flag)


def _kinds(values: list[Value]) -> str:
    return " | ".join(sorted({type(value).__name__ for value in values}))


def _plain(value: Value) -> str | int | bool:
    return value if isinstance(value, str | int | bool) else text_of(value)
