"""Mistakes in keys and patterns, each of which fails when it runs.

Those of `MYPY` are found by mypy with odm's plugin, those of `BOTH` by any type checker.
"""

IMPORTS = """\
from typing import Annotated
from odm import *
from odm.backends.local import Memory
from tests.typing.keys_correct import NOW, NUMBER, TODAY, an_order
from tests.typing.keys_models import Customer, Express, Named, Order, Owned, Status, Ticket, shop
db = Store(shop, Memory())
tx = db.transaction()
key = Order.primary(customer_id="c", order_id=NUMBER)
"""

MYPY = [
    # The call of a pattern: an unknown, missing or omitted field, or a value of another type.
    'Order.primary(custmer_id="c")',
    "Order.primary()",
    "Order.primary(order_id=NUMBER)",
    "Order.primary(customer_id=5)",
    'Order.primary(customer_id="c", order_id="o")',
    "Order.by_total(day=TODAY, cents=5)",
    'Order.by_total(day="today")',
    'Order.by_date(customer_id="c", created_at=NOW, status="opened")',
    'Order.by_date(customer_id="c", created_at=NOW, status=Status.OPEN, kind="x")',
    "Order.by_date(customer_id=None)",
    "db.count(Order.opened(opened_at=None))",
    'Order.by_owner(owner="o")',
    "Order.by_owner(owner_id=5)",
    'Express.primary(customer_id="c")',
    'Named.primary(ky="x")',
    'an_order().by_owner(owner="o")',
    'Customer.unique_email(mail="e")',
    "Customer.unique_email(email=5)",
    'Customer.newest(customer_id="c")',
    'Customer.history(customer="c")',
    # The key fields of a class in other calls.
    'db.get(Order, customer_id="c")',
    'db.get(Order, customer_id="c", order_id=5)',
    'db.get(Order, customer_id="c", order_id=NUMBER, day=TODAY)',
    'db.one(Customer, email="e")',
    "db.exists(Customer, customer_id=5)",
    'db.delete(Customer, id="c")',
    "db.batch().delete(Customer)",
    'tx.delete(Customer, custmer_id="c")',
    "tx.check(Customer, customer_id=5)",
    # What is not the key of one item.
    'db.get(Order.primary(customer_id="c"))',
    'db.get(Order.by_date(customer_id="c"))',
    'db.get_many([key, Order.primary(customer_id="c")])',
    'db.delete(Customer.by_email(email="e"))',
    'db.update(Order.primary(customer_id="c"), set_(Order.note, "x"))',
    # Fields of another entity.
    'db.update(key, set_(Customer.name, "x"))',
    'db.update(key, set_(Order.note, "x"), when=Customer.name == "n")',
    'db.query(Order.by_date(customer_id="c").where(Customer.name == "n"))',
    'db.query(Order.by_date(customer_id="c").where((Order.note == "n") | exists(Customer.name)))',
    'db.get(Order, customer_id="c", order_id=NUMBER, only=[Customer.name])',
    'db.scan(Order, Customer.name == "n")',
    # A value of another type than the field or its elements, and fields that no update changes.
    'db.update(key, set_(Order.kind, "x"))',
    "db.update(key, set_(Order.note, 5))",
    "db.update(key, set_(Order.lines, ['a', 5]))",
    "db.update(key, set_if_missing(Order.note, None))",
    "db.update(key, append(Order.lines, 5))",
    'db.scan(Order, is_in(Order.status, ["x"]))',
    'db.scan(Order, between(Order.cents, "a", "b"))',
    "db.scan(Order, contains(Order.lines, 5))",
    'db.update(key, set_(Order.customer_id, "d"))',
    "tx.update(key, remove(Order.order_id))",
    "db.update(key, increment(Order.revision))",
    "Order.by_label(label=5)",
    "db.page(key, only=[Customer.name])",
    "db.update(Ticket.primary(ticket_id='t'), set_(Ticket.made_at, NOW))",
    # Conditions that Python answers by itself.
    'Order.by_date(customer_id="c").where(Order.note > "n" and Order.cents > 1)',
    'Order.by_date(customer_id="c").where((Order.note == "n") & (not Order.cents > 1))',
    'Order.by_date(customer_id="c").where(1 < Order.cents < 5)',
    'Order.by_date(customer_id="c").where(Order.note in ["n"])',
    "db.scan(Order, Order.opened_at is None)",
    "db.delete(key, when=Order.cents > 1 or Order.cents < 0)",
    # Declarations.
    'class L(Entity, table=Table("l")): a: str; primary = PrimaryKey("A#{a")',
    """\
class M(Entity, table=Table("m")):
    a: str
    primary = PrimaryKey("{a}")
    by_a = AccessPattern("B#{a}", when=(field("a") > "b") & exists(field("b")))
""",
    'class A(Entity, table=Table("a")): a: str; primary = PrimaryKey("A#{b}")',
    'class B(Entity, table=Table("b")): a: str; b: list[str]; primary = PrimaryKey("A#{a}", "B#{b}")',
    'class C(Entity, table=Table("c")): a: str | None; primary = PrimaryKey("A#{a}")',
    'class D(Entity, table=Table("d")): a: str; b: Annotated[str, TTL]; primary = PrimaryKey("A#{a}")',
    'class F(Entity, table=Table("f")): a: str; primary = PrimaryKey("F", "{a}", shards=Shards(8, by="b"))',
    'class G(Entity, table=Table("g")): a: str; primary = PrimaryKey("{a}"); by = AccessPattern("B", projection=["c"])',
    'class H(Owned, table=Table("h")): a: str; primary = PrimaryKey("A#{a}")',
    """\
class I(Entity, table=Table("i")):
    a: str
    b: str
    primary = PrimaryKey("A#{a}")
    @AccessPattern("B#{b}", "{a}")
    def by_b(*, b: str) -> None: ...
""",
    """\
class J(Entity, table=Table("j")):
    a: str
    b: str
    primary = PrimaryKey("A#{a}")
    @AccessPattern("B#{b}", "{a}")
    def by_b(*, b: str, a: int = ...) -> None: ...
""",
    """\
def local() -> None:
    class K(Entity, table=Table("k")):
        a: str
        primary = PrimaryKey("A#{a}")
    K.primary(a=5)
local()
""",
    "Order.by_created(status=Status.OPEN, day=TODAY)",
]

BOTH = [
    'Order.by_created(status="opened")',
    "Order.by_created(state=Status.OPEN)",
    "Order.by_created()",
    'Order.by_created(status=Status.OPEN, created_at="now")',
    "Order.by_note(note=5)",
    'Order.primary("c")',
    'Order.by_email(email="e")',
    'db.update(Order, set_(Order.note, "n"), customer_id="c", order_id=NUMBER)',
]
