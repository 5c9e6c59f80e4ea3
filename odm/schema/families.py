"""The column families that the models declare for Bigtable, and the garbage collection of each.

A family belongs to the table: every entity and field that names it gets the one rule that one of them states.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from odm.codec import EntityCodec
from odm.entities.markers import (
    AggregateMarker,
    CellVersions,
    CounterMarker,
    Marker,
    RevisionMarker,
    Stored,
    TTLMarker,
    find_marker,
    metadata_of,
)
from odm.errors import SchemaError
from odm.expressions.collection import MAX_PARTS, GCRule
from odm.expressions.nodes import paths
from odm.schema.entity import EntitySchema

if TYPE_CHECKING:
    from odm.entities.entity import Entity

OWN_FAMILIES: Final = frozenset({"d", "c", "i"})
"""The names of odm's own families, which models cannot declare; see `odm.backends.bigtable.client.native`."""

_NAME: Final = r"[-_.a-zA-Z0-9]{1,64}"
"""google.bigtable.admin.v2, ModifyColumnFamiliesRequest.Modification.id."""

FAMILY_NAMES: Final = "1 to 64 letters of A-Z, digits, '-', '_' and '.'"
"""The same in words."""

_WITH_ROLE: Final[Mapping[type[Marker], str]] = {
    AggregateMarker: "Sum, Min or Max",
    CellVersions: "field with CellVersions",
    CounterMarker: "Counter",
    RevisionMarker: "Revision",
    TTLMarker: "TTL",
}


class _Named(NamedTuple):
    """A place that names a family, and the rule that it states, if any."""

    where: str
    family: str
    rule: GCRule | None


def field_families(cls: "type[Entity]", codec: EntityCodec) -> dict[str, str]:
    """The fields with a family of their own, by stored name. Raises SchemaError for two markers on one."""
    return {codec.stored[name]: mark.family for name, mark in _marks(cls) if mark.family is not None}


def find_families(entities: Iterable["type[Entity]"]) -> dict[str, GCRule | None]:
    """All families that entities and their fields name, with the rule of each; None: no place states one.

    Raises:
        SchemaError: a name is not valid, or two places state different rules for a family.
    """
    stated: dict[str, _Named] = {}
    for declaration in (declaration for cls in entities for declaration in _named(cls)):
        before = stated.setdefault(declaration.family, declaration)
        if before.rule is None:
            stated[declaration.family] = declaration
        elif declaration.rule not in (None, before.rule):
            raise SchemaError(
                f"{before.where} and {declaration.where} state different rules for the family {declaration.family!r}, "
                f"gc={before.rule!r} and gc={declaration.rule!r}, but a family has one: state it once, or name "
                "another family"
            )
    return {name: stated[name].rule for name in sorted(stated)}


def check_families(entities: Collection[EntitySchema], rules: Mapping[str, GCRule | None]) -> None:
    """Check that a family can hold what it is declared for, and that a rule deletes nothing that must stay.

    Args:
        entities: the compiled entities.
        rules: the result of `find_families`.

    Raises:
        SchemaError: the reason.
    """
    check_own_families(entities, rules)
    by_age = {name: rule for name, rule in rules.items() if rule is not None and rule.by_age}
    for entity in entities:
        if entity.family in by_age:
            _check_aged(entity, entity.family, by_age[entity.family])
        for name, stored in entity.codec.stored.items():
            family = entity.families.get(stored)
            if family is not None:
                _check_field(entity, name, family, by_age.get(family))


def check_own_families(entities: Collection[EntitySchema], names: Collection[str]) -> None:
    """Check that no model names a family that odm needs for another field of the table.

    Raises:
        SchemaError: the reason.
    """
    for entity in entities:
        for field, family in (*((field, "v") for field in entity.versioned), *entity.aggregates.items()):
            if family in names:
                raise SchemaError(
                    f"{entity.name}.{field} is stored in the column family {family!r} of Bigtable, which the models "
                    "also name for other cells: name another family there"
                )


def _marks(cls: "type[Entity]") -> Iterator[tuple[str, Stored]]:
    for name, info in cls.model_fields.items():
        marks = [mark for mark in metadata_of(info) if isinstance(mark, Stored)]
        if len(marks) > 1 and any(mark.family or mark.gc for mark in marks):
            raise SchemaError(
                f"{cls.__name__}.{name} is marked by Stored twice: write one, as in "
                f'Annotated[..., Stored("{name}", family="stats")]'
            )
        if marks:
            yield name, marks[0]


def _named(cls: "type[Entity]") -> Iterator[_Named]:
    """The places of an entity that name a family, checked."""
    written = f"class {cls.__name__}"
    if (declaration := _checked(written, cls.__odm_family__, cls.__odm_gc__, "family=")) is not None:
        yield declaration
    for name, mark in _marks(cls):
        if (declaration := _checked(f"{cls.__name__}.{name}", mark.family, mark.gc, "Stored(family=)")) is not None:
            yield declaration


def is_family(name: str) -> bool:
    """Whether a column family may have this name."""
    return re.fullmatch(_NAME, name) is not None


def _checked(where: str, family: object, rule: object, option: str) -> _Named | None:
    if rule is not None and not isinstance(rule, GCRule):
        raise SchemaError(f"{where}: gc={rule!r} is not a rule: write gc=MaxAge(days=90), gc=MaxVersions(5), or both")
    if family is None:
        if rule is None:
            return None
        raise SchemaError(
            f"{where}: gc={rule!r} has no family to apply to: odm's own family must keep what other entities store, so "
            f"name one with {option}"
        )
    if not isinstance(family, str) or not is_family(family) or family in OWN_FAMILIES:
        raise SchemaError(
            f"{where}: family={family!r}: a column family has 1 to 64 letters, digits, '-', '_' and '.', and is not "
            f"one of odm's own, {', '.join(sorted(OWN_FAMILIES))}"
        )
    if rule is not None and len([*rule.parts]) > MAX_PARTS:
        raise SchemaError(f"{where}: gc={rule!r} consists of more than {MAX_PARTS} rules: combine fewer")
    return _Named(where, family, rule)


def _check_aged(entity: EntitySchema, family: str, rule: GCRule) -> None:
    """Check an entity whose items Bigtable deletes by their age."""
    where = f"{entity.name}: Bigtable deletes its items by age ({rule!r} of family {family!r})"
    elsewhere = sorted({*entity.counters, *entity.aggregates, *entity.versioned})
    if elsewhere:
        kind = "the Counter" if elsewhere[0] in entity.counters else "the field"
        raise SchemaError(
            f"{where}, but not {kind} {elsewhere[0]!r}, which has a family of its own and would be found "
            "by the next item of that key: declare a plain int, or another rule"
        )
    kept = next((companion.name for companion in entity.companions if companion.deletes), None)
    if kept is not None:
        raise SchemaError(
            f"{where}, but not those that {kept} keeps of them: remove one of the two, or give items a TTL instead"
        )


def _check_field(entity: EntitySchema, name: str, family: str, by_age: GCRule | None) -> None:
    """Check a field with a family of its own; ``by_age`` is a rule that deletes its newest value."""
    info, where = entity.cls.model_fields[name], f"{entity.name}.{name}: family={family!r}"
    for marker, word in _WITH_ROLE.items():
        if find_marker(info, marker):
            raise SchemaError(f"{where} does not apply to a {word}, which odm stores in its own family: remove family=")
    if by_age is None:
        return
    where = f"{where} is deleted by age ({by_age!r})"
    if name in _in_keys(entity):
        raise SchemaError(f"{where}, but the field stands in a key, which stays: name another family")
    if entity.codec.record.fields[name].required:
        raise SchemaError(f"{where}, and an item without it could not be read: give the field a default")


def _in_keys(entity: EntitySchema) -> set[str]:
    """The fields that keys or entries of the entity depend on."""
    patterns = (entity.primary, *entity.patterns.values())
    asked = {
        path.root for pattern in entity.patterns.values() if pattern.when is not None for path in paths(pattern.when)
    }
    named = {name for name, stored in entity.codec.stored.items() if stored in asked}
    return named.union(*(pattern.sources for pattern in patterns))
