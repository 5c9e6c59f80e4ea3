"""A query compiled for other values gives the plan that one compiled for it alone gives: of all kinds, and refusals."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, StringConstraints

from odm import (
    AccessPattern,
    Entity,
    PrimaryKey,
    Query,
    Shards,
    Table,
    between,
    collection,
    contains,
    exists,
    field,
    is_in,
    select,
    size,
    starts_with,
)
from odm.cache import MOST
from odm.errors import NoAccessPattern, OdmError
from odm.expressions.nodes import Condition
from odm.immutable import evolve
from odm.planner.compile import make_plan
from odm.planner.key_checks import key_check
from odm.planner.plan import Plan
from odm.schema.model import Schema
from tests import effort

pytestmark = pytest.mark.slow

table = Table("compiled")


class Place(BaseModel):
    city: str = "Ulm"
    floors: list[int] = [0]


class Visit(Entity, table=table):
    site: Annotated[str, StringConstraints(to_lower=True)]
    number: Annotated[int, Field(ge=-3, le=99)]
    at: datetime
    page: str = "home"
    kind: Literal["a", "b"] = "a"
    price: Annotated[Decimal, Field(ge=0, max_digits=6, decimal_places=2)] = Decimal(1)
    score: float = 0.5
    day: date | None = None
    flag: str | None = None

    primary = PrimaryKey("SITE#{site}", "VISIT#{number}#{at}")
    by_page = AccessPattern("PAGE#{page}", "{number:desc}#{at}", index="gsi1")
    by_kind = AccessPattern("{kind}", "{price}", index="gsi2")
    by_day = AccessPattern("SITE#{site}#{at:%Y%m}", "{at:%Y%m%d}#{page}", index="gsi3")
    flagged = AccessPattern("FLAG#{flag}", "{day}")
    spread = AccessPattern("PAGE#{page}", "{at}", shards=Shards(3, was=5, by="number"))
    spread_by_site = AccessPattern("KIND#{kind}", "{site}#{at}", shards=Shards(4, by="site"))
    at_random = AccessPattern("PAGE#{page}", "{at}#{number}", shards=Shards(4))
    alone = AccessPattern("SITE#{site}", "{number}")


class Job(Entity, table=table):
    """Patterns with when=: the values of the conditions decide which one serves a select."""

    name: str
    queue: str
    at: datetime
    state: Literal["open", "done"] = "open"
    level: int = 0
    urgent: bool = False
    worker: str | None = None
    labels: dict[str, str] = {}
    place: Place = Place()
    steps: list[str] = []

    primary = PrimaryKey("JOB#{name}", "{at}")
    opened = AccessPattern("QUEUE#{queue}", "{level}#{at}", index="gsi4", when=field("state") == "open")
    urgently = AccessPattern(
        "URGENT#{queue}",
        "{level}",
        index="gsi5",
        when=(field("state") == "open") & (field("urgent") == True),  # noqa: E712
    )
    by_worker = AccessPattern("WORKER#{worker}", "{at:%Y%m%d}#{level}", index="gsi6")
    daily = AccessPattern("DAY#{at:%Y%m%d}", "{at}#{level}", shards=Shards(2), index="gsi7")


class Note(Entity, table=table):
    site: str
    text: str = ""

    primary = PrimaryKey("SITE#{site}", "NOTE")
    by_text = AccessPattern("PAGE#{text}", index="gsi1")


VISIT: dict[str, list[Any]] = {
    "site": ["", "a", "A#", "é", "\ud800", None, 1],
    "number": [-4, -3, 0, 7, 99, 100, 10**40, 0.5, Decimal(7), True, "7"],
    "at": [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 31)]
    + [datetime(2026, 1, 1), date(2026, 1, 1), "2026-01-01"],
    "page": ["", "home", "home#1", None],
    "kind": ["a", "b", "c", None, 1],
    "price": [Decimal(1), Decimal("0.01"), Decimal("0.001"), Decimal(10**7), 1, 1.5, -1],
    "score": [0.5, 1, float("nan"), Decimal("0.25")],
    "day": [None, date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)],
    "flag": [None, "", "x", "x y"],
}
OPS: list[Callable[[Any, Any], Condition]] = [
    lambda field, value: field == value,
    lambda field, value: field == value,
    lambda field, value: field != value,
    lambda field, value: field < value,
    lambda field, value: field >= value,
    lambda field, value: between(field, value, value),
    starts_with,
    lambda field, value: is_in(field, [value]),
    lambda field, value: exists(field),
    lambda field, value: (field == value) | (field > value),
    lambda field, value: (field >= value) & (field < value),
]


JOB: dict[str, list[Any]] = {
    "name": ["j", ""],
    "queue": ["", "q", "r", None],
    "at": [datetime(2026, 1, day, hour, tzinfo=UTC) for day in (1, 2) for hour in (0, 5)] + [date(2026, 1, 1)],
    "state": ["open", "open", "done", "lost"],
    "level": [0, 1, 7, "7", None],
    "urgent": [True, True, False, 1],
    "worker": [None, "", "w", "w#"],
}
PARTS: list[tuple[Any, list[Any]]] = [
    (Job.labels["a"], ["", "x", 1]),
    (Job.labels["b"], ["x", None]),
    (Job.place.city, ["Ulm", "Bonn", 1]),
    (Job.place.floors[0], [0, 1, "x"]),
    (Job.place.floors[3], [0, 1]),
    (Job.steps, [[], ["a"], "a"]),
    (Job.labels, [{}, {"a": "x"}]),
    (Job.place, [Place(), Place(city="Bonn")]),
]
NOTE: dict[str, list[Any]] = {"site": VISIT["site"], "text": ["", "x"]}


@st.composite
def conditions(draw: st.DrawFn, entity: Any = Visit, values: dict[str, list[Any]] = VISIT) -> Condition:
    if entity is Job and not draw(st.integers(0, 3)):
        reference, among = draw(st.sampled_from(PARTS))
        operators: list[Any] = [*OPS, contains, lambda part, value: size(part) > len(str(value))]
    else:
        name = draw(st.sampled_from(list(values)))
        reference, among, operators = getattr(entity, name), values[name], OPS
    operator: Callable[[Any, Any], Condition] = draw(st.sampled_from(operators))
    try:
        return operator(reference, draw(st.sampled_from(among)))
    except (OdmError, TypeError):
        reject()


@st.composite
def calls(draw: st.DrawFn, entity: Any = Visit, values: dict[str, list[Any]] = VISIT, pattern: str = "") -> Query[Any]:
    """A call of a pattern, with values of leading fields."""
    schema = table.compile().entity(entity)
    name = pattern or draw(st.sampled_from(["primary", *schema.patterns]))
    fields = schema.pattern(name).fields
    known = {field: draw(st.sampled_from(values[field])) for field in fields[: draw(st.integers(0, len(fields)))]}
    try:
        query: Query[Any] = getattr(entity, name)(**known)
    except OdmError:
        reject()
    return query


@st.composite
def queries(draw: st.DrawFn) -> Query[Any]:
    entity, values = draw(st.sampled_from([(Visit, VISIT), (Visit, VISIT), (Job, JOB)]))
    query: Any = draw(st.one_of(st.just(select(entity)), calls(entity, values), calls(entity, values)))
    for condition in draw(st.lists(conditions(entity, values), max_size=3)):
        query = query.where(condition)
    chosen: Query[Any] = query.reverse() if draw(st.booleans()) else query
    return chosen


@st.composite
def selects(draw: st.DrawFn) -> Query[Any]:
    """Queries that patterns with when= or with time buckets may serve."""
    days: list[datetime] = sorted(draw(st.lists(st.sampled_from(JOB["at"][:-1]), min_size=2, max_size=2)))
    at: list[Any] = draw(st.sampled_from([[], [], [Job.at >= days[0], Job.at < days[1]], [Job.at == days[0]]]))
    at += draw(st.sampled_from([[], [Job.queue == draw(st.sampled_from(["q", "r"]))]]))
    state: list[Any] = [Job.state == draw(st.sampled_from(JOB["state"]))] * draw(st.integers(0, 1))
    urgent: list[Any] = [Job.urgent == draw(st.sampled_from(JOB["urgent"]))] * draw(st.integers(0, 1))
    return select(Job).where(*at, *state, *urgent, *draw(st.lists(conditions(Job, JOB), max_size=2)))


BY_PARTITION: list[Any] = [
    Visit.primary(site="a"),
    Visit.primary(site="b"),
    Visit.by_page(page="home"),
    Note.primary(site="a"),
    Note.by_text(text="x"),
]


@st.composite
def collections(draw: st.DrawFn) -> Query[Any]:
    """Collections of all kinds: whole partitions, ranges of sort keys, from one call to another, items under a key."""
    index = draw(st.sampled_from([0, 0, 1]))
    ways = [(Visit, VISIT, ("primary", "by_page")[index]), (Note, NOTE, ("primary", "by_text")[index])]
    way = draw(st.sampled_from(ways))
    call = draw(calls(*way))
    for condition in draw(st.lists(conditions(*way[:2]), max_size=2)):
        call = call.where(condition)
    options: dict[str, Any] = draw(st.sampled_from([{}, {}, {"prefix": True}]))
    if not options and draw(st.booleans()):
        options = {"through": draw(calls(*draw(st.sampled_from(ways))))}
    elif not options:
        call = draw(st.sampled_from(BY_PARTITION))
        low: Any
        high: Any
        low, high = (draw(st.sampled_from([-4, 0, 7, 7.0, "7"])) for _ in range(2))
        ranges: list[Any] = [Visit.number >= low, Visit.number < high, Visit.at > VISIT["at"][0], Visit.page == "home"]
        call = call if call.entity is Note else call.where(*draw(st.lists(st.sampled_from(ranges), max_size=2)))
    try:
        query: Any = collection(call, *draw(st.lists(st.sampled_from([Visit, Note]), max_size=1)), **options)
    except OdmError:
        reject()
    for condition in draw(st.lists(conditions() | conditions(Note, NOTE), max_size=2)):
        query = query.where(condition)
    chosen: Query[Any] = query.reverse() if draw(st.booleans()) else query
    return chosen


def outcome(plan: Callable[[Schema, Query[Any]], Plan], query: Query[Any]) -> object:
    """The plan with its check; or the refusal."""
    try:
        found = plan(table.compile(), query)
    except OdmError as error:
        return type(error), str(error)
    check = None if found.pattern.index is None or found.empty else key_check(table.compile(), found)
    return found, repr(found.filter), repr(found.keyed), None if check is None else check.tests


def planned_alone(schema: Schema, query: Query[Any]) -> Plan:
    """The plan of a query for which alone it is compiled."""
    return make_plan(evolve(schema), query)


@settings(max_examples=effort.times(400, 4000), deadline=None)
@given(st.lists(st.one_of(queries(), queries(), selects(), collections()), min_size=1, max_size=3))
def test_a_compiled_query_is_planned_as_without_its_shape(those: list[Query[Any]]) -> None:
    for query in those:
        expected = outcome(planned_alone, query)
        assert outcome(make_plan, query) == expected
        assert outcome(make_plan, query) == expected


@pytest.mark.parametrize(
    "query",
    [
        Visit.primary(site="a"),
        Visit.primary(site="a", number=1, at=datetime(2026, 1, 1, tzinfo=UTC)),
        Visit.primary(site="a").where(Visit.number >= 3, Visit.page == "x"),
        Visit.by_page(page="a").where(between(Visit.number, 1, 2)),
        Visit.by_page(page="a", number=3).where(starts_with(Visit.flag, "x")),
        Visit.spread(page="a").where(Visit.number == 1),
        Visit.at_random(page="a"),
        select(Visit).where(Visit.site == "a", Visit.number == 7),
    ],
    ids=str,
)
def test_a_query_is_compiled(query: Query[Visit]) -> None:
    schema = table.compile()
    schema.compiled.clear()
    make_plan(schema, query)
    (compiled,) = schema.compiled.values()
    assert compiled is not None
    assert make_plan(schema, query) == planned_alone(schema, query)


JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
SHARED: dict[str, Callable[[int], Query[Any]]] = {
    "time buckets": lambda n: select(Job).where(Job.at >= JANUARY, Job.at < JANUARY + timedelta(days=n)),
    "when=": lambda n: select(Job).where(Job.queue == "q", Job.state == ("open", "done")[n % 2]),
    "a refused equality": lambda n: Visit.primary(site="a").where(Visit.number == n),
    "collection": lambda n: collection(Note.primary(site=str(n))).where(Visit.number > n, Note.text == str(n)),
    "a range of a collection": lambda n: collection(Visit.primary(site=str(n)).where(Visit.number >= n - 25)),
    "items under a key": lambda n: collection(Note.primary(site=str(n)), Visit, prefix=True),
    "a collection through": lambda n: collection(
        Note.primary(site=str(n)), through=Visit.primary(site=str(n)).where(Visit.number < n)
    ),
    "keys of a dict": lambda n: Job.primary(name="j").where(Job.labels[f"k{n}"] == "x"),
    "positions in a list": lambda n: Job.primary(name="j").where(exists(Job.place.floors[n])),
    "sizes": lambda n: Job.primary(name="j").where(size(Job.labels) == n),
    "elements": lambda n: Job.primary(name="j").where(contains(Job.steps, str(n))),
    "containers": lambda n: Job.primary(name="j").where(Job.steps == ["a"] * n, Job.labels == {"a": str(n)}),
    "models": lambda n: Job.primary(name="j").where(Job.place == Place(floors=[n])),
}


def unreachable(*_: object) -> None:
    raise AssertionError("a query that is not refused was taken to what words refusals")


@pytest.mark.parametrize("name", SHARED)
def test_queries_that_differ_in_values_are_compiled_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name not in {"when=", "a range of a collection", "time buckets"}:  # of which some values are refused
        monkeypatch.setattr("odm.planner.compile._refuse", unreachable)
        monkeypatch.setattr("odm.codec.entity.refuse", unreachable)
    schema = evolve(table.compile())
    plans = [outcome(lambda schema_, query: make_plan(schema, query), SHARED[name](number)) for number in range(50)]
    assert len(schema.compiled) == 1
    assert plans == [outcome(planned_alone, SHARED[name](number)) for number in range(50)]


def test_the_values_decide_which_pattern_serves() -> None:
    def pattern(*wanted: Any) -> str:
        return make_plan(table.compile(), select(Job).where(Job.queue == "q", *wanted)).pattern.name

    for _ in range(2):
        assert pattern(Job.state == "open", Job.urgent == True) == "opened"  # noqa: E712
        assert pattern(Job.state == "open", Job.urgent == False) == "opened"  # noqa: E712
        with pytest.raises(NoAccessPattern, match="serves: queue = 'q', state = 'done'"):
            pattern(Job.state == "done", Job.urgent == True)  # noqa: E712


def test_a_value_that_no_item_has_selects_no_shard() -> None:
    query = select(Visit).where(Visit.page == "home", Visit.number == 100)
    assert make_plan(table.compile(), query).empty


def test_a_query_that_is_refused_is_not_kept() -> None:
    schema = evolve(table.compile())
    refused = [select(Job).where(Job.level == 1), collection(Visit.primary(site="a"), prefix=True)]
    for query in refused:
        with pytest.raises(OdmError):
            make_plan(schema, query)
    assert not schema.compiled


def test_a_program_with_many_shapes_keeps_the_newest() -> None:
    schema = table.compile()
    schema.compiled.clear()
    fields = (Visit.page, Visit.flag)
    for number in range(MOST + 10):
        make_plan(schema, Visit.primary(site="a").where(*(exists(fields[bit == "1"]) for bit in f"{number:012b}")))
    assert MOST // 2 < len(schema.compiled) <= MOST
