"""`odm scrub`: remove what writers that stopped halfway have left behind on Bigtable, and repair lost index rows."""

import json
import shlex

from attrs import asdict
from typer import echo

from odm.backends.bigtable import Bigtable
from odm.cli.target import load_target


def scrub(
    target: str,
    backend: Bigtable,
    *,
    prefix: str,
    expired: bool,
    repair: bool,
    rate: float | None,
    after: str | None,
    as_json: bool,
) -> None:
    """Scrub a table and its indexes, and print what was done.

    If it is stopped, it says on the error output how to go on.

    Args:
        target: ``module:table``.
        backend: the instance.
        prefix: that of the store.
        expired: also remove items whose TTL has passed.
        repair: also write index entries again that items list and that are missing.
        rate: rows a second at most.
        after: where to begin.
        as_json: print it as JSON.

    Raises:
        BadUsage: there is no such table among the models.
        OdmError: the models do not compile, or the tables cannot be read or changed.
    """
    from odm.backends.bigtable import scrub as procedure  # loads Google's packages

    found = load_target(target)
    far = procedure.Scrubbed(following=after)

    def tell(done: procedure.Scrubbed) -> None:
        nonlocal far
        far = done

    try:
        far = procedure.scrub(
            backend, found.table, prefix=prefix, expired=expired, repair=repair, rate=rate, after=after, tell=tell
        )
    except BaseException:
        if far.following is not None and far.following != after:
            echo(f"... {far}; to go on, add --after {shlex.quote(far.following)}", err=True)
        raise
    if as_json:
        numbers = asdict(far)
        del numbers["following"]
        echo(json.dumps({"table": prefix + found.schema.name, **numbers}, indent=2))
    else:
        echo(f"table {prefix + found.schema.name}: {far}")
