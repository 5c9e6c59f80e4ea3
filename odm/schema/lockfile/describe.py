"""From a compiled schema to its description: tables, entities, patterns, keys, fields and what checks these.

Only what affects the stored form is described: a list and a tuple of any length are the same, and the names of models
and enums are omitted, because they are not stored.

The position of a type in an annotation is ``""`` for the field itself and ``[0]`` for the items of a list. What nested
models declare belongs to their own fields; the classes of these models are among the types.

Of code of the user's, such as validators, only that it is there can be described, not what it does. Limits are the
constraints of fields and of the parts of their types, narrow types such as PastDate, and the options of a model's
configuration that affect stored values. Left out is what has no effect on them: odm reads by field name, not strictly,
from Python values and without undeclared attributes, and refuses what no number can store.
"""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum, Flag
from math import isfinite
from operator import itemgetter
from types import NoneType
from types import UnionType as Alternatives  # the type of ``int | str``
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Not, Predicate
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ByteSize,
    Discriminator,
    EmailStr,
    FutureDate,
    FutureDatetime,
    PastDate,
    PastDatetime,
    PlainValidator,
    RootModel,
    WrapValidator,
)
from pydantic.fields import FieldInfo

from odm.codec.types.containers import DictType, FixedTupleType, ListType, SetType
from odm.codec.types.models import Place, field_infos
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.scalars import EnumType, LiteralType
from odm.codec.types.stored import NOTHING, StoredType, Unfit
from odm.codec.types.unions import NullableType, RootType, UnionType, bare
from odm.entities.markers import ALIASES, Marker, alias_value
from odm.expressions.nodes import Value, text_of
from odm.keys import Template
from odm.schema.entity import CellAt, EntitySchema, PatternSchema
from odm.schema.lockfile.description import (
    FORMAT,
    EntityLock,
    FieldLock,
    PatternLock,
    ShardsLock,
    SlotLock,
    TableLock,
    TemplateLock,
)
from odm.schema.model import Schema


def classes_in(info: FieldInfo) -> Iterator[tuple[str, type[Any]]]:
    """The classes in a field's annotation: models, enums and others."""
    for place, node in _nodes(info.annotation):
        cls = get_origin(node) or node
        if isinstance(cls, type):
            yield place, cls


def marks_in(info: FieldInfo) -> Iterator[tuple[str, Any]]:
    """The metadata of a field and of the parts of its annotation."""
    yield from (("", mark) for mark in _spread((info,)))
    for place, node in _nodes(info.annotation):
        if get_origin(node) is Annotated:
            yield from ((place, mark) for mark in _spread(get_args(node)[1:]))
        elif _is_root(node):
            yield from ((place, mark) for mark in _spread((node.model_fields["root"],)))


def order_of(info: FieldInfo, place: str) -> str:
    """The order of the members of the union at a position."""
    unions = [node for at, node in _nodes(info.annotation) if at == place and get_origin(node) in {Union, Alternatives}]
    return ", ".join(getattr(get_origin(part) or part, "__name__", "?") for part in get_args(unions[-1]))


def _spread(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for mark in metadata:
        if isinstance(mark, FieldInfo):
            yield from mark.metadata
            if isinstance(mark.discriminator, Discriminator):
                yield mark.discriminator
        else:
            yield mark


def _nodes(annotation: Any, place: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    if annotation in above:  # a recursive type
        return
    yield place, annotation
    for inner_place, inner in _parts(annotation, place):
        yield from _nodes(inner, inner_place, (*above, annotation))


def _parts(annotation: Any, place: str) -> Iterator[tuple[str, Any]]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield place, args[0]
    elif isinstance(origin or annotation, ALIASES):
        yield place, alias_value(origin or annotation)
    elif isinstance(annotation, NewType):
        yield place, annotation.__supertype__
    elif isinstance(annotation, TypeVar):
        bounds = annotation.__constraints__ or (annotation.__bound__ or Any,)
        yield from ((place, bound) for bound in bounds)
    elif _is_root(annotation):
        yield place, annotation.model_fields["root"].annotation
    elif isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, include_extras=True)
        names: tuple[str, ...] = getattr(annotation, "_fields")  # noqa: B009  # no type checker knows it
        yield from ((f"{place}[{number}]", hints.get(name, Any)) for number, name in enumerate(names))
    elif origin is not Literal:
        parts = [part for part in args if part not in (NoneType, ...)]
        alone = origin in {Union, Alternatives} and len(parts) == 1
        yield from ((place if alone else f"{place}[{number}]", part) for number, part in enumerate(parts))


def _is_root(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, RootModel)


_MODES: Final = {AfterValidator: "after", BeforeValidator: "before", PlainValidator: "plain", WrapValidator: "wrap"}
_HOOK: Final = "__get_pydantic_core_schema__"

_HARMLESS: Final = frozenset(
    {"PathType", "PlainSerializer", "SerializeAsAny", "Tag", "UrlConstraints", "UuidVersion", "WrapSerializer"}
)
"""Pydantic's metadata with a hook that is described elsewhere, or has no effect on what is read."""

_KNOWN: Final = frozenset({"builtins", "enum", "odm", "pydantic"})
"""The packages whose own methods are no code of the user's."""


def validators_of(info: FieldInfo, owner: type[Any], name: str) -> tuple[str, ...]:
    """The validators of a field and of the parts of its type, which start with their position; in order."""
    texts = [_within(place, text) for place, mark in marks_in(info) if (text := _validator(mark))]
    texts += [_within(place, text) for place, cls in classes_in(info) for text in validators_of_class(cls)]
    return (*texts, *_decorated(owner, name))


def validators_of_class(cls: type[Any]) -> Iterator[str]:
    """The validators of a whole model or dataclass, and of an Enum."""
    decorators = getattr(cls, "__pydantic_decorators__", None)
    if decorators is not None:
        for kind in (decorators.model_validators, decorators.root_validators):
            yield from (f"{decorator.info.mode} {name}" for name, decorator in kind.items())
    if issubclass(cls, RootModel):
        yield from _decorated(cls, "root")
    hooks: list[str] = []
    if issubclass(cls, BaseModel):
        hooks = ["__init__", "model_post_init", _HOOK]
    elif issubclass(cls, Enum):
        hooks = ["_missing_", _HOOK]
    elif decorators is not None or hasattr(cls, "__dataclass_fields__"):
        hooks = ["__post_init__", _HOOK]
    yield from (name for name in hooks if _is_own(getattr(cls, name, None)))


def name_of(code: Any) -> str:
    """The name of a function, or of that in a piece of metadata, without its address."""
    while hasattr(code, "func"):  # a piece of metadata, or a partial
        code = code.func
    return str(getattr(code, "__name__", type(code).__name__))


def _decorated(owner: type[Any], field: str) -> Iterator[str]:
    decorators = getattr(owner, "__pydantic_decorators__", None)
    if decorators is None:
        return
    for kind in (decorators.field_validators, decorators.validators):
        for name, decorator in kind.items():
            if {field, "*"} & {*decorator.info.fields}:
                yield f"{decorator.info.mode} {name}"


def _validator(mark: Any) -> str:
    """The name of a piece of metadata that runs code; "" for any other."""
    for cls, mode in _MODES.items():
        if isinstance(mark, cls):
            return f"{mode} {name_of(mark)}"
    kind = mark if isinstance(mark, type) else type(mark)
    harmless = kind.__name__ in _HARMLESS and kind.__module__.startswith("pydantic")
    if not hasattr(mark, _HOOK) or harmless or issubclass(kind, Marker):
        return ""
    if isinstance(mark, Discriminator):
        return "" if isinstance(mark.discriminator, str) else f"discriminator {name_of(mark.discriminator)}"
    return kind.__name__.lstrip("_")


def _is_own(method: Any) -> bool:
    """Whether a method is neither pydantic's nor the standard library's."""
    if method is None:
        return False
    wrapped = getattr(method, "__name__", "") == "wrapped_model_post_init"  # pydantic's, around one of the user's
    return wrapped or str(getattr(method, "__module__", None)).partition(".")[0] not in _KNOWN


def _within(place: str, text: str) -> str:
    return f"{place} {text}" if place else text


LIMITS: Final = (
    "ge",
    "gt",
    "le",
    "lt",
    "min_length",
    "max_length",
    "multiple_of",
    "max_digits",
    "decimal_places",
    "pattern",
    "strip_whitespace",
    "to_lower",
    "to_upper",
    "uuid_version",
    "ascii_only",
    "coerce_numbers_to_str",
    "path_type",
    "union_mode",
)
"""The constraints that are described, by their attribute name in annotated-types and pydantic."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "coerce_numbers_to_str": False,
    "regex_engine": "rust-regex",
    "str_max_length": None,
    "str_min_length": 0,
    "str_strip_whitespace": False,
    "str_to_lower": False,
    "str_to_upper": False,
    "url_preserve_empty_path": False,
    "use_enum_values": False,
}
"""The options of a configuration that are described, with pydantic's default."""

_NARROW: Final[Mapping[Any, str]] = {
    ByteSize: "byte_size",
    EmailStr: "email",
    FutureDate: "future",
    FutureDatetime: "future",
    PastDate: "past",
    PastDatetime: "past",
}
"""Types that are stored like a wider one, by the name of their limit."""

_Limits = dict[str, bool | int | float | str]


def limits_of(info: FieldInfo) -> _Limits:
    """The constraints of a field, by name; those of a part of its type start with its position: ``[0].max_length``.

    Of several with one name the last counts, as in pydantic.
    """
    limits: _Limits = {}
    for place, mark in marks_in(info):
        for name, value in _limits(mark):
            limits[_member(place, name)] = f"{value} of {order_of(info, place)}" if name == "union_mode" else value
            if name == "decimal_places":  # more places leave fewer digits before the point
                _add_whole_digits(limits, place)
    for place, cls in classes_in(info):
        limits.update(
            {_member(place, name): value for name, value in {**_limits_of(cls, place), **options_of(cls)}.items()}
        )
    return limits


def options_of(cls: type[Any]) -> _Limits:
    """The options of a model's configuration that affect stored values; none for other classes."""
    if issubclass(cls, BaseModel):
        config: Mapping[str, Any] = cls.model_config
    elif is_dataclass(cls) or issubclass(cls, tuple):
        config = getattr(cls, "__pydantic_config__", {})
    else:
        return {}
    return {name: config[name] for name, usual in _OPTIONS.items() if config.get(name, usual) not in (usual, None)}


def _limits(mark: Any) -> Iterator[tuple[str, Any]]:
    """The constraints in one piece of metadata."""
    if isinstance(mark, Predicate | Not):
        yield type(mark).__name__.lower(), name_of(mark)
    for name in LIMITS:
        value = getattr(mark, name, None)
        if value is not None and value is not False:
            yield name, value if _is_json(value) else str(value)


def _limits_of(cls: type[Any], place: str) -> _Limits:
    """The constraints of a class."""
    limits: _Limits = {}
    if cls in _NARROW:
        limits[_NARROW[cls]] = True
    if issubclass(cls, AnyUrl) and not cls.__module__.startswith("pydantic"):  # pydantic's are known by their name
        limits["url"] = str(cls._constraints)
    if issubclass(cls, Flag):
        limits["boundary"] = cls._boundary_.name.lower()  # type: ignore[attr-defined]
        if place:  # otherwise its values are described
            limits["flags"] = sum({member.value for member in cls})
    return limits


def _add_whole_digits(limits: _Limits, place: str) -> None:
    digits, places = (limits.get(_member(place, name)) for name in ("max_digits", "decimal_places"))
    if isinstance(digits, int) and isinstance(places, int):
        limits[_member(place, "max_whole_digits")] = digits - places


def _is_json(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and isfinite(value))


def _member(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


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


def describe(schema: Schema) -> TableLock:
    """The description of where and how the items of a table are stored.

    Args:
        schema: what ``Table.compile()`` returns.
    """
    return TableLock(
        format=FORMAT,
        keys=schema.keys,
        index_keys={
            name: index.keys for name, index in schema.indexes.items() if index.keys != (f"{name}pk", f"{name}sk")
        },
        verbatim=schema.verbatim,
        tag=schema.tag,
        ttl=schema.ttl,
        hash_only=schema.hash_only,
        row_key_join=schema.row_key_join,
        wide=schema.wide,
        verbatim_rows=schema.verbatim_rows,
        transactions=schema.transactions,
        entities={tag: _entity(entity) for tag, entity in schema.entities.items()},
    )


def _entity(entity: EntitySchema) -> EntityLock:
    stored = entity.codec.stored
    columns = {stored[name] for name in entity.columns}
    return EntityLock(
        name=entity.name,
        version=entity.version,
        keep=entity.keep,
        primary=_pattern(entity, entity.primary),
        patterns={str(pattern.index): _pattern(entity, pattern) for pattern in entity.patterns.values()},
        fields=describe_fields(entity.codec.record),
        ttl=None if entity.ttl is None else stored[entity.ttl],
        revision=None if entity.revision is None else stored[entity.revision],
        counters=tuple(sorted(stored[name] for name in entity.counters)),
        columns=tuple(sorted(columns)),
        family=entity.family,
        families=entity.families,
        cells={name: _cell(cell, entries=name in columns) for name, cell in entity.cells.items()},
        aggregates={stored[name]: kind for name, kind in sorted(entity.aggregates.items())},
        versioned={stored[name]: count for name, count in sorted(entity.versioned.items())},
        blobs=tuple(sorted(entity.blobs)),
        limits=options_of(entity.cls),
        validators=tuple(validators_of_class(entity.cls)),
    )


def _pattern(entity: EntitySchema, pattern: PatternSchema) -> PatternLock:
    return PatternLock(
        name=pattern.name,
        kind=pattern.kind,
        partition=_template(entity, pattern.partition),
        sort=None if pattern.sort is None else _template(entity, pattern.sort),
        when=None if pattern.when is None else str(pattern.when),
        shards=_shards(entity, pattern),
        projection=pattern.projection,
    )


def _shards(entity: EntitySchema, pattern: PatternSchema) -> ShardsLock | None:
    if pattern.shards is None or pattern.kind == "local":  # a local index has the shards of the primary key
        return None
    by = None if pattern.hashed is None else _slots(entity, pattern.hashed)[0]
    return ShardsLock(count=pattern.shards.count, by=by, was=pattern.shards.was)


def _template(entity: EntitySchema, template: Template) -> TemplateLock:
    return TemplateLock(text=template.text, slots=_slots(entity, template))


def _slots(entity: EntitySchema, template: Template) -> tuple[SlotLock, ...]:
    stored = entity.codec.stored
    # A computed field is not stored: with "()" it is another one than a stored field of its name.
    names = ((slot, stored.get(slot.name, f"{slot.name}()")) for slot in template.slots)
    return tuple(SlotLock(field=name, encoding=slot.type.encoding) for slot, name in names)


def _cell(cell: CellAt, *, entries: bool) -> str:
    """A cell as `odm.Cell` names it, with a ``*`` for the keys of entries, and its encoding."""
    return f"{cell.family}:{cell.qualifier}{'*' * entries} {cell.encoding or 'own'}"
