"""Conditions on items as odm has them → conditions on the attributes of a table that is described."""

from collections.abc import Collection

from odm.backends.dynamodb.described import Described
from odm.codec import TAG, TTL_ATTRIBUTE, VERSION
from odm.errors import BadValue
from odm.expressions.evaluate import holds
from odm.expressions.nodes import (
    And,
    Compare,
    Condition,
    Const,
    Exists,
    IsIn,
    Missing,
    Not,
    Or,
    Path,
    Value,
    paths,
    with_paths,
)
from odm.immutable import Immutable
from odm.keys.base import Refused
from odm.protocol.predicates import every
from odm.schema.entity import EntitySchema, Key, KeyPart


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
        roots = {path.root for path in paths(condition)}
        if TAG in roots:
            return self._of_tag(condition)
        if roots == {VERSION} and all(entity.version == 1 for entity in self._entities):
            # An attribute of this name is of another program, and all items are of version 1.
            return self._always if holds(condition, {}) else self._never
        parts = {stored: part for one in self._entities for stored, part in one.key_only.items() if stored in roots}
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
            found = every(Compare("=", Path((attribute,)), Const(tag)), match)
        elif entity is None or all(entity is not one for one in self._entities):
            found = self._never
        else:
            found = every(Exists(self._there), match)
        assert found is not None
        return found

    def _matches(self, entity: EntitySchema, match: Condition) -> Condition:
        there = self._entities
        rivals = [one.match for one in self.table.rivals(entity.tag) if any(one is other for other in there)]
        others = (Not(self.translated(rival)) for rival in rivals if rival is not None)
        found = every(self.translated(match), *others)
        assert found is not None
        return found

    @property
    def _never(self) -> Condition:
        return And((Exists(self._there), Missing(self._there)))

    @property
    def _always(self) -> Condition:
        return Or((Exists(self._there), Missing(self._there)))

    def _of_key(self, condition: Condition, parts: dict[str, KeyPart]) -> Condition:
        """A condition on fields that the key contains: it holds or not for every item there is."""
        if {path.root for path in paths(condition)} != parts.keys():
            raise BadValue(f"the condition {condition} compares a part of the key with an attribute: write its value")
        item: dict[str, object] = {}
        for stored, part in parts.items():
            text = dict(zip(self.table.keys, self.key, strict=False))[part.attribute]
            item[stored] = (part.template.read(text) or {})[part.field]
        there, absent = holds(condition, item), holds(condition, {})
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
    roots = {path.root for path in paths(condition)}
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
