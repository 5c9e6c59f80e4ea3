"""Detect changed models from stored items: compare stored keys with the keys that the models make.

The lock file shows what changed since it was written; this shows what is stored. No I/O: a backend passes the items.

`Store.create` reads a few items of a table that exists, and refuses the table if another ``key_style`` wrote them:
reads by key would find nothing, and puts would write second items next to the stored ones.

Only an item whose key one form of the models makes, and the other does not, is evidence. So items of other programs, of
entities that the models do not have, and under the keys of a former template never are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from odm.codec import TAG
from odm.codec.types.blobs import placeholders
from odm.errors import OdmError, SchemaError
from odm.expressions.nodes import Item
from odm.immutable import Immutable
from odm.keys import suffixes, suffixes_leaving
from odm.schema.compile import Style, compile_schema
from odm.schema.entity import EntitySchema, Key, PatternSchema
from odm.schema.faults import several_fit
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.schema.lockfile import Finding, Level


class Stored(Immutable):
    """A stored item: its key, its attributes, and its index entries by index name."""

    key: Key
    item: Item
    entries: Mapping[str, Key]


class _Tally(Struct):
    """One kind of difference: its count, and the first example."""

    level: "Level"
    where: str
    change: str
    effect: str
    fix: str
    was: str
    now: str
    count: int = 0


def judge(schema: Schema, items: Iterable[Stored]) -> "tuple[Finding, ...]":
    """Find stored keys that differ from those that the models make.

    Args:
        schema: the schema of the current models.
        items: the items that were read from the table.

    Returns:
        One finding per pattern and kind, with an example and counts, worst first: "orphans" for keys that differ,
        "backfill" for missing index entries, "unknown" for items that no entity can read.
    """
    from odm.schema.lockfile import LEVELS

    tallies: dict[tuple[str, str], _Tally] = {}
    read = Counter[str]()
    for stored in items:
        entity = schema.entities.get(str(stored.item.get(TAG)))
        read.update(("items",) if entity is None else ("items", entity.name))
        for seen in [_unknown(schema, stored)] if entity is None else _compare(entity, stored):
            tally = tallies.setdefault((seen.where, seen.change), seen)
            tally.count += 1
    findings = [_finding(tally, read[tally.where.split(".")[0]]) for tally in tallies.values()]
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _finding(tally: _Tally, read: int) -> "Finding":
    from odm.schema.lockfile import Finding

    effect = f"{tally.count} of {read} items read {tally.effect}"
    return Finding(tally.level, tally.where, tally.change, tally.was, tally.now, effect, tally.fix)


def _unknown(schema: Schema, stored: Stored) -> _Tally:
    if several := several_fit(schema.entities.values(), stored.item, schema.tag):
        has, change = f"attributes that fit match= of {several}", "several entities"
    elif stored.item.get(TAG) is not None:
        has, change = "a tag that no entity has", "unknown tag"
    elif schema.tag is None:
        has, change = "neither the key nor the attributes of one", "no entity"
    else:
        has, change = "no tag", "no tag"
    effect = f"belong to no entity, because they have {has}: odm neither reads nor changes them"
    fix = "declare their entity, or open stores with on_unknown='skip'"
    return _Tally("unknown", "items", change, effect, fix, _text(stored.key), "")


def _compare(entity: EntitySchema, stored: Stored) -> Iterator[_Tally]:
    """The differences of one item."""
    try:
        instance = entity.codec.decode(placeholders(entity.blobs, stored.item), str(stored.key))
        values = vars(instance)
        key = entity.key(values)
        current = entity.codec.upgrades.current(stored.item)
        entries = entity.entries(values, stored.item if current else entity.codec.encode(instance), Random(0))
    except OdmError as error:
        effect, fix = f"cannot be read ({error})", "fix the stored items, or let the model accept them"
        yield _Tally("unknown", entity.name, "unreadable", effect, fix, _text(stored.key), "")
        return
    if key != stored.key:
        effect = "are stored under another key: they are not found, and a put writes a second item"
        fix = "move them from the old class to the new one with db.rekey()"
        yield _Tally("orphans", _where(entity.primary), "stored key", effect, fix, _text(stored.key), _text(key))
    for pattern in entity.patterns.values():
        yield from _compare_entry(pattern, stored, entries.get(str(pattern.index)))


def _compare_entry(pattern: PatternSchema, stored: Stored, expected: Key | None) -> Iterator[_Tally]:
    from odm.schema.lockfile import backfill_of

    entry = stored.entries.get(str(pattern.index))
    if same_entry(pattern, entry, expected):
        return
    if entry is not None and expected is not None and _has_not_moved(pattern, entry, expected):
        effect = f"have their entry in index {pattern.index!r} in a previous shard (such as {_text(stored.key)})"
        fix = "move them with db.reshard() before you remove was="
        yield _Tally("backfill", _where(pattern), "entry to move", effect, fix, _text(entry), _text(expected))
        return
    states: dict[str, Any] = {"was": _text(entry), "now": _text(expected)}
    again = backfill_of(_where(pattern))
    if entry is None:
        effect = f"are not in index {pattern.index!r} (such as {_text(stored.key)})"
        yield _Tally("backfill", _where(pattern), "lacking entry", effect, again, **states)
        return
    effect = f"have an entry in index {pattern.index!r} that differs from the models' (such as {_text(stored.key)})"
    fix = f"{again}, or give the pattern a new index name and backfill it"
    yield _Tally("orphans", _where(pattern), "stored entry", effect, fix, **states)


def same_entry(pattern: PatternSchema, entry: Key | None, expected: Key | None) -> bool:
    """Whether an entry is the one that the model makes, or is in another of the randomly chosen shards."""
    if entry is None or expected is None or pattern.shards is None or pattern.hashed is not None:
        return entry == expected
    ends = suffixes(pattern.shards)  # all are valid: the shard is chosen at random
    partition = expected.partition[: -len(ends[0])]
    return entry.sort == expected.sort and entry.partition in {partition + end for end in ends}


def _has_not_moved(pattern: PatternSchema, entry: Key, expected: Key) -> bool:
    """Whether an entry is still where the previous number of shards put it, where queries look too."""
    base = expected.partition[: -len(suffixes(pattern.shards)[0])]
    return entry.sort == expected.sort and entry.partition in {base + end for end in suffixes_leaving(pattern.shards)}


def _text(key: Key | None) -> str:
    """Both parts of a key, as `odm schema` shows examples."""
    return " | ".join(filter(None, key or ()))


def _where(pattern: PatternSchema) -> str:
    return f"{pattern.entity}.{pattern.name}"


S = TypeVar("S")

FEW: Final = 10
"""The number of stored items that are read."""


def with_keys(schema: Schema, *, verbatim: bool, sorts: bool) -> Schema | None:
    """The same models with other options for keys; None if they cannot have them.

    Args:
        schema: the schema of the models.
        verbatim: whether ``key_style`` is "verbatim".
        sorts: whether the table has a sort key, also if no entity has a sort template.
    """
    style = Style(
        schema.keys,
        row_key_join=schema.row_key_join,
        verbatim=verbatim,
        tag=schema.tag,
        ttl=schema.ttl,
        wide=schema.wide,
        transactions=schema.transactions,
    )
    entities = [(entity.cls, tag) for tag, entity in schema.entities.items()]
    try:
        return compile_schema(schema.name, entities, style, sorts=sorts)
    except SchemaError:
        return None


def key_made(schema: Schema, stored: Stored) -> Key | None:
    """The key that the models make for a stored item; None if they do not have its entity, or cannot read it."""
    entity = schema.entities.get(str(stored.item.get(TAG)))
    if entity is None or not isinstance(stored.item[TAG], str):
        return None
    try:
        instance = entity.codec.decode(placeholders(entity.blobs, stored.item), str(stored.key))
        return entity.key(vars(instance))
    except OdmError:
        return None


def other_keys(schema: Schema, items: Iterable[S], read: Callable[[Schema, S], Stored]) -> str | None:
    """Why the models would not find one of these items: it was written with the other ``key_style``.

    Args:
        schema: the schema of the models.
        items: stored items, as a backend has them.
        read: reads such an item for a schema.

    Returns:
        The message of the refusal; None: no item shows it.
    """

    def fits(schema: Schema, item: S) -> Stored | None:
        try:
            stored = read(schema, item)
        except OdmError:  # another program's
            return None
        return stored if key_made(schema, stored) == stored.key else None

    unlike = [item for item in items if fits(schema, item) is None]
    other = with_keys(schema, verbatim=not schema.verbatim, sorts=not schema.hash_only) if unlike else None
    if other is None:
        return None
    for item in unlike:
        if (stored := fits(other, item)) is not None:
            name = other.entities[str(stored.item[TAG])].name
            return refusal(schema, " | ".join(filter(None, stored.key)), name, style_of(other), style_of(schema))
    return None


def style_of(schema: Schema) -> str:
    """The ``key_style`` of a schema, as a table declares it."""
    return f'key_style="{"verbatim" if schema.verbatim else "escaped"}"'


def refusal(schema: Schema, where: str, entity: str, has: str, says: str) -> str:
    """The message for a table with another option than its models say.

    Args:
        schema: the schema of the models.
        where: the stored key.
        entity: the entity of the stored item, or its attribute.
        has: the option that the item was written with.
        says: the option that the models declare.
    """
    return (
        f"table {schema.name!r} has the item {where!r} of {entity}, written with {has}, and the models declare {says}, "
        f"so they would not find what is stored: declare {has} as before, or move the items: scan them with models "
        "that declare it, and put them into a table with another name, or of a store with a prefix"
    )
