"""What the codec reads from pydantic's core schema of a class: where user code runs, and validators of fields.

Only the public `__pydantic_core_schema__` is read; its nodes are documented in `pydantic_core.core_schema`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, SchemaError, SchemaValidator, core_schema

from odm.codec.types.stored import Unreadable
from odm.immutable import Immutable

_LOADING: Final = MappingProxyType({"odm": "load"})
"""The ``info.context`` of validators while a stored item is read; read-only, because it is shared."""

_EARLY: Final = frozenset({"function-before", "function-wrap", "function-plain"})
_PLAIN: Final = {"str": str, "int": int, "bool": bool}
_NESTED: Final = frozenset({"model", "dataclass", "typed-dict"})


def validator_of(schema: CoreSchema) -> SchemaValidator:
    """Build a validator. pydantic-core turns an interrupt by the user that comes meanwhile into its own error."""
    try:
        return SchemaValidator(schema)
    except SchemaError as error:
        if KeyboardInterrupt.__name__ in str(error):
            raise KeyboardInterrupt from error
        raise


def validated(validator: SchemaValidator, values: Any) -> Any:
    """Validate a stored item: by field name, and not strictly, because there are fewer stored forms than types.

    Raises:
        pydantic.ValidationError: the item does not fit the model.
    """
    return validating(validator)(values)


def validating(validator: SchemaValidator) -> Callable[[Any], Any]:
    """The function behind `validated`, for use with many items."""
    return partial(validator.validate_python, strict=False, context=_LOADING, by_alias=False, by_name=True)


def validating_text(validator: SchemaValidator) -> Callable[[bytes], Any]:
    """A function that validates the JSON text of a stored item, as `validated` does."""
    return partial(validator.validate_json, strict=False, context=_LOADING, by_alias=False, by_name=True)


class ModelSchema(Immutable):
    """The parts of the core schema of a model.

    Attributes:
        fields: the validation of each field, defaults and field validators included.
        definitions: the schemas that fields refer to.
        early: user code sees the input before its fields are validated: model validators, a custom ``__init__``.
        custom_init: the class has a custom ``__init__``.
    """

    fields: Mapping[str, CoreSchema]
    config: core_schema.CoreConfig
    definitions: tuple[CoreSchema, ...]
    early: bool
    custom_init: bool

    @property
    def opaque(self) -> bool:
        """Validation must get a new dict, with known fields only."""
        return self.early or self.config.get("extra_fields_behavior", "ignore") != "ignore"

    @property
    def as_they_are(self) -> dict[str, type]:
        """The fields whose validation returns every value of this type unchanged; ASCII text only."""
        if self.config.keys() - {"title"}:
            return {}
        return {name: type_ for name, schema in self.fields.items() if (type_ := _plain_type(schema)) is not None}

    def validator(self, field: str) -> SchemaValidator:
        """A validator of dicts with only this field; the field's validators see its name and no other data."""
        alone = core_schema.typed_dict_schema(
            {field: core_schema.typed_dict_field(self.fields[field])}, config=self.config
        )
        whole = core_schema.definitions_schema(alone, list(self.definitions)) if self.definitions else alone
        return validator_of(whole)


def _plain_type(schema: Any) -> type | None:
    """The type whose values validation returns unchanged; None if the field has more than a type."""
    node = schema["schema"] if schema["type"] == "default" else schema
    return _PLAIN.get(node["type"]) if node.keys() <= {"type", "metadata"} else None


def model_schema(cls: type[BaseModel]) -> ModelSchema:
    """The parts of the core schema of a complete model class."""
    node = cast("dict[str, Any]", cls.__pydantic_core_schema__)
    definitions: dict[str, dict[str, Any]] = {}
    config: core_schema.CoreConfig = {}
    early = custom_init = False
    while node["type"] != "model-fields" and not node.get("root_model"):
        match node["type"]:
            case "definitions":
                definitions = {definition["ref"]: definition for definition in node["definitions"]}
            case "definition-ref":
                node = definitions[node["schema_ref"]]
                continue
            case "model":
                config = node.get("config", {})
                custom_init = bool(node.get("custom_init"))
            case kind:
                early = early or kind in _EARLY
        node = node["schema"]
    early = early or custom_init
    if node.get("root_model"):
        return ModelSchema({}, config, (), early, custom_init)
    fields = {name: node_field["schema"] for name, node_field in node["fields"].items()}
    schemas = cast("tuple[CoreSchema, ...]", tuple(definitions.values()))
    return ModelSchema(fields, config, schemas, early, custom_init)


def runs_early(schema: Any) -> bool:
    """Whether code runs before pydantic's own validation anywhere in a field, not counting models inside it."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if not isinstance(kind, str):  # schemas by name, one of which may be "type"
            return runs_early(list(schema.values()))
        return kind in _EARLY or (kind not in _NESTED and any(map(runs_early, schema.values())))
    return isinstance(schema, list | tuple) and any(map(runs_early, schema))


def _reason(detail: ErrorDetails) -> str:
    input_value = detail["input"]
    return input_value.reason if isinstance(input_value, Unreadable) and input_value.reason else detail["msg"]


def reasons(error: ValidationError, below: int = 0) -> str:
    """Pydantic's reasons, each with its location, without the first ``below`` names of it."""
    return "; ".join(
        f"{'.'.join(map(str, at))}: {_reason(detail)}" if (at := detail["loc"][below:]) else _reason(detail)
        for detail in error.errors(include_url=False, include_context=False)
    )
