"""`odm scrub`: remove what interrupted writers left behind on Bigtable, and repair lost index rows."""

import json
import shlex

from attrs import asdict, evolve
from typer import echo

from odm.backends.bigtable import Bigtable
from odm.cli.target import load_target
from odm.cli.usage import checked


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
    """Scrub a table and its indexes, and print the result.

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

    Raises:
        BadUsage: the models have no such table, or ``after`` is of another one.
        OdmError: the models do not compile, or the tables cannot be read or changed.
    """
    from odm.backends.bigtable import scrub as procedure  # imports Google's packages
    from odm.backends.bigtable.garbage import check_after

    found = load_target(target)
    with checked(f"--after {after}: "):
        check_after(evolve(found.schema, name=prefix + found.schema.name), after)
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
            echo(f"... {far}; to continue, add --after {shlex.quote(far.following)}", err=True)
        raise
    if as_json:
        numbers = asdict(far)
        del numbers["following"]
        echo(json.dumps({"table": prefix + found.schema.name, **numbers}, indent=2))
    else:
        echo(f"table {prefix + found.schema.name}: {far}")
