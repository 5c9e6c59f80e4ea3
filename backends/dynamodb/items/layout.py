"""Schema → layout of its DynamoDB table: key attributes and indexes, and the requests that create them.

A table has the key attributes of the schema. Each index has the key attributes ``<index>pk`` and ``<index>sk``, or
those that the `Table` names. All are strings. An item without the key attributes of an index is not in that index. A
local index has only ``<index>sk``; its partition key is that of the table.
"""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import msgspec
from msgspec import Struct

from odm.backends.dynamodb.client.native import NO_OPTIONS, Billing, Provisioned, Stream, TableClass, TableOptions
from odm.backends.dynamodb.items.attributes import Attributes
from odm.backends.dynamodb.items.described import Described
from odm.backends.dynamodb.items.loading import AttributesItem, AttributesItems, DescribedItem, DescribedItems, Loader
from odm.codec import TAG, TTL_ATTRIBUTE, NativeItem, NativeItems, attribute_name
from odm.codec.writers import quoted
from odm.errors import BadValue, SchemaError
from odm.immutable import Immutable, field
from odm.keys import Kind
from odm.schema.checks import NAMES, is_index_name, is_name
from odm.schema.described import names_of
from odm.schema.model import Schema, flat


@cache  # every write needs it, and tables have few key attributes
def start_of(name: str) -> str:
    """The JSON text in front of the value of a key attribute that is text."""
    return f'{quoted(name)}:{{"S":'


class StreamState(Struct, eq=False):
    """What was read of the table's stream, so that it need not be asked for again; see `feed`.

    Attributes:
        arn: the ARN of the stream; None: not known yet.
        iterators: the ShardIterator that continues a shard, by the shard and the position.
    """

    arn: str | None = None
    iterators: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)


class Layout(Immutable, dict=True):
    """The names and options of the table.

    Attributes:
        table: the table's name.
        keys: the key attributes: partition key and sort key, or the partition key only.
        indexes: the key attributes of each index, by index name. The first of a local index is the table's.
        local: the names of the local indexes.
        has_ttl: whether items expire.
        projections: for each index that does not project all attributes, the attributes that it projects besides keys.
        exclusive: no other program writes items into the table, so reads do not check for foreign items.
        options: the options that are not part of the models.
        loader: converts attributes into entities.
        several: for each index with keys of several attributes, how many of them are of the partition key.
        types: the types of key attributes that are not text.
        ttl: the attribute with the expiry of items.
        described: how items are stored, in a table whose items have the form of other programs.
        held: the attributes that each existing index holds besides keys (None: all), known once it is described.
        stream: what is known of the stream, once it is read.
        hidden: all key attributes, of the table and of its indexes; they are not part of an item.
        starts: the JSON texts in front of the values of ``keys``.
        endpoint: the host and port of a service other than AWS, if the settings name one.
        schema: the schema that it was made of; None: of a layout that was made by hand.
    """

    table: str
    keys: tuple[str, ...]
    indexes: Mapping[str, tuple[str, ...]]
    has_ttl: bool = False
    local: frozenset[str] = frozenset()
    projections: Mapping[str, tuple[str, ...]] = field(factory=dict)
    exclusive: bool = False
    options: TableOptions = NO_OPTIONS
    loader: Loader = field(factory=Loader, repr=False, eq=False)
    several: Mapping[str, int] = field(factory=dict)
    types: Mapping[str, Kind] = field(factory=dict)
    ttl: str = TTL_ATTRIBUTE
    endpoint: str = ""
    described: Described | None = field(default=None, repr=False)
    schema: Schema | None = field(default=None, repr=False, eq=False)

    @cached_property
    def held(self) -> dict[str, tuple[str, ...] | None]:
        return {}

    @cached_property
    def stream(self) -> StreamState:
        return StreamState()

    @cached_property
    def hidden(self) -> frozenset[str]:
        return frozenset(self.keys).union(*self.indexes.values())

    @cached_property
    def starts(self) -> tuple[str, ...]:
        return tuple(map(start_of, self.keys))

    @property
    def tag(self) -> str:
        """The attribute that names the entity of an item."""
        return TAG if self.described is None else str(self.described.schema.tag)

    def item(self, attributes: Attributes) -> NativeItem:
        """The item with these attributes."""
        if self.described is None:
            return AttributesItem(attributes, self.hidden, self.loader)
        return DescribedItem(attributes, self.described.item)

    def items(self, parts: Sequence[Attributes]) -> NativeItems[Attributes]:
        """A page of items with these attributes."""
        if self.described is None:
            return AttributesItems(parts, self.hidden, self.loader)
        return DescribedItems(parts, self.described.item)


def layout_of(schema: Schema, options: TableOptions = NO_OPTIONS, endpoint: str = "") -> Layout:
    """Lay out the table of a schema.

    Raises:
        SchemaError: DynamoDB does not allow the name of the table or of an index.
        BadValue: the options set the capacity of an index that does not exist or is local.
    """
    if not is_name(schema.name):
        raise SchemaError(
            f"DynamoDB does not allow the table name {schema.name!r}, only {NAMES}: rename it in Table(...)"
        )
    for index in schema.indexes:
        if not is_index_name(index):
            raise SchemaError(
                f"DynamoDB does not allow the index name {index!r}, only {NAMES}: name it with "
                f"AccessPattern(..., index=...) in table {schema.name!r}"
            )
    check_capacity(schema.name, [name for name, index in schema.indexes.items() if not index.local], options)
    return Layout(
        table=schema.name,
        keys=schema.keys[:1] if schema.hash_only else schema.keys,
        indexes={name: flat(names_of(index, schema.keys)) for name, index in schema.indexes.items()},
        several=_several(schema),
        has_ttl=schema.has_ttl,
        projections=_projections(schema),
        exclusive=schema.exclusive,
        local=frozenset(name for name, index in schema.indexes.items() if index.local),
        options=options,
        loader=Loader(entity.codec for entity in schema.entities.values()),
        types={name: kind for name, kind in schema.types.items() if kind != "S"},
        ttl=schema.ttl,
        endpoint=endpoint,
        described=Described(schema, schema.keys[:1] if schema.hash_only else schema.keys) if schema.described else None,
        schema=schema,
    )


def _several(schema: Schema) -> dict[str, int]:
    """For each index with keys of several attributes, how many of them are of the partition key."""
    found = {name: index.keys for name, index in schema.indexes.items()}
    return {name: len(flat(keys[:1])) for name, keys in found.items() if any(type(key) is tuple for key in keys)}


def _projections(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The attributes that indexes hold besides keys; those of a table that exists are as declared."""
    held = {name: index.projection if schema.described else index.held for name, index in schema.indexes.items()}
    return {name: tuple(map(attribute_name, names)) for name, names in held.items() if names is not None}


def create_table(layout: Layout) -> dict[str, Any]:
    """The arguments of CreateTable; by default on-demand and without a stream."""
    billing, stream = layout.options.billing, layout.options.stream
    arguments: dict[str, Any] = {
        "TableName": layout.table,
        "AttributeDefinitions": [_definition(layout, name) for name in _key_attributes(layout)],
        "KeySchema": key_schema(layout.keys),
        "BillingMode": "PAY_PER_REQUEST",
    }
    if isinstance(billing, Provisioned):
        arguments |= {"BillingMode": "PROVISIONED", "ProvisionedThroughput": billing.throughput}
    if indexes := [_index(layout, index, capacity(billing, index)) for index in global_indexes(layout)]:
        arguments["GlobalSecondaryIndexes"] = indexes
    if indexes := [_index(layout, index) for index in layout.indexes if index in layout.local]:
        arguments["LocalSecondaryIndexes"] = indexes
    if stream is not None:
        arguments["StreamSpecification"] = stream_specification(stream)
    if layout.options.table_class is not None:
        arguments["TableClass"] = layout.options.table_class.upper()
    return arguments


def add_index(layout: Layout, index: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of UpdateTable that add a global index; ``table`` is the Table of the DescribeTable response."""
    known = table["AttributeDefinitions"]
    defined = {definition["AttributeName"] for definition in known}
    new = [_definition(layout, name) for name in layout.indexes[index] if name not in defined]
    paid = capacity_of(table)
    if paid is not None:  # an index of a provisioned table needs a capacity too; by default that of the table
        paid = capacity(layout.options.billing, index) or paid
    return {
        "TableName": layout.table,
        "AttributeDefinitions": [*known, *new],
        "GlobalSecondaryIndexUpdates": [{"Create": _index(layout, index, paid)}],
    }


def _definition(layout: Layout, name: str) -> dict[str, str]:
    return {"AttributeName": name, "AttributeType": layout.types.get(name, "S")}


def global_indexes(layout: Layout) -> list[str]:
    """The names of the global indexes; only these can be added to an existing table."""
    return [index for index in layout.indexes if index not in layout.local]


def capacity(billing: Billing | None, index: str) -> Provisioned | None:
    """The capacity that the options set for a global index; None if they set none, or on-demand."""
    return billing.of(index) if isinstance(billing, Provisioned) else None


def capacity_of(described: Mapping[str, Any]) -> Provisioned | None:
    """The capacity in the description of a table or index; None: on-demand."""
    if described.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST":
        return None
    found = described.get("ProvisionedThroughput", {})
    read, write = (found.get(f"{kind}CapacityUnits", 0) for kind in ("Read", "Write"))
    return Provisioned(read, write) if read and write else None


def class_of(described: Mapping[str, Any]) -> TableClass:
    """The table class in the description of a table."""
    found: TableClass = described.get("TableClassSummary", {}).get("TableClass", "standard").lower()
    return found


def stream_specification(stream: Stream) -> dict[str, Any]:
    """The StreamSpecification that enables a stream."""
    return {"StreamEnabled": True, "StreamViewType": stream.upper()}


def key_schema(names: tuple[str, ...], of_partition: int = 1) -> list[dict[str, str]]:
    """The KeySchema of a table or index with these key attributes, the first of them of the partition key."""
    kinds = ("HASH",) * of_partition + ("RANGE",) * (len(names) - of_partition)
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, kinds, strict=True)]


def projection(layout: Layout, index: str) -> dict[str, Any]:
    """The Projection of an index."""
    held = layout.projections.get(index)
    if held is None:
        return {"ProjectionType": "ALL"}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": [*held]} if held else {"ProjectionType": "KEYS_ONLY"}


def _index(layout: Layout, index: str, paid: Provisioned | None = None) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "IndexName": index,
        "KeySchema": key_schema(layout.indexes[index], layout.several.get(index, 1)),
        "Projection": projection(layout, index),
    }
    return arguments if paid is None else arguments | {"ProvisionedThroughput": paid.throughput}


def _key_attributes(layout: Layout) -> list[str]:
    return list(dict.fromkeys([*layout.keys, *(name for names in layout.indexes.values() for name in names)]))


def check_capacity(table: str, indexes: Sequence[str], options: TableOptions) -> None:
    """Raise BadValue for the capacity of an index that is not one of the global indexes of the table."""
    given = options.billing.indexes if isinstance(options.billing, Provisioned) else {}
    for index in given:
        if index not in indexes:
            raise BadValue(
                f"billing=Provisioned(indexes=...) names {index!r}, but the global indexes of table {table!r} "
                f"are {', '.join(indexes) or 'none'}; a local index shares the capacity of the table"
            )
