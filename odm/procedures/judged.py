"""The fields of which a condition may hold although another program stores them in another form.

``price != 100`` holds in the store where price is the text "100", and no entity can be read there. In a table of other
programs (`EntityCodec.exact`), a write with such a condition reads the item first, is refused if it cannot be read, and
is made on the condition that these fields are as they were read.
"""

from odm.codec.records import RecordField
from odm.expressions.nodes import And, Compare, Condition, Const, IsIn, Missing, Or, Path, paths
from odm.procedures.context import Context
from odm.schema.entity import EntitySchema


def judged_fields(context: Context, entity: EntitySchema, wanted: Condition | None) -> tuple[str, ...]:
    """The stored names of the fields of a condition that is lowered, without those whose form it shows by holding."""
    if wanted is None or not entity.codec.exact or context.schema.exclusive:
        return ()
    roots = {path.root for path in paths(wanted)}.intersection(entity.codec.stored.values())
    in_key = {stored for stored, part in entity.key_only.items() if part.primary}
    return tuple(sorted(roots - in_key - _exact(entity, wanted)))


def _exact(entity: EntitySchema, condition: Condition) -> frozenset[str]:
    """The fields that have their own form, or are absent, wherever a condition holds."""
    match condition:
        case And(parts):
            return frozenset[str]().union(*(_exact(entity, part) for part in parts))
        case Or(parts):
            return frozenset.intersection(*(_exact(entity, part) for part in parts))
        case Missing(Path((str(root),))):
            of = _field(entity, root)
            return frozenset({root} if of is None or not of.required else ())
        case Compare("=", Path((str(root),)), Const(value)) | Compare("=", Const(value), Path((str(root),))):
            return frozenset({root} if value is not None or _has_null(entity, root) else ())
        case IsIn(Path((str(root),)), choices):
            plain = all(choice.value is not None for choice in choices)
            return frozenset({root} if plain or _has_null(entity, root) else ())
    return frozenset()


def _has_null(entity: EntitySchema, stored: str) -> bool:
    """Whether NULL is a form of the field."""
    of = _field(entity, stored)
    return of is not None and (of.keeps_null or not of.omits_none)


def _field(entity: EntitySchema, stored: str) -> RecordField | None:
    return next((one for one in entity.codec.record.fields.values() if one.stored == stored), None)
