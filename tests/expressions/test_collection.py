"""Rules of garbage collection: what they take, their text, and which rules are equal."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from odm import MaxAge, MaxVersions, SchemaError
from odm.backends.bigtable import GCRule
from odm.expressions.collection import any_of

DAY, FEW, MANY = MaxAge(days=1), MaxVersions(2), MaxVersions(5)


@pytest.mark.parametrize(
    ("rule", "text", "code"),
    [
        (MaxVersions(1), "maxversions=1", "MaxVersions(1)"),
        (MaxAge(days=90), "maxage=90d", "MaxAge(days=90)"),
        (MaxAge(timedelta(hours=36)), "maxage=36h", "MaxAge(days=1, seconds=43200)"),
        (MaxAge(hours=1, minutes=30), "maxage=90m", "MaxAge(seconds=5400)"),
        (MaxAge(seconds=0.0015), "maxage=1.5ms", "MaxAge(seconds=0.0015)"),
        (MANY | DAY, "(maxage=1d || maxversions=5)", "(MaxAge(days=1) | MaxVersions(5))"),
        (MANY & DAY, "(maxage=1d && maxversions=5)", "(MaxAge(days=1) & MaxVersions(5))"),
        (
            FEW | MANY & DAY,
            "(maxversions=2 || (maxage=1d && maxversions=5))",
            "(MaxVersions(2) | (MaxAge(days=1) & MaxVersions(5)))",
        ),
    ],
)
def test_a_rule_has_the_text_of_cbt_and_prints_as_code(rule: GCRule, text: str, code: str) -> None:
    assert (str(rule), repr(rule)) == (text, code)
    assert eval(repr(rule), {"MaxAge": MaxAge, "MaxVersions": MaxVersions}) == rule


def test_rules_that_say_the_same_in_another_order_are_equal() -> None:
    assert MaxAge(hours=24) == DAY
    assert DAY | FEW | MANY == MANY | (FEW | DAY) | FEW
    assert DAY & (FEW | MANY) == (MANY | FEW) & DAY
    assert DAY & FEW != DAY | FEW
    assert len({DAY | FEW, FEW | DAY}) == 1
    assert any_of([DAY]) == DAY | DAY == DAY


def test_a_rule_deletes_by_age_if_it_can_delete_the_newest_value() -> None:
    assert [rule.by_age for rule in (DAY, DAY | FEW, DAY & MaxAge(days=2))] == [True] * 3
    assert [rule.by_age for rule in (FEW, DAY & FEW, (DAY | FEW) & MANY)] == [False] * 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: MaxVersions(0), r"MaxVersions\(0\): give the number of versions to keep, an int of 1 or more"),
        (lambda: MaxVersions(True), "an int of 1 or more"),
        (MaxAge, "MaxAge of 0:00:00: Bigtable takes ages of a millisecond to 10,000 years"),
        (lambda: MaxAge(days=-1), "MaxAge of -1 day"),
        (lambda: MaxAge(days=4_000_000), "10,000 years"),
        (lambda: MaxAge(days=10**12), r"MaxAge: .* write MaxAge\(days=90\)"),
        (lambda: MaxAge(90), "MaxAge: .*not supported.* or give a timedelta"),  # type: ignore[arg-type]
        (lambda: MaxAge(timedelta(1), days=1), "takes a timedelta, or days=, .* not both"),
    ],
)
def test_a_rule_that_bigtable_does_not_have(make: Callable[[], object], says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        make()


def test_a_rule_combines_only_with_rules() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        DAY | 5  # type: ignore[operator]
