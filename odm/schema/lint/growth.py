"""Rules about the cost of items and partitions: unbounded collections, filtered reads, long names."""

from collections.abc import Iterator
from datetime import timedelta
from math import prod
from typing import Final

from odm.expressions.collection import GCRule
from odm.keys import Literal, Template
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.lint.finding import (
    BOTH,
    DELETED_BY_AGE,
    FILTERED_READS,
    LONG_NAMES,
    MISSING_TTL,
    UNBOUNDED_COLLECTION,
    UNBOUNDED_ROW,
    LintFinding,
    lint_finding,
)
from odm.schema.lint.fixes import declared, sort_of, written
from odm.schema.lint.slots import own_ids, unit, values
from odm.schema.model import Schema

_BOUNDED: Final = 10**6
"""The items in a partition of 10 GB, at 10 KB each."""

_ROW_ITEMS: Final = 10**4
"""The items in a row of 100 MB, at 10 KB each."""

_NAMES: Final = 256
"""Bytes of names: a quarter of DynamoDB's write unit of 1,024 bytes."""


def unbounded_collection(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Partitions that grow without bound, in a table with local indexes."""
    local = next((pattern for pattern in entity.patterns.values() if pattern.kind == "local"), None)
    sort = entity.primary.sort
    if local is None or sort is None or entity.keep is not None or entity.ttl is not None:
        return
    if _has_at_most(_BOUNDED, sort):
        return
    yield lint_finding(
        UNBOUNDED_COLLECTION,
        local.full_name,
        what=f'nothing limits how many {entity.name} items have the partition key "{entity.primary.partition.text}"',
        why="with a local index, items and index entries of a partition key may have 10 GB; then DynamoDB refuses "
        "writes to it, and a local index cannot be removed from a table",
        fix=f"{written(declared(entity, local.name), local=False)}\nor limit the items with keep= or a TTL",
        backends=("dynamodb",),
    )


def unbounded_row(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Partitions that grow without bound, in a table where a partition is one row of Bigtable."""
    sort = entity.primary.sort
    if not schema.wide or sort is None or (entity.keep is None and _has_at_most(_ROW_ITEMS, sort)):
        return
    if entity.keep is not None and entity.keep <= _ROW_ITEMS:
        return
    many = "nothing limits how many" if entity.keep is None else f"up to {entity.keep}"
    yield lint_finding(
        UNBOUNDED_ROW,
        entity.primary.full_name,
        what=f'{many} {entity.name} items have the partition key "{entity.primary.partition.text}"',
        why='with layout="row_per_partition" they are one row of Bigtable, which should not have more than 100 MB and '
        "cannot be read as a whole with more than 256 MB",
        fix=f"class {entity.name}(..., keep=1000)  # only the newest items\nor add a component to the partition key, "
        'such as a month; or use layout="row_per_item"',
        backends=("bigtable",),
    )


def _has_at_most(most: int, sort: Template) -> bool:
    """Whether a sort key has at most so many values."""
    counts = [values(slot) for slot in sort.slots]
    return None not in counts and prod(filter(None, counts)) <= most


def filtered_reads(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Queries that read items of another entity and drop them by a filter on the tag."""
    for pattern in (entity.primary, *entity.patterns.values()):
        if not pattern.shared or pattern.sort is None or not pattern.sort.slots:
            continue
        others = [other.name for other in schema.entities.values() if _lies_between(pattern, other)]
        if not others:
            continue
        listed = " and ".join(others)
        yield lint_finding(
            FILTERED_READS,
            pattern.full_name,
            what=f"its ranges also have items of {listed}, which a query reads and drops",
            why="a filter is applied after the read, so you pay for the items that it drops",
            fix=_set_apart(entity, pattern, listed),
        )


def _lies_between(pattern: PatternSchema, other: EntitySchema) -> bool:
    """Whether many items of the other entity are in the ranges of a pattern, in partitions of the same kind.

    Templates of other forms, such as ``{host}`` and ``USER#{id}``, can be equal for some values; usually they are not.
    Entities with fewer key fields have few items among the others, such as an order before its lines.
    """
    if other.name == pattern.entity or pattern.sort is None:
        return False
    theirs = (other.primary, *other.patterns.values())
    return any(
        their.index == pattern.index
        and their.sort is not None
        and len(their.sort.slots) >= max(1, len(pattern.sort.slots))
        and _form(their) == _form(pattern)
        and _head(their.sort).startswith(_head(pattern.sort))
        for their in theirs
    )


def _head(template: Template) -> str:
    """The literal that begins all its keys."""
    first = template.parts[0]
    return first.text if isinstance(first, Literal) else ""


def _form(pattern: PatternSchema) -> tuple[str | None, ...]:
    """The literals of the partition, with None for a placeholder."""
    return tuple(part.text if isinstance(part, Literal) else None for part in pattern.partition.parts)


def _set_apart(entity: EntitySchema, pattern: PatternSchema, others: str) -> str:
    together = f"or read both with one collection(...), if {others} is wanted as well"
    sort = sort_of(entity, pattern.name)
    if sort.startswith("{"):
        return f"{written(declared(entity, pattern.name), sort=f'{entity.tag.upper()}#{sort}')}\n{together}"
    return f'listed = AccessPattern("{pattern.partition.text}", "{sort}")\n{together}'


def long_names(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Attribute names that are a large part of the cost of a write."""
    stored = entity.codec.stored
    total = sum(len(name.encode()) for name in stored.values())
    if total <= _NAMES:
        return
    longest = sorted(stored, key=lambda field: len(stored[field]), reverse=True)[:3]
    yield lint_finding(
        LONG_NAMES,
        entity.name,
        what=f"the names of its {len(stored)} attributes have {total} bytes, and every item stores them",
        why="names count towards the item size of 400 KB, and towards the capacity of every read and write",
        fix="\n".join(f'{field}: Annotated[..., Stored("{short}")]' for field, short in _short(entity, longest)),
    )


def _short(entity: EntitySchema, fields: list[str]) -> Iterator[tuple[str, str]]:
    """Initials that no other attribute is stored under."""
    taken = set(entity.codec.stored.values())
    for field in fields:
        words = [word for word in field.split("_") if word]
        initials = "".join(word[0] for word in words)
        short = next(name for name in (initials, *(f"{initials}{n}" for n in range(2, 1000))) if name not in taken)
        taken.add(short)
        yield field, short


def missing_ttl(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Time series without end: a timestamp leads the sort key, and an item has no id of its own."""
    sort = entity.primary.sort
    first = sort.slots[0] if sort is not None and sort.slots else None
    if first is None or entity.ttl is not None or entity.keep is not None or own_ids(entity):
        return
    span = unit(first)
    if not isinstance(span, timedelta) or span >= timedelta(days=1):
        return
    keep = f"\nor keep the newest: class {entity.name}(..., keep=1000)"
    yield lint_finding(
        MISSING_TTL,
        entity.primary.full_name,
        what=f"a time series by {first.name} whose items are never deleted",
        why="it is stored, and paid for, forever",
        fix="expires_at: Annotated[datetime, TTL]" + keep * (entity.primary.shards is None),
        backends=BOTH if _age_rule(schema, entity) is None else ("dynamodb",),
    )


def deleted_by_age(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Items that should stay until others replace them or they expire, and that Bigtable deletes by their age."""
    rule = _age_rule(schema, entity)
    if rule is None or (entity.keep is None and entity.ttl is None):
        return
    stays = f"keep={entity.keep} keeps the newest items" if entity.ttl is None else f"items stay until {entity.ttl}"
    yield lint_finding(
        DELETED_BY_AGE,
        entity.name,
        what=f"{stays}, but Bigtable also deletes them by their age, gc={rule!r}",
        why="an item may be gone earlier, and only on Bigtable: the age is that of its last write",
        fix="remove gc=MaxAge(...)" + ", and let odm scrub --expired delete expired items" * (entity.ttl is not None),
        backends=("bigtable",),
    )


def _age_rule(schema: Schema, entity: EntitySchema) -> GCRule | None:
    """The rule by which Bigtable deletes the entity's items by their age."""
    rule = schema.families.get(entity.family or "")
    return rule if rule is not None and rule.by_age else None
