"""Properties of an entity that are proved when it is compiled, so that the hot path can skip steps.

`reads_json`: its item can be validated from JSON text. `takes_all`: everything that can be written can be read back,
which needs no check then. Both hold only for the types and core schema nodes that are listed here.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Flag
from math import inf
from typing import Any, Final, TypeAlias
from uuid import UUID

from pydantic_core import SchemaValidator

from odm.codec.types.compressed import CompressedType
from odm.codec.types.containers import AnyType, DictType, FixedTupleType, JsonType, ListType, SetType
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.scalars import (
    AGGREGATE,
    BOOL,
    BYTES,
    COUNTER,
    DECIMAL,
    FLOAT,
    INT,
    STR,
    EnumType,
    LiteralType,
    TextType,
)
from odm.codec.types.stored import LIST, MAP, StoredType
from odm.codec.types.times import DATE, DATETIME, DURATION, TIME
from odm.codec.types.unions import NullableType

_Node: TypeAlias = Mapping[str, Any]

_SIMPLE: Final = frozenset({BOOL, STR, INT, COUNTER, AGGREGATE, DECIMAL, FLOAT, DATETIME, DATE, TIME})
"""Types with one stored form that JSON has too, and that pydantic reads alike from JSON and from Python."""

_ALIKE: Final = frozenset(
    {
        *("bool", "str", "int", "float", "decimal", "datetime", "date", "time", "uuid", "literal", "enum", "nullable"),
        *("list", "tuple", "set", "frozenset", "dict", "model", "model-fields", "model-field", "default"),
        *("definitions", "definition-ref", "function-after"),
    }
)
"""Core schema nodes that accept the same values from JSON and from Python values of JSON's types."""

_SURE: Final = (_ALIKE | {"any", "bytes", "timedelta"}) - {"function-after"}

_CHILDREN: Final = ("schema", "items_schema", "keys_schema", "values_schema", "definitions", "fields")

_HARMLESS: Final = frozenset(
    {
        *("type", "ref", "metadata", "serialization", "cls", "config", "model_name", "computed_fields", "schema_ref"),
        *("generic_origin", "custom_init", "root_model", "frozen", "sub_type", "members", "missing", "expected"),
        *("default", "default_factory", "default_factory_takes_data", "copy_default", "validate_default"),
        *("validation_alias", "serialization_alias", "serialization_exclude", "serialization_exclude_if"),
        *("microseconds_precision", "variadic_item_index", "extra_behavior", "strict", *_CHILDREN),
    }
)
"""Options of a node that do not make it refuse a value of its type."""

_HARMLESS_CONFIG: Final = frozenset(
    {
        *("title", "extra_fields_behavior", "from_attributes", "revalidate_instances", "validate_default", "frozen"),
        *("populate_by_name", "validate_by_name", "validate_by_alias", "loc_by_alias", "serialize_by_alias", "strict"),
        *("hide_input_in_errors", "validation_error_cause", "allow_inf_nan", "regex_engine", "cache_strings"),
        *("ser_json_timedelta", "ser_json_temporal", "ser_json_bytes", "ser_json_inf_nan", "val_json_bytes"),
        *("str_strip_whitespace", "str_to_lower", "str_to_upper"),
    }
)


def reads_json(record: RecordType, nodes: Iterable[_Node]) -> bool:
    """Whether every JSON text of an item that validates gives the same entity as its decoded item."""
    return _is_alike(record, set()) and all(map(_is_alike_node, nodes))


def takes_all(record: RecordType, nodes: Iterable[_Node]) -> bool:
    """Whether every item that `RecordType.dump` makes validates."""
    return _is_sure(record, set()) and all(map(_is_sure_node, nodes))


def levels_of(type_: StoredType, above: tuple[RecordType, ...] = ()) -> float:
    """How many levels of lists and dicts the values of a type can have; infinity if there is no bound."""
    match type_:
        case NullableType(inner=part):
            return levels_of(part, above)
        case ListType(item=part) | DictType(item=part):
            return 1 + levels_of(part, above)
        case FixedTupleType():
            return 1 + max((levels_of(part, above) for part in type_.items), default=0)
        case RecordType():
            below = (*above, type_)
            return (
                inf if type_ in above else 1 + max((levels_of(f.type, below) for f in type_.fields.values()), default=0)
            )
    return inf if type_.kinds & (LIST | MAP) else 0


def nodes_of(schema: Any) -> list[_Node]:
    """Every node of a core schema."""
    nodes: list[_Node] = []
    pending = [schema]
    while pending:
        part = pending.pop()
        if not isinstance(part, dict):
            pending.extend(part if isinstance(part, list | tuple) else ())
        elif isinstance(part.get("type"), str):
            nodes.append(part)
            pending.extend([part[name] for name in _CHILDREN if name in part])
        else:
            pending.extend(part.values())
    return nodes


def _is_alike_node(node: _Node) -> bool:
    if node["type"] == "function-after":
        return bool(node["function"]["type"] == "no-info")  # `info.mode` would differ
    if node["type"] == "model":
        config = node.get("config", {})
        return not (node.get("root_model") or node.get("custom_init") or config.get("coerce_numbers_to_str"))
    return node["type"] in _ALIKE and node.get("on_error", "raise") == "raise"


def _is_sure_node(node: _Node) -> bool:
    said = node.keys() - ({"tz_constraint"} if node.get("tz_constraint") == "aware" else set())
    return node["type"] in _SURE and said <= _HARMLESS and node.get("config", {}).keys() <= _HARMLESS_CONFIG


def _is_alike(type_: StoredType, seen: set[RecordType]) -> bool:
    match type_:
        case LiteralType():
            return type_.lax() and all(kind in {str, int} for kind, _ in type_.loaded)
        case EnumType():
            return all(type(value) is str for value in type_.values)
        case RecordType():
            return _of_record(type_, seen, _is_alike) and all(map(_reads_absent, type_.fields.values()))
    return _is_simple(type_) or _of_parts(type_, seen, _is_alike)


def _is_sure(type_: StoredType, seen: set[RecordType]) -> bool:
    match type_:
        case LiteralType():
            return True
        case EnumType():
            return not issubclass(type_.cls, Flag)
        case RecordType():
            return _of_record(type_, seen, _is_sure)
        case AnyType():
            return not isinstance(type_, JsonType)
        case CompressedType():
            return True  # it writes nothing that is larger than what it reads
    return _is_simple(type_) or type_ in {BYTES, DURATION} or _of_parts(type_, seen, _is_sure)


def _is_simple(type_: StoredType) -> bool:
    return type_ in _SIMPLE or (isinstance(type_, TextType) and type_.accepts is UUID)


def _of_parts(type_: StoredType, seen: set[RecordType], holds: Callable[[StoredType, set[RecordType]], bool]) -> bool:
    match type_:
        case NullableType(inner=part) | ListType(item=part) | SetType(item=part):
            return holds(part, seen)
        case DictType():
            return type_.key is STR and holds(type_.item, seen)
        case FixedTupleType():
            return type_.of is tuple and all(holds(part, seen) for part in type_.items)
    return False


def _of_record(record: RecordType, seen: set[RecordType], holds: Callable[[StoredType, set[RecordType]], bool]) -> bool:
    if record in seen:
        return True
    seen.add(record)
    # A plugin of pydantic's has a validator of its own.
    plain = not record.opaque and type(record.validator) is SchemaValidator
    return plain and all(not f.early and f.name == f.stored and holds(f.type, seen) for f in record.fields.values())


def _reads_absent(record_field: RecordField) -> bool:
    """Whether pydantic also reads an absent set as the empty set, or refuses its absence."""
    return record_field.required or not record_field.fills_in
