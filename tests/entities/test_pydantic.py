"""An entity is a pydantic model in every respect: copies, pickles, aliases, frozen models, validated assignments."""

import copy
import json
import pickle
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, TypeAdapter, ValidationError, computed_field
from pydantic.alias_generators import to_camel

from odm import AccessPattern, Entity, PrimaryKey, Store, Table, select, some
from odm.backends.local import Memory

table = Table("pydantic")


class Address(BaseModel):
    city: str
    zip_code: str = ""


class Order(Entity, table=table):
    model_config = ConfigDict(validate_assignment=True, alias_generator=to_camel, populate_by_name=True)

    order_id: str
    placed_at: datetime = datetime(2026, 1, 2, tzinfo=UTC)
    total: int = Field(default=0, ge=0)
    ship_to: Address | None = None
    _seen: int = PrivateAttr(default=0)

    primary = PrimaryKey("ORDER#{order_id}")
    by_date = AccessPattern("ORDERS", "{placed_at}")

    @computed_field
    def label(self) -> str:
        return f"order {self.order_id}"


class Coin(Entity, table=table):
    model_config = ConfigDict(frozen=True)

    coin_id: str
    value: int = 1

    primary = PrimaryKey("COIN#{coin_id}")


ORDER = Order(order_id="o1", total=5, ship_to=Address(city="Bern"))


@pytest.fixture
def db() -> Store:
    store = Store(table, Memory())
    store.create()
    return store


def test_copies_and_pickles() -> None:
    assert copy.copy(ORDER) == copy.deepcopy(ORDER) == ORDER
    assert copy.deepcopy(ORDER).ship_to is not ORDER.ship_to
    assert pickle.loads(pickle.dumps(ORDER)) == ORDER
    assert pickle.loads(pickle.dumps(Order)) is Order
    changed = ORDER.model_copy(update={"total": 6})
    assert (changed.total, ORDER.total) == (6, 5)


def test_equality_hash_and_representation() -> None:
    assert hash(Coin(coin_id="a")) == hash(Coin(coin_id="a"))
    assert Coin(coin_id="a") == Coin(coin_id="a")
    assert repr(Coin(coin_id="a")) == "Coin(coin_id='a', value=1)"


def test_assignments_are_validated() -> None:
    order = ORDER.model_copy()
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        order.total = -1
    order.total = 7
    assert order.total == 7


def test_a_frozen_entity_is_stored_and_read(db: Store) -> None:
    coin = Coin(coin_id="a", value=2)
    with pytest.raises(ValidationError, match="frozen"):
        coin.value = 3
    assert db.put(coin) == db.one(Coin, coin_id="a") == coin


def test_names_of_fields_not_aliases_are_the_names_of_odm(db: Store) -> None:
    order = Order.model_validate({"orderId": "o1", "placedAt": "2026-03-04T00:00:00Z", "shipTo": {"city": "Ulm"}})
    db.put(order)
    found = db.first(select(Order).where(Order.placed_at >= datetime(2026, 3, 1, tzinfo=UTC)).reverse())
    assert found == order
    assert db.first(Order.by_date().where(some(Order.ship_to).city == "Ulm")) == order
    assert "placed_at" in str(db.explain(order).native)


def test_computed_and_private_fields_are_not_stored(db: Store) -> None:
    order = ORDER.model_copy()
    order._seen = 5
    native = str(db.explain(order).native)
    assert "label" not in native
    assert "_seen" not in native
    db.put(order)
    assert db.one(Order, order_id="o1").label == "order o1"  # type: ignore[comparison-overlap]
    assert db.one(Order, order_id="o1")._seen == 0


def test_json_schema_type_adapter_and_dumps() -> None:
    assert list(Order.model_json_schema()["properties"]) == ["orderId", "placedAt", "total", "shipTo"]
    assert TypeAdapter(list[Order]).validate_python([{"orderId": "o1"}]) == [Order(order_id="o1")]
    assert json.loads(ORDER.model_dump_json(by_alias=True))["orderId"] == "o1"


def test_an_entity_inside_another_model() -> None:
    class Basket(BaseModel):
        orders: list[Order]

    assert Basket.model_validate({"orders": [{"orderId": "o1"}]}).orders == [Order(order_id="o1")]


def test_a_positional_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="positional"):
        Order("o1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_what_is_built_without_validation_is_judged_when_stored(db: Store) -> None:
    order = Order.model_construct(order_id="o1", total="many")
    with pytest.raises(ValueError, match=r"Order\.total"):
        db.put(order)
    assert list(db.scan()) == []
