"""Random queries on random data give what a list comprehension over the data gives, in the same order.

The model knows nothing of keys: it judges conditions on Python values and sorts by tuples of values.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import attrgetter, eq, ge, gt, le, lt
from typing import Annotated, Any, NamedTuple
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from odm import AccessPattern, Entity, PrimaryKey, Query, Shards, Store, Table, between, collection, select, starts_with
from odm.backends.local import Memory
from odm.testing.suite.helpers import walk
from tests.effort import times

pytestmark = pytest.mark.slow

table = Table("random")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Visit(Entity, table=table):
    site: str
    at: datetime
    number: Annotated[int, Field(ge=-3, le=99)]
    page: str
    score: int = 0
    flag: str | None = None

    primary = PrimaryKey("SITE#{site}", "VISIT#{at}#{number}")
    by_page = AccessPattern("PAGE#{page}", "{number:desc}#{at}", index="gsi1")
    by_day = AccessPattern("SITE#{site}#{at:%Y%m%d}", "{page}#{score}", index="gsi2")
    daily = AccessPattern("PAGE#{page}", "{at:%Y%m%d}#{number}")
    flagged = AccessPattern("SITE#{site}", "{flag}#{score:desc}")
    spread = AccessPattern("PAGE#{page}", "{number:desc}#{at}", shards=Shards(3, by="site"), index="gsi3")
    spread_by_day = AccessPattern(
        "SITE#{site}#{at:%Y%m%d}", "{page}#{score}#{number}", shards=Shards(11, by="number"), index="gsi2b"
    )
    at_random = AccessPattern("PAGE#{page}", "{at}#{number}#{site}", shards=Shards(4))
    local = AccessPattern("SITE#{site}", "BY_PAGE#{page}#{at}#{number}", local=True)


class Site(Entity, table=table):
    site: str
    score: int = 0

    primary = PrimaryKey("SITE#{site}", "VISIT")
    by_page = AccessPattern("PAGE#{site}", "{score}", index="gsi1")
    in_a_shard = AccessPattern("PAGE#{site}#1", "{score}", index="gsi3")


class Bound(NamedTuple):
    """One condition, for odm and as a predicate."""

    field: str
    test: Callable[[Any], bool]
    condition: Any


class Case(NamedTuple):
    """One query, and the same in Python: which items, in which order."""

    query: Query[Visit]
    matches: Callable[[Visit], bool]
    order: Callable[[Visit], Any]
    limit: int | None
    reverse: bool

    def expected(self, visits: Sequence[Visit]) -> list[Visit]:
        found = sorted(filter(self.matches, visits), key=self.order, reverse=self.reverse)
        return found[: self.limit]


SITES = st.sampled_from(["a", "a#", "é"])
PAGES = st.sampled_from(["x", "x#1", "x$", "ÿ"])
TIMES = st.builds(
    lambda hours, micros: EPOCH + timedelta(hours=hours, microseconds=micros),
    st.integers(0, 60),
    st.sampled_from([0, 1]),
)
NUMBERS = st.integers(-3, 99)
SCORES = st.one_of(st.integers(-20, 20), st.integers(-(10**26) + 1, 10**26 - 1))
FLAGS = st.sampled_from([None, "f", "g#"])
VALUES = {"site": SITES, "at": TIMES, "number": NUMBERS, "page": PAGES, "score": SCORES, "flag": FLAGS.filter(bool)}
BEYOND = {**VALUES, "number": st.integers(-200, 200)}

VISITS = st.lists(
    st.builds(Visit, site=SITES, at=TIMES, number=NUMBERS, page=PAGES, score=SCORES, flag=FLAGS),
    min_size=8,
    max_size=30,
    unique_by=attrgetter("site", "at", "number"),
)
OPERATORS = {"==": eq, "<": lt, "<=": le, ">": gt, ">=": ge}

PATTERNS: dict[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Visit], Any]]] = {
    "primary": (("site",), ("at", "number"), attrgetter("at", "number")),
    "by_page": (("page",), ("number", "at"), lambda visit: (-visit.number, visit.at, visit.site)),
    "by_day": (("site", "at"), ("page", "score"), attrgetter("page", "score", "at", "number")),
    "daily": (("page",), ("at", "number"), lambda visit: (visit.at.date(), visit.number, visit.site, visit.at)),
    "flagged": (("site",), ("flag", "score"), lambda visit: (visit.flag, -visit.score, visit.at, visit.number)),
    "spread": (
        ("page",),
        ("number", "at"),
        lambda visit: (-visit.number, visit.at, crc32(visit.site.encode()) % 3, visit.site),
    ),
    "spread_by_day": (("site", "at"), ("page", "score", "number"), attrgetter("page", "score", "number", "at")),
    "at_random": (("page",), ("at", "number", "site"), attrgetter("at", "number", "site")),
    "local": (("site",), ("page", "at", "number"), attrgetter("page", "at", "number")),
}
"""Per pattern: fields of the partition, of the sort, and what orders its items, the item key where the sort ties."""


LOSSY = {"by_day": "at", "daily": "at", "spread_by_day": "at"}


def values(name: str, visits: Sequence[Visit]) -> st.SearchStrategy[Any]:
    """Values of a field: those of the data as often as others."""
    known = [value for visit in visits if (value := getattr(visit, name)) is not None]
    return (st.sampled_from(known) | VALUES[name]) if known else VALUES[name]


@st.composite
def bounds(draw: st.DrawFn, visits: Sequence[Visit], likely: tuple[str, ...] = ()) -> Bound:
    """A condition on a field, half the time on a likely one: a comparison, between, or a prefix."""
    name = draw(st.sampled_from([*VALUES, *(likely * len(VALUES))]))
    reference: Any = getattr(Visit, name)
    kind = draw(st.sampled_from([*OPERATORS, "between", "prefix"]))
    if kind == "prefix" and name in {"page", "flag"}:
        prefix = draw(st.sampled_from(["x", "x#", "g", "ÿ", "z"]))
        return Bound(name, lambda value: value.startswith(prefix), starts_with(reference, prefix))
    wide = values(name, visits) | BEYOND[name]
    if kind == "between":
        low, high = draw(wide), draw(wide)
        return Bound(name, lambda value: low <= value <= high, between(reference, low, high))
    operator: Callable[[Any, Any], bool] = OPERATORS.get(kind, ge)
    value = draw(values(name, visits) if operator is eq else wide)
    return Bound(name, lambda other: operator(other, value), operator(reference, value))


@st.composite
def cases(draw: st.DrawFn, visits: Sequence[Visit]) -> Case:
    """A call of a pattern with leading sort fields, conditions on any field, a direction and a limit."""
    pattern = draw(st.sampled_from([*PATTERNS]))
    partition, sort, order = PATTERNS[pattern]
    leading = sort[: draw(st.integers(0, len(sort)))]
    near = draw(st.sampled_from(visits))
    given = {name: getattr(near, name) or draw(VALUES[name]) for name in (*partition, *leading)}
    tests = [(name, _names(value, in_units=LOSSY.get(pattern) == name)) for name, value in given.items()]
    query = getattr(Visit, pattern)(**given)
    behind = sort[len(leading) : len(leading) + 1]
    for bound in draw(st.lists(bounds([near]) | bounds([near], behind) | bounds(visits, behind), max_size=3)):
        query = query.where(bound.condition)
        tests.append((bound.field, bound.test))
    if pattern == "flagged":
        tests.append(("flag", lambda value: value is not None))
    reverse, limit = draw(st.booleans()), draw(st.none() | st.integers(1, 6))
    query = query.reverse() if reverse else query
    query = query if limit is None else query.limit(limit)
    return Case(query, _all(tests), order, limit, reverse)


def _names(value: Any, *, in_units: bool) -> Callable[[Any], bool]:
    """What a value in a pattern call names: itself, or the day of a timestamp."""
    return (lambda other: other.date() == value.date()) if in_units else (lambda other: other == value)


def _all(tests: Sequence[tuple[str, Callable[[Any], bool]]]) -> Callable[[Visit], bool]:
    def matches(visit: Visit) -> bool:
        return all((value := getattr(visit, field)) is not None and test(value) for field, test in tests)

    return matches


def loaded(visits: Sequence[Entity]) -> Store:
    db = Store(table, Memory())
    db.create()
    with db.batch() as batch:
        for visit in visits:
            batch.put(visit)
        for site in ("a", "b", "x"):
            batch.put(Site(site=site))
    return db


def pages(db: Store, query: Query[Visit], size: int) -> list[Visit]:
    """Everything, through cursors, there and back; each page is full while anything follows."""
    found = walk(db, query, size)
    assert all(len(page) == size for page in found[:-1])
    return list(chain.from_iterable(found))


@settings(max_examples=times(60, 300))
@given(VISITS, st.data(), st.integers(1, 7))
def test_queries_are_what_a_list_comprehension_gives(visits: list[Visit], data: st.DataObject, size: int) -> None:
    db = loaded(visits)
    for _ in range(3):
        case = data.draw(cases(visits))
        expected = case.expected(visits)
        assert list(db.query(case.query)) == expected
        assert pages(db, case.query, size) == expected
        assert db.count(case.query) == len(expected)
        assert db.first(case.query) == (expected[0] if expected else None)


@settings(max_examples=times(60, 300))
@given(VISITS, st.data(), SITES, TIMES, TIMES, st.integers(1, 7))
def test_what_the_planner_picks_gives_the_same_items(
    visits: list[Visit], data: st.DataObject, site: str, low: datetime, high: datetime, size: int
) -> None:
    db = loaded(visits)
    conditions = data.draw(st.lists(bounds(visits), max_size=3))
    wanted: Any = Visit.site == site
    query = select(Visit).where(wanted, between(Visit.at, low, high), *(bound.condition for bound in conditions))
    tests = [("site", lambda value: value == site), ("at", lambda value: low <= value <= high)]
    matches = _all([*tests, *((bound.field, bound.test) for bound in conditions)])
    expected = [visit for visit in visits if matches(visit)]
    key = attrgetter("site", "at", "number")
    assert sorted(db.query(query), key=key) == sorted(expected, key=key)
    assert sorted(pages(db, query, size), key=key) == sorted(expected, key=key)
    assert db.count(query) == len(expected)


@settings(max_examples=times(30, 100))
@given(VISITS, SITES)
def test_a_collection_is_the_partition_in_order(visits: list[Visit], site: str) -> None:
    db = loaded(visits)
    mine = sorted((visit for visit in visits if visit.site == site), key=attrgetter("at", "number"))
    head: list[Entity] = [Site(site=site)] if site == "a" else []
    assert list(db.query(collection(Site.primary(site=site)))) == head + mine
    assert list(db.query(collection(Site.primary(site=site)).reverse())) == [*mine[::-1], *head]


@settings(max_examples=times(30, 100))
@given(VISITS, SITES, TIMES, st.integers(1, 5))
def test_a_bounded_collection_is_what_both_calls_span(visits: list[Visit], site: str, end: datetime, most: int) -> None:
    db = loaded(visits)
    mine = sorted((visit for visit in visits if visit.site == site), key=attrgetter("at", "number"))
    head: list[Entity] = [Site(site=site)] if site == "a" else []
    early, late = Visit.primary(site=site).where(Visit.at <= end), Visit.primary(site=site).where(Visit.at > end)
    whole: list[Entity] = [*head, *mine]
    first: list[Entity] = [*head, *(visit for visit in mine if visit.at <= end)]
    for one, other, expected in (
        (Site.primary(site=site), early, first),
        (early, Site.primary(site=site), first),
        (Site.primary(site=site), late, whole),
        (late, early, [*mine]),
    ):
        bounded = collection(one, through=other)
        assert list(db.query(bounded)) == expected
        assert list(db.query(bounded.reverse().limit(most))) == expected[::-1][:most]
        assert [*chain(*walk(db, bounded, most))] == expected
        assert db.count(bounded) == len(expected)
