"""`update`: existence, conditions, return values, upsert, bounds."""
# ruff: noqa: D101, RUF012  # pydantic copies defaults; a test's name says what it shows

from decimal import Decimal
from typing import Annotated, Any, cast

import pytest

from odm import (
    BadValue,
    Columns,
    ConditionFailed,
    Entity,
    ItemNotFound,
    PrimaryKey,
    Store,
    Table,
    add_to,
    append,
    increment,
    remove,
    set_,
    set_fields,
)
from odm.testing.capabilities import needs
from odm.testing.entities import Customer, Order, OrderV2, Setting, Sheet, hashes, plain_v2
from odm.testing.stores import Stores
from odm.testing.suite.ways import Way, each_way

ORDER = Order(customer_id="c", order_id="o", total=Decimal(5), note="n")
KEY = Order.primary(customer_id="c", order_id="o")

kits = Table("kits")


class Kit(Entity, table=kits):
    kit_id: str
    stock: Annotated[dict[str, int], Columns] = {}
    tags: Annotated[set[str], Columns] = set()
    sizes: dict[str, int] = {"m": 1}
    lines: list[str] = ["a"]
    rank: int = 5

    primary = PrimaryKey("KIT#{kit_id}")


@needs("updates")
class TestUpdate:
    @each_way
    def test_changes_what_it_names_and_no_more(self, db: Store, way: Way) -> None:
        db.put(ORDER)
        assert way(db).update(KEY, set_(Order.status, "shipped"), remove(Order.note)) is None
        assert db.one(KEY) == ORDER.model_copy(update={"status": "shipped", "note": None})

    @each_way
    def test_sets_the_fields_of_a_dict(self, db: Store, way: Way) -> None:
        db.put(ORDER)
        way(db).update(KEY, *set_fields(Order, {"status": "shipped", "note": None, "total": "7.50"}))
        assert db.one(KEY) == Order(customer_id="c", order_id="o", total=Decimal("7.5"), status="shipped", note=None)
        for changes in ({"status": "lost"}, {"total": None}, {"order_id": "p"}, {}):
            with pytest.raises(BadValue):
                way(db).update(KEY, *set_fields(Order, changes))

    def test_by_entity(self, db: Store) -> None:
        db.put(ORDER)
        db.update(ORDER, set_(Order.status, "shipped"))
        assert db.one(KEY).status == "shipped"
        assert ORDER.status == "open"

    def test_returns_the_old_or_the_new_item(self, db: Store) -> None:
        db.put(ORDER)
        shipped = ORDER.model_copy(update={"status": "shipped"})
        assert db.update(KEY, set_(Order.status, "shipped"), returning="old") == ORDER
        assert db.update(KEY, set_(Order.status, "shipped"), returning="new") == shipped
        with pytest.raises(BadValue):
            db.update(KEY, set_(Order.status, "open"), returning=cast(Any, "both"))

    @each_way
    def test_of_an_absent_item_makes_none(self, db: Store, way: Way) -> None:
        for which in (KEY, ORDER):
            with pytest.raises(ItemNotFound):
                way(db).update(which, set_(Order.status, "shipped"))
        assert not db.exists(KEY)
        assert list(db.scan()) == []

    @each_way
    def test_absence_wins_over_a_condition(self, db: Store, way: Way) -> None:
        for condition in (Order.status == "open", Order.status != "open"):
            with pytest.raises(ItemNotFound):
                way(db).update(KEY, set_(Order.status, "shipped"), when=condition)

    @each_way
    def test_when_the_condition_holds(self, db: Store, way: Way) -> None:
        db.put(ORDER)
        way(db).update(KEY, set_(Order.status, "shipped"), when=(Order.status == "open") & (Order.total > 4))
        assert db.one(KEY).status == "shipped"

    @each_way
    def test_when_the_condition_does_not_hold(self, db: Store, way: Way) -> None:
        db.put(ORDER)
        with pytest.raises(ConditionFailed) as caught:
            way(db).update(KEY, set_(Order.status, "shipped"), when=Order.total > 5)
        assert caught.value.item == ORDER
        assert db.one(KEY) == ORDER

    def test_keeps_attributes_that_the_model_does_not_know(self, db: Store, stores: Stores) -> None:
        db.put(ORDER)
        later = stores.open(plain_v2)
        key = OrderV2.primary(customer_id="c", order_id="o")
        assert later.update(key, set_(OrderV2.priority, 2), returning="new").total == 5
        assert db.one(KEY) == ORDER
        assert later.one(key).priority == 2

    def test_reaches_one_item_only(self, db: Store) -> None:
        others = [Order(customer_id="c", order_id=name) for name in ("o1", "n")]
        for order in (*others, ORDER):
            db.put(order)
        customer = db.put(Customer(customer_id="c", name="Ann"))
        db.update(KEY, set_(Order.note, "x"))
        assert [db.one(Order, customer_id="c", order_id=name) for name in ("o1", "n")] == others
        assert db.one(Customer, customer_id="c") == customer

    def test_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        db.put(Setting(name="a"))
        assert db.update(Setting.primary(name="a"), set_(Setting.value, "v"), returning="new").value == "v"


@needs("updates")
class TestUpsert:
    CUSTOMER = Customer.primary(customer_id="c")

    def test_creates_the_item(self, db: Store) -> None:
        assert db.update(self.CUSTOMER, set_(Customer.name, "Ann"), upsert=True, returning="new") == Customer(
            customer_id="c", name="Ann"
        )
        assert db.one(self.CUSTOMER) == Customer(customer_id="c", name="Ann")

    def test_changes_the_item_that_is_there(self, db: Store) -> None:
        db.put(Customer(customer_id="c", name="Ann", vip=True))
        db.update(self.CUSTOMER, set_(Customer.name, "Bo"), upsert=True)
        assert db.one(self.CUSTOMER) == Customer(customer_id="c", name="Bo", vip=True)

    @each_way
    def test_counts_from_the_default(self, db: Store, way: Way) -> None:
        for _ in range(2):
            way(db).update(KEY, increment(Order.total, 3), upsert=True)
        assert db.one(KEY) == Order(customer_id="c", order_id="o", total=Decimal(6))

    def test_with_a_condition_needs_the_item(self, db: Store) -> None:
        with pytest.raises(ItemNotFound):
            db.update(self.CUSTOMER, set_(Customer.name, "Ann"), when=Customer.name == "Bo", upsert=True)
        assert not db.exists(self.CUSTOMER)

    @each_way
    def test_meets_a_rival_that_creates_the_item_first(self, db: Store, stores: Stores, way: Way) -> None:
        stores.rival_puts(ORDER)
        way(db).update(KEY, increment(Order.total, 3), upsert=True)
        assert db.one(KEY) == ORDER.model_copy(update={"total": Decimal(8)})


@needs("updates", "retry_safe")
class TestRetrySafe:
    def test_is_applied_once(self, db: Store) -> None:
        db.put(ORDER)
        assert db.with_options(retry_safe=True).update(KEY, increment(Order.total, 3), set_(Order.note, "m")) is None
        assert db.one(KEY) == ORDER.model_copy(update={"total": Decimal(8), "note": "m"})

    def test_fails_as_without_it(self, db: Store) -> None:
        with pytest.raises(ItemNotFound):
            db.with_options(retry_safe=True).update(KEY, increment(Order.total))
        db.put(ORDER)
        with pytest.raises(ConditionFailed) as caught:
            db.with_options(retry_safe=True).update(KEY, increment(Order.total), when=Order.total > 5)
        assert caught.value.item == ORDER
        db.put(Sheet(sheet_id="s", meta={"n": 1}))
        with pytest.raises(BadValue):
            db.with_options(retry_safe=True).update(Sheet.primary(book="b", sheet_id="s"), append(Sheet.meta["n"], "x"))
        assert db.one(KEY) == ORDER

    def test_upserts(self, db: Store) -> None:
        for count in (1, 2):
            db.with_options(retry_safe=True).update(KEY, increment(Order.total, 3), upsert=True)
            assert db.one(KEY).total == 3 * count


class TestUpdateCalls:
    def test_an_update_that_is_safe_to_retry_gives_no_item(self, offline: Store) -> None:
        with pytest.raises(BadValue, match="retry_safe"):
            offline.with_options(retry_safe=True).update(KEY, increment(Order.total), returning=cast(Any, "new"))

    def test_an_upsert_must_set_every_required_field(self, offline: Store) -> None:
        with pytest.raises(BadValue, match="'name'"):
            offline.update(Customer.primary(customer_id="c"), set_(Customer.vip, True), upsert=True)


@needs("updates")
class TestBounds:
    SHEET = Sheet(sheet_id="s", level=8)

    def test_an_increment_within_the_bounds(self, db: Store) -> None:
        db.put(self.SHEET)
        assert db.update(self.SHEET, increment(Sheet.level), returning="new").level == 9
        assert db.update(self.SHEET, increment(Sheet.level, -9), returning="new").level == 0

    @each_way
    def test_an_increment_out_of_them_changes_nothing(self, db: Store, way: Way) -> None:
        db.put(self.SHEET)
        for by in (2, -9):
            with pytest.raises(ConditionFailed, match="bounds") as caught:
                way(db).update(self.SHEET, increment(Sheet.level, by), set_(Sheet.title, "x"))
            assert caught.value.item == self.SHEET
        assert db.one(Sheet, book="b", sheet_id="s") == self.SHEET

    def test_an_increment_of_an_absent_number_is_judged_by_its_default(self, db: Store) -> None:
        db.put(self.SHEET)
        db.update(self.SHEET, remove(Sheet.level))
        with pytest.raises(ConditionFailed):
            db.update(self.SHEET, increment(Sheet.level, 10))
        assert db.update(self.SHEET, increment(Sheet.level, 9), returning="new").level == 9


@needs("updates")
class TestUpsertOfDefaults:
    """An upsert of an absent item starts from the defaults of the model."""

    def test_members_join_the_default(self, stores: Stores) -> None:
        db, key = stores.open(kits), Kit.primary(kit_id="1")
        actions = (set_(Kit.stock["s"], 2), set_(Kit.sizes["l"], 3), add_to(Kit.tags, "new"))
        kit = Kit(kit_id="1", stock={"s": 2}, sizes={"m": 1, "l": 3}, tags={"new"})
        assert db.update(key, *actions, upsert=True, returning="new") == kit
        assert db.one(key) == kit

    def test_lists_and_numbers_go_on_from_the_default(self, stores: Stores) -> None:
        db, key = stores.open(kits), Kit.primary(kit_id="2")
        kit = db.update(key, append(Kit.lines, "b"), increment(Kit.rank, 2), upsert=True, returning="new")
        assert kit == db.one(key) == Kit(kit_id="2", lines=["a", "b"], rank=7)

    def test_a_member_of_columns_alone(self, stores: Stores) -> None:
        db, key = stores.open(kits), Kit.primary(kit_id="3")
        for count in (1, 2):
            db.update(key, set_(Kit.stock["s"], count), upsert=True)
        assert db.one(key) == Kit(kit_id="3", stock={"s": 2})
