"""Ranges over a lossy field of a partition key: every unit touched, and none else."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm.errors import BadValue, KeyValueError
from odm.keys import Op
from tests.keys.cases import DATES, DESCENDING, FIXED, PROPERTY, SOME_TIMES, Case, compiled

START = datetime(2023, 12, 30, 22, tzinfo=UTC)
END = datetime(2024, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("template", "field", "bounds", "keys"),
    [
        (
            "D#{at:%Y%m%d}",
            "at",
            [(">=", START), ("<", END)],
            ["D#20231230", "D#20231231", "D#20240101"],
        ),
        (
            "D#{at:%Y%m%d}",
            "at",
            [(">", START), ("<=", END)],
            ["D#20231230", "D#20231231", "D#20240101", "D#20240102"],
        ),
        ("D#{at:%Y%m%d:desc}", "at", [(">=", START), ("<", END)], ["D#79759898", "D#79768768", "D#79768769"]),
        (
            "D#{day:%Y%m}",
            "day",
            [(">", date(2023, 11, 30)), ("<", date(2024, 2, 2))],
            ["D#202312", "D#202401", "D#202402"],
        ),
        ("D#{day:%Y%m:desc}", "day", [(">", date(2023, 12, 30)), ("<", date(2024, 2, 1))], ["D#797598", "D#797687"]),
        ("D#{day:%Y}", "day", [(">=", date(9998, 5, 5)), ("<=", date(9999, 12, 31))], ["D#9998", "D#9999"]),
        (
            "D#{at:%Y%m%dT%H}",
            "at",
            [(">=", START), ("<", START + timedelta(hours=2, microseconds=1))],
            ["D#20231230T22", "D#20231230T23", "D#20231231T00"],
        ),
        ("D#{at:s}", "at", [(">=", START), ("<=", START)], ["D#1703973600"]),
        ("D#{at:s}", "at", [(">", START), ("<", START)], []),
        ("D#{at:s}", "at", [(">=", END), ("<", START)], []),
        (
            "D#{at:%Y}",
            "at",
            [(">=", START), (">", END), ("<", END + timedelta(9)), ("<=", END + timedelta(999))],
            ["D#2024"],
        ),
        (
            "D#{at:s}",
            "at",
            [(">", datetime.min.replace(tzinfo=UTC)), ("<", datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))],
            ["D#0000000000", "D#0000000001"],
        ),
        (
            "{at:%Y}#{at:%Y%m}",
            "at",
            [(">=", START), ("<", END)],
            ["2023#202312", "2024#202401"],
        ),
    ],
)
def test_units(template: str, field: str, bounds: list[tuple[Op, Any]], keys: list[str]) -> None:
    assert compiled(template).buckets({}, field, bounds) == tuple(keys)


def test_other_fields_come_from_given() -> None:
    template = compiled("{text}#{at:%Y}#{level}")
    keys = template.buckets({"text": "a#b", "level": 3}, "at", [(">=", START), ("<", END)])
    assert keys == ("a$Sb#2023#003", "a$Sb#2024#003")


SPANS = [timedelta(0), timedelta(microseconds=1), timedelta(milliseconds=7), timedelta(seconds=3)]
LOSSY = [case for case in [*FIXED, *DESCENDING] if case.field in {"at", "day"} and compiled(case.placeholder).lossy]


@PROPERTY
@given(st.data(), st.sampled_from(LOSSY))
def test_the_buckets_are_the_keys_of_the_values_within_the_bounds(data: st.DataObject, case: Case) -> None:
    template = compiled(f"P#{case.placeholder}")
    times = DATES.filter(lambda day: day.year in {2023, 2024}) if case.field == "day" else SOME_TIMES
    value, low = data.draw(times), data.draw(times)
    high = low + data.draw(st.sampled_from(SPANS if case.field == "at" else [timedelta(0), timedelta(40)]))
    keys = template.buckets({}, case.field, [(">=", low), ("<=", high)], most=10**6)
    key = template.encode({case.field: value})
    assert list(keys) == sorted(set(keys))
    first, last = sorted((case.rank(low), case.rank(high)))
    assert (key in keys) == (first <= case.rank(value) <= last)


def test_a_range_open_at_an_end_is_refused() -> None:
    template = compiled("D#{at:%Y%m%d}")
    with pytest.raises(BadValue, match=r"Everything\.pattern: the range of at has no end, .*bound it on both sides"):
        template.buckets({}, "at", [(">=", START)])
    with pytest.raises(BadValue, match=r"Everything\.pattern: the range of at has no start, .*bound it on both sides"):
        template.buckets({}, "at", [("<", END)])
    with pytest.raises(BadValue, match=r"Everything\.pattern: at is a time, which has no prefix"):
        template.buckets({}, "at", [("prefix", "2024")])


def test_too_many_buckets_are_refused_by_number() -> None:
    template = compiled("D#{at:%Y%m%d}")
    bounds: list[tuple[Op, Any]] = [(">=", END), ("<", END + timedelta(1000))]
    assert len(template.buckets({}, "at", bounds)) == 1000
    with pytest.raises(BadValue, match=r"at touches 1001 partitions of .*, more than 1000; narrow the range"):
        template.buckets({}, "at", [(">=", END), ("<=", END + timedelta(1000))])
    with pytest.raises(BadValue, match="more than 10; narrow"):
        template.buckets({}, "at", bounds, most=10)
    with pytest.raises(BadValue, match=r"touches \d+ partitions"):
        compiled("D#{at:ms}").buckets({}, "at", bounds)


def test_bad_bounds_are_refused() -> None:
    template = compiled("D#{at:%Y%m%d}")
    with pytest.raises(KeyValueError, match=r"Everything\.pattern: at=.*no time zone"):
        template.buckets({}, "at", [(">=", datetime(2024, 1, 1)), ("<", END)])
    with pytest.raises(KeyValueError, match=r"Everything\.pattern: text=''.*empty"):
        compiled("{text}#{at:%Y}").buckets({"text": ""}, "at", [(">=", START), ("<", END)])


def test_faults_of_the_caller() -> None:
    with pytest.raises(ValueError, match="also needs text"):
        compiled("{text}#{at:%Y}").buckets({}, "at", [(">=", START), ("<", END)])
    with pytest.raises(ValueError, match="text is not a time field"):
        compiled("{text}#{at:%Y}").buckets({"at": START}, "text", [(">=", "a"), ("<", "b")])
