"""Computed fields of pydantic in the keys of access patterns.

A computed field is not stored. The key is made from the stored fields of the item at each write: every field that a
computed one may read is a source of its pattern, so that a write which changes one of them makes the key again.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from odm.entities.markers import Cell, CreatedAtMarker, Id, Marker, Stored, TTLMarker, metadata_of
from odm.errors import BadValue, KeyValueError, SchemaError, brief
from odm.immutable import Immutable
from odm.keys import Template
from odm.keys.types import admits_none

if TYPE_CHECKING:
    from odm.entities.entity import Entity

_READABLE = (TTLMarker, CreatedAtMarker, Id, Stored, Cell)
"""The markers of fields that change only by an update that names them, or never."""


class Computed(Immutable, dict=True):
    """A computed field that an access pattern has in its key.

    Attributes:
        cls: the entity class.
        name: its name.
        sources: the fields that it can read.
    """

    cls: "type[Entity]"
    name: str
    sources: tuple[str, ...]

    @property
    def may_be_none(self) -> bool:
        """Whether it can be None, so that the index may omit the item."""
        return admits_none(self.cls.model_computed_fields[self.name].return_type)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.cls.model_computed_fields[self.name].return_type)

    def of(self, values: Mapping[str, Any]) -> Any:
        """Its value for these values of the sources.

        Raises:
            KeyValueError: the model's code raises an error, or reads a field that is not among the sources.
        """
        instance = self.cls.__new__(self.cls)
        read = {name: values[name] for name in self.sources}
        # An object with these fields alone: every other one is an AttributeError.
        instance.__setstate__(
            {
                "__dict__": read,
                "__pydantic_fields_set__": {*read},
                "__pydantic_extra__": None,
                "__pydantic_private__": None,
            }
        )
        try:
            return getattr(instance, self.name)
        except Exception as error:
            raise KeyValueError(
                f"{self.cls.__name__}.{self.name} could not be computed for a key: {type(error).__name__}: {error}. A "
                "computed field in a key can read the plain fields of the entity: no Counter, Revision, aggregate, "
                "UpdatedAt, Blob or Compressed field, and no private attribute"
            ) from error

    def validate(self, value: Any) -> Any:
        """A value to look for, converted to the type of the field.

        Raises:
            BadValue: it does not validate.
        """
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            reasons = "; ".join(reason["msg"] for reason in error.errors())
            raise BadValue(f"{self.cls.__name__}.{self.name}: {brief(value)} is refused: {reasons}") from error


def computed_fields(cls: "type[Entity]") -> dict[str, FieldInfo]:
    """The computed fields of a class as fields, to compile templates."""
    return {name: FieldInfo.from_annotation(info.return_type) for name, info in cls.model_computed_fields.items()}


def computed_in(cls: "type[Entity]", template: str) -> list[str]:
    """The computed fields that a template names."""
    return [name for name in cls.model_computed_fields if f"{{{name}}}" in template or f"{{{name}:" in template]


def check_attributes(cls: "type[Entity]", owner: str, template: str) -> None:
    """Raise SchemaError if a key of several attributes, which are stored fields, has a computed field."""
    for name in computed_in(cls, template):
        raise SchemaError(
            f"{owner}: key template {template!r}: {name} is a computed field, but the attributes of this key are "
            "stored fields: declare it as a field"
        )


def find_computed(
    cls: "type[Entity]", owner: str, templates: tuple[Template | None, ...], *, primary: bool
) -> tuple[Computed, ...]:
    """The computed fields in the templates of a pattern; ``primary``: of a primary key, which can have none.

    Raises:
        SchemaError: a primary key has one, or one is in a format that does not keep its whole value.
    """
    there = [template for template in templates if template is not None]
    names = [name for name in cls.model_computed_fields if any(name in template.fields for template in there)]
    for name in names:
        if primary:
            raise SchemaError(
                f"{owner}: {name} is a computed field, and a change of what it is computed from would move the item: a "
                "primary key is made of stored fields; use the computed field in an AccessPattern"
            )
        if any(name in template.lossy for template in there):
            raise SchemaError(
                f"{owner}: {name} is a computed field, whose format must keep its whole value: compute the text or the "
                "day that the key is to hold"
            )
    sources = tuple(field for field, info in cls.model_fields.items() if _is_readable(info))
    return tuple(Computed(cls, name, sources) for name in names)


def _is_readable(info: FieldInfo) -> bool:
    return all(isinstance(mark, _READABLE) for mark in metadata_of(info) if isinstance(mark, Marker))
