"""Rules about the distribution of writes: hot partitions, and row keys that grow with time."""

from collections.abc import Iterator
from math import prod
from typing import Final

from odm.keys import Slot
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.lint.finding import BOTH, HOT_PARTITION, MONOTONIC_KEY, LintFinding, lint_finding
from odm.schema.lint.fixes import in_order, sharded, spread_out
from odm.schema.lint.slots import choices, grows, is_bucket, spreads, unit, unit_name, values
from odm.schema.model import Schema

_FEW: Final = 32
"""So many partitions take 32,000 writes a second together, which is enough."""

_SETTINGS: Final = 1000
"""A primary key with at most so many values holds settings, which are rarely written."""


def hot_partition(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Partition keys where a few values take all writes: a constant, a field of few values, or a day."""
    for pattern in _with_partitions(entity):
        slots = pattern.partition.slots
        few = prod({slot.name: choices(slot) or 1 for slot in slots}.values())
        if few >= _FEW or pattern.shards is not None or any(map(_parts, slots)) or _is_small(pattern):
            continue
        rising = _leading((*slots, *_sort_slots(pattern)))
        how = rising and grows(entity, rising)
        why = "a partition of DynamoDB takes 1,000 writes and 3,000 reads a second, whatever the table's capacity is"
        if how:
            why += f"; on Bigtable its rows sort by {how}, so current writes go to one node"
        yield lint_finding(
            HOT_PARTITION,
            pattern.full_name,
            what=_said(entity, pattern, few),
            why=why,
            fix=spread_out(entity, pattern) if pattern.kind == "primary" else sharded(entity, pattern),
            backends=BOTH if how else ("dynamodb",),
        )


def _parts(slot: Slot) -> bool:
    """Whether it puts items that are written one after the other into different partitions."""
    return spreads(slot) or (unit(slot) is not None and not is_bucket(slot))


def monotonic_key(schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Row keys that begin with a growing value, so that Bigtable writes at one end of the table."""
    told: set[str] = set()
    for pattern in _with_partitions(entity):
        slots = pattern.partition.slots
        slot = _leading(slots)
        how = slot and grows(entity, slot)
        if slot is None or how is None or slot.name in told:
            continue
        if is_bucket(slot) and not any(map(spreads, slots)):
            continue  # reported as a hot partition, or has shards
        told.add(slot.name)
        shards = ", and shards after it spread nothing" if pattern.shards is not None else ""
        yield lint_finding(
            MONOTONIC_KEY,
            pattern.full_name,
            what=f"its row keys begin with {{{slot.name}}}, {how}{shards}",
            why="Bigtable sorts rows by key, so all current writes go to one node",
            fix=in_order(entity, pattern, slot),
            backends=("bigtable",),
        )


def _with_partitions(entity: EntitySchema) -> list[PatternSchema]:
    """The patterns with their own partitions; a local index has the table's."""
    return [pattern for pattern in (entity.primary, *entity.patterns.values()) if pattern.kind != "local"]


def _sort_slots(pattern: PatternSchema) -> tuple[Slot, ...]:
    return () if pattern.sort is None else pattern.sort.slots


def _is_small(pattern: PatternSchema) -> bool:
    """Whether a primary key has few values in total: one item, or settings by name."""
    counts = [values(slot) for slot in (*pattern.partition.slots, *_sort_slots(pattern))]
    return pattern.kind == "primary" and None not in counts and prod(filter(None, counts)) <= _SETTINGS


def _leading(slots: tuple[Slot, ...]) -> Slot | None:
    """The first placeholder that can spread keys or grow; one of few values does neither."""
    return next((slot for slot in slots if choices(slot) is None), None)


def _said(entity: EntitySchema, pattern: PatternSchema, few: int) -> str:
    who = f"every {entity.name}" + " in the index" * (pattern.kind != "primary")
    if bucket := next(filter(is_bucket, pattern.partition.slots), None):
        who += f" of one {unit_name(bucket)} ({bucket.name})"
    return f"{who} has one of {few} partition keys" if few > 1 else f"{who} has the same partition key"
