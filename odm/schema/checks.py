"""Checks over compiled entities: names that are already in use, indexes, and entities whose keys can be equal."""

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain, combinations

from odm.codec.attributes import TAG, TTL_ATTRIBUTE, VERSION, is_attribute_name
from odm.entities.patterns import Pattern
from odm.errors import SchemaError
from odm.keys import Template, can_equal, can_overlap
from odm.schema.described import check_alike
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.model import IndexSchema, KeyNames, Schema, flat

MAX_INDEXES = 20
"""Maximum global secondary indexes of a DynamoDB table, by default (AWS: Service quotas)."""

MAX_LOCAL_INDEXES = 5
"""Maximum local secondary indexes of a DynamoDB table (AWS: Service quotas)."""

MAX_PROJECTED = 20
"""Maximum attributes that the projection of an index names (AWS: Service quotas)."""

MAX_PROJECTED_TOGETHER = 100
"""Maximum attributes in the projections of all indexes of a table, counted once per index (same source)."""

MAX_KEY_NAME = 255
"""Maximum characters in the name of a key attribute or projected attribute (AWS: CreateTable)."""

OWN = frozenset({TAG, VERSION, TTL_ATTRIBUTE})
"""The attributes that odm writes; in a table of other programs, other names may begin with '_' too."""

NAMES = "3 to 255 characters, each a letter of A-Z, a digit, '_', '.' or '-'"
"""DynamoDB's rule for names of tables and indexes, the strictest of the backends."""


def is_name(name: str) -> bool:
    """Whether a table or index may have this name."""
    return re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", name) is not None


def is_index_name(name: str) -> bool:
    """Whether an index of an existing table may have this name; some services allow shorter ones."""
    return re.fullmatch(r"[A-Za-z0-9_.-]{1,255}", name) is not None


def check_companions(schema: Schema, *, transactions: bool) -> None:
    """Check the companions of every entity; see `odm.extend.Companion.check`."""
    for entity in schema.entities.values():
        for companion in entity.companions:
            companion.check(entity.cls, schema, transactions=transactions)


def check_entity(entity: EntitySchema, *, verbatim: bool = False) -> None:
    """Check one entity: tag, primary key, stored names, and at most one pattern per index."""
    if not entity.tag:
        raise SchemaError(f'{entity.name}: its tag is empty; give it a name with tag="...", or leave tag= out')
    if not is_attribute_name(entity.tag):
        raise SchemaError(f'{entity.name}: UTF-8 cannot encode its tag {entity.tag!r}; give it another, tag="..."')
    for field in entity.optional.intersection(entity.primary.fields):
        raise SchemaError(
            f"{entity.name}.{entity.primary.name}: field {field!r} may be None, and an item without a primary key can "
            f"not be stored. Make {field!r} required and not Optional, or use another field"
        )
    names = entity.codec.stored
    for field, stored in names.items():
        if stored in OWN or (stored.startswith("_") and not verbatim):
            raise SchemaError(
                f"{entity.name}.{field}: the stored name {stored!r} is reserved, like all names that begin with '_'; "
                f'give it another with Annotated[..., Stored("...")]'
            )
    by_index: dict[str | None, PatternSchema] = {}
    _check_shards(entity)
    for pattern in entity.patterns.values():
        twin_pattern = by_index.setdefault(pattern.index, pattern)
        if twin_pattern is not pattern:
            raise SchemaError(
                f"{entity.name}.{pattern.name} and {entity.name}.{twin_pattern.name} use the same index "
                f"{pattern.index!r}, but an item has one entry in an index: give them different names with index="
            )


def _check_shards(entity: EntitySchema) -> None:
    for pattern in entity.patterns.values():
        if pattern.shards is not None and pattern.shards.by in entity.optional:
            raise SchemaError(
                f"{entity.name}.{pattern.name}: {pattern.shards!r}: field {pattern.shards.by!r} may be None, and no "
                "shard can be computed from None: make it required and not Optional, or use another field"
            )


def check_local(entity: EntitySchema, declared: Mapping[str, Pattern], *, hash_only: bool) -> None:
    """Check local patterns: they can only sort the items of a primary key's partition differently."""
    for pattern in entity.patterns.values():
        if pattern.kind != "local":
            continue
        owner, primary = f"{entity.name}.{pattern.name}", entity.primary
        if pattern.partition.text != primary.partition.text:
            raise SchemaError(
                f'{owner}: its partition is "{pattern.partition.text}", but a local index has that of the primary '
                f'key\'s: write "{primary.partition.text}", or drop local=True'
            )
        if declared[pattern.name].sort is None:
            raise SchemaError(
                f"{owner}: a local index sorts the items of a partition by another key: give it a sort template, as "
                f'in AccessPattern("{primary.partition.text}", "...", local=True)'
            )
        if hash_only:
            raise SchemaError(
                f"{owner}: no primary key of the table has a sort template, so a partition is one item and a local "
                f"index has nothing to sort: drop local=True, or give {entity.name}.{primary.name} a sort template"
            )


def check_indexes(schema: Schema, named: Collection[str]) -> None:
    """Check the table's indexes: their number, names and key attributes; ``named`` are those of ``index_keys``."""
    for local, most in ((False, MAX_INDEXES), (True, MAX_LOCAL_INDEXES)):
        names = [index.name for index in schema.indexes.values() if index.local is local]
        if len(names) > most:
            raise SchemaError(
                f"table {schema.name!r} needs {len(names)} {'local ' * local}indexes ({', '.join(names)}), but a table "
                f"may have {most}: let patterns of different entities share one with index=, as in "
                "AccessPattern(..., index='gsi1')"
            )
    for index in schema.indexes.values():
        # An index that exists may have any name that the service accepted.
        if not is_name(index.name) and not (index.name in named and is_index_name(index.name)):
            pattern = index.patterns[0]
            raise SchemaError(
                f"{pattern.entity}.{pattern.name}: {index.name!r} cannot name an index; a name has {NAMES}: "
                'give it one with index="..."'
            )
    _check_projections(schema)
    _check_attribute_names(schema)
    for key in schema.keys:
        if key in OWN or (key.startswith("_") and not schema.verbatim):
            raise SchemaError(
                f"table {schema.name!r}: the key attribute {key!r} is reserved; give another with Table(keys=(...))"
            )


def _check_projections(schema: Schema) -> None:
    """Check the number of attributes that indexes project, which is limited on DynamoDB."""
    together = 0
    for index in schema.indexes.values():
        held = index.held or ()
        together += len(held)
        if len(held) > MAX_PROJECTED:
            raise SchemaError(
                f"index {index.name!r} of table {schema.name!r} projects {len(held)} attributes in addition to keys "
                f"(including {TAG} and {TTL_ATTRIBUTE}), but DynamoDB allows {MAX_PROJECTED}: name fewer fields in "
                "projection="
            )
    if together > MAX_PROJECTED_TOGETHER:
        raise SchemaError(
            f"the indexes of table {schema.name!r} project {together} attributes in addition to keys, but DynamoDB "
            f"allows {MAX_PROJECTED_TOGETHER} together: name fewer fields in projection="
        )


def _check_attribute_names(schema: Schema) -> None:
    """Check the names of key attributes and projected attributes, which are shorter than others on DynamoDB."""
    indexes = schema.indexes.values()
    for name in chain(schema.keys, *(flat(index.keys) for index in indexes), *(index.held or () for index in indexes)):
        if len(name) > MAX_KEY_NAME:
            raise SchemaError(
                f"table {schema.name!r}: DynamoDB allows {MAX_KEY_NAME} characters in the name of a key attribute or "
                f"projected attribute, but {name[:40]!r}... has {len(name)}: use a shorter name"
            )


def check_key_names(table: str, entities: Iterable[EntitySchema], keys: tuple[str, ...]) -> None:
    """Check that a table with one key attribute needs only one."""
    for entity in entities:
        if len(keys) == 1 and entity.primary.sort is not None:
            raise SchemaError(
                f"{entity.name}.{entity.primary.name} has a sort template, but Table({table!r}) has one key attribute: "
                "name two in keys=(...), or drop the template"
            )


def check_index_keys(
    table: str, indexes: Mapping[str, IndexSchema], keys: Mapping[str, KeyNames], *, verbatim: bool
) -> None:
    """Check ``Table(index_keys=...)``: its indexes exist, and their names are not reserved."""
    for name in keys:
        if name not in indexes:
            raise SchemaError(
                f"Table({table!r}): index_keys names {name!r}, but no pattern has this index; there are "
                f"{', '.join(indexes) or 'none'}; give the pattern the name with AccessPattern(..., index={name!r})"
            )
    for name in (key for names in keys.values() for key in flat(names)):
        if name in OWN or (name.startswith("_") and not verbatim):
            raise SchemaError(f"Table({table!r}): index_keys has {name!r}; names that begin with '_' are reserved")


def check_keys(schema: Schema) -> None:
    """Raise if the primary keys of two entities can be equal: one would overwrite the other."""
    for a, b in combinations(schema.entities.values(), 2):
        meet = _can_meet(a.primary, b.primary)
        if a.row is not None and b.row is not None:
            meet = can_equal(a.row, b.row)
        if not meet:
            continue
        if schema.described or (a.match is not None and b.match is not None):
            check_alike(schema, a, b)
            continue
        raise SchemaError(
            f"in table {schema.name!r} an item of {a.name} and one of {b.name} can have the same key: "
            f"{a.name}.{a.primary.text} and {b.name}.{b.primary.text}. Begin one of the templates with a literal "
            f"of its own, such as {b.name.upper()}#"
        )


def is_shared(pattern: PatternSchema, other: PatternSchema) -> bool:
    """Whether keys of the other entity can be in the range that a query of this pattern reads."""
    if not any(can_equal(partition, another) for partition in pattern.partitions for another in other.partitions):
        return False
    return pattern.sort is None or other.sort is None or can_overlap(pattern.sort, other.sort)


def _can_meet(a: PatternSchema, b: PatternSchema) -> bool:
    return can_equal(a.partition, b.partition) and _sorts_can_meet(a.sort, b.sort)


def _sorts_can_meet(a: Template | None, b: Template | None) -> bool:
    return a is None or b is None or can_equal(a, b)
