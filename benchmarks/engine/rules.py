"""What it costs an update that its model limits the value: `set_` of a field with limits, and of one without."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

from pydantic import Field

from benchmarks.command import Run
from benchmarks.report import Row
from benchmarks.timing import Racer
from odm import Entity, PrimaryKey, Store, Table, set_
from odm.backends.local import Memory

LIMITED: Final = "a field with limits"
FREE: Final = "a field without"

_table: Final = Table("rules")


class Reading(Entity, table=_table):
    """Each of its fields is there with limits and without."""

    meter: str
    value: int = 0
    limited_value: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    unit: str = "kWh"
    limited_unit: Annotated[str, Field(min_length=1, max_length=10)] = "kWh"

    primary = PrimaryKey("METER", "{meter}")


def rows(run: Run) -> Iterator[Row]:
    """The times of updates in `Memory`."""
    with Store(_table, Memory()) as db:
        db.create()
        db.put(Reading(meter="m1"))
        fields = {
            "set_ of a number": (Reading.limited_value, Reading.value, int),
            "set_ of a text": (Reading.limited_unit, Reading.unit, str),
        }
        for call, (limited, free, value) in fields.items():
            racers = {LIMITED: _racer(db, limited, value), FREE: _racer(db, free, value)}
            yield Row("Updates, microseconds of CPU", call, run.race(call, racers), call)


def _racer(db: Store, field: Any, value: Callable[[int], Any]) -> Racer:
    key = Reading.primary(meter="m1")
    return Racer(lambda new: db.update(key, set_(field, new)), lambda calls, _: [value(n) for n in range(calls)])
