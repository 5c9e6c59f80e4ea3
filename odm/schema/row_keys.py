"""Find entities whose Bigtable row keys, which join partition and sort, are ambiguous.

The Bigtable backend refuses such a table; the linter reports it on every backend.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Final, TypeAlias

from attrs import evolve, frozen

from odm.entities.patterns import Pattern
from odm.errors import SchemaError
from odm.keys import Slot, Template, heads_can_equal
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.model import Schema

UNAMBIGUOUS: Final = "##"
"""The separator that makes row keys unambiguous, because no component of a key is empty."""


Compile: TypeAlias = Callable[[str | None, str | tuple[str, ...] | None, str], Template]


def as_row(primary: PatternSchema, declared: Pattern, join: str, compile: Compile) -> tuple[PatternSchema, Template]:
    """The primary key of rows as they are, and the template of a whole row key.

    A partition key ends where the separator begins, so its last value is refused if it contains that text.

    Args:
        primary: the compiled primary key.
        declared: the declaration.
        join: the separator of partition and sort.
        compile: compiles a template.

    Raises:
        SchemaError: different values could have the same row key.
    """
    owner = primary.full_name
    if primary.sort is None:
        return primary, primary.partition
    if declared.sort is None:
        raise SchemaError(
            f"{owner} has no sort template, but other primary keys of the table have one, and a row key has no tag "
            "that could take its place: give it one, or declare the class in a table of its own"
        )
    row = compile(f"{declared.partition}{join}{declared.sort}", None, owner)
    slots = iter(row.slots)
    parts = tuple(
        evolve(part, type=next(slots).type) if isinstance(part, Slot) else part for part in primary.partition.parts
    )
    return evolve(primary, partition=evolve(primary.partition, parts=parts)), row


@frozen
class Ambiguity:
    """Two entities, where a partition of one can contain rows of the other.

    Attributes:
        what: the description of the fault.
        fix: what to do about it.
    """

    one: EntitySchema
    other: EntitySchema
    what: str
    fix: str


def find_ambiguities(schema: Schema) -> Iterator[Ambiguity]:
    """The pairs of entities that make row keys ambiguous, in the order of declaration."""
    if schema.hash_only or schema.row_key_join == UNAMBIGUOUS or schema.has_verbatim_keys:
        return
    for one, other in combinations(schema.entities.values(), 2):
        a, b = one.primary.partition, other.primary.partition
        if not heads_can_equal(a, b):
            continue
        what = (
            f"a Bigtable row key is partition {schema.row_key_join} sort, and the partitions of {one.name} "
            f'("{a.text}") and {other.name} ("{b.text}") have different numbers of components but can begin alike, so '
            "a partition of one could contain rows of the other"
        )
        apart = one if isinstance(a.parts[0], Slot) else other  # a leading placeholder can match any literal
        fix = (
            f'begin one of them with a literal of its own, such as "{apart.name.upper()}#{apart.primary.partition.text}'
            f'", or declare Table("{schema.name}", row_key_join="{UNAMBIGUOUS}")'
        )
        yield Ambiguity(one, other, what, fix)
