"""`primary_key` shows how an entity's key is declared, for code that builds on entities."""

from datetime import date

import pytest

from odm import Entity, PrimaryKey, SchemaError, Store, Table
from odm.backends.local import Memory
from odm.extend import primary_key

shop = Table("shop")


class Base(Entity):
    order_id: str

    primary = PrimaryKey("ORDER#{order_id}")


class Order(Base, table=shop):
    placed: date

    at = PrimaryKey("MONTH#{placed:%Y%m}", "{placed}#{order_id}")


def test_it_is_the_declaration_of_the_nearest_class() -> None:
    assert primary_key(Order) is vars(Order)["at"]
    assert primary_key(Base) is vars(Base)["primary"]


def test_it_tells_its_name_and_fields() -> None:
    key = primary_key(Order)
    assert (key.name, key.partition, key.sort) == ("at", "MONTH#{placed:%Y%m}", "{placed}#{order_id}")
    assert key.fields == ("placed", "order_id")


def test_its_name_is_free() -> None:
    assert Store(shop, Memory()).explain(Order.at(placed=date(2026, 1, 2))).partitions == ("MONTH#202601",)


def test_a_class_without_one_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"Entity has no primary key: .*primary = PrimaryKey"):
        primary_key(Entity)
