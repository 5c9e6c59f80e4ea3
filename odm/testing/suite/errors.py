"""Missing tables, closed stores, and the classes of errors."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from typing import Any

import pytest

from odm import BackendError, ItemExists, KeyValueError, OdmError, Store, set_
from odm.testing.entities import Customer, Order
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill

CUSTOMER = Customer(customer_id="c", name="Ann")
KEY = Customer.primary(customer_id="c")


class TestTables:
    def test_create_and_drop_can_be_repeated(self, db: Store) -> None:
        db.put(CUSTOMER)
        db.create()
        assert db.get(KEY) == CUSTOMER
        db.drop()
        db.drop()
        db.create()
        assert db.get(KEY) is None

    def test_a_table_that_is_not_there_is_an_error_that_says_what_to_do(self, db: Store) -> None:
        db.drop()
        for use in (
            lambda: db.get(KEY),
            lambda: db.get_many([KEY]),
            lambda: db.put(CUSTOMER),
            lambda: db.insert(CUSTOMER),
            lambda: db.delete(KEY),
            lambda: list(db.query(Order.primary(customer_id="c"))),
            lambda: list(db.scan()),
        ):
            with pytest.raises(BackendError, match="create"):
                use()

    def test_a_batch_to_a_table_that_is_not_there_fails(self, db: Store) -> None:
        db.drop()
        with pytest.raises(BackendError, match="create"), db.batch() as batch:
            batch.put(CUSTOMER)


def calls_of(db: Store) -> list[Callable[[], object]]:
    """One call of each kind."""
    orders = Order.primary(customer_id="c")
    return [
        db.create,
        db.drop,
        lambda: db.get(KEY),
        lambda: db.get_many([KEY]),
        lambda: db.one(KEY),
        lambda: db.exists(KEY),
        lambda: db.put(CUSTOMER),
        lambda: db.insert(CUSTOMER),
        lambda: db.update(KEY, set_(Customer.name, "Bob")),
        lambda: db.merge(KEY, set_(Customer.name, "Bob")),
        lambda: db.delete(KEY),
        lambda: db.delete_all(orders),
        lambda: list(db.query(orders)),
        lambda: db.page(orders),
        lambda: db.first(orders),
        lambda: db.count(orders),
        lambda: list(db.scan()),
        lambda: list(db.scan(Order, segments=2)),
        db.scan_page,
        lambda: db.parts(2),
        lambda: db.put_raw([]),
        lambda: db.explain(KEY),
        lambda: db.key_of(CUSTOMER),
        lambda: db.start(orders),
        lambda: db.batch().__enter__().put(CUSTOMER),
        lambda: db.transaction().__enter__().put(CUSTOMER),
        lambda: db.run(lambda do: do.get(KEY)),
    ]


def put_and_close(block: Any, db: Store) -> None:
    """Put a customer, and close the store before the block ends."""
    with block:
        block.put(CUSTOMER)
        db.close()


def put_alone(block: Any, entity: Order) -> None:
    """Put one entity in a block."""
    with block:
        block.put(entity)


class TestStores:
    def test_a_closed_store_refuses_every_call(self, db: Store, stores: Stores) -> None:
        db.put(CUSTOMER)
        twin = db.with_options(retry_safe=False)
        assert twin.get(KEY) == CUSTOMER
        db.close()
        db.close()
        for closed in (db, twin):
            for call in calls_of(closed):
                with pytest.raises(BackendError, match=r"store of table '.*' was closed: open another store"):
                    call()
        assert stores.open(db.table).get(KEY) == CUSTOMER

    def test_a_store_that_was_closed_before_its_first_call_is_closed(self, db: Store, stores: Stores) -> None:
        other = stores.open(db.table)
        other.close()
        with pytest.raises(BackendError, match="was closed"):
            other.get(KEY)
        assert db.get(KEY) is None

    def test_a_store_of_with_options_closes_its_origin(self, db: Store) -> None:
        db.put(CUSTOMER)
        db.with_options(retry_safe=False).close()
        with pytest.raises(BackendError, match="was closed"):
            db.get(KEY)

    @pytest.mark.parametrize("read", ["query", "scan"])
    def test_iterators_end_with_the_store(self, db: Store, read: str) -> None:
        fill(db, [Order(customer_id="c", order_id="1"), Order(customer_id="c", order_id="2")])
        results = db.query(Order.primary(customer_id="c")) if read == "query" else db.scan(Order)
        db.close()
        with pytest.raises(BackendError, match="was closed"):
            next(results)

    def test_blocks_end_with_the_store(self, db: Store, stores: Stores) -> None:
        with pytest.raises(BackendError, match="was closed") as caught:
            put_and_close(db.batch(), db)
        assert caught.value.left == (CUSTOMER,)
        other = stores.open(db.table)
        with pytest.raises(BackendError, match="was closed"):
            put_and_close(other.transaction(), other)
        assert stores.open(db.table).get(KEY) is None

    def test_two_stores_see_one_table(self, db: Store, stores: Stores) -> None:
        other = stores.open(db.table)
        db.put(CUSTOMER)
        assert other.get(KEY) == CUSTOMER
        other.close()
        assert db.get(KEY) == CUSTOMER

    def test_a_with_block_closes(self, db: Store) -> None:
        with db as same:
            same.put(CUSTOMER)
        with pytest.raises(BackendError, match="was closed"):
            db.get(KEY)
        with pytest.raises(BackendError, match="was closed"), db:
            raise AssertionError("the block began")

    def test_explain_sends_nothing(self, db: Store, stores: Stores) -> None:
        stores.forget()
        for explained in (db.explain(KEY), db.explain(CUSTOMER), db.explain(KEY, write="delete")):
            assert "CUSTOMER#c" in str(explained)
            assert explained.native is not None
        assert db.get(KEY) is None


class TestErrors:
    def test_are_odms_own(self, db: Store) -> None:
        db.insert(CUSTOMER)
        with pytest.raises(OdmError) as caught:
            db.insert(CUSTOMER)
        assert type(caught.value) is ItemExists
        assert {base.__module__.split(".")[0] for base in type(caught.value).__mro__} == {"odm", "builtins"}

    @pytest.mark.parametrize("way", ["put", "insert", "update", "delete", "batch", "transaction", "key_of", "raw_item"])
    def test_an_entity_without_a_key_field_is_refused(self, db: Store, way: str) -> None:
        """As `model_construct` makes it."""
        entity = Order.model_construct(order_id="1")
        calls: dict[str, Callable[[], object]] = {
            "put": lambda: db.put(entity),
            "insert": lambda: db.insert(entity),
            "update": lambda: db.update(entity, set_(Order.note, "2")),
            "delete": lambda: db.delete(entity),
            "batch": lambda: put_alone(db.batch(), entity),
            "transaction": lambda: put_alone(db.transaction(), entity),
            "key_of": lambda: db.key_of(entity),
            "raw_item": lambda: db.raw_item(entity),
        }
        with pytest.raises(KeyValueError, match=r"Order\.customer_id has no value, but it is part of the primary key"):
            calls[way]()
        assert list(db.scan()) == []
