"""The core's check of expressions, for all backends, lets nothing through that the DynamoDB backend refuses."""

from collections.abc import Callable
from functools import partial, reduce
from operator import or_
from typing import Any

import boto3
import pytest
from attrs import define

from odm import BadValue, between, contains, increment, is_in, missing, not_, set_, size, starts_with
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.stores.sync import Store
from odm.testing.entities import Sheet, plain

KEY = Sheet.primary(book="b", sheet_id="a")


@define
class Growing:
    """A condition that grows with a number, and the numbers around its limit."""

    make: Callable[[int], Any]
    around: range


GROWING = {
    "choices": Growing(lambda n: is_in(Sheet.count, list(range(n))), range(780, 825, 4)),
    "comparisons": Growing(lambda n: any_of(Sheet.meta[f"k{at}"] == at for at in range(n)), range(136, 153, 2)),
    "ranges": Growing(lambda n: any_of(between(Sheet.count, at, at + 1) for at in range(n)), range(136, 153, 2)),
    "functions": Growing(lambda n: any_of(starts_with(Sheet.title, str(at)) for at in range(n)), range(136, 153, 2)),
    "sizes": Growing(lambda n: any_of(size(Sheet.title) == at for at in range(n)), range(90, 110, 2)),
    "with themselves": Growing(lambda n: any_of([Sheet.meta["k"] == Sheet.meta["k"]] * n), range(136, 153, 2)),
    "negations": Growing(lambda n: any_of(not_(missing(Sheet.meta[f"k{at}"])) for at in range(n)), range(90, 105, 2)),
    "values": Growing(lambda n: any_of(contains(Sheet.title, "x" * 50_000) for _ in range(n)), range(18, 23)),
}


CALLS: dict[str, Callable[[Any, Store], Any]] = {
    "query": lambda when, db: db.explain(Sheet.primary(book="b").where(when)),
    "put": lambda when, db: db.explain(Sheet(sheet_id="a"), when=when),
    "delete": lambda when, db: db.explain(KEY, write="delete", when=when),
    "update": lambda when, db: db.explain(KEY, increment(Sheet.level, 1), when=when),
}


def set_many(number: int, db: Store) -> None:
    """Explain an update of so many actions."""
    db.explain(KEY, *(set_(Sheet.meta[f"k{at}"], at) for at in range(number)))


def any_of(conditions: Any) -> Any:
    """Their disjunction."""
    return reduce(or_, conditions)


def passes(explain: Callable[[Store], Any], db: Store) -> bool:
    """Whether the call raises nothing."""
    try:
        explain(db)
    except BadValue:
        return False
    return True


@pytest.fixture(scope="module")
def stores() -> tuple[Store, Store]:
    return Store(plain, Memory()), Store(plain, DynamoDB(boto3.Session("key", "secret"), region="eu-west-1"))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("growing", GROWING.values(), ids=GROWING)
def test_what_passes_on_the_bundled_engine_passes_on_dynamodb(growing: Growing, stores: tuple[Store, Store]) -> None:
    answers: dict[str, list[bool]] = {"query": [], "put": [], "delete": [], "update": []}
    for number in growing.around:
        condition = growing.make(number)
        for name, explain in CALLS.items():
            here, there = (passes(partial(explain, condition), db) for db in stores)
            assert there or not here, f"{name} of {number}"
            answers[name].append(here)
    for name, passed in answers.items():
        assert passed[0], name  # the limit is in the range
        assert not passed[-1], name


def test_actions_that_pass_on_the_bundled_engine_pass_on_dynamodb(stores: tuple[Store, Store]) -> None:
    passed = []
    for number in range(240, 300, 6):
        here, there = (passes(partial(set_many, number), db) for db in stores)
        assert there or not here
        passed.append(here)
    assert passed[0]
    assert not passed[-1]
