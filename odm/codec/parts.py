"""Reads parts of an entity, its fields and members of them, from items of which not all attributes were read.

A part has the value that the whole entity would have. What depends on more than its field needs the whole item: a model
validator, a ``model_post_init``, and a validator or default factory that sees the other fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic_core import CoreSchema, core_schema

from odm.codec.types.containers import DictType
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.stored import NOTHING, StoredType
from odm.codec.types.unions import bare
from odm.codec.types.validation import ModelSchema, validating, validator_of
from odm.expressions.nodes import Item, Path
from odm.immutable import Immutable, field

Validators: TypeAlias = dict[tuple[str, int], Callable[[Any], Any]]
"""Validators by the field, and how many segments of a path lead to the value."""

_AROUND: Final = frozenset({"definitions", "definition-ref", "model", "model-fields"})
_NESTED: Final = frozenset({"model", "dataclass", "typed-dict"})
_KEPT: Final = frozenset({"type", "metadata", "pattern", "min_length", "max_length", "strict"})
"""The settings of a text that validation returns unchanged."""


class FieldPart(Immutable):
    """A field, or a part of one.

    Attributes:
        path: by field names.
        stored: the stored path to read: up to the part, or to what must be validated as a whole.
        whole: it can only be read from a whole item.
    """

    path: Path
    stored: Path
    whole: bool
    _field: RecordField = field(repr=False)
    _types: tuple[StoredType, ...] = field(repr=False)  # of the path up to each segment
    _validate: Callable[[Any], Any] = field(repr=False)

    def of_item(self, item: Item) -> Any:
        """The value at ``stored`` in a stored item, of which `inside` takes the part; `NOTHING` if it has none.

        Raises:
            ValidationError: it does not fit the model.
        """
        if len(self.stored.segments) == 1:
            return self._of_field(item)
        value = self.stored_in(item)
        if value is NOTHING:
            return NOTHING
        return self._validate({self.path.root: self.stored_type.load(value)})[self.path.root]

    def stored_in(self, item: Item) -> Any:
        """What is stored at ``stored``; `NOTHING` if nothing is."""
        value = item.get(self.stored.root, NOTHING)
        for segment in self.stored.segments[1:]:
            value = value.get(segment, NOTHING) if isinstance(value, dict) else NOTHING
        return value

    @property
    def stored_type(self) -> StoredType:
        """The type of what is at ``stored``."""
        return self._types[len(self.stored.segments)]

    def _of_field(self, item: Item) -> Any:
        record_field, values = self._field, {}
        value = item.get(record_field.stored, NOTHING)
        if value is not NOTHING:
            values[record_field.name] = record_field.type.load(value)
        elif record_field.fills_in:
            values[record_field.name] = set()
        return self._validate(values)[record_field.name]

    def of_entity(self, entity: Any) -> Any:
        """The value in a whole entity; `NOTHING` if it has none."""
        return self.inside(getattr(entity, self.path.root), 1)

    def inside(self, value: Any, start: int) -> Any:
        """The value at the path, from that of its first segments."""
        for at, segment in enumerate(self.path.segments[start:], start):
            value = _below(value, segment, self._types[at])
            if value is NOTHING:
                return NOTHING
        return value


def _below(value: Any, segment: str | int, type_: StoredType) -> Any:
    """The part of a value; `NOTHING` if it has none."""
    if isinstance(value, Mapping):
        if segment in value:
            return value[segment]
        inner = bare(type_)
        keys = [key for key in value if inner.key.dump(key) == segment] if isinstance(inner, DictType) else []
        return value[keys[0]] if keys else NOTHING
    if isinstance(segment, int):
        return value[segment] if isinstance(value, list | tuple) and segment < len(value) else NOTHING
    named = isinstance(value, BaseModel) or is_dataclass(value)
    return getattr(value, segment, NOTHING) if named else NOTHING


def compile_part(record: RecordType, schema: ModelSchema, path: Path, validators: Validators) -> FieldPart:
    """Compile a path that is known to lead somewhere.

    Args:
        record: the type of the entity.
        schema: the validation of its fields.
        path: the path by field names.
        validators: those that were made before; all members of a dict have the same.
    """
    field = record.fields[path.root]
    types: list[StoredType] = [record]
    names: list[str | int] = []
    for segment in path.segments:
        part = types[-1].child(segment)
        types.append(part.type)
        names.append(part.segment)
    apart, node = 1, schema.fields[path.root]
    inner: Any = _members(node, schema) if _starts_empty(field) else None
    while inner is not None and apart < len(names) and isinstance(bare(types[apart]), DictType):
        node, apart = inner, apart + 1
        inner = _members(node, schema)
    validator = validators.get((path.root, apart))
    if validator is None:
        validator = validators[path.root, apart] = _alone(schema, path.root, node)
    whole = _sees_others(
        schema.fields[path.root], {str(definition.get("ref")): definition for definition in schema.definitions}
    )
    return FieldPart(Path(path.segments), Path(tuple(names[:apart])), whole, field, tuple(types), validator)


def needs_whole(cls: type[BaseModel]) -> bool:
    """Whether code of the model may change a field by what others hold."""
    node: Any = cls.__pydantic_core_schema__
    definitions: dict[str, Any] = {}
    while node["type"] != "model-fields":
        if node["type"] not in _AROUND or node.get("custom_init") or node.get("post_init") or node.get("root_model"):
            return True
        if node["type"] == "definitions":
            definitions |= {definition["ref"]: definition for definition in node["definitions"]}
        node = definitions[node["schema_ref"]] if node["type"] == "definition-ref" else node["schema"]
    return False


def _alone(schema: ModelSchema, name: str, node: CoreSchema) -> Callable[[Any], Any]:
    """A validator of dicts with only this value; it sees no other data."""
    alone = core_schema.typed_dict_schema({name: core_schema.typed_dict_field(node)}, config=schema.config)
    definitions = list(schema.definitions)
    return validating(validator_of(core_schema.definitions_schema(alone, definitions) if definitions else alone))


def _members(node: Any, schema: ModelSchema) -> Any:
    """The validation of the members of a dict, if a member can be validated alone; otherwise None."""
    definitions: dict[str, Any] = {str(definition.get("ref")): definition for definition in schema.definitions}
    while node["type"] in ("default", "nullable", "definition-ref"):
        node = definitions[node["schema_ref"]] if node["type"] == "definition-ref" else node["schema"]
    if node["type"] != "dict":
        return None
    keys = node.get("keys_schema", {"type": "any"})
    plain = keys["type"] == "any" or (keys["type"] == "str" and keys.keys() <= _KEPT)
    return node.get("values_schema", core_schema.any_schema()) if plain else None


def _starts_empty(record_field: RecordField) -> bool:
    """Whether a member that is not stored has no value: the field's default has no members."""
    default = record_field.default if record_field.factory is None else record_field.factory()
    return default is NOTHING or default is None or (isinstance(default, Mapping) and not default)


def _sees_others(node: Any, definitions: Mapping[str, Any]) -> bool:
    """Whether a validator or a default factory of a field may see the other fields."""
    if isinstance(node, list | tuple):
        return any(_sees_others(part, definitions) for part in node)
    if not isinstance(node, dict):
        return False
    kind = node.get("type")
    if not isinstance(kind, str):  # schemas by name, one of which may be "type"
        return _sees_others(list(node.values()), definitions)
    if kind in _NESTED:
        return False
    if kind == "definition-ref" and (ref := node["schema_ref"]) in definitions:
        # Without the definition that is being followed, or a recursive type would not end.
        rest = {name: definition for name, definition in definitions.items() if name != ref}
        return _sees_others(definitions[ref], rest)
    sees = kind == "with-info" or bool(node.get("default_factory_takes_data"))
    return sees or any(_sees_others(part, definitions) for part in node.values())
