"""The shards of a pattern: what is declared, checked and compiled into the pattern."""

from collections.abc import Mapping

from attrs import evolve
from pydantic.fields import FieldInfo

from odm.entities.patterns import Pattern
from odm.errors import SchemaError
from odm.keys import Shards, compile_hashed, sharded
from odm.schema.entity import PatternSchema


def spread(pattern: PatternSchema, shards: Shards, fields: Mapping[str, FieldInfo]) -> PatternSchema:
    """The pattern with its partitions spread over shards.

    Raises:
        SchemaError: the shards cannot be used, or not on a primary key.
    """
    owner = f"{pattern.entity}.{pattern.name}"
    if pattern.kind == "primary" and isinstance(shards, Shards):
        _check_primary(pattern, shards, fields, owner)
    hashed = compile_hashed(shards, pattern.partition, fields, owner=owner)
    return evolve(pattern, partition=sharded(pattern.partition, shards), shards=shards, hashed=hashed)


def _check_primary(pattern: PatternSchema, shards: Shards, fields: Mapping[str, FieldInfo], owner: str) -> None:
    """The key of an item must tell its shard, or the item would not be found by its key."""
    if shards.by is None:
        raise SchemaError(
            f"{owner}: {shards!r}: an item under a random shard could not be found by its key: name a field of the "
            f'sort key, as in Shards({shards.count}, by="..."). For random shards let chance be such a field: '
            f"salt: int = Field(default_factory=lambda: randrange({shards.count})), and shards=Shards({shards.count}, "
            'by="salt")'
        )
    told = () if pattern.sort is None else {*pattern.sort.fields} - pattern.sort.lossy
    if shards.by in fields and shards.by not in told:
        add = "" if shards.by in pattern.partition.fields else f", or add {{{shards.by}}} to the sort template"
        raise SchemaError(
            f"{owner}: {shards!r}: {shards.by!r} does not stand whole in the sort key, so the key of an item would not "
            f"tell its shard among those of its partition: name a field that does{add}"
        )
    if shards.was is not None:
        raise SchemaError(
            f"{owner}: {shards!r}: was= is for access patterns: an item has its key for good, and could be there "
            "twice, under the old shard and the new. Make a table of another name, whose model has the new shards, "
            "and put everything there that is read with the old model"
        )


def spread_with(pattern: PatternSchema, primary: PatternSchema, declared: Pattern) -> PatternSchema:
    """A local pattern with the shards of the primary key, whose partitions it has.

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
