"""What is known of a table: its keys, indexes and TTL, and a sample of its items."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

Attributes = Mapping[str, Mapping[str, Any]]
"""An item, as DynamoDB's API has it."""


@frozen
class IndexFacts:
    """An index.

    Attributes:
        keys: its key attributes.
        local: it is a local secondary index.
        held: the attributes that it holds besides keys; None: all.
    """

    keys: tuple[str, ...]
    local: bool = False
    held: tuple[str, ...] | None = None


@frozen
class TableFacts:
    """A table.

    Attributes:
        keys: its key attributes.
        types: the types of all key attributes: "S", "N" or "B".
        indexes: by name.
        ttl: its TTL attribute; None if it has none.
        items: the sample.
        notes: what was left out.
    """

    name: str
    keys: tuple[str, ...]
    types: Mapping[str, str]
    indexes: Mapping[str, IndexFacts] = field(factory=dict)
    ttl: str | None = None
    items: tuple[Attributes, ...] = ()
    notes: tuple[str, ...] = ()


def facts_of(table: Mapping[str, Any], ttl: Mapping[str, Any], items: tuple[Attributes, ...]) -> TableFacts:
    """The facts in the responses of DescribeTable and DescribeTimeToLive."""
    indexes: dict[str, IndexFacts] = {}
    notes: list[str] = []
    for local, name in ((False, "GlobalSecondaryIndexes"), (True, "LocalSecondaryIndexes")):
        for index in table.get(name, ()):
            if len(index["KeySchema"]) > 2:
                notes.append(f"Index {index['IndexName']} has keys of several attributes: declare it by hand.")
                continue
            shown = index.get("Projection", {})
            whole = shown.get("ProjectionType", "ALL") == "ALL"
            held = None if whole else tuple(sorted(shown.get("NonKeyAttributes", ())))
            indexes[index["IndexName"]] = IndexFacts(_names(index["KeySchema"]), local, held)
    return TableFacts(
        name=table["TableName"],
        keys=_names(table["KeySchema"]),
        types={one["AttributeName"]: one["AttributeType"] for one in table["AttributeDefinitions"]},
        indexes=dict(sorted(indexes.items())),
        ttl=ttl.get("AttributeName") if ttl.get("TimeToLiveStatus") in ("ENABLED", "ENABLING") else None,
        items=items,
        notes=tuple(notes),
    )


def _names(schema: list[dict[str, str]]) -> tuple[str, ...]:
    found = {part["KeyType"]: part["AttributeName"] for part in schema}
    return tuple(found[kind] for kind in ("HASH", "RANGE") if kind in found)
