"""Time series at the ends of the calendar: years 1 and 9999, also in time zones whose time in UTC does not exist."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Literal

import pytest

from odm import BadValue, Entity, PrimaryKey, Table, select
from odm.backends.local import Memory
from odm.patterns.time_series import TimeSeries

readings = Table("end-readings")


class Reading(Entity, table=readings):
    sensor: str
    at: datetime

    primary = PrimaryKey("SENSOR#{sensor}", "{at}")


EAST, WEST = timezone(timedelta(hours=14)), timezone(-timedelta(hours=14))
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
OUTSIDE = [datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=WEST)]
NAMES = {"month": "R_{period:%Y%m}", "day": "R_{period:%Y%m%d}"}
EACH = pytest.mark.parametrize("period", ["month", "day"])


def series_of(period: Literal["month", "day"], keep: int | None = None) -> TimeSeries[Reading]:
    return TimeSeries(Reading, by="at", period=period, ahead=2, keep=keep, name=NAMES[period])


@EACH
@pytest.mark.parametrize("at", [FIRST, LAST])
@pytest.mark.parametrize("keep", [None, 5, 10**7])
def test_the_first_and_the_last_period(period: Literal["month", "day"], at: datetime, keep: int | None) -> None:
    """There is no period before the first, nor after the last one."""
    db = series_of(period, keep).open(Memory(clock=lambda: 0.0), clock=lambda: 0.0)
    steps = db.rotate(now=at).steps
    assert len(steps) == (1 if at == LAST else 3)
    db.store_of(at).create()
    db.forget()
    other = at + timedelta(hours=1) if at == FIRST else at - timedelta(hours=1)
    items = sorted((Reading(sensor="a", at=each) for each in (at, other)), key=lambda item: item.at)
    if keep == 5 and at == FIRST:  # of the clock's 1970
        return
    for item in items:
        db.put(item)
    assert list(db.query(Reading.primary(sensor="a"))) == items
    for query in (Reading.primary(sensor="a").where(Reading.at >= FIRST), select(Reading).where(Reading.sensor == "a")):
        assert list(db.query(query.where(Reading.at <= LAST))) == items
    assert list(db.query(Reading.primary(sensor="a").where(Reading.at < FIRST))) == []
    assert list(db.query(Reading.primary(sensor="a").where(Reading.at > LAST))) == []
    assert db.page(Reading.primary(sensor="a"), size=1).items == items[:1]


@EACH
@pytest.mark.parametrize("at", OUTSIDE)
def test_a_time_outside_of_the_calendar(period: Literal["month", "day"], at: datetime) -> None:
    db = series_of(period).open(Memory())
    db.rotate(now=date(2024, 1, 1))
    for call in (
        lambda: db.put(Reading(sensor="a", at=at)),
        lambda: db.get(Reading, sensor="a", at=at),
        lambda: db.store_of(at),
        lambda: db.rotate(now=at),
        lambda: list(db.query(Reading.primary(sensor="a").where(Reading.at < at))),
        lambda: list(db.query(Reading.primary(sensor="a").where(Reading.at > at))),
    ):
        with pytest.raises(BadValue, match="outside the years 1 to 9999"):
            call()
