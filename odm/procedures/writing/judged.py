"""The fields of which a condition may hold although another program stores them in another form.

``price != 100`` holds in the store where price is the text "100", and no entity can be read there. In a table of other
programs (`EntityCodec.exact`), a write with such a condition reads the item first, is refused if it cannot be read, and
is made on the condition that these fields are as they were read.
"""

from odm.codec.types.records import RecordField
from odm.expressions.nodes import And, Compare, Condition, Const, IsIn, Missing, Or, Path, paths
from odm.procedures.context import Context
from odm.schema.entity import EntitySchema


def judged_fields(context: Context, entity: EntitySchema, condition: Condition | None) -> tuple[Path, ...]:
    """The fields of a condition that is lowered, without those whose form it shows by holding.

    They are paths of stored names: of a field, or of an entry of a dict with a cell for each, which no write depends on
    as a whole if it need not.
    """
    if condition is None or not entity.codec.exact or context.schema.exclusive:
        return ()
    in_key = {stored for stored, part in entity.key_only.items() if part.primary}
    names = {*entity.codec.stored.values()} - in_key
    asked = {_judged(entity, path) for path in paths(condition) if path.root in names}
    return tuple(sorted(asked - _exact(entity, condition), key=str))


def _judged(entity: EntitySchema, path: Path) -> Path:
    """The field of a path, or its entry."""
    return Path(path.segments[: 2 if _has_entries(entity, path.root) else 1])


def _has_entries(entity: EntitySchema, stored: str) -> bool:
    """Whether a field is a dict with a cell for each entry."""
    return stored in entity.cells and any(entity.codec.stored[name] == stored for name in entity.columns)


def _exact(entity: EntitySchema, condition: Condition) -> frozenset[Path]:
    """The fields and entries that have their own form, or are absent, wherever a condition holds."""
    match condition:
        case And(parts):
            return frozenset[Path]().union(*(_exact(entity, part) for part in parts))
        case Or(parts):
            return frozenset.intersection(*(_exact(entity, part) for part in parts))
        case Missing(path) if path == _judged(entity, path):
            of = _field(entity, path.root)
            return frozenset({path} if of is None or not of.required or len(path.segments) > 1 else ())
        case Compare("=", Path() as path, Const(value)) | Compare("=", Const(value), Path() as path) if path == _judged(
            entity, path
        ):
            return frozenset({path} if value is not None or _has_null(entity, path) else ())
        case IsIn(Path() as path, choices) if path == _judged(entity, path):
            plain = all(choice.value is not None for choice in choices)
            return frozenset({path} if plain or _has_null(entity, path) else ())
    return frozenset()


def _has_null(entity: EntitySchema, path: Path) -> bool:
    """Whether NULL is a form of the field."""
    of = _field(entity, path.root) if len(path.segments) == 1 else None
    return of is not None and (of.keeps_null or not of.omits_none)


def _field(entity: EntitySchema, stored: str) -> RecordField | None:
    return next((field for field in entity.codec.record.fields.values() if field.stored == stored), None)
