"""Queries on indexes that do not project all attributes: their requests, and entries older than their items."""

from collections.abc import Mapping
from typing import Any

import pytest

from odm import AccessPattern, Entity, PrimaryKey, Table
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Call, Native
from odm.backends.dynamodb.items.layout import create_table, layout_of
from odm.expressions.nodes import Compare, Condition, Const, Path
from odm.immutable import evolve
from odm.protocol.connection import run
from odm.protocol.requests import Page, Query
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema

SCHEMA = Schema(
    "shop", {}, {"lean": IndexSchema("lean", (), projection=()), "some": IndexSchema("some", (), projection=("name",))}
)


def is_(name: str, value: str) -> Condition:
    return Compare("=", Path((name,)), Const(value))


def keys(number: int, entry: str = "P", index: str = "lean") -> dict[str, Any]:
    """The attributes of an index entry."""
    values = {"pk": "C", "sk": str(number), f"{index}pk": entry, f"{index}sk": str(number)}
    return {name: {"S": value} for name, value in values.items()}


def ask(
    query: Query, entries: list[Any], items: list[Any], schema: Schema = SCHEMA, **more: Any
) -> tuple[list[Call], Page]:
    """The native requests of a query, and its response."""
    calls: list[Call] = []

    def answer(call: Native) -> Any:
        assert isinstance(call, Call)
        calls.append(call)
        if call.operation == "query":
            return {"Items": entries, "Count": len(entries), "ScannedCount": len(entries), **more}
        wanted = call.kwargs["RequestItems"]["shop"]["Keys"]
        assert wanted == [{"pk": entry["pk"], "sk": entry["sk"]} for entry in entries]
        return {"Responses": {"shop": items[::-1]}}  # in arbitrary order

    connection = DynamoDB().connect(schema)
    connection.layout.held.update(connection.layout.projections)  # as after DescribeTable
    page: Page = run(connection.steps(query), answer)
    return calls, page


def test_entries_are_read_and_then_items_in_their_order() -> None:
    items = [keys(n) | {"name": {"S": f"n{n}"}} for n in range(3)]
    calls, page = ask(Query("P", index="lean", limit=7), [keys(n) for n in range(3)], items, LastEvaluatedKey=keys(2))
    assert [call.operation for call in calls] == ["query", "batch_get_item"]
    assert calls[0].kwargs["Limit"] == 7
    assert "ConsistentRead" not in calls[1].kwargs["RequestItems"]["shop"]
    assert list(page.items) == [{"name": f"n{n}"} for n in range(3)]
    assert [position.key for position in page.positions] == [Key("C", str(n)) for n in range(3)]
    assert page.next == page.positions[-1]


def test_at_most_as_many_entries_are_read_as_one_batch_reads_items() -> None:
    for query in (Query("P", index="lean"), Query("P", index="lean", limit=500, filter=is_("name", "x"))):
        calls, page = ask(query, [], [])
        assert [call.operation for call in calls] == ["query"]
        assert calls[0].kwargs["Limit"] == 100
        assert list(page.items) == []


def test_a_filter_that_needs_the_items_takes_the_first_results_of_what_is_examined() -> None:
    items = [keys(n) | {"name": {"S": "xyx"[n % 3]}} for n in range(6)]
    query = Query("P", index="lean", limit=2, filter=is_("name", "x"), examine=6)
    calls, page = ask(query, [keys(n) for n in range(6)], items, LastEvaluatedKey=keys(5))
    assert calls[0].kwargs["Limit"] == 6
    assert [position.key.sort for position in page.positions] == ["0", "2"]
    assert (page.next, page.examined) == (page.positions[-1], 6)
    calls, page = ask(evolve(query, limit=9, examine=500), [keys(0)], items[:1])
    assert calls[0].kwargs["Limit"] == 100
    assert (page.next, page.count) == (None, 1)


@pytest.mark.parametrize(
    "now",
    [
        None,
        keys(1, entry="Q"),  # moved in the index
        {"pk": {"S": "C"}, "sk": {"S": "1"}},  # left the index
        keys(1) | {"name": {"S": "other"}},  # does not match the filter any more
    ],
)
def test_an_outdated_index_entry_is_not_a_result(now: Mapping[str, Any] | None) -> None:
    there = keys(0) | {"name": {"S": "x"}}
    query = Query("P", index="lean", filter=is_("name", "x"))
    calls, page = ask(query, [keys(0), keys(1)], [there, *([now] if now else [])])
    assert "FilterExpression" not in calls[0].kwargs
    assert list(page.items) == [{"name": "x"}]
    assert [position.key.sort for position in page.positions] == ["0"]
    assert page.next is None


def test_a_filter_on_projected_attributes_applies_to_the_index_and_to_the_items() -> None:
    query = Query("P", index="some", filter=is_("name", "x") & is_("_t", "T"))
    entries = [keys(n, index="some") for n in range(2)]
    items = [entries[0] | {"name": {"S": "x"}, "_t": {"S": "T"}}, entries[1] | {"name": {"S": "y"}}]
    calls, page = ask(query, entries, items)
    assert calls[0].kwargs["FilterExpression"] == "#1 = :1 AND #2 = :2"
    assert list(page.items) == [{"name": "x", "_t": "T"}]


def test_an_index_suffices_to_count_if_it_projects_the_attributes_of_the_filter() -> None:
    own = evolve(SCHEMA, exclusive=True)
    for query, schema in (
        (Query("P", index="lean", count=True), own),  # an exclusive table needs no tags
        (Query("P", index="some", count=True), SCHEMA),
        (Query("P", index="some", count=True, filter=is_("name", "x")), SCHEMA),
    ):
        calls, page = ask(query, [keys(1)], [], schema)
        assert [call.operation for call in calls] == ["query"]
        assert calls[0].kwargs["Select"] == "COUNT"
        assert page.count == 1
    calls, page = ask(Query("P", index="lean", count=True), [keys(1)], [keys(1)])
    assert [call.operation for call in calls] == ["query", "batch_get_item"]
    calls, page = ask(Query("P", index="lean", count=True, filter=is_("name", "x")), [keys(1)], [keys(1)])
    assert [call.operation for call in calls] == ["query", "batch_get_item"]
    assert page.count == 0


def test_the_table_is_made_with_its_projections() -> None:
    created = create_table(layout_of(SCHEMA))
    assert [index["Projection"] for index in created["GlobalSecondaryIndexes"]] == [
        {"ProjectionType": "KEYS_ONLY"},
        {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["name", "_t", "_ttl"]},
    ]


def test_fields_are_projected_by_their_stored_names_and_the_whole_index_is_preferred() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        order_id: str
        total: int
        primary = PrimaryKey("ORDER#{order_id}")
        lean = AccessPattern("TOTAL#{total}", projection=("total", "order_id"))
        whole = AccessPattern("TOTAL#{total}", index="whole")

    schema = table.compile()
    assert schema.indexes["lean"].projection == ("order_id", "total")
    assert "projection=('order_id', 'total')" in schema.entity(Order).patterns["lean"].text
