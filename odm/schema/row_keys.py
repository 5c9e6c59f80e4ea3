"""Find entities whose Bigtable row keys, which join partition and sort, are ambiguous.

The Bigtable backend refuses such a table; the linter reports it on every backend.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from attrs import frozen

from odm.keys import Slot, heads_can_equal
from odm.schema.entity import EntitySchema
from odm.schema.model import Schema

UNAMBIGUOUS: Final = "##"
"""The separator that makes row keys unambiguous, because no component of a key is empty."""


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
