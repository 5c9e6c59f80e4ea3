"""Items of tables that exist already: between the attributes that other programs write and items as odm has them.

Elsewhere in odm an item has all fields of its entity, and the entity's tag. In a table that is described
(`Schema.described`), a field may be a part of a key, and the tag another attribute or none. Only this module and
`odm.backends.dynamodb.described_conditions` know the difference.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from odm.backends.dynamodb.attributes import Attributes, from_attribute
from odm.codec import OTHERS, TAG, TTL_ATTRIBUTE, VERSION, attribute_name
from odm.errors import brief
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Action, Item, Path, Remove, Set, Value
from odm.immutable import Immutable, evolve
from odm.keys import number_of, number_text
from odm.protocol.requests import Put, Update
from odm.schema.described import names_of, rivals_of, uses_of
from odm.schema.entity import EntitySchema
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
    made: frozenset[str]
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
        found = {}
        for tag, entity in schema.entities.items():
            uses = list(uses_of(entity, schema.keys, schema.indexes, hash_only=schema.hash_only))
            natives = frozenset(use.attribute for use in uses if use.template.native)
            made = frozenset(use.attribute for use in uses) - natives
            ttl = None if entity.ttl is None else attribute_name(entity.codec.stored[entity.ttl])
            own = {TAG: schema.tag == TAG, VERSION: entity.version != 1}
            own[TTL_ATTRIBUTE] = schema.ttl == TTL_ATTRIBUTE and ttl not in (None, TTL_ATTRIBUTE)
            others = {name: theirs for name, theirs in OTHERS.items() if not own[name]}
            found[tag] = _Kind(entity, made, natives, ttl, others, rivals_of(schema, entity))
        return found

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
        hidden, others = kind.made | {schema.tag}, kind.others
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
        made = {} if schema.tag is None else {schema.tag: item.get(TAG)}
        made |= self._key_values(self.keys, put.key, natives)
        for index, key in put.entries.items():
            if any(type(name) is tuple for name in schema.indexes[index].keys):
                continue  # a key of several attributes is made of fields
            made |= self._key_values(self.names(index), key, natives)
        for name, value in item.items():
            if name == TAG or name in key_only or (value is None and name in natives):
                continue
            if name == TTL_ATTRIBUTE:
                if kind is None or kind.ttl != schema.ttl:
                    made[schema.ttl] = value
                continue
            made[attribute_name(name)] = value
        return made

    def known(self, put: Put) -> frozenset[str]:
        """The attributes that the models have of this item's entity."""
        kind = self._kinds.get(str(put.item.get(TAG)))
        if kind is None or put.known is None:
            return frozenset()
        # An attribute with a name of odm's own that another program writes is not one of the model.
        names = put.known - kind.entity.key_only.keys() - {TAG, TTL_ATTRIBUTE} - kind.others.keys()
        names = frozenset(map(attribute_name, names)) | kind.made
        return names | {self.schema.ttl} if kind.ttl is not None else names

    def names(self, index: str) -> tuple[str, ...]:
        """The key attributes of an index."""
        found = self.schema.indexes[index]
        return flat(names_of(found, self.keys))

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
        found: dict[Path | int, Action] = {}
        for at, action in enumerate(request.actions):
            root = action.path.root
            if root in parts or (root == TTL_ATTRIBUTE and self.schema.ttl in ttls):
                continue
            path = Path((self.schema.ttl,)) if root == TTL_ATTRIBUTE else action.path
            leaves = isinstance(action, Set) and action.value is None and root in natives
            found[at] = Remove(path) if leaves else action if path is action.path else _moved(action, path)
        for index, entry in request.entries.items():
            names = self.names(index)
            if any(type(name) is tuple for name in self.schema.indexes[index].keys):
                continue
            for name, text in zip(names, entry or ("",) * len(names), strict=False):
                if name not in natives and name not in self.keys:
                    path = Path((name,))
                    found[path] = Remove(path) if entry is None else Set(path, text)
        return tuple(found.values())


def _moved(action: Action, path: Path) -> Action:
    return evolve(action, path=path)
