"""Which pattern, partition and range a query gets, and which of its conditions stay a filter."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from odm import (
    AccessPattern,
    BadValue,
    Entity,
    KeyValueError,
    NoAccessPattern,
    PrimaryKey,
    Query,
    Shards,
    Store,
    Table,
    between,
    exists,
    is_in,
    missing,
    not_,
    select,
    some,
    starts_with,
)
from odm.backends.local import Memory
from odm.expressions.nodes import Compare, Const, Path
from odm.planner.key_conditions import key_test_of
from odm.results import Explanation
from tests.shop import Counting, Customer, Item, Order, Reading, day, shop

C1 = Order.customer_id == "c1"
PLACED_AT: Any = Order.placed_at
AT = "2026-01-{:02}T00:00:00.000000Z"


visits = Table("visits")


class Visit(Entity, table=visits):
    """A partition a day, in two shards."""

    site: str
    at: datetime

    primary = PrimaryKey("SITE#{site}#{at:%Y%m%d}", "{at}", shards=Shards(2, by="at"))


class Job(Entity, table=visits):
    """Two patterns with the same keys, the first one in shards; and a day that the partition has twice."""

    job_id: str
    queue: str
    at: datetime

    primary = PrimaryKey("JOB#{job_id}")
    spread = AccessPattern("SPREAD#{queue}", "{job_id}", shards=Shards(4, by="job_id"))
    queued = AccessPattern("QUEUED#{queue}", "{job_id}")
    by_day = AccessPattern("{at:%Y%m%d}#DAY#{at:%Y}", "{at}")


def explain(query: Query[Any], table: Table = shop) -> Explanation:
    return Store(table, Memory()).explain(query)


def served(query: Query[Any]) -> tuple[str, str | None, str]:
    """The range, and what stays as a filter."""
    explanation = explain(query)
    lo, hi = explanation.range
    return lo, hi, "" if explanation.filter is None else str(explanation.filter)


RANGES: list[Any] = [
    pytest.param(Order.by_date(customer_id="c1"), "PLACED#", "PLACED$", "", id="partition"),
    pytest.param(
        Order.by_date(customer_id="c1", placed_at=day(2)),
        f"PLACED#{AT.format(2)}#",
        f"PLACED#{AT.format(2)}$",
        "",
        id="a leading sort field",
    ),
    pytest.param(
        Order.by_date(customer_id="c1", placed_at=day(2), order_id="o#1"),
        f"PLACED#{AT.format(2)}#o$S1",
        f"PLACED#{AT.format(2)}#o$S1\0",
        "",
        id="every sort field",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at >= day(2)),
        f"PLACED#{AT.format(2)}",
        "PLACED$",
        "",
        id="from",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at > day(2)),
        f"PLACED#{AT.format(2)}$",
        "PLACED$",
        "",
        id="above",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at < day(2)),
        "PLACED#",
        f"PLACED#{AT.format(2)}",
        "",
        id="below",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at <= day(2)),
        "PLACED#",
        f"PLACED#{AT.format(2)}$",
        "",
        id="to",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(between(Order.placed_at, day(2), day(3))),
        f"PLACED#{AT.format(2)}",
        f"PLACED#{AT.format(3)}$",
        "",
        id="between",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where((Order.placed_at >= day(2)) & (Order.placed_at < day(3))),
        f"PLACED#{AT.format(2)}",
        f"PLACED#{AT.format(3)}",
        "",
        id="and",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at >= day(2), Order.placed_at >= day(3)),
        f"PLACED#{AT.format(3)}",
        "PLACED$",
        "",
        id="two bounds",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at == day(2)),
        f"PLACED#{AT.format(2)}#",
        f"PLACED#{AT.format(2)}$",
        "",
        id="equality",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at == day(2), Order.order_id > "o1"),
        f"PLACED#{AT.format(2)}#o1\0",
        f"PLACED#{AT.format(2)}$",
        "",
        id="equality then a range on the last",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at > day(2), Order.order_id == "o1"),
        f"PLACED#{AT.format(2)}$",
        "PLACED$",
        "order_id = 'o1'",
        id="what comes behind a range is a filter",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.order_id == "o1"),
        "PLACED#",
        "PLACED$",
        "order_id = 'o1'",
        id="what comes behind a gap is a filter",
    ),
    pytest.param(Order.primary(customer_id="c1", order_id="o1"), "ORDER#o1", "ORDER#o1\0", "_t = 'Order'", id="a key"),
    pytest.param(
        Order.primary(customer_id="c1").where(starts_with(Order.order_id, "2026")),
        "ORDER#2026",
        "ORDER#2027",
        "_t = 'Order'",
        id="prefix",
    ),
    pytest.param(
        Order.by_status(status="open").where(Order.region == "EU", Order.placed_at > day(2)),
        "EU#",
        "EU#7973-98-97T99:99:99.999999Z",
        "",
        id="descending",
    ),
    pytest.param(
        Item.primary(customer_id="c1", order_id="o1").where(Item.number < 5000),
        "ORDER#o1#ITEM#",
        "ORDER#o1#ITEM$",
        "_t = 'Item'",
        id="a bound outside",
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.customer_id == "c2"),
        "PLACED#",
        "PLACED$",
        "customer_id = 'c2'",
        id="a second value for the partition",
    ),
    pytest.param(
        Reading.primary(sensor="s", at=day(2, 5)), "", None, "", id="a unit and not the exact time in the sort"
    ),
    pytest.param(
        Reading.primary(sensor="s", at=day(2, 5)).where(Reading.at >= day(2, 5)),
        "2026-01-02T05:00:00.000000Z",
        None,
        "",
        id="a range within a unit",
    ),
    pytest.param(Reading.by_hour(at=day(2, 5)), "", None, "", id="a unit"),
]


@pytest.mark.parametrize(("query", "lo", "hi", "filter_"), RANGES)
def test_conditions_on_key_fields_become_the_range(query: Query[Any], lo: str, hi: str | None, filter_: str) -> None:
    assert served(query) == (lo, hi, filter_)


FILTERS: list[Any] = [
    (Order.total > 100, "total > 100"),
    (Order.placed_at != day(2), f"placed_at <> '{AT.format(2)}'"),
    (is_in(Order.placed_at, [day(2)]), f"placed_at in ('{AT.format(2)}')"),
    (not_(Order.placed_at > day(2)), f"not placed_at > '{AT.format(2)}'"),
    (exists(Order.placed_at), "exists(placed_at)"),
    (missing(Order.opened_at), "missing(opened_at)"),
    (Order.tags[0] == "a", "tags[0] = 'a'"),
    (
        Order.placed_at > some(Order.opened_at),
        f"placed_at > opened_at or (missing(placed_at) and '{AT.format(1)}' > opened_at)",
    ),
]


@pytest.mark.parametrize(("condition", "filter_"), FILTERS, ids=[text for _, text in FILTERS])
def test_other_conditions_stay_a_filter(condition: Any, filter_: str) -> None:
    assert served(Order.by_date(customer_id="c1").where(condition)) == ("PLACED#", "PLACED$", filter_)


def test_an_or_stays_a_filter() -> None:
    either: Any = Order.placed_at > day(2)
    _, _, filter_ = served(Order.by_date(customer_id="c1").where(either | (Order.total > 100)))
    assert filter_ == f"placed_at > '{AT.format(2)}' or total > 100"


CHOICES: list[Any] = [
    pytest.param(select(Order).where(C1), "primary", id="the primary key before an index"),
    pytest.param(select(Order).where(C1, Order.order_id == "o1"), "primary", id="the whole key"),
    pytest.param(select(Order).where(C1, Order.placed_at > day(2)), "by_date", id="a range before none"),
    pytest.param(
        select(Order).where(C1, Order.placed_at > day(2), Order.order_id == "o1"), "primary", id="equality first"
    ),
    pytest.param(select(Order).where(Order.status == "open"), "by_status", id="an index"),
    pytest.param(select(Order).where(Order.status == "open", C1), "primary", id="primary on a draw"),
    pytest.param(select(Customer).where(Customer.email == "x"), "by_email", id="another entity"),
    pytest.param(select(Order).where(some(Order.opened_at) > day(2)), "open_ones", id="sparse, asked for"),
    pytest.param(select(Order).where(Order.region == "EU"), "in_europe", id="when, asked for"),
    pytest.param(
        select(Reading).where(Reading.sensor == "s", Reading.at >= day(1), Reading.at < day(3)), "primary", id="buckets"
    ),
    pytest.param(select(Reading).where(Reading.at == day(1)), "by_hour", id="one bucket"),
]


@pytest.mark.parametrize(("query", "pattern"), CHOICES)
def test_the_planner_picks_the_pattern(query: Query[Any], pattern: str) -> None:
    assert explain(query).pattern.split()[0] == pattern


SILENT: list[Any] = [
    pytest.param(select(Order), id="all"),
    pytest.param(select(Order).where(Order.opened_at == None), id="none"),  # noqa: E711
    pytest.param(select(Order).where(Order.placed_at > day(1)), id="the range of a when pattern"),
    pytest.param(select(Order).where(Order.region > "A"), id="another condition than when"),
]


@pytest.mark.parametrize("query", SILENT)
def test_a_sparse_pattern_is_never_picked_silently(query: Query[Any]) -> None:
    with pytest.raises(NoAccessPattern, match=r"open_ones = .* is sparse and may leave items out: name it to use it"):
        explain(query)


def test_an_open_range_over_buckets_is_no_match_for_them() -> None:
    with pytest.raises(NoAccessPattern, match=r"primary = PrimaryKey.*lacks at >= \.\.\. and at < \.\.\."):
        explain(select(Reading).where(Reading.sensor == "s", Reading.at >= day(1)))


CALLS: list[Any] = [
    pytest.param(Order.by_date, "needs 'customer_id': give customer_id, then any leading", id="missing"),
    pytest.param(
        lambda: Order.by_date(custmer_id="c"),  # type: ignore[call-arg]
        "no key field 'custmer_id': did you mean 'customer_id'",
        id="typo",
    ),
    pytest.param(
        lambda: Order.by_date(customer_id="c", total=5),  # type: ignore[arg-type, call-arg]
        "no key field 'total': give customer_id",
        id="no key",
    ),
    pytest.param(
        lambda: Order.by_date(customer_id="c", order_id="o"),  # type: ignore[call-arg]
        "leaves out 'placed_at' before a later",
        id="gap",
    ),
    pytest.param(lambda: Item.primary(customer_id="c", order_id="o", number=5000), r"Item\.number: 5000", id="bounds"),
    pytest.param(lambda: Order.by_status(status="opn"), r"Order\.status: 'opn' is refused", id="validator"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_a_pattern_call_that_does_not_fit_names_the_right_fields(call: Any, says: str) -> None:
    with pytest.raises(BadValue, match=says):
        call()


VALUES: list[Any] = [
    pytest.param(lambda: Order.primary(customer_id=""), KeyValueError, r"customer_id=''", id="empty"),
    pytest.param(
        lambda: Order.by_date(customer_id="c", placed_at=datetime(2026, 1, 1)), BadValue, "placed_at", id="naive"
    ),
    pytest.param(lambda: select(Order).where(C1, PLACED_AT > "x"), BadValue, r"placed_at", id="type of a bound"),
    pytest.param(
        lambda: select(Order).where(Customer.customer_id == "c"),  # type: ignore[odm]
        BadValue,
        r"Customer\.customer_id is a field of Customer.*not of Order",
        id="another entity's field",
    ),
    pytest.param(
        lambda: Order.by_date(customer_id="c").where(Customer.email == "x"),  # type: ignore[odm]
        BadValue,
        r"field of Customer",
        id="another entity's filter",
    ),
]


@pytest.mark.parametrize(("make", "error", "says"), VALUES)
def test_values_are_checked_before_anything_is_sent(make: Any, error: type[Exception], says: str) -> None:
    backend = Counting()
    with pytest.raises(error, match=says):
        Store(shop, backend).query(make())
    assert backend.requests == []


EMPTY: list[Any] = [
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at > day(3), Order.placed_at < day(2)), id="crossed"
    ),
    pytest.param(
        Order.by_date(customer_id="c1").where(Order.placed_at > day(3), Order.placed_at <= day(3)), id="touching"
    ),
    pytest.param(Item.primary(customer_id="c1", order_id="o1").where(Item.number > 5000), id="above all"),
    pytest.param(Item.primary(customer_id="c1", order_id="o1").where(Item.number < -5), id="below all"),
    pytest.param(select(Reading).where(Reading.sensor == "s", between(Reading.at, day(3), day(2))), id="no bucket"),
]


@pytest.mark.parametrize("query", EMPTY)
def test_an_empty_range_is_answered_without_a_request(query: Query[Any]) -> None:
    backend = Counting()
    db = Store(shop, backend)
    page = db.page(query)
    assert (list(db.query(query)), db.first(query), db.count(query), page.items, page.cursor) == ([], None, 0, [], None)
    assert db.delete_all(query) == 0
    assert backend.requests == []
    explanation = db.explain(query)
    assert (explanation.requests, explanation.note) == (0, "no key can match: answered without a request")


@pytest.mark.parametrize("what", [5, None, "Order", Order(customer_id="c", order_id="o")], ids=repr)
def test_what_is_no_query_is_refused(what: Any) -> None:
    with pytest.raises(BadValue, match=r"is not a query: call a pattern, such as Order\.by_date"):
        Store(shop, Memory()).query(what)


@pytest.mark.parametrize("what", [5, None, Order(customer_id="c", order_id="o")], ids=repr)
def test_select_takes_a_class(what: Any) -> None:
    with pytest.raises(BadValue, match=r"give the entity class, as in select\(Order\)"):
        select(what)


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "5", None])
def test_limits_are_positive_ints(most: Any) -> None:
    with pytest.raises(BadValue, match="an int of 1 or more"):
        Order.by_date(customer_id="c").limit(most)


def test_one_partition_is_picked_before_shards() -> None:
    assert "QUEUED" in explain(select(Job).where(Job.queue == "q"), visits).pattern


def test_a_time_may_be_in_a_partition_twice() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    days = explain(select(Job).where(Job.at >= start, Job.at < start + timedelta(days=2)), visits).partitions
    assert days == ("20260101#DAY#2026", "20260102#DAY#2026")


@pytest.mark.parametrize(("op", "mirrored"), [("<", ">"), ("<=", ">="), (">", "<"), (">=", "<=")])
def test_a_comparison_may_begin_with_the_value(op: Any, mirrored: str) -> None:
    condition = Compare(op, Const(3), Path(("level",)))
    test = key_test_of(condition)
    assert test is not None
    assert test.range(condition) == ((mirrored, 3),)


def test_a_query_reads_at_most_1000_partitions() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    reads = select(Visit).where(Visit.site == "s", Visit.at >= start)
    assert len(explain(reads.where(Visit.at < start + timedelta(days=500)), visits).partitions) == 1000
    with pytest.raises(BadValue, match=r"501 partitions of .* each of 2 shards, 1002 in all and more than 1000"):
        explain(reads.where(Visit.at < start + timedelta(days=501)), visits)


def test_a_query_prints_as_it_was_written_and_is_immutable() -> None:
    query = Order.by_date(customer_id="c1")
    more = query.where(Order.total > 5).reverse().limit(3)
    assert str(more) == "Order.by_date(customer_id='c1').where(total > 5).reverse().limit(3)"
    assert (str(query), str(select(Order))) == ("Order.by_date(customer_id='c1')", "select(Order)")
    assert more.reverse().descending is False
