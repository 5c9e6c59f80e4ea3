"""Changes of keys: the primary key of an entity, and its access patterns with their indexes."""

from collections.abc import Iterator

from odm.keys import Shards, suffixes_read
from odm.schema.lockfile.description import (
    EntityLock,
    PatternLock,
    ShardsLock,
    SlotLock,
    TableLock,
    TemplateLock,
)
from odm.schema.lockfile.finding import Finding, backfill_of

_STAYS = "entries of stored items stay in the partitions of the old template, so queries do not return most of them"
_STAYS_IN_PARTITION = (
    "entries of stored items stay under the old sort keys: queries of a range do not return all items that meet their "
    "conditions, and queries of a partition return them in the old order"
)


def compare_primary(old: EntityLock, new: EntityLock, *, same_sorts: bool) -> Iterator[Finding]:
    """The primary key. ``same_sorts`` False: the table's sort key was added or removed, which is a separate finding."""
    was, now = old.primary, new.primary
    came_or_went = was.sort is None or now.sort is None
    sorts_differ = _differ(was.sort, now.sort) and (same_sorts or not came_or_went)
    if _differ(was.partition, now.partition) or sorts_differ:
        effect = "stored items stay under their old keys: they are not found, and a put writes a second item"
        fix = "move them from the old class to the new one with db.rekey()"
        yield Finding("orphans", _where(new, now), "primary key", *_keys(was, now), effect, fix)
    if was.shards != now.shards:
        effect = "stored items stay in their old shards: they are not found, and a put writes a second item"
        fix = "create a table of another name, read everything with the old model and put it there"
        shards = _shards(was.shards), _shards(now.shards)
        yield Finding("orphans", _where(new, now), "shards", *shards, effect, fix)


def compare_patterns(old: EntityLock, new: EntityLock, table: TableLock) -> Iterator[Finding]:
    """The access patterns; ``table`` is the current one, for the patterns that share an index."""
    gone = {pattern.name: index for index, pattern in old.patterns.items() if index not in new.patterns}
    for index, pattern in new.patterns.items():
        if index in old.patterns:
            yield from _changed(new, index, old.patterns[index], pattern)
        elif pattern.name in gone:
            yield _moved(new, pattern, gone.pop(pattern.name), index, table)
        else:
            yield _added(new, pattern, index, table)
    for index in gone.values():
        yield _removed(new, old.patterns[index], index, table)


def _changed(entity: EntityLock, index: str, old: PatternLock, new: PatternLock) -> Iterator[Finding]:
    where = _where(entity, new)
    again = f"{backfill_of(where)}, or give the pattern a new index name and backfill it"
    if old.kind != new.kind:
        effect = f"the index {index} exists as a {old.kind} one, which DynamoDB cannot change"
        yield Finding("orphans", where, "kind", old.kind, new.kind, effect, "give the pattern a new index name")
    if _differ(old.partition, new.partition) or _differ(old.sort, new.sort):
        effect = _STAYS if _differ(old.partition, new.partition) else _STAYS_IN_PARTITION
        yield Finding("orphans", where, "template", *_keys(old, new), effect, again)
    if old.when != new.when:
        effect = "stored items are in the index, or missing from it, by the old condition"
        yield Finding("orphans", where, "when", old.when or "none", new.when or "none", effect, again)
    if old.projection != new.projection:
        yield _projected(where, old.projection, new.projection)
    if old.shards != new.shards:
        yield _resharded(where, old.shards, new.shards, again)


def _projected(where: str, old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> Finding:
    was, now = ("all" if side is None else ", ".join(side) or "keys" for side in (old, new))
    if old is None or (new is not None and {*new} <= {*old}):
        effect = "on DynamoDB the index still has the old attributes; items are fetched by key"
        return Finding("safe", where, "projection", was, now, effect, "give the index a new name to save storage")
    effect = "on DynamoDB the index lacks what the new model reads from it, and its projection cannot be changed"
    fix = "give the pattern a new index name and backfill it"
    return Finding("orphans", where, "projection", was, now, effect, fix)


def _resharded(where: str, old: ShardsLock | None, new: ShardsLock | None, again: str) -> Finding:
    """Another number of shards, or another field: whether queries read all shards that may have entries."""
    was, now = _shards(old), _shards(new)
    count, by = (1, None) if old is None else (old.count, old.by)
    before = None if old is None else old.was
    if not _looks_at(new, count, by):
        effect = "entries of stored items stay in their old shards, where queries may not look"
        if new is not None and _looks_at(ShardsLock(count=new.count, by=new.by, was=count), count, by):
            again = f"add was={count}, so that queries read these too, or {again}"
        return Finding("orphans", where, "shards", was, now, effect, again)
    if before is not None and not _looks_at(new, before, by):
        effect = "entries that have not moved stay in the previous shards, which queries no longer read"
        fix = f"keep was={before} until db.reshard() has returned 0 for every partition"
        return Finding("orphans", where, "shards", was, now, effect, fix)
    effect = "queries read all shards that may have stored entries"
    if new is not None and new.was is not None:
        effect += ", also the previous ones; db.reshard() moves the entries; remove was= when it returns 0"
    return Finding("safe", where, "shards", was, now, effect)


def _looks_at(shards: ShardsLock | None, count: int, by: SlotLock | None) -> bool:
    """Whether queries find entries spread over so many shards by that field; 1 means no shards."""
    if shards is None:
        return count == 1
    if shards.by is not None:  # a query reads only the shard of the field
        return count in (shards.count, shards.was) and (count == 1 or by == shards.by)
    there = suffixes_read(Shards(count)) if count > 1 else ("",)
    return {*there} <= {*suffixes_read(Shards(shards.count, was=shards.was))}


def _added(entity: EntityLock, pattern: PatternLock, index: str, table: TableLock) -> Finding:
    if made_of_fields(pattern, index, table):
        return _filled(entity, pattern, "new pattern", "", index)
    effect = "stored items are not in it, so queries do not return them"
    if pattern.kind == "local":
        effect += ", and DynamoDB creates a local index only together with its table"
    return Finding(
        "backfill", _where(entity, pattern), "new pattern", "", f"index {index}", effect, _fill(entity, pattern)
    )


def _moved(entity: EntityLock, pattern: PatternLock, old: str, new: str, table: TableLock) -> Finding:
    others = _sharers(old, table)
    effect = "stored items have their entries in the old index"
    if not others and made_of_fields(pattern, new, table):
        return _filled(entity, pattern, "index", old, new)
    if not others:
        return Finding("backfill", _where(entity, pattern), "index", old, new, effect, _fill(entity, pattern))
    effect += f", where queries of {others} read them and leave them out"
    fix = f"create() the index, then {backfill_of(entity.name)}"  # which also removes the old entries
    return Finding("backfill", _where(entity, pattern), "index", old, new, effect, fix)


def made_of_fields(pattern: PatternLock, index: str, table: TableLock) -> bool:
    """Whether all key attributes of a global index are fields, so that stored items have them already."""
    names = table.index_keys.get(index, ())
    templates = [template for template in (pattern.partition, pattern.sort) if template is not None]
    if pattern.kind != "global" or len(names) != len(templates):
        return False
    keys = [[name] if isinstance(name, str) else list(name) for name in names]
    whole = [[slot.field for slot in template.slots] == key for template, key in zip(templates, keys, strict=True)]
    plain = [
        isinstance(name, tuple) or template.literals == ("", "")
        for template, name in zip(templates, names, strict=True)
    ]
    return all(whole) and all(plain) and not any(":" in template.text for template in templates)


def _filled(entity: EntityLock, pattern: PatternLock, change: str, was: str, index: str) -> Finding:
    """An index that DynamoDB fills by itself, from attributes that any program may have written."""
    effect = (
        "its key attributes are fields of the items, whichever program wrote them: on DynamoDB the index has them once "
        "create() or odm apply has added it"
    )
    fix = f"elsewhere {_fill(entity, pattern)}"
    now = index if change == "index" else f"index {index}"
    return Finding("safe", _where(entity, pattern), change, was, now, effect, fix)


def _removed(entity: EntityLock, pattern: PatternLock, index: str, table: TableLock) -> Finding:
    where, was, others = _where(entity, pattern), f"index {index}", _sharers(index, table)
    if not others:
        return Finding("safe", where, "removed pattern", was, "", "no other pattern uses its index")
    effect = f"entries of stored items stay in the index, where queries of {others} read them and leave them out"
    fix = f"a backfill of {entity.name} removes them"
    return Finding("safe", where, "removed pattern", was, "", effect, fix)


def _sharers(index: str, table: TableLock) -> str:
    """The patterns that use an index in the current table."""
    return ", ".join(_where(e, e.patterns[index]) for e in table.entities.values() if index in e.patterns)


def _fill(entity: EntityLock, pattern: PatternLock) -> str:
    return f"create() the index, then {backfill_of(_where(entity, pattern))}"


def _where(entity: EntityLock, pattern: PatternLock) -> str:
    return f"{entity.name}.{pattern.name}"


def same_entries(old: PatternLock, new: PatternLock) -> bool:
    """Whether the entries of stored items are where the new pattern puts them and looks for them."""
    keys = _differ(old.partition, new.partition) or _differ(old.sort, new.sort)
    by = None if old.shards is None else old.shards.by
    shards = _looks_at(new.shards, 1 if old.shards is None else old.shards.count, by)
    return not keys and old.when == new.when and shards


def _differ(old: TemplateLock | None, new: TemplateLock | None) -> bool:
    if old is None or new is None:
        return old is not new
    return not old.same_bytes(new)


def _keys(old: PatternLock, new: PatternLock) -> tuple[str, str]:
    """The difference of two keys: their templates, with the encodings if only those differ."""
    pairs = [(old.partition, new.partition), (old.sort, new.sort)]
    differ = [(was, now) for was, now in pairs if _differ(was, now)]
    written = [(_text(was), _text(now)) for was, now in differ]
    if all(was == now for was, now in written):
        written = [(_text(was) + _encodings(was), _text(now) + _encodings(now)) for was, now in differ]
    was, now = (", ".join(filter(None, side)) for side in zip(*written, strict=True))
    return was, now


def _text(template: TemplateLock | None) -> str:
    return "" if template is None else f'"{template.text}"'


def _encodings(template: TemplateLock | None) -> str:
    slots = () if template is None else template.slots
    return f" with {', '.join(f'{slot.field} as {slot.encoding}' for slot in slots)}"


def _shards(shards: ShardsLock | None) -> str:
    if shards is None:
        return "none"
    was = "" if shards.was is None else f", {shards.was} before"
    return (
        f"{shards.count} {'at random' if shards.by is None else f'by {shards.by.field} as {shards.by.encoding}'}{was}"
    )
