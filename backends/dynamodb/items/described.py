"""Items of tables that exist already: between the attributes that other programs write and items as odm has them.

Conditions on such items become conditions on the attributes.

Elsewhere in odm an item has all fields of its entity, and the entity's tag. In a table that is described
(`Schema.described`), a field may be a part of a key, and the tag another attribute or none. Only this module
knows the difference.
"""

from collections.abc import Collection, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from odm.backends.dynamodb.items.attributes import Attributes, from_attribute
from odm.codec import OTHERS, TAG, TTL_ATTRIBUTE, VERSION, attribute_name
from odm.errors import BadValue, brief
from odm.expressions.evaluate import holds
from odm.expressions.nodes import (
    Action,
    And,
    Compare,
    Condition,
    Const,
    Exists,
    IsIn,
    Item,
    Missing,
    Not,
    Or,
    Path,
    Remove,
    Set,
    Value,
    roots_of,
    with_paths,
)
from odm.immutable import Immutable, evolve
from odm.keys import number_of, number_text
from odm.keys.base import Refused
from odm.protocol.predicates import every
from odm.protocol.requests import Put, Update
from odm.schema.described import names_of, rivals_of, uses_of
from odm.schema.entity import EntitySchema, Key, KeyPart
from odm.schema.faults import of_several
from odm.schema.model import Schema, flat

_NO_TEXT: Final[Mapping[str, str]] = {}


def native_value(text: str, kind: str) -> Value:
    """The value of a key attribute, from its text in keys of odm."""
    if kind == "N":
        return number_of(text)
    return bytes.fromhex(text) if kind == "B" else text


def native_text(value: Value, kind: str) -> str:
    """The text of a key attribute's value in keys of odm.

    Raises:
        TypeError: the value is of another type than the key attribute.
    """
    if kind == "N" and isinstance(value, int | Decimal):
        return number_text(value)
    if kind == "B" and isinstance(value, bytes):
        return value.hex()
    if kind == "S" and isinstance(value, str):
        return value
    raise TypeError(f"{brief(value)} is not a key of type {kind}")


class _Kind(Immutable):
    """How the items of one entity are stored.

    Attributes:
        made: the key attributes that templates make, which are no attributes of an item.
        natives: the key attributes that are fields.
        ttl: the attribute of the TTL field.
        others: the names in items of odm of attributes whose own name odm uses for something else.
        rivals: see `rivals_of`.
    """

    entity: EntitySchema
    written: frozenset[str]
    natives: frozenset[str]
    ttl: str | None
    others: Mapping[str, str]
    rivals: tuple[EntitySchema, ...] = ()


class Described(Immutable, dict=True):
    """A table of a schema that is described.

    Attributes:
        schema: the schema.
        keys: the key attributes of the table.
    """

    schema: Schema
    keys: tuple[str, ...]

    @cached_property
    def _kinds(self) -> dict[str, _Kind]:
        schema = self.schema
        kinds = {}
        for tag, entity in schema.entities.items():
            uses = list(uses_of(entity, schema.keys, schema.indexes, hash_only=schema.hash_only))
            natives = frozenset(use.attribute for use in uses if use.template.native)
            written = frozenset(use.attribute for use in uses) - natives
            ttl = None if entity.ttl is None else attribute_name(entity.codec.stored[entity.ttl])
            own = {TAG: schema.tag == TAG, VERSION: entity.version != 1}
            own[TTL_ATTRIBUTE] = schema.ttl == TTL_ATTRIBUTE and ttl not in (None, TTL_ATTRIBUTE)
            others = {name: theirs for name, theirs in OTHERS.items() if not own[name]}
            kinds[tag] = _Kind(entity, written, natives, ttl, others, rivals_of(schema, entity))
        return kinds

    @property
    def tells_by_tag(self) -> bool:
        """Whether the tag alone says of which entity an item is."""
        return self.schema.tag is not None and all(e.match is None for e in self.schema.entities.values())

    @property
    def tells_by_key(self) -> bool:
        """Whether the tag and the key say of which entity an item is, whatever its other attributes are."""
        return all(entity.match is None for entity in self.schema.entities.values())

    def item(self, attributes: Attributes) -> dict[str, Value]:
        """The item of an entity with these attributes; without a known tag, if it is of none."""
        values = {name: from_attribute(attribute) for name, attribute in attributes.items()}
        tag = None if self.schema.tag is None else values.get(self.schema.tag)
        if self.schema.tag is not None:
            kind = self._kinds.get(tag) if isinstance(tag, str) else None
            found = [] if kind is None else [self._read(kind, values)]
        else:
            found = [self._read(kind, values) for kind in self._kinds.values() if self.fits(kind.entity, values)]
        items = [item for item in found if self._matches(item)]
        if len(items) == 1:
            return items[0]
        values.pop(TAG, None)
        if items and tag is None:
            return {**values, TAG: of_several(self._kinds[item[TAG]].entity for item in items)}
        # An item with a known tag that does not fit match= is of no entity, as one without a tag.
        return values if tag is None or found else {**values, TAG: tag}

    def shadowed(self, attributes: Attributes) -> list[tuple[str, str]]:
        """The entity and each field that the models take from the key, though the item has an attribute of the name."""
        entity = self.schema.entities.get(str(self.item(attributes).get(TAG)))
        if entity is None:
            return []
        return [(entity.name, part.field) for stored, part in entity.key_only.items() if stored in attributes]

    def _matches(self, item: Item) -> bool:
        match = self._kinds[item[TAG]].entity.match
        return match is None or holds(match, item)

    def fits(self, entity: EntitySchema, values: Mapping[str, Value]) -> bool:
        """Whether the key attributes have the form that the entity's primary key gives them."""
        for name, template in zip(self.keys, (entity.primary.partition, entity.primary.sort), strict=False):
            value = values.get(name)
            if template is None or template.native:
                continue
            if not isinstance(value, str) or template.read(value) is None:
                return False
        return True

    def _read(self, kind: _Kind, values: Mapping[str, Value]) -> dict[str, Value]:
        schema = self.schema
        hidden, others = kind.written | {schema.tag}, kind.others
        item = {others.get(name, name): value for name, value in values.items() if name not in hidden}
        item[TAG] = kind.entity.tag
        for stored, part in kind.entity.key_only.items():
            text = values.get(part.attribute)
            read = part.template.read(text) if isinstance(text, str) else None
            if read is not None:
                item[stored] = read[part.field]
            else:
                item.pop(stored, None)
        expiry = values.get(schema.ttl)
        if kind.ttl is not None and isinstance(expiry, int | Decimal) and not isinstance(expiry, bool):
            item[TTL_ATTRIBUTE] = expiry
            if schema.ttl not in (kind.ttl, TTL_ATTRIBUTE):
                del item[schema.ttl]
        return item

    def values(self, put: Put) -> dict[str, Value]:
        """The values of all attributes that a put writes."""
        schema, item = self.schema, put.item
        kind = self._kinds.get(str(item.get(TAG)))
        natives = frozenset[str]() if kind is None else kind.natives
        key_only: Mapping[str, Any] = _NO_TEXT if kind is None else kind.entity.key_only
        attributes = {} if schema.tag is None else {schema.tag: item.get(TAG)}
        attributes |= self._key_values(self.keys, put.key, natives)
        for index, key in put.entries.items():
            if any(type(name) is tuple for name in schema.indexes[index].keys):
                continue  # a key of several attributes is made of fields
            attributes |= self._key_values(self.names(index), key, natives)
        for name, value in item.items():
            if name == TAG or name in key_only or (value is None and name in natives):
                continue
            if name == TTL_ATTRIBUTE:
                if kind is None or kind.ttl != schema.ttl:
                    attributes[schema.ttl] = value
                continue
            attributes[attribute_name(name)] = value
        return attributes

    def known(self, put: Put) -> frozenset[str]:
        """The attributes that the models have of this item's entity."""
        kind = self._kinds.get(str(put.item.get(TAG)))
        if kind is None or put.known is None:
            return frozenset()
        # An attribute with a name of odm's own that another program writes is not one of the model.
        names = put.known - kind.entity.key_only.keys() - {TAG, TTL_ATTRIBUTE} - kind.others.keys()
        names = frozenset(map(attribute_name, names)) | kind.written
        return names | {self.schema.ttl} if kind.ttl is not None else names

    def names(self, index: str) -> tuple[str, ...]:
        """The key attributes of an index."""
        schema_of_index = self.schema.indexes[index]
        return flat(names_of(schema_of_index, self.keys))

    def _key_values(self, names: tuple[str, ...], key: tuple[str, ...], natives: frozenset[str]) -> dict[str, Value]:
        types = self.schema.types
        pairs = zip(names, key, strict=False)
        return {name: native_value(text, types.get(name, "S")) for name, text in pairs if name not in natives}

    def kinds_at(self, key: tuple[str, ...]) -> list[EntitySchema]:
        """The entities whose items can have this key."""
        types = self.schema.types
        values = {name: native_value(text, types.get(name, "S")) for name, text in zip(self.keys, key, strict=False)}
        return [kind.entity for kind in self._kinds.values() if self.fits(kind.entity, values)]

    def rivals(self, tag: str) -> tuple[EntitySchema, ...]:
        """The entities of which an item that fits match= of this one must not be."""
        return self._kinds[tag].rivals

    def actions(self, request: Update) -> tuple[Action, ...]:
        """The actions of an update on attributes, with those on key attributes."""
        entities = self.kinds_at(request.key)
        parts = {stored for entity in entities for stored in entity.key_only}
        natives = {name for entity in entities for name in self._kinds[entity.tag].natives}
        ttls = {self._kinds[entity.tag].ttl for entity in entities}
        by_path: dict[Path | int, Action] = {}
        for at, action in enumerate(request.actions):
            root = action.path.root
            if root in parts or (root == TTL_ATTRIBUTE and self.schema.ttl in ttls):
                continue
            path = Path((self.schema.ttl,)) if root == TTL_ATTRIBUTE else action.path
            leaves = isinstance(action, Set) and action.value is None and root in natives
            by_path[at] = Remove(path) if leaves else action if path is action.path else _moved(action, path)
        for index, entry in request.entries.items():
            names = self.names(index)
            if any(type(name) is tuple for name in self.schema.indexes[index].keys):
                continue
            for name, text in zip(names, entry or ("",) * len(names), strict=False):
                if name not in natives and name not in self.keys:
                    path = Path((name,))
                    by_path[path] = Remove(path) if entry is None else Set(path, text)
        return tuple(by_path.values())


def _moved(action: Action, path: Path) -> Action:
    return evolve(action, path=path)


class WriteConditions(Immutable, dict=True):
    """Translates the conditions of a write of one item, whose key has the fields that stand in it.

    Attributes:
        table: the table.
        key: the key of the item.
    """

    table: Described
    key: Key

    def translated(self, condition: Condition) -> Condition:
        """The condition on attributes.

        Raises:
            BadValue: it asks for a part of an index key in a way that a key attribute cannot answer.
        """
        if isinstance(condition, And | Or):
            return type(condition)(tuple(map(self.translated, condition.conditions)))
        if isinstance(condition, Not):
            return Not(self.translated(condition.condition))
        roots = roots_of(condition)
        if TAG in roots:
            return self._of_tag(condition)
        if roots == {VERSION} and all(entity.version == 1 for entity in self._entities):
            # An attribute of this name is of another program, and all items are of version 1.
            return self._always if holds(condition, None) else self._never
        parts = {
            stored: part for entity_ in self._entities for stored, part in entity_.key_only.items() if stored in roots
        }
        if parts and all(part.primary for part in parts.values()):
            return self._of_key(condition, parts)
        if parts:
            return self._of_index(condition, *parts.popitem())
        return renamed(condition, TTL_ATTRIBUTE, self.table.schema.ttl)

    @property
    def _entities(self) -> list[EntitySchema]:
        return self.table.kinds_at(self.key)

    @property
    def _there(self) -> Path:
        return Path(self.table.keys[:1])

    def _of_tag(self, condition: Condition) -> Condition:
        match condition:
            case Exists():
                return Exists(self._there)
            case Missing():
                return Missing(self._there)
            case Compare("=", Path(), Const(str(tag))):
                return self._is(tag)
            case Compare("<>", Path(), Const(str(tag))):
                return Not(self._is(tag))
            case IsIn(Path(), choices) if choices:
                of = tuple(self._is(choice.value) for choice in choices)
                return of[0] if len(of) == 1 else Or(of)
        return self._never

    def _is(self, tag: str) -> Condition:
        """The item is there, and of the entity with this tag."""
        entity, attribute = self.table.schema.entities.get(tag), self.table.schema.tag
        match = None if entity is None or entity.match is None else self._matches(entity, entity.match)
        if attribute is not None:
            condition = every(Compare("=", Path((attribute,)), Const(tag)), match)
        elif entity is None or all(entity is not known for known in self._entities):
            condition = self._never
        else:
            condition = every(Exists(self._there), match)
        assert condition is not None
        return condition

    def _matches(self, entity: EntitySchema, match: Condition) -> Condition:
        there = self._entities
        rivals = [rival.match for rival in self.table.rivals(entity.tag) if any(rival is other for other in there)]
        others = (Not(self.translated(rival)) for rival in rivals if rival is not None)
        condition = every(self.translated(match), *others)
        assert condition is not None
        return condition

    @property
    def _never(self) -> Condition:
        return And((Exists(self._there), Missing(self._there)))

    @property
    def _always(self) -> Condition:
        return Or((Exists(self._there), Missing(self._there)))

    def _of_key(self, condition: Condition, parts: dict[str, KeyPart]) -> Condition:
        """A condition on fields that the key contains: it holds or not for every item there is."""
        if roots_of(condition) != parts.keys():
            raise BadValue(f"the condition {condition} compares a part of the key with an attribute: write its value")
        item: dict[str, object] = {}
        for stored, part in parts.items():
            text = dict(zip(self.table.keys, self.key, strict=False))[part.attribute]
            item[stored] = (part.template.read(text) or {})[part.field]
        there, absent = holds(condition, item), holds(condition, None)
        if there is absent:
            return self._always if there else self._never
        return Exists(self._there) if there else Missing(self._there)

    def _of_index(self, condition: Condition, stored: str, part: KeyPart) -> Condition:
        attribute = Path((part.attribute,))
        match condition:
            case Exists():
                return Exists(attribute)
            case Missing():
                return Missing(attribute)
            case Compare("=" | "<>" as op, Path(), Const(value)) | Compare("=" | "<>" as op, Const(value), Path()):
                text = _text(part, value)
                if text is not None:
                    return Compare(op, attribute, Const(text))
                return self._never if op == "=" else self._always
            case IsIn(Path(), choices):
                texts = [text for choice in choices if (text := _text(part, choice.value)) is not None]
                return IsIn(attribute, tuple(map(Const, texts))) if texts else self._never
        raise BadValue(
            f"the condition {condition} is on {stored!r}, which is a part of the key attribute {part.attribute!r} and "
            "no attribute itself: compare it for equality, or store it as an attribute too, with "
            f'Annotated[..., Stored("{stored}")]'
        )


def _text(part: KeyPart, value: Value) -> str | None:
    """The key attribute that contains a stored value; None if there is none."""
    if value is None:
        return None
    try:
        text = part.template.written({part.field: value})
    except Refused:
        return None
    return text if part.template.read(text) == {part.field: value} else None


def reading_filter(
    table: Described, condition: Condition | None, keys: Collection[str]
) -> tuple[Condition | None, bool]:
    """The filter that DynamoDB can apply, which may let more items through; and whether it lets no more through.

    Args:
        table: the table.
        condition: the filter of the request.
        keys: the key attributes of a query, which DynamoDB does not allow in its filter.
    """
    if condition is None:
        return None, True
    match condition:
        case And(conditions):
            parts = [reading_filter(table, part, keys) for part in conditions]
            return every(*(part for part, _ in parts)), all(exact for _, exact in parts)
        case Or(conditions):
            parts = [reading_filter(table, part, keys) for part in conditions]
            if any(part is None for part, _ in parts):
                return None, False
            return Or(tuple(part for part, _ in parts if part is not None)), all(exact for _, exact in parts)
        case Not(inner):
            part, exact = reading_filter(table, inner, keys)
            return (Not(part), True) if exact and part is not None else (None, False)
    roots = roots_of(condition)
    key_only = {stored for entity in table.schema.entities.values() for stored in entity.key_only}
    if roots & key_only or roots.intersection(keys) or (TAG in roots and not table.tells_by_tag):
        return None, False
    if VERSION in roots and all(entity.version == 1 for entity in table.schema.entities.values()):
        return None, False  # an attribute of this name is of another program
    tagged = renamed(condition, TAG, str(table.schema.tag))
    return renamed(tagged, TTL_ATTRIBUTE, table.schema.ttl), True


def renamed(condition: Condition, old: str, new: str) -> Condition:
    """A condition with another name of an attribute."""
    if old == new:
        return condition
    changed: Condition = with_paths(
        condition, lambda path: Path((new, *path.segments[1:]), path.owner) if path.root == old else path
    )
    return changed
