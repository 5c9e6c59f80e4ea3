"""Mistakes of people who know another library: the error says what to write instead."""
# mypy: disable-error-code="arg-type, attr-defined, call-arg"
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportCallIssue=false
# ruff: noqa: PLW0108  # a mistake is made inside the test

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ConfigDict, PrivateAttr

from odm import AsyncStore, Entity, PrimaryKey, Store, Table, set_
from odm.backends.local import Memory
from odm.hints import BATCH, ENTITY, PAGE, PATTERN, QUERY, STORE, TRANSACTION
from odm.stores.batches import Batch
from odm.stores.transactions import Transaction
from tests.shop import Order, shop, store

ORDER = Order(customer_id="c", order_id="o")
QUERY_ = Order.by_date(customer_id="c")
KEY = Order.primary(customer_id="c", order_id="o")
db: Any = store(ORDER)


def batch(call: Callable[[Any], object]) -> None:
    with db.batch() as open_:
        call(open_)


def tx(call: Callable[[Any], object]) -> None:
    with db.transaction() as open_:
        call(open_)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "key by position": (lambda: db.get(Order, "c", "o"), r"give key fields by name: get\(Order, customer_id=\.\.\., "),
    "key in a dict": (lambda: db.one(Order, {"order_id": "o"}), r"give key fields by name: one\(Order, customer_id="),
    "delete by position": (lambda: db.delete(Order, "c"), r"give key fields by name: delete\(Order, customer_id="),
    "delete in a batch": (
        lambda: db.batch().delete(Order, "c"),
        r"give key fields by name: delete\(Order, customer_id=",
    ),
    "check by position": (lambda: db.transaction().check(Order, "c"), r"by name: check\(Order, customer_id=\.\.\., "),
    "exists by position": (lambda: db.exists(Order, "c"), r"give key fields by name: exists\(Order, customer_id="),
    "option by position": (lambda: db.get(KEY, False), r"give options by name, such as consistent=False"),
    "no key": (lambda: db.get(Order), r"Order alone is not a key: .* Order\.primary\(customer_id=\.\.\., order_id"),
    "get of an entity": (lambda: db.get(ORDER), r"takes a key, not an entity \(Order\): write Order\.primary\("),
    "values in an update": (lambda: db.update(ORDER, status="x"), r"write set_\(Order\.status, 'x'\), or \*set_fields"),
    "dict in an update": (lambda: db.update(ORDER, {"status": "x"}), r"write \*set_fields\(Order, changes\)"),
    "list in an update": (lambda: db.update(ORDER, [set_(Order.status, "open")]), r"put a \* in front of the list"),
    "key in an update": (lambda: db.update(Order, order_id="o"), r"write update\(Order\.primary\(customer_id=\.\.\., "),
    "values in tx.update": (lambda: tx(lambda tx: tx.update(KEY, status="x")), r"write set_\(Order\.status, 'x'\)"),
    "put of a dict": (lambda: db.put({"order_id": "o"}), r"make one of it, as in Order\(\*\*values\)"),
    "put of a list": (lambda: db.put([ORDER]), r"several with db\.batch\(\)"),
    "db.save": (lambda: db.save(ORDER), r"Store has no 'save': write db\.put\(entity\)"),
    "db.commit": (lambda: db.commit(), r"each call is sent at once"),
    "query.filter": (lambda: QUERY_.filter(total=1), r"write query\.where\(Order\.field > value\)"),
    "where(total=1)": (lambda: QUERY_.where(total=1), r"write where\(Order\.total == 1\)"),
    "query.all": (lambda: QUERY_.all(), r"write list\(db\.query\(query\)\)"),
    "query.order_by": (lambda: QUERY_.order_by(Order.total), r"write query\.reverse\(\)"),
    "loop over a page": (lambda: list(db.page(QUERY_)), r"loop over page\.items"),
    "part of a page": (lambda: db.page(QUERY_)[0], r"take page\.items\[0\]"),
    "len of a page": (lambda: len(db.page(QUERY_)), r"write len\(page\.items\)"),
    "page.next": (lambda: db.page(QUERY_).last_evaluated_key, r"write page\.cursor"),
    "order.save": (lambda: ORDER.save(), r"Order has no field or method 'save': write db\.put\(entity\)"),
    "Order.objects": (lambda: Order.objects.all(), r"write db\.query\(Order\.by_\.\.\.\(\.\.\.\)\) with a pattern"),
    "Order.query": (lambda: Order.query("c"), r"db\.scan\(Order\) for all"),
    "Order.by_date.query": (lambda: Order.by_date.query("c"), r"call the pattern with values"),
    "Order.total.desc": (lambda: Order.total.desc(), r"write query\.reverse\(\)"),
    "Order.total.eq": (lambda: Order.total.eq(5), r"write Order\.total == value"),
    "batch.insert": (lambda: batch(lambda batch: batch.insert(ORDER)), r"a batch has no conditions: write batch\.put"),
    "tx.get": (lambda: tx(lambda tx: tx.get(KEY)), r"write db\.get\(\.\.\.\) before the block"),
    "with of an AsyncStore": (lambda: AsyncStore(shop, Memory()).__enter__(), r"is async: write async with"),
    "async with of a Store": (lambda: db.__aenter__().send(None), r"is not async: write with"),
}


@pytest.mark.parametrize(("use", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(use: Callable[[], object], says: str) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError), match=says):
        use()


class Open(Entity, table=Table("hints")):
    model_config = ConfigDict(extra="allow")

    objects: str = ""
    _seen: int = PrivateAttr(default=1)

    primary = PrimaryKey("OPEN#{objects}")


def test_names_that_exist_are_theirs() -> None:
    one = Open(objects="a", save="extra")
    assert (one.objects, one.save, one._seen, repr(Open.objects)) == ("a", "extra", 1, "Open.objects")
    page = db.page(QUERY_)
    for thing in (QUERY_, page, ORDER, one):
        assert copy.deepcopy(thing) == copy.copy(thing) == pickle.loads(pickle.dumps(thing)) == thing
        assert not hasattr(thing, "filter")
        assert not hasattr(thing, "nonsense")
    assert bool(page) is True
    assert (db.with_options(retries=1).one(KEY), hasattr(db, "save")) == (ORDER, False)
    with pytest.raises(AttributeError, match=r"^'Store' object has no attribute 'nonsense'$"):
        db.nonsense()


HINTS: list[tuple[Any, dict[str, str]]] = [
    (Store, STORE),
    (AsyncStore, STORE),
    (Batch, BATCH),
    (Transaction, TRANSACTION),
    (type(QUERY_), QUERY),
    (type(db.page(QUERY_)), PAGE),
    (Entity, ENTITY),
    (type(Order.by_date), PATTERN),
]


@pytest.mark.parametrize(("thing", "hints"), HINTS, ids=lambda one: getattr(one, "__name__", ""))
def test_no_hint_is_about_a_name_that_exists(thing: Any, hints: dict[str, str]) -> None:
    assert not [name for name in hints if hasattr(thing, name)]
