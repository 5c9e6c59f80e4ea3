"""`NoAccessPattern` lists every pattern with what it lacks, and the line that it proposes serves the query."""

import re
from datetime import datetime
from decimal import Decimal
from types import new_class
from typing import Annotated, Any

import pytest

from odm import (
    AccessPattern,
    Counter,
    Entity,
    NoAccessPattern,
    PrimaryKey,
    Query,
    Store,
    Table,
    field,
    select,
    some,
    starts_with,
)
from odm.backends.local import Memory
from tests.shop import Order, Reading, day, shop


def message(query: Query[Any]) -> str:
    with pytest.raises(NoAccessPattern) as raised:
        Store(query.entity.__odm_table__, Memory()).query(query)
    return str(raised.value)


def test_every_pattern_is_listed_with_what_it_lacks() -> None:
    assert message(select(Order).where(Order.order_id == "o1", Order.total > 100, Order.tags[0] == "a")) == (
        """\
no access pattern of Order serves: order_id = 'o1', total > 100
  primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")  lacks customer_id = ...
  by_date = AccessPattern("CUSTOMER#{customer_id}", "PLACED#{placed_at}#{order_id}")  lacks customer_id = ...
  by_status = AccessPattern("STATUS#{status}", "{region}#{placed_at:desc}")  lacks status = ...
  open_ones = AccessPattern("OPEN", "{opened_at}#{order_id}")  is sparse and may leave items out: name it to use it
  in_europe = AccessPattern("EUROPE", "{placed_at}")  is sparse and may leave items out: name it to use it
declare one that does, for example
  by_order_id_and_total = AccessPattern("ORDER_ID#{order_id}", "{total}")
or read all with scan()"""
    )


def proposal(text: str) -> str:
    found = re.search(r"^  (\w+ = AccessPattern\(.*)$\nor read all", text, re.MULTILINE)
    assert found is not None, text
    return found[1]


class Fields(Entity):
    """The fields of the entities that are declared with a proposal."""

    id: str
    at: datetime = day(1)
    status: str = "open"
    total: Decimal = Decimal(0)
    level: int = 0
    closed_at: datetime | None = None
    tags: list[str] = []
    views: Annotated[int, Counter] = 0


QUERIES: dict[str, list[Any]] = {
    "equality": [Fields.status == "open"],
    "two equalities": [Fields.status == "open", Fields.level == 3],
    "equality and range": [Fields.status == "open", Fields.at > day(2)],
    "range": [Fields.level > 3],
    "prefix": [starts_with(Fields.status, "op")],
    "optional": [some(Fields.closed_at) > day(2)],
    "what can stand in no key is left out": [Fields.status == "open", Fields.total > 5, Fields.views > 3],
    "two ranges": [Fields.level > 3, Fields.at > day(2)],
}


@pytest.mark.parametrize("conditions", QUERIES.values(), ids=QUERIES)
def test_the_proposed_line_compiles_and_serves(conditions: list[Any]) -> None:
    def declare(patterns: dict[str, Any]) -> tuple[Store, type[Fields]]:
        table = Table("proposals")
        body = {"__module__": __name__, "primary": PrimaryKey("ORDER#{id}"), **patterns}
        cls = new_class("Order", (Fields,), {"table": table}, lambda namespace: namespace.update(body))
        return Store(table, Memory()), cls

    db, cls = declare({})
    query = select(cls).where(*conditions)
    with pytest.raises(NoAccessPattern) as raised:
        db.query(query)
    line = proposal(str(raised.value))
    namespace: dict[str, Any] = {}
    exec(line, {"AccessPattern": AccessPattern}, namespace)
    db, cls = declare(namespace)
    declared = line.partition("  #")[0].removesuffix(")")
    assert db.explain(select(cls).where(*conditions)).pattern.startswith(declared)


def test_nothing_is_proposed_where_no_key_can_serve() -> None:
    text = message(select(Order).where(Order.weight > 5))
    assert "serves: weight > 5" in text
    assert "declare one" not in text
    assert text.endswith("or read all with scan()")
    assert "no condition on a single field" in message(select(Reading))


def test_a_proposal_has_a_name_of_its_own_and_says_what_it_costs() -> None:
    table = Table("named")

    class Task(Entity, table=table):
        id: str
        status: str = "open"
        size: int = 0
        primary = PrimaryKey("TASK#{id}")
        by_status = AccessPattern("STATUS#{status}", when=field("size") > 5)

    assert proposal(message(select(Task).where(Task.status == "open"))) == (
        'by_status_of_all = AccessPattern("STATUS#{status}")'
    )
    assert proposal(message(select(Task).where(Task.size > 5))) == (
        'by_size = AccessPattern("TASK", "{size}")  # all in one partition: for few items only'
    )


def test_the_shop_of_these_tests_compiles() -> None:
    assert shop.compile().entities.keys() == {"Customer", "Order", "Item", "Reading"}
