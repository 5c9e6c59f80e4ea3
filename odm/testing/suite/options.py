"""The options of a store: prefix, limits, unknown tags, the hook, the clock."""
# ruff: noqa: D101  # a test's name says what it shows

import logging
from datetime import timedelta
from typing import Any

import pytest

from odm import (
    BackendError,
    BadCursor,
    BadValue,
    ItemInvalid,
    ItemNotFound,
    ItemTooLarge,
    Query,
    Store,
    TableNotFound,
    collection,
    set_,
)
from odm.results import RequestInfo
from odm.testing.entities import (
    Client,
    Customer,
    Order,
    OrderLine,
    OrderV2,
    Session,
    Sheet,
    SheetV2,
    plain,
    plain_v2,
    plain_v3,
)
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at, fill, walk

CUSTOMER = Customer(customer_id="c", name="Ann")
ORDERS = [Order(customer_id="c", order_id=f"o{number}") for number in range(4)]
PARTITION = collection(Customer.primary(customer_id="c"))


class TestPrefix:
    def test_separates_tables(self, db: Store, stores: Stores) -> None:
        staging = stores.open(plain, prefix="staging-")
        db.put(CUSTOMER)
        assert list(staging.scan()) == []
        staging.put(ORDERS[0])
        assert list(db.scan()) == [CUSTOMER]
        assert list(stores.open(plain, prefix="staging-").scan()) == [ORDERS[0]]
        staging.drop()
        assert list(db.scan()) == [CUSTOMER]

    def test_is_part_of_the_name_in_messages(self, stores: Stores) -> None:
        staging = stores.open(plain, prefix="staging-")
        staging.drop()
        with pytest.raises(BackendError, match="'staging-plain"):
            staging.put(CUSTOMER)

    def test_binds_cursors(self, db: Store, stores: Stores) -> None:
        staging, query = stores.open(plain, prefix="staging-"), Order.primary(customer_id="c")
        fill(db, ORDERS)
        fill(staging, ORDERS)
        cursor = db.page(query, size=1).cursor
        assert cursor is not None
        with pytest.raises(BadCursor):
            staging.page(query, after=cursor)

    def test_and_name_replace_that_of_the_table(self, db: Store, stores: Stores) -> None:
        other = stores.open(plain, prefix="staging-", name="other")
        fill(db, ORDERS)
        assert list(other.scan()) == []
        fill(other, ORDERS)
        query = Order.primary(customer_id="c")
        cursor = db.page(query, size=1).cursor
        assert list(other.query(query)) == list(db.query(query))
        with pytest.raises(BadCursor):
            other.page(query, after=cursor)
        assert (db.name, other.name) == ("plain", "staging-other")
        assert other.list_tables("staging-o") == ["staging-other"]
        other.drop()
        assert other.list_tables("staging-o") == []
        with pytest.raises(TableNotFound, match="'staging-other"):
            other.put(CUSTOMER)

    def test_binds_the_start_and_the_end_of_a_query(self, db: Store, stores: Stores) -> None:
        fill(db, ORDERS)
        query = Order.primary(customer_id="c").limit(2)
        start = db.start(query)
        assert db.page(query, size=1, after=start) == db.page(query, size=1)
        assert db.start(query.where(Order.order_id < "a", Order.order_id > "b")) is None
        whole = Order.primary(customer_id="c")
        last = db.page(whole, size=2, after=db.start(whole, end=True))
        assert (list(last.items), last.cursor) == (ORDERS[-2:], None)
        assert db.page(whole, size=len(ORDERS), after=last.previous).items == ORDERS[:-2]
        with pytest.raises(BadValue, match="leave out limit"):
            db.start(query, end=True)
        with pytest.raises(BadCursor):
            db.page(query.limit(3), after=start)
        with pytest.raises(BadCursor):
            stores.open(plain, prefix="staging-").page(query, after=start)

    @pytest.mark.parametrize("prefix", ["a/", " ", 5, None, "p" * 255])
    def test_must_be_the_start_of_a_valid_name(self, stores: Stores, prefix: Any) -> None:
        with pytest.raises(BadValue, match="prefix"):
            stores.offline(plain, prefix=prefix)


class TestLimits:
    def test_are_portable_unless_native_ones_are_asked_for(self, db: Store, stores: Stores) -> None:
        native = stores.open(plain, limits="native")
        for store, limits in ((db, "portable"), (native, "native")):
            with pytest.raises(BadValue, match="limits"):
                stores.offline(plain, limits=f"{limits}!")
            assert store.put(CUSTOMER) == CUSTOMER
        with pytest.raises(ItemTooLarge):
            db.put(Order(customer_id="c", order_id="o" * 1025))

    def test_refuse_keys_that_no_item_can_have(self, offline: Store) -> None:
        long = [Order(customer_id="c", order_id="o" * 1025), Order(customer_id="c" * 2049, order_id="o")]
        for order in long:
            key = Order.primary(customer_id=order.customer_id, order_id=order.order_id)
            calls: list[Any] = [
                lambda key=key: offline.get(key),
                lambda key=key: offline.one(key, consistent=False),
                lambda key=key: offline.exists(key),
                lambda key=key: offline.get_many([key]),
                lambda key=key: offline.update(key, set_(Order.status, "shipped")),
                lambda key=key: offline.delete(key),
                lambda order=order: offline.delete(order),
                lambda key=key: self.batch_delete(offline, key),
                lambda key=key: self.check(offline, key),
            ]
            for call in calls:
                with pytest.raises(ItemTooLarge, match="are the most"):
                    call()
        with pytest.raises(ItemTooLarge, match="are the most"):
            list(offline.query(Order.primary(customer_id="c" * 2049)))

    def test_refuse_keys_of_dicts_that_are_too_long(self, db: Store) -> None:
        long, longer = "ø" * 32_767 + "k", "ø" * 32_768  # 65,535 and 65,536 bytes
        sheet, key = Sheet(sheet_id="s"), Sheet.primary(book="b", sheet_id="s")
        for meta in ({long: 1}, {"a": [{long: 1}]}):
            full = sheet.model_copy(update={"meta": meta})
            assert db.put(full) == full
            db.update(key, set_(Sheet.meta, meta), when=Sheet.meta == meta)
            assert db.one(key) == full
        for meta in ({longer: 1}, {"a": [{longer: 1}]}, {"": 1}, {"a": [{"": 1}]}):
            full = sheet.model_copy(update={"meta": meta})
            calls: list[Any] = [
                lambda full=full: db.put(full),
                lambda full=full: self.batch_put(db, full),
                lambda full=full: self.transaction_put(db, full),
                lambda meta=meta: db.update(key, set_(Sheet.meta, meta)),
                lambda meta=meta: db.update(key, set_(Sheet.meta["k"], meta)),
                lambda meta=meta: db.put(sheet, when=Sheet.meta == meta),
            ]
            for call in calls:
                with pytest.raises(BadValue, match="key"):
                    call()
        for path in (Sheet.meta[longer], Sheet.meta["a"][longer]):
            with pytest.raises(BadValue, match="65535"):
                db.update(key, set_(path, 1))
        db.update(key, set_(Sheet.meta, {}), set_(Sheet.prices, {}))
        db.update(key, set_(Sheet.meta[long], 1))
        assert db.one(key).meta == {long: 1}

    def batch_put(self, db: Store, sheet: Sheet) -> None:
        with db.batch() as batch:
            batch.put(sheet)

    def transaction_put(self, db: Store, sheet: Sheet) -> None:
        with db.transaction() as tx:
            tx.put(sheet)

    def batch_delete(self, db: Store, key: Query[Order]) -> None:
        with db.batch() as batch:
            batch.delete(key)

    def check(self, db: Store, key: Query[Order]) -> None:
        with db.transaction() as tx:
            tx.check(key)

    def test_native_ones_are_those_of_the_backend(self, stores: Stores) -> None:
        native = stores.open(plain, limits="native")
        long, most = Order(customer_id="c", order_id="o" * 1025), native.backend.limits.sort_bytes
        if most is not None and most < 1100:
            with pytest.raises(ItemTooLarge, match=f"{most} are the most"):
                native.put(long)
            return
        native.put(long)
        assert native.get(Order, customer_id="c", order_id="o" * 1025) == long
        assert list(native.query(Order.primary(customer_id="c"))) == [long]


class TestUnknown:
    """``plain_v2`` is the same table, without entities for the tags Customer and OrderLine."""

    def test_tags_are_an_error(self, db: Store, stores: Stores) -> None:
        fill(db, [CUSTOMER, ORDERS[0]])
        later = stores.open(plain_v2)
        of_partition = collection(OrderV2.primary(customer_id="c"))
        for read in (
            lambda: list(later.query(of_partition)),
            lambda: later.page(of_partition),
            lambda: later.first(of_partition.reverse()),
            lambda: list(later.scan()),
            lambda: list(later.scan(OrderV2)),
        ):
            with pytest.raises(ItemInvalid, match=r"'Customer'.*on_unknown") as caught:
                read()
            assert caught.value.item["name"] == "Ann"
            assert "CUSTOMER#c" in caught.value.key

    def test_tags_can_be_skipped_in_every_read(self, db: Store, stores: Stores) -> None:
        lines = [OrderLine(customer_id="c", order_id=f"o{n}", number=1, sku="x") for n in range(4)]
        fill(db, [CUSTOMER, *ORDERS, *lines])
        later = stores.open(plain_v2, on_unknown="skip")
        expected = [OrderV2(customer_id="c", order_id=f"o{n}") for n in range(4)]
        for query in (collection(OrderV2.primary(customer_id="c")), OrderV2.primary(customer_id="c")):
            assert list(later.query(query)) == expected
            assert list(later.query(query.reverse().limit(3))) == expected[:0:-1]
            assert later.first(query) == expected[0]
            assert later.count(query) == 4
            assert later.count(query.limit(3)) == 3
            assert [len(page) for page in walk(later, query, 3)] == [3, 1]
            assert [len(page) for page in walk(later, query, 4)] == [4]
        assert sorted(later.scan(), key=str) == expected
        assert list(later.scan(SheetV2)) == []

    def test_tags_can_be_skipped_by_key(self, db: Store, stores: Stores) -> None:
        db.put(CUSTOMER)
        key = Client.primary(customer_id="c")
        raising, skipping = stores.open(plain_v3), stores.open(plain_v3, on_unknown="skip")
        for read in (lambda: raising.get(key), lambda: raising.get_many([key]), lambda: raising.exists(key)):
            with pytest.raises(ItemInvalid, match="'Customer'"):
                read()
        assert skipping.get(key) is None
        assert skipping.get_many([key]) == [None]
        assert not skipping.exists(key)
        with pytest.raises(ItemNotFound):
            skipping.one(key)
        for write in (skipping.insert, skipping.put):
            with pytest.raises(ItemInvalid, match=r"Client.primary.*'Customer'"):
                write(Client(customer_id="c"))
        assert db.get(Customer, customer_id="c") == CUSTOMER

    @pytest.mark.parametrize("on_unknown", ["ignore", None, True])
    def test_takes_two_words(self, stores: Stores, on_unknown: Any) -> None:
        with pytest.raises(BadValue, match="'raise' or 'skip'"):
            stores.offline(plain, on_unknown=on_unknown)


class TestOnRequest:
    def test_receives_every_request_in_order(self, stores: Stores) -> None:
        told: list[RequestInfo] = []
        db = stores.open(plain, prefix="p-", on_request=told.append)
        told.clear()
        db.put(CUSTOMER)
        assert db.get(Customer, customer_id="c") == CUSTOMER
        assert list(db.query(PARTITION)) == [CUSTOMER]
        assert [info.operation for info in told] == ["Put", "Get", "Query"]
        for info in told:
            assert info.table.startswith("p-plain")
            assert info.seconds >= 0
            assert info.error is None
            assert info.units is None or info.units > 0
            assert str(info.native)

    def test_receives_failures(self, stores: Stores) -> None:
        told: list[RequestInfo] = []
        db = stores.open(plain, on_request=told.append)
        db.drop()
        told.clear()
        with pytest.raises(BackendError):
            db.get(Customer, customer_id="c")
        assert [info.operation for info in told] == ["Get"]
        assert told[0].error is not None

    def test_that_raises_breaks_nothing(self, stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
        def fail(info: RequestInfo) -> None:
            raise ZeroDivisionError

        db = stores.open(plain, on_request=fail)
        with caplog.at_level(logging.ERROR, "odm"):
            db.insert(CUSTOMER)
            assert db.get(Customer, customer_id="c") == CUSTOMER
        assert any("on_request" in record.message for record in caplog.records)

    def test_sends_nothing_itself(self, stores: Stores) -> None:
        told: list[RequestInfo] = []
        db = stores.offline(plain, on_request=told.append)
        db.explain(CUSTOMER)
        assert told == []

    def test_the_log_has_a_line_a_request_and_no_values(self, db: Store, caplog: pytest.LogCaptureFixture) -> None:
        db.put(CUSTOMER)
        with caplog.at_level(logging.DEBUG, "odm"):
            db.put(Customer(customer_id="secret", name="secret"))
            db.get(Customer, customer_id="secret")
        lines = [record.message for record in caplog.records if record.name == "odm"]
        assert [line.split()[0] for line in lines] == ["Put", "Get"]
        assert all(" on table plain" in line and " ms" in line for line in lines)
        assert "secret" not in " ".join(lines)


class TestClock:
    def test_of_the_store_judges_expiry(self, stores: Stores) -> None:
        now = at(12).timestamp()
        db = stores.open(plain, clock=lambda: now)
        session = Session(user="u", session_id="s", expires_at=at(13))
        db.put(session)
        assert db.get(Session, user="u", session_id="s") == session
        now = (at(13) + timedelta(seconds=1)).timestamp()
        assert db.get(Session, user="u", session_id="s") is None
        assert list(db.query(Session.primary(user="u"))) == []
