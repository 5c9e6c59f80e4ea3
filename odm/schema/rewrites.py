"""What a put would change in items that other programs wrote: read each item, and compare what its put would write.

No I/O: a backend passes the attributes or cells of each item before and after.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from odm.codec.types.stored import show
from odm.immutable import Immutable
from odm.schema.lockfile import Finding

_Change = Literal["changes", "drops", "adds", "keeps"]


class Rewrite(Immutable):
    """The attributes of one item, and those after a put of the entity that was read from it.

    Attributes:
        entity: the entity's name.
        key: the key, for the example.
        before, after: the attributes by name, in a form in which equal values are equal.
        known: the attributes that the entity has.
    """

    entity: str
    key: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    known: Collection[str]


def rewritten(items: Iterable[Rewrite], *, keeps_unknown: bool) -> tuple[Finding, ...]:
    """One finding for each attribute that a put would change, drop or add, and for each that an entity does not have.

    Args:
        items: the items that were read.
        keeps_unknown: a put keeps the attributes that the entity does not have.
    """
    read, counts = Counter[str](), Counter[tuple[str, str, _Change]]()
    examples: dict[tuple[str, str, _Change], tuple[str, str, str]] = {}
    for item in items:
        read[item.entity] += 1
        for name, change in _changes(item, keeps_unknown=keeps_unknown):
            which = (item.entity, name, change)
            counts[which] += 1
            states = [show(values[name]) if name in values else "" for values in (item.before, item.after)]
            examples.setdefault(which, (item.key, *states))  # type: ignore[arg-type]  # of three
    return tuple(
        _finding(*which, f"{count} of {read[which[0]]} items read", examples[which]) for which, count in counts.items()
    )


def _changes(item: Rewrite, *, keeps_unknown: bool) -> Iterator[tuple[str, _Change]]:
    for name in sorted(item.before.keys() | item.after.keys()):
        if name not in item.after:
            yield name, "keeps" if keeps_unknown and name not in item.known else "drops"
        elif name not in item.before:
            yield name, "adds"
        elif item.before[name] != item.after[name]:
            yield name, "changes"


def _finding(entity: str, name: str, change: _Change, count: str, example: tuple[str, str, str]) -> Finding:
    key, was, now = example
    where = f"{entity}: {name}"
    if change == "keeps":
        return Finding("safe", where, "not in the model", was, "", f"{count} have it, such as {key}; a put keeps it")
    if change == "drops":
        effect = f"{count} have it, such as {key}; a put drops it, because {entity} does not have it"
        return Finding("rewrites", where, "not in the model", was, "", effect, _KEEP)
    if change == "adds":
        effect = f"{count} lack it, such as {key}; a put adds it"
        return Finding("rewrites", where, "not stored", "", now, effect, _DEFAULT)
    effect = f"{count} have another form of it, such as {key}; a put changes it"
    return Finding("rewrites", where, "other form", was, now, effect, "declare its form, or update such items only")


_KEEP = "declare a field for it, or Table(keep_unknown=True); an update keeps it in any case"
_DEFAULT = "give the field the default None, or an index key that can be absent, if other programs leave it out"
