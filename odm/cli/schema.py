"""`odm schema`: the compiled key schema of a table, for people and as JSON."""

import json
from collections.abc import Iterator

from typer import echo

from odm.cli.locations import backend_at
from odm.cli.samples import example_key
from odm.cli.tables import make_console, show_table
from odm.cli.target import load_target
from odm.cli.usage import BadUsage
from odm.immutable import evolve
from odm.keys import VerbatimKey, suffixes
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.lockfile import FORMAT, LockFile, describe, plain
from odm.schema.model import Schema


def show_schema(target: str, *, as_json: bool) -> None:
    """Print the key schema of ``module:table``.

    Args:
        target: ``module:table``.
        as_json: print it in the format of a lock file.

    Raises:
        OdmError: the table cannot be loaded or does not compile.
    """
    schema = load_target(target).schema
    if as_json:
        lock = LockFile(format=FORMAT, tables={schema.name: describe(schema)})
        echo(json.dumps(plain(lock), indent=2, sort_keys=True))
        return
    console = make_console()
    keys = schema.keys[:1] if schema.hash_only else schema.keys
    console.print(f"table {schema.name}, key attributes {' and '.join(keys)}\n", soft_wrap=True)
    entities = [_entity(entity) for entity in schema.entities.values()]
    show_table(console, "Entities", ("entity", "tag", "version", "keep", "fields with a role"), entities)
    patterns = [
        _pattern(entity, pattern)
        for entity in schema.entities.values()
        for pattern in (entity.primary, *entity.patterns.values())
    ]
    show_table(
        console, "Patterns", ("pattern", "index", "partition", "sort", "shards", "only when", "example key"), patterns
    )
    show_table(console, "Indexes", ("index", "kind", "patterns", "holds"), _indexes(schema))
    show_table(console, "Column families on Bigtable", ("family", "deletes", "holds"), _families(schema))
    for note in _notes(schema):
        console.print(note, soft_wrap=True)


def show_sql(target: str, location: str | None) -> None:
    """Print the SQL statements that show ``module:table`` on Bigtable as columns.

    Args:
        target: ``module:table``.
        location: ``bigtable:PROJECT/INSTANCE``; None: these two words stand in the statements.

    Raises:
        BadUsage: the location is not one of Bigtable.
        OdmError: the table cannot be loaded, does not compile, or cannot be stored on Bigtable.
    """
    from odm.backends.bigtable import Bigtable
    from odm.backends.bigtable.admin.schema import check
    from odm.cli.bigquery import statements

    place, prefix = Bigtable("PROJECT", "INSTANCE"), ""
    if location is not None:
        backend, prefix = backend_at(location)
        if not isinstance(backend, Bigtable):
            raise BadUsage(f"{location!r}: --bigquery is for a table on Bigtable: write bigtable:PROJECT/INSTANCE")
        place = backend
    loaded = load_target(target).schema
    schema = place.laid_out(evolve(loaded, name=prefix + loaded.name))
    check(schema)
    echo(statements(schema, place.project, place.instance), nl=False)


def _notes(schema: Schema) -> Iterator[str]:
    """What differs from odm's own tables, in a table that other programs made."""
    if schema.verbatim:
        yield (
            "Keys as they are: they sort as text, so a number without padding has no range, and a value that contains "
            "the literal behind its placeholder is refused."
        )
    if schema.tag is None:
        yield "Items have no tag: their entity is known by the form of their keys, or by match= of the class."
    elif schema.described:
        yield f"The attribute {schema.tag} names the entity of an item."
    for entity in schema.entities.values():
        if entity.match is not None:
            yield f"{entity.name}: only items with {entity.match}."
        if entity.key_only:
            names = ", ".join(part.field for part in entity.key_only.values())
            yield f"{entity.name}: read from keys and not stored as attributes: {names}."
        slots = [slot for template in entity.templates for slot in template.slots]
        empty = sorted({slot.name for slot in slots if isinstance(slot.type, VerbatimKey) and slot.type.empty})
        if empty:
            yield f"{entity.name}: may be empty in keys: {', '.join(empty)}."
        natives = sorted({t.fields[0] for t in entity.templates if t.native})
        if natives:
            yield f"{entity.name}: key attributes themselves: {', '.join(natives)}."


def _entity(entity: EntitySchema) -> tuple[str, ...]:
    version = str(entity.version) if entity.version > 1 else ""
    return entity.name, entity.tag, version, str(entity.keep or ""), _roles(entity)


def _roles(entity: EntitySchema) -> str:
    kinds = ((kind.title(), (name,)) for name, kind in entity.aggregates.items())
    many = (*kinds, ("Counter", entity.counters), ("Columns", entity.columns), ("CellVersions", entity.versioned))
    blobs = [name for name, stored in entity.codec.stored.items() if stored in entity.blobs]
    many = (*many, ("Blob", blobs))
    roles = (("TTL", entity.ttl), ("Revision", entity.revision), *((role, name) for role, its in many for name in its))
    return ", ".join(sorted(f"{name} ({role})" for role, name in roles if name))


def _pattern(entity: EntitySchema, pattern: PatternSchema) -> tuple[str, ...]:
    example = [example_key(pattern.partition) + suffixes(pattern.shards)[0]]
    if pattern.sort is not None:
        example.append(example_key(pattern.sort))
    return (
        f"{entity.name}.{pattern.name}",
        pattern.index or "the table",
        pattern.partition.text,
        "" if pattern.sort is None else pattern.sort.text,
        _shards(pattern),
        "" if pattern.when is None else str(pattern.when),
        " | ".join(example),
    )


def _shards(pattern: PatternSchema) -> str:
    if pattern.shards is None:
        return ""
    by = "" if pattern.shards.by is None else f" by {pattern.shards.by}"
    return f"{pattern.shards.count}{by}" + ("" if pattern.shards.was is None else f", {pattern.shards.was} before")


def _families(schema: Schema) -> list[tuple[str, ...]]:
    holds: dict[str, list[str]] = {name: [] for name in schema.families}
    for entity in schema.entities.values():
        names = {stored: f"{entity.name}.{name}" for name, stored in entity.codec.stored.items()}
        for where, family in (
            (entity.name, entity.family),
            *((names[stored], f) for stored, f in entity.families.items()),
        ):
            if family is not None:
                holds[family].append(where)
    return [(name, str(rule or ""), ", ".join(holds[name])) for name, rule in schema.families.items()]


def _indexes(schema: Schema) -> list[tuple[str, ...]]:
    return [
        (
            index.name,
            index.patterns[0].kind,
            ", ".join(f"{p.entity}.{p.name}" for p in index.patterns),
            "" if index.projection is None else f"keys {' '.join(index.projection)}".strip(),
        )
        for index in schema.indexes.values()
    ]
