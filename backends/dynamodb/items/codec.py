"""Stored values ↔ DynamoDB's attribute values, and keys and positions ↔ key attributes.

Attribute values have the format of boto3's client, not of its resource: mappings with one entry, from type to content.
`odm.backends.dynamodb.items.attributes` reads them. An entity is written as the JSON text of its attributes, which is
parsed only when code accesses them.
"""

from collections.abc import Collection, Iterable
from decimal import Decimal
from functools import partial
from typing import Any, Final

from pydantic_core import from_json

from odm.backends.dynamodb.client.errors import OTHER_KEY
from odm.backends.dynamodb.client.wire import AttributesText, text_of
from odm.backends.dynamodb.items.attributes import Attribute, Attributes, from_attribute
from odm.backends.dynamodb.items.described import native_text, native_value
from odm.backends.dynamodb.items.layout import Layout, start_of
from odm.codec import Draft, EntityCodec
from odm.codec.writers import Drafts, Spelling, TextWrites, quoted
from odm.errors import BackendError, BadValue, brief
from odm.expressions.nodes import Item, Value
from odm.keys.text import escape, unescape
from odm.protocol.requests import Position, Put
from odm.schema.entity import Key


def to_attribute(value: Value) -> dict[str, Any]:
    """Write a stored value.

    Raises:
        BadValue: DynamoDB cannot store the value, for example an empty set or a float.
    """
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int() | Decimal():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case list():
            return {"L": [to_attribute(element) for element in value]}
        case dict():
            return {"M": {name: to_attribute(element) for name, element in value.items()}}
        case frozenset():
            return _set_attribute(value)
        case _:
            raise BadValue(
                f"DynamoDB cannot store a {type(value).__name__} ({brief(value)}): convert it to a type that it stores"
            )


def attributes_of(text: str) -> dict[str, Any]:
    """Parse the JSON text of an item into attribute values."""
    return {name: to_attribute(value) for name, value in read_text(text).items()}


def read_text(text: str) -> dict[str, Value]:
    """Parse the JSON text of an item into stored values."""
    return {name: from_attribute(attribute) for name, attribute in from_json(text).items()}


_SPELLING: Final = Spelling(
    text=('{"S":', "}"),
    number=('{"N":"', '"}'),
    list=('{"L":[', "]}"),
    map=('{"M":{', "}}"),
    texts=('{"SS":[', "]}"),
    numbers=('{"NS":[', "]}"),
    other=lambda value: text_of(to_attribute(value)),
)


def write_item(codec: EntityCodec, entity: Any) -> Item:
    """The item of an entity: as JSON text in the usual case, otherwise as `EntityCodec.encode` returns it.

    Raises:
        BadValue: as `EntityCodec.encode`.
    """
    return codec.draft(entity, _DRAFTS)


# The text of an item contains every byte of its names and values. Encoding it raises if UTF-8 has no form for it.
_MOST: Final = "len(made) if made.isascii() else len(made.encode())"
_DRAFTS: Final = Drafts(partial(TextWrites, _SPELLING, f"made, {_MOST}"), read_text)


def write_put(layout: Layout, put: Put) -> Attributes:
    """All attributes that a put writes: those of the item, its key, and the keys of its index entries."""
    if layout.described is not None:
        return {name: to_attribute(value) for name, value in layout.described.values(put).items()}
    if type(put.item) is Draft:
        return AttributesText(f"{{{_key_texts(layout, put)}{put.item.form[1:]}", attributes_of)
    attributes = write_key(layout, layout.keys, put.key)
    for index, key in put.entries.items():
        attributes |= write_key(layout, layout.indexes[index], key)
    return attributes | {name: to_attribute(value) for name, value in put.item.items()}


def put_values(layout: Layout, put: Put) -> dict[str, Value]:
    """The values of all attributes that a put writes."""
    if layout.described is not None:
        return layout.described.values(put)
    return {name: from_attribute(attribute) for name, attribute in write_put(layout, put).items()}


def _key_texts(layout: Layout, put: Put) -> str:
    """The JSON text of the key attributes, each followed by a comma."""
    starts = layout.starts
    partition, sort = put.key
    text = f"{starts[0]}{quoted(partition)}}},"
    if len(starts) > 1:
        text = f"{text}{starts[1]}{quoted(sort)}}},"
    for index, key in put.entries.items():
        for name, part in zip(layout.indexes[index], key, strict=True):
            if name not in layout.keys:  # the partition key of a local index is that of the table
                text += f"{start_of(name)}{quoted(part)}}},"
    return text


def read_item(layout: Layout, attributes: Attributes) -> dict[str, Value]:
    """The item, without the key attributes of the table and its indexes."""
    if layout.described is not None:
        return layout.described.item(attributes)
    hidden = layout.hidden
    return {name: from_attribute(attribute) for name, attribute in attributes.items() if name not in hidden}


def write_key(layout: Layout, names: Iterable[str], key: Key) -> dict[str, Attribute]:
    """The key attributes with these names; without a second name, the sort key is omitted."""
    if not layout.types:
        return {name: {"S": text} for name, text in zip(names, key, strict=False)}
    pairs = zip(names, key, strict=False)
    return {name: to_attribute(native_value(text, layout.types.get(name, "S"))) for name, text in pairs}


def read_key(layout: Layout, names: Collection[str], attributes: Attributes) -> Key:
    """The key, from the attributes with these names."""
    try:
        if not layout.types:
            return Key(*(attributes[name]["S"] for name in names))
        return Key(*(_key_text(attributes[name], layout.types.get(name, "S")) for name in names))
    except KeyError:
        for name in names:
            kind = attributes.get(name, {}).keys() & {"S", "N", "B"} - {layout.types.get(name, "S")}
            if kind:
                raise BackendError(
                    f"the key attribute {name!r} of a stored item is of type {kind.pop()}, and the models say "
                    f"{layout.types.get(name, 'S')}: let the template be the field that the attribute holds, such as "
                    f'PrimaryKey("{{id}}") with id: Annotated[int, Stored("{name}")]'
                ) from None
        if lacking := [name for name in names if name not in attributes]:
            why = OTHER_KEY.format(table=layout.table)
            raise BackendError(f"a stored item has no key attribute {brief(lacking[0])}: {why}") from None
        raise


def _key_text(attribute: Attribute, kind: str) -> str:
    return native_text(from_attribute({kind: attribute[kind]}), kind)


def write_index_key(layout: Layout, index: str, key: Key) -> dict[str, Attribute]:
    """The key attributes of an index entry."""
    names, count = layout.indexes[index], layout.several.get(index)
    if count is None:
        return write_key(layout, names, key)
    texts = (*key.partition.split("#"), *(key.sort.split("#") if len(names) > count else ()))
    pairs = zip(names, texts, strict=True)
    return {name: to_attribute(several_value(text, layout.types.get(name, "S"))) for name, text in pairs}


def read_index_key(layout: Layout, index: str, attributes: Attributes) -> Key:
    """The index key, from the key attributes of an entry."""
    names, count = layout.indexes[index], layout.several.get(index)
    if count is None:
        return read_key(layout, names, attributes)
    texts = [several_text(attributes[name], layout.types.get(name, "S")) for name in names]
    return Key("#".join(texts[:count]), "#".join(texts[count:]))


def several_value(text: str, kind: str) -> Value:
    """The value of one of several key attributes, from its part of a key."""
    return native_value(unescape(text) if kind == "S" else text, kind)


def several_text(attribute: Attribute, kind: str) -> str:
    """The opposite of `several_value`."""
    text = _key_text(attribute, kind)
    return escape(text) if kind == "S" else text


def read_entries(layout: Layout, attributes: Attributes) -> dict[str, Key]:
    """The index entries of an item: an index contains it if it has all index key attributes, of their types."""
    return {
        index: read_index_key(layout, index, attributes)
        for index, names in layout.indexes.items()
        if all(layout.types.get(name, "S") in attributes.get(name, ()) for name in names)
    }


def write_position(layout: Layout, index: str | None, position: Position) -> dict[str, Attribute]:
    """The ExclusiveStartKey that continues after a position."""
    attributes = write_key(layout, layout.keys, position.key)
    if index is not None and position.index_key is not None:
        attributes |= write_index_key(layout, index, position.index_key)
    return attributes


def read_position(layout: Layout, index: str | None, attributes: Attributes) -> Position:
    """The position of an item or of a LastEvaluatedKey, in the table or in an index."""
    index_key = read_index_key(layout, index, attributes) if index is not None else None
    return Position(read_key(layout, layout.keys, attributes), index_key)


def _set_attribute(members: frozenset[Value]) -> dict[str, Any]:
    kinds = {next(iter(to_attribute(member))) for member in members}
    kind = kinds.pop() if len(kinds) == 1 else ""
    if kind not in ("S", "N", "B"):
        raise BadValue(
            f"the set {set(members)!r} cannot be stored in DynamoDB: a set has one or more members, "
            "all strings, all numbers or all bytes"
        )
    # Sorted, so that equal values produce equal requests.
    return {f"{kind}S": [to_attribute(member)[kind] for member in sorted(members)]}
