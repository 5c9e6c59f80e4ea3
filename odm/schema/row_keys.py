"""Bigtable's row keys, partition and sort in one text: which entities make them ambiguous.

The Bigtable backend refuses such a table, and the linter says it on every backend.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from attrs import frozen

from odm.keys import Slot, heads_can_equal
from odm.schema.entity import EntitySchema
from odm.schema.model import Schema

UNAMBIGUOUS: Final = "##"
"""What joins partition and sort so that a row key is read in one way: no component of a key is empty."""


@frozen
class Ambiguity:
    """Two entities of which a partition of one would hold rows of the other.

    Attributes:
        what: the fault, in words.
        fix: what to do about it.
    """

    one: EntitySchema
    other: EntitySchema
    what: str
    fix: str


def find_ambiguities(schema: Schema) -> Iterator[Ambiguity]:
    """The pairs of entities that make row keys ambiguous, in the order of declaration."""
    if schema.hash_only or schema.row_key_join == UNAMBIGUOUS:
        return
    for one, other in combinations(schema.entities.values(), 2):
        a, b = one.primary.partition, other.primary.partition
        if not heads_can_equal(a, b):
            continue
        what = (
            f"a Bigtable row key is partition {schema.row_key_join} sort, and the partitions of {one.name} "
            f'("{a.text}") and {other.name} ("{b.text}") have different numbers of components that can begin alike, so '
            "a partition of one would hold rows of the other"
        )
        apart = one if isinstance(a.parts[0], Slot) else other  # what begins with a value can begin like anything
        fix = (
            f'begin one of them with a literal of its own, such as "{apart.name.upper()}#{apart.primary.partition.text}'
            f'", or declare Table("{schema.name}", row_key_join="{UNAMBIGUOUS}")'
        )
        yield Ambiguity(one, other, what, fix)
