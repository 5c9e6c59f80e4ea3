"""Tables that exist already: which fields are key attributes, which stand in keys only, and what cannot be described.

See `Table` for the options. A field that stands alone in a template, and is stored under the name of the key
attribute, is that attribute ("native"). In a table with keys as they are, a field without a stored name of its own that
stands in a key is a part of the key only.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from odm.codec import EntityCodec
from odm.codec.annotations import TypeCompiler
from odm.codec.types.scalars import EnumType, LiteralType
from odm.codec.types.stored import NULL, StoredType, Unfit
from odm.codec.types.times import epoch_type
from odm.codec.types.unions import bare
from odm.entities.markers import Stored, find_marker
from odm.errors import SchemaError
from odm.expressions.nodes import And, Compare, Condition, Const, Exists, IsIn, Missing, Path
from odm.immutable import Immutable, evolve
from odm.keys import Form, Kind, Template, VerbatimKey
from odm.keys.base import Refused
from odm.schema.computed import computed_in
from odm.schema.entity import EntitySchema, KeyPart, PatternSchema
from odm.schema.model import IndexSchema, KeyNames, Schema, flat

if TYPE_CHECKING:
    from odm.entities.entity import Entity

_KINDS: Final[Mapping[str, Kind]] = {"S": "S", "N": "N", "B": "B"}


def forms_of(codec: EntityCodec) -> dict[str, Form]:
    """How the fields of an entity are stored that a key attribute can hold."""
    forms = {name: form_of(field.type) for name, field in codec.record.fields.items()}
    return {name: form for name, form in forms.items() if form is not None}


def computed_forms(cls: "type[Entity]", template: str) -> dict[str, Form]:
    """How a template contains the values of its computed fields.

    Raises:
        SchemaError: the values of one could not be stored.
    """
    forms = {name: form_of(TypeCompiler().computed(cls, name)) for name in computed_in(cls, template)}
    return {name: form for name, form in forms.items() if form is not None}


def form_of(type_: StoredType) -> Form | None:
    """How values of a type are stored, if a key attribute can hold them."""
    plain = bare(type_)
    kinds = plain.kinds - NULL
    if len(kinds) != 1 or not kinds <= _KINDS.keys():
        return None
    [kind] = kinds

    def dump(value: object) -> object:
        return _refusing(plain.dump, value)

    def loose(value: object) -> object:
        return _refusing(plain.loose, value)

    choices: tuple[str, ...] = ()
    if isinstance(plain, EnumType | LiteralType) and kind == "S":
        choices = tuple(stored for _, stored in plain.loaded)
    return Form(_KINDS[kind], dump, plain.load, plain.text, loose, getattr(plain, "ordered", True), choices)


def _refusing(dump: Callable[[Any], object], value: object) -> object:
    try:
        return dump(value)
    except Unfit as unfit:
        raise Refused(f"it {unfit.reason}") from None


def check_several(template: str, attributes: tuple[str, ...], codec: EntityCodec, owner: str) -> None:
    """Check the template of a key of several attributes: their fields, in order.

    Raises:
        SchemaError: it is another template.
    """
    by_stored = {stored: name for name, stored in codec.stored.items()}
    fields = [by_stored.get(attribute) for attribute in attributes]
    if None in fields or template != "#".join(f"{{{name}}}" for name in fields):
        expected = "#".join(f"{{{name or attribute}}}" for name, attribute in zip(fields, attributes, strict=True))
        raise SchemaError(
            f"{owner}: its key has the attributes {', '.join(attributes)}, which are fields: write the template "
            f'"{expected}", with fields that are stored under these names'
        )


def is_native(template: str, attribute: str | None, codec: EntityCodec, forms: Mapping[str, Form]) -> Kind | None:
    """The type of a key attribute that is a field itself; None if it is made from a template."""
    name = template[1:-1]
    if attribute is None or template != f"{{{name}}}" or name not in forms:
        return None
    return forms[name].kind if codec.stored[name] == attribute else None


class Use(Immutable):
    """A key attribute of an entity's items: where it is declared, and its template."""

    attribute: str
    pattern: PatternSchema
    template: Template


def uses_of(
    entity: EntitySchema, keys: tuple[str, ...], indexes: Mapping[str, IndexSchema], *, hash_only: bool
) -> Iterator[Use]:
    """The key attributes of an entity's items; the same one may be used several times."""
    for pattern in (entity.primary, *entity.patterns.values()):
        names: KeyNames = keys if pattern.index is None else names_of(indexes[pattern.index], keys)
        templates = (pattern.partition, pattern.sort)
        for attribute, template in zip(names, templates, strict=False):
            if template is None:
                continue
            if isinstance(attribute, tuple):
                yield from (Use(name, pattern, part) for name, part in zip(attribute, template.several, strict=True))
            else:
                yield Use(attribute, pattern, template)


def names_of(index: IndexSchema, keys: tuple[str, ...]) -> KeyNames:
    """The key attributes of an index; the partition key of a local index is that of the table."""
    return (keys[0], *index.keys[1:]) if index.local else index.keys


def describe(schema: Schema) -> Schema:
    """The schema with the types of its key attributes, and each entity with its fields that stand in keys only.

    Raises:
        SchemaError: the key attributes or entities of the table cannot be described like this.
    """
    types: dict[str, Kind] = {}
    entities: dict[str, EntitySchema] = {}
    for tag, entity in schema.entities.items():
        uses = list(uses_of(entity, schema.keys, schema.indexes, hash_only=schema.hash_only))
        for use in uses:
            kind = use.template.native or "S"
            if types.setdefault(use.attribute, kind) != kind:
                raise SchemaError(
                    f"{use.pattern.full_name}: the key attribute {use.attribute!r} is of type {kind} here, and of type "
                    f"{types[use.attribute]} in another pattern: a key attribute has one type"
                )
        _check_uses(entity, uses, schema.keys)
        _check_fields(schema, entity, uses)
        if schema.described:
            _check_members(schema, entity, uses)
        if schema.described:
            entity = evolve(entity, codec=evolve(entity.codec, exact=True))  # noqa: PLW2901  # of the same class
        entities[tag] = evolve(entity, key_only=_key_only(schema, entity, uses)) if schema.verbatim else entity
    return evolve(schema, entities=entities, types=types)


def _check_uses(entity: EntitySchema, uses: list[Use], keys: tuple[str, ...]) -> None:
    """Check that an attribute that is used several times has one template, and is there whenever it is needed."""
    for use, other in combinations(uses, 2):
        if use.attribute != other.attribute or use.pattern is other.pattern:
            continue
        where = f"{use.pattern.full_name} and {other.pattern.full_name} both use the key attribute {use.attribute!r}"
        if use.template.native and other.template.native:
            continue
        if use.template.text != other.template.text:
            raise SchemaError(
                f'{where}, as "{use.template.text}" and as "{other.template.text}": an attribute has one value, so '
                "write the same template, or name another attribute in Table(index_keys=...)"
            )
        if use.attribute not in keys and not use.template.native and _presence(entity, use) != _presence(entity, other):
            raise SchemaError(
                f"{where}, but an item can be in one index and not in the other: let both have the same fields that "
                "may be None, and the same when="
            )
    for use in uses:
        whole = all(other.template.native for other in uses if other.pattern is use.pattern)
        if use.pattern.when is not None and whole:
            raise SchemaError(
                f"{use.pattern.full_name}: when= has no effect, because the key attributes of the index are fields of "
                "their own: an item is in it if it has them; drop when="
            )


def _presence(entity: EntitySchema, use: Use) -> tuple[frozenset[str], Condition | None]:
    return entity.optional.intersection(use.pattern.fields), use.pattern.when


def _check_fields(schema: Schema, entity: EntitySchema, uses: list[Use]) -> None:
    """Check that no field is stored under the name of a key attribute, unless it is that attribute."""
    natives = {use.attribute for use in uses if use.template.native}
    key_attributes = {use.attribute for use in uses} - natives
    others = {name for index in schema.indexes.values() for name in flat(index.keys)} | {*schema.keys}
    for name, stored in entity.codec.stored.items():
        field = entity.codec.record.fields[name]
        if stored == schema.tag:
            raise SchemaError(
                f"{entity.name}.{name}: {stored!r} is the tag of table {schema.name!r}, which odm writes: remove the "
                "field"
            )
        if stored in key_attributes or (stored in others and stored not in natives and not schema.verbatim):
            raise SchemaError(
                f"{entity.name}.{name}: the stored name {stored!r} is already a key attribute of table "
                f'{schema.name!r}; store the field under another name with Annotated[..., Stored("...")], or let '
                f'the template of the attribute be "{{{name}}}", so that the field is the attribute'
            )
        if stored == schema.ttl and name == entity.ttl and bare(field.type) != epoch_type("s"):
            raise SchemaError(
                f"{entity.name}.{name} is the TTL attribute of table {schema.name!r}, where DynamoDB needs seconds: "
                f'declare it with Stored("{stored}", epoch="s")'
            )
        if stored in natives and name in entity.optional and not field.omits_none:
            raise SchemaError(
                f"{entity.name}.{name} may be None, and a key attribute cannot be NULL: give it the default None, so "
                "that it is left out"
            )


def _check_members(schema: Schema, entity: EntitySchema, uses: list[Use]) -> None:
    """Check that an entity has a pattern for each index that its items are in, because they have its attributes."""
    there = {use.attribute for use in uses} | {*entity.codec.stored.values()}
    declared = {pattern.index for pattern in entity.patterns.values()}
    for index in schema.indexes.values():
        names = flat(names_of(index, schema.keys))
        if index.name not in declared and there.issuperset(names):
            raise SchemaError(
                f"{entity.name} has no pattern for index {index.name!r}, but its items are in it, because they have "
                f"the key attributes {' and '.join(names)}: declare one with AccessPattern(..., index={index.name!r})"
            )


def _key_only(schema: Schema, entity: EntitySchema, uses: list[Use]) -> dict[str, KeyPart]:
    """By stored name, the fields that are no attributes, and where to read them from."""
    key_parts: dict[str, KeyPart] = {}
    for name, info in entity.cls.model_fields.items():
        marker = find_marker(info, Stored)
        there = [use for use in uses if any(s.name == name for s in use.template.slots)]
        if not there or (marker is not None and marker.name) or any(use.template.native for use in there):
            continue
        whole = [use for use in there if _tells(use.template, name)]
        keys = [use for use in whole if use.pattern.index is None]
        alone = [use for use in whole if set(use.template.fields) == {name}]
        if not whole:
            continue  # only a part of it stands in keys, so it is an attribute
        if not keys and not alone:
            raise SchemaError(
                f"{entity.name}.{name} stands only in the index key {whole[0].template.text!r}, together with other "
                f'fields: store it as an attribute too, Annotated[..., Stored("{name}")]'
            )
        part = (keys or alone)[0]
        others = entity.optional.intersection(part.pattern.fields) - {name}
        if not keys and (others or part.pattern.when is not None):
            raise SchemaError(
                f"{entity.name}.{name} stands only in keys of index {part.pattern.index!r}, where an item may be "
                f'missing because of other fields: store it as an attribute too, Annotated[..., Stored("{name}")]'
            )
        key_parts[entity.codec.stored[name]] = KeyPart(name, part.attribute, part.template, primary=bool(keys))
    return key_parts


def _tells(template: Template, name: str) -> bool:
    return any(slot.name == name and isinstance(slot.type, VerbatimKey) for slot in template.slots)


def check_alike(schema: Schema, entity: EntitySchema, other: EntitySchema) -> None:
    """Check two entities whose keys can be equal: a tag or their match= must distinguish their items.

    Raises:
        SchemaError: an item could be of both.
    """
    table = schema.name
    if entity.match is not None and other.match is not None:
        if are_apart(entity.match, other.match):
            return
        lacking = _needs_more(schema, entity, other) and _needs_more(schema, other, entity)
        if lacking and not schema.keep_unknown and not schema.exclusive:
            return
        also = ""
        if lacking:
            option = "keep_unknown" if schema.keep_unknown else "exclusive"
            also = f", or drop Table({option}=True), with which a write could leave the attributes of both"
        raise SchemaError(
            f"{entity.name} and {other.name} can have the same key in table {table!r}, and one item can fit both "
            "match= conditions: let both ask for different values of one attribute, or each for an attribute that the "
            f"other class does not have{also}"
        )
    if not (schema.verbatim and schema.tag is not None):
        raise SchemaError(
            f"in table {table!r} an item of {entity.name} and one of {other.name} can have the same key: "
            f"{entity.name}.{entity.primary.text} and {other.name}.{other.primary.text}, so they cannot be "
            f"distinguished: give both classes a condition with match=, as in class {entity.name}(Entity, table=..., "
            'match=field("kind") == "..."), or name the attribute that distinguishes them in Table(tag=...)'
        )


def are_apart(condition: Condition, other: Condition) -> bool:
    """Whether no item fits both conditions, as far as it is plain: they ask for different values of one attribute."""
    mine, others = _asked(condition), _asked(other)
    for path, values in mine.items():
        if path not in others:
            continue
        both = (values, others[path])
        if any(_EXISTS in some for some in both):
            if any(some == {_ABSENT} for some in both):
                return True
        elif not values & others[path]:
            return True
    return False


def rivals_of(schema: Schema, entity: EntitySchema) -> tuple[EntitySchema, ...]:
    """The entities of which another program can write an item that fits the match= of both; it is then of neither."""
    if schema.tag is not None or entity.match is None:
        return ()
    others = (other for other in schema.entities.values() if other is not entity and other.match is not None)
    return tuple(other for other in others if other.match is not None and not are_apart(entity.match, other.match))


def _needs_more(schema: Schema, entity: EntitySchema, other: EntitySchema) -> bool:
    """Whether match= of the first needs an attribute that no item of the other has, as far as it is plain."""
    assert entity.match is not None
    keys = {*schema.keys, schema.tag, schema.ttl}.union(*(flat(index.keys) for index in schema.indexes.values()))
    cells = {cell[:2] for cell in other.cells.values()}
    for path, values in _asked(entity.match).items():
        root, cell = path.root, entity.cells.get(path.root)
        has = root in keys or root in other.codec.stored.values() or (cell is not None and cell[:2] in cells)
        if not has and None not in values and _ABSENT not in values:
            return True
    return False


_ABSENT: Final = object()
_EXISTS: Final = object()


def _asked(condition: Condition) -> dict[Path, frozenset[object]]:
    """The values that attributes may have, of the conditions that are plain."""
    match condition:
        case And(conditions):
            return {path: values for part in conditions for path, values in _asked(part).items()}
        case Compare("=", Path() as path, Const(value)) if isinstance(value, str | int | bytes):
            return {path: frozenset({value})}
        case IsIn(Path() as path, choices):
            return {path: frozenset(choice.value for choice in choices)}
        case Missing(path):
            return {path: frozenset({_ABSENT})}
        case Exists(path):
            return {path: frozenset({_EXISTS})}
    return {}
