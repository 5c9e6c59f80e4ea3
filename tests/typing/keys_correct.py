"""Lines with keys and patterns that are right: type checkers are silent about them, and test_keys.py runs them."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from odm import (
    Entity,
    Query,
    Store,
    append,
    between,
    collection,
    contains,
    exists,
    field,
    is_in,
    remove,
    select,
    set_,
    set_if_missing,
    some,
)
from odm.extend import Calls, Gen, procedure
from tests.typing import keys_models
from tests.typing.keys_models import Coded, Customer, Express, Knows, Named, Order, Owned, Sku, Status, Ticket

E = TypeVar("E", bound=Entity)
Own = TypeVar("Own", bound=Owned)

NUMBER = UUID(int=7)
NOW = datetime(2026, 1, 5, tzinfo=UTC)
TODAY = date(2026, 1, 5)
OPEN = Status.OPEN
PLAIN = TODAY.year > 2000


def an_order(**more: Any) -> Order:
    values = {"owner_id": "w", "customer_id": "c", "order_id": NUMBER, "created_at": NOW, "day": TODAY, "sum": "1.5"}
    return Order(**{**values, "sku": "s", **more})


def first_of(db: Store, entity: type[E], **key: Any) -> E | None:
    found: E | None = db.get(entity, **key)
    return found


def owned(entity: type[Own], owner_id: str) -> Query[Own]:
    return entity.by_owner(owner_id=owner_id)


@procedure
def steps(do: Calls, customer_id: str) -> Gen[Order | None]:
    yield from do.exists(Customer, customer_id=customer_id)
    yield from do.update(Order.primary(customer_id=customer_id, order_id=NUMBER), set_(Order.note, "n"))
    return (yield from do.get(Order, customer_id=customer_id, order_id=NUMBER))


def lines(db: Store) -> None:
    order = db.put(an_order())
    customer = db.put(Customer(customer_id="c", email="e", name="n"))
    calls(db, order)
    inherited(db, customer)
    others(db, order, customer)


def calls(db: Store, order: Order) -> None:
    key = Order.primary(customer_id="c", order_id=NUMBER)
    values: dict[str, Any] = {"customer_id": "c", "order_id": NUMBER}
    assert db.get(key) == db.get(Order, **values) == db.one(Order, customer_id="c", order_id=order.order_id)
    assert db.get(Order.primary(**values), consistent=False) == order
    assert db.get_many([key, Order.primary(**values)]) == [order, order]
    assert db.first(Order.by_label(label=order.label)) == order
    assert db.get(Order, customer_id="c", order_id=NUMBER, only=[Order.note]) is not None
    assert db.get(order.primary(customer_id=order.customer_id, order_id=order.order_id)) == order
    assert db.exists(keys_models.Order, customer_id="c", order_id=NUMBER)
    # Leading fields of the sort key, with types that a subclass, an alias, a NewType or a Literal stands for.
    assert db.count(Order.primary(customer_id="c")) == 1
    assert db.count(Order.by_date(customer_id="c", created_at=NOW)) == 1
    assert db.count(Order.by_date(customer_id="c", created_at=NOW, status=OPEN if PLAIN else Status.SHIPPED)) == 1
    assert db.count(Order.by_date(customer_id="c", created_at=NOW, status=order.status, kind=order.kind)) == 1
    assert db.count(Order.by_date(kind="plain" if PLAIN else "gift", **values_of(order))) == 1
    assert db.count(Order.by_total(day=TODAY, total=Decimal("1.5"), cents=0, sku=Sku("s"))) == 1
    assert db.count(Order.gifts(kind="gift")) == 0
    # Templates that the plugin does not know: made by a function, not a literal, or declared in two branches.
    assert db.count(Order.some_status(status=Status.OPEN, created_at=NOW)) == 1
    assert db.count(Order.unnamed(day=TODAY)) == 1
    assert db.count(Order.by_sku(sku=Sku("s"))) == 1
    # Sparse and sharded; the value of an optional field.
    opened = db.put(an_order(order_id=UUID(int=8), opened_at=NOW))
    assert db.count(Order.opened()) == db.count(Order.opened(opened_at=opened.opened_at)) == 1
    assert db.count(Order.opened().where(Order.order_id == opened.order_id, some(Order.opened_at) >= NOW)) == 1
    # With a signature.
    assert db.count(Order.by_created(status=Status.OPEN)) == 2
    assert db.count(Order.by_created(status=Status.OPEN, created_at=NOW, day=TODAY)) == 2
    assert db.count(Order.by_note(note="x", day=TODAY)) == 0


def inherited(db: Store, customer: Customer) -> None:
    assert db.count(Order.by_owner(owner_id="w", created_at=NOW)) == db.count(Order.of("w")) == 2
    assert db.count(owned(Order, "w")) == 2
    assert db.get(Express, courier="z", order_id=NUMBER) is None
    assert db.count(Express.by_owner(owner_id="w")) == 0
    assert db.count(Named.primary(key="k", later="a")) == 0
    assert first_of(db, Customer, customer_id="c") == customer


def others(db: Store, order: Order, customer: Customer) -> None:
    # Conditions and actions on fields of the entity or its bases, and of other entities where any may be meant.
    key = Order.primary(customer_id="c", order_id=NUMBER)
    assert db.count(Order.primary(customer_id="c").where((Owned.owner_id == "w") | exists(Order.note))) == 2
    assert (
        db.count(collection(Customer.primary(customer_id="c")).where(is_in(Customer.email, ["e"]))) == 2
    )  # and its version
    assert list(db.query(select(Customer).where(Customer.email == "e"))) == [customer]
    db.update(key, set_(Order.note, customer.name), when=Order.note == customer.note_of(order))
    values(db, key, order)
    # Keys in other calls, companions, and patterns of a tuple.
    assert db.get(Customer.unique_email(email="e")) == db.get(Customer.newest()) == customer
    assert db.count(Customer.history(customer_id="c")) == 1
    assert db.count(Knows.into(other="o")) + db.count(Knows.primary(one="p")) == 0
    assert db.get(Coded, code="c") is None
    assert db.exists(Ticket, ticket_id=db.put(Ticket()).ticket_id)
    assert db.run(steps("c")) is not None
    patterns = [Order.by_created, Order.by_sku] if PLAIN else []
    assert [pattern.name for pattern in patterns] == ["by_created", "by_sku"]
    with db.transaction() as tx:
        tx.check(Customer, customer_id="c")
        tx.delete(Order, customer_id="c", order_id=NUMBER)
    with db.batch() as batch:
        batch.delete(Order, customer_id="c", order_id=NUMBER)
    delete_all(db, [key])


def values(db: Store, key: Query[Order], order: Order) -> None:
    """Values of fields and of their elements, in conditions and actions."""
    tags: frozenset[str] = frozenset({"b"})
    db.update(key, set_(Order.total, Decimal("2.5")), set_(Order.opened_at, None), set_(Order.lines, []))
    db.update(key, set_(Order.total, 3), append(Order.lines, "a", "b"), set_(Order.kind, order.kind))
    db.update(key, set_(Order.lines[0], "c"), set_if_missing(Order.note, "n"), set_(Order.opened_at, NOW))
    conditions = [is_in(Order.status, {OPEN}), is_in(Order.note, tags | {order.note, "n"}), between(Order.total, 1, 5)]
    conditions += [contains(Order.note, "n"), contains(Order.lines, "c"), between(some(Order.opened_at), NOW, NOW)]
    assert db.count(Order.primary(customer_id="c", order_id=NUMBER).where(*conditions)) == 1
    db.update(key, set_(field("note"), "x"), remove(Order.opened_at))


def values_of(order: Order) -> dict[str, Any]:
    return {"customer_id": order.customer_id, "created_at": order.created_at, "status": order.status}


def delete_all(db: Store, keys: Iterable[Query[Order]]) -> None:
    for key in keys:
        db.delete(key)
