"""Compare two descriptions of a table: each change of a model, with its effect on stored data.

Entities are matched by tag, patterns by the name of their index and fields by their stored name, because these
are stored. Every difference gives at least one finding; an unclassified one is "safe" and asks for a review.

In this order: lock files of an earlier format, what is checked and converted, fields, keys and indexes, entities.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from odm.immutable import evolve
from odm.keys import Shards, suffixes_read
from odm.schema.lockfile.description import (
    EntityLock,
    FieldLock,
    Limit,
    Limits,
    PatternLock,
    ShardsLock,
    SlotLock,
    TableLock,
    TemplateLock,
)
from odm.schema.lockfile.finding import LEVELS, Finding, backfill_of
from odm.schema.model import flat

_FIRST_LIMITS: Final = frozenset(
    {
        *("ge", "gt", "le", "lt", "min_length", "max_length", "multiple_of", "max_digits", "decimal_places", "pattern"),
        *("strip_whitespace", "to_lower", "to_upper", "uuid_version", "max_whole_digits"),
    }
)


def as_first(table: TableLock) -> TableLock:
    """A description as format 1 had it: without defaults, validators, configuration and narrow types."""
    entities = {tag: _entity(entity) for tag, entity in table.entities.items()}
    return table.model_copy(update={"format": 1, "entities": entities})


def _entity(entity: EntityLock) -> EntityLock:
    return entity.model_copy(update={"limits": {}, "validators": (), "fields": _fields(entity.fields)})


def _fields(fields: Mapping[str, FieldLock]) -> dict[str, FieldLock]:
    return {stored: _field(field) for stored, field in fields.items()}


def _field(field: FieldLock) -> FieldLock:
    return field.model_copy(
        update={
            "absent": "default" if field.absent == "factory" else field.absent,
            "default": None,
            "limits": _limits(field.limits),
            "validators": (),
            "models": tuple(map(_fields, field.models)),
        }
    )


def _limits(limits: Limits) -> Limits:
    return {name: value for name, value in limits.items() if name.rpartition(".")[2] in _FIRST_LIMITS}


_LOWER: Final = frozenset({"ge", "gt", "min_length", "str_min_length"})
"""Limits that allow more if they are smaller; other numeric limits allow more if they are larger."""
_EXACT: Final = frozenset({"multiple_of", "pattern", "uuid_version"})
_MODES: Final = frozenset({"regex_engine", "union_mode", "url_preserve_empty_path"})
"""What has another effect if it is absent, not none."""
_CONVERTING: Final = ("to_lower", "to_upper", "strip_whitespace")
"""The ends of the names of what changes values instead of refusing them."""


def compare_checks(where: str, old: EntityLock | FieldLock, new: EntityLock | FieldLock) -> Iterator[Finding]:
    """Compare the limits and validators of a field or model."""
    yield from _limited(where, old.limits, new.limits)
    if old.validators != new.validators:
        was, now = (", ".join(side.validators) or "none" for side in (old, new))
        effect = "code is not compared: stored values may raise ItemInvalid, or read as other values"
        fix = "read stored items with the new model before it is deployed, as db.scan() does"
        yield Finding("orphans", where, "validators", was, now, effect, fix)


def _limited(where: str, old: Limits, new: Limits) -> Iterator[Finding]:
    """Constraints that were added, removed or changed."""
    if old == new:
        return
    was, now = (", ".join(f"{name}={value}" for name, value in sorted(side.items())) or "none" for side in (old, new))
    looser = all(_is_looser(name.rpartition(".")[2], old.get(name), new.get(name)) for name in {*old, *new})
    if looser and any(name.endswith(_CONVERTING) and not new.get(name) for name in old):
        effect = "values stored before they were converted read as stored; those that calls give are not converted"
        fix = "put() every stored item again with the old model first"
        yield Finding("backfill", where, "limits", was, now, effect, fix)
    elif looser:
        yield Finding("safe", where, "limits", was, now)
    else:
        effect = "values stored outside the new limits raise ItemInvalid, or read as other values"
        yield Finding("orphans", where, "limits", was, now, effect, "change those with the old model first, if any")


def _is_looser(name: str, old: Limit | None, new: Limit | None) -> bool:
    """Whether a limit allows at least what it allowed before, and reads it as before."""
    if old == new or name == "use_enum_values":
        return True
    if name == "coerce_numbers_to_str":
        return new is not None
    if name == "boundary":
        return new in {None, "keep"}
    if new is None:
        return name not in _MODES
    if name in _EXACT or not (isinstance(old, int | float) and isinstance(new, int | float)):
        return False
    if name == "flags":
        return isinstance(old, int) and isinstance(new, int) and old & ~new == 0
    return new <= old if name in _LOWER else new >= old


_WIDER: Final = {
    "Decimal": frozenset({"int"}),
    "compressed str": frozenset({"str"}),  # not so for bytes, some of which begin like a compressed value
    "str": frozenset({"UUID", "date", "datetime", "time"}),
}
"""Stored type to the types whose stored values it can read unchanged."""

_PLAIN: Final = frozenset({"None", "bool", "bytes", "Decimal", "dict", "int", "list", "str"})
"""Types whose values read back equal without a declared type."""


def compare_fields(
    where: str, old: Mapping[str, FieldLock], new: Mapping[str, FieldLock], options: Limits
) -> Iterator[Finding]:
    """Compare the fields of one model, and of the models nested in it.

    Args:
        where: the owner of the fields, such as ``Customer`` or ``Customer.address``.
        old: the locked fields, by stored name.
        new: the current fields.
        options: of the current model's configuration.
    """
    names = {_name(stored, field): stored for stored, field in old.items()}
    gone = {name: stored for name, stored in names.items() if stored not in new}
    for stored, field in new.items():
        name = _name(stored, field)
        here = f"{where}.{name}"
        if stored in old:
            if names.get(name, stored) != stored:
                yield _stored_as_another(here, names[name], stored, _name(stored, old[stored]))
                gone.pop(name, None)
            yield from _changed_field(here, old[stored], field, options)
        elif name in gone:
            yield _stored_elsewhere(here, gone.pop(name), stored)
        else:
            yield _added_field(here, field)
    for name, stored in gone.items():
        yield _removed_field(f"{where}.{name}", stored, old[stored])


def _name(stored: str, field: FieldLock) -> str:
    return field.field or stored


def _stored_elsewhere(where: str, old: str, new: str) -> Finding:
    effect = "stored values are under the old name and are not read"
    fix = f'keep it with Annotated[..., Stored("{old}")], or read with the old model and put with the new one'
    return Finding("orphans", where, "stored name", old, new, effect, fix)


def _stored_as_another(where: str, old: str, new: str, owner: str) -> Finding:
    effect = f"it reads what was stored for {owner}, and not its own values, which are under the old name"
    return Finding("orphans", where, "stored name", old, new, effect, f'keep it with Annotated[..., Stored("{old}")]')


def _added_field(where: str, field: FieldLock) -> Finding:
    if field.absent == "factory":
        effect = "stored items lack it: each read and each condition calls the factory, which may make another value"
        return Finding("backfill", where, "new field", "", field.type, effect, "put() every stored item again")
    if field.absent != "error":
        effect = f"stored items lack it: they read, and conditions see, {_default(field)}"
        return Finding("safe", where, "new field", "", field.type, effect)
    effect = "stored items lack it and raise ItemInvalid"
    return Finding("orphans", where, "new field without default", "", field.type, effect, "give it a default")


def _removed_field(where: str, stored: str, field: FieldLock) -> Finding:
    effect = "stored values are no longer read, and the next put drops them"
    fix = f'if it was renamed, keep the stored name with Annotated[..., Stored("{stored}")]'
    return Finding("orphans", where, "removed field", field.type, "", effect, fix)


def _changed_field(where: str, old: FieldLock, new: FieldLock, options: Limits) -> Iterator[Finding]:
    if old.type != new.type:
        yield _retyped(where, old, new, options)
    else:
        for before, after in zip(old.models, new.models, strict=False):
            inner = {name.rpartition(".")[2]: value for name, value in new.limits.items()}  # those of any model in it
            yield from compare_fields(where, before, after, inner)
    yield from _revalued(where, old, new)
    yield from compare_checks(where, old, new)
    yield from _absent(where, old, new)


def _retyped(where: str, old: FieldLock, new: FieldLock, options: Limits) -> Finding:
    if new.type == "Any" and _PLAIN.issuperset(re.findall(r"\w+", old.type)):
        return Finding("safe", where, "type", old.type, new.type, "stored values read as before")
    if _is_wider(new, old) and not (new.type == "str" and any(name.startswith("str_") for name in options)):
        effect = "stored values read as their text" if new.type == "str" else "stored values read as before"
        return Finding("safe", where, "type", old.type, new.type, effect)
    effect = "stored values have the old form, and may raise ItemInvalid or read as something else"
    fix = "convert them: read with the old model and put with the new one"
    return Finding("orphans", where, "type", old.type, new.type, effect, fix)


def _is_wider(new: FieldLock, old: FieldLock) -> bool:
    """Whether a type reads stored values of another unchanged."""
    return old.type in _WIDER.get(new.type, ()) and new.values is None


def _revalued(where: str, old: FieldLock, new: FieldLock) -> Iterator[Finding]:
    """Values of a Literal or Enum that were added or removed."""
    if old.type != new.type or old.values == new.values:
        return
    was, now = ("any" if side.values is None else ", ".join(map(repr, side.values)) for side in (old, new))
    if new.values is None or (old.values is not None and {*old.values} <= {*new.values}):
        yield Finding("safe", where, "allowed values", was, now)
    else:
        effect = "items stored with a removed value raise ItemInvalid"
        yield Finding("orphans", where, "allowed values", was, now, effect, "change them with the old model first")


def _absent(where: str, old: FieldLock, new: FieldLock) -> Iterator[Finding]:
    """The value of the field in an item that lacks it, or has None in it."""
    was, now = (_default(side) for side in (old, new))
    if new.absent == "error" and old.absent != "error":
        effect = "items stored without it raise ItemInvalid"
        fix = "keep the default, or put() every stored item again with the old model first"
        if old.absent == "none":
            fix = "keep the default, or give every stored item a value first"
        yield Finding("orphans", where, "default", was, now, effect, fix)
    elif old.optional and not new.optional and old.absent != "none":
        effect = "items stored with None in it raise ItemInvalid"
        yield Finding("orphans", where, "type", f"{old.type} | None", new.type, effect, "give them a value first")
    elif "error" not in {old.absent, new.absent} and _defaults_differ(old, new):
        read = f"what {now} makes each time" if new.absent == "factory" else f"{now}, and conditions see it too"
        effect = f"items stored without it read {read}"
        if old.absent == "none":
            effect = effect.replace("without it", "with None")
        fill = backfill_of(where.split(".", maxsplit=1)[0])
        fix = f"{fill}; to keep the old default for them, put() them with the old model first"
        yield Finding("backfill", where, "default", was, now, effect, fix)


def _defaults_differ(old: FieldLock, new: FieldLock) -> bool:
    """Not if stored values are of another type, which is a finding of its own."""
    return (old.absent, old.default) != (new.absent, new.default) and (
        old.absent == "none" or old.type == new.type or _is_wider(new, old)
    )


def _default(field: FieldLock) -> str:
    if field.absent in {"error", "none"}:
        return {"error": "required", "none": "None"}[field.absent]
    return field.default or "a default"


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
            yield from _changed_pattern(new, index, old.patterns[index], pattern)
        elif pattern.name in gone:
            yield _moved(new, pattern, gone.pop(pattern.name), index, table)
        else:
            yield _added_pattern(new, pattern, index, table)
    for index in gone.values():
        yield _removed_pattern(new, old.patterns[index], index, table)


def _changed_pattern(entity: EntityLock, index: str, old: PatternLock, new: PatternLock) -> Iterator[Finding]:
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


def _added_pattern(entity: EntityLock, pattern: PatternLock, index: str, table: TableLock) -> Finding:
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


def _removed_pattern(entity: EntityLock, pattern: PatternLock, index: str, table: TableLock) -> Finding:
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
            yield _removed_entity(tag, entity, new)
    for tag, entity in new.entities.items():
        if tag in old.entities:
            was = old.entities[tag]
            findings = list(_compare_entity(was, entity, old, new))
            if not findings and was != entity and old.hash_only == new.hash_only:
                findings = [_details(was, entity)]
            yield from findings
        else:
            yield _added_entity(tag, entity, old)


def _added_entity(tag: str, entity: EntityLock, old: TableLock) -> Finding:
    """A new entity, or the items of a new companion of an old entity, which do not exist for stored items yet."""
    owner = next(
        (owner_tag for owner_tag in old.entities if tag.startswith(f"{owner_tag}.") and "." in entity.name), None
    )
    if owner is None:
        return Finding("safe", entity.name, "new entity", now=f"tag {tag!r}")
    effect = f"its items are written with each {owner}, so they are missing for stored {owner} items"
    fix = backfill_of(".".join(entity.name.split(".")[:2]))  # a companion may have several classes
    return Finding("backfill", entity.name, "new companion", "", f"tag {tag!r}", effect, fix)


def _removed_entity(tag: str, entity: EntityLock, new: TableLock) -> Finding:
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
