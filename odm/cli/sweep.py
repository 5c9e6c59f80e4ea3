"""`odm sweep`: list or remove the blobs of large values that no item refers to."""

import json

from attrs import asdict
from typer import echo

from odm.cli.locations import backend_at
from odm.cli.target import load_target
from odm.cli.usage import BadUsage, checked
from odm.stores.sync import Store


def sweep(target: str, place: str, blobs: str, *, grace: float, remove: bool, force: bool, as_json: bool) -> None:
    """Sweep the blobs of a table, and print the result.

    Args:
        target: ``module:table``.
        place: where the table is, in the syntax of `odm.cli.locations.store_at`.
        blobs: where its blobs are.
        grace: keep blobs younger than this, in hours.
        remove: remove the others, if no item refers to them.
        force: allow a grace below an hour.
        as_json: print JSON.

    Raises:
        BadUsage: there is no such table or location, or the grace is too short.
        OdmError: the table or the blobs cannot be read.
    """
    if grace < 1 and not force:
        raise BadUsage(
            f"--grace {grace:g}: give 1 hour or more, because a writer uploads a blob before the item that refers to "
            "it; if nobody writes, add --force"
        )
    found = load_target(target)
    backend, prefix = backend_at(place)
    with checked("--blobs: "):
        store = Store(found.table, backend, prefix=prefix, blobs=blobs)
    with store, checked():
        swept = store.sweep(grace=grace * 3600, remove=remove, force=force)
    if as_json:
        echo(json.dumps({"table": store.name, **asdict(swept)}, indent=2))
        return
    for name in swept.orphans:
        echo(f"{'removed' if remove else 'orphan'} {store.name}/{name}")
    count = len(swept.orphans)
    done = "removed" if remove else "found; to remove them, add --remove"
    echo(f"table {store.name}: {count} blob{'s' * (count != 1)} that no item refers to {done if count else 'found'}")
