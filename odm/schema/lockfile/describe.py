"""From a compiled schema to its description: tables, entities, patterns and keys. Fields are in `fields`."""

from odm.keys import Template
from odm.schema.entity import CellAt, EntitySchema, PatternSchema
from odm.schema.lockfile.description import (
    FORMAT,
    EntityLock,
    PatternLock,
    ShardsLock,
    SlotLock,
    TableLock,
    TemplateLock,
)
from odm.schema.lockfile.fields import describe_fields
from odm.schema.lockfile.limits import options_of
from odm.schema.lockfile.validators import validators_of_class
from odm.schema.model import Schema


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
