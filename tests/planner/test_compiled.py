"""A compiled query gives the plan that the query alone gives: for values of all types, and for refusals."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import Field, StringConstraints

from odm import AccessPattern, Entity, PrimaryKey, Query, Shards, Table, between, exists, is_in, select, starts_with
from odm.cache import MOST
from odm.errors import OdmError
from odm.expressions.nodes import Condition
from odm.planner.compiled import make_plan
from odm.planner.key_checks import key_check
from odm.planner.plan import Plan, interpreted_plan
from odm.schema.model import Schema
from tests import effort

table = Table("compiled")


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


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(list(VISIT)))
    operator: Callable[[Any, Any], Condition] = draw(st.sampled_from(OPS))
    return operator(getattr(Visit, name), draw(st.sampled_from(VISIT[name])))


@st.composite
def queries(draw: st.DrawFn) -> Query[Visit]:
    name = draw(
        st.sampled_from(
            ["primary", "by_page", "by_kind", "by_day", "flagged", "spread", "spread_by_site", "at_random", "alone", ""]
        )
    )
    query: Any = select(Visit)
    if name:
        fields = table.compile().entity(Visit).pattern(name).fields
        known = draw(st.integers(0, len(fields)))
        values = {field: draw(st.sampled_from(VISIT[field])) for field in fields[:known]}
        try:
            query = getattr(Visit, name)(**values)
        except OdmError:
            reject()
    for condition in draw(st.lists(conditions(), max_size=3)):
        query = query.where(condition)
    chosen: Query[Visit] = query.reverse() if draw(st.booleans()) else query
    return chosen


def outcome(plan: Callable[[Schema, Query[Any]], Plan], query: Query[Any]) -> object:
    """The plan with its check; or the refusal."""
    try:
        found = plan(table.compile(), query)
    except (OdmError, TypeError, KeyError) as error:
        return type(error), str(error)
    check = None if found.pattern.index is None or found.empty else key_check(table.compile(), found)
    return found, repr(found.filter), repr(found.keyed), None if check is None else check.tests


@settings(max_examples=effort.times(400, 4000))
@given(st.lists(queries(), min_size=1, max_size=3))
def test_a_compiled_query_is_planned_as_without_its_shape(those: list[Query[Visit]]) -> None:
    for query in those:
        expected = outcome(interpreted_plan, query)
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
    assert make_plan(schema, query) == interpreted_plan(schema, query)


def test_a_program_with_many_shapes_keeps_the_newest() -> None:
    schema = table.compile()
    schema.compiled.clear()
    fields = (Visit.page, Visit.flag)
    for number in range(MOST + 10):
        make_plan(schema, Visit.primary(site="a").where(*(exists(fields[bit == "1"]) for bit in f"{number:012b}")))
    assert MOST // 2 < len(schema.compiled) <= MOST
