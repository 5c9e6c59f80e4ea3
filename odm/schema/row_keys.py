"""Find entities whose Bigtable row keys, which join partition and sort, are ambiguous.

The Bigtable backend refuses such a table; the linter reports it on every backend.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Final, TypeAlias

from odm.entities.patterns import Pattern
from odm.errors import SchemaError
from odm.immutable import Immutable, evolve
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


class Ambiguity(Immutable):
    """The entities of a table of which a partition can contain rows of others.

    Attributes:
        entity: the first one to change.
        fault: the description of the fault, with all of them.
        fix: what to do about it.
    """

    entity: EntitySchema
    fault: str
    fix: str


def find_ambiguity(schema: Schema) -> Ambiguity | None:
    """What makes the row keys of a table ambiguous; None: nothing does."""
    if schema.hash_only or schema.row_key_join == UNAMBIGUOUS or schema.has_verbatim_keys:
        return None
    pairs = [
        (entity, other)
        for entity, other in combinations(schema.entities.values(), 2)
        if heads_can_equal(entity.primary.partition, other.primary.partition)
    ]
    if not pairs:
        return None
    met = [_names(schema, text) for text in _partitions(entity for pair in pairs for entity in pair)]
    apart = _partitions(entity for pair in pairs for entity in _apart(*pair))
    fault = (
        f"a Bigtable row key is partition {schema.row_key_join} sort, and the partitions of {' and '.join(met)} have "
        "different numbers of components but can begin alike, so a partition of one could contain rows of the other"
    )
    fix = (
        f'declare Table("{schema.name}", row_key_join="{UNAMBIGUOUS}") if nothing is stored on Bigtable yet, which '
        f"changes no partition; or give {'these partitions literals' if len(apart) > 1 else 'this partition a literal'}"
        f" of {'their' if len(apart) > 1 else 'its'} own, the same in all entities that share one, such as "
        + ", ".join(f'"{_own_literal(schema, text)}#{text}" in {_of(schema, text)}' for text in apart)
    )
    return Ambiguity(next(entity for entity in schema.entities.values() if _text(entity) == apart[0]), fault, fix)


def _apart(first: EntitySchema, other: EntitySchema) -> tuple[EntitySchema, ...]:
    """Which of two to change: a leading placeholder can match any literal."""
    leading = tuple(entity for entity in (first, other) if isinstance(entity.primary.partition.parts[0], Slot))
    return leading or (other,)


def _text(entity: EntitySchema) -> str:
    return entity.primary.partition.text


def _partitions(entities: Iterable[EntitySchema]) -> list[str]:
    return list(dict.fromkeys(map(_text, entities)))


def _of(schema: Schema, text: str) -> str:
    """The entities with a partition, such as "Ticket, Comment"."""
    return ", ".join(entity.name for entity in schema.entities.values() if _text(entity) == text)


def _names(schema: Schema, text: str) -> str:
    return f'{_of(schema, text)} ("{text}")'


def _own_literal(schema: Schema, text: str) -> str:
    """The name of the first entity with a partition, made different from the literals that partitions begin with."""
    literal = next(entity.name for entity in schema.entities.values() if _text(entity) == text).upper()
    taken = {_text(entity).split("#")[0] for entity in schema.entities.values()}
    while literal in taken:
        literal += "S"
    return literal
