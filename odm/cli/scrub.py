"""`odm scrub`: remove what interrupted writers left behind on Bigtable, and repair lost index rows."""

import json
import shlex
from typing import TYPE_CHECKING

from msgspec.structs import asdict
from typer import echo

from odm.backends.bigtable import Bigtable
from odm.cli.ask import NOT_CONFIRMED, agreed, number_of
from odm.cli.target import load_target
from odm.cli.usage import checked
from odm.immutable import evolve

if TYPE_CHECKING:
    from odm.backends.bigtable.maintenance.scrub import Scrubbed


def scrub(  # noqa: PLR0913  # its options
    target: str,
    backend: Bigtable,
    *,
    prefix: str,
    expired: bool,
    repair: bool,
    rate: float | None,
    after: str | None,
    as_json: bool,
    remove_most: bool,
    yes: bool,
) -> int:
    """Count what a scrub removes from a table and its indexes, ask, scrub, and print the result.

    If it is interrupted, it prints on the error output how to continue.

    Args:
        target: ``module:table``.
        backend: the Bigtable instance.
        prefix: the store's prefix.
        expired: also remove items whose TTL has passed.
        repair: also write missing index entries that items list.
        rate: maximum rows per second.
        after: the position to start from.
        as_json: print JSON.
        remove_most: do not refuse if it removes most of the index columns or of the items.
        yes: do not ask.

    Returns:
        The exit code: 1 if it was refused, or the user did not confirm.

    Raises:
        BadUsage: the models have no such table, or ``after`` is of another one.
        OdmError: the models do not compile, or the tables cannot be read or changed.
    """
    from odm.backends.bigtable.maintenance import scrub as procedure  # imports Google's packages

    models = load_target(target)
    with checked(f"--after {after}: "):
        procedure.check_after(evolve(models.schema, name=prefix + models.schema.name), after)
    name = prefix + models.schema.name
    if not (yes and remove_most):
        looked = procedure.scrub(
            backend, models.table, prefix=prefix, expired=expired, rate=rate, after=after, dry_run=True
        )
        stop = "" if remove_most else _slip(looked)
        if not stop and not yes and _removals(looked) and not agreed(f"Remove {_removals(looked)} from table {name}?"):
            stop = f"the removal was {NOT_CONFIRMED}"
        if stop:
            echo(f"odm: table {name} is unchanged: {stop}", err=True)
            return 1
    far = procedure.Scrubbed(following=after)

    def tell(done: procedure.Scrubbed) -> None:
        nonlocal far
        far = done

    try:
        far = procedure.scrub(
            backend, models.table, prefix=prefix, expired=expired, repair=repair, rate=rate, after=after, tell=tell
        )
    except BaseException:
        if far.following is not None and far.following != after:
            echo(f"... {far}; to continue, add --after {shlex.quote(far.following)}", err=True)
        raise
    if as_json:
        numbers = asdict(far)
        for of_run in ("following", "entries", "items"):
            del numbers[of_run]
        echo(json.dumps({"table": name, **numbers}, indent=2))
    else:
        echo(f"table {name}: {far}")
    return 0


def _removals(looked: "Scrubbed") -> str:
    """What a scrub would remove, and of how much; "" if nothing."""
    columns = f"{looked.columns:,} of {number_of(looked.entries, 'index column')}"
    expired = f"{looked.expired:,} of {number_of(looked.items, 'item')}, which are expired"
    parts = {columns: looked.columns, number_of(looked.ghosts, "ghost"): looked.ghosts, expired: looked.expired}
    return ", ".join(text for text, count in parts.items() if count)


def _slip(looked: "Scrubbed") -> str:
    """Why a scrub looks like a slip; "" if it does not."""
    if 2 * looked.columns <= looked.entries and 2 * looked.expired <= looked.items:
        return ""
    return (
        f"a scrub would remove {_removals(looked)}: check that these are the models and the prefix of this table; if "
        "they are, as after odm drop-rows, add --remove-most"
    )
