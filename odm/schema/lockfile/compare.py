"""Compare two descriptions of a table: each change of a model, with its effect on stored data.

Entities are matched by tag, patterns by the name of their index and fields by their stored name, because these
are stored. Every difference gives at least one finding; an unclassified one is "safe" and asks for a review.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from odm.immutable import evolve
from odm.schema.lockfile.compare_checks import compare_checks
from odm.schema.lockfile.compare_fields import compare_fields
from odm.schema.lockfile.compare_patterns import compare_patterns, compare_primary
from odm.schema.lockfile.description import EntityLock, TableLock
from odm.schema.lockfile.finding import LEVELS, Finding, backfill_of
from odm.schema.lockfile.formats import as_first
from odm.schema.model import flat

_NONE: Final[Mapping[str, TableLock]] = MappingProxyType({})
_NEW_TABLE = "create a table of another name, read everything with the old model and put it there"


def compare(
    table: str, old: TableLock | None, new: TableLock, gone: Mapping[str, TableLock] = _NONE
) -> tuple[Finding, ...]:
    """The changes from one description of a table to another.

    Args:
        table: the table's name.
        old: the locked description; None: the table is not locked.
        new: the current description.
        gone: tables that are locked but no longer declared, by name; one may be an earlier name of this table.

    Returns:
        The findings, worst first; none exactly when the two are equal.
    """
    if old is None:
        renamed = [_renamed(name, table) for name, lock in gone.items() if lock.entities.keys() & new.entities.keys()]
        findings: Iterable[Finding] = renamed or [Finding("safe", f"table {table}", "not locked yet")]
    else:
        old = _as_filled(old)
        known = new if old.format >= new.format else as_first(new)
        findings = (
            *_compare_formats(f"table {table}", old, new, known),
            *_compare_tables(f"table {table}", old, new),
            *_compare_entities(old, known),
        )
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _as_filled(table: TableLock) -> TableLock:
    """The table with all patterns backfilled: whether they are is not a difference of models."""
    entities = {
        tag: entity.model_copy(
            update={
                "patterns": {i: pattern.model_copy(update={"filled": True}) for i, pattern in entity.patterns.items()}
            }
        )
        for tag, entity in table.entities.items()
    }
    return table.model_copy(update={"entities": entities})


def _compare_formats(where: str, old: TableLock, new: TableLock, known: TableLock) -> Iterator[Finding]:
    """A table that was described in another format; ``known``: the current table as that format describes it."""
    if old.format == new.format:
        return
    hidden = sorted(_compare_entities(known, new), key=lambda finding: LEVELS.index(finding.level))
    level = hidden[0].level if hidden else "safe"
    effect = "the table was locked by an odm that did not record defaults, configuration, validators and narrow types"
    if hidden:
        effect += f", so that a change of {_listed([finding.where for finding in hidden])} since then is not reported"
    fix = "lock the models that are deployed with this odm, then check the new ones; or review them"
    yield Finding(level, where, "format", str(old.format), str(new.format), effect, fix)


def _listed(places: list[str], most: int = 5) -> str:
    different = list(dict.fromkeys(places))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return f"{', '.join(different[:most])}{more}"


def _renamed(was: str, now: str) -> Finding:
    effect = f"if this is the new name of {was}, its stored items stay in {was} and are not found"
    fix = f'keep Table("{was}"), or copy them'
    return Finding(
        "backfill", f"table {now}", "not locked yet, and one with the same entities is gone", was, now, effect, fix
    )


def _compare_tables(where: str, old: TableLock, new: TableLock) -> Iterator[Finding]:
    if old.keys != new.keys:
        effect = "on DynamoDB items have key attributes of the old names, and a table's key cannot be changed"
        yield Finding("orphans", where, "key names", ", ".join(old.keys), ", ".join(new.keys), effect, _NEW_TABLE)
    for index in sorted(_indexes(old) & _indexes(new)):
        was, now = (", ".join(flat(side.index_keys.get(index, (f"{index}pk", f"{index}sk")))) for side in (old, new))
        if was != now:
            effect = "on DynamoDB entries of stored items are under attributes of the old names, which no query reads"
            fix = "name them as before in Table(index_keys=...), or give the patterns a new index and backfill it"
            yield Finding("orphans", f"index {index}", "key names", was, now, effect, fix)
    for option, before, after in (("tag", old.tag, new.tag), ("ttl", old.ttl, new.ttl)):
        if before != after:
            effect = "on DynamoDB stored items have the attribute of the old name, which no call reads any more"
            yield Finding("orphans", where, option, str(before), str(after), effect, _NEW_TABLE)
    if old.verbatim != new.verbatim:
        was, now = ("verbatim" if side.verbatim else "escaped" for side in (old, new))
        effect = "keys are written in another form, so stored items are not found"
        yield Finding("orphans", where, "key_style", was, now, effect, _NEW_TABLE)
    if old.hash_only != new.hash_only:
        was, now = ("no sort key" if side.hash_only else "with sort key" for side in (old, new))
        effect = "items without a sort template are stored under another key, and DynamoDB cannot change a table's key"
        yield Finding("orphans", where, "sort key", was, now, effect, _NEW_TABLE)
    if old.row_key_join != new.row_key_join:
        effect = "on Bigtable every stored item has a row key of the old form and is no longer found"
        yield Finding("orphans", where, "row_key_join", old.row_key_join, new.row_key_join, effect, _NEW_TABLE)
    if old.verbatim_rows != new.verbatim_rows:
        was, now = ("verbatim" if side.verbatim_rows else "own" for side in (old, new))
        effect = "on Bigtable stored items are in rows of another form and are no longer found"
        yield Finding("orphans", where, "row_style", was, now, effect, _NEW_TABLE)
    if old.wide != new.wide:
        was, now = ("row_per_partition" if side.wide else "row_per_item" for side in (old, new))
        effect = "on Bigtable stored items are in rows of the other layout and are no longer found"
        yield Finding("orphans", where, "layout", was, now, effect, _NEW_TABLE)
    if old.transactions != new.transactions:
        was, now = ("on" if side.transactions else "off" for side in (old, new))
        effect = "on Bigtable the items are in a table of another name and are no longer found"
        yield Finding("orphans", where, "transactions", was, now, effect, _NEW_TABLE)


def _indexes(table: TableLock) -> set[str]:
    return {index for entity in table.entities.values() for index in entity.patterns}


def _compare_entities(old: TableLock, new: TableLock) -> Iterator[Finding]:
    for tag, entity in old.entities.items():
        if tag not in new.entities:
            yield _removed(tag, entity, new)
    for tag, entity in new.entities.items():
        if tag in old.entities:
            was = old.entities[tag]
            findings = list(_compare_entity(was, entity, old, new))
            if not findings and was != entity and old.hash_only == new.hash_only:
                findings = [_details(was, entity)]
            yield from findings
        else:
            yield _added(tag, entity, old)


def _added(tag: str, entity: EntityLock, old: TableLock) -> Finding:
    """A new entity, or the items of a new companion of an old entity, which do not exist for stored items yet."""
    owner = next(
        (owner_tag for owner_tag in old.entities if tag.startswith(f"{owner_tag}.") and "." in entity.name), None
    )
    if owner is None:
        return Finding("safe", entity.name, "new entity", now=f"tag {tag!r}")
    effect = f"its items are written with each {owner}, so they are missing for stored {owner} items"
    fix = backfill_of(".".join(entity.name.split(".")[:2]))  # a companion may have several classes
    return Finding("backfill", entity.name, "new companion", "", f"tag {tag!r}", effect, fix)


def _removed(tag: str, entity: EntityLock, new: TableLock) -> Finding:
    effect = "its stored items have a tag that no entity has: scans and collections raise ItemInvalid or skip them"
    fix = "delete its items with the old model first"
    for other in new.entities.values():
        same_sort = other.primary.sort == entity.primary.sort
        if same_sort and other.primary.partition.same_bytes(entity.primary.partition):
            fix = f"if {other.name} is its new name, keep the tag: class {other.name}(Entity, ..., tag={tag!r})"
    return Finding("orphans", entity.name, "removed entity", f"tag {tag!r}", "", effect, fix)


def _details(old: EntityLock, new: EntityLock) -> Finding:
    """Other differences, such as names in the code."""
    if old.name != new.name:
        return Finding("safe", new.name, "renamed class", old.name, new.name)
    return Finding("safe", new.name, "details", effect="items are stored and read as before")


def _compare_entity(old: EntityLock, new: EntityLock, before: TableLock, after: TableLock) -> Iterator[Finding]:
    yield from compare_primary(old, new, same_sorts=before.hash_only == after.hash_only)
    yield from compare_patterns(old, new, after)
    yield from _compare_version(old, new)
    fields = (*compare_checks(new.name, old, new), *compare_fields(new.name, old.fields, new.fields, new.limits))
    for finding in fields:
        yield _upgraded(finding) if new.version > old.version else _indexed(finding, new)
    yield from _compare_roles(old, new)
    yield from _compare_families(old, new)
    if old.keep != new.keep:
        yield _kept(old, new)


def _kept(old: EntityLock, new: EntityLock) -> Finding:
    was, now = ("all" if side.keep is None else f"newest {side.keep}" for side in (old, new))
    if new.keep is None or (old.keep is not None and new.keep > old.keep):
        return Finding("safe", new.name, "keep", was, now)
    effect = "the next put into a partition removes the older items in it"
    return Finding("orphans", new.name, "keep", was, now, effect, "first copy the items to keep to another table")


def _compare_version(old: EntityLock, new: EntityLock) -> Iterator[Finding]:
    if new.version > old.version:
        effect = "stored items are upgraded when they are read, and rewritten when they are put"
        yield Finding("safe", new.name, "version", str(old.version), str(new.version), effect)
    if new.version < old.version:
        effect = "stored items of the newer version cannot be read"
        fix = f"keep version={old.version}, or raise it"
        yield Finding("orphans", new.name, "version", str(old.version), str(new.version), effect, fix)


def _indexed(finding: Finding, entity: EntityLock) -> Finding:
    """A changed default of a field, with the patterns whose entries were made with the old one."""
    names = {f"{entity.name}.{field.field or stored}": stored for stored, field in entity.fields.items()}
    stored = names.get(finding.where)
    using = [f"{entity.name}.{pattern.name}" for pattern in entity.patterns.values() if stored and pattern.uses(stored)]
    if finding.change != "default" or finding.level != "backfill" or not using:
        return finding
    effect = f"{finding.effect}, but entries of {' and '.join(using)} were made with the old default"
    commands = " and ".join(map(backfill_of, using))
    return evolve(finding, effect=effect, fix=f"run {commands}, or {finding.fix}")


def _upgraded(finding: Finding) -> Finding:
    """A change of a field whose entity has a new version."""
    if finding.level == "safe":
        return finding
    effect = "the upgrade functions must convert stored items; index entries use the new form once an item is written"
    return evolve(finding, level="backfill", effect=effect, fix=backfill_of(finding.where.split(".")[0]))


def _compare_roles(old: EntityLock, new: EntityLock) -> Iterator[Finding]:
    """The fields with a role: TTL, Revision, Counter, Columns, CellVersions and aggregates."""
    again = backfill_of(new.name)
    was, now = old.ttl or "none", new.ttl or "none"
    if old.ttl is not None and old.ttl != new.ttl:
        effect = f"stored items still expire at the time that {was} gave"
        yield Finding("orphans", new.name, "TTL", was, now, effect, again)
    elif old.ttl != new.ttl:
        yield Finding("backfill", new.name, "TTL", was, now, "stored items do not expire yet", again)
    was, now = old.revision or "none", new.revision or "none"
    if new.revision is not None and old.revision != new.revision:
        effect = "stored items read as revision 0, and a put at 0 is an insert, which raises ItemExists"
        fix = f"update() every stored {new.name} once by its key"
        yield Finding("backfill", new.name, "Revision", was, now, effect, fix)
    elif old.revision != new.revision:
        yield Finding("safe", new.name, "Revision", was, now, "a write of a stale copy is no longer refused")
    yield from _compare_forms(old, new, "Counter", old.counters, new.counters)
    yield from _compare_forms(old, new, "Columns", old.columns, new.columns)
    yield from _compare_blobs(old, new)
    yield from _compare_own(old, new, "CellVersions", (*old.versioned,), (*new.versioned,))
    for kind in ("sum", "min", "max"):
        marked, marks = (tuple(name for name, its in lock.aggregates.items() if its == kind) for lock in (old, new))
        yield from _compare_own(old, new, kind.title(), marked, marks)
    for name in sorted(old.versioned.keys() & new.versioned.keys()):
        count, counts = old.versioned[name], new.versioned[name]
        if count != counts:
            effect = "each item keeps the new number of values from its next write"
            yield Finding("safe", f"{new.name}.{name}", "CellVersions", str(count), str(counts), effect)


def _compare_families(old: EntityLock, new: EntityLock) -> Iterator[Finding]:
    """The column families of an entity and of its fields."""
    both = sorted(old.fields.keys() & new.fields.keys() & (old.families.keys() | new.families.keys()))
    fields = ((f"{new.name}.{name}", old.families.get(name), new.families.get(name)) for name in both)
    for where, was, now in ((new.name, old.family, new.family), *fields):
        if was != now:
            effect = "on Bigtable stored values are in cells of the other family and are no longer found"
            yield Finding("orphans", where, "family", was or "none", now or "none", effect, _NEW_TABLE)
    for name in sorted(old.fields.keys() & new.fields.keys() & (old.cells.keys() | new.cells.keys())):
        if (was := old.cells.get(name)) != (now := new.cells.get(name)):
            effect = "on Bigtable stored values are in another cell or encoding and are no longer found"
            yield Finding("orphans", f"{new.name}.{name}", "cell", was or "none", now or "none", effect, _NEW_TABLE)


def _compare_blobs(old: EntityLock, new: EntityLock) -> Iterator[Finding]:
    """The fields whose long values are kept in blobs."""
    for name in sorted({*old.blobs} - {*new.blobs}):
        if name in new.fields:
            effect = "values in blobs can no longer be read, as the new model expects the bytes in the item"
            fix = f"put() every stored {new.name} with short values first, or keep Blob"
            yield Finding("orphans", f"{new.name}.{name}", "Blob", "Blob", "plain", effect, fix)
    for name in sorted({*new.blobs} - {*old.blobs}):
        if name in old.fields:
            effect = "values in items are still read; programs with the old model cannot read those in blobs"
            yield Finding("safe", f"{new.name}.{name}", "Blob", "plain", "Blob", effect)


def _compare_own(
    old: EntityLock, new: EntityLock, marker: str, marked: tuple[str, ...], marks: tuple[str, ...]
) -> Iterator[Finding]:
    """The fields that get a column family of odm's own on Bigtable, which a model without the marker does not read."""
    yield from _compare_forms(old, new, marker, (), tuple({*marks} - {*marked}))
    for name in sorted({*marked} - {*marks}):
        if name in new.fields:
            effect = (
                "on Bigtable the values stay in a column family that the new model does not read, and the field reads "
                "as its default or cannot be read"
            )
            fix = f"on Bigtable, put() every stored {new.name} under a new field first, with a model that has both"
            yield Finding("orphans", f"{new.name}.{name}", marker, marker, "plain", effect, fix)


def _compare_forms(
    old: EntityLock, new: EntityLock, marker: str, marked: tuple[str, ...], marks: tuple[str, ...]
) -> Iterator[Finding]:
    """The fields that Bigtable stores in another form, because a marker was added or removed."""
    for name in sorted({*marked} ^ {*marks}):
        if name in new.fields and name in old.fields:
            was, now = (marker if name in side else "plain" for side in (marked, marks))
            effect = (
                "on Bigtable the two are stored in different forms; stored items are read in both, and a program that "
                "still has the old model overwrites only one of them"
            )
            if now == "plain":
                effect += "; conditions and updates without the marker use only the plain form"
            fix = f"on Bigtable, stop programs with the old model, then put() every stored {new.name} again"
            yield Finding("backfill", f"{new.name}.{name}", marker, was, now, effect, fix)
