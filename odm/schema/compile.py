"""Compile declarations to a `Schema`: entity classes to templates, codecs, patterns and indexes.

Each step works on one entity; the checks that need several entities are in `odm.schema.checks`.
"""

from collections.abc import Collection, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import asdict
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo

from odm.codec import OTHERS, TAG, TTL_ATTRIBUTE, VERSION, EntityCodec, Upgrades, compile_codec
from odm.entities.companions import BaseCompanion, companions_of
from odm.entities.markers import Stored, TTLMarker, find_marker
from odm.entities.patterns import AccessPattern, Pattern, PrimaryKey, patterns_of, primary_of
from odm.entities.signatures import check_signature
from odm.entities.upgrades import upgrades_of
from odm.errors import BadValue, SchemaError
from odm.expressions.nodes import Condition
from odm.expressions.references import Reference
from odm.immutable import Immutable, evolve, field
from odm.keys import (
    Form,
    Shards,
    Template,
    compile_hashed,
    compile_several,
    compile_template,
    compile_verbatim,
    has_binary_part,
    sharded,
)
from odm.schema.automatic import Automatic
from odm.schema.cells import check_cells, find_cells
from odm.schema.checks import (
    check_companions,
    check_entity,
    check_index_keys,
    check_indexes,
    check_key_names,
    check_keys,
    check_local,
    is_shared,
)
from odm.schema.computed import check_attributes, computed_fields, find_computed
from odm.schema.described import check_several, computed_forms, describe, forms_of, is_native
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.families import check_families, field_families, find_families
from odm.schema.model import IndexSchema, KeyNames, Schema
from odm.schema.roles import find_roles
from odm.schema.row_keys import as_row

if TYPE_CHECKING:
    from odm.entities.entity import Entity


def find_upgrades(cls: "type[Entity]") -> Upgrades:
    """The version of an entity and its chain of upgrades. Raises SchemaError if the chain is not valid."""
    version: Any = cls.__odm_version__
    if not _is_count(version):
        raise SchemaError(f"class {cls.__name__}: version={version!r}: give an int of 1 or more")
    steps: dict[int, str] = {}
    for name, from_ in upgrades_of(cls):
        if from_ >= version:
            raise SchemaError(
                f"{cls.__name__}.{name} upgrades from version {from_}, and the class is version {version}: declare "
                f"class {cls.__name__}(Entity, table=..., version={from_ + 1})"
            )
        if from_ in steps:
            raise SchemaError(
                f"{cls.__name__}.{steps[from_]} and {cls.__name__}.{name} both upgrade from version {from_}: keep one"
            )
        _check_call(cls, name)
        steps[from_] = name
    for number in range(1, version):
        if number not in steps:
            raise SchemaError(
                f"{cls.__name__} is version {version}, but no function upgrades its items from version {number}: add "
                f"@upgrade(from_={number}) to a static method that takes their attributes and returns those of "
                f"version {number + 1}"
            )
    return Upgrades(version, tuple(getattr(cls, steps[number]) for number in range(1, version)))


def find_keep(cls: "type[Entity]", primary: PatternSchema) -> int | None:
    """How many items of an entity are kept in a partition; None: all. Raises SchemaError."""
    keep: Any = cls.__odm_keep__
    if keep is None:
        return None
    if not _is_count(keep):
        raise SchemaError(f"class {cls.__name__}: keep={keep!r}: give the number of items to keep, an int of 1 or more")
    if primary.sort is None or not set(primary.sort.fields) - set(primary.partition.fields):
        raise SchemaError(
            f"class {cls.__name__}: keep={keep} keeps the newest items of a partition, but {primary.text} has no field "
            "of its own in the sort key, so a partition holds one item: give the primary key a sort template such as "
            '"{created_at}"'
        )
    if primary.shards is not None:
        raise SchemaError(
            f"class {cls.__name__}: keep={keep} keeps the newest items of a partition, but {primary.shards!r} spreads "
            "them over several, so no write knows the newest of all: drop keep= and let old items expire by TTL, or "
            "drop shards="
        )
    return int(keep)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


def _check_call(cls: type, name: str) -> None:
    """Check that the function takes only the attributes."""
    try:
        signature(getattr(cls, name)).bind({})
    except TypeError as error:
        raise SchemaError(
            f"{cls.__name__}.{name}: an upgrade takes only the attributes of an item, but {error}: write "
            f"@upgrade(...) over @staticmethod, and def {name}(item)"
        ) from error


def spread(pattern: PatternSchema, shards: Shards, fields: Mapping[str, FieldInfo]) -> PatternSchema:
    """Add the declared shards to a pattern.

    Raises:
        SchemaError: the shards are not valid, or not valid on a primary key.
    """
    owner = f"{pattern.entity}.{pattern.name}"
    if pattern.kind == "primary" and isinstance(shards, Shards):
        _check_primary(pattern, shards, fields, owner)
    if isinstance(shards, Shards) and shards.by in {field_.name for field_ in pattern.computed}:
        raise SchemaError(
            f"{owner}: {shards!r}: {shards.by!r} is a computed field, which is not stored: name a stored field"
        )
    hashed = compile_hashed(shards, pattern.partition, fields, owner=owner)
    return evolve(pattern, partition=sharded(pattern.partition, shards), shards=shards, hashed=hashed)


def _check_primary(pattern: PatternSchema, shards: Shards, fields: Mapping[str, FieldInfo], owner: str) -> None:
    """Check that the shard of an item is known from its key; otherwise a get would not find the item."""
    if shards.by is None:
        raise SchemaError(
            f"{owner}: {shards!r}: an item in a random shard could not be found by its key: name a field of the "
            f'sort key, as in Shards({shards.count}, by="..."). For random shards add a random field to the key: '
            f"salt: int = Field(default_factory=lambda: randrange({shards.count})), and shards=Shards({shards.count}, "
            'by="salt")'
        )
    told = () if pattern.sort is None else {*pattern.sort.fields} - pattern.sort.lossy
    if shards.by in fields and shards.by not in told:
        add = "" if shards.by in pattern.partition.fields else f", or add {{{shards.by}}} to the sort template"
        raise SchemaError(
            f"{owner}: {shards!r}: {shards.by!r} is not in the sort key as a whole, so the shard of an item is not "
            f"known from its key: name a field that is{add}"
        )
    if shards.was is not None:
        raise SchemaError(
            f"{owner}: {shards!r}: was= is for access patterns: an item's key cannot change, and it could be stored "
            "twice, in the old shard and the new. Create a table of another name with the new shards, "
            "read everything with the old model and put it there"
        )


def spread_with(pattern: PatternSchema, primary: PatternSchema, declared: Pattern) -> PatternSchema:
    """A local pattern with the shards of the primary key.

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


class Style(Immutable):
    """The options of a table, checked; see `odm.schema.table.Table`."""

    keys: tuple[str, ...] = ("pk", "sk")
    index_keys: Mapping[str, KeyNames] = field(factory=dict)
    row_key_join: str = "#"
    exclusive: bool = False
    verbatim: bool = False
    tag: str | None = TAG
    ttl: str = TTL_ATTRIBUTE
    keep_unknown: bool = False
    wide: bool = False
    verbatim_rows: bool = False
    transactions: bool = False
    binary_row_keys: bool = False

    def names(self, index: str | None, *, local: bool) -> KeyNames:
        """The key attributes of the table or of an index."""
        if index is None:
            return self.keys
        names = self.index_keys.get(index, (f"{index}pk", f"{index}sk"))
        return (self.keys[0], *names[1:]) if local else names


def compile_schema(
    name: str,
    entities: Sequence[tuple["type[Entity]", str]],
    style: Style,
    *,
    sorts: bool = False,
) -> Schema:
    """The schema of a table. Raises SchemaError for every fault that does not depend on the backend.

    Args:
        name: the name of the table.
        entities: the classes, with their tags.
        style: the options of the table.
        sorts: the table has a sort key, also if no entity has a sort template: other entities of it have, or had, one.
    """
    if not entities:
        raise SchemaError(
            f"table {name!r} has no entities: declare class ...(Entity, table=...), or import the module that does, "
            "before the table is used"
        )
    declared = {cls: patterns_of(cls) for cls, _ in entities}
    hash_only = not sorts and all(primary_of(patterns).sort is None for patterns in declared.values())
    if style.verbatim_rows:
        primaries = [primary_of(patterns) for patterns in declared.values()]
        binary = any(
            has_binary_part(text) for primary in primaries for text in (primary.partition, primary.sort) if text
        )
        style = evolve(style, binary_row_keys=binary)
    compiled: dict[str, EntitySchema] = {}
    for cls, tag in entities:
        if tag in compiled:
            raise SchemaError(
                f"{_full_name(cls)} and {_full_name(compiled[tag].cls)} have the same tag {tag!r} in table {name!r}: "
                f"give one of them another with class {cls.__name__}(Entity, table=..., tag=...)"
            )
        compiled[tag] = _compile_entity(cls, tag, declared[cls], style, hash_only=hash_only)
    check_key_names(name, compiled.values(), style.keys)
    shared = _mark_shared(compiled, rows=style.verbatim_rows)
    indexes = _indexes(shared, style.index_keys)
    check_index_keys(name, indexes, style.index_keys, verbatim=style.verbatim)
    families = find_families(cls for cls, _ in entities)
    options = {name: value for name, value in asdict(style).items() if name != "index_keys"}
    schema = describe(Schema(name, shared, indexes, hash_only=hash_only, families=families, **options))
    check_families(schema.entities.values(), families)
    check_cells(schema)
    check_keys(schema)
    check_indexes(schema, style.index_keys)
    check_companions(schema, transactions=True)
    return schema


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _compile_entity(
    cls: "type[Entity]", tag: str, patterns: dict[str, Pattern], style: Style, *, hash_only: bool
) -> EntitySchema:
    complete(cls)
    _check_references(cls)
    codec = compile_codec(cls, tag, find_upgrades(cls), _of_others(cls, style) if style.verbatim else {})
    templates = _Templates(cls, tag, codec, style, forms_of(codec))
    compiled = {name: _compile_pattern(templates, name, pattern, hash_only) for name, pattern in patterns.items()}
    primary = next(p for p in compiled.values() if p.kind == "primary")
    row = None
    if style.verbatim_rows:
        primary, row = as_row(primary, patterns[primary.name], style.row_key_join, templates.compile)
    others = {name: p for name, p in compiled.items() if p.kind != "primary"}
    others |= {n: spread_with(p, primary, patterns[n]) for n, p in others.items() if p.kind == "local"}
    roles, keep = find_roles(cls, compiled.values(), codec), find_keep(cls, primary)
    optional = _optional(codec, roles["automatic"], compiled.values())
    companions = companions_of(cls)
    _check_keep(cls, keep, companions)
    entity = EntitySchema(
        cls,
        tag,
        primary,
        others,
        codec,
        optional=optional,
        keep=keep,
        companions=companions,
        family=cls.__odm_family__,
        families=field_families(cls, codec),
        cells=find_cells(cls, codec),
        row=row,
        **roles,
    )
    entity = evolve(entity, match=_lowered(codec, cls.__odm_match__, f"class {cls.__name__}: match="))
    check_entity(entity, verbatim=style.verbatim)
    check_local(entity, patterns, hash_only=hash_only)
    whens = {name: _lowered(codec, pattern.when, f"{cls.__name__}.{name}: when=") for name, pattern in others.items()}
    held = {name: _projection(cls, codec, patterns[name]) for name in others}
    lowered = {name: evolve(pattern, when=whens[name], projection=held[name]) for name, pattern in others.items()}
    return evolve(entity, patterns=lowered)


def _of_others(cls: "type[Entity]", style: Style) -> dict[str, str]:
    """The attributes of other programs whose names odm itself does not use in this entity, and their stored names."""
    ttl = next((info for info in cls.model_fields.values() if find_marker(info, TTLMarker)), None)
    named = None if ttl is None else find_marker(ttl, Stored)
    own = {TAG: style.tag == TAG, VERSION: cls.__odm_version__ != 1}
    at = TTL_ATTRIBUTE if ttl is None else None if named is None else named.name
    own[TTL_ATTRIBUTE] = style.ttl == TTL_ATTRIBUTE and at != TTL_ATTRIBUTE
    return {name: theirs for name, theirs in OTHERS.items() if not own[name]}


def _optional(codec: EntityCodec, automatic: Automatic | None, patterns: Collection[PatternSchema]) -> frozenset[str]:
    """The fields, and computed fields of patterns, that can be None.

    Not those of the primary key that the store assigns: no item is stored without them.
    """
    assigned = () if automatic is None else (automatic.id, automatic.created)
    primary = next(pattern for pattern in patterns if pattern.kind == "primary")
    computed = {field_.name for pattern in patterns for field_ in pattern.computed if field_.may_be_none}
    stored = frozenset(filter(codec.may_be_none, codec.cls.model_fields))
    return stored - frozenset(primary.fields).intersection(assigned) | computed


def _check_keep(cls: "type[Entity]", keep: int | None, companions: Sequence[BaseCompanion]) -> None:
    if keep is not None and any(companion.deletes for companion in companions):
        raise SchemaError(
            f"{cls.__name__}: keep={keep} deletes items, but not those that {companions[0].name} keeps of them: remove "
            "one of the two"
        )


def _lowered(codec: EntityCodec, condition: Condition | None, where: str) -> Condition | None:
    """A condition of a declaration over stored names; raises SchemaError if it is not one of the entity."""
    try:
        return None if condition is None else codec.lower_stored(condition)
    except BadValue as error:
        raise SchemaError(f"{where} {error}") from error


def _projection(cls: "type[Entity]", codec: EntityCodec, pattern: Pattern) -> tuple[str, ...] | None:
    """The stored names of the attributes that the index holds besides keys; None: all."""
    projection = pattern.projection if isinstance(pattern, AccessPattern) else "all"
    if projection in ("all", "keys"):
        return None if projection == "all" else ()
    fields = (*codec.stored,)
    named = isinstance(projection, Collection) and not isinstance(projection, str)
    if not named or any(name not in fields for name in projection):
        raise SchemaError(
            f'{cls.__name__}.{pattern.name}: projection={projection!r}: write "all", "keys" or names of fields, as in '
            f'projection=("{fields[0]}",); its fields are {", ".join(fields)}'
        )
    return tuple(sorted({codec.stored[name] for name in projection}))


def complete(cls: "type[Entity]") -> None:
    """Resolve forward references."""
    try:
        cls.model_rebuild()
    except PydanticUndefinedAnnotation as error:
        raise SchemaError(
            f"{cls.__name__}: {error.name!r} in its annotations is not defined: import or declare it before the table "
            f"is used, or call {cls.__name__}.model_rebuild() where it is defined"
        ) from error


def _check_references(cls: "type[Entity]") -> None:
    """Check that every field resolves to its reference: an attribute of the same name would hide it."""
    for name in cls.model_fields:
        if not isinstance(getattr(cls, name, None), Reference):
            raise SchemaError(
                f"{cls.__name__}.{name}: a field of this name is hidden by an attribute of the class, so "
                f"{cls.__name__}.{name} could not be used in a query. Rename the field, and keep the stored name with "
                f'Annotated[..., Stored("{name}")]'
            )


class _Templates(Immutable):
    """Compiles the templates of one entity."""

    cls: "type[Entity]"
    tag: str
    codec: EntityCodec
    style: Style
    forms: Mapping[str, Form]

    def compile(self, text: str | None, attribute: str | tuple[str, ...] | None, owner: str) -> Template:
        """A template, or the tag if none is declared: an index entry needs both key attributes."""
        template = self.tag if text is None else text
        if isinstance(attribute, tuple):
            check_attributes(self.cls, owner, template)
            check_several(template, attribute, self.codec, owner)
            return compile_several(template, self.forms, owner=owner)
        native = None
        if not self.style.verbatim_rows:
            native = is_native(template, attribute, self.codec, self.forms)
        if native is not None:
            return compile_verbatim(template, self.cls.model_fields, self.forms, owner=owner, native=native)
        fields = self.cls.model_fields | computed_fields(self.cls)
        if not self.style.verbatim:
            return compile_template(template, fields, owner=owner)
        forms = {**self.forms, **computed_forms(self.cls, template)}
        return compile_verbatim(template, fields, forms, owner=owner, binary=self.style.binary_row_keys)


def _compile_pattern(templates: _Templates, name: str, pattern: Pattern, hash_only: bool) -> PatternSchema:
    cls, style = templates.cls, templates.style
    owner, is_primary = f"{cls.__name__}.{name}", isinstance(pattern, PrimaryKey)
    local = isinstance(pattern, AccessPattern) and pattern.local
    index = pattern.index or name if isinstance(pattern, AccessPattern) else None
    if not isinstance(index, str | None):
        raise SchemaError(f'{owner}: index={index!r}: the name of an index is text, as in index="gsi1"')
    first, second = (*style.names(index, local=local), None)[:2]
    partition = templates.compile(pattern.partition, first, owner)
    sort = None
    if second is None and not is_primary and pattern.sort is not None:
        raise SchemaError(
            f"{owner} has a sort template, but Table(index_keys=...) gives index {index!r} one key attribute: name "
            "two, or drop the template"
        )
    if pattern.sort is not None or (not hash_only if is_primary else second is not None):
        sort = templates.compile(pattern.sort, second, owner)
    if is_primary:
        _check_braces(cls, name, (partition, sort))
    kind: Literal["primary", "local", "global"] = "primary" if is_primary else "local" if local else "global"
    when = pattern.when if isinstance(pattern, AccessPattern) else None
    computed = find_computed(cls, owner, (partition, sort), primary=is_primary)
    compiled = PatternSchema(cls.__name__, name, kind, index, partition, sort, when, computed=computed)
    if pattern.signature is not None:
        check_signature(owner, pattern.signature, (compiled.fields, compiled.partition_fields), cls)
    if pattern.shards is not None and partition.verbatim:
        raise SchemaError(f"{owner}: shards= are not for keys as they are: let a field of the key hold the shard")
    if pattern.shards is None or local:  # a local index has the shards of the primary key
        return compiled
    return spread(compiled, pattern.shards, cls.model_fields)


def _check_braces(cls: "type[Entity]", name: str, templates: Sequence[Template | None]) -> None:
    """A primary key without fields is a single item; if it contains a field's name, the braces are missing."""
    there = [template for template in templates if template is not None]
    words = {word for template in there for word in template.text.split("#")}
    forgotten = [field for field in cls.model_fields if field in words]
    if forgotten and not any(template.fields for template in there):
        raise SchemaError(
            f"{cls.__name__}.{name}: the key has no field, so every item would overwrite the previous one; "
            f"did you mean {{{forgotten[0]}}}, with braces?"
        )


def _mark_shared(entities: dict[str, EntitySchema], *, rows: bool) -> dict[str, EntitySchema]:
    """Mark the patterns whose range may contain keys of another entity; ``rows``: of rows as they are, any may."""
    everything = [(tag, p) for tag, e in entities.items() for p in (e.primary, *e.patterns.values())]

    def mark(tag: str, pattern: PatternSchema) -> PatternSchema:
        others = [p for other, p in everything if other != tag and p.index == pattern.index]
        return evolve(pattern, shared=bool(rows and others) or any(is_shared(pattern, other) for other in others))

    return {
        tag: evolve(e, primary=mark(tag, e.primary), patterns={name: mark(tag, p) for name, p in e.patterns.items()})
        for tag, e in entities.items()
    }


def _indexes(entities: dict[str, EntitySchema], keys: Mapping[str, KeyNames]) -> dict[str, IndexSchema]:
    by_name: dict[str, list[PatternSchema]] = {}
    for entity in entities.values():
        for pattern in entity.patterns.values():
            by_name.setdefault(str(pattern.index), []).append(pattern)
    return {
        name: IndexSchema(
            name,
            tuple(patterns),
            _is_local(patterns),
            _projected(patterns),
            **({"keys": keys[name]} if name in keys else {}),
        )
        for name, patterns in by_name.items()
    }


def _projected(patterns: Sequence[PatternSchema]) -> tuple[str, ...] | None:
    """The projection of the index that the patterns share; SchemaError if they differ."""
    pattern = patterns[0]
    for other in patterns:
        if other.projection != pattern.projection:
            raise SchemaError(
                f"{pattern.entity}.{pattern.name} and {other.entity}.{other.name} share the index {pattern.index!r}, "
                "but an index has one projection: give the same projection= in both, or give them different names with "
                "index="
            )
    return pattern.projection


def _is_local(patterns: Sequence[PatternSchema]) -> bool:
    """Whether the index that the patterns share is local; SchemaError if they differ."""
    pattern = patterns[0]
    for other in patterns:
        if other.kind != pattern.kind:
            raise SchemaError(
                f"{pattern.entity}.{pattern.name} and {other.entity}.{other.name} share the index {pattern.index!r}, "
                f"and it is {pattern.kind} for one and {other.kind} for the other: write local=True in both, or give "
                "them different names with index="
            )
    return pattern.kind == "local"
