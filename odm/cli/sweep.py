"""`odm sweep`: list or remove the blobs of large values that no item refers to."""

import json
from math import isfinite

from msgspec.structs import asdict
from typer import echo

from odm.cli.ask import NOT_CONFIRMED, agreed, number_of
from odm.cli.locations import backend_at
from odm.cli.target import load_target
from odm.cli.usage import BadUsage, checked
from odm.immutable import Immutable
from odm.procedures.upkeep.sweep import Swept
from odm.stores.sync import Store


class Options(Immutable):
    """How to sweep.

    Attributes:
        grace: keep blobs younger than this, in hours.
        remove: remove the others, if no item refers to them.
        remove_most: also if they are most of the blobs, or the table has no items.
        force: allow a grace below an hour.
        yes: do not ask.
    """

    grace: float
    remove: bool
    remove_most: bool
    force: bool
    yes: bool


def sweep(target: str, place: str, blobs: str, options: Options, *, as_json: bool) -> int:
    """Sweep the blobs of a table, ask before it removes any, and print the result.

    Args:
        target: ``module:table``.
        place: where the table is, in the syntax of `odm.cli.locations.store_at`.
        blobs: where its blobs are.
        options: how.
        as_json: print JSON.

    Returns:
        The exit code: 1 if the user did not confirm.

    Raises:
        BadUsage: there is no such table or location, or the grace is too short.
        OdmError: the table or the blobs cannot be read, the folder belongs to another table, or the sweep would remove
            most of the blobs.
    """
    grace = options.grace
    if not isfinite(grace) or (grace < 1 and not options.force):
        raise BadUsage(
            f"--grace {grace:g}: give 1 hour or more, because a writer uploads a blob before the item that refers to "
            "it; if nobody writes, add --force"
        )
    table = load_target(target).table
    backend, prefix = backend_at(place)
    with checked("--blobs: "):
        store = Store(table, backend, prefix=prefix, blobs=blobs)

    def confirm(report: Swept) -> bool:
        blobs_text = f"{len(report.orphans):,} of {number_of(report.blobs, 'blob')} of table {store.name}"
        return options.yes or agreed(f"Remove {blobs_text} ({report.bytes:,} bytes), which no item refers to?")

    with store:
        swept = store.sweep(
            grace=grace * 3600,
            remove=options.remove,
            force=options.force,
            remove_most=options.remove_most,
            confirm=confirm,
        )
    stop = options.remove and swept.removed < len(swept.orphans)
    if as_json:
        echo(json.dumps({"table": store.name, **asdict(swept)}, indent=2))
    else:
        _say(store.name, swept, asked=options.remove)
    if stop:
        echo(f"odm: table {store.name}: no blob was removed: the removal was {NOT_CONFIRMED}", err=True)
    return int(stop)


def _say(table: str, swept: Swept, *, asked: bool) -> None:
    for name in swept.orphans:
        echo(f"{'removed' if swept.removed else 'orphan'} {table}/{name}")
    done = "removed" if swept.removed else "found"
    more = "; to remove them, add --remove" if swept.orphans and not asked else ""
    count = number_of(len(swept.orphans), "blob")
    echo(f"table {table}: {count} that no item refers to {done}{more}")
