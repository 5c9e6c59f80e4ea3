"""The rotation of a `odm.patterns.time_series.TimeSeries`: which tables to make, to change and to drop."""

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import frozen

from odm import BadValue, TableNotFound
from odm.patterns.two_stores import Ask, Steps

if TYPE_CHECKING:
    from odm.patterns.series_steps import SeriesSteps

Kind: TypeAlias = Literal["create", "check", "alter", "expired", "drop"]


@frozen
class Step:
    """One step of a rotation.

    Attributes:
        kind: "create" a table; "check": it exists, and gets what it lacks, such as an index; "alter" its settings to
            ``new`` or ``old``; "expired": it is beyond ``keep``, and stays without ``drop=True``; "drop" it with its
            items.
        table: the name of the table, with the prefix of the store.
        period: the first day of its period.
        text: what changes.
    """

    kind: Kind
    table: str
    period: date
    text: str = ""

    def __str__(self) -> str:
        return f"{self.kind:<8}{self.table}{self.text and ': '}{self.text}"


@frozen
class Rotation:
    """The steps of a rotation, in order; print it.

    Attributes:
        steps: the steps.
        tables: how many tables the series has, with those that are made, before any is dropped.
    """

    steps: tuple[Step, ...]
    tables: int = 0

    @property
    def drops(self) -> int:
        """How many tables are deleted with their items."""
        return sum(step.kind == "drop" for step in self.steps)

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change something that is known beforehand."""
        return tuple(step for step in self.steps if step.kind in ("create", "alter", "drop"))

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


def rotation(db: "SeriesSteps[Any, Any]", today: date, *, drop: bool, measures: bool = True) -> Steps[Rotation]:
    """What a rotation does in this period: it reads the list of tables, and the settings of those of past periods.

    With ``measures``, it also asks how much each table to drop holds, for a person who decides.
    """
    series, oldest = db.series, db.oldest(today)
    there = yield from db.listed(fresh=True)
    steps = []
    for period in dict.fromkeys(series.shifted(today, number) for number in range(series.ahead + 1)):
        steps.append(_step(db, "check" if period in there else "create", period))
        if period in there:
            steps += yield from _altered(db, period, series.new)
    for period in sorted(other for other in there if other < today):
        expired = oldest is not None and period < oldest
        if expired and drop:
            text = (yield from _held(db, period)) if measures else "with all its items"
            steps.append(_step(db, "drop", period, text))
            continue
        steps += yield from _altered(db, period, series.old)
        if expired:
            text = f"beyond the {series.keep} periods to keep; drop=True (--drop) deletes it"
            steps.append(_step(db, "expired", period, text))
    creations = sum(step.kind == "create" for step in steps)
    return Rotation(tuple(steps), len(there) + creations)


def _held(db: "SeriesSteps[Any, Any]", period: date) -> Steps[str]:
    """What goes with a table; another program may have dropped it meanwhile."""
    try:
        size = yield Ask(db.store_of(period).measure)
    except TableNotFound:
        return "it is gone already"
    return f"with all its items: {size}"


def _altered(db: "SeriesSteps[Any, Any]", period: date, options: object) -> Steps[list[Step]]:
    """The step that changes the settings of a table to these, if they differ."""
    if options is None:
        return []
    changes = yield Ask(partial(db.store_of(period).alter, options, dry_run=True))
    return [_step(db, "alter", period, "; ".join(changes))] if changes else []


def rotate(
    db: "SeriesSteps[Any, Any]", today: date, *, drop: bool, tell: Callable[[Step], object], remove_most: bool
) -> Steps[Rotation]:
    """Make the steps of a rotation. Each can be repeated, and two programs may make the same one at once.

    Raises:
        BadValue: it would drop more than half of the tables, without ``remove_most``.
    """
    planned = yield from rotation(db, today, drop=drop, measures=False)
    if 2 * planned.drops > planned.tables and not remove_most:
        raise BadValue(
            f"{db.series!r}: a rotation would delete {planned.drops} of {planned.tables} tables with their items, so "
            "it changed nothing: check the clock of this computer, keep= and period=; if they are right, rotate with "
            "remove_most=True (--remove-most)"
        )
    for step in planned.steps:
        tell(step)
        store, past = db.store_of(step.period), step.period < today
        options = db.series.old if past else db.series.new
        if step.kind in ("create", "check"):
            yield Ask(store.create)
        if step.kind == "alter" or (step.kind == "create" and options is not None):
            yield Ask(partial(store.alter, options))
        if step.kind == "drop":
            yield Ask(store.drop)
    db.forget()
    return planned


def ignore(_step: Step) -> None:
    """Report nothing."""


def _step(db: "SeriesSteps[Any, Any]", kind: Kind, period: date, text: str = "") -> Step:
    return Step(kind, db.base.prefix + db.series.name_of(period), period, text)
