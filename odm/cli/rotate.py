"""`odm rotate`: make, change and drop the tables of a time series."""

import json

from typer import echo

from odm.cli.ask import NOT_CONFIRMED, agreed, number_of
from odm.cli.locations import backend_at
from odm.cli.target import load_series
from odm.immutable import Immutable
from odm.patterns.time_series import Rotation, Step


class Options(Immutable):
    """How to rotate.

    Attributes:
        drop: also drop the tables beyond ``keep``.
        remove_most: also if they are most of the tables.
        dry_run: only print the steps.
        yes: do not ask.
    """

    drop: bool
    remove_most: bool
    dry_run: bool
    yes: bool


def rotate(target: str, place: str, options: Options, *, as_json: bool) -> int:
    """Print the steps of a rotation, ask, and make them.

    Args:
        target: ``module:series``.
        place: a location, in the syntax of `odm.cli.locations.store_at`.
        options: how.
        as_json: print JSON.

    Returns:
        The exit code: 1 if the user did not confirm.

    Raises:
        BadUsage: there is no such series, or the location is not valid.
        OdmError: the series does not fit its entity, or a table cannot be read or changed.
    """
    series = load_series(target)
    backend, prefix = backend_at(place)
    with series.open(backend, prefix=prefix) as db:
        today = db.today()
        planned = db.rotation(drop=options.drop, now=today)
        if not as_json:
            echo(str(planned))
        refused = 2 * planned.drops > planned.tables and not options.remove_most  # and rotate() says why
        asks = bool(planned.changes) and not (options.dry_run or options.yes or refused)
        stop = asks and not agreed(_question(planned))
        if not stop and not options.dry_run:
            planned = db.rotate(drop=options.drop, now=today, tell=_tell, remove_most=options.remove_most)
    if as_json:
        steps = [{"kind": step.kind, "table": step.table, "text": step.text} for step in planned.steps]
        echo(json.dumps({"done": not (stop or options.dry_run), "steps": steps}, indent=2))
    if stop:
        echo(f"odm: the tables are unchanged: the steps were {NOT_CONFIRMED}", err=True)
    return int(stop)


def _tell(step: Step) -> None:
    """Print a step that begins."""
    if step.kind in ("create", "alter", "drop"):
        echo(f"... {step.kind} {step.table}", err=True)


def _question(planned: Rotation) -> str:
    drops = f", {planned.drops} of which delete a table with its items" if planned.drops else ""
    return f"Make {number_of(len(planned.changes), 'change')}{drops}?"
