"""Missing tables, closed stores, and the classes of errors."""
# ruff: noqa: D101  # a test's name says what it shows

import pytest

from odm import BackendError, ItemExists, OdmError
from odm.stores.sync import Store
from odm.testing.entities import Customer, Order
from odm.testing.stores import Stores

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


class TestStores:
    def test_a_closed_store_opens_again(self, db: Store) -> None:
        db.put(CUSTOMER)
        db.close()
        db.close()
        assert db.get(KEY) == CUSTOMER

    def test_two_stores_see_one_table(self, db: Store, stores: Stores) -> None:
        other = stores.open(db.table)
        db.put(CUSTOMER)
        assert other.get(KEY) == CUSTOMER
        other.close()
        assert db.get(KEY) == CUSTOMER

    def test_a_with_block_closes(self, db: Store) -> None:
        with db as same:
            same.put(CUSTOMER)
        assert db.get(KEY) == CUSTOMER

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
