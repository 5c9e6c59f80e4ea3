"""`query`, `first` and `count` on the primary key: ranges of every component, filters, direction, limit."""
# ruff: noqa: D101, RUF012  # a test's name says what it shows; its data is never changed

from collections.abc import Callable
from itertools import product
from typing import Any, TypeAlias, cast

import pytest

from odm import BadValue, KeyValueError, NoAccessPattern, Query, Store, between, is_in, not_, select, size, starts_with
from odm.testing.entities import Customer, Event, Order, OrderLine, Sample, Score, Setting, Sheet, Visit, hashes
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at, days, fill

Case: TypeAlias = tuple[Query[Event], Callable[[Event], bool]]

ALL = Event.primary(log="l")
EVENTS = [
    Event(log="l", level=level, at=at(hour), name=name, text=f"{level}{name}")
    for level, hour, name in product((1, 10, 200), (1, 2), ("a", "ab", "b#c"))
]
"""In key order."""

LEVEL = Event.primary(log="l", level=10)
HOUR = Event.primary(log="l", level=10, at=at(2))

CASES: dict[str, Case] = {
    "all": (ALL, lambda e: True),
    "first given": (LEVEL, lambda e: e.level == 10),
    "two given": (HOUR, lambda e: (e.level, e.at) == (10, at(2))),
    "all given": (Event.primary(log="l", level=10, at=at(2), name="ab"), lambda e: e.text == "10ab" and e.at == at(2)),
    "first =": (ALL.where(Event.level == 10), lambda e: e.level == 10),
    "first <": (ALL.where(Event.level < 10), lambda e: e.level < 10),
    "first <=": (ALL.where(Event.level <= 10), lambda e: e.level <= 10),
    "first >": (ALL.where(Event.level > 10), lambda e: e.level > 10),
    "first >=": (ALL.where(Event.level >= 10), lambda e: e.level >= 10),
    "first between": (ALL.where(between(Event.level, 2, 10)), lambda e: e.level == 10),
    "first two bounds": (ALL.where(Event.level > 1, Event.level < 200), lambda e: e.level == 10),
    "first below the field's bounds": (ALL.where(Event.level > -5, Event.level < 1000), lambda e: True),
    "first above the field's bounds": (ALL.where(Event.level > 1000), lambda e: False),
    "first from the other side": (ALL.where(cast(Any, 10) < Event.level), lambda e: e.level > 10),
    "middle <": (LEVEL.where(Event.at < at(2)), lambda e: (e.level, e.at) == (10, at(1))),
    "middle <=": (LEVEL.where(Event.at <= at(2)), lambda e: e.level == 10),
    "middle >": (LEVEL.where(Event.at > at(1)), lambda e: (e.level, e.at) == (10, at(2))),
    "middle >=": (LEVEL.where(Event.at >= at(2)), lambda e: (e.level, e.at) == (10, at(2))),
    "middle between": (LEVEL.where(between(Event.at, at(0), at(1))), lambda e: (e.level, e.at) == (10, at(1))),
    "last <": (HOUR.where(Event.name < "ab"), lambda e: (e.level, e.at, e.name) == (10, at(2), "a")),
    "last <=": (HOUR.where(Event.name <= "ab"), lambda e: (e.level, e.at) == (10, at(2)) and e.name <= "ab"),
    "last >": (HOUR.where(Event.name > "a"), lambda e: (e.level, e.at) == (10, at(2)) and e.name > "a"),
    "last >=": (HOUR.where(Event.name >= "b#c"), lambda e: (e.level, e.at) == (10, at(2)) and e.name == "b#c"),
    "last prefix": (
        HOUR.where(starts_with(Event.name, "a")),
        lambda e: (e.level, e.at) == (10, at(2)) and e.name < "b",
    ),
    "last prefix #": (
        HOUR.where(starts_with(Event.name, "b#")),
        lambda e: (e.level, e.at) == (10, at(2)) and e.name > "b",
    ),
    "equal, then range": (ALL.where(Event.level == 10, Event.at > at(1)), lambda e: (e.level, e.at) == (10, at(2))),
    "range, rest a filter": (ALL.where(Event.level > 1, Event.at == at(1)), lambda e: e.level > 1 and e.at == at(1)),
    "a later component is a filter": (ALL.where(Event.name == "ab"), lambda e: e.name == "ab"),
    "an attribute is a filter": (ALL.where(Event.text == "10ab"), lambda e: e.text == "10ab"),
    "range and filter": (
        ALL.where(Event.level >= 10, size(Event.text) > 4),
        lambda e: e.level >= 10 and len(e.text) > 4,
    ),
    "and": (ALL.where((Event.level > 1) & (Event.level < 200)), lambda e: e.level == 10),
    "or is a filter": (ALL.where((Event.level == 1) | (Event.name == "a")), lambda e: e.level == 1 or e.name == "a"),
    "not is a filter": (ALL.where(not_(Event.level == 1)), lambda e: e.level != 1),
    "<> is a filter": (ALL.where(Event.level != 1), lambda e: e.level != 1),
    "is_in is a filter": (ALL.where(is_in(Event.level, [1, 200])), lambda e: e.level != 10),
    "contradiction": (ALL.where(Event.level > 10, Event.level < 10), lambda e: False),
    "select": (select(Event).where(Event.log == "l", Event.level > 10), lambda e: e.level > 10),
}


class TestRanges:
    def test_forwards(self, db: Store) -> None:
        fill(db, EVENTS)
        events_by_case = {name: list(db.query(query)) for name, (query, _) in CASES.items()}
        assert events_by_case == {name: [e for e in EVENTS if matches(e)] for name, (_, matches) in CASES.items()}

    def test_backwards(self, db: Store) -> None:
        fill(db, EVENTS)
        events_by_case = {name: list(db.query(query.reverse())) for name, (query, _) in CASES.items()}
        assert events_by_case == {name: [e for e in EVENTS[::-1] if matches(e)] for name, (_, matches) in CASES.items()}

    def test_count_and_first_agree_with_query(self, db: Store) -> None:
        fill(db, EVENTS)
        answers = {name: (db.count(query), db.first(query)) for name, (query, _) in CASES.items()}
        matching = {name: [e for e in EVENTS if matches(e)] for name, (_, matches) in CASES.items()}
        assert answers == {name: (len(events), events[0] if events else None) for name, events in matching.items()}

    def test_an_empty_range_sends_nothing(self, offline: Store) -> None:
        query = ALL.where(Event.level > 10, Event.level < 5)
        assert list(offline.query(query)) == []
        assert offline.count(query) == 0
        assert offline.first(query) is None
        assert offline.page(query).cursor is None

    def test_stays_within_its_partition(self, db: Store) -> None:
        mine = fill(db, [Event(log="l", level=1, at=at(1), name="a")])
        fill(db, [Event(log=log, level=1, at=at(1), name="a") for log in ("l#1", "l1", "k", "", "L") if log])
        assert list(db.query(ALL)) == mine
        assert list(db.query(ALL.reverse())) == mine

    def test_of_one_entity_leaves_others_in_its_range_out(self, db: Store) -> None:
        orders = fill(db, [Order(customer_id="c", order_id=name) for name in ("o", "o1")])
        lines = fill(db, [OrderLine(customer_id="c", order_id="o", number=n, sku="x") for n in (1, 2)])
        db.put(Customer(customer_id="c", name="Ann"))
        assert list(db.query(Order.primary(customer_id="c"))) == orders
        assert list(db.query(OrderLine.primary(customer_id="c", order_id="o"))) == lines
        assert db.count(Order.primary(customer_id="c").where(starts_with(Order.order_id, "o"))) == 2
        assert db.first(Order.primary(customer_id="c").reverse()) == orders[1]

    def test_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        items = fill(db, [Setting(name=name, value="v") for name in ("a", "ab")])
        assert list(db.query(Setting.primary(name="a"))) == items[:1]
        assert list(db.query(Setting.primary(name="a").reverse().where(Setting.value == "w"))) == []
        assert db.count(Setting.primary(name="ab")) == 1


class TestDescending:
    SCORES = [
        Score(game="g", points=points, player=player) for points, player in ((900, "b"), (50, "a"), (50, "c"), (7, "a"))
    ]

    def test_order_and_ranges_are_turned(self, db: Store) -> None:
        fill(db, self.SCORES)
        query = Score.primary(game="g")
        assert list(db.query(query)) == self.SCORES
        assert list(db.query(query.reverse())) == self.SCORES[::-1]
        assert list(db.query(query.where(Score.points > 7))) == self.SCORES[:3]
        assert list(db.query(query.where(Score.points >= 50, Score.points < 900))) == self.SCORES[1:3]
        assert list(db.query(query.where(Score.points <= 50))) == self.SCORES[1:]
        assert list(db.query(Score.primary(game="g", points=50).where(Score.player > "a"))) == self.SCORES[2:3]


class TestLossy:
    VISITS = [
        Visit(page="p", at=at(1, 0, second, micro=micro), visitor=name)
        for second, micro, name in ((1, 500_000, "a"), (1, 100, "b"), (2, 0, "a"), (3, 900_000, "a"))
    ]
    SAMPLES = [
        Sample(station="s", at=at(hour, day=day), value=day) for day, hour in ((1, 3), (1, 22), (2, 0), (3, 5), (5, 1))
    ]

    def test_a_call_names_the_unit_that_holds_the_value(self, db: Store) -> None:
        fill(db, self.VISITS)
        assert list(db.query(Visit.primary(page="p", at=at(1, 0, 1, micro=3)))) == self.VISITS[:2]

    def test_a_condition_keeps_its_exact_meaning(self, db: Store) -> None:
        fill(db, self.VISITS)
        query = Visit.primary(page="p")
        a, b, c, d = self.VISITS
        assert list(db.query(query.where(Visit.at > a.at))) == [c, d]
        assert list(db.query(query.where(Visit.at >= a.at, Visit.at < d.at))) == [a, c]
        assert list(db.query(query.where(Visit.at <= a.at))) == [a, b]
        assert list(db.query(query.where(Visit.at == b.at))) == [b]
        assert list(db.query(query.where(between(Visit.at, b.at, c.at)))) == [a, b, c]

    def test_a_range_of_a_partition_reads_every_bucket(self, db: Store) -> None:
        fill(db, self.SAMPLES)
        query = select(Sample).where(Sample.station == "s", Sample.at > at(3), Sample.at < at(1, day=5))
        assert list(db.query(query)) == self.SAMPLES[1:4]
        assert list(db.query(query.reverse())) == self.SAMPLES[3:0:-1]
        assert list(db.query(query.limit(2))) == self.SAMPLES[1:3]
        assert db.count(query) == 3
        assert db.first(query.reverse()) == self.SAMPLES[3]

    def test_pages_cross_buckets(self, db: Store) -> None:
        fill(db, self.SAMPLES)
        query = select(Sample).where(Sample.station == "s", between(Sample.at, at(0), at(23, day=6)))
        for ordered, expected in ((query, self.SAMPLES), (query.reverse(), self.SAMPLES[::-1])):
            samples: list[Sample] = []
            cursor = None
            while len(samples) < 5:
                page = db.page(ordered, size=2, after=cursor)
                samples, cursor = [*samples, *page.items], page.cursor
                assert (cursor is None) == (len(samples) == 5)
            assert samples == expected

    def test_a_call_reads_one_bucket(self, db: Store) -> None:
        fill(db, self.SAMPLES)
        assert list(db.query(Sample.primary(station="s", at=at(12)))) == self.SAMPLES[:2]
        assert list(db.query(Sample.primary(station="s", at=at(12, day=4)))) == []

    def test_a_call_is_also_the_key_of_one_item(self, db: Store) -> None:
        fill(db, self.SAMPLES)
        assert db.get(Sample, station="s", at=at(3)) == self.SAMPLES[0]
        assert db.get(Sample, station="s", at=at(12)) is None
        assert db.delete(Sample.primary(station="s", at=at(22)))
        assert list(db.query(Sample.primary(station="s", at=at(0)))) == self.SAMPLES[:1]

    def test_refuses_a_range_of_too_many_buckets_or_none(self, offline: Store) -> None:
        query = select(Sample).where(Sample.station == "s", Sample.at > at(0))
        with pytest.raises(NoAccessPattern, match="lacks at"):
            offline.query(query)
        with pytest.raises(BadValue, match=r"1,?000"):
            offline.query(query.where(Sample.at < at(0) + days(2000)))


class TestLimit:
    def test_counts_results_not_what_was_read(self, db: Store) -> None:
        fill(db, EVENTS)
        query = ALL.where(Event.name == "ab")
        assert len(list(db.query(query.limit(4)))) == 4
        assert list(db.query(query.limit(1).reverse())) == [EVENTS[-2]]
        assert len(list(db.query(query.limit(100)))) == 6

    def test_count_keeps_to_the_limit(self, db: Store) -> None:
        fill(db, EVENTS)
        assert db.count(ALL.limit(5)) == 5
        assert db.count(ALL.where(Event.name == "ab").limit(5)) == 5
        assert db.count(ALL.where(Event.name == "ab").limit(50)) == 6

    @pytest.mark.parametrize("limit", [2**31, 2**63])
    def test_may_be_larger_than_any_service_counts(self, db: Store, limit: int) -> None:
        fill(db, EVENTS)
        assert list(db.query(ALL.limit(limit))) == list(db.query(ALL))
        assert db.count(ALL.limit(limit)) == len(EVENTS)
        assert db.page(ALL, size=limit).items == list(db.query(ALL))

    @pytest.mark.parametrize("bad", [0, -1, True, 1.5])
    def test_refuses_what_is_not_a_number_of_results(self, bad: Any) -> None:
        with pytest.raises(BadValue):
            ALL.limit(bad)


class TestPlanning:
    def test_a_query_without_pattern_is_refused_with_all_that_there_are(self, offline: Store) -> None:
        with pytest.raises(NoAccessPattern, match=r"primary = PrimaryKey.*lacks log(.|\n)*by_name = AccessPattern"):
            offline.query(select(Event).where(Event.name == "a"))

    def test_a_call_needs_all_partition_fields_and_no_gap(self) -> None:
        with pytest.raises(KeyValueError, match="log"):
            Event.primary(level=1)  # type: ignore[call-arg]
        with pytest.raises(KeyValueError, match="level"):
            Event.primary(log="l", at=at(1))  # type: ignore[call-arg]
        with pytest.raises(KeyValueError, match="text"):
            Event.primary(log="l", text="x")  # type: ignore[call-arg]

    def test_bounds_of_a_wrong_type_are_refused(self, offline: Store) -> None:
        for condition in (
            Event.level > cast(Any, "x"),
            Event.at > at(1).replace(tzinfo=None),
            Event.text == cast(Any, 1),
        ):
            with pytest.raises(BadValue):
                offline.query(ALL.where(condition))

    def test_conditions_of_another_entity_and_plain_bools_are_refused(self, offline: Store) -> None:
        with pytest.raises(BadValue, match=r"Sheet"):
            offline.query(ALL.where(Sheet.title == "x"))  # type: ignore[odm]
        with pytest.raises(TypeError, match="True"):
            ALL.where(True)

    def test_what_is_no_query_is_refused(self, offline: Store) -> None:
        with pytest.raises(BadValue):
            offline.query(cast(Any, EVENTS[0]))
