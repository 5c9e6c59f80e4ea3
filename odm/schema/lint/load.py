"""Rules about where writes go: hot partitions, and row keys that grow with time."""

from collections.abc import Iterator
from math import prod
from typing import Final

from odm.keys import Slot
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.lint.finding import BOTH, HOT_PARTITION, MONOTONIC_KEY, LintFinding, found
from odm.schema.lint.fixes import in_order, sharded, spread_out
from odm.schema.lint.slots import choices, grows, is_bucket, spreads, unit, unit_name, values
from odm.schema.model import Schema

_FEW: Final = 32
"""As many partitions take 32,000 writes a second together: their number is not at fault then."""

_SETTINGS: Final = 1000
"""A primary key that can have no more values than these holds settings, and not what is written all the time."""


def hot_partition(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Partition keys of which a few take all writes: constant, of few values, or a day."""
    for pattern in _with_partitions(entity):
        slots = pattern.partition.slots
        few = prod({slot.name: choices(slot) or 1 for slot in slots}.values())
        if few >= _FEW or pattern.shards is not None or any(map(_parts, slots)) or _is_small(pattern):
            continue
        rising = _leading((*slots, *_sort_slots(pattern)))
        how = rising and grows(entity, rising)
        why = "a partition of DynamoDB takes 1,000 writes and 3,000 reads a second, whatever the table takes"
        if how:
            why += f"; on Bigtable rows sort by {how} there, and what is written now goes to one node"
        yield found(
            HOT_PARTITION,
            pattern.full_name,
            what=_said(entity, pattern, few),
            why=why,
            fix=spread_out(entity, pattern) if pattern.kind == "primary" else sharded(entity, pattern),
            backends=BOTH if how else ("dynamodb",),
        )


def _parts(slot: Slot) -> bool:
    """Whether items that are written one after the other come into different partitions by it."""
    return spreads(slot) or (unit(slot) is not None and not is_bucket(slot))


def monotonic_key(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Row keys that begin with what only grows, so that Bigtable is written at one end of the table."""
    told: set[str] = set()
    for pattern in _with_partitions(entity):
        slots = pattern.partition.slots
        slot = _leading(slots)
        how = slot and grows(entity, slot)
        if slot is None or how is None or slot.name in told:
            continue
        if is_bucket(slot) and not any(map(spreads, slots)):
            continue  # a hot partition, or one with shards
        told.add(slot.name)
        shards = ", and shards come behind it, where they spread nothing" if pattern.shards is not None else ""
        yield found(
            MONOTONIC_KEY,
            pattern.full_name,
            what=f"its row keys begin with {{{slot.name}}}, {how}{shards}",
            why="Bigtable keeps rows in the order of their keys, so all that is written now goes to one node",
            fix=in_order(entity, pattern, slot),
            backends=("bigtable",),
        )


def _with_partitions(entity: EntitySchema) -> list[PatternSchema]:
    """The patterns with partitions of their own; a local index has the table's."""
    return [pattern for pattern in (entity.primary, *entity.patterns.values()) if pattern.kind != "local"]


def _sort_slots(pattern: PatternSchema) -> tuple[Slot, ...]:
    return () if pattern.sort is None else pattern.sort.slots


def _is_small(pattern: PatternSchema) -> bool:
    """Whether a primary key has few values altogether: one item, or settings by name."""
    counts = [values(slot) for slot in (*pattern.partition.slots, *_sort_slots(pattern))]
    return pattern.kind == "primary" and None not in counts and prod(filter(None, counts)) <= _SETTINGS


def _leading(slots: tuple[Slot, ...]) -> Slot | None:
    """The first one by which keys spread, or grow: a few values do neither."""
    return next((slot for slot in slots if choices(slot) is None), None)


def _said(entity: EntitySchema, pattern: PatternSchema, few: int) -> str:
    who = f"every {entity.name}" + " in the index" * (pattern.kind != "primary")
    if bucket := next(filter(is_bucket, pattern.partition.slots), None):
        who += f" of one {unit_name(bucket)} ({bucket.name})"
    return f"{who} has one of {few} partition keys" if few > 1 else f"{who} has the same partition key"
