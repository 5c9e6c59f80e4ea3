"""`explain` prints what a call will do, and sends nothing."""

from collections.abc import Callable
from typing import Final

import pytest

from odm import BadValue, Condition, Entity, Query, Store, collection, increment, remove, select, set_
from odm.backends.local import Memory
from odm.results import Explanation
from odm.testing.reading import Grown, Judged, Seen, metering
from tests.shop import Counting, Customer, Order, Reading, day, shop

ORDER = Order(customer_id="c1", order_id="o1", placed_at=day(2))
KEY = Order.primary(customer_id="c1", order_id="o1")

READS: list[tuple[Query[Entity], str]] = [
    (
        KEY,
        """\
call       Order.primary(customer_id='c1', order_id='o1')
pattern    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
index      the table itself
partition  CUSTOMER#c1
sort key   = ORDER#o1
filter     _t = 'Order'
compiled   partition of customer_id → sort key of order_id → only Order
requests   at most 1
note       the range holds other entities' items too, so a filter takes this entity's""",
    ),
    (
        Order.by_date(customer_id="c1").where(Order.placed_at >= day(2), Order.total > 100).reverse().limit(9),
        """\
call       Order.by_date(customer_id='c1').where(placed_at >= 2026-01-02 00:00:00+00:00, total > 100).reverse().limit(9)
pattern    by_date = AccessPattern("CUSTOMER#{customer_id}", "PLACED#{placed_at}#{order_id}")
index      gsi1
partition  CUSTOMER#c1
sort key   >= PLACED#2026-01-02T00:00:00.000000Z and < PLACED$
filter     total > 100
order      descending
limit      9 results
compiled   partition of customer_id → range of placed_at → filter on total → compare again customer_id, placed_at
requests   one a page of results
best case  the first items match: 9 items are read, on DynamoDB 0.5 read units for each 4 KB
worst case no item matches: the whole range is read, on DynamoDB 128 read units for each MB; \
page(max_requests=n) reads at most n MB""",
    ),
    (
        select(Reading).where(Reading.sensor == "s", Reading.at >= day(1), Reading.at < day(9)),
        """\
call       select(Reading).where(sensor = 's', at >= 2026-01-01 00:00:00+00:00, at < 2026-01-09 00:00:00+00:00)
pattern    primary = PrimaryKey("SENSOR#{sensor}#{at:%Y%m%d}", "{at}")
index      the table itself
partition  SENSOR#s#20260101, SENSOR#s#20260102, SENSOR#s#20260103, SENSOR#s#20260104, SENSOR#s#20260105, … (8 in all)
sort key   >= 2026-01-01T00:00:00.000000Z and < 2026-01-09T00:00:00.000000Z
filter     none
compiled   partition of sensor → range of at
requests   one a page of results""",
    ),
    (
        collection(Customer.primary(customer_id="c1")),
        """\
call       collection(Customer.primary(customer_id='c1'))
pattern    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")
index      the table itself
partition  CUSTOMER#c1
sort key   all
filter     none
compiled   partition of customer_id
requests   one a page of results""",
    ),
    (
        Order.primary(customer_id="c1"),
        """\
call       Order.primary(customer_id='c1')
pattern    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
index      the table itself
partition  CUSTOMER#c1
sort key   >= ORDER# and < ORDER$
filter     _t = 'Order'
compiled   partition of customer_id → only Order
requests   one a page of results
best case  all items match: page(size=25) reads 26, and first() one, on DynamoDB 1 read unit for each 4 KB
worst case no item matches: the whole range is read, on DynamoDB 256 read units for each MB; \
page(max_requests=n) reads at most n MB
note       the range holds other entities' items too, so a filter takes this entity's""",
    ),
    (
        Order.primary(customer_id="c1").where(Order.order_id > "o2", Order.order_id < "o1"),
        """\
call       Order.primary(customer_id='c1').where(order_id > 'o2', order_id < 'o1')
pattern    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
index      the table itself
partition  CUSTOMER#c1
sort key   > ORDER#o2 and < ORDER#o1
filter     _t = 'Order'
compiled   partition of customer_id → range of order_id → only Order
requests   at most 0
note       no key can match: answered without a request""",
    ),
]

REQUESTS = "requests   one, or two with a read first, a try\n"
GUARDED = "makes them a condition of the write, and retries if they have changed"


def write_of(name: str, rest: str) -> str:
    return f"""\
call       {name} Order.primary(customer_id='c1', order_id='o1')
pattern    primary = PrimaryKey("CUSTOMER#{{customer_id}}", "ORDER#{{order_id}}")
index      the table itself
partition  CUSTOMER#c1
sort key   = ORDER#o1
{rest}"""


MADE: Final = "compiled   validate and encode → keys of by_date, by_status, open_ones, in_europe"
KEYS: Final = (
    "compiled   set status → keys of by_status with region, placed_at as read → if the item is of Order, region, "
    "placed_at as read\n"
)

WRITES: list[tuple[str, Callable[[Store], Explanation], str]] = [
    (
        "put",
        lambda db: db.explain(ORDER, when=total_over(5)),
        write_of("put", f"condition  total > 5\n{MADE} → if no item, or one of Order\nrequests   at most 1"),
    ),
    (
        "insert",
        lambda db: db.explain(ORDER, write="insert"),
        write_of("insert", f"condition  missing(_t)\n{MADE} → if no item\nrequests   at most 1"),
    ),
    (
        "delete",
        lambda db: db.explain(KEY, write="delete"),
        write_of("delete", "condition  none\ncompiled   if no item, or one of Order\nrequests   at most 1"),
    ),
    (
        "update whose index key the call gives",
        lambda db: db.explain(KEY, set_(Order.opened_at, day(3))),
        write_of(
            "update",
            "condition  _t = 'Order' and missing(_v)\n"
            "compiled   set opened_at → keys of open_ones → if the item is of Order\nrequests   at most 1",
        ),
    ),
    (
        "update that reads",
        lambda db: db.explain(KEY, set_(Order.status, "shipped"), when=total_over(5)),
        write_of(
            "update",
            f"condition  total > 5\n{KEYS}{REQUESTS}note       reads region, placed_at of the item first, {GUARDED}",
        ),
    ),
    (
        "update of an entity",
        lambda db: db.explain(ORDER, set_(Order.status, "shipped")),
        write_of(
            "update",
            "condition  _t = 'Order' and missing(_v) and region = 'EU' and placed_at = '2026-01-02T00:00:00.000000Z'\n"
            f"{KEYS}{REQUESTS}note       takes region, placed_at from the entity passed in, {GUARDED}",
        ),
    ),
]


def total_over(number: int) -> Condition | bool:
    return Order.total > number


def without_native(explanation: Explanation) -> str:
    text, separator, native = str(explanation).partition("\nnative     ")
    assert explanation.native is None or (separator and native == str(explanation.native))
    return text


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.mark.parametrize(("query", "text"), READS, ids=[str(query) for query, _ in READS])
def test_reads(counting: Counting, query: Query[Entity], text: str) -> None:
    explanation = Store(shop, counting).explain(query)
    assert without_native(explanation) == text
    assert (explanation.native is None) == (explanation.requests == 0)
    assert counting.requests == []


@pytest.mark.parametrize(("explain", "text"), [write[1:] for write in WRITES], ids=[name for name, *_ in WRITES])
def test_writes(counting: Counting, explain: Callable[[Store], Explanation], text: str) -> None:
    explanation = explain(Store(shop, counting))
    assert without_native(explanation) == text
    assert explanation.native is not None
    assert counting.requests == []


def test_updates_send_what_explain_shows(counting: Counting) -> None:
    db = Store(shop, counting)
    db.create()
    db.put(ORDER)
    counting.requests.clear()
    db.update(KEY, set_(Order.opened_at, day(3)))
    assert counting.requests == ["Update"]
    db.update(KEY, remove(Order.opened_at), increment(Order.total))
    assert counting.requests == ["Update"] * 2
    db.update(KEY, set_(Order.status, "shipped"))
    assert counting.requests == ["Update"] * 2 + ["Get", "Update"]


def test_what_cannot_be_explained() -> None:
    db = Store(shop, Counting())
    with pytest.raises(BadValue, match="without an action"):
        db.explain(ORDER, write="update")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadValue, match=r"write='upsert': say 'put', 'insert', 'save', 'merge' or 'delete'"):
        db.explain(ORDER, write="upsert")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadValue, match="is not a key"):
        db.explain("Order")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadValue, match="not an entity"):
        db.explain(KEY, write="put")


def test_the_fields_of_a_read() -> None:
    db = Store(shop, Memory())
    shown = str(db.explain(KEY, only=[Order.total]))
    assert "fields     customer_id, order_id, total" in shown
    assert "only=Only(tag='Order'" in shown
    with pytest.raises(BadValue):
        db.explain(ORDER, only=[Order.total])
    with pytest.raises(BadValue):
        db.explain(collection(Customer.primary(customer_id="c1")), only=[Order.total])


def test_why_whole_items_are_read() -> None:
    db = Store(metering, Memory())
    explained = db.explain(Judged.primary(name="j"), only=[Judged.low])
    assert explained.fields == "name, low, taken out of whole items: the model has code that sees all fields"
    assert db.explain(Seen.primary(name="s"), only=[Seen.over]).fields.endswith("over sees the other fields")
    assert db.explain(Grown.primary(name="g"), only=[Grown.text]).fields.endswith("are upgraded as a whole")


def test_a_transaction_has_the_stages_of_each_operation() -> None:
    db = Store(shop, Memory())
    db.create()
    db.put(Order(customer_id="c1", order_id="o2", placed_at=day(2)))
    db.put(Order(customer_id="c1", order_id="o3", placed_at=day(2)))
    with db.transaction() as tx:
        tx.insert(ORDER)
        tx.update(Order.primary(customer_id="c1", order_id="o2"), set_(Order.opened_at, day(3)))
        tx.check(Order.primary(customer_id="c1", order_id="o3"))
        explanation = db.explain(tx)
    made = MADE.removeprefix("compiled   ")
    assert explanation.compiled == (
        f"{made} → if no item",
        "set opened_at → keys of open_ones → if the item is of Order",
        "if the item is of Order",
    )
    assert str(explanation).count("\ncompiled   ") == 3
