"""Check declared shards and compile them into a pattern."""

from collections.abc import Mapping

from pydantic.fields import FieldInfo

from odm.entities.patterns import Pattern
from odm.errors import SchemaError
from odm.immutable import evolve
from odm.keys import Shards, compile_hashed, sharded
from odm.schema.entity import PatternSchema


def spread(pattern: PatternSchema, shards: Shards, fields: Mapping[str, FieldInfo]) -> PatternSchema:
    """Add the declared shards to a pattern.

    Raises:
        SchemaError: the shards are not valid, or not valid on a primary key.
    """
    owner = f"{pattern.entity}.{pattern.name}"
    if pattern.kind == "primary" and isinstance(shards, Shards):
        _check_primary(pattern, shards, fields, owner)
    if isinstance(shards, Shards) and shards.by in {field_.name for field_ in pattern.computed}:
        raise SchemaError(
            f"{owner}: {shards!r}: {shards.by!r} is a computed field, which is not stored: name a stored field"
        )
    hashed = compile_hashed(shards, pattern.partition, fields, owner=owner)
    return evolve(pattern, partition=sharded(pattern.partition, shards), shards=shards, hashed=hashed)


def _check_primary(pattern: PatternSchema, shards: Shards, fields: Mapping[str, FieldInfo], owner: str) -> None:
    """Check that the shard of an item is known from its key; otherwise a get would not find the item."""
    if shards.by is None:
        raise SchemaError(
            f"{owner}: {shards!r}: an item in a random shard could not be found by its key: name a field of the "
            f'sort key, as in Shards({shards.count}, by="..."). For random shards add a random field to the key: '
            f"salt: int = Field(default_factory=lambda: randrange({shards.count})), and shards=Shards({shards.count}, "
            'by="salt")'
        )
    told = () if pattern.sort is None else {*pattern.sort.fields} - pattern.sort.lossy
    if shards.by in fields and shards.by not in told:
        add = "" if shards.by in pattern.partition.fields else f", or add {{{shards.by}}} to the sort template"
        raise SchemaError(
            f"{owner}: {shards!r}: {shards.by!r} is not in the sort key as a whole, so the shard of an item is not "
            f"known from its key: name a field that is{add}"
        )
    if shards.was is not None:
        raise SchemaError(
            f"{owner}: {shards!r}: was= is for access patterns: an item's key cannot change, and it could be stored "
            "twice, in the old shard and the new. Create a table of another name with the new shards, "
            "read everything with the old model and put it there"
        )


def spread_with(pattern: PatternSchema, primary: PatternSchema, declared: Pattern) -> PatternSchema:
    """A local pattern with the shards of the primary key.

    Raises:
        SchemaError: it declares shards of its own.
    """
    if declared.shards is not None:
        raise SchemaError(
            f"{pattern.entity}.{pattern.name}: a local index has the partitions of the table, so it cannot have "
            "shards of its own: drop local=True or shards="
        )
    return evolve(
        pattern,
        partition=evolve(pattern.partition, behind=primary.partition.behind),
        shards=primary.shards,
        hashed=primary.hashed,
    )
