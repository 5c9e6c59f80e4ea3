"""Suggested declarations: field promotion for a primary key, write sharding for an index, and their text."""

from collections.abc import Sequence
from typing import Final

from odm.entities.patterns import AccessPattern, Pattern
from odm.keys import Shards, Slot
from odm.keys.base import Refused
from odm.keys.numeric import UuidKey
from odm.keys.text import StrKey
from odm.keys.types import key_type
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.lint.slots import is_bucket, own_ids, spreads, unit


def declared(entity: EntitySchema, name: str) -> Pattern:
    """The declaration with this attribute name, in the class or its nearest base."""
    named = (vars(base).get(name) for base in entity.cls.__mro__)
    return next(attribute for attribute in named if isinstance(attribute, Pattern))


def sort_of(entity: EntitySchema, name: str) -> str:
    """The declared sort template; "" if there is none and the tag is used."""
    return declared(entity, name).sort or ""


def written(
    pattern: Pattern, *, partition: str = "", sort: str | None = None, shards: Shards | None = None, local: bool = True
) -> str:
    """A declaration as source text of a class body.

    Args:
        pattern: the declared pattern.
        partition: a template that replaces its own.
        sort: a sort template that replaces its own; "" for none.
        shards: shards that replace its own.
        local: False: without ``local=True``.
    """
    sort = pattern.sort if sort is None else sort
    shards = shards or pattern.shards
    arguments = [f'"{partition or pattern.partition}"', *([f'"{sort}"'] if sort else [])]
    arguments += [f"shards={shards!r}"] if shards is not None else []
    if isinstance(pattern, AccessPattern):
        arguments += _options(pattern, local and pattern.local)
    return f"{pattern.name} = {type(pattern).__name__}({', '.join(arguments)})"


def _options(pattern: AccessPattern, local: bool) -> list[str]:
    options = {
        "index": f'"{pattern.index}"' * (pattern.index is not None),
        "when": "..." * (pattern.when is not None),
        "local": "True" * local,
        "projection": repr(pattern.projection) * (pattern.projection != "all"),
    }
    return [f"{name}={text}" for name, text in options.items() if text]


def components(template: str) -> list[str]:
    """The parts of a template between '#', which a placeholder cannot contain."""
    return template.split("#") if template else []


def holds(component: str, fields: Sequence[str]) -> bool:
    """Whether the component has a placeholder of one of the fields."""
    return any(f"{{{field}{end}" in component for field in fields for end in ":}")


def key_fields(pattern: PatternSchema) -> frozenset[str]:
    """The fields whose whole value is somewhere in a key."""
    templates = [template for template in (pattern.partition, pattern.sort) if template is not None]
    return frozenset(slot.name for template in templates for slot in template.slots if not slot.type.lossy)


_SHARDS: Final = 8

_PROSE: Final = frozenset({"text", "note", "title", "description", "body", "message", "data", "url", "name", "value"})
"""Names of text fields that nobody queries by."""

_NONE: Final = "begin the partition with a field that differs between items that are written at the same time"


def sharded(entity: EntitySchema, pattern: PatternSchema) -> str:
    """An index with write sharding, by the field that distinguishes its items."""
    return written(declared(entity, pattern.name), shards=_shards(entity, pattern))


def _shards(entity: EntitySchema, pattern: PatternSchema) -> Shards:
    templates = [template for template in (pattern.sort, entity.primary.sort, entity.primary.partition) if template]
    fields = [slot.name for template in templates for slot in reversed(template.slots) if spreads(slot)]
    fields = [name for name in fields if name in entity.cls.model_fields]  # a computed field selects no shard
    taken = entity.optional.union(pattern.partition.fields)
    return Shards(_SHARDS, by=next((field for field in fields if field not in taken), None))


def spread_out(entity: EntitySchema, pattern: PatternSchema) -> str:
    """A primary key with another field in its partition (field promotion), or with write sharding by its own field."""
    sort_slots = () if pattern.sort is None else pattern.sort.slots
    ids, own = own_ids(entity), [slot.name for slot in sort_slots if spreads(slot)]
    timed = any(unit(slot) is not None for slot in (*pattern.partition.slots, *sort_slots))
    others = [name for name in own if name not in ids] if timed else []
    foreign = [name for name in _texts(entity) if name.endswith("_id") and name not in ids]
    if promoted := next(iter(others or (foreign if timed else [])), None):
        return _promote(entity, pattern, promoted)
    told = next((name for name in (*ids, *reversed(own))), None)
    if told is not None and entity.keep is None:  # keep= needs the newest items in one partition
        return _sharded_primary(entity, pattern, told)
    return next((_promote(entity, pattern, name) for name in _texts(entity)), _NONE)


def _promote(entity: EntitySchema, pattern: PatternSchema, field: str) -> str:
    """Move times from the partition to the sort key, and the field into the partition."""
    rest, times = _apart(pattern)
    sort = components(sort_of(entity, pattern.name))
    own = next((part for part in sort if holds(part, [field])), f"{{{field}}}")
    templates = "#".join([*rest, own]), "#".join([*times, *(part for part in sort if part != own)])
    return written(declared(entity, pattern.name), partition=templates[0], sort=templates[1])


def _sharded_primary(entity: EntitySchema, pattern: PatternSchema, field: str) -> str:
    """Add shards by a field of the sort key; they spread a unit such as a day, not a single timestamp."""
    rest, times = _apart(pattern)
    moment = any(unit(slot) is not None and not is_bucket(slot) for slot in pattern.partition.slots)
    sort = [*(times if moment else []), *components(sort_of(entity, pattern.name))]
    if not holds("#".join(sort), [field]):
        sort.append(f"{{{field}}}")
    partition = "#".join(rest or [entity.tag.upper()]) if moment else ""
    return written(
        declared(entity, pattern.name), partition=partition, sort="#".join(sort), shards=Shards(_SHARDS, by=field)
    )


def _apart(pattern: PatternSchema) -> tuple[list[str], list[str]]:
    """The components of the partition without times, and those with times."""
    fields = [slot.name for slot in pattern.partition.slots if unit(slot) is not None]
    parts = components(pattern.partition.text)
    return [part for part in parts if not holds(part, fields)], [part for part in parts if holds(part, fields)]


def in_order(entity: EntitySchema, pattern: PatternSchema, slot: Slot) -> str:
    """A key in which the growing field follows the fields that distinguish items."""
    if unit(slot) is None:
        return f"{slot.name}: UUID = Field(default_factory=uuid4), or another id that does not grow"
    alone = not any(map(spreads, pattern.partition.slots))
    if alone and pattern.kind == "primary":
        return spread_out(entity, pattern)
    rest, times = _apart(pattern)
    templates = "#".join(rest or [entity.tag.upper()]), "#".join([*times, *components(sort_of(entity, pattern.name))])
    shards = _shards(entity, pattern) if alone else None
    return written(declared(entity, pattern.name), partition=templates[0], sort=templates[1], shards=shards)


def _texts(entity: EntitySchema) -> list[str]:
    """The fields that could distinguish partitions."""
    return [name for name in entity.cls.model_fields if _is_text(entity, name)]


def _is_text(entity: EntitySchema, name: str) -> bool:
    info = entity.cls.model_fields[name]
    if not info.is_required() or name in entity.optional or name in _PROSE:
        return False
    try:
        return isinstance(key_type(info, "", False), StrKey | UuidKey)
    except Refused:
        return False
