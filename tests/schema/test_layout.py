"""What compiling decides: hash-only tables, the tag as sort, shared ranges, names of indexes, roles."""

import types
from datetime import datetime
from random import Random
from typing import Annotated, Any

import pytest
from pydantic import AwareDatetime
from typing_extensions import TypeAliasType

from odm import (
    TTL,
    AccessPattern,
    Columns,
    Counter,
    Entity,
    PrimaryKey,
    Revision,
    SchemaError,
    Store,
    Stored,
    Table,
    field,
)
from odm.backends.local import Memory
from odm.schema.entity import Key
from tests.shop import Order, shop

Lock = TypeAliasType("Lock", Annotated[int, Revision])
Hits = TypeAliasType("Hits", Annotated[int, Counter])
Until = TypeAliasType("Until", Annotated[datetime, TTL])


def key_of(table: Table, entity: Entity) -> Key:
    return table.compile().entity(type(entity)).key(vars(entity))


def test_a_table_is_hash_only_if_no_primary_key_has_a_sort() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        id: str
        primary = PrimaryKey("ORDER#{id}")
        by_id = AccessPattern("ID#{id}")

    schema = table.compile()
    assert schema.hash_only
    assert key_of(table, Order(id="1")) == Key("ORDER#1", "")
    assert schema.entity(Order).entries({"id": "1"}, {}, Random()) == {"by_id": Key("ID#1", "Order")}


def test_the_tag_stands_for_a_missing_sort_so_two_entities_can_share_a_partition() -> None:
    table = Table("shop")

    class Customer(Entity, table=table, tag="C"):
        id: str
        primary = PrimaryKey("CUSTOMER#{id}")

    class Address(Entity, table=table):
        id: str
        primary = PrimaryKey("CUSTOMER#{id}", "Address")

    assert not table.compile().hash_only
    assert key_of(table, Customer(id="1")) == Key("CUSTOMER#1", "C")
    assert key_of(table, Address(id="1")) == Key("CUSTOMER#1", "Address")


def test_hash_only_entities_of_one_partition_meet() -> None:
    table = Table("shop")

    class Customer(Entity, table=table):
        id: str
        primary = PrimaryKey("CUSTOMER#{id}")

    class Address(Entity, table=table):
        id: str
        primary = PrimaryKey("CUSTOMER#{id}")

    with pytest.raises(SchemaError, match="Customer and one of Address can have the same key"):
        table.compile()


SORTS = [
    pytest.param("ORDER#{a}", "ORDER#{a}#ITEM#{b}", True, id="an item under its order"),
    pytest.param("{a}", "ORDER#{a}", True, id="a placeholder first"),
    pytest.param("ORDER#{a}", "PROFILE", False, id="literals apart"),
    pytest.param("ORDER#{a}", "ORDERS#{a}", False, id="a literal that goes on"),
    pytest.param("ORDER#{a}#ITEM#{b}", "ORDER#{a}", True, id="an order between its items"),
    pytest.param("ITEM#{a}#{b}", "ORDER#{a}", False, id="of another literal"),
]


@pytest.mark.parametrize(("sort", "other", "shared"), SORTS)
def test_a_range_is_shared_if_another_entity_can_lie_in_it(sort: str, other: str, shared: bool) -> None:
    table = Table("shop")

    class One(Entity, table=table):
        id: str
        a: str
        b: str
        primary = PrimaryKey("P#{id}", sort)

    class Other(Entity, table=table):
        id: str
        a: str
        b: str
        primary = PrimaryKey("P#{id}", other)

    assert table.compile().entity(One).primary.shared is shared
    explanation = Store(table, Memory()).explain(One.primary(id="1"))
    assert str(explanation.filter) == ("_t = 'One'" if shared else "None")
    assert ("other entities' items" in explanation.note) is shared


def test_entities_of_one_class_name_share_an_index_and_are_told_apart() -> None:
    table = Table("shop")

    def declare(name: str) -> Any:
        class Order(Entity, table=table, tag=name):
            __qualname__ = f"{name}.Order"
            id: str
            at: str = "1"
            primary = PrimaryKey(f"{name}#{{id}}")
            recent = AccessPattern("RECENT", "{at}")

        return Order

    sale, purchase = declare("sale"), declare("purchase")
    with Store(table, Memory()) as db:
        db.create()
        db.put(sale(id="1"))
        db.put(purchase(id="1"))
        for cls in (sale, purchase):
            assert [type(item) for item in db.query(cls.recent())] == [cls]


def test_an_index_has_the_patterns_name_or_its_own_and_is_shared_by_name() -> None:
    schema = shop.compile()
    patterns = {name: [f"{p.entity}.{p.name}" for p in index.patterns] for name, index in schema.indexes.items()}
    assert patterns == {
        "gsi1": ["Customer.by_email", "Order.by_date"],
        "gsi2": ["Order.by_status"],
        "open_ones": ["Order.open_ones"],
        "in_europe": ["Order.in_europe"],
        "by_hour": ["Reading.by_hour"],
    }
    assert not schema.entity(Order).patterns["by_date"].shared


def test_roles_and_optional_fields() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        id: str
        revision: Annotated[int, Revision] = 0
        views: Annotated[int, Counter] = 0
        likes: Annotated[int, Counter] = 0
        tags: Annotated[set[str], Columns, Stored("t")] = set()
        sizes: Annotated[frozenset[int], Columns]
        prices: Annotated[dict[str, int] | None, Columns] = None
        names: Annotated[dict[str, str], Columns] | None = None
        expires: Annotated[AwareDatetime, TTL] | None = None
        opened_at: datetime | None = None
        short: Annotated[str, Stored("s")] = ""
        primary = PrimaryKey("ORDER#{id}")

    entity = table.compile().entity(Order)
    assert (entity.revision, entity.ttl) == ("revision", "expires")
    assert entity.counters == {"views", "likes"}
    assert entity.columns == {"tags", "sizes", "prices", "names"}
    assert entity.optional == {"expires", "opened_at", "prices", "names"}
    assert entity.codec.stored["short"] == "s"
    assert table.compile().has_ttl


def test_keys_of_an_existing_table_are_reserved_and_pk_is_free() -> None:
    table = Table("shop", keys=("PK", "SK"))

    class Order(Entity, table=table):
        pk: str
        PK: str
        primary = PrimaryKey("ORDER#{pk}")

    with pytest.raises(SchemaError, match=r"Order\.PK: the stored name 'PK' is already a key"):
        table.compile()


def test_when_is_compiled_over_stored_names() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        id: str
        status: Annotated[str, Stored("s")] = "open"
        primary = PrimaryKey("ORDER#{id}")
        open_ones = AccessPattern("OPEN", "{id}", when=field("status") == "open")

    entity = table.compile().entity(Order)
    assert str(entity.patterns["open_ones"].when) == "s = 'open'"
    assert entity.entries({"id": "1"}, {"s": "open"}, Random()) == {"open_ones": Key("OPEN", "1")}
    assert entity.entries({"id": "1"}, {"s": "shipped"}, Random()) == {}


def test_compiling_is_done_once_and_prints() -> None:
    table = Table("shop")

    class Note(Entity, table=table):
        id: str
        primary = PrimaryKey("NOTE#{id}", "{id}")

    schema = table.compile()
    assert table.compile() is schema
    assert schema.entity(Note).primary.text == 'primary = PrimaryKey("NOTE#{id}", "{id}")'
    assert len(repr(schema)) < 2000
    assert repr(table) == "Table('shop')"


def test_pattern_calls_take_partition_fields_then_leading_sort_fields() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        region: str
        shop: str
        day: str
        id: str
        primary = PrimaryKey("{region}#{shop}", "{day}#{id}")

    assert Order.primary(region="r", shop="s").values == {"region": "r", "shop": "s"}
    assert list(Order.primary(id="1", day="d", shop="s", region="r").values) == ["region", "shop", "day", "id"]


def test_roles_are_found_in_type_aliases() -> None:
    table = Table("aliased")
    annotations = {"id": str, "revision": Lock, "number": Hits, "expires_at": Until}
    body = {"__annotations__": annotations, "revision": 0, "number": 0, "primary": PrimaryKey("SESSION#{id}")}
    session = types.new_class("Session", (Entity,), {"table": table}, lambda names: names.update(body))
    entity = table.compile().entity(session)
    assert (entity.revision, entity.ttl) == ("revision", "expires_at")
    assert entity.counters == frozenset({"number"})
