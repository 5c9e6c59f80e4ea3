"""What is known of a table: its keys, indexes and TTL, and a sample of its items.

Facts come from files and from endpoints that others control, so they are checked here, before a design or a source is
made of them: each name by the rules of DynamoDB, each item by the form of its attributes.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from odm import BackendError, BadValue
from odm.backends.dynamodb.items.attributes import read_binary, read_number
from odm.codec.attributes import is_attribute_name
from odm.codec.depth import LEVELS
from odm.codec.types.stored import show
from odm.protocol.limits import PARTITION_BYTES
from odm.schema.checks import MAX_KEY_NAME, NAMES, is_index_name, is_name
from odm.schema.model import KeyNames, flat

Attributes = Mapping[str, Mapping[str, Any]]
"""An item, as DynamoDB's API has it."""

MAX_PARTS: Final = 4
"""The most attributes of a partition key, and of a sort key, of an index (AWS: GSI multi-attribute keys)."""

KEY_TYPES: Final = frozenset({"S", "N", "B"})
"""The types of key attributes."""

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SETS: Final = {"SS": "S", "NS": "N", "BS": "B"}


class IndexFacts(Struct, frozen=True):
    """An index.

    Attributes:
        keys: its key attributes; a tuple: several attributes of its partition or sort key.
        local: it is a local secondary index.
        held: the attributes that it holds besides keys; None: all.
    """

    keys: KeyNames
    local: bool = False
    held: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All its key attributes."""
        return flat(self.keys)


class TableFacts(Struct, frozen=True):
    """A table.

    Attributes:
        keys: its key attributes.
        types: the types of all key attributes: "S", "N" or "B".
        indexes: by name.
        ttl: its TTL attribute; None if it has none.
        items: the sample.
        notes: what was left out.

    Raises:
        BadValue: a name cannot be one, or an item is not one of such a table.
    """

    name: str
    keys: tuple[str, ...]
    types: Mapping[str, str]
    indexes: Mapping[str, IndexFacts] = field(default_factory=dict)
    ttl: str | None = None
    items: tuple[Attributes, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not is_name(self.name):
            raise BadValue(f"{show(self.name)} cannot name a table: a name has {NAMES}")
        _check_keys(f"table {self.name!r}", self.keys, self.types)
        for name, index in self.indexes.items():
            check_index_name(name)
            _check_keys(f"index {name!r}", index.keys, self.types)
            for held in index.held or ():
                _check_name(held)
        if self.ttl is not None:
            _check_name(self.ttl)
        for item in self.items:
            self._check_item(item)

    def _check_item(self, item: object) -> None:
        if not isinstance(item, dict):
            raise BadValue(f"{show(item)} is not an item: an item is an object with attributes")
        for name, attribute in item.items():
            _check_name(name)
            _check_attribute(name, attribute)
        for key in self.keys:
            if (kind := self.types[key]) not in item.get(key, ()):
                raise BadValue(f"the item {show(item)} has no key attribute {key!r} of type {kind}")
        for key in item.keys() & self.types.keys():
            if len(str(item[key].get("S", "")).encode()) > PARTITION_BYTES:
                raise BadValue(
                    f"{show(item[key])} is longer than the {PARTITION_BYTES} bytes of a key attribute {key!r}"
                )


def _check_keys(owner: str, keys: KeyNames, types: Mapping[str, str]) -> None:
    names = flat(keys)
    if not 1 <= len(keys) <= 2 or len({*names}) < len(names):
        raise BadValue(f"{owner} has the key attributes {show(keys)}: a key has one or two")
    if any(not 1 <= len(part) <= MAX_PARTS for part in keys if isinstance(part, tuple)):
        raise BadValue(f"{owner} has the key attributes {show(keys)}: a part of a key has one to {MAX_PARTS}")
    for name in names:
        _check_name(name)
        if len(name) > MAX_KEY_NAME:
            raise BadValue(f"{show(name)} cannot name a key attribute: DynamoDB allows {MAX_KEY_NAME} characters")
        if types.get(name) not in KEY_TYPES:
            raise BadValue(f"the key attribute {show(name)} has the type {show(types.get(name))}, not S, N or B")


def check_index_name(name: object) -> None:
    """Raise BadValue if an index cannot have this name."""
    if not isinstance(name, str) or not is_index_name(name):
        raise BadValue(f"{show(name)} cannot name an index: a name has {NAMES}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not is_attribute_name(name):
        raise BadValue(f"{show(name)} cannot name an attribute: a name is text that UTF-8 can encode, and not empty")


def _check_attribute(owner: str, attribute: object, level: int = 1) -> None:
    """Raise BadValue if this is not an attribute value, on this level of an item."""
    if not isinstance(attribute, dict) or len(attribute) != 1:
        raise BadValue(f"{show(owner)} is {show(attribute)}, which is not an attribute value")
    if level > LEVELS:
        raise BadValue(f"{show(owner)} is nested deeper than {LEVELS} levels, which DynamoDB does not store")
    [(kind, content)] = attribute.items()
    match kind, content:
        case "M", dict():
            for part in content.values():
                _check_attribute(owner, part, level + 1)
            fits = all(isinstance(name, str) and is_attribute_name(name) for name in content)
        case "L", list():
            for part in content:
                _check_attribute(owner, part, level + 1)
            fits = True
        case (("SS" | "NS" | "BS"), list() | tuple() | set() | frozenset()):
            fits = bool(content) and all(_fits(_SETS[kind], member) for member in content)
        case _:
            fits = _fits(kind, content)
    if not fits:
        raise BadValue(f"{show(owner)} is {show(attribute)}, which is not an attribute value")


def _fits(kind: str, content: object) -> bool:
    """Whether this is the content of an attribute of a type without parts."""
    match kind, content:
        case "S", str():
            return content == "" or is_attribute_name(content)
        case "N", str():
            return _NUMBER.fullmatch(content) is not None and _is_number(content)
        case "B", bytes():
            return True
        case "B", str():
            return _is_base64(content)
        case "BOOL", bool():
            return True
    return kind == "NULL" and content is True


def _is_number(text: str) -> bool:
    try:
        read_number(text)
    except BackendError:
        return False
    return True


def _is_base64(text: str) -> bool:
    try:
        read_binary(text)
    except ValueError:
        return False
    return True


def facts_of(described: Mapping[str, Any], ttl: Mapping[str, Any], items: Iterable[Attributes]) -> TableFacts:
    """The facts in the responses of DescribeTable and DescribeTimeToLive.

    Raises:
        BackendError: these are not responses of DynamoDB.
    """
    try:
        return _facts_of(described["Table"], ttl["TimeToLiveDescription"], tuple(items))
    except (BadValue, LookupError, TypeError, AttributeError) as error:
        reason = error if isinstance(error, BadValue) else f"{type(error).__name__}: {show(str(error))}"
        raise BackendError(f"the endpoint does not answer as DynamoDB: {reason}: check its address") from error


def _facts_of(table: Mapping[str, Any], ttl: Mapping[str, Any], items: tuple[Attributes, ...]) -> TableFacts:
    indexes: dict[str, IndexFacts] = {}
    notes: list[str] = []
    for local, name in ((False, "GlobalSecondaryIndexes"), (True, "LocalSecondaryIndexes")):
        for index in table.get(name) or ():
            check_index_name(index["IndexName"])
            projection = index.get("Projection", {})
            whole = projection.get("ProjectionType", "ALL") == "ALL"
            held = None if whole else tuple(sorted(projection.get("NonKeyAttributes", ())))
            indexes[index["IndexName"]] = IndexFacts(_index_names(index["KeySchema"]), local, held)
    notes += [_vectors(index) for index in table.get("VectorIndexes") or ()]
    return TableFacts(
        name=table["TableName"],
        keys=_names(table["KeySchema"]),
        types={key["AttributeName"]: key["AttributeType"] for key in table["AttributeDefinitions"]},
        indexes=dict(sorted(indexes.items())),
        ttl=ttl.get("AttributeName") if ttl.get("TimeToLiveStatus") in ("ENABLED", "ENABLING") else None,
        items=items,
        notes=tuple(notes),
    )


def _vectors(index: Mapping[str, Any]) -> str:
    check_index_name(index["IndexName"])
    attribute, size = index["VectorAttribute"]["AttributeName"], index["Dimensions"]
    _check_name(attribute)
    return (
        f"Index {index['IndexName']} is of the vectors in {show(attribute)}, of {show(size)} dimensions, with the "
        f"distance {show(index['DistanceFunction'])}: odm has no declaration of such an index, and leaves it as it is."
    )


def _index_names(schema: list[dict[str, str]]) -> KeyNames:
    """The key attributes of an index; the parts of a key are in their order."""
    for part in schema:
        _check_name(part["AttributeName"])
    index_names = [[part["AttributeName"] for part in schema if part["KeyType"] == kind] for kind in ("HASH", "RANGE")]
    return tuple(names[0] if len(names) == 1 else tuple(names) for names in index_names if names)


def _names(schema: list[dict[str, str]]) -> tuple[str, ...]:
    for part in schema:
        _check_name(part["AttributeName"])
    names = {part["KeyType"]: part["AttributeName"] for part in schema}
    return tuple(names[kind] for kind in ("HASH", "RANGE") if kind in names)
