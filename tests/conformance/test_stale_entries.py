"""Random models whose templates change, with items from before the change: no query contradicts its conditions.

The model of a query is Python on the fields of its results; it knows nothing of keys. After the backfill, the query
returns exactly the items that meet its conditions.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from operator import eq, ge, gt, le, lt
from typing import Annotated, Any, Literal, NamedTuple
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field

from odm import AccessPattern, Entity, PrimaryKey, Query, SchemaError, Shards, Store, Table, collection, starts_with
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.protocol.connection import Backend
from tests.effort import times

pytestmark = pytest.mark.slow


class Color(Enum):
    RED = "r"
    BLUE = "b"


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TYPES: dict[str, Any] = {
    "text": str,
    "word": str,
    "small": Annotated[int, Field(ge=0, lt=100)],
    "other": Annotated[int, Field(ge=0, lt=100)],
    "whole": int,
    "price": Annotated[Decimal, Field(decimal_places=2, ge=0, lt=1000)],
    "at": datetime,
    "until": datetime,
    "on": date,
    "kind": Literal["u", "v"],
    "color": Color,
    "flag": str | None,
}
WORDS = st.sampled_from(["a", "b", "a#", "ab", "05", "é"])
INSTANTS = st.builds(lambda hours: EPOCH + timedelta(hours=hours), st.integers(0, 60))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": WORDS,
    "word": WORDS,
    "small": st.integers(0, 20),
    "other": st.integers(0, 20),
    "whole": st.integers(-30, 30),
    "price": st.integers(0, 300).map(lambda cents: Decimal(cents) / 100),
    "at": INSTANTS,
    "until": INSTANTS,
    "on": st.integers(0, 3).map(lambda days: EPOCH.date() + timedelta(days=days)),
    "kind": st.sampled_from(["u", "v"]),
    "color": st.sampled_from(Color),
    "flag": st.none() | WORDS,
}
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=4, max_size=14)
UNITS: dict[str, Callable[[Any], Any]] = {
    "%Y%m%d": lambda moment: moment.date(),
    "%Y%m%d%H": lambda moment: (moment.date(), moment.hour),
    "s": lambda moment: int(moment.timestamp()),
}
FORMATS = {"at": ["", "", *UNITS], "until": ["", "", *UNITS], "small": ["", "desc"], "other": ["", "desc"]}
OPERATORS = {"==": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
UNORDERED = ("kind", "color")


class Slots(NamedTuple):
    """The placeholders of a pattern: fields with their formats."""

    partition: tuple[tuple[str, str], ...]
    sort: tuple[tuple[str, str], ...]
    shards: Shards | None

    def declared(self) -> AccessPattern:
        partition, sort = ("#".join(f"{{{n}:{form}}}" if form else f"{{{n}}}" for n, form in s) for s in self[:2])
        return AccessPattern(f"P#{partition}" if partition else "P", sort, shards=self.shards, index="index")


@st.composite
def slots(draw: st.DrawFn, shards: Shards | None) -> Slots:
    names = draw(st.lists(st.sampled_from([*TYPES]), min_size=1, max_size=3, unique=True))
    placed = [(name, draw(st.sampled_from(FORMATS.get(name, [""])))) for name in names]
    cut = draw(st.integers(0, min(1, len(placed) - 1)))
    return Slots(tuple(placed[:cut]), tuple(placed[cut:]), shards)


def entity_of(table: Table, pattern: Slots) -> Any:
    namespace = {
        "__module__": __name__,
        "__annotations__": {"item_id": str, **TYPES},
        "primary": PrimaryKey("ITEM#{item_id}"),
        "by": pattern.declared(),
    }
    make: Any = type(Entity)
    return make("Item", (Entity,), namespace, table=table)


class Case(NamedTuple):
    """A query, and what it asks for."""

    query: Query[Any]
    tests: list[tuple[str, Callable[[Any], bool]]]

    def meets(self, item: Any) -> bool:
        return all((value := getattr(item, name)) is not None and test(value) for name, test in self.tests)


@st.composite
def cases(draw: st.DrawFn, entity: Any, now: Slots, rows: list[dict[str, Any]]) -> Case:
    row = {
        name: draw(VALUES["text"]) if value is None else value for name, value in draw(st.sampled_from(rows)).items()
    }
    asked = (*now.partition, *now.sort[: draw(st.integers(0, len(now.sort)))])
    tests = [(name, _same(row[name], form)) for name, form in asked]
    query = entity.by(**{name: row[name] for name, _ in asked})
    following = [name for name, _ in now.sort[len(asked) - len(now.partition) :]]
    for name in draw(st.lists(st.sampled_from([*TYPES, *following[:1] * 20]), max_size=2)):
        value = draw(VALUES[name].filter(lambda value: value is not None))
        reference = getattr(entity, name)
        if name in ("text", "word", "flag") and draw(st.booleans()):
            query = query.where(starts_with(reference, value))
            tests.append((name, partial(_begins, value)))
            continue
        test = OPERATORS["==" if name in UNORDERED else draw(st.sampled_from([*OPERATORS]))]
        query = query.where(test(reference, value))
        tests.append((name, partial(_compares, test, value)))
    return Case(query, tests)


def _begins(prefix: str, text: str) -> bool:
    return text.startswith(prefix)


def _compares(test: Callable[[Any, Any], bool], value: Any, other: Any) -> bool:
    return test(other, value)


def _same(value: Any, form: str) -> Callable[[Any], bool]:
    unit = UNITS.get(form, lambda value: value)
    return lambda other: unit(other) == unit(value)


def check(backend: Backend, data: st.DataObject) -> None:
    rows = data.draw(ROWS)
    shards = data.draw(st.none() | st.just(Shards(2, by="word")))
    before, now = data.draw(slots(shards)), data.draw(slots(shards))
    was, table = Table("random"), Table("random")
    old, new = entity_of(was, before), entity_of(table, now)
    prefix = uuid4().hex[:12]
    try:
        earlier, db = Store(was, backend, prefix=prefix), Store(table, backend, prefix=prefix)
        earlier.create()
        db.create()
    except SchemaError:
        return  # such as a text before a placeholder without "#"
    with earlier.batch() as batch:
        for number, row in enumerate(rows):
            batch.put(old(item_id=f"i{number}", **row))
    given = [data.draw(cases(new, now, rows)) for _ in range(4)]
    try:
        for case in given:
            _contradicts_nothing(db, case)
        first = {name: "a" if rows[0][name] is None else rows[0][name] for name, _ in now.partition}
        whole = collection(new.by(**first))
        assert db.count(whole) == len(list(db.query(whole)))
        assert db.backfill(new).failed == 0
        stored = [new(item_id=f"i{number}", **row) for number, row in enumerate(rows)]
        entered = [item for item in stored if None not in [getattr(item, name) for name, _ in now.partition + now.sort]]
        for case in given:
            results = {item.item_id for item in db.query(case.query)}
            assert results == {item.item_id for item in entered if case.meets(item)}
            assert db.count(case.query) == len(results)
    finally:
        db.drop()


def _contradicts_nothing(db: Store, case: Case) -> None:
    query = case.query
    results = list(db.query(query))
    assert all(map(case.meets, results)), query
    assert db.count(query) == len(results), query
    assert db.count(query.limit(2)) == len(results[:2]), query
    assert list(db.query(query.limit(2))) == results[:2], query
    assert db.first(query) == next(iter(results), None), query
    page = db.page(query, size=2)
    pages = list(page.items)
    while page.cursor is not None:
        assert len(page.items) == 2
        page = db.page(query, size=2, after=page.cursor)
        pages += page.items
    assert pages == results, query
    parts = list(db.query(query, only=[query.entity.item_id]))
    assert [part[query.entity.item_id] for part in parts] == [item.item_id for item in results], query


LOCAL = settings(max_examples=times(20, 400), deadline=None)
REMOTE = settings(max_examples=times(6, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@LOCAL
@given(st.data())
def test_in_memory(data: st.DataObject) -> None:
    check(Memory(), data)


@LOCAL
@given(st.data())
def test_in_memory_with_pages_of_one_item(data: st.DataObject) -> None:
    check(Memory(page_bytes=1), data)


def test_on_dynamodb(session: boto3.Session, config: Config, dynoxide: str) -> None:
    backend = DynamoDB(session, endpoint_url=dynoxide, config=config)
    REMOTE(given(st.data())(lambda data: check(backend, data)))()


def test_on_bigtable(bigtable_emulator: str) -> None:
    backend = Bigtable("test-project", "test-instance", endpoint=bigtable_emulator)
    REMOTE(given(st.data())(lambda data: check(backend, data)))()
