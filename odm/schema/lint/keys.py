"""Rules about keys: items that overwrite each other, ambiguous row keys, and indexes with equal keys."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from odm.keys import Slot, VerbatimKey
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.lint.finding import (
    AMBIGUOUS_ROW_KEYS,
    CONSTANT_KEY,
    EQUAL_INDEXES,
    LOSSY_KEY,
    NON_UNIQUE_KEY,
    TEXT_ORDER,
    LintFinding,
    lint_finding,
)
from odm.schema.lint.fixes import declared, key_fields, sort_of, spread_out, written
from odm.schema.lint.slots import identifies, own_ids, unit, unit_name
from odm.schema.model import Schema
from odm.schema.row_keys import find_ambiguity

_FINE: Final = timedelta(milliseconds=1)
"""The resolution of sensors and exchanges: with another key field, no two items are assumed to share a timestamp."""

_OVERWRITES: Final = "a put of one replaces the other, without an error"


def ambiguous_row_keys(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Row keys that the Bigtable backend refuses: a partition may contain rows of another. One finding for a table."""
    ambiguity = find_ambiguity(schema)
    if ambiguity is not None and ambiguity.entity is entity:
        yield lint_finding(
            AMBIGUOUS_ROW_KEYS,
            entity.primary.full_name,
            what=ambiguity.fault,
            why="on Bigtable, create() and every read and write raise SchemaError, so the table cannot move there",
            fix=ambiguity.fix,
            backends=("bigtable",),
        )


def constant_key(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """A primary key without a placeholder, of an entity with fields."""
    primary, fields = entity.primary, entity.cls.model_fields
    if _slots(entity) or not fields:
        return
    pattern = declared(entity, primary.name)
    required = [name for name, info in fields.items() if info.is_required()]
    name = next(iter((*own_ids(entity), *required, *fields)))
    key = "#".join(template.text for template in (primary.partition, primary.sort) if template is not None)
    yield lint_finding(
        CONSTANT_KEY,
        primary.full_name,
        what=f'the key "{key}" has no placeholder, so all {entity.name} items have this one key',
        why=_OVERWRITES,
        fix=f"{written(pattern, partition=f'{pattern.partition}#{{{name}}}')}\n"
        "without an f before the quotes, which would fill in the braces at once; or, if there is one such item on\n"
        f"purpose, add the comment  # odm: ignore[{CONSTANT_KEY.name}]",
    )


def non_unique_key(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Primary keys of timestamps and choices, without the id field of the item."""
    ids, slots = own_ids(entity), _telling(entity)
    if not ids or not slots or any(map(identifies, slots)) or key_fields(entity.primary).intersection(ids):
        return
    distinct = ", ".join(dict.fromkeys(slot.name for slot in slots))
    sort = "#".join(filter(None, (sort_of(entity, entity.primary.name), f"{{{ids[0]}}}")))
    yield lint_finding(
        NON_UNIQUE_KEY,
        entity.primary.full_name,
        what=f"two {entity.name} items with different {ids[0]} have the same key if their {distinct} is the same",
        why=_OVERWRITES,
        fix=written(declared(entity, entity.primary.name), sort=sort),
    )


def lossy_key(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Primary keys that store a time in whole units only."""
    primary = entity.primary
    whole = key_fields(primary)
    if whole.intersection(own_ids(entity)) or any(non_unique_key(schema, entity)):
        return
    alone = not any(map(identifies, _slots(entity)))
    for slot in _slots(entity):
        if not slot.type.lossy or slot.name in whole or _is_meant(slot, alone=alone):
            continue
        others = [name for name in primary.fields if name != slot.name]
        same = f" and the same {', '.join(others)}" if others else ""
        yield lint_finding(
            LOSSY_KEY,
            primary.full_name,
            what=f"two {entity.name} items of one {unit_name(slot)} ({slot.name}){same} have the same key",
            why=_OVERWRITES,
            fix=spread_out(entity, primary) if _is_meant(slot, alone=False) else _written_whole(entity, slot),
        )
        return


def equal_indexes(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Two patterns with equal templates: each has an index, and both give the same items in the same order."""
    seen: list[PatternSchema] = []
    for pattern in entity.patterns.values():
        for other in seen:
            if _indexed_by(pattern) == _indexed_by(other):
                yield lint_finding(
                    EQUAL_INDEXES,
                    pattern.full_name,
                    what=f"its index {pattern.index!r} has the same keys as {other.index!r} of {other.full_name}",
                    why="both indexes hold the same entries, and each is stored and paid for at every write",
                    fix=f"remove one of the two, and query {other.full_name} or {pattern.full_name} in its place",
                )
        seen.append(pattern)


def text_order(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Sort keys as they are, whose texts do not sort as the values do."""
    for pattern in (entity.primary, *entity.patterns.values()):
        slots = () if pattern.sort is None else pattern.sort.slots
        for slot in slots:
            if not isinstance(slot.type, VerbatimKey) or slot.type.sorted:
                continue
            yield lint_finding(
                TEXT_ORDER,
                pattern.full_name,
                what=f"{slot.name} is {slot.type.encoding} in the sort key, which sorts as text: 10 is before 9",
                why="queries return another order, and a range of the field is refused",
                fix=f"for a new table pad the number, {{{slot.name}:08}}, or store the time with the year first; for "
                "one that exists, sort in the program",
            )
            break


def _indexed_by(pattern: PatternSchema) -> tuple[object, ...]:
    sort = None if pattern.sort is None else pattern.sort.text
    return pattern.kind, pattern.partition.text, sort, pattern.when, pattern.shards


def _slots(entity: EntitySchema) -> tuple[Slot, ...]:
    primary = entity.primary
    return (*primary.partition.slots, *(() if primary.sort is None else primary.sort.slots))


def _telling(entity: EntitySchema) -> tuple[Slot, ...]:
    """The placeholders that distinguish items of one partition, or else partitions."""
    sort = entity.primary.sort
    return sort.slots if sort is not None and sort.slots else entity.primary.partition.slots


def _is_meant(slot: Slot, *, alone: bool) -> bool:
    """Whether one item per unit is clearly intended: the field is named after the unit, or the unit is short."""
    named = unit_name(slot) in slot.name.lower().split("_")
    span = unit(slot)
    return named or (not alone and isinstance(span, timedelta) and span <= _FINE)


def _written_whole(entity: EntitySchema, slot: Slot) -> str:
    pattern = declared(entity, entity.primary.name)
    sort = sort_of(entity, pattern.name)
    if slot.name in entity.primary.partition.fields:
        return written(pattern, sort="#".join(filter(None, (f"{{{slot.name}}}", sort))))
    return written(pattern, sort=re.sub(rf"\{{{slot.name}:[^}}]*?(:desc)?\}}", rf"{{{slot.name}\1}}", sort))
