"""From annotations to stored types: a field's declared type decides how its values are stored.

Works on the types that pydantic resolved (`model_fields`), once per entity. A type whose values could not be read back
equal raises `SchemaError`, which names class, field, fault and fix.
"""

import ipaddress
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import chain, combinations
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import MappingProxyType, NoneType
from types import UnionType as UnionOperator
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

import pydantic
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import MultiHostUrl, PydanticUndefined, Url
from typing_extensions import TypeAliasType

from odm.codec.types import scalars
from odm.codec.types import times as moments
from odm.codec.types.blobs import KINDS, BlobType
from odm.codec.types.compressed import compressed_type
from odm.codec.types.constraints import is_root
from odm.codec.types.containers import ANY, JSON, DictType, FixedTupleType, dict_type, list_type, set_type, tuple_type
from odm.codec.types.forms import form_type
from odm.codec.types.models import Place, check_default, check_names, complete, empty_record, field_infos
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.scalars import EnumType, LiteralType, TextType, enum_type, literal_type
from odm.codec.types.stored import EVERY, LIST, NOTHING, ORDERED, SET, TEXT, StoredType, Unfit
from odm.codec.types.times import ISO_FORMS, epoch_type, format_type, iso_type
from odm.codec.types.unions import (
    AliasType,
    NullableType,
    RootType,
    UnionType,
    bare,
    can_stand_together,
    nullable,
    union,
    with_places,
)
from odm.codec.types.validation import ModelSchema, runs_early
from odm.entities.blobs import Blob, LazyBytes
from odm.entities.markers import (
    ALIASES,
    AggregateMarker,
    Cell,
    CellVersions,
    ColumnsMarker,
    Compressed,
    CounterMarker,
    Stored,
    alias_value,
    find_marker,
    metadata_of,
)
from odm.errors import SchemaError
from odm.immutable import evolve
from odm.keys.types import NETWORKS, admits_none, is_email, stripped

_Factory: TypeAlias = Callable[[], Any]
_NONE: Final = literal_type((None,))
_SCALARS: Final[Mapping[Any, StoredType]] = {
    NoneType: _NONE,
    bool: scalars.BOOL,
    str: scalars.STR,
    bytes: scalars.BYTES,
    int: scalars.INT,
    Decimal: scalars.DECIMAL,
    float: scalars.FLOAT,
    datetime: moments.DATETIME,
    date: moments.DATE,
    time: moments.TIME,
    timedelta: moments.DURATION,
    Any: ANY,
    object: ANY,
    pydantic.JsonValue: JSON,
    pydantic.AwareDatetime: moments.DATETIME,
    pydantic.PastDatetime: moments.DATETIME,
    pydantic.FutureDatetime: moments.DATETIME,
    pydantic.PastDate: moments.DATE,
    pydantic.FutureDate: moments.DATE,
    pydantic.ByteSize: scalars.INT,
}
_TEXTS: Final[frozenset[type]] = frozenset(
    {
        UUID,
        ipaddress.IPv4Address,
        ipaddress.IPv4Interface,
        ipaddress.IPv4Network,
        ipaddress.IPv6Address,
        ipaddress.IPv6Interface,
        ipaddress.IPv6Network,
        Path,
        PurePath,
        PurePosixPath,
        PureWindowsPath,
        Url,
        MultiHostUrl,
    }
)
_CHANGING: Final[tuple[Any, ...]] = (pydantic.types.Json, pydantic.EncodedBytes, pydantic.EncodedStr)
"""Annotations whose validation cannot take its own result: loading would decode a decoded value again."""

_SIMPLE: Final = "give its members values of str, int, float, Decimal, bool or bytes"
_STORABLE: Final = (
    "declare a type that can: str, bool, numbers, bytes, times, UUID, Enum, models, list, tuple, dict, set"
)


class TypeCompiler:
    """Compiles the annotations of one entity; remembers records and aliases, which may be recursive."""

    def __init__(self) -> None:
        self._records: dict[type[Any], RecordType] = {}
        self._entity: type[Any] | None = None
        self._others: Mapping[str, str] = {}
        self._open_aliases: dict[str, AliasType] = {}
        # Checks of records, which are complete only at the end.
        self._checks: list[Callable[[], None]] = []

    def compile(self, cls: type[BaseModel], others: Mapping[str, str] = MappingProxyType({})) -> RecordType:
        """The record type of an entity.

        Args:
            cls: its class.
            others: other stored names of its fields, by those that they declare.

        Raises:
            SchemaError: a field cannot be stored.
        """
        self._entity, self._others = cls, others
        record = self._record(cls)
        for check in self._checks:
            check()
        return record

    def computed(self, cls: type[BaseModel], name: str) -> StoredType:
        """How the values of a computed field would be stored, which is how keys contain them.

        Raises:
            SchemaError: they could not be stored.
        """
        place, info = Place(cls, name), FieldInfo.from_annotation(cls.model_computed_fields[name].return_type)
        return _in_form(
            _fixed(self._type(info.annotation, place), metadata_of(info)), find_marker(info, Stored), info, place
        )

    def _record(self, cls: type[Any]) -> RecordType:
        if cls not in self._records:
            schema = complete(cls) if issubclass(cls, BaseModel) else None
            self._records[cls] = record = empty_record(cls, schema)
            infos = field_infos(cls)
            fields = {name: self._field(Place(cls, name), info, schema) for name, info in infos.items()}
            if cls is self._entity and self._others:
                fields = {n: evolve(f, stored=self._others.get(f.stored, f.stored)) for n, f in fields.items()}
            record.fill(fields)
            check_names(record)
        return self._records[cls]

    def _field(self, place: Place, info: FieldInfo, schema: ModelSchema | None) -> RecordField:
        _check_metadata(info.metadata, info.annotation, place)
        marker, blob = find_marker(info, Stored), find_marker(info, Blob)
        type_ = self._type(info.annotation, place) if blob is None else _in_blobs(blob, info, place)
        type_ = _fixed(type_, metadata_of(info))
        if find_marker(info, ColumnsMarker) is not None and find_marker(info, Cell) is not None:
            type_ = _of_entries(type_, marker, info, place)
        else:
            type_ = _in_form(type_, marker, info, place)
        type_ = _compressed(type_, info, place)
        record_field = RecordField(
            place.field,
            stored=place.field if marker is None or marker.name is None else marker.name,
            type=_of_64_bits(type_, info),
            default=_default(info, place, schema),
            required=info.is_required(),
            early=schema is None or schema.early or runs_early(schema.fields[place.field]),
            factory=None
            if info.default_factory_takes_validated_data
            else cast("_Factory | None", info.default_factory),
            frozen=bool(info.frozen),
            keeps_null=_keeps_null(type_, marker, info, place),
        )
        self._checks.append(partial(check_default, record_field, info, place))
        return record_field

    def _type(self, annotation: Any, place: Place) -> StoredType:
        scalar = _scalar(annotation)
        if scalar is not None:
            return scalar
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            _check_metadata(args[1:], annotation, place)
            marks = chain.from_iterable(mark.metadata if isinstance(mark, FieldInfo) else (mark,) for mark in args[1:])
            return _fixed(self._type(args[0], place), marks)
        if origin in {Union, UnionOperator}:
            return self._union(annotation, args, place)
        if origin is Literal:
            return _literal(annotation, args, place)
        if isinstance(annotation, ALIASES):
            return self._alias(annotation, place)
        if isinstance(origin, ALIASES):
            return self._type(origin.__value__[args], place)
        if isinstance(annotation, NewType):
            return self._type(annotation.__supertype__, place)
        if isinstance(annotation, TypeVar):
            return self._type(_bound(annotation), place)
        return self._container(annotation, origin or annotation, args, place)

    def _container(self, annotation: Any, origin: Any, args: tuple[Any, ...], place: Place) -> StoredType:
        if origin is list:
            return list_type(self._type(args[0] if args else Any, place))
        if origin is tuple:
            return self._tuple(annotation, args, place)
        if origin is dict:
            key, item = args or (str, Any)
            return self._dict(annotation, key, item, place)
        if origin in {set, frozenset}:
            return self._set(annotation, origin, args[0] if args else Any, place)
        if isinstance(annotation, type):
            return self._class(annotation, place)
        raise _unknown(annotation, place)

    def _tuple(self, annotation: Any, args: tuple[Any, ...], place: Place) -> StoredType:
        if annotation is tuple:
            return tuple_type(ANY)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple_type(self._type(args[0], place))
        items = tuple(self._type(arg, place) for arg in args)
        return FixedTupleType(f"tuple[{', '.join(item.text for item in items)}]", LIST, items, tuple)

    def _dict(self, annotation: Any, key: Any, item: Any, place: Place) -> StoredType:
        key_type = self._type(key, place)
        named = key_type is scalars.STR or (isinstance(key_type, EnumType | LiteralType) and key_type.kinds == TEXT)
        if not named:
            raise place.fault(annotation, "has keys that are not text", "declare the keys as str or as an Enum of str")
        return dict_type(key_type, self._type(item, place))

    def _set(self, annotation: Any, origin: Any, item: Any, place: Place) -> StoredType:
        item_type = self._type(item, place)
        if len(item_type.kinds) != 1 or not item_type.kinds <= ORDERED:
            why = "is a set whose members are not all stored as text, all as numbers, or all as bytes"
            raise place.fault(annotation, why, "declare a list")
        return set_type(item_type, origin)

    def _class(self, cls: type[Any], place: Place) -> StoredType:
        if issubclass(cls, Enum):
            return _enum(cls, place)
        if is_root(cls):
            return self._root(cls, place)
        if issubclass(cls, BaseModel):
            return self._record(cls)
        if is_dataclass(cls):
            return self._record(cls)
        names: tuple[str, ...] | None = getattr(cls, "_fields", None)
        if issubclass(cls, tuple) and names is not None:
            hints = get_type_hints(cls, include_extras=True)
            items = tuple(self._type(hints.get(name, Any), place) for name in names)
            return FixedTupleType(cls.__name__, LIST, items, cls)
        if cls in _TEXTS or _is_url(cls):
            return TextType(cls.__name__, TEXT, cls, cls)
        raise _unknown(cls, place)

    def _root(self, cls: type[BaseModel], place: Place) -> StoredType:
        schema = complete(cls)
        inner = self._type(cls.model_fields["root"].annotation, place)
        if inner.kinds == SET:
            raise place.fault(cls, "cannot be stored: an empty set is stored as absence", "declare the field as a set")
        return RootType(cls.__name__, inner.kinds, inner, cls, schema.early)

    def _alias(self, alias: TypeAliasType, place: Place) -> StoredType:
        name = alias.__name__
        if name in self._open_aliases:
            return self._open_aliases[name]
        self._open_aliases[name] = again = AliasType(name, EVERY - SET)
        stored_type = self._type(_meaning(alias, place), place)
        again.mean(stored_type)
        del self._open_aliases[name]
        return stored_type

    def _union(self, annotation: Any, args: tuple[Any, ...], place: Place) -> StoredType:
        compiled = [self._type(arg, place) for arg in args]
        with_none = any(type_ is _NONE or isinstance(type_, NullableType) for type_ in compiled)
        inner = [type_.inner if isinstance(type_, NullableType) else type_ for type_ in compiled if type_ is not _NONE]
        stored_type = union(m for type_ in inner for m in (type_.members if isinstance(type_, UnionType) else (type_,)))
        if ANY in inner:
            return ANY
        if "SET" in stored_type.kinds and (with_none or stored_type.kinds != SET):
            why = "cannot be stored: an empty set is stored as absence, so it could not be distinguished from None"
            raise place.fault(annotation, why, "declare set[...] = set()")
        if isinstance(stored_type, UnionType):
            self._checks.append(partial(_check_union, stored_type, annotation, place))
        return nullable(stored_type) if with_none else stored_type


def _fixed(type_: StoredType, marks: Iterable[Any]) -> StoredType:
    """The type with the ``decimal_places`` among its metadata, with which a Decimal reads back."""
    declared = [places for mark in marks if (places := getattr(mark, "decimal_places", None)) is not None]
    return with_places(type_, min(declared)) if declared else type_


def _in_form(type_: StoredType, marker: Stored | None, info: FieldInfo, place: Place) -> StoredType:
    """The type of a field in the stored form that its marker asks for."""
    if marker is None or (marker.format is None and marker.epoch is None):
        if marker == Stored():
            raise place.fault(info.annotation, "is marked by Stored without the name", 'write Stored("name")')
        return type_
    plain = type_.inner if isinstance(type_, NullableType) else type_
    times: dict[StoredType, type] = {moments.DATETIME: datetime, moments.DATE: date}
    if marker.epoch is not None and plain not in times:
        why = f"has no stored form of a time, so {marker!r} does not apply"
        raise place.fault(info.annotation, why, "declare the field as datetime or date, or drop epoch=")
    if marker.format is not None and marker.epoch is not None:
        raise place.fault(info.annotation, "has two stored forms", "drop format= or epoch=")
    try:
        if marker.epoch is not None:
            stored_type: StoredType = epoch_type(str(marker.epoch), times[plain])
        elif plain in times:
            iso = plain == moments.DATETIME and marker.format in ISO_FORMS
            stored_type = iso_type(str(marker.format)) if iso else format_type(str(marker.format), times[plain])
        else:
            stored_type = form_type(plain, str(marker.format))
    except ValueError as error:
        raise place.fault(info.annotation, f"cannot be stored: {error}", "correct it") from None
    return nullable(stored_type) if isinstance(type_, NullableType) else stored_type


def _of_entries(type_: StoredType, marker: Stored | None, info: FieldInfo, place: Place) -> StoredType:
    """The type of a dict with a cell for each entry: `odm.Stored` says the form of its values."""
    if not isinstance(type_, DictType):
        return _in_form(type_, marker, info, place)
    return dict_type(type_.key, _in_form(type_.item, marker, info, place))


def _keeps_null(type_: StoredType, marker: Stored | None, info: FieldInfo, place: Place) -> bool:
    """Whether a field whose default is None stores None as NULL."""
    if marker is None or marker.null is None:
        return False
    if marker.null != "keep":
        raise place.fault(info.annotation, f"has null={marker.null!r}", 'write null="keep", or leave it out')
    if "NULL" not in type_.kinds or info.default is not None or not issubclass(place.cls, BaseModel):
        why = 'has null="keep", which is for a field of a model that may be None and has the default None'
        raise place.fault(info.annotation, why, "leave null= out")
    return True


def _in_blobs(marker: Blob, info: FieldInfo, place: Place) -> StoredType:
    """The type of a field whose long values are kept in blobs."""
    if find_marker(info, Compressed) is not None:
        why = "has both Blob and Compressed, which keep a long value in different ways"
        raise place.fault(info.annotation, why, "remove one of them; compress the bytes yourself to keep a blob small")
    if type(marker.over) is not int or marker.over < 0:
        why = f"has Blob(over={marker.over!r}), which is the most bytes to store in the item"
        raise place.fault(info.annotation, why, "give an int of 0 or more")
    kind, _ = stripped(info.annotation, info.metadata)
    if kind not in (bytes, LazyBytes):
        raise place.fault(info.annotation, "is not bytes, so Blob does not apply", f"declare it as {marker._odm_usage}")
    where = f"{place.cls.__name__}.{place.field}"
    blob_type = BlobType("bytes", KINDS, marker.over, kind is LazyBytes, where)
    return nullable(blob_type) if admits_none(info.annotation) else blob_type


def _compressed(type_: StoredType, info: FieldInfo, place: Place) -> StoredType:
    """The type of a field, compressed if it has that marker."""
    how = find_marker(info, Compressed)
    if how is None:
        return type_
    try:
        stored_type = compressed_type(type_.inner if isinstance(type_, NullableType) else type_, how)
    except ValueError as error:
        raise place.fault(info.annotation, str(error), "correct it, or remove the marker") from None
    return nullable(stored_type) if isinstance(type_, NullableType) else stored_type


def _of_64_bits(type_: StoredType, info: FieldInfo) -> StoredType:
    """The type of a field; an int with a marker for a number that servers compute with has 64 bits."""
    marks = tuple(metadata_of(info))
    if type_ == scalars.INT and any(isinstance(mark, CounterMarker) for mark in marks):
        return scalars.COUNTER
    if bare(type_) == scalars.INT and any(isinstance(mark, AggregateMarker) for mark in marks):
        return nullable(scalars.AGGREGATE) if isinstance(type_, NullableType) else scalars.AGGREGATE
    return type_


def _default(info: FieldInfo, place: Place, schema: ModelSchema | None) -> Any:
    """The default that instances get; the declared one if it does not validate, which pydantic reports better."""
    if info.default is PydanticUndefined:
        return NOTHING
    if schema is None or not (info.validate_default or place.configured("validate_default")):
        return info.default
    try:
        return schema.validator(place.field).validate_python({})[place.field]
    except (ValidationError, KeyError):
        return info.default


def _meaning(alias: TypeAliasType, place: Place) -> Any:
    """The value of an alias."""
    try:
        return alias_value(alias)
    except NameError as error:
        raise place.fault(alias, f"refers to {error.name!r}, which is not defined", "define it first") from error


def _scalar(annotation: Any) -> StoredType | None:
    if is_email(annotation):
        return scalars.STR
    try:
        return _SCALARS.get(annotation)
    except TypeError:  # Annotated with metadata that has no hash
        return None


def _is_url(cls: type[Any]) -> bool:
    if NETWORKS not in sys.modules:  # then no model has one of its types
        return False
    return issubclass(cls, (pydantic.AnyUrl, pydantic.PostgresDsn, pydantic.MongoDsn, pydantic.NatsDsn))


def _enum(cls: type[Enum], place: Place) -> StoredType:
    try:
        return enum_type(cls, by_value=place.configured("use_enum_values"))
    except Unfit as unfit:
        raise place.fault(cls, f"has the value {unfit.value!r}, which cannot be stored", _SIMPLE) from None


def _literal(annotation: Any, values: tuple[Any, ...], place: Place) -> StoredType:
    present = tuple(value for value in values if value is not None)
    if not present:
        return _NONE
    try:
        literal = literal_type(present)
    except Unfit as unfit:
        raise place.fault(annotation, f"has the value {unfit.value!r}, which cannot be stored", _SIMPLE) from None
    return literal if len(present) == len(values) else nullable(literal)


def _bound(variable: TypeVar) -> Any:
    """The type that pydantic uses for an unbound type variable."""
    if variable.__constraints__:
        return Union[variable.__constraints__]  # noqa: UP007  # X | Y takes no tuple
    return Any if variable.__bound__ is None else variable.__bound__


def _unknown(annotation: Any, place: Place) -> SchemaError:
    if annotation is LazyBytes:
        return place.fault(annotation, "is not marked by Blob", f"mark the whole field: {Blob._odm_usage}")
    if annotation is pydantic.NaiveDatetime:
        return place.fault(annotation, "has no time zone and cannot be stored", "declare AwareDatetime")
    return place.fault(annotation, "cannot be stored", _STORABLE)


def _check_metadata(metadata: Any, annotation: Any, place: Place) -> None:
    for mark in metadata:
        if mark is Stored:
            raise place.fault(annotation, "is marked by Stored without the name", 'write Stored("name")')
        if mark is Blob:
            raise place.fault(annotation, "is marked by Blob without a number", "write Blob(over=100_000)")
        if mark is Compressed:
            raise place.fault(annotation, "is marked by Compressed without parentheses", 'write Compressed("zstd")')
        if mark is CellVersions:
            raise place.fault(annotation, "is marked by CellVersions without a count", "write CellVersions(5)")
        if isinstance(mark, _CHANGING) or mark is pydantic.types.Json:
            name = getattr(mark, "__name__", type(mark).__name__)
            why = f"with {name} decodes its input, and would decode it again each time it is loaded"
            raise place.fault(annotation, why, "declare the decoded type")
        if isinstance(mark, pydantic.PlainSerializer | pydantic.WrapSerializer):
            warnings.warn(
                f"{place.cls.__name__}.{place.field}: {type(mark).__name__} does not apply to stored items: odm stores "
                "the value of the field, not its serialized form; if that is intended, filter this warning",
                stacklevel=2,
            )


def _check_union(type_: UnionType, annotation: Any, place: Place) -> None:
    for member, other in combinations(type_.members, 2):
        if not can_stand_together(member, other):
            why = (
                f"has members that are stored alike, {member.text} and {other.text}, so that it could not be read back"
            )
            fix = "declare one of them, or models with a Literal field that distinguishes them"
            raise place.fault(annotation, why, fix)
