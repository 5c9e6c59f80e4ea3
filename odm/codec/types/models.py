"""The fields and schema of a model or dataclass, and the checks of compiled fields."""

from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from operator import attrgetter
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic_core import SchemaValidator

from odm.codec.attributes import is_attribute_name
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.stored import MAP, NOTHING, Unfit
from odm.codec.types.validation import ModelSchema, model_schema
from odm.errors import SchemaError
from odm.immutable import Immutable


class Place(Immutable):
    """The field being compiled, for messages and its model's configuration."""

    cls: type[Any]
    field: str

    def fault(self, annotation: Any, why: str, fix: str) -> SchemaError:
        """The error that the field's type cannot be stored."""
        text = annotation.__name__ if type(annotation) is type else str(annotation).replace("typing.", "")
        return SchemaError(f"{self.cls.__name__}.{self.field}: {text} {why}; {fix}")

    def configured(self, option: str) -> bool:
        """Whether the model's configuration sets a flag."""
        return issubclass(self.cls, BaseModel) and bool(self.cls.model_config.get(option))


def complete(cls: type[BaseModel]) -> ModelSchema:
    """The core schema of a model, with its forward references resolved.

    Raises:
        SchemaError: a name is not defined, or the class does not accept its fields by name.
    """
    try:
        cls.model_rebuild()
    except PydanticUndefinedAnnotation as error:
        raise SchemaError(f"{cls.__name__} refers to {error.name!r}, which is not defined; define it first") from error
    schema = model_schema(cls)
    aliased = [name for name, info in cls.model_fields.items() if info.validation_alias is not None]
    by_name = cls.model_config.get("validate_by_name") or cls.model_config.get("populate_by_name")
    if schema.custom_init and aliased and not by_name:
        raise SchemaError(
            f"{cls.__name__}.{aliased[0]}: the class has an __init__ of its own, which is called with stored fields by "
            "name, but this field has an alias only; set validate_by_name=True in model_config"
        )
    return schema


def empty_record(cls: type[Any], schema: ModelSchema | None) -> RecordType:
    """The record of a model, or, without a schema, of a dataclass; its fields are not filled in yet."""
    if schema is None:
        # A plugin's validator is used like pydantic's own.
        validator = cast("SchemaValidator", TypeAdapter[Any](cls).validator)
        return RecordType(cls.__name__, MAP, cls, _dataclass_values(cls), validator, opaque=True)
    values: Callable[[Any], Mapping[str, Any]] = attrgetter("__dict__")
    if schema.config.get("extra_fields_behavior") == "allow":
        values = _values_without_extra
    return RecordType(cls.__name__, MAP, cls, values, cls.__pydantic_validator__, schema.opaque)


def _dataclass_values(cls: type[Any]) -> Callable[[Any], Mapping[str, Any]]:
    names = [f.name for f in dataclass_fields(cls)]
    return lambda value: {name: getattr(value, name) for name in names if hasattr(value, name)}


def _values_without_extra(value: BaseModel) -> Mapping[str, Any]:
    if value.__pydantic_extra__:
        names = ", ".join(map(repr, value.__pydantic_extra__))
        raise Unfit(f"has the extra attributes {names}, and only declared fields are stored: declare them")
    return value.__dict__


def field_infos(cls: type[Any]) -> dict[str, FieldInfo]:
    """The fields of a model or dataclass, as pydantic describes them."""
    if issubclass(cls, BaseModel):
        return cls.model_fields
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: FieldInfo.from_annotated_attribute(hints[f.name], f) for f in dataclass_fields(cls) if f.init}


def check_default(record_field: RecordField, info: FieldInfo, place: Place) -> None:
    """Refuse a default that cannot be stored, and a default of a set that is not empty."""
    default = record_field.default
    if record_field.is_set and isinstance(default, set | frozenset) and default:
        why = "has a default that is not empty, but an absent set always reads as the empty set"
        raise place.fault(info.annotation, why, "let the default be set()")
    if default is NOTHING or default is None or (record_field.is_set and isinstance(default, set | frozenset)):
        return
    if info.validate_default or place.configured("validate_default"):
        return
    try:
        record_field.type.dump(default)
    except Unfit as unfit:
        why = f"has the default {default!r}, which {unfit.reason}"
        raise place.fault(info.annotation, why, "give it a default of its type") from None


def check_names(record: RecordType) -> None:
    """Refuse a stored name that no attribute can have, and two fields with one stored name."""
    seen: dict[str, str] = {}
    for name, record_field in record.fields.items():
        if not is_attribute_name(record_field.stored):
            raise SchemaError(
                f"{record.text}.{name}: the stored name {record_field.stored!r} is empty, or UTF-8 cannot encode it; "
                'give it another with Annotated[..., Stored("...")]'
            )
        twin = seen.setdefault(record_field.stored, name)
        if twin != name:
            raise SchemaError(
                f"{record.text}.{name} and {record.text}.{twin} have the same stored name {record_field.stored!r}; "
                'give one of them another with Annotated[..., Stored("...")]'
            )
