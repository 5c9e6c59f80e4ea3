"""Lock files of an earlier format: what they do not record, and what that means for a comparison with them."""

from collections.abc import Mapping
from typing import Final

from odm.schema.lockfile.description import EntityLock, FieldLock, Limits, TableLock

_FIRST_LIMITS: Final = frozenset(
    {
        *("ge", "gt", "le", "lt", "min_length", "max_length", "multiple_of", "max_digits", "decimal_places", "pattern"),
        *("strip_whitespace", "to_lower", "to_upper", "uuid_version", "max_whole_digits"),
    }
)


def as_first(table: TableLock) -> TableLock:
    """A description as format 1 had it: without defaults, validators, configuration and narrow types."""
    entities = {tag: _entity(entity) for tag, entity in table.entities.items()}
    return table.model_copy(update={"format": 1, "entities": entities})


def _entity(entity: EntityLock) -> EntityLock:
    return entity.model_copy(update={"limits": {}, "validators": (), "fields": _fields(entity.fields)})


def _fields(fields: Mapping[str, FieldLock]) -> dict[str, FieldLock]:
    return {stored: _field(field) for stored, field in fields.items()}


def _field(field: FieldLock) -> FieldLock:
    return field.model_copy(
        update={
            "absent": "default" if field.absent == "factory" else field.absent,
            "default": None,
            "limits": _limits(field.limits),
            "validators": (),
            "models": tuple(map(_fields, field.models)),
        }
    )


def _limits(limits: Limits) -> Limits:
    return {name: value for name, value in limits.items() if name.rpartition(".")[2] in _FIRST_LIMITS}
